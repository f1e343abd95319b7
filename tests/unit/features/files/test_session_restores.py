"""Files that go back with the log: which snapshot, what is noted, and what becomes of them if the log's step fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.copied_tree import Content, CopiedTree, content
from tests.support.mostly_long import mostly_long
from tests.unit.sessions.worlds import World, asked, heard, kinds, run_child, texts

from timeleap.call import WorkControl
from timeleap.errors import (
    FilesConflictError,
    FilesUnavailableError,
    HeadConflictError,
    SnapshotNotFoundError,
    StorageFailureError,
)
from timeleap.features.files.session_snapshots import FileSnapshots
from timeleap.features.files.tree_port import TreeTarget
from timeleap.service.service import notification_params
from timeleap.sessions import transaction
from timeleap.sessions.companion import RewriteScope
from timeleap.sessions.past import new_checkpoint
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause
from timeleap.storage import durable

Json = dict[str, Any]
FIRST = {"a.txt": b"one", "b.txt": b"two"}
SECOND = {"a.txt": b"ONE", "new.txt": b"three"}
COUNTS = {"added": 1, "modified": 1, "deleted": 1, "kept": 0, "conflicts": 0}


class Workspace(World):
    """A world with a workspace, whose session has a checkpoint with a snapshot, and then a turn that changed the files."""

    def __init__(self, folder: Path) -> None:
        self.root, self.kept = folder / "root", folder / "kept"
        tree_of: Any = lambda _path, _meta: CopiedTree(self.root, self.kept)  # noqa: E731
        super().__init__(folder, companion=partial(FileSnapshots, tree_of))

    @property
    def tree(self) -> CopiedTree:  # type: ignore[override]
        return CopiedTree(self.root, self.kept)

    @property
    def files(self) -> Content:
        return content(self.root)

    async def turn(self) -> Session:
        session = await self.session()
        write(self.root, FIRST)
        await mark(session, {"snapshot": self.tree.keep()})
        (self.root / "b.txt").unlink()
        write(self.root, SECOND)
        await session.append([{"role": "user", "content": "done"}])
        return session


def write(root: Path, files: Content) -> None:
    for name, data in files.items():
        (root / name).write_bytes(data)


async def mark(session: Session, files: Json) -> None:
    """Write a checkpoint with a snapshot."""
    await session.engine.append(
        lambda state: [new_checkpoint(state, state.next_checkpoint_id, None, None, {"w": files})[0]]  # type: ignore[dict-item]
    )


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    made = Workspace(tmp_path)
    yield made
    durable.arm("")
    await made.close()


Going = Callable[..., Awaitable[Json]]


async def reverted(workspace: Workspace) -> Session:
    session = await workspace.turn()
    await session.revert(checkpoint_id=0, restore="both")
    return session


async def test_both_go_back_and_the_result_counts_the_files(workspace: Workspace) -> None:
    session = await workspace.turn()
    done = await session.revert(checkpoint_id=0, restore="both")
    assert (texts(session), workspace.files) == ([], FIRST)
    before, after = done["files"].pop("before"), done["files"].pop("after")
    assert done["files"] == COUNTS
    assert (content(workspace.kept / before), content(workspace.kept / after)) == (SECOND, FIRST)


async def test_the_conversation_alone_leaves_the_files(workspace: Workspace) -> None:
    session = await workspace.turn()
    assert "files" not in await session.revert(checkpoint_id=0)
    assert (texts(session), workspace.files) == ([], SECOND)


async def test_the_files_alone_leave_the_log_but_the_request_is_known(workspace: Workspace) -> None:
    session = await workspace.turn()
    head, guard = session.head, asked("r", "context/revertTo")
    done = await session.revert(checkpoint_id=0, restore="files", guard=guard)
    assert (session.head, texts(session), workspace.files) == (head, ["done"], FIRST)
    assert (done["head"], done["removed"]) == (head, {"messages": 0, "checkpoints": 0, "tokens": 0})
    write(workspace.root, {"a.txt": b"later"})
    session = await workspace.reopened()
    assert await session.revert(checkpoint_id=0, restore="files", guard=guard) == {**done, "duplicate": True}
    assert workspace.files["a.txt"] == b"later"


async def test_undo_and_redo_take_the_files_along_exactly(workspace: Workspace) -> None:
    session = await reverted(workspace)
    undone = await session.undo(restore="both")
    assert (texts(session), workspace.files) == (["done"], SECOND)
    assert undone["files"].items() >= COUNTS.items()
    await session.redo(restore="both")
    assert (texts(session), workspace.files) == ([], FIRST)
    await session.undo(restore="both")
    assert (texts(session), workspace.files) == (["done"], SECOND)


async def test_several_steps_go_to_the_files_of_the_last_one(workspace: Workspace) -> None:
    session = await workspace.turn()
    await mark(session, {"snapshot": workspace.tree.keep()})
    write(workspace.root, {"third.txt": b"3"})
    await session.append([{"role": "user", "content": "third"}])
    third = workspace.files
    await session.revert(checkpoint_id=1, restore="both")
    await session.revert(checkpoint_id=0, restore="both")
    await session.undo(steps=2, restore="both")
    assert (texts(session), workspace.files) == (["done", "third"], third)
    await session.redo(restore="both")
    assert (texts(session), workspace.files) == (["done"], SECOND)


async def test_a_timeline_brings_the_files_back_that_were_there_when_it_was_set_aside(workspace: Workspace) -> None:
    session = await reverted(workspace)
    session = await workspace.reopened()
    await session.restore_timeline("context_1", restore="both")
    assert (texts(session), workspace.files) == (["done"], SECOND)


async def test_a_timeline_set_aside_again_has_the_files_of_then(workspace: Workspace) -> None:
    session = await reverted(workspace)
    await session.undo(restore="both")
    write(workspace.root, {"more.txt": b"4"})
    await session.revert(checkpoint_id=0, restore="both", on_conflict="overwrite")
    session = await workspace.reopened()
    await session.restore_timeline("context_1", restore="both")
    assert workspace.files == {**SECOND, "more.txt": b"4"}


async def test_a_dmail_brings_the_files_of_its_checkpoint(workspace: Workspace) -> None:
    session = await workspace.turn()
    await session.send_dmail("stop", checkpoint_id=0)
    done = await session.deliver_dmail(restore="both")
    assert workspace.files == FIRST
    assert done["files"].items() >= COUNTS.items()


async def test_without_a_snapshot_of_that_state_nothing_goes_back(workspace: Workspace) -> None:
    session = await workspace.turn()
    await session.revert(checkpoint_id=0)
    with pytest.raises(SnapshotNotFoundError):
        await session.undo(restore="both")
    assert (texts(session), workspace.files) == ([], SECOND)


async def test_a_message_has_the_newest_snapshot_before_it(workspace: Workspace) -> None:
    session = await workspace.turn()
    await session.revert(message_index=0, restore="both")
    assert {path.name: path.read_bytes() for path in workspace.root.iterdir() if path.is_file()} == FIRST


async def test_a_session_without_files_says_so(world: World) -> None:
    session = await world.session()
    await session.checkpoint()
    with pytest.raises(FilesUnavailableError) as refused:
        await session.revert(checkpoint_id=0, restore="both")
    assert refused.value.data == {"reason": "notConfigured"}


@pytest.mark.parametrize("mark", [[], "x", {"snapshot": 1}, {"error": {"kind": "filesBusy", "message": ""}}])
async def test_a_checkpoint_whose_mark_is_no_snapshot_has_none(workspace: Workspace, mark: Any) -> None:
    session = await workspace.turn()
    await globals()["mark"](session, mark)
    with pytest.raises(SnapshotNotFoundError):
        await session.revert(checkpoint_id=1, restore="both")
    assert texts(session) == ["done"]


async def test_an_edit_after_the_turn_is_refused_and_nothing_goes(workspace: Workspace) -> None:
    session = await workspace.turn()
    head = session.head
    edit_later(workspace, session)
    with pytest.raises(FilesConflictError) as refused:
        await session.revert(checkpoint_id=0, restore="both")
    assert refused.value.data["paths"] == ["a.txt"]
    assert (session.head, workspace.files) == (head, {**SECOND, "a.txt": b"mine"})


def edit_later(workspace: Workspace, session: Session) -> None:
    """Edit a file after the log was written to, as clocks tell."""
    log = session.path / "context.jsonl"
    edited = workspace.root / "a.txt"
    while edited.stat().st_ctime_ns <= log.stat().st_mtime_ns:
        edited.write_bytes(b"mine")


async def test_an_edit_before_its_result_was_appended_is_no_conflict(workspace: Workspace) -> None:
    session = await workspace.turn()
    edit_later(workspace, session)
    await session.append([{"role": "tool", "content": "edited", "tool_call_id": "c"}])
    await session.revert(checkpoint_id=0, restore="both")
    assert workspace.files == FIRST


@pytest.mark.parametrize("ticks_at", [0, 2, transaction.CLOCK_LOOKS + 9])
async def test_a_change_is_answered_once_the_clock_of_file_times_went_on_or_will_not(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, ticks_at: int
) -> None:
    session = await workspace.turn()
    await session.companion.keep({"mode": "off"})
    looks = list[Path]()

    def look(log: Path) -> bool:
        looks.append(log)
        return len(looks) > ticks_at

    monkeypatch.setattr(transaction, "set_change_time_apart", look)
    for change in (session.append([{"role": "user", "content": "more"}]), session.clear()):
        looks.clear()
        await change
        assert looks == [session.path / "context.jsonl"] * min(ticks_at + 1, transaction.CLOCK_LOOKS)


async def test_a_change_is_told_before_that_clock_is_waited_for_and_not_cancelled_any_more(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await workspace.turn()
    await session.companion.keep({"mode": "off"})
    events, looks = heard(session), list[Path]()

    def look(log: Path) -> bool:
        looks.append(log)
        return len(looks) > 3

    monkeypatch.setattr(transaction, "set_change_time_apart", look)
    change = asyncio.create_task(session.append([{"role": "user", "content": "more"}]))
    while not looks:
        await asyncio.sleep(0)
    assert kinds(events) == ["messagesAppended"]
    change.cancel()
    assert (await change)["head"] == session.head


async def test_keep_leaves_the_edit_and_overwrite_has_it_in_before(workspace: Workspace) -> None:
    session = await workspace.turn()
    edit_later(workspace, session)
    kept = await session.revert(checkpoint_id=0, restore="both", on_conflict="keep")
    assert (kept["files"]["kept"], workspace.files["a.txt"]) == (1, b"mine")
    session = await workspace.turn()
    edit_later(workspace, session)
    over = await session.revert(checkpoint_id=0, restore="both", on_conflict="overwrite")
    assert content(workspace.kept / over["files"]["before"])["a.txt"] == b"mine"
    assert workspace.files == FIRST


@pytest.mark.parametrize("restore", ["both", "files"])
async def test_a_dry_run_counts_and_changes_nothing(workspace: Workspace, restore: Any) -> None:
    session = await workspace.turn()
    edit_later(workspace, session)
    head, before = session.head, sorted(workspace.kept.rglob("*"))
    done = await session.revert(checkpoint_id=0, restore=restore, dry_run=True)
    assert done["files"] == {**COUNTS, "conflicts": 1}
    assert done["removed"]["messages"] == (1 if restore == "both" else 0)
    assert (session.head, workspace.files["a.txt"], sorted(workspace.kept.rglob("*"))) == (head, b"mine", before)


async def test_listeners_are_told_of_the_files_before_the_log(workspace: Workspace) -> None:
    session = await workspace.turn()
    told = heard(session)
    guard = asked("r", "context/revertTo")
    await session.revert(checkpoint_id=0, restore="both", guard=guard)
    assert kinds(told) == ["filesRestored", "reverted"]
    cause = Cause("r", "tester").wire()
    assert notification_params(told[0], "s1") == {"sessionId": "s1", "paths": ["a.txt", "b.txt"], "cause": cause}


async def test_a_repeat_gets_the_answer_of_then_and_leaves_the_files(workspace: Workspace) -> None:
    session = await workspace.turn()
    guard = asked("r", "context/revertTo")
    done = await session.revert(checkpoint_id=0, restore="both", guard=guard)
    write(workspace.root, {"later.txt": b"5"})
    session = await workspace.reopened()
    again = await session.revert(checkpoint_id=0, restore="both", guard=guard)
    assert again == {**done, "duplicate": True, "head": session.head}
    assert workspace.files == {**FIRST, "later.txt": b"5"}


async def test_another_head_touches_no_file(workspace: Workspace) -> None:
    session = await workspace.turn()
    with pytest.raises(HeadConflictError):
        await session.revert(checkpoint_id=0, restore="both", guard=asked("r", expected_head="1.1.1-11111111"))
    assert workspace.files == SECOND


POINTS = ["files.before_log", "session.prepared", "replace.prepared", "replace.linked", "replace.renamed"]


@pytest.mark.parametrize("point", POINTS)
async def test_files_go_back_where_the_log_cannot_follow(workspace: Workspace, point: str) -> None:
    session = await workspace.turn()
    durable.arm(f"{point}=raise:ENOSPC")
    with pytest.raises((StorageFailureError, OSError)):
        await session.revert(checkpoint_id=0, restore="both")
    assert (texts(session), workspace.files) == (["done"], SECOND)
    durable.arm("")
    await session.revert(checkpoint_id=0, restore="both")
    assert (texts(session), workspace.files) == ([], FIRST)


async def test_an_intent_that_could_not_be_settled_is_settled_by_the_next_restore(workspace: Workspace) -> None:
    session = await workspace.turn()
    durable.arm("files.followed=raise:EIO")
    await session.revert(checkpoint_id=0, restore="both")
    durable.arm("")
    await session.undo(restore="both")
    assert (texts(session), workspace.files) == (["done"], SECOND)


@pytest.mark.parametrize("restore", ["both", "files"])
async def test_a_cancelled_restore_leaves_files_and_log(workspace: Workspace, restore: Any) -> None:
    session = await workspace.turn()
    control = WorkControl(cancelled=lambda: True)
    with pytest.raises(asyncio.CancelledError):
        await session.revert(checkpoint_id=0, restore=restore, control=control)
    assert (texts(session), workspace.files) == (["done"], SECOND)


CHILD = """
import asyncio, sys
from functools import partial
from pathlib import Path
from tests.support.copied_tree import CopiedTree
from tests.unit.sessions.worlds import asked
from timeleap.features.files.session_snapshots import FileSnapshots
from timeleap.store.store import SessionStore

async def main(home, root, kept, method, restore):
    tree = lambda _path, _meta: CopiedTree(Path(root), Path(kept))
    session = (await SessionStore(Path(home), companion=partial(FileSnapshots, tree)).open("s1")).session
    arguments = {"revert": {"checkpoint_id": 0}, "restore_timeline": {"timeline_id": "context_1"}}.get(method, {})
    await getattr(session, method)(**arguments, restore=restore, guard=asked("op", method))

asyncio.run(main(*sys.argv[1:]))
"""

KILLED = [
    ("files.written", False),
    ("files.before_log", False),
    ("session.prepared", False),
    ("replace.linked_synced", False),
    ("replace.renamed", True),
    ("files.followed", True),
]


async def before_operation(workspace: Workspace, method: str) -> None:
    """Bring the session to where the operation can be done."""
    session = await workspace.turn()
    if method != "revert":
        await session.send_dmail("stop", checkpoint_id=0) if method == "deliver_dmail" else None
        if method != "deliver_dmail":
            await session.revert(checkpoint_id=0, restore="both")
        if method == "redo":
            await session.undo(restore="both")
    await workspace.close()


def state(session: Session, workspace: Workspace) -> tuple[list[str], Content]:
    return texts(session), workspace.files


@pytest.mark.parametrize(("point", "done"), mostly_long(KILLED, every=3, first=1))
@pytest.mark.parametrize("method", ["revert", "undo", "redo", "restore_timeline", "deliver_dmail"])
async def test_killed_anywhere_files_and_log_are_both_there_or_both_here(
    workspace: Workspace, method: str, point: str, done: bool
) -> None:
    await before_operation(workspace, method)
    before = state(await workspace.reopened(), workspace)
    await workspace.close()
    paths = str(workspace.home), str(workspace.root), str(workspace.kept)
    run = [CHILD, *paths, method, "both"]
    assert run_child(*run, failpoints=f"{point}=kill", key_file=workspace.key_file) == -9
    found = state(await workspace.reopened(), workspace)
    assert (found != before) is done
    await workspace.close()
    assert run_child(*run, key_file=workspace.key_file) == 0
    after = state(await workspace.reopened(), workspace)
    assert after != before
    assert found in (before, after)


@pytest.mark.parametrize(
    ("point", "done"), [("files.written", False), ("files.before_log", False), ("files.noted", True)]
)
async def test_killed_while_only_the_files_go_the_note_decides(workspace: Workspace, point: str, done: bool) -> None:
    await before_operation(workspace, "revert")
    run = [CHILD, str(workspace.home), str(workspace.root), str(workspace.kept), "revert", "files"]
    assert run_child(*run, failpoints=f"{point}=kill", key_file=workspace.key_file) == -9
    assert state(await workspace.reopened(), workspace) == (["done"], FIRST if done else SECOND)
    await workspace.close()
    write(workspace.root, {"a.txt": b"since"}) if done else None
    assert run_child(*run, key_file=workspace.key_file) == 0
    assert workspace.files["a.txt"] == (b"since" if done else b"one")


async def keeping(workspace: Workspace, mode: str) -> tuple[Session, FileSnapshots]:
    """A session that keeps the files of its workspace, and its snapshots."""
    session = await workspace.session()
    snapshots = session.companion
    assert isinstance(snapshots, FileSnapshots)
    await snapshots.keep({"mode": mode})
    return session, snapshots


async def test_settings_are_kept_and_told_with_what_there_is(workspace: Workspace) -> None:
    session, snapshots = await keeping(workspace, "checkpoint")
    write(workspace.root, FIRST)
    await session.checkpoint("first")
    assert (await snapshots.look())["files"].items() >= {"mode": "checkpoint", "snapshots": 1}.items()
    await snapshots.keep({"mode": "checkpoint"})
    session = await workspace.reopened()
    assert session.companion.wire()["files"]["mode"] == "checkpoint"
    assert workspace.json("timeleap.json")["files"]["mode"] == "checkpoint"


@pytest.mark.parametrize("error", [FilesUnavailableError("the folder is away"), OSError("Input/output error")])
async def test_a_workspace_that_cannot_be_looked_at_is_a_problem_of_its_own(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    session, snapshots = await keeping(workspace, "turn")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    for name in ("state", "snapshot", "recover"):
        monkeypatch.setattr(CopiedTree, name, fail)
    looked = (await snapshots.look())["files"]
    assert str(error) in looked["problem"]["message"]
    made = await session.checkpoint("first")
    assert str(error) in made["checkpoint"]["files"]["error"]["message"], "the checkpoint is written all the same"
    await session.append([{"role": "assistant", "content": "done"}])
    await snapshots.recover()
    warned = [notice["kind"] for notice in session.transactions.notices]
    assert "filesNotRecovered" in warned and texts(session) == ["done"]


async def test_a_turn_and_a_request_have_a_snapshot(workspace: Workspace) -> None:
    session, snapshots = await keeping(workspace, "turn")
    events = heard(session)
    write(workspace.root, FIRST)
    await session.append([{"role": "assistant", "content": "done"}])
    assert kinds(events).count("filesTaken") == 1 and len(list(workspace.kept.glob("f*"))) == 1
    guard = asked("r", "files/snapshot")
    taken = await snapshots.take("by hand", guard, WorkControl(lambda *_: None, lambda: False))
    assert (await snapshots.take("by hand", guard, WorkControl(lambda *_: None, lambda: False)))["duplicate"]
    assert taken["snapshot"].startswith("f2-") and len(list(workspace.kept.glob("f*"))) == 2
    await snapshots.wait_for_background()


async def test_snapshots_beyond_the_budget_go_but_for_those_of_checkpoints(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, snapshots = await keeping(workspace, "checkpoint")
    shrunk: list[set[int]] = []
    swept: list[bool] = []

    class Excess:
        def shrink(self, live: set[int]) -> None:
            shrunk.append(live)

        def sweep(self) -> None:
            swept.append(True)

    monkeypatch.setattr(CopiedTree, "over_budget", lambda _: Excess())
    write(workspace.root, FIRST)
    await session.checkpoint("first")
    await snapshots.wait_for_background()
    assert (shrunk, swept) == ([{1}], [True])


async def test_files_go_back_to_a_snapshot_alone_once_and_first_as_a_dry_run(workspace: Workspace) -> None:
    session, snapshots = await keeping(workspace, "checkpoint")
    write(workspace.root, FIRST)
    control = WorkControl(lambda *_: None, lambda: False)
    then = (await snapshots.take(None, asked("take"), control))["snapshot"]
    (workspace.root / "b.txt").unlink()
    write(workspace.root, SECOND)
    await session.append([{"role": "user", "content": "done"}])
    request, guard = RewriteScope("files"), asked("back", "files/restore")

    def target() -> TreeTarget:
        return TreeTarget(then)

    foretold = await snapshots.restore(asked("dry"), target, request, dry_run=True)
    assert (foretold["files"], workspace.files) == (COUNTS, SECOND)
    done = await snapshots.restore(guard, target, request)
    assert workspace.files == FIRST and done["files"].items() >= COUNTS.items()
    assert texts(session) == ["done"], "the log stays"
    write(workspace.root, {"a.txt": b"later"})
    assert (await snapshots.restore(guard, target, request))["duplicate"]
    assert workspace.files["a.txt"] == b"later"
