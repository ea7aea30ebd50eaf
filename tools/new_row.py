"""Shared by new-algorithm and new-compressor: copies a file under another name, adds a name to a list and a row to a table."""
import argparse
import pathlib
import re
import sys


def arguments(doc):
    """Returns a parser of NAME and --root, whose help is `doc`."""
    summary, _, rest = doc.partition("\n")
    parser = argparse.ArgumentParser(description=summary, epilog=rest.strip(), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", help="in lower case, words joined by underscores")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="of the sources; default: here")
    return parser


def check_name(name, known, what):
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        sys.exit(f"'{name}' cannot name {what}: use lower case letters, digits and single underscores, as in topk_ring")
    if name in known:
        sys.exit(f"there is {what} '{name}' already")


def names_in(list_file):
    return re.findall(r"^(?:WEIR_IN_CATALOGUE\()?WEIR_(?:ALGORITHM|COMPRESSOR)\((\w+)\)", list_file.read_text(), re.M)


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def with_field(source, field, text):
    """Returns `source` with another text in the row's `field`."""
    changed, count = re.subn(rf'(\.{field} =\s+)"[^"]*"', lambda found: f'{found[1]}"{text}"', source, count=1)
    assert count == 1, field
    return changed


def write(path, text):
    if path.exists():
        sys.exit(f"{path} exists already")
    path.write_text(text)
    print(f"wrote   {path}")


def append_to_list(list_file, line):
    list_file.write_text(list_file.read_text() + line + "\n")
    print(f"changed {list_file}")


def row_in_table(page, begin):
    """Returns the number and the text of the page's first row that begins with `begin`."""
    for number, line in enumerate(page.read_text().split("\n")):
        if line.startswith(begin):
            return number, line
    sys.exit(f"{page}: no row begins with '{begin}'")


def add_to_table(page, after, row):
    """Inserts `row` after row number `after`."""
    lines = page.read_text().split("\n")
    lines.insert(after + 1, row)
    page.write_text("\n".join(lines))
    print(f"changed {page}")
