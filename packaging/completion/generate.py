#!/usr/bin/env python3
"""Makes the completion of the weir command for bash and zsh from what `weir --help` says of every subcommand.

Usage: generate.py WEIR           writes weir.bash and _weir
       generate.py WEIR --check   writes nothing; exits with 1 and names the files that are stale
"""
import dataclasses
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MADE = "Made by packaging/completion/generate.py from what `weir --help` says."
FILES = "files"  # an option's values, if these are files
LINE_WIDTH = 132
COLUMN = 30  # of the descriptions in --help


@dataclasses.dataclass
class Option:
    names: list
    description: str
    takes: str = ""  # its argument's name in --help; "" for a flag
    values: object = None  # a list, FILES or None
    is_list: bool = False  # takes several values, separated by commas


@dataclasses.dataclass
class Command:
    words: tuple  # ("bench", "select")
    options: list
    below: dict  # subcommands and their descriptions
    takes_folder: bool


def read_option(names, takes, description):
    names = names.split(",")
    values = None
    if takes.startswith("NAME"):
        description, _, choices = description.rpartition(": ")
        values = [word.removesuffix(" (the default)") for word in choices.split(", ")]
    elif takes == "FILE" or (takes == "TEXT" and re.search(r"\b(this|machine|the) file\b", description)):
        values = FILES
    return Option(names, description, takes.removesuffix(" ..."), values, takes.endswith("..."))


def entries(section):
    """Returns (left column, description) of each entry in a section of --help. The description is in the right column or below."""
    found = []
    for line in section.splitlines():
        if line[2] != " ":
            found.append([line, ""] if len(line) < COLUMN or line[COLUMN - 1] != " " else [line[:COLUMN], line[COLUMN:]])
        else:
            found[-1][1] += " " + line
    return [(left.strip(), " ".join(description.split())) for left, description in found]


def read(weir, words=()):
    """Returns the command and all its subcommands, outer ones first."""
    text = subprocess.run([weir, *words, "--help"], check=True, capture_output=True, text=True, timeout=30).stdout
    sections = dict(re.findall(r"\n(Positionals|Options|Subcommands):\n((?:  .*\n)*)", text))
    options = [read_option(*(left.split(maxsplit=1) + [""])[:2], description) for left, description in entries(sections.get("Options", ""))]
    below = dict(entries(sections.get("Subcommands", "")))
    found = [Command(words, options, below, "  folder " in sections.get("Positionals", ""))]
    for name in below:
        found += read(weir, (*words, name))
    return found


def joined(names, separator, indent):
    """Joins `names` with separators, on lines of limited length."""
    lines, line = [], ""
    for place, name in enumerate(names):
        piece = name + (separator if place + 1 < len(names) else "")
        if line and len(indent + line + piece) > LINE_WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += piece
    return ("\n" + indent).join([*lines, line])


def patterns(texts, indent):
    """Returns the patterns of one branch of a case."""
    return joined([f'"{text}"' for text in texts], " | ", indent).replace("| \n", "|\n").replace("|\n", "| \\\n")


def bash(commands):
    """Returns the completion for bash. It chooses words by the command so far, or by the previous option."""
    branches = {}  # assignments: the words after which they apply
    for command in commands:
        name = " ".join(command.words)
        for option in command.options:
            if option.takes:
                values = "words=" if option.values is None else "files=yes" if option.values == FILES else \
                    f'words="{joined(option.values, " ", " " * 8)}"' + (" list=yes" if option.is_list else "")
                branches.setdefault(values, []).extend(f"{name} {option_name}" for option_name in option.names)
    lines = ["# shellcheck shell=bash", f"# Completion of the weir command for bash. {MADE}", "_weir() {",
             '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command="" words="" files="" folders="" list="" i',
             "  for ((i = 1; i < COMP_CWORD; i++)); do", '    case "$command ${COMP_WORDS[i]}" in',
             "      " + patterns([f'{" ".join(c.words[:-1])} {c.words[-1]}' for c in commands if c.words], " " * 8) + ")",
             '        command="${command:+$command }${COMP_WORDS[i]}" ;;', "    esac", "  done", '  case "$command $before" in']
    for values, places in branches.items():
        lines += ["    " + patterns(places, " " * 6) + ")", f"      {values} ;;"]
    lines += ["    *)", '      case "$command" in']
    for command in commands:
        words = [*command.below, *[name for option in command.options for name in option.names]]
        folders = " folders=yes" if command.takes_folder else ""
        lines.append(f'        "{" ".join(command.words)}") words="{joined(words, " ", " " * 10)}"{folders} ;;')
    lines += ["      esac ;;", "  esac", '  if [[ -n $files ]]; then', '    mapfile -t COMPREPLY < <(compgen -f -- "$word")',
              "    compopt -o filenames 2>/dev/null", "  elif [[ -n $folders && $word != -* ]]; then",
              '    mapfile -t COMPREPLY < <(compgen -d -- "$word")', "    compopt -o filenames 2>/dev/null",
              "  elif [[ -n $list && $word == *,* ]]; then",
              '    mapfile -t COMPREPLY < <(compgen -P "${word%,*}," -W "$words" -- "${word##*,}")', "  else",
              '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")', "  fi", "}",
              "complete -F _weir weir weir-openmpi weir-mpich"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def zsh_text(text):
    return re.sub(r"([\[\]:])", r"\\\1", text).replace("'", "'\\''")


def zsh_option(option):
    action = ""
    if option.values == FILES:
        action = f":{option.takes}:_files"
    elif option.values and option.is_list:
        action = f":{option.takes}:_values -s , {option.takes} {' '.join(option.values)}"
    elif option.takes:
        action = f":{option.takes}:({' '.join(option.values or [])})" if option.values else f":{option.takes}: "
    if len(option.names) == 1:
        return f"'{option.names[0]}[{zsh_text(option.description)}]{action}'"
    return f"'({' '.join(option.names)})'{{{','.join(option.names)}}}'[{zsh_text(option.description)}]{action}'"


def zsh(commands):
    """Returns the completion for zsh, with a function for every command."""
    lines = ["#compdef weir weir-openmpi weir-mpich", f"# Completion of the weir command for zsh. {MADE}"]
    for command in reversed(commands):
        function = "_".join(["_weir", *command.words])
        lines += ["", f"{function}() {{"]
        specs = [zsh_option(option) for option in command.options]
        if command.below:
            lines += ["  local curcontext=$curcontext state line", "  local -a commands=("]
            lines += [f"    '{zsh_text(name)}:{zsh_text(description)}'" for name, description in command.below.items()]
            lines += ["  )"]
            specs += ["'1: :->command'", "'*:: :->rest'"]
        elif command.takes_folder:
            specs.append("'1:folder:_files -/'")
        lines.append(f"  _arguments {'-C ' if command.below else ''}\\")
        lines.append(" \\\n".join(f"    {spec}" for spec in specs))
        if command.below:
            lines += ["  case $state in", "    command) _describe command commands ;;",
                      f"    rest) (( $+functions[{function}_$line[1]] )) && {function}_$line[1] ;;", "  esac"]
        lines.append("}")
    lines += ["", '_weir "$@"']
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(__doc__.strip())
    commands = read(sys.argv[1])
    if len(commands) < 8 or any(not command.options for command in commands):
        sys.exit("`weir --help` names few subcommands or options: has its form changed?")
    stale = []
    for name, text in (("weir.bash", bash(commands)), ("_weir", zsh(commands))):
        file = HERE / name
        if file.exists() and file.read_text() == text:
            continue
        stale.append(name)
        if not sys.argv[2:]:
            file.write_text(text)
    if sys.argv[2:] and stale:
        sys.exit("\n".join(f"packaging/completion/{name} is stale: run packaging/completion/generate.py build/bin/weir" for name in stale))


main()
