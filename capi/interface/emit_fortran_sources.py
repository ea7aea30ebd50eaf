"""Makes the sources of Fortran's modules from the handwritten ones in capi/fortran.

Unrolls the loops in them and fills in the procedures of classes:

    !@ for kind = real32 | real64          repeats the lines up to `!@ end`, with real32, then real64 for @kind@
    !@ for rank, dims = 1; : | 2; :, :     does the same with several names
    !@ procedures of weir_plan             inserts procedures for the C functions with this prefix, from the list
                                           of classes and the prototypes
"""
import re

import model
from emit_fortran import HEADERS

FOLDER = model.ROOT / "capi/fortran"
LOOP = re.compile(r"\s*!@ for ([\w, ]+?) = (.*)")
PROCEDURES = re.compile(r"\s*!@ procedures of (\w+)")
# C functions without a Fortran procedure: they serve save_state, or other bindings.
INTERNAL = {"state_bytes", "refuse"}
VALUES = {"double": "real(real64)", "int64_t": "integer(int64)"}


def unrolled(lines, interface):
    """Returns `lines` with all directives carried out."""
    out, lines = [], iter(lines)
    for line in lines:
        loop, procedures = LOOP.match(line), PROCEDURES.match(line)
        if loop:
            names = [name.strip() for name in loop[1].split(",")]
            body = unrolled(block(lines), interface)
            for values in loop[2].split("|"):
                values = [value.strip() for value in values.split(";")]
                if len(values) != len(names):
                    raise SystemExit(f"capi/fortran: {len(names)} values are needed in '{line.strip()}'")
                values = dict(zip(names, values))
                out += [re.sub(r"@(\w+)@", lambda match: values.get(match[1], match[0]), inner) for inner in body]
        elif procedures:
            out += class_procedures(interface, procedures[1])
        else:
            out.append(line)
    return out


def block(lines):
    """Returns the lines up to the `!@ end` of a loop."""
    depth, inside = 1, []
    for line in lines:
        depth += 1 if LOOP.match(line) else -1 if line.strip() == "!@ end" else 0
        if depth == 0:
            return inside
        inside.append(line)
    raise SystemExit("capi/fortran: a loop has no '!@ end'")


def procedure(kind, name, arguments, declarations, body, result=""):
    head = f"  {kind} {name}({', '.join(arguments)})" + (f" result({result})" if result else "")
    return [head, *(f"    {line}" for line in declarations), "", *(f"    {line}" for line in body), f"  end {kind.split()[-1]}", ""]


class Emitter:
    """Writes the procedures of one class."""

    def __init__(self, interface, row):
        self.interface, self.row = interface, row
        self.c = "c_" + row.c.removeprefix("weir_")

    def call(self, name, *arguments):
        return f"{self.c}_{name}({', '.join(['self%handle', *arguments])})"

    def self_of(self, const):
        return f"class({self.row.fortran}), intent({'in' if const else 'inout'}) :: self"

    def subroutine(self, name, const, arguments, declarations, body):
        return procedure("subroutine", name, ["self", *arguments, "ierr"],
                         [self.self_of(const), *declarations, "integer, intent(out), optional :: ierr"], body)

    def plain(self, name, const, arguments=(), declarations=(), given=()):
        """Makes a procedure that passes its arguments on."""
        refusal = self.row.refusals.get(name)
        end = f"call end_call({self.call(name, *given)}, self%owner, ierr{f', self%{refusal}' if refusal else ''})"
        forget = [f"if (allocated(self%{refusal})) deallocate (self%{refusal})"] if refusal else []
        return self.subroutine(name, const, list(arguments), list(declarations), [end, *forget])

    def found(self, name, const, c_type, type_, text=None):
        """Makes a function that returns a number that C fills in."""
        arguments = ["self", *([text] if text else []), "ierr"]
        declarations = [self.self_of(const), *([f"character(len=*), intent(in) :: {text}"] if text else []),
                        "integer, intent(out), optional :: ierr", f"{type_} :: found", f"integer({c_type}) :: c_found"]
        given = [*([f"trim({text})//c_null_char"] if text else []), "c_found"]
        return procedure("function", name, arguments, declarations,
                         ["c_found = 0", f"call end_call({self.call(name, *given)}, self%owner, ierr)", "found = c_found"], "found")

    def test(self, name, text=None):
        refusal = self.row.refusals.get(name)
        given = [*([f"trim({text})//c_null_char"] if text else []), "c_done"]
        end = f"call end_test(status, done, self%owner, self%{refusal}, ierr)" if refusal else "call end_call(status, self%owner, ierr)"
        return self.subroutine(name, False, [*([text] if text else []), "done"],
                               [*([f"character(len=*), intent(in) :: {text}"] if text else []), "logical, intent(out) :: done",
                                "integer(c_int) :: status, c_done"],
                               ["c_done = 0", f"status = {self.call(name, *given)}", "done = c_done /= 0", end])

    def filled(self, name, const, argument):
        """Makes a procedure that fills a struct of the caller."""
        type_ = argument.type.rstrip("*")
        return self.subroutine(name, const, [argument.name],
                               [f"type({type_}), intent(inout) :: {argument.name}", f"type(c_{type_.removeprefix('weir_')}) :: c",
                                "integer(c_int) :: status"],
                               ["c%struct_size = c_sizeof(c)", f"status = {self.call(name, 'c')}",
                                f"if (status == WEIR_OK) call from_c(c, {argument.name})", "call end_call(status, self%owner, ierr)"])

    def text(self, name):
        return procedure("function", name, ["self"], [self.self_of(True), "character(len=:), allocatable :: text"],
                         [f"text = text_of({self.call(name)})"], "text")

    def handed(self, name, arguments):
        """Makes a procedure that passes on a name and an object of another class."""
        text, other = arguments[0].name, next(row for row in self.interface.classes if row.handle == arguments[1].type.rstrip("*"))
        return self.plain(name, False, [text, arguments[1].name],
                          [f"character(len=*), intent(in) :: {text}", f"class({other.fortran}), intent(in) :: {arguments[1].name}"],
                          [f"trim({text})//c_null_char", f"{other.handle_of}({arguments[1].name})"])

    def save_state(self):
        return self.subroutine("save_state", True, ["state"],
                               ["integer(int8), allocatable, intent(inout), target :: state(:)", "integer(c_int) :: status",
                                "integer(c_int64_t) :: bytes"],
                               [f"status = {self.call('state_bytes', 'bytes')}", "if (status == WEIR_OK) then",
                                "  if (allocated(state)) deallocate (state)", "  allocate (state(bytes))",
                                f"  status = {self.call('save_state', 'c_loc(state(1))', 'bytes')}", "end if",
                                "call end_call(status, self%owner, ierr)"])

    def restore_state(self):
        return self.subroutine("restore_state", False, ["state"],
                               ["integer(int8), intent(in), target :: state(:)", "type(array_view) :: view",
                                "character(len=:), allocatable :: refusal"],
                               ["view = view_of(state)",
                                f"if (.not. view%usable) refusal = '{self.row.noun} '''//trim(self%name)//''': the state '//why_unusable(view)",
                                f"call end_call({self.call('restore_state', 'view%address', 'view%count')}, self%owner, ierr, refusal)"])

    def ends(self):
        """Makes destroy, finalise and refuse_copy, which every class has."""
        forget = ["call forget(self)"] if self.row.forgets else []
        out = self.subroutine("destroy", False, [], ["type(comm_owner), pointer :: owner", "integer(c_int) :: status"],
                              ["owner => self%owner", f"status = {self.call('destroy')}", "if (status == WEIR_OK) then",
                               "  self%handle = c_null_ptr", *(f"  {line}" for line in forget), "  call remove_user(self%owner)",
                               "  nullify (owner)", "end if", "call end_call(status, owner, ierr)"])
        out += procedure("impure elemental subroutine", "finalise", ["self"],
                         [f"type({self.row.fortran}), intent(inout) :: self", "integer(c_int) :: status"],
                         [f"status = {self.call('destroy')}", "self%handle = c_null_ptr", "call end_user(self%owner, status)", *forget])
        return out + procedure("impure elemental subroutine", "refuse_copy", ["to", "from"],
                               [f"class({self.row.fortran}), intent(inout) :: to", f"type({self.row.fortran}), intent(in) :: from"],
                               ["if (associated(to%owner) .or. associated(from%owner)) &",
                                f"  call stop_with('a {self.row.fortran} cannot be copied: pass it as an argument, or point to it')"])

    def handle_of(self):
        return procedure("function", self.row.handle_of, ["object"],
                         [f"class({self.row.fortran}), intent(in) :: object", "type(c_ptr) :: handle"], ["handle = object%handle"], "handle")

    def of(self, function):
        """Makes the procedure for a C function's prototype. Returns nothing if it must be written by hand."""
        name, const, rest = function.name.removeprefix(self.row.c + "_"), function.arguments[0].const, function.arguments[1:]
        types = [argument.type for argument in rest]
        text = rest[0].name if types[:1] == ["char*"] else None
        if name == "save_state":
            return self.save_state()
        if name == "restore_state":
            return self.restore_state()
        if function.result == "const char*":
            return self.text(name) if not rest else []
        if len(rest) == 1 and any(struct.c_name + "*" == types[0] for struct in self.interface.structs if not struct.is_array):
            return self.filled(name, const, rest[0])
        if (name == "test" or name.endswith("_test")) and types in (["int*"], ["char*", "int*"]):
            return self.test(name, text)
        if types == []:
            return self.plain(name, const)
        if types == ["double"]:
            return self.plain(name, const, [rest[0].name], [f"real(real64), intent(in) :: {rest[0].name}"], [rest[0].name])
        if types == ["char*"]:
            return self.plain(name, const, [text], [f"character(len=*), intent(in) :: {text}"], [f"trim({text})//c_null_char"])
        if len(types) == 2 and text and types[1] in VALUES:
            value = rest[1].name
            return self.plain(name, const, [text, value], [f"character(len=*), intent(in) :: {text}", f"{VALUES[types[1]]}, intent(in) :: {value}"],
                              [f"trim({text})//c_null_char", value])
        if types in (["int64_t*"], ["char*", "int64_t*"]):
            return self.found(name, const, "c_int64_t", "integer(int64)", text)
        if types == ["char*", "int*"]:
            return self.found(name, const, "c_int", "integer", text)
        if len(types) == 2 and text and any(row.handle + "*" == types[1] for row in self.interface.classes):
            return self.handed(name, rest)
        return []


def class_procedures(interface, c):
    row = next(row for row in interface.classes if row.c == c)
    emitter, type_ = Emitter(interface, row), row.handle + "*"
    functions = [function for header in HEADERS for function in model.functions(header)]
    others_take_it = any(argument.type == type_ for function in functions for argument in function.arguments[1:])
    out = emitter.handle_of() if others_take_it else []
    if "destroy" not in row.by_hand:
        out += emitter.ends()
    for function in functions:
        name = function.name.removeprefix(c + "_")
        if function.arguments and function.arguments[0].type == type_ and name not in ("destroy", *INTERNAL, *row.by_hand):
            out += emitter.of(function)
    return out[:-1]


def split(line):
    """Splits a line at the 132 characters that the Fortran standard allows."""
    if len(line) <= 132 or line.lstrip().startswith("!"):
        return [line]
    cut = line.rfind(", ", 0, 128) + 1
    return [line[:cut] + " &", *split(" " * (len(line) - len(line.lstrip()) + 2) + line[cut:].lstrip())]


def built(interface):
    out = {}
    for path in sorted([*FOLDER.glob("weir*.f90"), *FOLDER.glob("weir*.F90")]):
        lines = unrolled(path.read_text().splitlines(), interface)
        out[f"fortran/{path.name}"] = [part for line in lines for part in split(line)]
    return out
