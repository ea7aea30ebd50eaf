"""Makes include/weir/types.h, include/weir/types.hpp, src/base/fields.hpp and capi/convert.hpp."""
import re
import textwrap

from model import CONSTANTS

WIDTH = 132
C_TYPES = {"int64": "int64_t", "uint64": "int64_t", "float64": "double", "int32": "int32_t", "bool": "int32_t", "text": "const char*", "view": "const char*", "indices": "const uint32_t*", "values": "const void*"}
CPP_TYPES = {"int64": "std::int64_t", "uint64": "std::uint64_t", "float64": "double", "int32": "int", "bool": "bool", "text": "std::string", "view": "std::string_view"}


def wrapped(text, first, rest, last=""):
    """Returns `text` as a comment. The first line begins with `first`, others with `rest`. `last` ends it."""
    lines = []
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            lines.append(rest.rstrip())
        lines += textwrap.wrap(paragraph, WIDTH - len(last), initial_indent=first if number == 0 else rest, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False)
    lines[-1] += last
    return lines


def c_comment(text, indent=""):
    return wrapped(text, f"{indent}/** ", f"{indent} *  ", " */")


def cpp_comment(text, indent=""):
    return wrapped(text, f"{indent}/// ", f"{indent}/// ")


def with_comment(code, doc, before, behind):
    """Returns `code` with the comment behind it if both fit on a line, else above it."""
    if not doc:
        return [code]
    line = code + behind(doc)
    indent = code[:len(code) - len(code.lstrip())]
    return [line] if len(line) <= WIDTH and "\n" not in doc else [*before(doc, indent), code]


def c_line(code, doc):
    return with_comment(code, doc, c_comment, lambda text: f" /**< {text} */")


def cpp_line(code, doc):
    return with_comment(code, doc, cpp_comment, lambda text: f"  ///< {text}")


def c_doc(interface, field):
    """Returns a field's description, preceded by its type if the C type does not show it."""
    enum = interface.enum(field.type)
    prefix = f"{enum.c_name}: " if enum else "nonzero: " if field.type == "bool" else ""
    suffix = "; copied" if field.type == "text" and field.default is not None else ""
    return prefix + field.doc.replace("NonFinite::skip", "WEIR_NON_FINITE_SKIP").replace("Routing::by_node", "WEIR_ROUTING_BY_NODE") + suffix


def c_default(interface, field):
    enum = interface.enum(field.type)
    if enum:
        return enum.constant(field.default)
    if field.type == "text":
        return f'"{field.default}"'
    if field.type == "bool":
        return "1" if field.default else "0"
    return str(field.default)


BEHIND = re.compile(r"(.*?\S)( ?)( ///< .*| /\*\*< .*\*/)")


def aligned(lines):
    """Aligns the comments behind consecutive lines in one column, if all lines stay short enough."""
    out, run = [], []

    def flush():
        column = max((len(code) for code, _ in run), default=0)
        fits = all(column + len(comment) <= WIDTH for _, comment in run)
        out.extend(f"{code:<{column}}{comment}" if fits else code + comment for code, comment in run)
        run.clear()

    for line in lines:
        match = BEHIND.fullmatch(line)
        if match and not line.lstrip().startswith(("///", "/**")):
            run.append((match[1], match[2] + match[3]))
        else:
            flush()
            out.append(line)
    flush()
    return out


def types_h(interface):
    out = ["/* weir/types.h: the enumerations and structs of the C interface. Included by weir/weir.h.",
           " * Made by capi/interface/generate.py from interface.toml. Edit that file. */",
           "#ifndef WEIR_TYPES_H", "#define WEIR_TYPES_H", "", "#include <stddef.h>", "#include <stdint.h>", ""]
    for enum in interface.enums:
        out += c_comment(enum.doc.replace("WEIR_ERR", "WEIR_ERR"))
        out.append(f"typedef enum {enum.c_name} {{")
        for value in enum.values:
            comma = "," if value is not enum.values[-1] else ""
            out += c_line(f"  {enum.constant(value.name)} = {value.value}{comma}", value.doc)
        out += [f"}} {enum.c_name};", ""]
    for name, of in CONSTANTS.items():
        out += [f"#define WEIR_{name.upper()} {len(interface.enum(of).values)} /**< number of values of {interface.enum(of).c_name} */", ""]
    for struct in interface.structs:
        initializer = f"{struct.c_name.upper()}_INIT"
        out += c_comment(struct.doc + (f" Start from {initializer}." if struct.is_config else " Set struct_size to its size before a call fills it."))
        out += [f"typedef struct {struct.c_name} {{", "  size_t struct_size;"]
        for field in struct.c_fields:
            type_ = C_TYPES.get(field.type, "int32_t")
            array = f"[WEIR_{field.length.upper()}]" if field.length else ""
            out += c_line(f"  {type_} {field.name}{array};", c_doc(interface, field))
        if interface.needs_reserved(struct):
            out.append("  int32_t reserved; /**< 0 */")
        out += [f"}} {struct.c_name};", ""]
        if struct.is_config:
            values = [f"sizeof({struct.c_name})", *(c_default(interface, field) for field in struct.c_fields), *(["0"] if interface.needs_reserved(struct) else [])]
            body = textwrap.wrap(", ".join(values), WIDTH - 8, break_on_hyphens=False)
            lines = [f"#define {initializer}", "  {", *("    " + line for line in body)]
            out += [f"{line:<{WIDTH - 2}} \\" for line in lines] + ["  }", ""]
    return out + ["#endif"]


def cpp_default(interface, field):
    if field.default is None:
        return "{}" if field.length else {"int64": " = 0", "uint64": " = 0", "float64": " = 0", "int32": " = 0", "bool": " = false"}.get(field.type, "")
    if interface.enum(field.type):
        return f" = {field.type}::{field.default}"
    if field.type == "text":
        return f' = "{field.default}"'
    if field.type == "bool":
        return f" = {str(field.default).lower()}"
    return f" = {field.default}"


def types_hpp(interface):
    out = ["// weir/types.hpp: the enumerations and structs of the C++ interface. Included by weir/weir.hpp.",
           "// Made by capi/interface/generate.py from interface.toml. Edit that file.",
           "#ifndef WEIR_TYPES_HPP", "#define WEIR_TYPES_HPP", "", "#include <array>", "#include <cstdint>", "#include <string>", "#include <string_view>", "", "namespace weir {", ""]
    for enum in interface.enums:
        out += cpp_comment(enum.doc)
        if any(value.doc for value in enum.values):
            out.append(f"enum class {enum.name} : std::int32_t {{")
            for value in enum.values:
                comma = "," if value is not enum.values[-1] else ""
                out += cpp_line(f"  {value.name} = {value.value}{comma}", value.doc)
            out += ["};", ""]
        else:
            out += [f"enum class {enum.name} : std::int32_t {{ " + ", ".join(f"{value.name} = {value.value}" for value in enum.values) + " };", ""]
    for name, of in CONSTANTS.items():
        out += [f"inline constexpr int {name} = {len(interface.enum(of).values)};  ///< number of values of {of}", ""]
    for struct in (struct for struct in interface.structs if not struct.is_array):
        out += cpp_comment(struct.doc)
        out.append(f"struct {struct.name} {{")
        for field in struct.fields:
            type_ = CPP_TYPES.get(field.type, field.type)
            if field.length:
                type_ = f"std::array<{type_}, {field.length}>"
            out += cpp_line(f"  {type_} {field.name}{cpp_default(interface, field)};", field.doc)
        out += ["};", ""]
    return out + ["}  // namespace weir", "", "#endif"]


def fields_hpp(interface):
    out = ["// fields.hpp: names of enumerators, and the fields of configurations with their limits, for checks, comparison and messages.",
           "// Made by capi/interface/generate.py from interface.toml. Edit that file.",
           "#pragma once", "", "#include <array>", "#include <limits>", "#include <string_view>", "#include <weir/types.hpp>", "", "namespace weir {", "",
           "/// The names of an enumeration's values, which are 0, 1, 2, ...", "template <class Enum>", "inline constexpr std::array<std::string_view, 0> names_of{};", "// clang-format off"]
    for enum in interface.enums:
        names = ", ".join(f'"{value.text}"' for value in enum.values)
        out += ["template <>", f"inline constexpr std::array<std::string_view, {len(enum.values)}> names_of<{enum.name}> = {{{names}}};"]
    out += ["// clang-format on", "", "/// Describes a field.", "struct FieldInfo {", "  std::string_view name;",
            "  bool agreed = true;  ///< equal on all ranks", "  double least = -std::numeric_limits<double>::infinity();",
            "  double most = std::numeric_limits<double>::infinity();", '  std::string_view most_text{};  ///< as text: "2^48"',
            '  std::string_view example{};  ///< a sensible value; empty where any is', "};", ""]
    for struct in (struct for struct in interface.structs if struct.is_config):
        out += [f"/// visit(FieldInfo, value) for every field, in the order of the struct.", "template <class Visit>", "// clang-format off", f"void visit_fields(const {struct.name}& config, Visit&& visit) {{"]
        for field in struct.fields:
            parts = [f'.name = "{field.name}"']
            if not field.agreed:
                parts.append(".agreed = false")
            if field.least is not None:
                parts.append(f".least = {field.least}")
            if field.most is not None:
                limit = field.limit(field.most)
                parts += [f".most = {'0x1p' + str(limit.bit_length() - 1) if str(field.most).startswith('2^') else limit}", f'.most_text = "{field.most}"']
            if field.example is not None:
                parts.append(f'.example = "{field.example}"')
            out.append(f"  visit(FieldInfo{{{', '.join(parts)}}}, config.{field.name});")
        out += ["}", "// clang-format on", ""]
    return out + ["}  // namespace weir"]


def convert_hpp(interface):
    out = ["// convert.hpp: structs of C to those of C++ and back.", "// Made by capi/interface/generate.py from interface.toml. Edit that file.",
           "#pragma once", "", "#include <weir/types.h>", "", "#include <algorithm>", "#include <weir/types.hpp>", "", "namespace weir::capi {", ""]
    for struct in (struct for struct in interface.structs if not struct.is_array):
        if struct.is_config:
            out += [f"inline {struct.name} from_c(const {struct.c_name}& c) {{", f"  {struct.name} config;"]
            for field in struct.fields:
                value = f"c.{field.name}"
                if interface.enum(field.type):
                    value = f"static_cast<{field.type}>({value})"
                elif field.type == "text":
                    value = f'{value} != nullptr ? {value} : ""'
                elif field.type == "bool":
                    value = f"{value} != 0"
                elif field.type == "uint64":
                    value = f"static_cast<std::uint64_t>({value})"
                out.append(f"  config.{field.name} = {value};")
            out += ["  return config;", "}", ""]
        texts = " Its texts are those of `full`." if any(field.type == "text" for field in struct.fields) else ""
        out += [f"/// `struct_size` is left to the caller.{texts}", f"inline {struct.c_name} to_c(const {struct.name}& full) {{", f"  {struct.c_name} c{{}};"]
        for field in struct.fields:
            value = f"full.{field.name}"
            if field.length:
                out.append(f"  std::copy({value}.begin(), {value}.end(), c.{field.name});")
                continue
            if interface.enum(field.type):
                value = f"static_cast<std::int32_t>({value})"
            elif field.type == "text":
                value += ".c_str()"
            elif field.type == "view":
                value += ".data()"
            elif field.type == "bool":
                value += " ? 1 : 0"
            elif field.type == "uint64":
                value = f"static_cast<std::int64_t>({value})"
            out.append(f"  c.{field.name} = {value};")
        out += ["  return c;", "}", ""]
    return out + ["}  // namespace weir::capi"]


def files(interface):
    return {"include/weir/types.h": aligned(types_h(interface)), "include/weir/types.hpp": aligned(types_hpp(interface))}


def built(interface):
    return {"base/fields.hpp": fields_hpp(interface), "capi/convert.hpp": convert_hpp(interface)}
