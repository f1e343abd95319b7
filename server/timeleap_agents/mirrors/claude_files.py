"""Files of Claude Code's sub-agents: which session each works for, and where that is kept.

They are in the folder `subagents` of a session's own directory, which stands beside the session's file and has its name; those of
a workflow are in folders below that. Earlier versions put them beside the session's file.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap.storage.durable import OpenFile

SUBAGENTS: Final = "subagents"
AGENT: Final = "agent-"
"""How their names begin."""
DEEPEST: Final = 4
"""Folders in `subagents`, one in the other, that are looked into."""
FIRST_LINES: Final = 1 << 16
"""Bytes of a file in which the session is named that the sub-agent works for."""


def is_of_subagent(path: Path) -> bool:
    """True of the file of a sub-agent, by its name."""
    return path.name.startswith(AGENT)


def session_above(path: Path) -> Path | None:
    """The directory of the session in whose `subagents` a file is; None where it is in none."""
    for folder in path.parents[: DEEPEST + 1]:
        if folder.name == SUBAGENTS:
            return folder.parent
    return None


def parent_key(path: Path) -> str | None:
    """The id of the session that the file of a sub-agent works for, empty where it does not say; None: it is no such file.
    Blocking."""
    if not is_of_subagent(path):
        return None
    above = session_above(path)
    if above is not None:
        return above.name
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        file = OpenFile(path)
        try:
            for line in file.pread(0, FIRST_LINES).split(b"\n"):
                found = json.loads(line).get("sessionId")
                if isinstance(found, str):
                    return found
        finally:
            file.close()
    return ""
