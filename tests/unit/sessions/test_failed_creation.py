"""Making a session while the operating system refuses: there is one, or nothing is left of it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.crash.storage.faults import faults

from timeleap.errors import StorageFailureError
from timeleap.features.approvals.store_approvals import in_files
from timeleap.store.store import SessionStore

WRITING = ("write", "pwrite", "fsync", "fdatasync")


@pytest.mark.parametrize("onwards", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EMFILE])
async def test_what_cannot_be_made_leaves_nothing(tmp_path: Path, code: int, onwards: bool) -> None:
    home = tmp_path / "home"
    store = SessionStore(home, approvals=in_files(tmp_path / "key"))
    await store.open("other")
    made = ["other"]
    failures = 0
    for first in range(1, 40):
        name = f"s{first}"
        with faults(code, first, onwards=onwards, calls=WRITING if onwards else (*WRITING, "open")) as faulty:
            try:
                await store.open(name, system_prompt="be kind", title="t")
            except StorageFailureError:
                failures += 1
                assert faulty.failed
                faulty.heal()
                assert sorted(path.name for path in (home / "sessions").iterdir()) == sorted(made), first
                assert not list((home / "staging").iterdir())
        made.append((await store.open(name)).session.session_id)
    assert failures > 5
    await store.aclose()
