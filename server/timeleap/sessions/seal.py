"""The seal on approvals: what makes `yolo: true` in a file mean that a person said so.

An agent's tools can write any file its user can write, `state.json` included. So what the file says counts only with a
seal: an HMAC-SHA256 under a key that is kept apart from the store, over the session (uid and id), the approvals and a
revision. The highest revision of each session is kept beside the key; a state from earlier, seal and all, is one
revision behind and counts no more.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.sessions import files
from timeleap.storage.durable import atomic_write, make_directory

ENVIRONMENT = "TIMELEAP_KEY_FILE"
KEY_BYTES = 32
MAX_REVISIONS = 10_000
"""Sessions remembered beside the key; of one forgotten the approvals are off, so the oldest can go."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a seal covers."""

    uid: str
    session_id: str
    yolo: bool
    afk: bool
    actions: tuple[str, ...]

    def mac(self, key: bytes, revision: int) -> str:
        """The seal's hexadecimal digits."""
        covered = ["timeleap-seal-1", self.uid, self.session_id, self.yolo, self.afk, sorted(self.actions), revision]
        return hmac.new(key, json.dumps(covered, separators=(",", ":")).encode("ascii"), "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Seal:
    """One seal, as `timeleap.json` keeps it."""

    revision: int
    mac: str
    changed_at: str | None = None
    changed_by: str | None = None

    def covers(self, sealed: Sealed, key: bytes) -> bool:
        """Whether this is the seal of `sealed` under `key`."""
        return hmac.compare_digest(self.mac.encode("utf-8", "replace"), sealed.mac(key, self.revision).encode("ascii"))


def default_key_file() -> Path:
    """Where the user's key is: `TIMELEAP_KEY_FILE`, else in the platform's configuration directory."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("timeleap", appauthor=False)) / "approval.key"


class KeyRing:
    """The user's key and, beside it, the highest revision of each session.

    Args:
        path: The key's file; made (0600) at first need. None: that of `default_key_file`.
        store: The store's home, where the key must not be: what can write there could sign.
    """

    def __init__(self, path: Path | None, store: Path | None = None) -> None:
        self._chosen = path
        self._store = store

    @property
    def _path(self) -> Path:
        # Looked up at first need: finding the platform's directory costs more than opening a session.
        if self._chosen is None:
            self._chosen = default_key_file()
        return self._chosen

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

    def highest(self, uid: str) -> int:
        """The highest revision known of a session; 0 for none."""
        revision = files.read_document(self._revisions).members.get(uid, 0)
        return revision if isinstance(revision, int) else 0

    def require(self) -> bytes:
        """The key, made now if there is none.

        Raises:
            StorageFailureError: It cannot be made or read, or what is there is no key.
        """
        self._refuse_store()
        try:
            return self._read()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        try:
            return self._make()
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error

    def raise_to(self, uid: str, revision: int) -> None:
        """Note that `revision` of a session is in force: all before it count no more.

        Raises:
            StorageFailureError: It could not be noted.
        """
        try:
            with self._locked():
                known = {
                    name: value
                    for name, value in files.read_document(self._revisions).members.items()
                    if isinstance(value, int)
                }
                # Taken out and put in again, so that the longest unchanged are the first to go.
                highest = max(known.pop(uid, 0), revision)
                known[uid] = highest
                excess = len(known) - MAX_REVISIONS
                files.write_document(self._revisions, dict(list(known.items())[max(0, excess) :]))
        except OSError as error:
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

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_directory(self._path.parent)
        with files.locked(self._path.with_name(self._path.name + ".lock")):
            yield

    def _refuse_store(self) -> None:
        if self._store is not None and self._path.resolve().is_relative_to(self._store.resolve()):
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
