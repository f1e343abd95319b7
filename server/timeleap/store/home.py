"""The directories of a store: `sessions/<id>`, `trash/<id>~<stamp>`, and what is being built in `staging`; their names.

A session is built aside and renamed into place, so it is there whole or not at all. Nothing in a store is ever reached
through a link: what is no directory of its own where a session should be is refused, and skipped in lists.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from timeleap import clock
from timeleap.errors import (
    CorruptedError,
    InvalidSessionIdError,
    SessionExistsError,
    SessionNotFoundError,
    StorageFailureError,
)
from timeleap.placeholders import placeholders
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME
from timeleap.storage.durable import (
    failpoint,
    is_regular,
    list_directory,
    make_directory,
    remove_file,
    replace_file,
    storage_errors,
    sync_directory,
)
from timeleap.storage.lock import FileLock
from timeleap.storage.log_files import has_timelines
from timeleap.store.home_directory import move_in

ABANDONED_SECONDS = 24 * 3600
"""Age at which an entry of `staging` is nobody's work any more."""

UNTOUCHED_SECONDS = 600
"""Where nothing was written for so long nobody is building, when sessions are removed for good."""

_CONDEMNED = "purge-"
"""Beginning of the names in `staging` of entries that are to be removed for good."""

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRASHED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})~(\d{8}T\d{6}\.\d{6})(?:-[0-9a-f]{4})?")
_STAMP = "%Y%m%dT%H%M%S.%f"

# Windows opens the device whatever the extension; refused everywhere, so that a store can be moved there.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))]
)


# Names


def is_session_id(text: str) -> bool:
    return (
        _SESSION_ID.fullmatch(text) is not None
        and not text.endswith(".")
        and text.partition(".")[0].casefold() not in _DEVICES
    )


def check_session_id(text: str) -> str:
    """`text` itself; raises InvalidSessionIdError where it cannot be the id of a session."""
    if not is_session_id(text):
        raise InvalidSessionIdError(
            f"session id {text[:80]!r} is not usable: 1 to 64 letters, digits, '.', '_' or '-', the first a letter or "
            "digit, the last no dot, and no reserved device name",
            sessionId=text[:200],
        )
    return text


def new_session_id() -> str:
    """An id nobody has: the time, so that names sort by age, and 8 random digits."""
    return f"{datetime.fromtimestamp(clock.now(), UTC):%Y%m%d-%H%M%S}-{clock.new_uid(8)}"


def trash_name(session_id: str) -> str:
    """The name of a session's directory in the trash: unique, and later ones sort after earlier ones."""
    return f"{session_id}~{datetime.fromtimestamp(clock.now(), UTC):{_STAMP}}-{clock.new_uid(4)}"


def parse_trash_name(name: str) -> tuple[str, str] | None:
    """The session id and the ISO-8601 time of deletion a trash directory's name says, or None for other names."""
    match = _TRASHED.fullmatch(name)
    if match is None or not is_session_id(match[1]):
        return None
    try:
        deleted = datetime.strptime(match[2], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return match[1], clock.iso(deleted.timestamp())


# Directories


class Trashed(Struct, frozen=True):
    """A session in the trash; `name` is the name of its directory there.

    Attributes:
        remains: It is gone, but snapshots of its files could not be told from those of others, and stay.
    """

    session_id: str
    deleted_at: str
    name: str
    bytes: int = 0
    remains: bool = False


class Home:
    """The home directory of a store; made (0700) if it does not exist.

    Raises:
        StorageFailureError: It cannot be used. So does each method whose directory cannot be read or changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.sessions = self.path / "sessions"
        self.trash = self.path / "trash"
        self._staging = self.path / "staging"
        move_in(self.path)

    @property
    def real_path(self) -> str:
        """The home's path without links: what the user's key knows it by."""
        return os.path.realpath(self.path)

    def contains(self, path: Path) -> str | None:
        """The session id, if `path` is the directory of a session of this store."""
        real = Path(os.path.realpath(path))
        if real.parent == Path(os.path.realpath(self.sessions)) and is_session_id(real.name):
            return real.name
        return None

    def is_inside(self, path: Path) -> bool:
        """True if `path` lies anywhere in the home."""
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path))

    def locate(self, session_id: str) -> Path:
        """The directory of a session.

        Raises:
            InvalidSessionIdError: It cannot be the id of one.
            SessionNotFoundError: There is none of that id.
            CorruptedError: What has its name is no directory.
        """
        path = self.sessions / check_session_id(session_id)
        missing = SessionNotFoundError(f"there is no session {session_id}", sessionId=session_id)
        with storage_errors(f"look for session {session_id}", path):
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                raise missing from None
        if not stat.S_ISDIR(mode):
            kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISREG, "a file"))
            kind = next((kind for is_kind, kind in kinds if is_kind(mode)), "something else")
            raise CorruptedError(
                f"{path} is no directory but {kind}: it is not followed; remove it to use the id {session_id}",
                path=str(path),
            )
        if not is_session(path) or not self._spelled_so(session_id):
            raise missing
        return path

    def _spelled_so(self, session_id: str) -> bool:
        """True if the directory has exactly this name, which a file system that ignores case does not ensure."""
        other = self.sessions / session_id.swapcase()
        if other.name == session_id or not other.exists():
            return True
        return session_id in list_directory(self.sessions)

    def twin(self, session_id: str) -> str | None:
        """The name in the store that equals `session_id` or differs from it only by case; None if it is free."""
        folded = session_id.casefold()
        names = (name for name in list_directory(self.sessions) if name.casefold() == folded)
        return next((name for name in names if not _is_empty(self.sessions / name)), None)

    def free_id(self, wanted: str | None) -> str:
        """`wanted` if nobody has it (else SessionExistsError), or a new one where none is wanted."""
        if wanted is not None and (taken := self.twin(wanted)) is not None:
            raise _taken_error(wanted, taken)
        return new_session_id() if wanted is None else wanted

    def names(self) -> list[str]:
        """The names in `sessions` that are session ids."""
        return [name for name in self._listed(self.sessions) if is_session_id(name)]

    def trashed(self) -> list[tuple[str, str, Path]]:
        """Id, time of deletion and directory of what lies in the trash, newest first."""
        paths = [self.trash / name for name in self._listed(self.trash)]
        found = [(*parsed, path) for path in paths if (parsed := parse_trash_name(path.name)) and _is_directory(path)]
        return sorted(found, key=lambda entry: (entry[1], entry[2].name), reverse=True)

    def newest_trashed(self, session_id: str) -> str:
        """The name in the trash of the session of that id that was deleted last; else raises SessionNotFoundError."""
        check_session_id(session_id)
        name = next((path.name for found, _, path in self.trashed() if found == session_id), None)
        if name is None:
            raise SessionNotFoundError(f"there is no session {session_id} in the trash", sessionId=session_id)
        return name

    def _listed(self, directory: Path) -> list[str]:
        with storage_errors(f"list {directory.name}", directory):
            return list_directory(directory)

    def _new_staging_path(self) -> Path:
        return self._staging / f"{int(clock.now())}-{clock.new_uid(16)}"

    # Building and moving

    @contextmanager
    def building(self) -> Iterator[Path]:
        """A new, private directory to build a session in; what is left of it at the end is removed."""
        self.sweep()
        path = self._new_staging_path()
        lock = FileLock(_building_lock(path))
        try:
            with storage_errors("make a session", path):
                make_directory(self._staging)
                lock.try_acquire()  # nobody else has the name
                make_directory(path)
            yield path
        finally:
            lock.release()  # its descriptor may be the last one there is, and to remove a directory takes one
            discard(path)
            with suppress(OSError):
                remove_file(_building_lock(path))

    def withdraw(self, session_id: str) -> Path | None:
        """Take back a session that was just published, and that nobody has opened; says what is to be discarded."""
        aside = self._new_staging_path()
        try:
            replace_file(self.sessions / session_id, aside)
        except OSError:
            return None  # it stays, empty
        with suppress(OSError):
            sync_directory(self.sessions)
        return aside

    # Each of these moves a session durably and in one step; SessionExistsError where the id is taken.

    def publish(self, built: Path, session_id: str) -> None:
        """Give a built session its place."""
        self._move(built, self.sessions / session_id, session_id)
        failpoint("store.published")

    def to_trash(self, session_id: str, name: str) -> None:
        """Move a session to the trash, where it is called `name`."""
        self._move(self.sessions / session_id, self.trash / name, session_id)

    def from_trash(self, session_id: str, name: str) -> None:
        """Move what is called `name` in the trash back to its place."""
        self._move(self.trash / name, self.sessions / session_id, session_id)

    def _move(self, source: Path, target: Path, session_id: str) -> None:
        try:
            make_directory(target.parent)
            if target.parent == self.sessions and (taken := self.twin(session_id)) is not None:
                raise _taken_error(session_id, taken)
            sync_directory(source)
            failpoint("store.before_move")
            replace_file(source, target)
            try:
                sync_directory(target.parent)
                sync_directory(source.parent)
            except OSError:
                with suppress(OSError):
                    replace_file(target, source)  # what is said to have failed did not happen
                raise
        except OSError as error:
            if error.errno in _TAKEN:
                raise _taken_error(session_id, session_id) from error
            if error.errno == errno.ENOENT and not source.exists() and not target.exists():
                where = " in the trash" if source.parent == self.trash else ""  # another process was quicker
                raise SessionNotFoundError(f"there is no session {session_id}{where}", sessionId=session_id) from error
            raise StorageFailureError.of(error, f"move session {session_id}", target) from error

    # Removing for good

    def refuse_linked_trash(self) -> None:
        """Refuse to remove anything where the trash, or where it goes from there, is reached through a link."""
        for directory in (self.trash, self._staging):
            if directory.is_symlink():
                raise StorageFailureError(
                    f"{directory} is a link: nothing is removed through it", path=str(directory), errno="ELOOP"
                )

    def condemn(self, name: str) -> bool:
        """Move what is called `name` in the trash to where it is removed for good, durably and in one step. Hold its
        lock.

        Returns:
            False where there is nothing of that name any more.
        """
        path = self.trash / name
        with storage_errors(f"remove {name} from the trash", path), suppress(FileNotFoundError):
            make_directory(self._staging)
            self.refuse_linked_trash()
            _make_writable(path)  # else it cannot be moved
            replace_file(path, self._staging / f"{_CONDEMNED}{clock.new_uid(8)}-{name}")
            sync_directory(self._staging)
            sync_directory(self.trash)
            return True
        return False

    def condemned(self) -> list[tuple[str, Trashed]]:
        """Directories to be removed for good: each one's name, and what it was in the trash."""
        self.refuse_linked_trash()
        names = [name for name in self._listed(self._staging) if name.startswith(_CONDEMNED)]
        was = [(name, name[len(_CONDEMNED) + 9 :]) for name in names]
        return [(name, Trashed(*parsed, trashed)) for name, trashed in was if (parsed := parse_trash_name(trashed))]

    def condemned_path(self, name: str) -> Path:
        """Where a directory lies that is to be removed for good."""
        return self._staging / name

    def made_by(self, condemned: str) -> str | None:
        """The request id that made a session which is to be removed."""
        made_by = Meta(self._staging / condemned, "readOnly").get("createdBy")
        return None if made_by is None else str(made_by["r"])

    def remove_condemned(self, name: str) -> None:
        """Remove a directory with all that is in it; links in it go, what they lead to stays.

        Raises:
            StorageFailureError: Some of it is still there.
        """
        path = self._staging / name
        with storage_errors(f"remove {name}", path), suppress(FileNotFoundError):  # another process was quicker
            _remove_tree(path)
            sync_directory(self._staging)

    def sweep(self, *, untouched: float | None = None) -> None:
        """Remove what a killed process left half built: parts of sessions, with their text.

        What is being built is locked. An earlier release did not lock it: that goes after `ABANDONED_SECONDS`, or after
        `untouched` seconds in which nothing was written there.
        """
        for name in self._listed(self._staging):
            path, born = self._staging / name, name.partition("-")[0]
            if not born.isdecimal() or not _is_directory(path):
                continue
            lock_path = _building_lock(path)
            with suppress(OSError):
                if is_regular(lock_path):
                    lock = FileLock(lock_path)
                    try:
                        if lock.try_acquire():
                            _remove_tree(path)
                            remove_file(lock_path)
                    finally:
                        lock.release()
                elif time.time() - int(born) > ABANDONED_SECONDS or (
                    untouched is not None and time.time() - _last_written(path) > untouched
                ):
                    _remove_tree(path)


def _building_lock(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _last_written(path: Path) -> float:
    """Seconds since 1970 of the last change in a directory."""
    times = [os.lstat(path).st_mtime]
    with os.scandir(path) as entries:
        for entry in entries:
            facts = entry.stat(follow_symlinks=False)
            times.append(_last_written(Path(entry.path)) if stat.S_ISDIR(facts.st_mode) else facts.st_mtime)
    return max(times)


def _remove_tree(path: Path) -> None:
    """Remove a directory; directories in it that may not be written to are made so.

    Raises:
        OSError: Some of it is still there.
    """
    while True:
        failures: list[tuple[Path, OSError]] = []

        def note(_: object, place: str, found: tuple[Any, Any, Any], failures: Any = failures) -> None:
            failures.append((Path(place), found[1]))

        shutil.rmtree(path, onerror=note)
        if not os.path.lexists(path):
            return
        # One that was removed by another process meanwhile is a failure, but none of a place that is there.
        left = [(place, error) for place, error in failures if not isinstance(error, FileNotFoundError)]
        if not sum(_make_writable(place) + _make_writable(place.parent) for place, _ in left):
            raise left[0][1] if left else failures[0][1]


def _make_writable(path: Path) -> bool:
    """Let the user change a directory; says whether that was needed and done."""
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            path.chmod(stat.S_IRWXU)
            return True
    return False


def discard(path: Path) -> None:
    """Remove a directory; what cannot be removed is swept some day."""
    with suppress(OSError):  # what a session is built in has files only, and for them this takes one descriptor
        for name in list_directory(path):
            (path / name).unlink()
        path.rmdir()
        return
    shutil.rmtree(path, ignore_errors=True)


def in_trash(home: Home, session_id: str, uid: str) -> list[Path]:
    """The directories in the trash that belong to a session: earlier ones of its id, and copies with its uid."""
    return [
        path for name, _, path in home.trashed() if name == session_id or (uid and Meta(path, "readOnly").uid == uid)
    ]


def is_session(path: Path) -> bool:
    """True if a directory is that of a session: it has a log, earlier logs, or our file, be they placeholders of a sync program."""
    try:
        for name in (LOG_NAME, META_NAME):
            with suppress(FileNotFoundError):
                os.lstat(path / name)
                return True
        return has_timelines(path / LOG_NAME) or not {LOG_NAME, META_NAME}.isdisjoint(
            placeholders(list_directory(path))
        )
    except OSError:
        return True  # what cannot be looked into is not declared to be nothing


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_empty(path: Path) -> bool:
    """True if there is only an empty directory, which a rename replaces."""
    try:
        return _is_directory(path) and not list_directory(path)
    except OSError:
        return False


def _taken_error(session_id: str, taken: str) -> SessionExistsError:
    why = "is taken" if taken == session_id else f"is taken: {taken} differs from it only by case"
    return SessionExistsError(f"session id {session_id} {why}", sessionId=session_id)
