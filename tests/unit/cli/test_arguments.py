"""A plain command line means what the library says it means; what the library refuses, or reads in its own way, is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.exceptions import TyperException
from typer.main import get_command

from timeleap.cli import typer_app
from timeleap.cli.app import _MODULES, modules
from timeleap.cli.arguments import NotPlainError, read
from timeleap.cli.command import Home, Machine, bare, signature_of
from timeleap.cli.parameters import Argument, Commands, Registered


class Meant(NamedTuple):
    """What a command line was read as."""

    function: Any
    values: dict[str, Any]
    home: Path | None
    machine: bool


def every(commands: Commands, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Registered]]:
    """The commands, by the words that name them."""
    found: list[tuple[tuple[str, ...], Registered]] = []
    for member in commands.members:
        if isinstance(member, Registered):
            found.append(((*path, member.name), member))
        else:
            found += every(member, path if member.name is None else (*path, member.name))
    return found


COMMANDS = {path: command for module in modules() for path, command in every(module) if not command.raw}
LIBRARY: Any = get_command(typer_app.application(modules()))


def plain(arguments: list[str]) -> Meant | None:
    """How the plain reader takes it; None where it leaves it to the library."""
    module = next(module for module, names in _MODULES.items() if arguments_name(arguments) in names)
    try:
        call = read(arguments, modules(_MODULES[module][0])[0], Home, Machine)
    except NotPlainError:
        return None
    return Meant(call.command.function, call.values, call.home, call.machine)


def arguments_name(arguments: list[str]) -> str:
    return next(word for word in arguments if any(word == path[0] for path in COMMANDS))


def by_library(arguments: list[str]) -> Meant | None:
    """How the library takes it; None where it refuses."""
    seen: list[Meant] = []

    def note(command: Registered, _taken: Any, terminal: Any, values: dict[str, Any]) -> None:
        seen.append(Meant(command.function, values, terminal.home, terminal.machine))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer_app, "run_command", note)
        try:
            LIBRARY.main(arguments, prog_name="timeleap", standalone_mode=False)
        except TyperException:
            return None
    return seen[0] if seen else None


WORDS = [
    "s",
    "1",
    "0",
    "12",
    "-",
    "on",
    "off",
    "a b",
    "",
    ".",
    "#3",
    "1.5",
    "007",
    "é",
    "\udcff",
    "a\tb",
    "x" * 70,
    os.devnull,
    "/",
    "no/where",
]
ODD = [
    "--",
    "--help",
    "-h",
    "--home",
    "--json",
    "--home=/x",
    "-n5",
    "-yn",
    "--no-such",
    "-1",
    "--n",
    "--version",
    "--no-json",
]


def options(command: Registered) -> list[tuple[str, Any]]:
    """The names of its options, with their types."""
    return [
        (side, bare(parameter.annotation))
        for parameter in signature_of(command.function).parameters
        if not isinstance(parameter.annotation.__metadata__[0], Argument)
        for name in parameter.annotation.__metadata__[0].names or ("--" + parameter.name.replace("_", "-"),)
        for side in name.split("/")
    ]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    path = draw(st.sampled_from(sorted(COMMANDS)))
    words = [*draw(st.sampled_from([[], [], [], ["--json"], ["--home", "/x"], ["--home", "", "--json"]])), *path]
    known = [*options(COMMANDS[path]), ("--home", Path), ("--json", bool)]
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.integers(0, 9))
        if kind < 5:
            words.append(draw(st.sampled_from(WORDS)))
        elif kind < 9:
            name, value = draw(st.sampled_from(known))
            words.append(name)
            if value is not bool and draw(st.integers(0, 9)):
                choices = [str(each) for each in get_args(value)] if get_origin(value) not in (None, list) else []
                words.append(draw(st.sampled_from([*WORDS, *choices, "5", "20"])))
        else:
            words.append(draw(st.sampled_from(ODD)))
    return words


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(command_lines())
def test_what_is_plain_is_what_the_library_says(arguments: list[str]) -> None:
    meant = plain(arguments)
    if meant is not None:
        assert meant == by_library(arguments), arguments


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_command_can_be_plain(path: tuple[str, ...]) -> None:
    """With every option and every argument it has, each with a value of its kind."""
    words = [*path]
    for parameter in signature_of(COMMANDS[path].function).parameters:
        declared, kind = parameter.annotation.__metadata__[0], bare(parameter.annotation)
        value = {int: "7", Path: "no/where"}.get(kind) or (
            get_args(kind)[0] if get_origin(kind) not in (None, list) else "x"
        )
        if isinstance(declared, Argument):
            words.append(value)
        else:
            names = declared.names or ("--" + parameter.name.replace("_", "-"),)
            words += [names[-1].split("/")[-1], *([] if kind is bool else [value])]
    words += ["--json", "--home", "no/where"]
    meant = plain(words)
    assert meant is not None
    assert meant == by_library(words)


@pytest.mark.parametrize(
    "line",
    [
        *("append", "append s", "append s text", "append s two words --role tool", "append - -r user", "log s -w"),
        *(
            "--json sessions",
            "sessions --json",
            "trash list",
            "trash purge a b -y",
            "revert s 3 --dry-run",
            "undo -n 2",
            "new s --files --json",
            "new --files turn s",
            "revert s 3 --restore both --on-conflict keep",
        ),
    ],
)
def test_what_people_type_is_plain(line: str) -> None:
    assert plain(line.split()) == by_library(line.split()) is not None


@pytest.mark.parametrize(
    ("line", "mode", "session"),
    [
        ("new --files", "checkpoint", None),
        ("new --files turn", "turn", None),
        ("new --files=turn", "turn", None),
        ("new --files s", "checkpoint", "s"),
        ("new s --files --title x", "checkpoint", "s"),
        ("new s -- --files", None, "s"),
    ],
)
def test_an_option_may_stand_without_its_value(line: str, mode: str | None, session: str | None) -> None:
    meant = plain(line.split()) or by_library(line.split())
    if mode is None:
        assert meant is None  # behind `--` it is a second argument, which is one too many
    else:
        assert meant is not None
        assert (meant.values["files"], meant.values["session"]) == (mode, session)


@pytest.mark.parametrize(
    "line", ["append --help", "append --role=tool", "append -- -x", "log -n5", "log -n x", "log -n 0", "yolo s maybe", "trash", "append --no-such"]
)  # fmt: skip
def test_the_rest_is_left_to_the_library(line: str) -> None:
    assert plain(line.split()) is None
