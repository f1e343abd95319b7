"""The key that seals approvals in a shared store: one for all machines, of which the store knows a digest."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from timeleap.errors import ReadOnlyError
from timeleap.features.approvals.seal import ENVIRONMENT, KeyRing

KEY: Final = "key"
SEAL: Final = "seal"
"""Names of rows: which key the store's seals are made with, and the seal in force."""
SET_ONE: Final = f"set {ENVIRONMENT}, or keyFile in config.toml, to the key file that all machines of this store have"


class Rows(Protocol):
    """Rows of a shared store about a session's approvals, apart from its files."""

    committed: dict[str, bytes]

    @property
    def sender(self) -> str: ...
    def now(self) -> dict[str, bytes]: ...
    def put(self, name: str, body: bytes | None) -> None: ...
    def waiting(self) -> set[str]: ...


class Shared(Protocol):
    """How the changes of a session reach a shared store."""

    @property
    def approvals(self) -> Rows: ...
    @property
    def once_committed(self) -> Callable[[Callable[[], None]], None]: ...


class StoreKey:
    """The key of this machine for one store; `path` is None where none was named."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.ring = KeyRing(path) if path is not None else None

    def usable(self, rows: Mapping[str, bytes]) -> bytes | None:
        """The key, if it is the store's, whose rows these are."""
        key = self.ring.key() if self.ring is not None else None
        return None if key is None or rows.get(KEY, digest_of(key)) != digest_of(key) else key

    def problem(self, rows: Mapping[str, bytes]) -> str:
        """Why there is no usable key, and how that is put right."""
        if self.ring is None:
            return f"no key for approvals is named on this machine: {SET_ONE}"
        if self.ring.key() is None:
            return f"there is no key for approvals in {self._path}: {SET_ONE} (32 bytes or more)"
        return f"the key for approvals in {self._path} is not that of this store: {SET_ONE}"

    def require(self, rows: Mapping[str, bytes]) -> bytes:
        """The key; of a store that has none yet one is made, if there is none.

        Raises:
            ReadOnlyError: There is none, or another one than the store's.
            StorageFailureError: None can be made.
        """
        if self.ring is not None and KEY not in rows:
            return self.ring.require()
        key = self.usable(rows)
        if key is None:
            raise ReadOnlyError(f"approvals cannot be switched on here: {self.problem(rows)}", reason="approvalKey")
        return key

    def refusal(self, rows: Mapping[str, bytes]) -> str | None:
        """Why nothing can be approved here, where the store has a key; None where it can, or need not be sealed."""
        return self.problem(rows) if KEY in rows and self.usable(rows) is None else None

    def mac(self, rows: Mapping[str, bytes], identity: tuple[str, str], text: str) -> str | None:
        """The seal on a decision about an approval in a session (its uid and id); None without a usable key."""
        key = self.usable(rows)
        covered = "\0".join(("timeleap-decision-1", *identity, text)).encode("utf-8", "replace")
        return None if key is None else hmac.new(key, covered, "sha256").hexdigest()


def digest_of(key: bytes) -> bytes:
    """Digest that tells a key from another one without giving it away."""
    return hmac.new(key, b"timeleap-key-1", "sha256").hexdigest().encode("ascii")
