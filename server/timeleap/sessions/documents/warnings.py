"""Warnings for the user: damage of a log, and repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from timeleap.errors import ExternallyModifiedError
from timeleap.placeholders import placeholders
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import session_files
from timeleap.sessions.documents.audit import Audit
from timeleap.sessions.documents.request_file import is_request_line
from timeleap.sessions.shapes import RECOVERED, Event, json_members
from timeleap.storage.damage import Damage
from timeleap.storage.durable import is_regular, list_directory, modes_refused, status
from timeleap.storage.engine import LogEngine

SMALL: Final = 64 << 10
"""Bytes of a file of JSON lines that opening a session can afford to check."""
LARGE: Final = 8 << 20
"""Bytes of one that is checked behind a session's back; a larger audit is left to `session/verify`."""
AUDIT_DAMAGED: Final = "auditDamaged"


class FileProblem(Struct, frozen=True):
    """A small file of ours that is damaged; what can be used of it counts."""

    file: str
    kind: str
    message: str
    bytes: int

    def warning(self) -> dict[str, Any]:
        """The warning for the user."""
        return {"kind": self.kind, "message": self.message, "file": self.file}


def line_problems(directory: Path, most: int = files.MAX_LINES_BYTES, *, least: int = 0) -> Iterator[FileProblem]:
    """Damaged files of JSON lines, of more than `least` and up to `most` bytes."""
    requests, audit = directory / session_files.REQUESTS_NAME, directory / session_files.AUDIT_NAME
    checked: tuple[tuple[Path, str, Callable[[], files.Lines]], ...] = (
        (requests, "requestsDamaged", partial(files.read_lines, requests, is_request_line)),
        (audit, AUDIT_DAMAGED, Audit(directory).read),
    )
    for path, kind, read in checked:
        size = file_size(path)
        # What is no file, or too large for one of ours, costs nothing to look at.
        unusable = not is_regular(path) or size > files.MAX_LINES_BYTES
        if (least == 0 if unusable else least < size <= most) and (problem := read().problem) is not None:
            yield FileProblem(path.name, kind, problem if unusable else f"{problem}; the other lines count", size)


def placeholder_warnings(directory: Path) -> list[dict[str, Any]]:
    """Files of a session that a sync program has put placeholders in the place of; the log is told elsewhere."""
    found = []
    for file, name in sorted(placeholders(list_directory(directory)).items()):
        kind = session_files.classify(file)[0].kind
        if kind not in ("log", "index", "lock", "temporary", "foreign"):
            text = files.placeholder_in_words(file, name)
            found.append({"kind": "placeholder", "message": text, "file": file})
    return found


def log_warnings(engine: LogEngine, log: Path) -> list[dict[str, Any]]:
    """Lost lines, damaged records, a missing log, a tail that was cut; each has `kind` and `message`."""
    recovery = engine.recovery
    found = loss_warnings(engine, log)
    if recovery.modified:
        text = f"another program has changed {log.name} or its lock file; reload the session (session/reload) to go on"
        found.append({"kind": ExternallyModifiedError.kind, "message": text})
    found += [asdict(warning) for warning in engine.damage()]
    if recovery.cut_bytes:
        text = f"{recovery.cut_bytes} bytes at the end of the log were no whole record or batch; they are quarantined"
        found.append(json_members(kind="recovered", message=text, cut_bytes=recovery.cut_bytes))
    return found


def loss_warnings(engine: LogEngine, log: Path) -> list[dict[str, Any]]:
    """Lines that were acknowledged and are not there any more, a missing log, or another one in its place."""
    # Of a log that had nothing in it, as far as is known, it is told until there is one again.
    lost = [damage for damage in engine.recovery.losses if damage.bytes or engine.state.lines == 0]
    return [{**asdict(damage), "message": loss_in_words(engine, log, damage)} for damage in lost]


def inherited_losses(engine: LogEngine, session_id: str) -> list[dict[str, Any]]:
    """Warnings for a fork of a session whose log has lost something that nobody has accepted."""
    lost = engine.recovery.lost
    if lost is None:
        return []
    text = f"of the session {session_id}, which this is a fork of: {lost.message}"
    return [{"kind": lost.kind, "message": text}]


def modes_warning() -> list[dict[str, Any]]:
    """A file system that took no modes: others may read what is stored."""
    if not modes_refused.message:
        return []
    return [{"kind": "readableByOthers", "message": modes_refused.message}]


def loss_in_words(engine: LogEngine, log: Path, lost: Damage) -> str:
    """Tell what a log has lost, where to look for it, and what is to be decided."""
    copies = session_files.conflict_copies(log)
    timelines = engine.timelines()
    places = [f"the timelines (the newest is {timelines[0].timeline_id})"] if timelines else []
    if copies:
        places.append(f"the copies beside it ({', '.join(copies[:3])})")
    text = f"{lost.message}. Look in {', '.join([*places, 'backups, and the history of a sync program'])}"
    if engine.recovery.lost is None:
        return text
    return f"{text}; put it back, then reload the session (session/reload). Until then nothing is written to the log"


def recovered(engine: LogEngine) -> Event | None:
    """The incomplete tail that opening or reloading the log cut, if any."""
    found = engine.recovery
    if not found.cut_bytes and not found.quarantined:
        return None
    many = [
        {"file": cut.file, "offset": cut.offset, "bytes": cut.bytes, "reason": cut.reason} for cut in found.quarantined
    ]
    return Event("recovered", engine.head, json_members(quarantined=many, cut_bytes=found.cut_bytes), RECOVERED)


def file_size(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    there = status(path)
    return there.size if there is not None else 0
