"""A session works on any engine: here on the one that keeps nothing on disk."""

from __future__ import annotations

from pathlib import Path

from tests.support.memory_engine import MemoryEngine
from tests.support.plain_shapes import PLAIN
from tests.unit.sessions.worlds import ANSWER, USER, asked, heard, kinds, texts

from timeleap.features.approvals.requests import AskedApprovals
from timeleap.features.approvals.seal import KeyRing
from timeleap.features.approvals.standing import SealedApprovals
from timeleap.features.approvals.switches import is_approved, set_yolo
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Retention
from timeleap.sessions.transaction import Files, SessionServices, SessionTransactions


async def test_append_checkpoint_revert_restore_and_a_repeat(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    meta = Meta(tmp_path / "s", "owner")
    approvals = SealedApprovals("s", meta, StateFile(tmp_path / "s"), KeyRing(tmp_path / "key"), trusted=True)
    closed: list[SessionTransactions] = []

    async def release(session: SessionTransactions) -> None:
        closed.append(session)

    around = SessionServices(PLAIN, Retention(), lambda _: set(), release, AskedApprovals)
    session = Session("s", tmp_path / "s", Files(MemoryEngine(), meta, approvals), around)
    told = heard(session)
    await session.append([USER, ANSWER], asked("r"))
    await session.checkpoint("c", False)
    await session.append([USER])
    assert (await session.revert(checkpoint_id=0, dry_run=True))["removed"]["messages"] == 1
    await session.revert(checkpoint_id=0)
    assert (await session.append([USER, ANSWER], asked("r")))["duplicate"] is True
    assert texts(session) == ["Where is the file?", "In the drawer."]
    await session.restore_timeline("context_1")
    assert len(texts(session)) == 3
    await set_yolo(session, True)
    assert is_approved(session, "x") == (True, "yolo")
    assert kinds(told) == [
        "messagesAppended",
        "checkpointCreated",
        "messagesAppended",
        "reverted",
        "timelineRestored",
        "approvalChanged",
    ]
    await session.aclose()
    assert closed == [session.transactions]
