"""capi/fortran: weir_types.f90, weir_c.f90 and weir_plan_arrays.inc."""
import re
import textwrap

import model
from model import CONSTANTS, ROOT

WIDTH = 132
HEADERS = ("weir.h", "embedding.h")
TEXT_LENGTH = 64  # of texts in configurations
FIELD_TYPES = {"int64": "integer(int64)", "uint64": "integer(int64)", "float64": "real(real64)", "int32": "integer", "bool": "logical", "text": "character(len=:), allocatable", "view": "character(len=:), allocatable"}
C_FIELD_TYPES = {"int64": "integer(c_int64_t)", "uint64": "integer(c_int64_t)", "float64": "real(c_double)", "int32": "integer(c_int32_t)", "bool": "integer(c_int32_t)", "text": "type(c_ptr)", "view": "type(c_ptr)", "indices": "type(c_ptr)", "values": "type(c_ptr)"}
SCALARS = {"int": "integer(c_int)", "int32_t": "integer(c_int32_t)", "int64_t": "integer(c_int64_t)", "double": "real(c_double)", "weir_status": "integer(c_int)"}
FUNCTION_POINTERS = {"weir_log_function"}
ARRAYS = {"ranks", "shares"}  # arguments whose type does not say that they are more than one
RANKS = (1, 2, 3)


def doc_lines(text, indent):
    """`text` as the comment above what follows."""
    lines = []
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            lines.append(f"{indent}!>")
        lines += textwrap.wrap(paragraph, WIDTH, initial_indent=f"{indent}!> ", subsequent_indent=f"{indent}!> ", break_on_hyphens=False, break_long_words=False)
    return lines


def wrapped(code, indent):
    """A statement on as many lines as it needs."""
    lines = textwrap.wrap(code, WIDTH - 2, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False, break_long_words=False)
    return [line + " &" for line in lines[:-1]] + lines[-1:]


def statuses():
    """(name, value, text) of every status."""
    header = (ROOT / "include/weir/status.h").read_text()
    return [(f"WEIR_{name}", int(value), text) for name, value, text in re.findall(r'X\((\w+), (\d+), "([^"]*)"\)', header)]


def range_of(interface, field):
    return f"(0:{interface.length(field) - 1})" if field.length else ""


def default_of(interface, struct, field):
    if not struct.is_config:
        if field.type in ("text", "view"):
            return ""
        return " = " + {"float64": "0", "bool": ".false."}.get(field.type, "0")
    if interface.enum(field.type):
        return f" = {interface.enum(field.type).constant(field.default)}"
    if field.type == "text":
        return f" = '{field.default}'"
    if field.type == "bool":
        return f" = .{str(field.default).lower()}."
    if field.type == "float64":
        return f" = {field.default!r}_real64"
    return f" = {field.default}" + ("_int64" if field.type in ("int64", "uint64") else "")


def field_doc(interface, field):
    """What a field is, after the constants that it takes."""
    enum = interface.enum(field.type)
    doc = field.doc.replace("NonFinite::skip", "WEIR_NON_FINITE_SKIP").replace("Routing::by_node", "WEIR_ROUTING_BY_NODE")
    return (f"{enum.constant(enum.values[0].name)}, ...: " if enum else "") + doc


def types_f90(interface):
    out = ["! weir_types.f90: the constants, configurations and results of Fortran. Used through module weir.",
           "! Made by capi/interface/generate.py from interface.toml and status.h: change those.",
           "module weir_types", "  use, intrinsic :: iso_fortran_env, only: int64, real64", "  implicit none", "  public", "  private :: int64, real64", "",
           "  !> Statuses: what calls return in ierr."]
    for name, value, text in statuses():
        out.append(f"  integer, parameter :: {name} = {value} !< {text}")
    out.append("")
    for enum in interface.enums:
        out += [*doc_lines(enum.doc, "  "), ""]
        for value in enum.values:
            code = f"  integer, parameter :: {enum.constant(value.name)} = {value.value}"
            if value.doc and len(f"{code} !< {value.doc}") > WIDTH:
                out += [*doc_lines(value.doc, "  "), code]
            else:
                out.append(code + (f" !< {value.doc}" if value.doc else ""))
        out.append("")
    for name, of in CONSTANTS.items():
        out += [f"  integer, parameter :: WEIR_{name.upper()} = {len(interface.enum(of).values)} !< values of WEIR_{of.upper()}_SELF, ...", ""]
    out += [f"  integer, parameter :: WEIR_TEXT_LENGTH = {TEXT_LENGTH} !< of texts in configurations; longer ones are cut", ""]
    for struct in (struct for struct in interface.structs if not struct.is_array):
        out += doc_lines(struct.doc, "  ") + [f"  type :: {struct.c_name}"]
        for field in struct.fields:
            type_ = "character(len=WEIR_TEXT_LENGTH)" if struct.is_config and field.type == "text" else FIELD_TYPES.get(field.type, "integer")
            code = f"    {type_} :: {field.name}{range_of(interface, field)}{default_of(interface, struct, field)}"
            doc = field_doc(interface, field)
            if doc and len(f"{code} !< {doc}") <= WIDTH:
                out.append(f"{code} !< {doc}")
            else:
                out += (doc_lines(doc, "    ") if doc else []) + [code]
        out += ["  end type", ""]
    return out + ["end module"]


def struct_name(c_name):
    """weir_statistics -> c_statistics"""
    return "c_" + c_name.removeprefix("weir_")


def argument(interface, argument_):
    """(declaration, what it needs from the host module) of a dummy argument. None is intent(out): calls that fail leave it as it was."""
    base, stars = argument_.type.rstrip("*"), argument_.type.count("*")
    if base in FUNCTION_POINTERS:
        return "type(c_funptr), value", ["c_funptr"]
    if any(struct.c_name == base for struct in interface.structs):
        return f"type({struct_name(base)}), intent({'in' if argument_.const else 'inout'})", [struct_name(base)]
    if stars == 0:
        kind = SCALARS[base]
        return f"{kind}, value", re.findall(r"\((\w+)\)", kind)
    if base == "char" and stars == 1:
        return "character(kind=c_char), intent(in)", ["c_char"]
    if base in SCALARS and stars == 1 and not argument_.const and argument_.name not in ARRAYS:
        kind = SCALARS[base]
        return f"{kind}, intent(inout)", re.findall(r"\((\w+)\)", kind)
    if base.startswith("weir_") and stars == 2:
        return "type(c_ptr), intent(inout)", ["c_ptr"]
    return "type(c_ptr), value", ["c_ptr"]


def function_lines(interface, function):
    results = {"weir_status": ("integer(c_int)", "c_int"), "const char*": ("type(c_ptr)", "c_ptr")}
    name = "c_" + function.name.removeprefix("weir_")
    names = [item.name for item in function.arguments]
    needs, declarations = set(), []
    for item in function.arguments:
        declaration, needed = argument(interface, item)
        array = "(*)" if declaration.startswith("character") else ""
        declarations.append(f"      {declaration} :: {item.name}{array}")
        needs.update(needed)
    kind = "subroutine" if function.result == "void" else "function"
    head = f"{kind} {name}({', '.join(names)}) bind(C, name='{function.name}')"
    if kind == "function":
        type_, need = results[function.result]
        needs.add(need)
        head += " result(returned)"
        declarations.append(f"      {type_} :: returned")
    return [*wrapped(head, "    "), *wrapped("import :: " + ", ".join(sorted(needs)), "      "), *declarations, f"    end {kind}"]


def to_c_lines(interface, struct):
    texts = [field for field in struct.fields if field.type == "text"]
    out = [f"  !> `texts`, WEIR_TEXT_LENGTH + 1 characters for each of {len(texts)}, must live as long as `c` is in use.",
           f"  subroutine {struct.c_name.removeprefix('weir_')}_to_c(from, c, texts)",
           f"    type({struct.c_name}), intent(in) :: from", f"    type({struct_name(struct.c_name)}), intent(out) :: c",
           "    character(kind=c_char), intent(out), target :: texts(:, :)", "", "    c%struct_size = c_sizeof(c)"]
    for field in struct.fields:
        value = f"from%{field.name}"
        if field.type == "text":
            value = f"c_text({value}, texts(:, {texts.index(field) + 1}))"
        elif field.type == "bool":
            value = f"merge(1, 0, {value})"
        out.append(f"    c%{field.name} = {value}")
    return out + ["  end subroutine", ""]


def from_c_lines(struct):
    out = [f"  subroutine {struct.c_name.removeprefix('weir_')}_from_c(c, to)", f"    type({struct_name(struct.c_name)}), intent(in) :: c",
           f"    type({struct.c_name}), intent(inout) :: to", ""]
    for field in struct.fields:
        value = f"c%{field.name}"
        if field.type in ("text", "view"):
            value = f"text_of({value})"
        elif field.type == "bool":
            value += " /= 0"
        out.append(f"    to%{field.name} = {value}")
    return out + ["  end subroutine", ""]


def c_f90(interface):
    out = ["! weir_c.f90: the C interface as Fortran sees it, and its structs to those of weir_types and back. For the modules behind weir.",
           "! Made by capi/interface/generate.py from interface.toml and the headers in include/weir: change those.",
           "module weir_c",
           "  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int, c_int32_t, c_int64_t, c_null_ptr, c_ptr, c_size_t, &",
           "                                         c_sizeof", "  use weir_text, only: c_text, text_of", "  use weir_types", "  implicit none", "  private"]
    names = [struct_name(struct.c_name) for struct in interface.structs]
    functions = [function for header in HEADERS for function in model.functions(header)]
    names += ["c_" + function.name.removeprefix("weir_") for function in functions]
    out += wrapped("public :: " + ", ".join([*names, "to_c", "from_c"]), "  ") + [""]
    for struct in interface.structs:
        out += [f"  type, bind(C) :: {struct_name(struct.c_name)}", "    integer(c_size_t) :: struct_size = 0"]
        for field in struct.c_fields:
            type_ = C_FIELD_TYPES.get(field.type, "integer(c_int32_t)")
            length = f"({interface.length(field)})" if field.length else ""
            out.append(f"    {type_} :: {field.name}{length} = {'c_null_ptr' if 'c_ptr' in type_ else 0}")
        if interface.needs_reserved(struct):
            out.append("    integer(c_int32_t) :: reserved = 0")
        out += ["  end type", ""]
    out.append("  interface")
    for function in functions:
        out += function_lines(interface, function)
    out += ["  end interface", ""]
    plain = [struct for struct in interface.structs if not struct.is_array]
    configs = [struct for struct in plain if struct.is_config]
    for name, structs in (("to_c", configs), ("from_c", plain)):
        out += [f"  interface {name}", *wrapped("module procedure " + ", ".join(f"{struct.c_name.removeprefix('weir_')}_{name}" for struct in structs), "    "), "  end interface", ""]
    out += ["contains", ""]
    for struct in configs:
        out += to_c_lines(interface, struct)
    for struct in plain:
        out += from_c_lines(struct)
    return out + ["end module"]


def plan_arrays_inc():
    """What takes a gradient, for both types and every rank of arrays."""
    out = ["! weir_plan_arrays.inc: for both types and every rank of arrays, what takes a gradient. Included by weir_plans.f90.",
           "! Made by capi/interface/generate.py: change emit_fortran.py."]
    for call, attributes in (("run", "intent(inout), target"), ("run_sparse", "intent(in), target"), ("start", "intent(inout), target, asynchronous"),
                             ("start_sparse", "intent(in), target, asynchronous")):
        for kind in ("real32", "real64"):
            for rank in RANKS:
                out += ["", f"  subroutine {call}_{kind}_{rank}(self, gradient, ierr)", "    class(weir_allreduce_plan), intent(inout) :: self",
                        f"    real({kind}), {attributes} :: gradient({', '.join(':' * rank)})", "    integer, intent(out), optional :: ierr",
                        f"    call {call}_view(self, view_of(gradient), ierr)", "  end subroutine"]
    return out


def files(interface):
    return {"capi/fortran/weir_types.f90": types_f90(interface), "capi/fortran/weir_c.f90": c_f90(interface),
            "capi/fortran/weir_plan_arrays.inc": plan_arrays_inc()}
