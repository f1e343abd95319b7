"""Files of Gemini CLI: which session a file is of, and which folder that is about.

Sessions lie in `chats` of a project's own folder, whose name stands for the project in a registry, and in earlier
versions was the hash of its path. Sub-agents have a folder in it, called after the session they work for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from timeleap.storage.durable import OpenFile
from timeleap_agents.mirrors.formats.conversion import workspace_of

CHATS: Final = "chats"
ROOT: Final = ".project_root"
REGISTRY: Final = "projects.json"
_ID: Final = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')
_START: Final = 1 << 16
MAX_PATH: Final = 1 << 16
MAX_REGISTRY: Final = 16 << 20


def session_key(path: Path) -> str | None:
    """The id of the session in a file, with that of the one a sub-agent works for before it; None where the file does
    not say it. Blocking."""
    found = _session_id(path)
    parent = parent_key(path)
    return found if found is None or parent is None else f"{parent}/{found}"


def parent_key(path: Path) -> str | None:
    """The id of the session whose sub-agent a file is of; None where it is of none."""
    return path.parent.name if path.parent.parent.name == CHATS else None


def _session_id(path: Path) -> str | None:
    with suppress(OSError):
        status = path.stat()
        return _id_at(str(path), status.st_ino, status.st_size > 0)
    return None


@lru_cache(maxsize=10_000)
def _id_at(path: str, inode: int, is_begun: bool) -> str | None:
    """The id that the beginning of a file says, kept in memory: that stays as it is."""
    del inode
    found = _ID.search(_bytes(Path(path), _START)) if is_begun else None
    return None if found is None else found[1].decode("utf-8", "replace")


def workspace_at(path: Path, facts: Mapping[str, Any]) -> str | None:
    """The URI of the folder that the session in a file is about: its project's own note says it, else the registry of
    all projects, by the name of the project's folder or by the hash in the session's facts. Blocking."""
    chats = path.parent if path.parent.name == CHATS else path.parent.parent
    project = chats.parent
    noted = workspace_of(_bytes(project / ROOT, MAX_PATH).decode("utf-8", "replace").strip())
    if noted is not None:
        return noted
    known: Any = None
    with suppress(ValueError, RecursionError):
        known = json.loads(_bytes(project.parent.parent / REGISTRY, MAX_REGISTRY))
    projects = known.get("projects") if isinstance(known, dict) else None
    for folder, name in projects.items() if isinstance(projects, dict) else ():
        digest = hashlib.sha256(folder.encode("utf-8", "replace")).hexdigest()
        if name == project.name or digest in (project.name, facts.get("projectHash")):
            return workspace_of(folder)
    return None


def _bytes(path: Path, most: int) -> bytes:
    """The beginning of an ordinary file; nothing where it cannot be read."""
    with suppress(OSError):
        file = OpenFile(path)
        try:
            return file.pread(0, most)
        finally:
            file.close()
    return b""
