"""Makes docs/reference.md: tables of every field, value and status."""
import re

import emit_python
import model


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def show(interface, field):
    """Returns a default as C++ and Python show it."""
    if field.default is None:
        return ""
    if field.type == "text":
        return f'`"{field.default}"`'
    return f"`{str(field.default).lower() if field.type == 'bool' else field.default}`"


def types_of(struct):
    """Returns the struct's name in each language."""
    if not struct.is_array:
        return f"`weir::{struct.name}` in C++, `weir.{struct.name}` in Python, `{struct.c_name}` in C and Fortran."
    function = model.snake(struct.name)
    return f"`{struct.c_name}` in C, `weir.{struct.name}` in Python. In C++ and Fortran, `{function}` of the plan gives the same."


def page(interface):
    out = ["# Reference: configurations, results and their values", "",
           "<!-- Made by capi/interface/generate.py from interface.toml. Edit that file. -->", "",
           "Fields and values have the same names in C++, C, Fortran and Python. In C and Fortran, a value is a constant such as `WEIR_FLOAT32`. The C and C++ functions are",
           "documented in the headers of [`include/weir`](../include/weir), from which `cmake --build build --target weir_docs` makes pages. There are lists of",
           "[Fortran's procedures](../capi/fortran/README.md#procedures) and of [Python's classes](../capi/python/README.md#classes-and-functions).", "", "## Structs", ""]
    for struct in interface.structs:
        out += [f"### {struct.name}", "", types_of(struct), "", cell(struct.doc), "",
                "| field | type | " + ("default | " if struct.is_config else "") + "what |", "| --- | --- | " + ("--- | " if struct.is_config else "") + "--- |"]
        for field in struct.fields:
            type_ = f"[{field.type}](#{field.type.lower()})" if interface.enum(field.type) else {"view": "text", "indices": "uint32 array", "values": "array"}.get(field.type, field.type)
            if field.length:
                type_ += f" × {interface.length(field)}"
            out.append(f"| `{field.name}` | {type_} | " + (f"{show(interface, field)} | " if struct.is_config else "") + f"{cell(field.doc)} |")
        out.append("")
    out += ["## Enumerations", ""]
    for enum in interface.enums:
        out += [f"### {enum.name}", "", f"`weir::{enum.name}` in C++, `weir.{enum.name}` in Python, `{enum.c_name}` in C. In C and Fortran the values are `{enum.constant(enum.values[0].name)}` and so on.", "",
                *[line for paragraph in enum.doc.split("\n\n") for line in (cell(paragraph), "")], "| name | value | what |", "| --- | --- | --- |"]
        out += [f"| `{value.name}` | {value.value} | {cell(value.doc)} |" for value in enum.values] + [""]
    return out + status_lines()


def status_lines():
    """Returns the table of statuses: number, and name in each language."""
    out = ["## Status codes", "",
           "C functions return a `weir_status`, and Fortran's `ierr` is one. In C++, `status()` of a `weir::Error` gives it; in Python each has an exception of its own,",
           "a subclass of `weir.Error`, whose `status` gives it as a `weir.Status`. [When something goes wrong](troubleshooting.md) says what to do.", "",
           "| number | C, C++, Fortran | Python: exception | Python: `weir.Status` | what |", "| --- | --- | --- | --- | --- |"]
    for name, number, text in emit_python.statuses():
        exception = "" if name == "OK" else f"`weir.{emit_python.error_name(name)}`"
        out.append(f"| {number} | `WEIR_{name if name == 'OK' else 'ERR_' + name}` | {exception} | `{name}` | {cell(text)} |")
    return out


def files(interface):
    return {"docs/reference.md": page(interface)}
