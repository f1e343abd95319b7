"""Files of a session as a check of it finds them: damaged, left over, or put beside the log by a sync program."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from timeleap.sessions.documents import session_files
from timeleap.sessions.documents.meta import META_DAMAGED, Meta
from timeleap.sessions.documents.statefile import STATE_DAMAGED, StateFile
from timeleap.sessions.documents.warnings import FileProblem, file_size, line_problems, placeholder_warnings
from timeleap.storage.damage import Damage


def file_problems(directory: Path, cut_timelines: Iterable[tuple[str, Damage]] = ()) -> list[FileProblem]:
    """The files of a session that are damaged as they stand on disk; `cut_timelines` are those of timelines that are
    shorter than they were, and what they lack."""
    state = StateFile(directory).read()
    found = [
        (session_files.META_NAME, META_DAMAGED, Meta(directory, "readOnly").problem),
        (state.document.file, STATE_DAMAGED, state.document.problem),
    ]
    problems = [FileProblem(file, kind, text, file_size(directory / file)) for file, kind, text in found if text]
    problems += [FileProblem(file, lost.kind, lost.message, lost.bytes) for file, lost in cut_timelines]
    away = placeholder_warnings(directory)
    problems += [FileProblem(file["file"], file["kind"], file["message"], 0) for file in away]
    return [*problems, *line_problems(directory)]


def leftover_warnings(directory: Path) -> list[dict[str, Any]]:
    """Files that nothing reads any more."""
    left = session_files.leftovers(directory, older_than=session_files.IN_FLIGHT_SECONDS)
    found = [{"kind": "leftover", "message": f"{file.name} is {file.why}", "file": file.name} for file in left]
    kept = (file for file in session_files.list_files(directory) if file.kind == "damaged")
    text = "is a damaged file that a save has kept; remove it when you need nothing of it"
    return [*found, *({"kind": "damagedKept", "message": f"{file.name} {text}", "file": file.name} for file in kept)]


def conflict_warnings(directory: Path) -> list[dict[str, Any]]:
    """Other versions of the log that a sync program left beside it, and how to look at one."""
    found = []
    for name in session_files.conflict_copies(directory / session_files.LOG_NAME):
        command = f"timeleap import {shlex.quote(str(directory / name))}"
        text = f"{name} may be another version of the log, left by a sync program; as a session of its own: {command}"
        found.append({"kind": "conflictCopy", "message": text, "file": name})
    return found
