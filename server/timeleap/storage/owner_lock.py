"""The lock of a session, and the record of its owner."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from timeleap import clock
from timeleap.errors import SessionLockedError
from timeleap.storage import durable
from timeleap.storage.lock import FileLock

LockMode = Literal["hold", "per-write"]


Endpoint = Mapping[str, Any]
"""How other processes reach the holder of a lock: `{address, token, protocolVersion}`, or `{problem}` where they
cannot. It gives the right to act on the session: it goes into the record, never into an error, a reply or a log."""


WAIT_SECONDS: Final = 5.0


_PAUSE_SECONDS: Final = 0.005


_LOOKERS: Final = 3


_LONGEST_WORD: Final = 1000


class OwnerRecord(NamedTuple):
    """The content of a lock file. Anybody may have written it: what is not of its form is left out."""

    owner: dict[str, Any] | None = None  # `{pid, host, since}`; None where no process is named
    mode: LockMode | None = None
    endpoint: Endpoint | None = None
    boot: str | None = None  # the start of the system that the holder runs on


@cache
def boot_id() -> str | None:
    """Identifies this start of this machine's system, in all of its containers; None where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def decode_record(data: bytes) -> OwnerRecord:
    try:
        record: Any = json.loads(data)
    except (ValueError, RecursionError):
        return OwnerRecord()
    if not isinstance(record, dict):
        return OwnerRecord()
    pid, mode, endpoint = record.get("pid"), record.get("mode"), record.get("endpoint")
    named: dict[str, Any] = {"pid": pid} if type(pid) is int and 0 < pid < 1 << 32 else {}
    named |= {name: record[name] for name in ("host", "since") if _is_word(record.get(name))}
    if isinstance(endpoint, dict):  # one without an address leads nowhere, which is known at once
        texts = ("address", "token", "problem")
        endpoint = {name: value for name, value in endpoint.items() if name not in texts or _is_word(value)}
    return OwnerRecord(
        owner=named if "pid" in named else None,
        mode=mode if mode in ("hold", "per-write") else None,
        endpoint=endpoint if isinstance(endpoint, dict) else None,
        boot=record["boot"] if _is_word(record.get("boot")) else None,
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable()


class SessionLock(FileLock):
    """The right to write to a log. Freed by the system at once when the process dies.

    A lock held for as long as a session is open says so in its record: waiting for it is in vain. One taken for each
    write is waited for.
    """

    def __init__(self, log: Path, endpoint: Endpoint | None = None) -> None:
        super().__init__(log.parent / f".{log.name}.lock")
        self._endpoint = endpoint

    def holder(self) -> OwnerRecord:
        """The record that was written last; valid only while the lock is held."""
        return decode_record(self.read())

    def reachable_at(self, endpoint: Endpoint | None) -> None:
        """From the next record on, say how we are reached."""
        self._endpoint = endpoint

    def untried(self) -> bool:
        return not self._path.exists()

    def taken(self) -> bool:
        """True if a process holds the lock now. Takes it for an instant to see; never creates the lock file."""
        if not self._path.exists():
            return False
        free = self.try_acquire()
        if free:
            self.release()
        return not free

    async def acquire(self, mode: LockMode, wait: float = WAIT_SECONDS) -> None:
        """Take the lock, waiting so many seconds for one who holds it only for a write.

        Raises:
            SessionLockedError: Another process holds it.
            StorageFailureError: The lock file cannot be made (a read-only store, no permission).
        """
        until = time.monotonic() + wait
        attempts = 0
        while not self.try_acquire():
            attempts += 1
            held = self.holder().mode == "hold"
            # The first failures may be somebody who only looked (`taken`), the record of an owner who is gone.
            if (held and attempts > _LOOKERS) or time.monotonic() >= until:
                raise self._locked()
            await asyncio.sleep(_PAUSE_SECONDS)
        self.write_record(mode)

    def write_record(self, mode: LockMode) -> None:
        record: dict[str, Any] = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": clock.now_iso(),
            "mode": mode,
            "boot": boot_id(),
        }
        if mode == "hold" and self._endpoint is not None:
            record["endpoint"] = dict(self._endpoint)
        with suppress(OSError):  # the record is a courtesy; the lock is what counts
            self.write(json.dumps(record).encode())

    def try_acquire(self) -> bool:
        with durable.storage_errors("take the session's lock", self._path):
            return super().try_acquire()

    def _locked(self) -> SessionLockedError:
        owner = self.holder().owner
        who = f"process {owner.get('pid')} on {owner.get('host')}" if owner else "another process"
        return SessionLockedError(f"the session is being written to by {who}", owner=owner)
