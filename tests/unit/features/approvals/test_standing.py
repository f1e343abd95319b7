"""Approvals: nothing but a request of a person switches them on, whatever happens to the files (G9)."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from tests.unit.sessions.worlds import USER, World, asked, heard, kinds, run_child

from timeleap.errors import StorageFailureError
from timeleap.features.approvals import seal
from timeleap.features.approvals.seal import KeyRing, Register, Seal, mac_of
from timeleap.features.approvals.standing import judge
from timeleap.features.approvals.switches import is_approved, set_auto_approve, set_yolo
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Approval, Cause, Mutation
from timeleap.storage import durable

KEY = b"k" * 32
ON = Approval(yolo=True, actions=("shell",))


def is_off(session: Session) -> bool:
    return not session.facts.approval.anything_on and is_approved(session, "shell") == (False, "notApproved")


def broken(session: Session) -> bool:
    return "approvalSealBroken" in [one["kind"] for one in session.warnings]


async def test_a_new_session_asks_before_everything(world: World) -> None:
    session = await world.session()
    assert is_off(session)
    assert session.warnings == []
    assert not world.key_file.exists()


async def test_yolo_and_actions_last_over_a_restart(world: World) -> None:
    session = await world.session()
    told = heard(session)
    done = await set_yolo(session, True, Mutation(cause=Cause(None, "editor")))
    assert done["approval"]["yolo"] is True
    assert done["approval"]["sealed"] is True
    assert done["approval"]["changedBy"] == "editor"
    await set_auto_approve(session, "write", True)
    await set_auto_approve(session, "shell", True)
    assert session.facts.approval.actions == ("shell", "write")
    assert world.json("state.json")["approval"] == {
        "yolo": True,
        "afk": False,
        "auto_approve_actions": ["shell", "write"],
    }
    assert kinds(told) == ["approvalChanged"] * 3
    session = await world.reopened()
    assert session.facts.approval.yolo
    assert session.warnings == []
    assert is_approved(session, "anything") == (True, "yolo")
    await set_yolo(session, False)
    assert is_approved(session, "shell") == (True, "autoApprove")
    await set_auto_approve(session, "shell", False)
    session = await world.reopened()
    assert session.facts.approval.actions == ("write",)
    assert is_approved(session, "shell") == (False, "notApproved")
    assert session.warnings == []


async def test_what_is_so_already_is_no_change(world: World) -> None:
    session = await world.session()
    told = heard(session)
    await set_yolo(session, False)
    await set_auto_approve(session, "shell", False)
    assert told == []
    assert not (session.path / "audit.jsonl").exists()
    await set_yolo(session, True)
    await set_yolo(session, True)
    assert len((session.path / "audit.jsonl").read_text().splitlines()) == 1


async def test_every_change_is_in_the_audit_before_it_is_told(world: World) -> None:
    session = await world.session()
    audit = session.path / "audit.jsonl"
    seen: list[int] = []
    session.listen(lambda _: seen.append(len(audit.read_text().splitlines())))
    await set_yolo(session, True, asked("r1", "session/setYolo"))
    await set_auto_approve(session, "shell", True)
    entries = [json.loads(line) for line in audit.read_text().splitlines()]
    assert seen == [1, 2]
    assert entries[0] == {
        "time": entries[0]["time"],
        "who": "tester",
        "requestId": "r1",
        "field": "yolo",
        "from": False,
        "to": True,
    }
    assert entries[1] == {
        "time": entries[1]["time"],
        "who": None,
        "field": "autoApprove:shell",
        "from": False,
        "to": True,
    }
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


async def test_an_edited_state_switches_nothing_on(world: World) -> None:
    session = await world.session()
    await session.set_title("kept")
    await set_auto_approve(session, "read", True)
    for approval in (
        {"yolo": True, "afk": False, "auto_approve_actions": ["read"]},
        {"yolo": False, "afk": True, "auto_approve_actions": ["read"]},
        {"yolo": False, "afk": False, "auto_approve_actions": ["read", "shell"]},
    ):
        await world.close()
        world.put_json("state.json", {**world.json("state.json"), "approval": approval})
        session = await world.reopened()
        assert is_off(session)
        assert not session.facts.approval.sealed
        assert broken(session)
        assert session.facts.title == "kept"


async def test_an_unsealed_state_of_the_original_starts_off_with_a_warning(world: World) -> None:
    await world.session()
    await world.close()
    world.put_json("state.json", {"approval": {"yolo": True, "auto_approve_actions": ["shell"]}, "custom_title": "t"})
    session = await world.reopened()
    assert is_off(session)
    assert broken(session)
    assert session.facts.title == "t"
    await world.close()
    world.put_json("state.json", {"approval": {"yolo": False, "auto_approve_actions": []}})
    session = await world.reopened()
    assert session.warnings == []


@pytest.mark.parametrize("names", [["state.json"], ["state.json", "timeleap.json"]])
async def test_a_state_copied_from_another_session_switches_nothing_on(world: World, names: list[str]) -> None:
    trusted = await world.session("s1")
    await set_yolo(trusted, True)
    other = await world.session("s2")
    await set_auto_approve(other, "read", True)
    await world.close()
    for name in names:
        shutil.copy(world.path("s1") / name, world.path("s2") / name)
    other = await world.reopened("s2")
    assert is_off(other)
    assert broken(other)
    assert (await world.session("s1")).facts.approval.yolo


async def test_a_state_put_back_from_earlier_switches_nothing_on(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    await world.close()
    earlier = {name: (world.path() / name).read_bytes() for name in ("state.json", "timeleap.json")}
    session = await world.reopened()
    await set_yolo(session, False)
    await world.close()
    later = (world.path() / "timeleap.json").read_bytes()
    (world.path() / "state.json").write_bytes(earlier["state.json"])
    session = await world.reopened()
    assert is_off(session)
    assert broken(session)
    await world.close()
    assert (world.path() / "timeleap.json").read_bytes() == later
    (world.path() / "timeleap.json").write_bytes(earlier["timeleap.json"])
    session = await world.reopened()
    assert is_off(session)
    assert broken(session)


async def test_without_the_key_or_the_revisions_everything_is_off(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    await set_auto_approve(session, "shell", True)
    await world.close()
    revisions = world.key_file.with_name("approval.key.revisions.json")
    for lost in (world.key_file, revisions):
        kept = lost.read_bytes()
        lost.unlink()
        session = await world.reopened()
        assert is_off(session)
        assert broken(session)
        await world.close()
        lost.write_bytes(kept)
    assert (await world.reopened()).facts.approval.yolo
    await world.close()
    world.key_file.write_text("another key, long enough to be one, made by somebody else")
    session = await world.reopened()
    assert is_off(session)
    assert broken(session)
    await set_yolo(session, True)
    session = await world.reopened()
    assert session.facts.approval.yolo
    assert session.facts.approval.actions == ()
    assert session.warnings == []


async def test_switching_off_mends_a_broken_seal(world: World) -> None:
    session = await world.session()
    await world.close()
    world.put_json("state.json", {"approval": {"yolo": True}})
    session = await world.reopened()
    await set_yolo(session, False)
    assert not broken(session)
    assert world.json("state.json")["approval"]["yolo"] is False


async def test_the_key_is_private_and_not_in_the_store(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    assert stat.S_IMODE(world.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.key_file.parent.stat().st_mode) == 0o700
    key = world.key_file.read_bytes().strip()
    assert len(key) >= 32
    assert all(key not in content for content in world.tree().values())


async def test_a_key_in_the_store_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.key_file = world.home / "approval.key"
    await world.restart()
    session = await world.session()
    with pytest.raises(StorageFailureError, match="must not lie in the store"):
        await set_yolo(session, True)
    assert is_off(session)
    assert not world.key_file.exists()
    await world.close()


async def test_where_no_key_can_be_kept_all_but_switching_on_works(world: World, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("in the way")
    session = await world.session()
    told = heard(session)
    for attempt in (lambda: set_yolo(session, True), lambda: set_auto_approve(session, "shell", True)):
        with pytest.raises(StorageFailureError, match="approvals cannot be switched on"):
            await attempt()
    assert is_off(session)
    assert told == []
    assert not (session.path / "audit.jsonl").exists()
    await session.append([USER])
    await session.set_title("t")
    await set_yolo(session, False)
    session = await world.reopened()
    assert session.facts.title == "t"


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 5000])
async def test_what_is_no_key_is_not_used_as_one(world: World, content: bytes) -> None:
    world.key_file.parent.mkdir(parents=True)
    world.key_file.write_bytes(content)
    session = await world.session()
    with pytest.raises(StorageFailureError):
        await set_yolo(session, True)
    assert is_off(session)
    assert world.key_file.read_bytes() == content


async def test_switching_off_works_without_the_key(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    world.key_file.unlink()
    world.key_file.mkdir()
    await set_yolo(session, False)
    assert is_off(session)
    session = await world.reopened()
    assert is_off(session)
    assert session.warnings == []


async def test_a_change_that_fails_leaves_everything_as_it_was(world: World) -> None:
    session = await world.session()
    await set_auto_approve(session, "read", True)
    told = heard(session)
    for point in ("approvals.after_seal", "approvals.after_state"):
        durable.arm(f"{point}=raise:ENOSPC")
        try:
            with pytest.raises(OSError, match="space"):
                await set_yolo(session, True)
        finally:
            durable.arm("")
        assert not session.facts.approval.yolo
        assert session.facts.approval.actions == ("read",)
    assert told == []
    session = await world.reopened()
    assert not session.facts.approval.yolo
    assert session.facts.approval.actions == ("read",)
    assert session.warnings == []


async def test_the_seal_of_a_change_that_failed_never_comes_into_force(world: World) -> None:
    session = await world.session()
    durable.arm("approvals.after_seal=raise:ENOSPC")
    try:
        with pytest.raises(OSError, match="space"):
            await set_yolo(session, True)
    finally:
        durable.arm("")
    await world.close()
    await attacked(world, world.json("timeleap.json"))


@pytest.mark.crash
@pytest.mark.parametrize("point", ["approvals.after_seal", "approvals.after_audit"])
async def test_the_seal_of_a_change_that_was_cut_short_never_comes_into_force(world: World, point: str) -> None:
    await world.session()
    await world.close()
    assert run_child(SWITCH_ON, str(world.home), failpoints=f"{point}=kill", key_file=world.key_file) == -9
    copied = world.json("timeleap.json")
    session = await world.reopened()
    assert is_off(session)
    assert session.warnings == []
    await world.close()
    await attacked(world, copied)


async def attacked(world: World, copied: dict[str, object]) -> None:
    """Whoever put a copy of that file back, and edited the state, gets nothing."""
    now = world.json("timeleap.json")
    for meta in (copied, now):
        world.put_json("timeleap.json", meta)
        world.put_json("state.json", {"approval": {"yolo": True, "afk": False, "auto_approve_actions": []}})
        session = await world.reopened()
        assert is_off(session)
        assert broken(session)
        await world.close()


@pytest.mark.crash
@pytest.mark.parametrize("point", ["approvals.after_state", "approvals.after_revision"])
async def test_a_change_that_reached_the_state_counts_after_a_crash(world: World, point: str) -> None:
    await world.session()
    await world.close()
    assert run_child(SWITCH_ON, str(world.home), failpoints=f"{point}=kill", key_file=world.key_file) == -9
    session = await world.reopened()
    assert KeyRing(world.key_file).register().revision(session.meta.uid) == 1
    for _ in range(2):
        assert session.facts.approval.yolo
        assert session.warnings == []
        session = await world.reopened()


SWITCH_ON = """
import asyncio, sys
from pathlib import Path
from timeleap.features.approvals.store_approvals import in_files
from timeleap.features.approvals.switches import set_yolo
from timeleap.store.store import SessionStore

async def main(home):
    session = (await SessionStore(Path(home), approvals=in_files()).open("s1")).session
    await set_yolo(session, True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_fork_starts_with_everything_off(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    await session.put_subagent("a", "b")
    fork = (await world.store.fork("s1")).session
    assert is_off(fork)
    assert fork.warnings == []
    assert fork.facts.subagents == session.facts.subagents


@pytest.mark.parametrize("save", ["set_title", "archive", "put_subagent"])
async def test_what_nobody_believes_does_not_outlast_a_save(world: World, save: str) -> None:
    session = await world.session()
    await session.set_title("t")
    await world.close()
    edited = {"yolo": True, "afk": True, "auto_approve_actions": ["shell"], "theirs": 1}
    world.put_json("state.json", {**world.json("state.json"), "approval": edited})
    session = await world.reopened()
    assert is_off(session)
    assert broken(session)
    assert world.json("state.json")["approval"] == edited  # opening alone changes nothing
    await getattr(session, save)(*{"set_title": ["u"], "put_subagent": ["a", "b"]}.get(save, []))
    off = {"yolo": False, "afk": False, "auto_approve_actions": [], "theirs": 1}
    assert world.json("state.json")["approval"] == off
    session = await world.reopened()
    assert is_off(session)
    assert not broken(session)


async def test_a_save_leaves_approvals_alone_that_are_believed_or_of_a_session_opened_by_path(
    world: World, tmp_path: Path
) -> None:
    session = await world.session()
    await set_yolo(session, True)
    await session.set_title("t")
    assert world.json("state.json")["approval"]["yolo"] is True
    await world.close()
    shutil.copytree(world.path(), tmp_path / "elsewhere")
    await world.restart()
    session = (await world.store.open(path=tmp_path / "elsewhere", access="write")).session
    assert is_off(session)
    await session.set_title("u")
    state = json.loads((tmp_path / "elsewhere" / "state.json").read_text())
    assert (state["custom_title"], state["approval"]["yolo"]) == ("u", True)


async def test_a_session_opened_by_path_starts_with_everything_off(world: World, tmp_path: Path) -> None:
    session = await world.session()
    await set_yolo(session, True)
    await world.close()
    shutil.move(world.path(), tmp_path / "s1")
    await world.restart()
    for access in ("read", "write"):
        session = (await world.store.open(path=tmp_path / "s1", access=access)).session
        assert is_off(session)
        assert broken(session)
        await session.aclose()
    session = (await world.store.open(path=tmp_path / "s1", access="write")).session
    await set_yolo(session, True)
    assert session.facts.approval.yolo
    await session.aclose()
    session = (await world.store.open(path=tmp_path / "s1", access="write")).session
    assert is_off(session)


async def test_deleting_and_undeleting_keeps_them(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    await world.store.delete("s1")
    await world.store.trash.undelete("s1")
    assert (await world.session()).facts.approval.yolo


async def test_unknown_fields_of_the_approval_are_kept(world: World) -> None:
    await world.session()
    await world.close()
    world.put_json("state.json", {"approval": {"yolo": False, "later": [1]}, "plan_mode": True})
    session = await world.reopened()
    await set_yolo(session, True)
    state = world.json("state.json")
    assert state["approval"]["later"] == [1]
    assert state["plan_mode"] is True


def sealed(revision: int, approval: Approval = ON, uid: str = "u", session_id: str = "s") -> Seal:
    return Seal(revision, mac_of(KEY, (uid, session_id), approval, revision))


@pytest.mark.parametrize(
    ("seals", "highest", "believed"),
    [
        ([sealed(3)], 3, True),
        ([sealed(3)], 2, True),  # a crash before the revision was noted
        ([sealed(3)], 1, False),
        ([sealed(3)], 4, False),
        ([sealed(1)], 0, True),
        ([sealed(2)], 0, False),
        ([sealed(2, Approval()), sealed(3)], 2, True),  # a crash before `state.json` was written, or after
        ([sealed(3, uid="v")], 3, False),
        ([sealed(3, session_id="t")], 3, False),
        ([sealed(3, Approval(yolo=True))], 3, False),
        ([Seal(4, sealed(3).mac)], 4, False),
        ([Seal(3, "é")], 3, False),
        ([], 0, False),
    ],
)
def test_a_seal_counts_only_for_what_it_was_made_for(seals: list[Seal], highest: int, believed: bool) -> None:
    verdict = judge(ON, ("u", "s"), seals, KEY, highest)
    assert verdict.approval.yolo is believed
    assert verdict.approval.sealed is believed
    assert (verdict.disbelieved is None) is believed


def test_without_a_key_no_seal_counts() -> None:
    assert not judge(ON, ("u", "s"), [sealed(3)], None, 3).approval.yolo


def test_a_state_that_switches_nothing_on_is_no_cause_for_a_warning() -> None:
    assert judge(Approval(), ("u", "s"), [sealed(3)], KEY, 3).disbelieved is None


def test_revisions_only_rise_and_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "MAX_REVISIONS", 3)
    ring = KeyRing(tmp_path / "k")
    ring.change(Register.raise_to, "a", 5)
    ring.change(Register.raise_to, "a", 4)
    assert ring.register().revision("a") == 5
    for name in ("b", "c", "a", "d"):
        ring.change(Register.raise_to, name, 1)
    assert [ring.register().revision(name) for name in "abcd"] == [5, 0, 1, 1]


def test_two_processes_make_one_key(tmp_path: Path) -> None:
    assert KeyRing(tmp_path / "k").require() == KeyRing(tmp_path / "k").require()


def test_the_key_file_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIMELEAP_KEY_FILE", str(tmp_path / "mine"))
    assert seal.default_key_file() == tmp_path / "mine"
    monkeypatch.delenv("TIMELEAP_KEY_FILE")
    found = seal.default_key_file()
    assert found is not None
    assert found.is_absolute()
    assert "timeleap" in str(found)


def test_a_link_is_not_followed_to_a_key(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("k" * 64)
    os.symlink(tmp_path / "real", tmp_path / "k")
    assert KeyRing(tmp_path / "k").key() is None
    with pytest.raises(StorageFailureError):
        KeyRing(tmp_path / "k").require()
