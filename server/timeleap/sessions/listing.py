"""Pages of sessions: which ones, in what order, where the next page goes on."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from timeleap.errors import InvalidInputError
from timeleap.sessions.home import Home, is_session
from timeleap.sessions.info import Glance, glance, read_info
from timeleap.sessions.meta import Meta
from timeleap.sessions.outcomes import SessionPage

MAX_LIMIT = 1000


def list_sessions(
    home: Home,
    elsewhere: Mapping[str, Path],
    *,
    cursor: str | None,
    limit: int,
    include_archived: bool,
    query: str | None,
    workspace: str | None,
) -> SessionPage:
    """A page of sessions, newest change first. Blocking.

    Args:
        home: The store.
        elsewhere: Id and directory of sessions that are open by path.
        cursor: Where to go on; from the page before.
        limit: 1 to 1 000.
        include_archived: Also those that are put away.
        query: Only those with this text in title or id, whatever its case.
        workspace: Only those of this workspace.

    Raises:
        InvalidInputError: Unknown cursor, or a limit out of range.
        StorageFailureError: The store cannot be read.
    """
    _check_limit(limit)
    after = _decode("session", cursor)
    seen = [session for session in glances(home, elsewhere) if include_archived or not session.archived]
    if query:
        wanted = query.casefold()
        seen = [session for session in seen if wanted in f"{session.title or ''}\n{session.session_id}".casefold()]
    if workspace is not None:
        seen = [session for session in seen if session.workspace == workspace]
    if after is not None:
        seen = [session for session in seen if _position(session) < after]
    page = seen[:limit]
    more = len(seen) > limit
    return SessionPage(
        tuple(read_info(session) for session in page), _encode("session", *_position(page[-1])) if more else None
    )


def list_trash(home: Home, *, cursor: str | None, limit: int) -> SessionPage:
    """A page of deleted sessions, last deleted first. Blocking. Raises as `list_sessions`."""
    _check_limit(limit)
    after = _decode("trash", cursor)
    found = []
    rest = [entry for entry in home.trashed() if after is None or (entry[1], entry[2].name) < after]
    for session_id, deleted_at, path in rest[:limit]:
        try:
            found.append(read_info(glance(session_id, path), deleted_at))
        except OSError:
            continue
    last = rest[limit - 1] if len(rest) > limit else None
    return SessionPage(tuple(found), _encode("trash", last[1], last[2].name) if last else None)


def fork_points(home: Home, session_id: str) -> set[str]:
    """The checkpoint uids that the forks of a session came from, those of forks in the trash included."""
    directories = [home.sessions / name for name in home.names()] + [path for _, _, path in home.trashed()]
    parents = (Meta(path, "readOnly").parent for path in directories)
    own = (parent for parent in parents if parent and parent.session_id == session_id)
    return {parent.checkpoint_uid for parent in own if parent.checkpoint_uid}


def glances(home: Home, elsewhere: Mapping[str, Path]) -> list[Glance]:
    """The sessions of the store and those elsewhere, newest change first. Blocking. Raises as `list_sessions`."""
    return sorted(_glances(home, elsewhere), key=_position, reverse=True)


def _glances(home: Home, elsewhere: Mapping[str, Path]) -> Iterable[Glance]:
    """The sessions in the store; a directory that is no session, or cannot be read, does not break the list."""
    paths = {name: home.sessions / name for name in home.names()}
    for session_id, path in {**paths, **elsewhere}.items():
        try:
            if not path.is_symlink() and path.is_dir() and is_session(path):
                yield glance(session_id, path)
        except OSError:
            yield _unreadable(session_id, path)


def _unreadable(session_id: str, path: Path) -> Glance:
    try:
        changed = os.lstat(path).st_mtime_ns
    except OSError:
        changed = 0
    return Glance(session_id, path, changed, None, False, None)


def _position(session: Glance) -> tuple[int, str]:
    return session.changed, session.session_id


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        text = f"must be from 1 to {MAX_LIMIT}"
        raise InvalidInputError(f"limit {text}", errors=[{"loc": ["limit"], "msg": text, "type": "limit"}])


def _encode(listing: str, *position: int | str) -> str:
    return base64.urlsafe_b64encode(json.dumps([listing, *position]).encode()).decode().rstrip("=")


def _decode(listing: str, cursor: str | None) -> tuple[int | str, ...] | None:
    if cursor is None:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        match json.loads(raw):
            case ["session", int(change), str(last)] if listing == "session":
                return change, last
            case ["trash", str(deleted), str(last)] if listing == "trash":
                return deleted, last
            case _:
                pass
    except (ValueError, RecursionError):
        pass
    text = "unknown cursor: use the nextCursor of this listing"
    raise InvalidInputError(f"cursor: {text}", errors=[{"loc": ["cursor"], "msg": text, "type": "cursor"}])
