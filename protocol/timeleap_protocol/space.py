"""Params and results of `session/storage` and `session/prune`: what takes space, and freeing it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import (
    Count,
    MutationParams,
    Name,
    Opt,
    PageParams,
    Positive,
    ReadShape,
    SessionId,
    Shape,
    Timestamp,
)
from timeleap_protocol.limits import MAX_PAGE
from timeleap_protocol.shapes import Head


class SessionStorageParams(PageParams):
    """`session/storage`."""

    session_id: Opt[SessionId] = None
    """Only this session, with its files; without it all sessions of the store."""


class SessionPruneParams(MutationParams):
    """`session/prune`. Without a selection: what is beyond the limits of the configuration."""

    dry_run: Opt[bool] = None
    """Say what would go, and change nothing. Default: false."""
    max_timelines: Opt[Positive] = None
    """Keep only so many, the newest."""
    max_timeline_bytes: Opt[Count] = None
    """Keep only so many bytes of timelines, but always the newest."""
    older_than: Opt[Timestamp] = None
    """Remove those set aside before this time, but never the newest. ISO-8601 with its offset from UTC."""
    timeline_ids: Opt[Annotated[list[Name], Field(min_length=1, max_length=MAX_PAGE)]] = None
    """Remove these, the newest or not."""
    quarantine: Opt[bool] = None
    """Also remove what recovery kept of torn records. Default: false."""


class StoredFile(Shape):
    """A file of a session."""

    file: str
    """Relative to the session's directory."""
    kind: Literal["log", "timeline", "index", "quarantine", "other"]
    bytes: Count


class SessionStorage(Shape):
    """What a session takes on disk."""

    session_id: SessionId
    deleted_at: Opt[Timestamp] = None
    """Present for sessions in the trash."""
    bytes: Count
    """All of it; the members below are parts."""
    log_bytes: Count
    timeline_bytes: Count
    timeline_count: Count
    index_bytes: Count
    """Derived: it can be made again."""
    quarantine_bytes: Count
    other_bytes: Count
    files: Opt[list[StoredFile]] = None
    """The largest first, at most 1000; only where one session was asked for."""


class SessionStorageResult(ReadShape):
    """What takes space, largest first."""

    total_bytes: Count
    trash_bytes: Count
    """Of that, sessions in the trash."""
    files_bytes: Opt[Count] = None
    """Of that, snapshots of the files of all sessions; absent where there are none, and where one session was asked for."""
    sessions: list[SessionStorage]
    next_cursor: Opt[str] = None


class PrunedTimeline(Shape):
    """A timeline that was removed, or would be."""

    timeline_id: str
    bytes: Count


class KeptTimeline(Shape):
    """A timeline that was asked for and stays."""

    timeline_id: str
    reason: Literal["fork"]
    """`fork`: a fork refers to one of its checkpoints."""


class PrunedFile(Shape):
    """A quarantine file that was removed, or would be."""

    file: str
    bytes: Count


class SessionPruneResult(Head):
    """What was removed for good, or (dry run) would be."""

    removed: list[PrunedTimeline]
    kept: list[KeptTimeline]
    quarantine: list[PrunedFile]
    freed_bytes: Count
