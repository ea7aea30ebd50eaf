"""Docstrings of the package, which are plain text, for autodoc."""
import dataclasses
import enum
import re
import textwrap

from prose import item, rst

NDARRAY = re.compile(r"~?numpy\.ndarray\.\((?:[^()]|\([^()]*\))*\)")  # numpy is a stand-in, too
ITEM = re.compile(r"(?m)^(\w+): ")


def described(what, text):
    """The fields of a configuration or the values of an enumeration, which its docstring lists as "name: text"."""
    values = {name: f"= {int(value)}" for name, value in what.__members__.items()} if issubclass(what, enum.Enum) else {
        field.name: field.type + default(field) for field in dataclasses.fields(what)}
    about = {}
    for part in re.split(r"(?m)^(?=\w+: )", text):
        name, _, words_of_it = part.partition(": ")
        about[name] = " ".join(words_of_it.split())
    if not any(about.get(name.rstrip("_")) for name in values):
        return "\n" + ", ".join(f"``{name}`` {value}" for name, value in values.items())
    return "\n".join(item(name, value, about.get(name.rstrip("_"), "")) for name, value in values.items())


def default(field):
    value = field.default
    if value is dataclasses.MISSING:
        return ""
    return f" = {value.name}" if isinstance(value, enum.Enum) else f" = {value!r}"


def change_docstring(app, kind, name, what, options, lines):
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    listed = isinstance(what, type) and (dataclasses.is_dataclass(what) or issubclass(what, enum.Enum))
    if listed:
        prose, _, items = text.partition("\n\n")
        if ITEM.match(prose):
            prose, items = "", text
        more = items[: ITEM.search(items).start()] if ITEM.search(items) else items
        lines[:] = (rst(prose + "\n\n" + more) + "\n" + described(what, items[len(more):])).splitlines()
    else:
        lines[:] = rst(text, "python").splitlines()


def change_signature(app, kind, name, what, options, signature, result):
    """Of keywords that are the fields of a configuration, only those without a default are named."""
    if kind == "class" and (dataclasses.is_dataclass(what) or issubclass(what, enum.Enum)):
        return "", None
    signature, result = (part and NDARRAY.sub("numpy.ndarray", part) for part in (signature, result))
    if not signature or signature.count("=") < 8:
        return signature, result
    parts = re.split(r", (?![^\[(]*[\])])", signature[1:-1])
    return "(" + ", ".join([part for part in parts if "=" not in part] + ["..."]) + ")", result


def connect(app):
    app.connect("autodoc-process-docstring", change_docstring)
    app.connect("autodoc-process-signature", change_signature)
