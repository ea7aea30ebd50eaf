"""Plain comments as reStructuredText: backquotes and indented blocks are code, and everything else means itself."""
import re
import textwrap


def words(text):
    """Code in backquotes; everything else without meaning for reStructuredText."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(f"``{part[1:-1]}``" if index % 2 else re.sub(r"([\\*|_`:])", r"\\\1", part) for index, part in enumerate(parts))


LANGUAGES = {"hpp": "cpp", "h": "c"}


def literal(text, language):
    return f".. code-block:: {LANGUAGES.get(language, language)}\n\n" + textwrap.indent(text, "   ") + "\n"


def rst(text, language="none"):
    """Paragraphs, and blocks that are indented."""
    found = []
    for block in re.split(r"\n\s*\n", textwrap.dedent(text).strip("\n")):
        lines = block.splitlines()
        first = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
        prose, code = lines[:first], lines[first:]
        if prose:
            found.append(words("\n".join(line.strip() for line in prose)))
        if code:
            found.append(literal(textwrap.dedent("\n".join(code)), language))
    return "\n\n".join(found) + "\n"


def item(name, kind, text):
    """One of a list of fields, arguments or values."""
    return f"``{name}`` {words(kind)}\n   {words(' '.join(text.split())) or chr(92) + ' '}\n"
