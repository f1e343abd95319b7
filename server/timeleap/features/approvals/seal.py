"""The seal on approvals: what makes `yolo: true` in a file mean that a person said so.

An agent's tools can write any file its user can write, `state.json` included. So what the file says counts only with a
seal: an HMAC-SHA256 under a key that is kept apart from the store, over the session (uid and id), the approvals and a
revision. The highest revision of each session is kept beside the key; a state from earlier, seal and all, is one
revision behind and counts no more.

Uid, seal and approvals all come from files that the agent can write, so they cannot vouch for each other: the two files
of a session that was deleted would switch its approvals on in a new one of the same id. Beside the key therefore also
stands where a uid is at home (store and id), and that it is retired: by a delete, until that very directory is
undeleted; by another session that takes the id; never by what the store says. A whole store may move, and takes its
uids along. A delete is announced there before the directory moves, so that a crash leaves no uid in the trash that
counts: whether the directory is there says whether it is retired, and the next server's start notes it.

A change is written in this order: the new seal beside the old one in `timeleap.json`; `state.json`; the revision
beside the key. After a crash in between the file agrees with one of the two seals, and a seal one revision ahead of the
one beside the key is the change that was being made: either the old approvals are in force or the new ones, never a
mixture and never nothing. A seal further ahead cannot come about. One that a crash or an error left unused is buried:
its revision is passed by two more seals of what is in force.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from msgspec import Struct, convert
from msgspec.structs import replace

from timeleap import user_folders
from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.json_files import BAD, MAX_NUMBER, Problems, whole
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.shapes import Approval
from timeleap.storage.durable import atomic_write, make_directory
from timeleap.storage.lock import locked

ENVIRONMENT = "TIMELEAP_KEY_FILE"
KEY_BYTES = 32
MAX_REVISIONS = 10_000
"""Sessions remembered beside the key; of one forgotten the approvals are off, so the oldest can go."""
_PLACES = "places"
_FORGOTTEN = "forgotten"
_REVISION = whole(-MAX_NUMBER)
P = ParamSpec("P")


def mac_of(key: bytes, identity: tuple[str, str], approval: Approval, revision: int) -> str:
    """The hexadecimal digits of a seal over a session (uid and id), its approvals and a revision."""
    covered = ["timeleap-seal-1", *identity, approval.yolo, approval.afk, sorted(approval.actions), revision]
    return hmac.new(key, json.dumps(covered, separators=(",", ":")).encode("ascii"), "sha256").hexdigest()


class Seal(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A seal, as `timeleap.json` keeps it."""

    revision: int
    mac: str
    changed_at: str | None = None
    changed_by: str | None = None

    def covers(self, key: bytes, identity: tuple[str, str], approval: Approval) -> bool:
        """True if this is the seal of these approvals of the session under `key`."""
        mac = mac_of(key, identity, approval, self.revision)
        return hmac.compare_digest(self.mac.encode("utf-8", "replace"), mac.encode("ascii"))


SealLocation = tuple[str, str]
"""Where a session is at home: the real path of the store, and the session's id."""


def seals_of(meta: Meta) -> tuple[Seal, ...]:
    """Seals in a session's `timeleap.json`, older first: the one in force, and while a change is made the next one."""
    return convert(meta.get("seals") or (), tuple[Seal, ...])


class Standing(Struct, frozen=True):
    """Note about a session in the register next to the key.

    Attributes:
        revision: The highest that was in force.
        place: Where it is at home; None where an earlier release noted it.
        retired: Reason why its approvals do not count any more: the name of its directory in the trash, or an empty
            text where another session has its id now. None: they count.
        announced: The name in the trash that a delete was about to give its directory; None where none began, or one
            was finished.
    """

    revision: int = 0
    place: SealLocation | None = None
    retired: str | None = None
    announced: str | None = None


class Register:
    """The document next to the key: the standing of every session by uid, the longest unchanged first.

    A retired session has a negative number there, which an earlier release takes for one that no seal has. Behind the
    place stands the name in the trash: where the number is not negative, the announced one.

    Attributes:
        forgotten: The highest revision of a session that is not known any more. A uid that is not known, or known
            again, counts on from there, so that none of its earlier seals comes into force.
        changed: The file does not say so yet.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        places = document.get(_PLACES)
        noted: Mapping[str, Any] = places if isinstance(places, dict) else {}
        self.sessions: dict[str, Standing] = {}
        self.changed = False
        floor = document.get(_FORGOTTEN)
        self.forgotten: int = floor if type(floor) is int and 0 <= floor <= MAX_NUMBER else 0
        for uid, number in document.items():
            if uid != _FORGOTTEN and _REVISION(number, uid, Problems()) is not BAD:
                where = noted.get(uid)
                texts = where if isinstance(where, list) and all(isinstance(text, str) for text in where) else []
                self.sessions[uid] = Standing(
                    revision=number if number >= 0 else -number - 1,
                    place=(texts[0], texts[1]) if len(texts) in (2, 3) else None,
                    retired=None if number >= 0 else texts[2] if len(texts) == 3 else "",
                    announced=texts[2] if number >= 0 and len(texts) == 3 else None,
                )

    def document(self) -> dict[str, Any]:
        """Members of the file; beyond the limit the longest unchanged are forgotten."""
        for uid in list(self.sessions)[: max(0, len(self.sessions) - MAX_REVISIONS)]:
            self._forget(uid)
        kept = self.sessions
        places = {
            uid: [*note.place, *(name for name in (note.retired, note.announced) if name is not None)]
            for uid, note in kept.items()
            if note.place is not None
        }
        numbers = {uid: note.revision if note.retired is None else -note.revision - 1 for uid, note in kept.items()}
        floor = {_FORGOTTEN: self.forgotten} if self.forgotten else {}
        return {**numbers, **floor, **({_PLACES: places} if places else {})}

    def revision(self, uid: str) -> int:
        """The highest revision known of a session; 0 for none."""
        return self.sessions.get(uid, Standing()).revision

    def put(self, uid: str, standing: Standing) -> None:
        """Note a session as the one that changed last."""
        self.sessions.pop(uid, None)
        self.sessions[uid] = standing
        self.changed = True

    def _update(self, uids: Iterable[str], *, retired: str | None, announced: str | None = None) -> None:
        for uid in uids:
            self.put(uid, replace(self.sessions[uid], retired=retired, announced=announced))

    def _forget(self, uid: str) -> None:
        self.forgotten = max(self.forgotten, self.sessions.pop(uid).revision)
        self.changed = True

    def _at(self, place: SealLocation) -> list[str]:
        """The sessions at home in a place whose approvals count."""
        return [uid for uid, note in self.sessions.items() if note.place == place and note.retired is None]

    def raise_to(self, uid: str, revision: int, place: SealLocation | None = None) -> None:
        """Note that `revision` of a session is in force: all before it count no more. In `place` it is at home from now
        on, whatever was there before, or whether it was retired."""
        known = self.sessions.get(uid, Standing())
        highest = max(known.revision, revision)
        if place is None:
            self.put(uid, replace(known, revision=highest))
        else:
            self._update([other for other in self._at(place) if other != uid], retired="")
            self.put(uid, Standing(highest, place))

    def announce(self, place: SealLocation, trash: str, uid: str) -> None:
        """Note that `retire` follows, with the same arguments, when the directory has moved."""
        if (before := self.moved_from(uid, place)) is not None:
            # nobody has opened the session since the store was moved: it is at home here all the same
            self.rehome(before, place[0])
        self._update(self._at(place), retired=None, announced=trash)
        self.changed |= uid in self.sessions  # of which the retirement is noted

    def finish_deletes(self, store: str) -> None:
        """Retire what was announced and then moved to the trash of the store with this real path: what is at home
        elsewhere is for others to finish."""
        for uid, note in list(self.sessions.items()):
            here = note.place is not None and note.place[0] == store
            if here and note.announced and _is_there(Path(store, "trash", note.announced)):
                self._update([uid], retired=note.announced)

    def retire(self, place: SealLocation, trash: str = "", uid: str = "") -> None:
        """Let the approvals of whatever is at home in a place count no more.

        Args:
            place: The place.
            trash: The name in the trash of the directory whose undelete lets them count again.
            uid: What the file of a deleted session says it is, which counts if it is not known where that is at home.
        """
        self._update(self._at(place), retired=trash)
        known = self.sessions.get(uid)
        if known is not None and known.place is None and known.retired is None:
            self.put(uid, replace(known, place=place, retired=trash))

    def revive(self, place: SealLocation, trash: str) -> None:
        """Let the approvals of the session count again that a delete has moved to that name in the trash."""
        revived = [
            uid
            for uid, note in self.sessions.items()
            if trash and trash in (note.retired, note.announced) and note.place == place
        ]
        self._update(revived, retired=None)

    def forget(self, trash: Collection[str]) -> None:
        """Forget sessions that are removed for good, by the names of their directories in the trash: of one that is not
        known the approvals are off, too."""
        for uid, note in list(self.sessions.items()):
            if (note.retired or note.announced or None) in trash:
                self._forget(uid)

    def rehome(self, before: str, after: str) -> None:
        """Note that a store was moved."""
        for uid, note in self.sessions.items():
            if note.place is not None and note.place[0] == before:
                self.sessions[uid] = replace(note, place=(after, note.place[1]))
                self.changed = True

    def refusal(self, uid: str, place: SealLocation) -> str | None:
        """Why the approvals of a session do not count in a place; None where they do."""
        standing = self.sessions.get(uid)
        if standing is None:
            return "nothing is noted of the session beside the key"
        if standing.retired is not None:
            return "they are those of a session that was deleted, or that another one of its id has followed"
        if standing.place is None or _same_place(standing.place, place) or self.moved_from(uid, place) is not None:
            return None
        return f"they are those of session {standing.place[1]} in {standing.place[0]}"

    def moved_from(self, uid: str, place: SealLocation) -> str | None:
        """The store that was moved to where a session is now; None where it was not moved.

        It is one that is gone from where it was, and that nobody was using at the new place: a copy, or a single
        session that was put into another store, begins with its approvals off.
        """
        was = self.sessions[uid].place if uid in self.sessions else None
        if was is None or _same_place(was, place) or was[1] != place[1]:
            return None
        used = any(note.place is not None and note.place[0] == place[0] for note in self.sessions.values())
        return None if used or _is_there(Path(was[0], "sessions")) else was[0]


def _is_there(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return True  # what cannot be looked at switches nothing on


def _same_place(place: SealLocation, other: SealLocation) -> bool:
    if place == other or place[1] != other[1]:
        return place == other
    try:
        return Path(place[0]).samefile(other[0])  # a store may be mounted twice
    except (OSError, ValueError):
        return False


def default_key_file() -> Path | None:
    """Where the user's key is: `TIMELEAP_KEY_FILE`, else in the user's directory for settings; None where there is no
    such directory."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return user_folders.expanded(chosen)
    settings = user_folders.folder("config")
    return None if settings is None else settings / "approval.key"


class KeyRing:
    """The user's key and, beside it, the highest revision of each session. What cannot be noted raises
    StorageFailureError.

    Args:
        path: The key's file; made (0600) at first need. None: that of `default_key_file`.
        store: The store's home, where the key must not be: what can write there could sign.
    """

    def __init__(self, path: Path | None, store: Path | None = None) -> None:
        self._chosen = path
        self._store = store

    def _find(self) -> Path | None:
        # Looked up at first need: finding the platform's directory costs more than opening a session.
        if self._chosen is None:
            self._chosen = default_key_file()
        return self._chosen

    @property
    def _path(self) -> Path:
        path = self._find()
        if path is None:
            raise StorageFailureError(
                "there is no place for the key for approvals, since this user has no home directory, so approvals cannot "
                f"be switched on: name a file for it outside of the store with {ENVIRONMENT}",
                path="",
                errno="ENOENT",
            )
        return path

    @property
    def _revisions(self) -> Path:
        return self._path.with_name(self._path.name + ".revisions.json")

    def key(self) -> bytes | None:
        """The key, or None where there is none that can be used."""
        try:
            self._refuse_store()
            return self._read()
        except (OSError, ValueError, TimeleapError):
            return None

    def register(self) -> Register:
        """The notes about all sessions."""
        if self._find() is None:
            return Register({})
        register = Register(files.read_document(self._revisions).members)
        if self._store is not None:
            register.finish_deletes(os.path.realpath(self._store))
        return register

    def change(self, change: Callable[Concatenate[Register, P], None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make a change of the register (`Register.retire` ...) in its file, while no other process does. That there is
        nothing to change, as almost always, is seen without the lock."""
        change(register := self.register(), *args, **kwargs)
        if not register.changed:
            return
        try:
            with self._locked():
                change(register := self.register(), *args, **kwargs)
                if register.changed:
                    files.write_document(self._revisions, register.document())
        except OSError as error:
            raise self._unusable(error) from error

    def require(self) -> bytes:
        """The key, made now if there is none.

        Raises:
            StorageFailureError: It cannot be made or read, or what is there is no key.
        """
        self._refuse_store()
        try:
            try:
                return self._read()
            except FileNotFoundError:
                return self._make()
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error

    def _make(self) -> bytes:
        with self._locked():
            try:
                return self._read()  # another process was faster
            except FileNotFoundError:
                atomic_write(self._path, secrets.token_hex(KEY_BYTES).encode("ascii") + b"\n")
                return self._read()

    def _read(self) -> bytes:
        text = files.read_bytes(self._path, limit=4096).strip()
        if len(text) < KEY_BYTES:
            raise ValueError(f"a key has at least {KEY_BYTES} bytes")
        return text

    def _locked(self) -> AbstractContextManager[None]:
        make_directory(self._path.parent)
        return locked(self._path.with_name(self._path.name + ".lock"))

    def _refuse_store(self) -> None:
        # Behind links, too: a key that is reached through the store can be read by who reads the store.
        real = Path(os.path.realpath(self._path))
        if self._store is not None and real.is_relative_to(os.path.realpath(self._store)):
            raise StorageFailureError(
                f"the key for approvals must not lie in the store ({self._path}): choose another {ENVIRONMENT}",
                path=str(self._path),
                errno="EPERM",
            )

    def _unusable(self, error: Exception) -> StorageFailureError:
        what = f"use the key for approvals {self._path}, so approvals cannot be switched on"
        if isinstance(error, OSError) and not isinstance(error, StorageFailureError):
            return StorageFailureError.of(error, what, self._path)
        return StorageFailureError(f"cannot {what}: {error}", path=str(self._path), errno="EINVAL")
