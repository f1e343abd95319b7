"""Parameters of commands, declared without the library that parses the general case: `arguments` reads the plain one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Parameter:
    """A parameter, declared in `Annotated[type, ...]`.

    Attributes:
        names: Spellings of an option, as they are typed; none: the parameter's own name. `--a/--b` is a switch with two sides.
        help: Its description, in a line.
        metavar: The word for its value in the help.
        min: The least number.
        file_okay, dir_okay: Whether a path that exists may be a file, or a directory.
        autocompletion: Values for what was typed so far.
        panel: Where the help lists it.
        alone: Value of an option that is typed without one.
    """

    names: tuple[str, ...]
    help: str | None
    metavar: str | None = None
    min: int | None = None
    file_okay: bool = True
    dir_okay: bool = True
    autocompletion: Callable[..., Any] | None = None
    panel: str | None = None
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
        name: What it is called.
        function: Its first parameter is the `Terminal`, the others are the user's. One that takes its arguments `raw`
            gets the parser's context instead.
        unless: With this option the argument after SESSION need not be given.
        panel: Where the overview lists it.
        raw: Whether all that stands behind the name is the command's own business.
    """

    name: str
    function: Callable[..., None]
    unless: str | None
    panel: str | None
    raw: bool = False


@dataclass
class Commands:
    """The commands of a module, or of a group, in the order of the overview.

    Attributes:
        panel: Where the overview lists the group; or its commands, where they do not say so themselves.
        name: What the group is called; None: it is none, its commands stand by themselves.
        help: What the group is for.
    """

    panel: str | None = None
    name: str | None = None
    help: str | None = None
    members: list[Registered | Commands] = field(default_factory=list)

    def find(self, name: str) -> Registered | Commands | None:
        """The command, or the group, of that name."""
        for member in self.members:
            if member.name == name:
                return member
            if isinstance(member, Commands) and member.name is None and (found := member.find(name)) is not None:
                return found
        return None
