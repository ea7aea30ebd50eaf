"""Makes capi/python/weir/_types.py (enumerations, exceptions and structs) and two files that are not committed: _keywords.py
(the keywords of classes) and _abi.py (the library's functions for ctypes)."""
import keyword
import re
import textwrap

import model

WIDTH = 132
HEAD = "\n\nMade by capi/interface/generate.py from interface.toml and the C headers. Edit those files."
C_TYPES = {"int64": "c_int64", "uint64": "c_int64", "float64": "c_double", "int32": "c_int32", "bool": "c_int32", "text": "c_char_p", "view": "c_char_p", "indices": "c_void_p", "values": "c_void_p"}
TYPES = {"int64": "int", "uint64": "int", "float64": "float", "int32": "int", "bool": "bool", "text": "str", "view": "str"}
STATUS = re.compile(r'X\((?:ERR_)?(\w+), (\d+), "([^"]*)"\)')
# The built-in exception that is also a base class of a status's exception.
BASES = {"ARGUMENT": "ValueError", "TIMEOUT": "builtins.TimeoutError", "MEMORY": "builtins.MemoryError"}
# The class that has a configuration's fields as keywords.
MAKERS = {"AllreduceConfig": "PlanKeywords", "EmbeddingConfig": "TableKeywords", "CheckpointConfig": "CheckpointKeywords", "FusionConfig": "FusionKeywords", "OperatorConfig": "OperatorKeywords", "OptimizerConfig": "OptimizerKeywords", "SparseSumConfig": "SparseSumKeywords", "SparseAdamConfig": "SparseAdamKeywords", "SampleCacheConfig": "CacheKeywords", "SampleLoaderConfig": "LoaderKeywords"}
# What its constructor takes besides a communicator and keywords: a name and its type.
MORE = {"FusionConfig": ("tensors", "TensorsLike"), "OperatorConfig": ("parts", "PartsLike"), "OptimizerConfig": ("layers", "LayersLike"), "SampleCacheConfig": ("source", "SampleSource")}
# What it is made from, if not from a communicator; None: from nothing.
OWNERS = {"SampleLoaderConfig": ("cache", "SampleCache"), "SparseAdamConfig": None}
RESULTS = {"weir_status": "c_int", "const char*": "c_char_p", "void": "None", "int": "c_int"}
# Addresses of one value that a call fills. Arrays are passed as integers: c_void_p.
ADDRESSES = {"int*": "POINTER(c_int)", "int32_t*": "POINTER(c_int32)", "int64_t*": "POINTER(c_int64)", "double*": "POINTER(c_double)", "char**": "POINTER(c_char_p)", "char*": "c_char_p"}
VALUES = {"int": "c_int", "int32_t": "c_int32", "int64_t": "c_int64", "double": "c_double", "weir_status": "c_int", "weir_log_function": "LOG_FUNCTION", "weir_operator_body": "OPERATOR_BODY"}


def python_name(name):
    """Turns global into global_, as Python's own modules do."""
    return name + "_" if keyword.iskeyword(name) else name


def wrapped(text, first, rest):
    lines = []
    for paragraph in text.strip().split("\n\n"):
        if lines:
            lines.append("")
        lines += textwrap.wrap(paragraph, WIDTH, initial_indent=rest if lines else first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False)
    return lines


def spelled(text):
    """Returns the documentation of interface.toml in Python's spelling."""
    text = re.sub(r"WEIR_ERR_(\w+)", lambda match: error_name(match[1]), text)
    return text.replace("NonFinite::skip", "NonFinite.skip").replace("Routing::by_node", "Routing.by_node").replace("\\", "\\\\")


def docstring(text, entries, indent):
    """Returns a text and the descriptions of names as one docstring."""
    lines = wrapped(spelled(text), f'{indent}"""', indent)
    entries = [(name, doc) for name, doc in entries if doc]
    if not entries:
        return lines[:-1] + [lines[-1] + '"""'] if len(lines[-1]) <= WIDTH - 3 else lines + [indent + '"""']
    lines.append("")
    for name, doc in entries:
        lines += wrapped(f"{name}: {spelled(doc)}", indent, indent + "    ")
    return lines + [indent + '"""']


def error_name(status):
    """Turns NON_FINITE into NonFiniteError."""
    return "".join(part.capitalize() for part in status.split("_")) + "Error"


def type_of(interface, field, given):
    """Returns a field's type. If `given`, an enumeration's value may also be its name."""
    name = TYPES.get(field.type, field.type)
    if field.length:
        return f"Dict[{model.CONSTANTS[field.length]}, {name}]"
    if given and name == "DataType":
        return "TypeLike"
    return f"Union[{name}, str]" if given and interface.enum(field.type) else name


def default_of(interface, field):
    if interface.enum(field.type):
        return f"{field.type}.{python_name(field.default)}"
    if field.type == "text":
        return f'"{field.default}"'
    return str(field.default)


def kind_of(interface, field):
    """Returns what the base class Struct needs to convert a field: a type, or a list with the enumeration that indexes an array."""
    return f"[{model.CONSTANTS[field.length]}]" if field.length else TYPES.get(field.type, field.type)


def packed(items, indent):
    """Returns items separated by commas, as many on a line as fit."""
    lines = textwrap.wrap(", ".join(item.replace(" ", "\0") for item in items), WIDTH - 1, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\0", " ") for line in lines[:-1]] + [lines[-1].replace("\0", " ") + ","]


def statuses():
    return STATUS.findall((model.ROOT / "include/weir/status.h").read_text())


def status_lines():
    out = ["class Status(IntEnum):", '    """How a call of the library ended."""', ""]
    out += [f"    {name} = {value}  # {text}" for name, value, text in statuses()]
    out += ["", "", "class Error(Exception):", '    """Exception that every call raises: a status, and a text that says what was wrong and what would be right."""', "",
            '    __module__ = "weir"  # as tracebacks name it', "    status: Status = Status.INTERNAL", ""]
    for name, _, text in statuses():
        if name == "OK":
            continue
        bases = ", ".join(["Error", *filter(None, [BASES.get(name)])])
        out += ["", f"class {error_name(name)}({bases}):", f'    """{text[0].upper() + text[1:]}."""', "", '    __module__ = "weir"', f"    status = Status.{name}", ""]
    out += ["", "ERRORS: Dict[int, Type[Error]] = {"]
    out += [f"    {value}: {error_name(name)}," for name, value, _ in statuses() if name != "OK"]
    return out + ["}"]


def enum_lines(enum):
    return ["", "", f"class {enum.name}(IntEnum):", *docstring(enum.doc, [(python_name(value.name), value.doc) for value in enum.values], "    "), "",
            *(f"    {python_name(value.name)} = {value.value}" for value in enum.values)]


def struct_lines(interface, struct):
    out = ["", "", f"@dataclass({'' if struct.is_config else 'frozen=True, '}repr=False)", f"class {struct.name}(Struct):",
           *docstring(struct.doc, [(field.name, field.doc) for field in struct.fields], "    "), ""]
    for field in struct.fields:
        default = f" = {default_of(interface, field)}" if struct.is_config else ""
        out.append(f"    {field.name}: {type_of(interface, field, struct.is_config)}{default}")
    kinds = [f'"{field.name}": {kind_of(interface, field)}' for field in struct.fields]
    return out + ["", f"    _c = _abi.{struct.c_name}", "    _kinds = {", *packed(kinds, "        "), "    }"]


def keyword_lines(interface, struct):
    """Returns the base class whose constructor has the fields as keywords."""
    parameters = [f"{field.name}: {type_of(interface, field, True)}" + ("" if field.required else f" = {default_of(interface, field)}") for field in struct.fields]
    owner = OWNERS.get(struct.name, ("comm", "Communicator"))
    makers = [owner[0]] if owner else []
    made_from = [f"{owner[0]}: {owner[1]}"] if owner else []
    text = f"{struct.doc.strip()}\n\n" + (f"Collective. `{owner[0]}` is a {owner[1]}; the" if owner else "The") + f" keywords are the fields of {struct.name}."
    if any(interface.enum(field.type) for field in struct.fields):
        text += " An enumeration's value may be given as its name."
    if any(field.type == "DataType" for field in struct.fields):
        text += " `type` also takes the dtype of an array."
    more = MORE.get(struct.name)
    given = [f"{more[0]}: {more[1]}"] if more else []
    return ["", "", f"class {MAKERS[struct.name]}:", f'    """Takes the fields of {struct.name} as keywords."""', "", "    @named", "    def __init__(", "        self,", *(f"        {item}," for item in made_from + given), "        *,",
            *(f"        {parameter}," for parameter in parameters), "    ) -> None:",
            *docstring(text, [(field.name, field.doc) for field in struct.fields], "        "),
            "        self._make(", *(f"            {item}," for item in makers), f"            {struct.name}(", *packed([f"{field.name}={field.name}" for field in struct.fields], "                "), "            ),", *([f"            {more[0]},"] if more else []), "        )", "",
            f"    def _make({', '.join(['self', *made_from, f'config: {struct.name}', *given])}) -> None:", "        raise NotImplementedError"]


def types_py(interface):
    out = [f'"""Enumerations, exceptions, configurations and results.{HEAD}"""', "from __future__ import annotations", "", "import builtins",
           "from dataclasses import dataclass", "from enum import IntEnum", "from typing import Dict, Type, Union", "", "from . import _abi",
           "from ._struct import Struct, TypeLike", ""]
    structs = [struct for struct in interface.structs if not struct.is_array]
    names = ["Status", "Error", *(error_name(name) for name, _, _ in statuses() if name != "OK"), *(row.name for row in [*interface.enums, *structs])]
    out += ["__all__ = [", *packed([f'"{name}"' for name in names], "    "), "]", "", ""]
    out += status_lines()
    for enum in interface.enums:
        out += enum_lines(enum)
    for struct in structs:
        out += struct_lines(interface, struct)
    return out


def keywords_py(interface):
    """Returns _keywords.py. It is a module of its own because only Python and editors read it."""
    out = [f'"""What plans, tables and the like are made with: the fields of their configurations as keywords.{HEAD}"""',
           "from __future__ import annotations", "", "from typing import TYPE_CHECKING, Union", "",
           "from ._struct import LayersLike, PartsLike, TensorsLike, TypeLike, named", "from ._types import *  # noqa: F403", "",
           "if TYPE_CHECKING:", "    from .communicator import Communicator", "    from .datacache import SampleCache", "    from .sources import SampleSource"]
    for struct in interface.structs:
        if struct.name in MAKERS:
            out += keyword_lines(interface, struct)
    return out


def argument_type(interface, argument):
    structs = {struct.c_name for struct in interface.structs}
    type_ = argument.type
    if type_ in VALUES:
        return VALUES[type_]
    if type_.rstrip("*") in structs:
        return f"POINTER({type_.rstrip('*')})"
    if type_.startswith("weir_"):
        return "POINTER(c_void_p)" if type_.endswith("**") else "c_void_p"
    if type_ in ADDRESSES and (not argument.const or type_.startswith("char")):
        return ADDRESSES[type_]
    return "c_void_p"


def abi_py(interface):
    header = (model.ROOT / "include/weir/weir.h").read_text()
    version = [re.search(rf"WEIR_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    out = [f'"""The C interface as ctypes sees it.{HEAD}"""', "from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p", "from typing import Any, Dict, Tuple", "",
           f"VERSION = ({', '.join(version)})", "LOG_FUNCTION = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)",
           "OPERATOR_BODY = CFUNCTYPE(c_int64, c_void_p, c_int, c_void_p, c_int64, POINTER(c_char_p))"]
    for struct in interface.structs:
        out += ["", "", f"class {struct.c_name}(Structure):", "    _fields_ = [", '        ("struct_size", c_size_t),']
        for field in struct.c_fields:
            type_ = C_TYPES.get(field.type, "c_int32")
            length = f" * {interface.length(field)}" if field.length else ""
            out.append(f'        ("{field.name}", {type_}{length}),')
        if interface.needs_reserved(struct):
            out.append('        ("reserved", c_int32),')
        out.append("    ]")
    out += ["", "", "# What each function gives and takes.", "FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {"]
    for header in ("weir.h", "embedding.h", "checkpoint.h", "fusion.h", "optim.h", "sparse_adam.h", "sums.h", "datacache.h"):
        for function in model.functions(header):
            types = [argument_type(interface, argument) for argument in function.arguments]
            arguments = f"({', '.join(types)}{',' if len(types) == 1 else ''})"
            out.append(f'    "{function.name}": ({RESULTS[function.result]}, {arguments}),')
    return out + ["}"]


def files(interface):
    return {"capi/python/weir/_types.py": types_py(interface)}


def built(interface):
    return {"python/weir/_abi.py": abi_py(interface), "python/weir/_keywords.py": keywords_py(interface)}
