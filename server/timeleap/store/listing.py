"""Lists of sessions, read without opening them: which ones, in what order, where the next page goes on."""

from __future__ import annotations

import base64
import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from timeleap import clock
from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME, STATE_NAME
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.shapes import Owner, SessionInfo, SessionPage, Source
from timeleap.storage.durable import list_directory
from timeleap.storage.owner_lock import OwnerRecord, SessionLock
from timeleap.store.backing import SessionBacking
from timeleap.store.home import Home, is_session
from timeleap_protocol.folder_uri import canonical_folder_uri

T = TypeVar("T")
MAX_LIMIT = 1000
_CURSORS: Final[Mapping[str, Any]] = {
    "session": tuple[Literal["session"], int, str],
    "trash": tuple[Literal["trash"], str, str],
}


class Glance(Struct, frozen=True):
    """Sort and filter fields of a session in a list, from two small files and the times of three.

    Attributes:
        changed: Nanoseconds since 1970 of the last change.
        works_for: Of the session of another program's sub-agent: the one that it works for.
    """

    session_id: str
    path: Path
    changed: int
    title: str | None = None
    archived: bool = False
    workspace: str | None = None
    source: Source | None = None
    works_for: str | None = None

    @property
    def position(self) -> tuple[int, str]:
        """Where it stands in a list."""
        return self.changed, self.session_id


class ListRequest(Struct, frozen=True):
    """A page of sessions: of `limit` (1 to 1 000), from the `cursor` on that the page before gave; `query` is a text in
    title or id, whatever its case."""

    cursor: str | None = None
    limit: int = 50
    include_archived: bool = False
    query: str | None = None
    workspace: str | None = None
    source_kind: str | None = None
    source_key: str | None = None
    parent: str | None = None
    include_subagents: bool = False

    def selects(self, session: Glance) -> bool:
        return (
            (self.include_archived or not session.archived)
            and (self.include_subagents or session.works_for == self.parent)
            and (self.parent is None or session.works_for == self.parent)
            and (self.workspace is None or session.workspace == canonical_folder_uri(self.workspace))
            and (self.source_kind is None or (session.source is not None and session.source.kind == self.source_kind))
            and (self.source_key is None or (session.source is not None and session.source.key == self.source_key))
            and _folded(self.query or "") in _folded(f"{session.title or ''}\n{session.session_id}")
        )


def _folded(text: str) -> str:
    """A text as it is looked for: whatever its case, and however its characters are composed."""
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text.casefold())


def list_sessions(
    home: Home, elsewhere: Mapping[str, Path], request: ListRequest, backing: SessionBacking
) -> SessionPage:
    """A page of the sessions of a store, and of those `elsewhere` (id and directory), newest change first. Blocking.

    Raises:
        InvalidInputError: Unknown cursor, or a limit out of range.
        StorageFailureError: The store cannot be read.
    """
    backing.fetch_all()
    seen = filter(request.selects, glances(home, elsewhere))
    page, following = _page("session", seen, attrgetter("position"), request.cursor, request.limit)
    return SessionPage(tuple(read_info(session, session.session_id, backing) for session in page), following)


def list_trash(home: Home, cursor: str | None, limit: int, backing: SessionBacking) -> SessionPage:
    """A page of deleted sessions, last deleted first. Blocking. Raises as `list_sessions`."""
    backing.fetch_all()
    page, following = _page("trash", home.trashed(), lambda entry: (entry[1], entry[2].name), cursor, limit)
    found = []
    for session_id, deleted_at, path in page:
        with suppress(OSError):
            found.append(read_info(glance(session_id, path), path.name, backing, deleted_at))
    return SessionPage(tuple(found), following)


def _page(
    listing: str, entries: Iterable[T], position: Callable[[T], tuple[int | str, str]], cursor: str | None, limit: int
) -> tuple[list[T], str | None]:
    """The entries behind a cursor, up to a limit, and the cursor of the next page; entries fall by their position."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInputError.of("limit", f"must be from 1 to {MAX_LIMIT}", between=" ")
    after = _decode(listing, cursor)
    rest = [entry for entry in entries if after is None or position(entry) < after]
    page = rest[:limit]
    if len(rest) <= limit:
        return page, None
    last = json.dumps([listing, *position(page[-1])]).encode()
    return page, base64.urlsafe_b64encode(last).decode().rstrip("=")


def fork_points(home: Home, session_id: str) -> set[str]:
    """The checkpoint uids that the forks of a session came from, those of forks in the trash included."""
    directories = [home.sessions / name for name in home.names()] + [path for _, _, path in home.trashed()]
    parents = (Meta(path, "readOnly").parent for path in directories)
    own = (parent for parent in parents if parent and parent.session_id == session_id)
    return {parent.checkpoint_uid for parent in own if parent.checkpoint_uid}


def glances(home: Home, elsewhere: Mapping[str, Path]) -> list[Glance]:
    """The sessions of the store and those elsewhere, newest change first. Blocking. Raises as `list_sessions`."""
    return sorted(_glances(home, elsewhere), key=attrgetter("position"), reverse=True)


def _glances(home: Home, elsewhere: Mapping[str, Path]) -> Iterable[Glance]:
    """A directory that is no session, or cannot be read, does not break the list."""
    paths = {name: home.sessions / name for name in home.names()}
    for session_id, path in {**paths, **elsewhere}.items():
        try:
            if not path.is_symlink() and path.is_dir() and is_session(path):
                yield glance(session_id, path)
        except OSError:
            try:
                changed = os.lstat(path).st_mtime_ns
            except OSError:
                changed = 0
            yield Glance(session_id, path, changed)


def glance(session_id: str, path: Path) -> Glance:
    """Look at a session. Raises OSError where its directory cannot be looked into."""
    list_directory(path)
    state = StateFile(path).read()
    meta = Meta(path, "readOnly")
    changed = last_change_ns(path, meta)
    works_for = meta.parent.session_id if meta.mirrored and meta.parent is not None else None
    return Glance(session_id, path, changed, state.title, state.archived, meta.workspace, meta.source, works_for)


def last_change_ns(path: Path, meta: Meta | None = None) -> int:
    """Nanoseconds since 1970 of the last change of a session's log or state; of its directory if it has neither. Of what came
    from another program: of what was said."""
    meta = Meta(path, "readOnly") if meta is None else meta
    names = (
        (LOG_NAME,) if meta.mirrored else (LOG_NAME, STATE_NAME) if meta.imported else (LOG_NAME, STATE_NAME, META_NAME)
    )
    found = []
    for name in names:
        with suppress(OSError):
            found.append(os.lstat(path / name).st_mtime_ns)
    return max(found) if found else os.lstat(path).st_mtime_ns


def set_last_change(path: Path, when: str) -> None:
    """Make a session one that was changed last at a time (ISO-8601 UTC), that of what was said in it. Blocking."""
    changed = round(datetime.fromisoformat(when).timestamp() * 1000) * 1_000_000
    for name in (LOG_NAME, STATE_NAME):
        with suppress(OSError):
            os.utime(path / name, ns=(changed, changed))


def read_info(seen: Glance, name: str, backing: SessionBacking, deleted_at: str | None = None) -> SessionInfo:
    """All that a list shows of a session, which is kept under a name; what is damaged is said, never raised."""
    meta = Meta(seen.path, "readOnly")
    facts = backing.facts(name, seen.path, made_with_log=meta.existing, in_trash=deleted_at is not None)
    state = facts.state
    return SessionInfo(
        session_id=seen.session_id,
        title=seen.title,
        path=facts.path,
        workspace=seen.workspace,
        created_at=created_at(seen.path, meta),
        updated_at=clock.iso(seen.changed / 1e9),
        archived=seen.archived,
        message_count=state.messages,
        token_count=state.token_count,
        token_count_with_pending=state.token_count_with_pending if state.pending_chars >= 0 else None,
        parent=meta.parent,
        owner=facts.owner,
        damaged=facts.damaged,
        deleted_at=deleted_at,
        source=seen.source,
    )


def owner_of(log: Path) -> Owner | None:
    """The process that holds a session's lock, if any does."""
    lock = SessionLock(log)
    record = lock.holder().owner
    try:
        if record is None or not lock.taken():
            return None
    except StorageFailureError:
        return None  # a store that nobody can write to has no owners
    return Owner(record["pid"], record.get("host", ""), record.get("since", ""))


def holder_of(directory: Path) -> OwnerRecord:
    """The process that holds the lock of the session in `directory`, as the lock file names it; None if none does."""
    return SessionLock(directory / LOG_NAME).holder()


def created_at(path: Path, meta: Meta) -> str:
    """ISO-8601 UTC; of a session of the original the time of its directory."""
    if meta.created_at:
        return meta.created_at
    facts = os.lstat(path)
    return clock.iso(float(getattr(facts, "st_birthtime", facts.st_ctime)))


def _decode(listing: str, cursor: str | None) -> tuple[int | str, ...] | None:
    if cursor is None:
        return None
    with suppress(ValueError, MsgspecError, RecursionError):
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        after: tuple[int | str, ...] = decode(raw, type=_CURSORS[listing])[1:]
        return after
    raise InvalidInputError.of("cursor", "unknown cursor: use the nextCursor of this listing")
