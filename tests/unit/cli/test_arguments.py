"""Every word of a command line means what it says, in any order and any usual spelling, or the refusal says why not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cli import every_command

from timeleap.cli.arguments import (
    HelpAsked,
    MisuseError,
    ParsedCommand,
    declared,
    is_repeated,
    is_switch,
    kind_of,
    read,
    spellings,
)
from timeleap.cli.command import signature_of
from timeleap.cli.command_table import load
from timeleap.cli.help import suggestion, way_out
from timeleap.cli.parameters import Argument

COMMANDS = {path: command for path, command in every_command() if not command.raw}


def call(*words: str) -> ParsedCommand:
    meant = read(words, load)
    assert isinstance(meant, ParsedCommand)
    return meant


def refused(*words: str) -> MisuseError:
    with pytest.raises(MisuseError) as caught:
        read(words, load)
    return caught.value


def value_of(parameter: Any, draw: st.DrawFn) -> str:
    kind = kind_of(parameter)
    if get_origin(kind):
        return draw(st.sampled_from(get_args(kind)))
    if kind is int:
        return str(draw(st.integers(declared(parameter).min or 0, 10**15)))
    return draw(st.sampled_from(["s", "a b", "é", "no/where", "1.5", "a=b", "-", "x" * 70, "#3", "-dash", "--home"]))


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[list[str], dict[str, Any]]:
    """A command with some of its parameters, in any order and spelling, and the words that each was given."""
    path = draw(st.sampled_from(sorted(COMMANDS)))
    parameters = signature_of(COMMANDS[path].function).parameters
    expected: dict[str, Any] = {}
    options: list[list[str]] = []
    arguments: list[str] = []
    for parameter in parameters:
        is_argument = isinstance(declared(parameter), Argument)
        if not is_argument and parameter.default is not parameter.empty and not draw(st.booleans()):
            continue
        if is_switch(parameter):
            name, on = draw(st.sampled_from(spellings(parameter)))
            expected[parameter.name] = on
            options.append([name])
            continue
        words = [value_of(parameter, draw) for _ in range(draw(st.integers(1, 2)) if is_repeated(parameter) else 1)]
        if is_argument:
            words = [word.lstrip("-") or "x" for word in words]
            arguments += words
        else:
            written: list[str] = []
            for word in words:
                name, _ = draw(st.sampled_from(spellings(parameter)))
                joined = f"{name}={word}" if name.startswith("--") else f"{name}{word}"
                written += draw(st.sampled_from([[name, word], [joined]]))
            options.append(written)
        read_words = [kind_of(parameter)(word) if kind_of(parameter) in (int, Path) else word for word in words]
        expected[parameter.name] = read_words if is_repeated(parameter) else read_words[-1]
    line = [*path]
    in_any_order: list[list[str]] = draw(st.permutations(options))
    for option in in_any_order:
        number = draw(st.integers(0, len(arguments)))
        line += [*arguments[:number], *option]
        arguments = arguments[number:]
    return line + arguments, expected


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(command_lines())
def test_every_parameter_gets_the_words_that_were_meant_for_it(line: tuple[list[str], dict[str, Any]]) -> None:
    words, expected = line
    assert {name: call(*words).values[name] for name in expected} == expected


@pytest.mark.parametrize("path", sorted(COMMANDS), ids=" ".join)
def test_defaults_stand_where_nothing_is_given(path: tuple[str, ...]) -> None:
    parameters = signature_of(COMMANDS[path].function).parameters
    required: list[str] = []
    for each in parameters:
        if each.default is each.empty:
            word = "x" if kind_of(each) in (str, Path) else get_args(kind_of(each))[0]
            required += [*(name for name, _ in spellings(each)[:1]), word]
    values = call(*path, *required).values
    assert all(values[each.name] == each.default for each in parameters if each.default is not each.empty)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("append s two words --role tool", {"session": "s", "text": ["two", "words"], "role": "tool"}),
        ("append - -r user", {"session": "-", "role": "user"}),
        ("log -n5", {"checkpoints": 5}),
        ("log -n 007 s --no-graph", {"checkpoints": 7, "session": "s", "graph": False}),
        ("undo -n 2 --restore=both", {"steps": 2, "restore": "both"}),
        ("prune s -yn", {"yes": True, "dry_run": True}),
        ("title s -- --yes", {"session": "s", "text": ["--yes"]}),
        ("title s -- -h", {"text": ["-h"]}),
        ("title --home /x --home /y s", {"session": "s"}),
        ("search -E -- -x", {"query": "-x", "regex": True}),
        ("new --title --json", {"title": "--json"}),
        ("trash purge a b -y", {"sessions": ["a", "b"], "yes": True}),
        ("pins s --add a --add b", {"add": ["a", "b"]}),
        ("-- sessions", {}),
    ],
)
def test_usual_spellings(line: str, values: dict[str, Any]) -> None:
    found = call(*line.split()).values
    assert {name: found[name] for name in values} == values


@pytest.mark.parametrize(
    ("line", "mode", "session"),
    [
        ("new --files", "checkpoint", None),
        ("new --files turn", "turn", None),
        ("new --files=turn", "turn", None),
        ("new --files s", "checkpoint", "s"),
        ("new s --files --title x", "checkpoint", "s"),
    ],
)
def test_an_option_may_stand_without_its_value(line: str, mode: str, session: str | None) -> None:
    values = call(*line.split()).values
    assert (values["files"], values["session"]) == (mode, session)


@pytest.mark.parametrize("line", ["--home /x --json state s", "state --json s --home /x", "--json state s --home=/x"])
def test_what_every_command_has_stands_before_it_and_behind_it(line: str) -> None:
    meant = call(*line.split())
    assert (meant.home, meant.machine, meant.values["session"]) == (Path("/x"), True, "s")
    assert call("--home", "/x", "trash", "--json", "list", "--home", "/y").home == Path("/y")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("log -n x", "-n takes a number, and x is none"),
        ("log --checkpoints=", "--checkpoints takes a number"),
        ("log -n 0", "-n is at least 1, and not 0"),
        ("log -n", "-n needs a value"),
        ("log --json=yes", "--json takes no value"),
        ("log --check 3", "there is no option --check"),
        ("log -1", "there is no option -1"),
        ("prune s -yx", "there is no option -x"),
        ("new s -- --files", "--files is an argument too many"),
        ("yolo s maybe", "maybe is not one of on, off"),
        ("search", "missing argument TEXT"),
        ("config get", "missing argument KEY"),
        ("subagents put s name", "missing option --prompt"),
        ("trash nothing", "there is no command trash nothing"),
        ("no-such-command", "there is no command no-such-command"),
        ("--no-such state", "there is no option --no-such"),
        ("--home", "--home needs a value"),
    ],
)
def test_what_cannot_be_meant_is_said(line: str, said: str) -> None:
    error = refused(*line.split())
    assert said in str(error)
    assert any("--help" in line or "help --all" in line for line in way_out(error))


def test_a_path_of_the_wrong_kind_is_said(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert f"--home is a directory, and {file} is a file" in str(refused("state", "--home", str(file)))
    assert f"is a file, and {tmp_path} is a directory" in str(refused("export", "s", str(tmp_path)))
    assert "null character" in str(refused("state", "--home", "a\0b"))
    assert call("state", "--home", str(tmp_path / "not there")).home == tmp_path / "not there"
    if os.geteuid():
        file.chmod(0)
        assert "may not be read" in str(refused("export", "s", str(file)))


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("delete", "timeleap trash delete"),
        ("ls", "timeleap sessions"),
        ("delet", "timeleap trash delete"),
        ("sesions", "timeleap sessions"),
        ("trash lst", "timeleap trash list"),
        ("log --chekpoints 3", "--checkpoints"),
        ("--jsno sessions", "--json"),
        ("xyzzy", ""),
        ("search", ""),
    ],
)
def test_a_word_that_is_close_to_another_leads_to_it(line: str, meant: str) -> None:
    assert suggestion(refused(*line.split())) == (f"did you mean {meant}?" if meant else "")


@pytest.mark.parametrize("line", ["--help", "-h", "trash -h", "trash purge --help", "log -n x --help", "hook x --help"])
def test_help_is_asked_for_at_every_place(line: str) -> None:
    asked = read(line.split(), load)
    assert isinstance(asked, HelpAsked)
    assert asked.path == tuple(word for word in line.split() if word in ("trash", "purge", "log", "hook"))
