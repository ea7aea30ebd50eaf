"""A page of a Fortran module: its public types, procedures and constants, with the comments before them, `!>`, and behind, `!<`."""
import re

from prose import item, rst, words

NAME = r"([a-z]\w*)"


def statements(text):
    """Comment and statement, for each statement; lines that go on are one. A blank line comes as ("", "")."""
    comment, statement = [], ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("!>"):
            comment.append(line[3:])
        elif not line:
            yield "\n".join(comment), ""
            comment = []
        elif not line.startswith(("!", "#")):
            statement += line.rstrip("&").lstrip("&")
            if not line.endswith("&"):
                yield "\n".join(comment), statement
                comment, statement = [], ""


def public_names(text):
    return set(re.findall(r"\bweir_\w+", " ".join(re.findall(r"public :: ((?:.*&\n)*.*)", text))))


def procedure_of(name, text):
    """function or subroutine, and arguments besides the object."""
    found = re.search(rf"(?m)^\s*(function|subroutine) {name}\(([^)]*)\)", text)
    arguments = [argument for argument in re.split(r"[\s,&]+", found[2]) if argument != "self"]
    return found[1], f"({', '.join(arguments)})"


def split_comment(comment):
    """The arguments that a comment such as "Collective. (gradient, ierr): ..." names, and its text without them."""
    found = re.match(r"((?:[A-Z][\w, ]*\. )*)\(([\w, ]*)\)(: | )", comment.replace("\n", " "))
    if not found:
        return None, comment
    text = comment.replace("\n", " ")[found.end():]
    return f"({found[2]})", found[1] + text[:1].upper() + text[1:]


def entry(signatures, text, indent=""):
    lines = [f"{indent}.. fortran:: {signatures[0]}", *(f"{indent}             {more}" for more in signatures[1:]), ""]
    lines += [f"{indent}   {line}" if line else "" for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def procedures_of_type(name, body, text):
    """Those that are bound to a type. One without a comment has that of the one before."""
    found, specific = [], {}
    for _, statement in body:
        bound = re.match(rf"(?:procedure|generic) :: {NAME}(?: => {NAME})?", statement)
        if bound:
            specific.setdefault(bound[1], []).append(bound[2] or bound[1])
    specific.pop("assignment", None)
    for comment, statement in body:
        bound = re.match(rf"(?:procedure|generic) :: {NAME}", statement)
        forms = specific.pop(bound[1], None) if bound else None
        if forms is None:
            continue
        kind, own = procedure_of(next((form for form in forms if not form.endswith("address")), forms[0]), text)
        arguments, comment = split_comment(comment)
        signature = f"{kind} {name}%{bound[1]}{arguments or own}"
        if comment or not found:
            found.append(([signature], comment))
        else:
            found[-1][0].append(signature)
    return [entry(signatures, rst(comment)) for signatures, comment in found]


def fields(body):
    found = []
    for comment, statement in body:
        field = re.match(r"([^!]*?) :: ([^!]*?)\s*(?:!< (.*))?$", statement)
        if field:
            found.append(item(field[2], field[1], field[3] or comment))
    return "\n".join(found)


def declarations(rest):
    """Of a procedure's arguments, until its first blank line."""
    found = []
    for comment, statement in rest:
        if not statement:
            break
        declared = re.match(r"([^!]*(?:intent|procedure)[^!]*?) :: ([^!]*?)\s*(?:!< (.*))?$", statement)
        if declared:
            found.append(item(declared[2], declared[1], declared[3] or comment))
    return "\n".join(found)


def page(file, title):
    text = file.read_text()
    everything = file.stem == "weir_types"
    public, lines = public_names(text), list(statements(text))
    about = re.match(r"((?:!.*\n)+)", text)[1]
    about = re.sub(r"(?m)^! ?|Used through module weir\.|Made by .*", "", about).split(": ", 1)[1]
    parts = [f"{title} ({file.stem})\n{'=' * (len(title) + len(file.stem) + 3)}\n", rst(about[:1].upper() + about[1:])]
    constants, seen = [], set()
    for place, (comment, statement) in enumerate(lines):
        rest = lines[place + 1:]
        of_type = re.match(rf"type :: {NAME}", statement)
        procedure = re.match(rf"(function|subroutine) {NAME}(\([^)]*\))", statement)
        interface = re.match(rf"interface {NAME}", statement)
        constant = re.match(r"integer, parameter :: (\w+) = (\S+)\s*(?:!< (.*))?$", statement)
        name = (of_type or interface or [None, None])[1] or (procedure and procedure[2])
        if constant and everything:
            if constant[3] and comment:  # what they all are for
                parts, constants = parts + constants + [rst(comment)], []
            constants.append(entry([f"{constant[1]} = {constant[2]}"], words(constant[3] or " ".join(comment.split()))))
            continue
        if everything and comment and not statement:  # what the next constants are for
            parts += constants + [rst(comment)]
            constants = []
            continue
        if not (everything and of_type) and name not in public or name in seen:
            continue
        parts += constants
        constants = []
        seen.add(name)
        if of_type:
            end = next(i for i, (_, later) in enumerate(rest) if later.startswith("end type"))
            body = rest[:end]
            described = rst(comment) + "\n" + (fields(body) if ("", "private") not in body else "")
            parts.append(entry([f"type {name}"], described))
            parts += procedures_of_type(name, body, text)
        elif interface:
            arguments, comment = split_comment(comment)
            first = re.match(r"module procedure (\w+)", rest[0][1])[1]
            parts.append(entry([f"{procedure_of(first, text)[0]} {name}{arguments}"], rst(comment)))
        else:
            parts.append(entry([f"{procedure[1]} {name}{procedure[3]}"], rst(comment) + "\n" + declarations(rest)))
    return "\n".join(parts + constants)
