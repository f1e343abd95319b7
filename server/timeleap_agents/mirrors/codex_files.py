"""Files of Codex: which thread a rollout is of, and where the others of a thread are.

A thread that went back goes on in a further file of the same id, a segment; a fork begins with a part of another
thread's file. Both say so in their first line.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from timeleap.errors import TimeleapError
from timeleap.storage.durable import OpenFile
from timeleap_agents.mirrors.formats.conversion import time_of
from timeleap_agents.mirrors.packed_files import beginning_of

_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME: Final = re.compile(rf"rollout-([0-9T-]{{19}})-({_UUID})(?:_({_UUID}))?\.jsonl?(?:\.zst)?")
SESSIONS: Final = "sessions"
ARCHIVE: Final = "archived_sessions"
TITLES: Final = "session_index.jsonl"
FIRST_LINE: Final = 4 << 20  # bytes
MAX_TITLES: Final = 64 << 20  # bytes
LOOKED_SECONDS: Final = 5.0
"""A look for the files of all threads is good for so long, where it finds one."""


class RolloutName(NamedTuple):
    """A name of a rollout says: when it was begun, the thread, and which segment of that it is."""

    time: str
    thread: str
    segment: str | None


def named(path: Path) -> RolloutName | None:
    """The parts of a rollout's name; None for another name."""
    found = _NAME.fullmatch(path.name)
    return None if found is None else RolloutName(found[1], found[2], found[3])


def first_facts(path: Path) -> dict[str, Any]:
    """The facts of the session in the first line of a rollout; empty where there are none. Blocking."""
    with suppress(OSError):
        return _facts(str(path), path.stat().st_ino, path.stat().st_size > 0)
    return {}


@lru_cache(maxsize=10_000)
def _facts(path: str, inode: int, is_begun: bool) -> dict[str, Any]:
    """The facts of the session, kept in memory: a first line stays as it is."""
    del inode
    if not is_begun:
        return {}
    with suppress(OSError, TimeleapError, ValueError, AttributeError, RecursionError):
        start = b""
        with closing(beginning_of(Path(path))) as blocks:
            for block in blocks:
                start += block
                if b"\n" in block or len(start) >= FIRST_LINE:
                    break
        record = json.loads(start.partition(b"\n")[0])
        payload = record.get("payload")
        if record.get("type") == "session_meta" and isinstance(payload, dict):
            return {name: payload[name] for name in _KEPT if name in payload}
    return {}


_KEPT: Final = (
    "id", "session_id", "parent_thread_id", "forked_from_id", "source", "thread_source", "history_base"
)  # fmt: skip


def thread_key(path: Path) -> str | None:
    """The id of the thread that a rollout is of, from its first line, else from its name. Blocking."""
    own = first_facts(path).get("id")
    if isinstance(own, str) and own:
        return own
    name = named(path)
    return None if name is None else name.thread


def parent_key(path: Path) -> str | None:
    """The id of the thread whose sub-agent a rollout is of; None where it is of none. Blocking."""
    return parent_in(first_facts(path))


def parent_in(facts: dict[str, Any]) -> str | None:
    """The id of the thread for which a session with these facts works; None where it is no sub-agent."""
    source = facts.get("source")
    of_source = source.get("subagent") if isinstance(source, dict) else None
    if of_source is None and facts.get("thread_source") != "subagent":
        return None
    spawn = of_source.get("thread_spawn") if isinstance(of_source, dict) else None
    of_spawn = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
    for found in (facts.get("parent_thread_id"), of_spawn, facts.get("forked_from_id"), facts.get("session_id")):
        if isinstance(found, str) and found and found != facts.get("id"):
            return found
    return None


def home_of(path: Path) -> Path | None:
    """The folder of Codex that a rollout is in; None where it lies elsewhere."""
    if path.parent.name == ARCHIVE:
        return path.parents[1]
    if len(path.parents) > 4 and path.parents[3].name == SESSIONS:
        return path.parents[4]
    return None


def files_of(path: Path, thread: str) -> list[Path]:
    """The rollouts of a thread, or of a segment, beside a rollout: in its folder, and in all of Codex's. Blocking."""
    home = home_of(path)
    known = _looked(path, home, fresh=False)
    return known.get(thread) or _looked(path, home, fresh=True).get(thread, [])


def present_of(paths: Sequence[Path]) -> Path:
    """Choose, among files of one thread, the newest segment; among copies the longest. Blocking."""
    return max(paths, key=_newness)


def _newness(path: Path) -> tuple[bool, str, int]:
    name = named(path)
    segment = name is not None and name.segment is not None
    size = 0
    with suppress(OSError):
        size = path.stat().st_size
    return segment, name.time if name is not None and segment else "", size


_looks: dict[Path, tuple[float, dict[str, list[Path]]]] = {}


def _looked(path: Path, home: Path | None, *, fresh: bool) -> dict[str, list[Path]]:
    """By thread and by segment: the rollouts that there are."""
    folder = path.parent if home is None else home
    then, found = _looks.get(folder, (0.0, {}))
    now = time.monotonic()
    if found and now - then < (LOOKED_SECONDS / 5 if fresh else LOOKED_SECONDS):
        return found
    found = {}
    places = [folder] if home is None else [home / SESSIONS, home / ARCHIVE]
    for each in (each for place in places for each in _rollouts(place, 0)):
        name = named(each)
        if name is not None:
            found.setdefault(name.segment or name.thread, []).append(each)
            if name.segment is not None:
                found.setdefault(f"{name.thread}_", []).append(each)
    if len(_looks) > 100:
        _looks.clear()
    _looks[folder] = now, found
    return found


def segments_of(path: Path) -> list[Path]:
    """All files of the thread that a rollout is of, itself included. Blocking."""
    name = named(path)
    if name is None:
        return [path]
    known = _looked(path, home_of(path), fresh=False)
    return list(dict.fromkeys([path, *known.get(name.thread, []), *known.get(f"{name.thread}_", [])]))


def _rollouts(folder: Path, depth: int) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if depth < 3:
                    yield from _rollouts(Path(entry.path), depth + 1)
            elif entry.name.startswith("rollout-"):
                yield Path(entry.path)


class ThreadTitle(NamedTuple):
    """The name of a thread, and when it was given, in nanoseconds since 1970."""

    text: str
    given: int


def title_of(path: Path, thread: str) -> str | None:
    """The name that Codex has given a thread, or the person. Blocking."""
    title = _title(path, thread)
    return None if title is None else title.text


def named_at(path: Path) -> int:
    """When the thread that a rollout is of was named, in nanoseconds since 1970; 0 where it was not. Blocking."""
    name = named(path)
    title = None if name is None else _title(path, name.thread)
    return 0 if title is None else title.given


def _title(path: Path, thread: str) -> ThreadTitle | None:
    home = home_of(path)
    if home is None:
        return None
    with suppress(OSError):
        status = (home / TITLES).stat()
        if status.st_size <= MAX_TITLES:
            return _titles(home / TITLES, status.st_mtime_ns, status.st_size).get(thread)
    return None


@lru_cache(maxsize=8)
def _titles(path: Path, changed: int, size: int) -> dict[str, ThreadTitle]:
    """The names by thread; of several the last counts that is not blank. One without a time was given when the list was
    written last."""
    found: dict[str, ThreadTitle] = {}
    with suppress(OSError):
        file = OpenFile(path)
        try:
            lines = file.pread(0, size).splitlines()
        finally:
            file.close()
        for line in lines:
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("id"), str):
                    name = record.get("thread_name")
                    if isinstance(name, str) and name.strip():
                        given = time_of(record.get("updated_at"))
                        nanoseconds = changed if given is None else int(datetime.fromisoformat(given).timestamp() * 1e9)
                        found[record["id"]] = ThreadTitle(name, nanoseconds)
    return found
