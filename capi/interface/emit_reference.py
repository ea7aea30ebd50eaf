"""docs/reference.md: every field and value, as tables."""
import re


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def show(interface, field):
    """A default as C++ and Python show it."""
    if field.default is None:
        return ""
    if field.type == "text":
        return f'`"{field.default}"`'
    return f"`{str(field.default).lower() if field.type == 'bool' else field.default}`"


def page(interface):
    out = ["# Reference: configurations, results and their values", "",
           "<!-- Made by capi/interface/generate.py from interface.toml: change that. -->", "",
           "Names are the same in C++, C, Fortran and Python; how each language spells them, the rows below each title say. Functions are",
           "documented in the headers of [`include/weir`](../include/weir), from which `cmake --build build --target weir_docs` makes pages.", "", "## Structs", ""]
    for struct in interface.structs:
        out += [f"### {struct.name}", "", f"`{struct.c_name}` in C." if struct.is_array else f"`weir::{struct.name}` in C++, `{struct.c_name}` in C.", "", cell(struct.doc), "",
                "| field | type | " + ("default | " if struct.is_config else "") + "what |", "| --- | --- | " + ("--- | " if struct.is_config else "") + "--- |"]
        for field in struct.fields:
            type_ = f"[{field.type}](#{field.type.lower()})" if interface.enum(field.type) else {"view": "text", "indices": "uint32 array", "values": "array"}.get(field.type, field.type)
            if field.length:
                type_ += f" × {interface.length(field)}"
            out.append(f"| `{field.name}` | {type_} | " + (f"{show(interface, field)} | " if struct.is_config else "") + f"{cell(field.doc)} |")
        out.append("")
    out += ["## Enumerations", ""]
    for enum in interface.enums:
        out += [f"### {enum.name}", "", f"`weir::{enum.name}` in C++, `{enum.c_name}` in C, where the values are `{enum.constant(enum.values[0].name)}` and so on.", "",
                *[line for paragraph in enum.doc.split("\n\n") for line in (cell(paragraph), "")], "| name | value | what |", "| --- | --- | --- |"]
        out += [f"| `{value.name}` | {value.value} | {cell(value.doc)} |" for value in enum.values] + [""]
    return out[:-1]


def files(interface):
    return {"docs/reference.md": page(interface)}
