"""What is wrong with a log, and what was mended, as a user is told of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from timeleap.sessions.events import Recovered
from timeleap.storage.engine import LogEngine


def log_warnings(engine: LogEngine) -> list[dict[str, Any]]:
    """Damaged records, a missing log, a tail that was cut; each has `kind` and `message`."""
    recovery = engine.recovery
    missing = [one for one in recovery.warnings if one.kind == "logMissing" and engine.state.lines == 0]
    found = [asdict(one) for one in (*missing, *engine.damage())]
    if recovery.cut_bytes:
        text = f"{recovery.cut_bytes} bytes at the end of the log were no whole record or batch; they are quarantined"
        found.append({"kind": "recovered", "message": text, "cutBytes": recovery.cut_bytes})
    return found


def recovered(engine: LogEngine) -> Recovered | None:
    """What opening or reloading the log found and cut, if anything."""
    found = engine.recovery
    if not found.cut_bytes and not found.quarantined:
        return None
    return Recovered(head=engine.head, quarantined=found.quarantined, cut_bytes=found.cut_bytes)


def unreachable(why: str | None) -> list[dict[str, Any]]:
    """That other processes cannot attach to a session, if so."""
    if why is None:
        return []
    return [{"kind": "notReachable", "message": f"other processes cannot attach to this session: {why}"}]
