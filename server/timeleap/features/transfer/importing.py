"""Making a session of a file, or a directory, from elsewhere: what it is, and who reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer.formats import IMPORTED, unsupported
from timeleap.features.transfer.jsonlines import MAX_LINE, begins_document
from timeleap.features.transfer.sanitize import Arrival, Origin, settle_in
from timeleap.features.transfer.unpacking import unpack
from timeleap.sessions.outcomes import Mutation
from timeleap.storage.durable import OpenFile
from timeleap.storage.timelines import names as timeline_names

Work = Generator[tuple[int, int], None, Arrival]
"""Writes the logs of a session into a directory, and returns its other data. Pauses often, with the bytes done
and in all."""

FIRST_LOOK: Final = 1 << 18  # bytes
LINES_LOOKED_AT: Final = 64

_OF_CLAUDE_CODE: Final = frozenset(
    {"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "progress", "attachment"}
)
_OF_CODEX: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_OF_OLD_CODEX: Final = frozenset({"message", "function_call", "function_call_output", "reasoning", "local_shell_call"})


def take_in(path: Path, name: str | None, directory: Path, guard: Mutation) -> Generator[tuple[int, int], None, None]:
    """Write the session in `path` into an empty directory, all that belongs to it. Pauses as `Work` does.

    Args:
        path: Absolute: a file, or for `kimi` also a session's directory.
        name: The format; recognised from the content if None.
        directory: In the staging area.
        guard: The request that asked for it.

    Raises:
        InvalidInputError: The format is not supported, or not recognised.
        CorruptedError: What is there is damaged.
        TooLargeError: There is more of it than may be imported.
        StorageFailureError: It could not be read, or the session could not be written.
    """
    name = recognised(path) if name is None else name
    arrival = yield from _reader(name)(path, directory)
    present = [timeline.timeline_id for timeline in timeline_names(directory / "context.jsonl")]
    settle_in(directory, arrival, guard, present)


def recognised(path: Path) -> str:
    """The format of what is in `path`.

    Raises:
        InvalidInputError: It is none of those that can be imported.
        StorageFailureError: It cannot be read, or is neither a file nor a directory.
    """
    if path.is_dir():
        return "kimi"
    start = _beginning(path)
    if start.startswith(b"PK"):
        return "native"
    if begins_document(start):
        return "codex"
    form = next(filter(None, map(_form_of, _objects(start))), None)
    if form is None:
        raise refused(f"is of none of the forms that can be imported: {', '.join(IMPORTED)}; if it is, say which")
    return form


def may_be_a_log(path: Path) -> bool:
    """True if a file begins with records, or is empty.

    Raises:
        StorageFailureError: It cannot be read.
    """
    start = _beginning(path)
    return not start.strip() or any(isinstance(record.get("role"), str) for record in _objects(start))


def nothing_of(form: str) -> InvalidInputError:
    """The error for a file that is not damaged, but of another form."""
    return refused(f"holds no record of the form {form}")


def _beginning(path: Path) -> bytes:
    """The first lines of a file: one at least, however long it is, up to what a line may have."""
    file = opened(path)
    try:
        found = file.pread(0, FIRST_LOOK)
        while b"\n" not in found and len(found) < MAX_LINE and (more := file.pread(len(found), len(found))):
            found += more
        return found
    except OSError as error:
        raise StorageFailureError.of(error, f"read {path.name}", path) from error
    finally:
        file.close()


def _objects(start: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects on the first lines."""
    for line in start.splitlines()[:LINES_LOOKED_AT]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def opened(path: Path) -> OpenFile:
    """A file to be imported: an ordinary one, no link, FIFO or device.

    Raises:
        StorageFailureError: It is none, or cannot be opened.
    """
    try:
        return OpenFile(path)
    except StorageFailureError:
        raise
    except OSError as error:
        raise StorageFailureError.of(error, f"read {path.name}", path) from error


def _form_of(record: dict[str, Any]) -> str | None:
    kind, role = str(record.get("type", "")), record.get("role")
    if kind in _OF_CODEX and "payload" in record:
        return "codex"
    if kind in _OF_CLAUDE_CODE and ("uuid" in record or "leafUuid" in record or "sessionId" in record):
        return "claude-code"
    if kind == "file-history-snapshot":
        return "claude-code"
    if (
        kind in _OF_OLD_CODEX
        or record.get("record_type") == "state"
        or {"id", "timestamp", "instructions"} <= set(record)
    ):
        return "codex"
    return "kimi" if isinstance(role, str) and not kind else None


def _reader(name: str) -> Callable[[Path, Path], Work]:
    if name not in IMPORTED:
        raise unsupported(name, IMPORTED)
    if name == "native":
        return _native
    module = import_module(f"timeleap.features.transfer.{_MODULES[name]}")
    reader: Callable[[Path, Path], Work] = module.read_session
    return reader


_MODULES: Final = {"kimi": "original", "claude-code": "claude_code", "codex": "codex"}


def _native(path: Path, directory: Path) -> Work:
    source = opened(path)
    try:
        unpacked = yield from unpack(source, directory)
    finally:
        source.close()
    return Arrival(
        notes=unpacked.notes,
        state=unpacked.state,
        lines=unpacked.lines,
        origin=Origin("native", unpacked.session_id, unpacked.uid),
    )
