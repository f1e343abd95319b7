"""The forms a session can be exported to and imported from, by name, each loaded when it is used; and what is lost in a
conversion into another form, or out of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from timeleap.errors import InvalidInputError

MOST: Final = 100
"""Different losses that are told apart; there may be as many as lines in a file."""


class ExportFormat(Struct, frozen=True):
    """A form of a session.

    Attributes:
        name: On the wire.
        writer: Module and function that write it; empty where it is only read.
    """

    name: str
    writer: str = ""


FORMATS: Final = (
    ExportFormat("native", "archive:write_archive"),
    ExportFormat("markdown", "markdown:write_markdown"),
    ExportFormat("html", "page:write_page"),
    ExportFormat("kimi"),
    ExportFormat("claude-code"),
    ExportFormat("codex"),
)

EXPORTED: Final = {form.name: form for form in FORMATS if form.writer}
IMPORTED: Final = tuple(form.name for form in FORMATS if form.name not in ("markdown", "html"))


def exported(name: str) -> ExportFormat:
    """The form of that name. Raises InvalidInputError where there is none that is written."""
    if name not in EXPORTED:
        raise unsupported(name, tuple(EXPORTED))
    return EXPORTED[name]


def unsupported(name: str, known: tuple[str, ...]) -> InvalidInputError:
    """A form that is not known, or not that way round."""
    message = f"format: {name[:80]!r} is not supported; one of {', '.join(known)}"
    problem: dict[str, Any] = {"loc": ["format"], "msg": f"must be one of {', '.join(known)}", "type": "format"}
    return InvalidInputError(message, errors=[problem])


class ExportLoss(Struct, frozen=True):
    """Something that is not carried over: in one word for programs, and for people what is missing and how much."""

    kind: str
    message: str


class LossTally:
    """Counts losses by kind and message."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, message: str, number: int = 1) -> None:
        """Note `number` more of a kind; `message` says what, in words that stand behind a number."""
        known = (kind, message) in self._counts or len(self._counts) < MOST
        self._counts[(kind, message) if known else ("more", "things of other kinds")] += number

    def losses(self) -> list[ExportLoss]:
        return [ExportLoss(kind, f"{number} {message}") for (kind, message), number in self._counts.items()]


def listed(names: Iterable[str], most: int = 5) -> str:
    every = sorted(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
