"""The forms a session can be exported to and imported from, by name, each loaded when it is used; and what is lost in a
conversion into another form, or out of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from timeleap.errors import InvalidInputError
from timeleap.sessions.working_tree import TreeControl

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


@runtime_checkable
class FilesExport(Protocol):
    """The files of a session (`WorkingTree`) whose snapshots an archive can hold."""

    def export(self, directory: Path, control: TreeControl) -> list[str]:
        """Write all snapshots into files in a directory; says what is left out. Blocking."""
        ...


@runtime_checkable
class FilesImport(Protocol):
    """The snapshots of a store (`SnapshotStore`), where those of an archive are taken in."""

    def check_import(self, directory: Path, folders: Sequence[str], control: TreeControl) -> dict[str, Any]:
        """Judge the snapshots in the directory of a session that is being imported, whose files belong to these folders
        (URIs); returns its member `files`. What it raises refuses the import. Blocking."""
        ...


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
