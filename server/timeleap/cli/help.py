"""Help: the overview of commands, the page of each, and the way out of a misuse."""

from __future__ import annotations

import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

from timeleap.cli.arguments import (
    HELP,
    WITHOUT_COMMAND,
    HelpAsked,
    MisuseError,
    argument_name,
    declared,
    everywhere,
    is_repeated,
    is_switch,
    kind_of,
    read,
    spellings,
)
from timeleap.cli.command import MISUSED, command, guarded, signature_of
from timeleap.cli.command_table import DAILY, SECTIONS, TABLE, installed, load
from timeleap.cli.command_text import documentation, summary_of
from timeleap.cli.completion import install, show
from timeleap.cli.installed_parts import PROGRAMS, program
from timeleap.cli.output import Output
from timeleap.cli.parameters import Argument, Commands, Option, Registered
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.version import __version__

app = Commands()

_WIDEST = 100
"""Columns of a paragraph, however wide the terminal is."""
_NAMES = 26
"""Columns of names after which a description begins on the next line."""
_ABOUT = "Durable conversations for AI agents: history, checkpoints, time travel and its undo."
_FIRST_STEPS = (
    "timeleap demo",
    'timeleap new fix-dates && timeleap append fix-dates "Why is 1969 wrong?"',
    "timeleap checkpoint fix-dates && timeleap log fix-dates",
)
_EXIT_CODES = "Exit codes: 0 done, 1 an error (in words on the standard error output), 2 a misuse, 130 Ctrl-C."
_OPTIONS = (
    ("--version", "Print the version."),
    ("--install-completion", "Have the shell complete commands; bash, zsh or fish may be named behind it."),
    ("--show-completion", "Print the shell's script for it; powershell may be named, too."),
    ("-h, --help", "Show this help."),
)
_MEANT = {
    **dict.fromkeys(("delete", "remove", "rm"), "trash delete"),
    **dict.fromkeys(("list", "ls"), "sessions"),
    **dict.fromkeys(("create", "init"), "new"),
    **dict.fromkeys(("history", "messages", "cat"), "show"),
    **dict.fromkeys(("status", "info"), "state"),
    **dict.fromkeys(("rollback", "reset"), "revert"),
    **dict.fromkeys(("checkpoints", "timelines"), "log"),
    **dict.fromkeys(("undelete", "purge"), "trash"),
    **dict.fromkeys(("snapshot", "snapshots"), "files"),
    "branch": "fork",
    "rename": "title",
}
"""Names that other programs give to commands of ours."""

Rows = Iterable[tuple[str, str]]


@command(app)
def help(  # noqa: A001
    terminal: Terminal,
    words: Annotated[list[str] | None, Argument(metavar="[COMMAND...]", help="The command to be explained.")] = None,
    *,
    everything: Annotated[bool, Option("--all", "-a", help="List every command.")] = False,
) -> None:
    """Explain a command, or list the commands.

    Examples:
        timeleap help revert
        timeleap help --all
    """
    if not words:
        _print(_overview(everything))
        return
    asked = read([*words, "--help"], load)
    if not isinstance(asked, HelpAsked) or asked.command is None:
        raise UsageError(f"there is no command {' '.join(words)}")
    tell(asked)


def tell(asked: HelpAsked) -> int:
    """Answer a question about the command line; returns the exit code."""
    if asked.option == "--version":
        sys.stdout.write(f"timeleap {__version__}\n")
    elif asked.option.endswith("-completion"):
        done = install if asked.option.startswith("--install") else show
        return done(asked.words[0] if asked.words else None)
    elif isinstance(asked.command, Registered):
        if asked.command.raw and asked.command.name in PROGRAMS:
            code: int = program(PROGRAMS[asked.command.name]).main(["--help"])
            return code
        _print(_page(asked.path, asked.command))
    elif not asked.option:
        return _without_command(asked)
    else:
        _print(_overview(everything=False) if asked.command is None else _group(asked.path, asked.command))
    return 0


def _without_command(asked: HelpAsked) -> int:
    """Help where a command is missing, or, at a terminal, the next steps of a person who typed nothing else."""
    group = asked.command if isinstance(asked.command, Commands) else None
    if asked.machine:
        names = [entry.name for entry in installed()] if group is None else _names(group)
        raise MisuseError(f"the command is missing: one of {', '.join(names)}", asked.path, group)
    if group is not None:
        _print(_group(asked.path, group))
    elif sys.stdin.isatty() and sys.stdout.isatty():
        from timeleap.cli.next_steps import say_next_steps

        terminal = Terminal(asked.home, machine=False)
        guarded(terminal, None, lambda: say_next_steps(terminal))
        return 0
    else:
        _print(_overview(everything=False))
    return MISUSED


def way_out(error: MisuseError) -> list[str]:
    """Lines that say how to do it right."""
    words = " ".join(("timeleap", *error.path))
    if isinstance(error.command, Registered):
        return [f"usage: {_usage(error.path, error.command)}", f"{words} --help explains it"]
    return [f"{words} {'help --all' if error.command is None else '--help'} lists the commands"]


def suggestion(error: MisuseError) -> str:
    """A question that names what an unknown word is close to; empty if it is close to nothing."""
    if not error.unknown:
        return ""
    import difflib

    if error.unknown.startswith("-"):
        own = signature_of(error.command.function).parameters if isinstance(error.command, Registered) else []
        options = [name for parameter in (*everywhere(), *own) for name, _ in spellings(parameter)]
        known = {name: name for name in (*HELP, *WITHOUT_COMMAND, *options)}
    elif isinstance(error.command, Commands):
        known = {name: name for name in _names(error.command)}
    else:
        known = {**_MEANT, **{name: name for name in TABLE}}
    words = "" if error.unknown.startswith("-") else " ".join(("timeleap", *error.path, ""))
    close = difflib.get_close_matches(error.unknown, known, 1)
    return f"did you mean {words}{known[close[0]]}?" if close else ""


def _names(group: Commands) -> list[str]:
    return [str(member.name) for member in group.members]


def _overview(everything: bool) -> Iterator[str]:
    yield "Usage: timeleap COMMAND [OPTIONS] [ARGUMENTS]"
    yield ""
    yield from _paragraph(_ABOUT)
    entries = {entry.name: entry for entry in installed()}
    if everything:
        sections = {title: [each for each in rows if each.name in entries] for title, rows in SECTIONS.items()}
    else:
        sections = {title: [each for each in entries.values() if each.daily == title] for title in DAILY}
    for title, rows in sections.items():
        yield from _section(title, [(each.name, each.about) for each in rows])
    yield from _section("Options", [*_OPTIONS, *_rows(everywhere())])
    if everything:
        yield from _section("First steps", [(line, "") for line in _FIRST_STEPS])
        yield ""
        yield from _paragraph(_EXIT_CODES)
    else:
        yield ""
        yield from _paragraph("timeleap help --all lists every command, timeleap COMMAND --help explains one.")


def _group(path: Sequence[str], group: Commands) -> Iterator[str]:
    yield f"Usage: timeleap {' '.join(path)} COMMAND [OPTIONS] [ARGUMENTS]"
    yield ""
    yield from _paragraph(group.help)
    yield from _section("Commands", [(str(member.name), summary_of(member)) for member in group.members])
    yield ""
    yield from _paragraph(f"timeleap {' '.join(path)} COMMAND --help explains one.")


def _page(path: Sequence[str], member: Registered) -> Iterator[str]:
    """The help of one command."""
    text, *examples = re.split(r"^Examples?:$", documentation(member), maxsplit=1, flags=re.MULTILINE)
    yield f"Usage: {_usage(path, member)}"
    for paragraph in text.strip().split("\n\n"):
        yield ""
        yield from _paragraph(paragraph)
    own = [] if member.raw else signature_of(member.function).parameters
    arguments = [each for each in own if isinstance(declared(each), Argument)]
    options = [each for each in own if each not in arguments]
    yield from _section("Arguments", _rows(arguments))
    yield from _section("Options", [*_rows(options), ("-h, --help", "Show this help.")])
    if not member.raw:
        yield from _section("Everywhere", _rows(everywhere()))
    lines = [line.strip() for line in "".join(examples).splitlines() if line.strip()]
    yield from _section("Examples", [(line, "") for line in lines])


def _usage(path: Sequence[str], member: Registered) -> str:
    arguments: list[str] = []
    if not member.raw:
        own = signature_of(member.function).parameters
        arguments = [_argument(each) for each in own if isinstance(declared(each), Argument)]
    return " ".join(["timeleap", *path, "[OPTIONS]", *arguments])


def _argument(parameter: inspect.Parameter) -> str:
    """An argument as the usage has it: in brackets if it may be left out, with dots if it may be repeated."""
    word = declared(parameter).metavar or argument_name(parameter)
    if is_repeated(parameter) and "..." not in word:
        word += "..."
    if parameter.default is not parameter.empty and not word.startswith("["):
        word = f"[{word}]"
    return word


def _rows(parameters: Iterable[inspect.Parameter]) -> Iterator[tuple[str, str]]:
    """The names of parameters, with what they are for."""
    for parameter in parameters:
        what = declared(parameter)
        if isinstance(what, Argument):
            names = _argument(parameter)
        else:
            names = ", ".join(sorted((name for name, _ in spellings(parameter)), key=len))
            if not is_switch(parameter):
                names += f" {_word(parameter)}"
        default = parameter.default
        shown = ""
        if default not in (None, parameter.empty, False, True) and default != []:
            shown = f" [default: {default}]"
        yield names, f"{what.help or ''}{shown}".strip()


def _word(parameter: inspect.Parameter) -> str:
    """The word for an option's value."""
    kind, what = kind_of(parameter), declared(parameter)
    word = what.metavar
    if word is None:
        if get_origin(kind) is Literal:
            word = "|".join(get_args(kind))
        elif kind is int:
            word = "N"
        elif kind is Path:
            word = "PATH" if what.dir_okay else "FILE"
        else:
            word = "TEXT"
    return word if what.alone is None else f"[{word}]"


def _section(title: str, rows: Rows) -> Iterator[str]:
    """A heading and its rows, the descriptions one below the other; nothing where there is no row."""
    found = [*rows]
    if not found:
        return
    yield ""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    yield f"{title}:" if plain else f"\033[1m{title}:\033[0m"
    widest = max((len(names) for names, about in found if about and len(names) <= _NAMES), default=0)
    for names, about in found:
        lines = textwrap.wrap(about, max(20, _columns() - widest - 4))
        if not lines:
            yield f"  {names}"
            continue
        first = names
        if len(names) > widest:
            yield f"  {names}"
            first = ""
        yield f"  {first:<{widest}}  {lines[0]}"
        yield from (f"  {'':<{widest}}  {line}" for line in lines[1:])


def _paragraph(text: str) -> Iterator[str]:
    """A paragraph as wide as the terminal, not as the source."""
    yield from textwrap.wrap(" ".join(text.split()), _columns(), break_long_words=False, break_on_hyphens=False)


def _columns() -> int:
    return min(_WIDEST, Output(sys.stdout).width)


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
