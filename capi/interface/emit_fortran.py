"""Makes Fortran's constants, derived types, bind(C) structs and interfaces: weir_types.f90 and weir_c.f90."""
import re
import textwrap

import model
from model import CONSTANTS, ROOT

WIDTH = 132
HEADERS = ("weir.h", "embedding.h", "checkpoint.h", "fusion.h", "optim.h", "sparse_adam.h", "sums.h")
TEXT_LENGTH = 64  # of texts in configurations
LONG_TEXT_LENGTH = 4096  # of texts that may be paths: Linux accepts no longer path
INT64, FLOAT64, INT32, POINTER = "integer(c_int64_t)", "real(c_double)", "integer(c_int32_t)", "type(c_ptr)"
# The type of a field in Fortran and in C. Types that are not here are enumerations.
FIELDS = {"int64": ("integer(int64)", INT64), "uint64": ("integer(int64)", INT64), "float64": ("real(real64)", FLOAT64),
          "int32": ("integer", INT32), "bool": ("logical", INT32), "text": ("character(len=:), allocatable", POINTER),
          "view": ("character(len=:), allocatable", POINTER), "indices": (None, POINTER), "values": (None, POINTER)}
SCALARS = {"int": "integer(c_int)", "int32_t": INT32, "int64_t": INT64, "double": FLOAT64, "weir_status": "integer(c_int)"}
RESULTS = {"weir_status": "integer(c_int)", "const char*": POINTER}
ISO_C_BINDING = "c_char, c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_null_ptr, c_ptr, c_size_t, c_sizeof"
FUNCTION_POINTERS = {"weir_log_function", "weir_operator_body"}
# Arguments that are arrays, although their type does not show it.
ARRAYS = {"ranks", "shares", "sums", "steps", "blocks", "tensors", "parts", "layers", "rates"}


def wrap(text, width, first, rest):
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False)


def doc_lines(text, indent):
    """Returns `text` as a comment above the code that follows."""
    lines = []
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            lines.append(f"{indent}!>")
        lines += wrap(paragraph, WIDTH, f"{indent}!> ", f"{indent}!> ")
    return lines


def with_doc(code, doc, indent):
    """Returns `code` with the comment behind it if both fit on a line, else above it."""
    if not doc:
        return [code]
    line = f"{code} !< {doc}"
    return [line] if len(line) <= WIDTH else [*doc_lines(doc, indent), code]


def statement(code, indent):
    """Splits a statement into as many lines as it needs."""
    lines = wrap(code, WIDTH - 2, indent, indent + "  ")
    return [line + " &" for line in lines[:-1]] + lines[-1:]


def short(name):
    """Turns weir_plan_run into plan_run."""
    return name.removeprefix("weir_")


def kinds(declaration):
    """Returns the names from iso_c_binding and from this module that a declaration uses."""
    return re.findall(r"\bc_\w+", declaration)


def statuses():
    """Returns (name, value, text) of every status."""
    header = (ROOT / "include/weir/status.h").read_text()
    return [(f"WEIR_{name}", value, text) for name, value, text in re.findall(r'X\((\w+), (\d+), "([^"]*)"\)', header)]


def type_of(struct, field):
    if struct.is_config and field.type == "text":
        return f"character(len=WEIR_{'LONG_' if field.long else ''}TEXT_LENGTH)"
    return FIELDS[field.type][0] if field.type in FIELDS else "integer"


def default_of(interface, struct, field):
    if not struct.is_config:
        return {"text": "", "view": "", "bool": " = .false."}.get(field.type, " = 0")
    if interface.enum(field.type):
        return f" = {interface.enum(field.type).constant(field.default)}"
    if field.type == "text":
        return f" = '{field.default}'"
    if field.type == "bool":
        return f" = .{str(field.default).lower()}."
    return f" = {field.default}" + {"float64": "_real64", "int64": "_int64", "uint64": "_int64"}.get(field.type, "")


def field_doc(interface, field):
    """Returns a field's description, preceded by the constants that it takes."""
    enum = interface.enum(field.type)
    doc = field.doc.replace("NonFinite::skip", "WEIR_NON_FINITE_SKIP").replace("Routing::by_node", "WEIR_ROUTING_BY_NODE")
    return (f"{enum.constant(enum.values[0].name)}, ...: " if enum else "") + doc


def types_f90(interface):
    out = ["! weir_types.f90: the constants, configurations and results of Fortran. Used through module weir.",
           "! Made by capi/interface/generate.py from interface.toml and status.h. Edit those files.",
           "module weir_types",
           "  use, intrinsic :: iso_fortran_env, only: int64, real64",
           "  implicit none",
           "  public",
           "  private :: int64, real64",
           "",
           "  !> Statuses: what calls return in ierr."]
    out += [f"  integer, parameter :: {name} = {value} !< {text}" for name, value, text in statuses()] + [""]
    for enum in interface.enums:
        out += [*doc_lines(enum.doc, "  "), ""]
        for value in enum.values:
            out += with_doc(f"  integer, parameter :: {enum.constant(value.name)} = {value.value}", value.doc, "  ")
        out.append("")
    for name, of in CONSTANTS.items():
        values = interface.enum(of).values
        first = interface.enum(of).constant(values[0].name)
        out += [f"  integer, parameter :: WEIR_{name.upper()} = {len(values)} !< number of values of {first}, ...", ""]
    out += [f"  integer, parameter :: WEIR_TEXT_LENGTH = {TEXT_LENGTH} !< of texts in configurations; longer ones are cut",
            f"  integer, parameter :: WEIR_LONG_TEXT_LENGTH = {LONG_TEXT_LENGTH} !< length of texts that may be paths; no path is longer", ""]
    for struct in (struct for struct in interface.structs if not struct.is_array):
        out += [*doc_lines(struct.doc, "  "), f"  type :: {struct.c_name}"]
        for field in struct.fields:
            range_ = f"(0:{interface.length(field) - 1})" if field.length else ""
            code = f"    {type_of(struct, field)} :: {field.name}{range_}{default_of(interface, struct, field)}"
            out += with_doc(code, field_doc(interface, field), "    ")
        out += ["  end type", ""]
    return out + ["end module"]


def argument(interface, given):
    """Returns the declaration of a dummy argument. None is intent(out), because calls that fail must not change their arguments."""
    base, stars = given.type.rstrip("*"), given.type.count("*")
    if base in FUNCTION_POINTERS:
        return "type(c_funptr), value"
    if any(struct.c_name == base for struct in interface.structs) and given.name not in ARRAYS:
        return f"type(c_{short(base)}), intent({'in' if given.const else 'inout'})"
    if stars == 0:
        return f"{SCALARS[base]}, value"
    if base == "char" and stars == 1:
        return "character(kind=c_char), intent(in)"
    if base in SCALARS and stars == 1 and not given.const and given.name not in ARRAYS:
        return f"{SCALARS[base]}, intent(inout)"
    if (base.startswith("weir_") or base == "char") and stars == 2 and given.name not in ARRAYS:
        return "type(c_ptr), intent(inout)"
    return "type(c_ptr), value"


def function_lines(interface, function):
    kind = "subroutine" if function.result == "void" else "function"
    head = f"{kind} c_{short(function.name)}({', '.join(item.name for item in function.arguments)}) bind(C, name='{function.name}')"
    declarations = []
    for item in function.arguments:
        declaration = argument(interface, item)
        declarations.append(f"{declaration} :: {item.name}" + ("(*)" if declaration.startswith("character") else ""))
    if kind == "function":
        head += " result(returned)"
        declarations.append(f"{RESULTS[function.result]} :: returned")
    needed = sorted({kind for declaration in declarations for kind in kinds(declaration.split("::")[0])})
    return [*statement(head, "    "), *statement("import :: " + ", ".join(needed), "      "),
            *(f"      {declaration}" for declaration in declarations), f"    end {kind}"]


def struct_lines(interface, struct):
    out = [f"  type, bind(C) :: c_{short(struct.c_name)}", "    integer(c_size_t) :: struct_size = 0"]
    for field in struct.c_fields:
        type_ = FIELDS[field.type][1] if field.type in FIELDS else INT32
        length = f"({interface.length(field)})" if field.length else ""
        out.append(f"    {type_} :: {field.name}{length} = {'c_null_ptr' if type_ == POINTER else 0}")
    if interface.needs_reserved(struct):
        out.append(f"    {INT32} :: reserved = 0")
    return out + ["  end type", ""]


def texts_of(struct):
    return [field for field in struct.fields if field.type == "text"]


def to_c_lines(struct):
    texts = texts_of(struct)
    length = f"WEIR_{'LONG_' if any(field.long for field in texts) else ''}TEXT_LENGTH"
    out = [f"  !> `texts`, {length} + 1 characters for each of {short(struct.c_name)}_texts, must live as long as `c` is in use."] if texts else []
    out += [f"  subroutine {short(struct.c_name)}_to_c(from, c{', texts' if texts else ''})",
            f"    type({struct.c_name}), intent(in) :: from",
            f"    type(c_{short(struct.c_name)}), intent(out) :: c",
            *(["    character(kind=c_char), intent(out), target :: texts(:, :)"] if texts else []),
            "",
            "    c%struct_size = c_sizeof(c)"]
    for field in struct.fields:
        value = f"from%{field.name}"
        if field.type == "text":
            value = f"c_text({value}, texts(:, {texts.index(field) + 1}))"
        elif field.type == "bool":
            value = f"merge(1, 0, {value})"
        out.append(f"    c%{field.name} = {value}")
    return out + ["  end subroutine", ""]


def from_c_lines(struct):
    out = [f"  subroutine {short(struct.c_name)}_from_c(c, to)",
           f"    type(c_{short(struct.c_name)}), intent(in) :: c",
           f"    type({struct.c_name}), intent(inout) :: to",
           ""]
    for field in struct.fields:
        value = f"c%{field.name}"
        if field.type in ("text", "view"):
            value = f"text_of({value})"
        elif field.type == "bool":
            value += " /= 0"
        out.append(f"    to%{field.name} = {value}")
    return out + ["  end subroutine", ""]


def c_f90(interface):
    functions = [function for header in HEADERS for function in model.functions(header)]
    body = []
    for struct in interface.structs:
        body += struct_lines(interface, struct)
    counted = [struct for struct in interface.structs if struct.is_config and not struct.is_array and texts_of(struct)]
    body.append("  ! How many texts to_c() wants.")
    body += [f"  integer, parameter :: {short(struct.c_name)}_texts = {len(texts_of(struct))}" for struct in counted] + [""]
    body.append("  interface")
    for function in functions:
        body += function_lines(interface, function)
    body += ["  end interface", ""]
    plain = [struct for struct in interface.structs if not struct.is_array]
    configs = [struct for struct in plain if struct.is_config]
    for name, structs in (("to_c", configs), ("from_c", plain)):
        procedures = ", ".join(f"{short(struct.c_name)}_{name}" for struct in structs)
        body += [f"  interface {name}", *statement(f"module procedure {procedures}", "    "), "  end interface", ""]
    body += ["contains", ""]
    for struct in configs:
        body += to_c_lines(struct)
    for struct in plain:
        body += from_c_lines(struct)

    own = [f"c_{short(item.c_name)}" for item in interface.structs] + [f"c_{short(item.name)}" for item in functions]
    own += [f"{short(struct.c_name)}_texts" for struct in counted]
    return ["! weir_c.f90: the C interface as Fortran sees it, and its structs to those of weir_types and back. Not for users.",
            "! Made by capi/interface/generate.py from interface.toml and the headers in include/weir. Edit those files.",
            "module weir_c",
            *statement(f"use, intrinsic :: iso_c_binding, only: {ISO_C_BINDING}", "  "),
            "  use weir_text, only: c_text, text_of",
            "  use weir_types",
            "  implicit none",
            "  private",
            *statement("public :: " + ", ".join([*own, "to_c", "from_c"]), "  "),
            "",
            *body,
            "end module"]


def built(interface):
    return {"fortran/weir_types.f90": types_f90(interface), "fortran/weir_c.f90": c_f90(interface)}
