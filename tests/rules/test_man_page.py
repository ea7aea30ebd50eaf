#!/usr/bin/env python3
"""Holds docs/weir.1 against the program: every command, every option and every setting, and none that is not there; and the settings of
docs/command.md.

Usage: test_man_page.py WEIR MAN_PAGE COMMAND_PAGE
"""
import os
import re
import subprocess
import sys


def output(*command):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=clean).stdout


def read_help(weir, words=()):
    """Returns the options of a command and of all below it: {("bench", "select"): {"--count", ...}, ...}."""
    text = output(weir, *words, "--help")
    options = set()
    for line in re.findall(r"^  (-\S+)", text, re.M):
        options |= {re.sub(r"\{.*", "", word) for word in line.split(",")}
    below = {words: options if not words else options - {"-h", "--help"}}
    if "\nSubcommands:\n" in text:
        for name in re.findall(r"^  (\w+)", text.split("\nSubcommands:\n")[1], re.M):
            below |= read_help(weir, (*words, name))
    return below


def read_page(page):
    """Returns the same from the page, whose sections are named after the commands, and the settings that it names."""
    found, section, settings = {(): set()}, None, set()
    lines = page.replace("\\-", "-").splitlines()
    for before, line in zip(lines, lines[1:]):
        if line.startswith(".SH OPTIONS"):
            section = ()
        elif line.startswith(".SS weir "):
            section = tuple(line.split()[2:])
            found[section] = set()
        elif line.startswith(".SH"):
            section = None
        elif before == ".TP" and section is not None:
            found[section] |= set(re.findall(r"--?[a-z][a-z-]*", line))
        elif before == ".TP" and ".B WEIR_" in line:
            settings.add(line.split()[1])
    return found, settings


def differences(what, real, page):
    return [f"the program has {what} {name}, the page has not" for name in sorted(real - page)] + \
           [f"the page has {what} {name}, the program has not" for name in sorted(page - real)]


def main():
    weir, page, command_page = sys.argv[1:]
    commands = read_help(weir)
    documented, settings = read_page(open(page).read())
    if len(commands) < 2:
        sys.exit("`weir --help` names no subcommands: has its form changed?")
    wrong = differences("command", {" ".join(c) for c in commands}, {" ".join(c) for c in documented})
    for command in commands.keys() & documented.keys():
        wrong += differences(f"of weir {' '.join(command)} the option", commands[command], documented[command])
    known = set(re.findall(r"^  (WEIR_\w+)", output(weir, "info"), re.M))
    wrong += differences("setting", known, settings)
    wrong += [f"{command_page}: {line}" for line in differences("setting", known, set(re.findall(r"^\| `(WEIR_\w+)`", open(command_page).read(), re.M)))]
    if wrong:
        sys.exit("\n".join(wrong) + f"\nMend {page}, or the program.")


main()
