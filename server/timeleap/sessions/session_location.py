"""Where a session lies, and what it is called here.

A session of the store is called what its directory is called. One that is opened by path from elsewhere gets an id for
as long as it is open: its directory's name if that can be had, else a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.errors import InvalidInputError, SessionNotFoundError, StorageFailureError
from timeleap.sessions.home import Home, is_session
from timeleap.sessions.names import check_session_id, is_session_id, new_session_id

if TYPE_CHECKING:
    from timeleap.sessions.open_sessions import Openings


@dataclass(frozen=True, slots=True)
class SessionLocation:
    """A session as it is known in this process.

    Attributes:
        session_id: Its id here; another process may know the same directory by another.
        directory: Where it lies.
        path: The directory again, if that is not one of the store's own.
    """

    session_id: str
    directory: Path
    path: Path | None


def place_at(home: Home, openings: Openings, path: Path, wanted: str | None) -> SessionLocation:
    """The place of the session in the directory `path`.

    Args:
        home: The store.
        openings: What is open of it.
        path: Absolute.
        wanted: The id it is to have; free to choose if None.

    Raises:
        InvalidInputError: The path is not absolute, or the id is taken.
        SessionNotFoundError: There is no session.
        StorageFailureError: One cannot look.
    """
    if not path.is_absolute():
        raise InvalidInputError("path: must be absolute", errors=[_problem("path", "must be absolute")])
    own = home.contains(path)
    if own is not None:
        return SessionLocation(own, path, None)
    if home.is_inside(path):
        raise SessionNotFoundError(f"{path} is no session: what lies in the trash is to be undeleted first")
    try:
        if not path.is_dir() or not is_session(path):
            raise SessionNotFoundError(f"there is no session in {path}", path=str(path))
    except OSError as error:
        raise StorageFailureError.of(error, f"look for a session in {path}", path) from error
    if (open_as := openings.name_at(path)) is not None:
        return SessionLocation(open_as, path, path)
    name = wanted or path.name
    if wanted is not None:
        check_session_id(wanted)
    taken = name in openings or not is_session_id(name) or home.twin(name) is not None
    if taken and wanted is not None:
        raise InvalidInputError(f"sessionId: {wanted} is taken", errors=[_problem("sessionId", "is taken")])
    return SessionLocation(new_session_id() if taken else name, path, path)


def _problem(member: str, text: str) -> dict[str, Any]:
    return {"loc": [member], "msg": text, "type": member}
