"""Reading other programs' files for `session/import`: which form they are of, and a session's data by form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer.importing import Work, copied_log, copied_session
from timeleap_agents.importing.agent_sessions import nothing_of, read_log
from timeleap_agents.importing.recognition import journal_in, log_of_kimi, may_be_a_log, recognised
from timeleap_agents.mirrors import opencode_database

__all__ = ["READERS", "recognised"]

SHOWN: Final = 3
"""Sessions of a database that are named where one of them has to be."""


def _kimi(path: Path, directory: Path) -> Work:
    """A session's directory or log, copied; what kimi-cli wrote itself is read as its mirror is."""
    log = log_of_kimi(path)
    if log is not None:
        return read_log("kimi", log, directory)
    if path.is_dir():
        return copied_session(path, directory)
    if not may_be_a_log(path):
        raise nothing_of("kimi")
    return copied_log(path, directory)


def _kimi_code(path: Path, directory: Path) -> Work:
    """The session of a file, or of a session's directory of that program."""
    return read_log("kimi-code", journal_in(path) or path, directory)


def _opencode(path: Path, directory: Path) -> Work:
    """The session that a path names, or the only one of a database."""
    if opencode_database.split(path) is not None and not path.exists():
        return (yield from read_log("opencode", path, directory))
    rows = [row for row in opencode_database.sessions(path) if row.parent is None]
    if not rows:
        raise nothing_of("opencode")
    if len(rows) > 1:
        newest = [row.id for row in sorted(rows, key=lambda row: row.changed, reverse=True)[:SHOWN]]
        names = ", ".join(f"{path}/{name}" for name in newest)
        raise refused(f"holds {len(rows)} sessions of opencode: name one; the newest are {names}")
    return (yield from read_log("opencode", path / rows[0].id, directory))


READERS: Final[Mapping[str, Callable[[Path, Path], Work]]] = {
    "kimi": _kimi,
    "claude-code": partial(read_log, "claude-code"),
    "codex": partial(read_log, "codex"),
    "gemini": partial(read_log, "gemini"),
    "kimi-code": _kimi_code,
    "opencode": _opencode,
    "pi": partial(read_log, "pi"),
}
