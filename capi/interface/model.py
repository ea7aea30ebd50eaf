"""Reads and checks interface.toml, the list of enumerations and structs. Reads the functions of the C headers."""
import dataclasses
import pathlib
import re

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

POWER = re.compile(r"2\^(\d+)")
CONSTANTS = {"level_count": "Level"}  # for array lengths that are an enumeration's number of values
SIZES = {"int64": 8, "uint64": 8, "float64": 8, "int32": 4, "bool": 4, "text": 8, "view": 8, "indices": 8, "values": 8}


def snake(name):
    """Turns AllreduceConfig into allreduce_config."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclasses.dataclass
class Value:
    name: str
    value: int
    doc: str = ""
    text: str = None  # its name as text, if the name itself is a keyword of some language

    def __post_init__(self):
        self.text = self.text or self.name


@dataclasses.dataclass
class Enum:
    name: str
    doc: str
    values: list
    prefix: str = None  # between WEIR_ and a value in C; by default the enumeration's own name

    @property
    def c_name(self):
        return "weir_" + snake(self.name)

    def constant(self, value):
        """Returns for example WEIR_SCHEME_AHEAD."""
        prefix = snake(self.name) if self.prefix is None else self.prefix
        return "_".join(["WEIR", *([prefix.upper()] if prefix else []), value.upper()])


@dataclasses.dataclass
class Field:
    name: str
    number: int  # its place in the C struct
    type: str  # a key of SIZES, or an enumeration's name
    doc: str = ""
    default: object = None
    length: str = None  # of an array: a key of CONSTANTS
    least: object = None
    most: object = None
    example: object = None
    agreed: bool = True  # must be equal on all ranks
    required: bool = False  # Python has no default for the keyword
    long: bool = False  # a text long enough for any path in Fortran

    def limit(self, text):
        """A limit as a number."""
        power = POWER.fullmatch(str(text))
        return 2 ** int(power[1]) if power else text


@dataclasses.dataclass
class Struct:
    name: str
    kind: str  # config, result, or array (C++ has another form of it)
    doc: str
    fields: list  # in the order of the documentation

    @property
    def c_name(self):
        return "weir_" + snake(self.name)

    @property
    def c_fields(self):
        """Returns the fields in the order of the C struct, without struct_size."""
        return sorted(self.fields, key=lambda field: field.number)

    @property
    def is_config(self):
        return self.kind == "config"

    @property
    def is_array(self):
        return self.kind == "array"


@dataclasses.dataclass
class Class:
    """A class of C++, and its names in the languages on top of the C ABI."""
    c: str  # the prefix of its C functions: weir_plan
    fortran: str  # its type in Fortran
    noun: str  # its name in errors
    handle: str = None  # its type in C, if that is not `c`
    by_hand: list = ()  # C functions whose Fortran procedure is written by hand, although the prototype determines it
    refusals: dict = dataclasses.field(default_factory=dict)  # by C function: the component with the error of a call's start
    forgets: bool = False  # its module has forget(self), which clears components when an object ends

    def __post_init__(self):
        self.handle = self.handle or self.c

    @property
    def handle_of(self):
        """Returns the name of the function that gives an object's handle to other modules of Fortran."""
        return f"c_handle_of_{self.c.removeprefix('weir_')}"


@dataclasses.dataclass
class Interface:
    enums: list
    structs: list
    classes: list

    def enum(self, name):
        return next((enum for enum in self.enums if enum.name == name), None)

    def length(self, field):
        return len(self.enum(CONSTANTS[field.length]).values) if field.length else 1

    def c_size(self, field):
        return SIZES.get(field.type, 4) * self.length(field)

    def needs_reserved(self, struct):
        """Returns whether 4 bytes are left at the end. They are named, so that a later field of 4 bytes can take them."""
        return sum(map(self.c_size, struct.fields)) % 8 != 0

    def check(self):
        names = {enum.name for enum in self.enums}
        for enum in self.enums:
            values = [value.value for value in enum.values]
            if values != list(range(len(values))):
                raise SystemExit(f"{enum.name}: values must be 0, 1, 2, ...")
        for struct in self.structs:
            if [field.number for field in struct.c_fields] != list(range(1, len(struct.fields) + 1)):
                raise SystemExit(f"{struct.name}: numbers must be 1 to {len(struct.fields)}, each once")
            offset = 8
            for field in struct.c_fields:
                if field.type not in SIZES and field.type not in names:
                    raise SystemExit(f"{struct.name}.{field.name}: no type '{field.type}'")
                alignment = SIZES.get(field.type, 4)
                if offset % alignment:
                    raise SystemExit(f"{struct.name}.{field.name}: would leave a hole before it: give its number to a field of 4 bytes")
                offset += self.c_size(field)
                if struct.is_config and field.default is None:
                    raise SystemExit(f"{struct.name}.{field.name}: has no default")
        return self


def load():
    data = tomllib.loads((HERE / "interface.toml").read_text())
    enums = [Enum(**{**row, "values": [Value(**value) for value in row["values"]]}) for row in data["enum"]]
    structs = [Struct(**{**row, "fields": [Field(**field) for field in row["fields"]]}) for row in data["struct"]]
    return Interface(enums, structs, [Class(**row) for row in data["class"]]).check()


@dataclasses.dataclass
class Argument:
    type: str  # in C, without const: "int64_t*", "weir_plan*", "weir_plan**"
    name: str
    const: bool


@dataclasses.dataclass
class Function:
    name: str
    result: str  # "weir_status", "const char*", "void"
    arguments: list
    doc: str


PROTOTYPE = re.compile(r"(?:/\*\*(?P<doc>(?:(?!\*/).)*)\*/\s*)?^(?P<result>weir_status|const char\*|void|int32_t|int64_t|int) (?P<name>weir_\w+)\((?P<arguments>[^()]*(?:\([^()]*\)[^()]*)*)\);", re.M | re.S)


def functions(header):
    """Returns the functions that a C header declares, in its order."""
    text = (ROOT / "include/weir" / header).read_text()
    found = []
    for match in PROTOTYPE.finditer(text):
        arguments = []
        for argument in re.split(r",\s*", match["arguments"].strip()):
            if argument in ("", "void"):
                continue
            parts = re.fullmatch(r"(const )?(\w+)([* ]|const\*)* ?(?<![a-z])(\w+)", argument)
            if not parts:
                raise SystemExit(f"{header}: {match['name']}: cannot read the argument '{argument}'")
            arguments.append(Argument(parts[2] + "*" * argument.count("*"), parts[4], bool(parts[1])))
        doc = " ".join(line.strip().lstrip("*").strip() for line in (match["doc"] or "").strip().splitlines())
        found.append(Function(match["name"], match["result"], arguments, doc))
    return found
