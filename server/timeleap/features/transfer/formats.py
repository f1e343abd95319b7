"""The forms a session can be exported to and imported from, by name. Each is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from timeleap.errors import InvalidInputError

if TYPE_CHECKING:
    from timeleap.features.transfer.exhibit import Exhibit

Writer = Callable[["Exhibit"], Iterator[str | bytes]]

_PACKAGE: Final = "timeleap.features.transfer"


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A form of a session.

    Attributes:
        name: What it is called on the wire.
        suffix: What names of its files end with.
        writer: Module and function that write it; empty where it is only read.
    """

    name: str
    suffix: str
    writer: str = ""

    def write(self, exhibit: Exhibit) -> Iterator[bytes]:
        """A session in this form, piece by piece. Half of a surrogate pair, which no file of text can hold, becomes "?"."""
        module, _, function = self.writer.partition(":")
        write: Writer = getattr(import_module(f"{_PACKAGE}.{module}"), function)
        return (piece.encode("utf-8", "replace") if isinstance(piece, str) else piece for piece in write(exhibit))


FORMATS: Final = (
    ExportFormat("native", ".zip", "archive:write_archive"),
    ExportFormat("markdown", ".md", "markdown:write_markdown"),
    ExportFormat("html", ".html", "page:write_page"),
    ExportFormat("kimi", ".jsonl"),
    ExportFormat("claude-code", ".jsonl"),
    ExportFormat("codex", ".jsonl"),
)

EXPORTED: Final = {form.name: form for form in FORMATS if form.writer}
IMPORTED: Final = tuple(form.name for form in FORMATS if form.name not in ("markdown", "html"))


def exported(name: str) -> ExportFormat:
    """The form of that name.

    Raises:
        InvalidInputError: There is none that is written.
    """
    if name not in EXPORTED:
        raise unsupported(name, tuple(EXPORTED))
    return EXPORTED[name]


def unsupported(name: str, known: tuple[str, ...]) -> InvalidInputError:
    """A form that is not known, or not that way round."""
    message = f"format: {name[:80]!r} is not supported; one of {', '.join(known)}"
    problem: dict[str, Any] = {"loc": ["format"], "msg": f"must be one of {', '.join(known)}", "type": "format"}
    return InvalidInputError(message, errors=[problem])
