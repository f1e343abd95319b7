"""Reads a plain command line: every word is what it seems to be, and nothing is wrong with it.

Everything else (help, completion, errors in words, `--name=value`, letters together, words behind `--`) is left to the
library, which takes several times as long to load as all the rest of a command. A test compares the two.
"""

from __future__ import annotations

import inspect
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from timeleap.cli.command import Signature, bare, signature_of
from timeleap.cli.parameters import Argument, Commands, Parameter, Registered

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")


class NotPlainError(Exception):
    """The library has to read it."""


class PlainCall(NamedTuple):
    """A command and the values of its parameters, all of them."""

    command: Registered
    taken: Signature
    values: dict[str, Any]
    home: Path | None
    machine: bool


class _Value(NamedTuple):
    """How a parameter is read."""

    name: str
    kind: Any
    repeated: bool
    default: Any
    declared: Parameter

    def read(self, word: str) -> Any:
        """The value of a word."""
        try:
            word.encode()
        except UnicodeEncodeError:
            raise NotPlainError from None
        if self.kind is str:
            return word
        if self.kind is int and _NUMBER.fullmatch(word) and int(word) >= (self.declared.min or 0):
            return int(word)
        if get_origin(self.kind) is Literal and word in get_args(self.kind):
            return word
        if self.kind is Path and word and self._may_be(word):
            return Path(word)
        raise NotPlainError

    def _may_be(self, path: str) -> bool:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116
        except (OSError, ValueError):
            return "\0" not in path
        if (stat.S_ISREG(mode) and not self.declared.file_okay) or (stat.S_ISDIR(mode) and not self.declared.dir_okay):
            return False
        return os.access(path, os.R_OK)


def read(arguments: Sequence[str], commands: Commands, home: Any, machine: Any) -> PlainCall:
    """The call that a command line means; `home` and `machine` are the annotations of the options everywhere.

    Raises:
        NotPlainError: It is none, or may mean something else.
    """
    words = iter(arguments)
    everywhere = [
        _value(inspect.Parameter("home", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=home)),
        _value(inspect.Parameter("machine", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=machine)),
    ]
    before = _Values(everywhere)
    command: Registered | Commands = commands
    while isinstance(command, Commands):
        word = next(words, "")
        if word.startswith("-") and command is commands:
            before.take_option(word, words)
            continue
        if (found := command.find(word)) is None:
            raise NotPlainError
        command = found
    if command.raw:
        raise NotPlainError
    taken = signature_of(command.function)
    values = _Values([*map(_value, taken.parameters), *everywhere])
    words = iter(with_values(words, taken))
    for word in words:
        if word.startswith("-") and word != "-":
            values.take_option(word, words)
        else:
            values.take_argument(word)
    given = values.all()
    return PlainCall(
        command,
        taken,
        given,
        given.pop("home") or before.found.get("home"),
        bool(given.pop("machine") or before.found.get("machine")),
    )


def with_values(words: Iterable[str], taken: Signature) -> list[str]:
    """The words behind a command's name, with a value put behind each option that means something alone."""
    filled: list[str] = []
    values = {
        name: (option.alone, get_args(bare(parameter.annotation)))
        for parameter in taken.parameters
        if (option := parameter.annotation.__metadata__[0]).alone is not None
        for name in option.names
    }
    left = list(words)
    for at, word in enumerate(left):
        filled.append(word)
        if word == "--":
            return [*filled, *left[at + 1 :]]
        if word in values and left[at + 1 : at + 2] not in [[value] for value in values[word][1]]:
            filled.append(values[word][0])
    return filled


def _value(parameter: inspect.Parameter) -> _Value:
    kind = bare(parameter.annotation)
    repeated = get_origin(kind) is list
    declared: Parameter = parameter.annotation.__metadata__[0]
    return _Value(parameter.name, get_args(kind)[0] if repeated else kind, repeated, parameter.default, declared)


class _Values:
    """The values of parameters, as they are found word by word."""

    def __init__(self, values: list[_Value]) -> None:
        self.found: dict[str, Any] = {}
        self._values = values
        self._arguments = [value for value in values if isinstance(value.declared, Argument)]
        self._options: dict[str, tuple[_Value, bool]] = {}
        for value in values:
            if not isinstance(value.declared, Argument):
                for names in value.declared.names or ("--" + value.name.replace("_", "-"),):
                    on, _, off = names.partition("/")
                    self._options |= {on: (value, True)} | ({off: (value, False)} if off else {})

    def take_option(self, word: str, words: Iterator[str]) -> None:
        value, side = self._options.get(word) or _not_plain()
        if value.kind is bool:
            self.found[value.name] = side
            return
        given = next(words, None)
        if given is None or (given.startswith("-") and given != "-"):
            raise NotPlainError
        self._put(value, given)

    def take_argument(self, word: str) -> None:
        if not self._arguments:
            raise NotPlainError
        value = self._arguments[0]
        if not value.repeated:
            del self._arguments[0]
        elif len(self._arguments) > 1:
            raise NotPlainError
        self._put(value, word)

    def all(self) -> dict[str, Any]:
        """Arguments that were found, and defaults; SESSION, and the ones behind it, may be found out later."""
        for value in self._values:
            if value.name not in self.found:
                self.found[value.name] = _not_plain() if value.default is inspect.Parameter.empty else value.default
        return self.found

    def _put(self, value: _Value, word: str) -> None:
        if value.repeated:
            self.found.setdefault(value.name, []).append(value.read(word))
        else:
            self.found[value.name] = value.read(word)


def _not_plain() -> Any:
    raise NotPlainError
