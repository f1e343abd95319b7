"""The parser of the command line: words become a command with the values of its parameters.

Options and arguments may stand in any order. `--name=value`, letters together (`-yn`), a letter with its value (`-n5`),
and `--`, behind which nothing is an option, mean what they mean to most programs.
"""

from __future__ import annotations

import inspect
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from timeleap.cli.command import Home, Machine, Signature, bare, signature_of
from timeleap.cli.parameters import Argument, Commands, Parameter, Registered
from timeleap.cli.terminal import UsageError

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
HELP = ("--help", "-h")
WITHOUT_COMMAND = ("--version", "--install-completion", "--show-completion")
"""Options of the command line as a whole that ask for something, in the place of a command."""

Found = Registered | Commands


class MisuseError(UsageError):
    """A command line that cannot be meant.

    Attributes:
        path: The words of the command, as far as they were understood.
        command: The command, or the group; None: the command line as a whole.
        unknown: The word that is none, if it is the name of a command or an option.
    """

    def __init__(self, message: str, path: tuple[str, ...], command: Found | None, unknown: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.command = command
        self.unknown = unknown


class ParsedCommand(NamedTuple):
    """A command and the values of its parameters, all of them."""

    command: Registered
    taken: Signature
    values: dict[str, Any]
    home: Path | None
    machine: bool


class HelpAsked(NamedTuple):
    """A question about the command line itself: an option of `WITHOUT_COMMAND`, `--help`, or "" for no word at all.

    Attributes:
        words: All that stands behind the option.
        path, command: The command, or the group, whose help is wanted.
        home, machine: The values of `--home` and `--json`.
    """

    option: str
    words: Sequence[str]
    path: tuple[str, ...]
    command: Found | None
    home: Path | None = None
    machine: bool = False


def everywhere() -> list[inspect.Parameter]:
    """The options that every command has."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("home", keyword, default=None, annotation=Home),
        inspect.Parameter("machine", keyword, default=False, annotation=Machine),
    ]


def read(arguments: Sequence[str], load: Callable[[str], Found | None]) -> ParsedCommand | HelpAsked:
    """The call that a command line means.

    Args:
        arguments: The words behind the program's name.
        load: The command, or the group, of a first word.

    Raises:
        MisuseError: It cannot be meant.
    """
    words = deque(arguments)
    found = _find_command(words, load)
    if isinstance(found, HelpAsked):
        return found
    path, command, shared = found
    if command.raw:
        if not set(HELP).isdisjoint(words):
            return HelpAsked(HELP[0], (), path, command)
        return ParsedCommand(command, Signature([], False, {}, ()), {"arguments": [*words]}, **shared)
    taken = signature_of(command.function)
    values = Values(path, command, [*taken.parameters, *everywhere()])
    while words:
        word = words.popleft()
        if word == "--":
            for argument in words:
                values.take_argument(argument)
            break
        if word in HELP:
            return HelpAsked(word, (), path, command)
        if word.startswith("-") and word != "-":
            values.take_option(word, words)
        else:
            values.take_argument(word)
    given = values.all()
    home, machine = given.pop("home"), given.pop("machine")
    return ParsedCommand(command, taken, given, home or shared["home"], machine or shared["machine"])


def _find_command(
    words: deque[str], load: Callable[[str], Found | None]
) -> tuple[tuple[str, ...], Registered, dict[str, Any]] | HelpAsked:
    """Take the words up to the command's name; returns its path, the command, and the values of `everywhere`."""
    path: tuple[str, ...] = ()
    command: Found | None = None
    values = Values(path, command, everywhere())
    while command is None or isinstance(command, Commands):
        word = words.popleft() if words else None
        if word in HELP or (word in WITHOUT_COMMAND and command is None):
            return HelpAsked(word, [*words], path, command)
        if word is None or (word == "--" and not words):
            return HelpAsked("", (), path, command, **values.all())
        if word == "--":
            word = words.popleft()
        elif word.startswith("-"):
            values.take_option(word, words)
            continue
        found = load(word) if command is None else command.find(word)
        if found is None:
            raise MisuseError(f"there is no command {' '.join((*path, word))}", path, command, word)
        command = found
        path = (*path, word)
    return path, command, values.all()


class Values:
    """The values of a command's parameters, found word by word."""

    def __init__(self, path: tuple[str, ...], command: Found | None, parameters: Sequence[inspect.Parameter]) -> None:
        self._path = path
        self._command = command
        self._parameters = parameters
        self._words: dict[str, list[tuple[str, str]]] = {}
        """Each word with the name by which a person knows the parameter."""
        self._switches: dict[str, bool] = {}
        self.arguments = [each for each in parameters if isinstance(declared(each), Argument)]
        self.options = {name: (parameter, on) for parameter in parameters for name, on in spellings(parameter)}

    def take_option(self, word: str, words: deque[str]) -> None:
        """Take an option, or several letters, with the value, which may be the next of `words`."""
        if word.startswith("--"):
            name, equals, given = word.partition("=")
            parameter, on = self._option(name)
            if not is_switch(parameter):
                self._put(parameter, name, given if equals else self._next(parameter, name, words))
            elif equals:
                raise self._misuse(f"{name} takes no value")
            else:
                self._switches[parameter.name] = on
            return
        for at, letter in enumerate(word[1:], start=2):
            name = f"-{letter}"
            parameter, on = self._option(name)
            if not is_switch(parameter):
                self._put(parameter, name, word[at:] or self._next(parameter, name, words))
                return
            self._switches[parameter.name] = on

    def take_argument(self, word: str) -> None:
        """Take an argument for the first parameter that still wants one."""
        if not self.arguments:
            raise self._misuse(f"{word} is an argument too many")
        parameter = self.arguments[0]
        if not is_repeated(parameter):
            del self.arguments[0]
        self._put(parameter, argument_name(parameter), word)

    def all(self) -> dict[str, Any]:
        """The values of all parameters, by their names, with defaults for those that were not given.

        Raises:
            MisuseError: A value is none of its kind, or is missing.
        """
        values: dict[str, Any] = dict(self._switches)
        for parameter in self._parameters:
            given = [self._read(parameter, *each) for each in self._words.get(parameter.name, ())]
            if parameter.name in values:
                continue
            if given:
                values[parameter.name] = given if is_repeated(parameter) else given[-1]
            elif parameter.default is parameter.empty:
                names = spellings(parameter)
                raise self._misuse(
                    f"missing {f'option {names[0][0]}' if names else f'argument {argument_name(parameter)}'}"
                )
            else:
                values[parameter.name] = parameter.default
        return values

    def given(self, name: str) -> str | None:
        """The word that was given for a parameter."""
        words = self._words.get(name)
        return words[-1][1] if words else None

    def _option(self, name: str) -> tuple[inspect.Parameter, bool]:
        try:
            return self.options[name]
        except KeyError:
            raise MisuseError(f"there is no option {name}", self._path, self._command, name) from None

    def _next(self, parameter: inspect.Parameter, name: str, words: deque[str]) -> str:
        alone = declared(parameter).alone
        if alone is not None and (not words or words[0] not in get_args(bare(parameter.annotation))):
            return alone
        if not words:
            raise self._misuse(f"{name} needs a value")
        return words.popleft()

    def _put(self, parameter: inspect.Parameter, name: str, word: str) -> None:
        self._words.setdefault(parameter.name, []).append((name, word))

    def _read(self, parameter: inspect.Parameter, name: str, word: str) -> Any:
        kind = kind_of(parameter)
        if kind is int:
            return self._number(declared(parameter), name, word)
        if get_origin(kind) is Literal and word not in get_args(kind):
            raise self._misuse(f"{name}: {word} is not one of {', '.join(get_args(kind))}")
        if kind is Path:
            return self._path_of(declared(parameter), name, word)
        return word

    def _number(self, parameter: Parameter, name: str, word: str) -> int:
        if _NUMBER.fullmatch(word.strip()) is None:
            raise self._misuse(f"{name} takes a number, and {word} is none")
        number = int(word)
        if parameter.min is not None and number < parameter.min:
            raise self._misuse(f"{name} is at least {parameter.min}, and not {number}")
        return number

    def _path_of(self, parameter: Parameter, name: str, word: str) -> Path:
        if "\0" in word:
            raise self._misuse(f"{name} is a path, and none has a null character in it")
        try:
            mode = os.stat(word).st_mode  # noqa: PTH116
        except OSError:
            return Path(word)  # it is about to be made, or the command says what is wrong with it
        if stat.S_ISREG(mode) and not parameter.file_okay:
            raise self._misuse(f"{name} is a directory, and {word} is a file")
        if stat.S_ISDIR(mode) and not parameter.dir_okay:
            raise self._misuse(f"{name} is a file, and {word} is a directory")
        if not os.access(word, os.R_OK):
            raise self._misuse(f"{word} may not be read: check the permissions")
        return Path(word)

    def _misuse(self, message: str) -> MisuseError:
        return MisuseError(message, self._path, self._command)


def declared(parameter: inspect.Parameter) -> Parameter:
    """The declaration in a parameter's annotation."""
    found: Parameter = parameter.annotation.__metadata__[0]
    return found


def spellings(parameter: inspect.Parameter) -> list[tuple[str, bool]]:
    """The names of an option, each with the value of a switch that is given by it; none for an argument."""
    option = declared(parameter)
    if isinstance(option, Argument):
        return []
    found: list[tuple[str, bool]] = []
    for names in option.names or ("--" + parameter.name.replace("_", "-"),):
        on, _, off = names.partition("/")
        found.append((on, True))
        if off:
            found.append((off, False))
    return found


def kind_of(parameter: inspect.Parameter) -> Any:
    """The type of one value of a parameter."""
    kind = bare(parameter.annotation)
    return get_args(kind)[0] if get_origin(kind) is list else kind


def is_repeated(parameter: inspect.Parameter) -> bool:
    """True for a parameter that takes several values."""
    return get_origin(bare(parameter.annotation)) is list


def is_switch(parameter: inspect.Parameter) -> bool:
    """True for an option without a value."""
    return bare(parameter.annotation) is bool


def argument_name(parameter: inspect.Parameter) -> str:
    """The word for an argument in messages."""
    return (declared(parameter).metavar or parameter.name.upper().replace("_", "-")).strip("[].")
