"""Declarations of commands and their parameters: `arguments` parses by them, `help` describes them, `completion` offers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Completer = Callable[[str, Path | None], Iterable[str | tuple[str, str]]]
"""Values that begin with a text, in the store of `--home`; each alone, or with a description."""


@dataclass(frozen=True)
class Parameter:
    """A parameter, declared in `Annotated[type, ...]`.

    Attributes:
        names: Spellings of an option, as they are typed; none: the parameter's own name. `--a/--b` is a switch with two sides.
        help: Its description, in a line.
        metavar: The word for its value in the help.
        min: The least number.
        file_okay, dir_okay: Whether a path that exists may be a file, or a directory.
        complete: Values for what was typed so far.
        alone: Value of an option that is typed without one.
    """

    names: tuple[str, ...]
    help: str | None
    metavar: str | None = None
    min: int | None = None
    file_okay: bool = True
    dir_okay: bool = True
    complete: Completer | None = None
    alone: str | None = None


class Argument(Parameter):
    """A parameter that is told by its place."""

    def __init__(self, help: str | None = None, **rest: Any) -> None:
        super().__init__((), help, **rest)


class Option(Parameter):
    """A parameter that is told by its name."""

    def __init__(self, *names: str, help: str | None = None, **rest: Any) -> None:
        super().__init__(names, help, **rest)


class Registered(NamedTuple):
    """A function that is a command.

    Attributes:
        name: Its last word on the command line.
        function: Its first parameter is the `Terminal`, the others are the user's. One that takes its arguments `raw`
            gets a list of them instead.
        unless: With this option the argument after SESSION need not be given.
        raw: Whether the command parses all that stands behind its name itself.
    """

    name: str
    function: Callable[..., None]
    unless: str | None = None
    raw: bool = False


@dataclass
class Commands:
    """The commands of a module, or of a group, in the order of the help.

    Attributes:
        name: The word for the group; None: a module's commands, which stand by themselves.
        help: The purpose of the group.
    """

    name: str | None = None
    help: str = ""
    members: list[Registered | Commands] = field(default_factory=list)

    def find(self, name: str) -> Registered | Commands | None:
        """The command, or the group, of that name."""
        return next((member for member in self.members if member.name == name), None)
