"""Whose approvals they are does not come from the files they stand in: uids are retired, and at home in one place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from tests.unit.sessions.worlds import USER, World, asked

from timeleap.features.approvals import seal
from timeleap.features.approvals.seal import KeyRing, Register, Standing
from timeleap.features.approvals.switches import set_auto_approve, set_yolo
from timeleap.sessions.session import Session
from timeleap.storage import durable

FILES = ("state.json", "timeleap.json")


def copied(source: Path, target: Path) -> None:
    for name in FILES:
        shutil.copy(source / name, target / name)


def is_on(session: Session) -> bool:
    return session.facts.approval.yolo


def said(session: Session) -> bool:
    return "approvalSealBroken" in [one["kind"] for one in session.warnings]


async def approved(world: World, name: str = "s1") -> Session:
    session = await world.session(name)
    await session.append([USER])
    await set_yolo(session, True)
    return session


def trashed(world: World) -> list[Path]:
    return sorted((world.home / "trash").iterdir())


async def deleted_and_made_anew(world: World) -> Path:
    """A session with approvals on is in the trash, another one has its id."""
    await approved(world)
    await world.restart()
    await world.store.delete("s1")
    (await world.session()).facts.title  # noqa: B018
    await world.close()
    return trashed(world)[0]


async def test_the_files_of_a_deleted_namesake_switch_nothing_on(world: World) -> None:
    trash = await deleted_and_made_anew(world)
    copied(trash, world.path())
    session = await world.reopened()
    assert not is_on(session) and said(session)


@pytest.mark.parametrize("lost", ["trash", "requests.jsonl"])
async def test_nor_do_they_when_the_store_has_forgotten_the_delete(world: World, lost: str) -> None:
    await approved(world)
    await world.restart()
    await world.store.delete("s1", asked("gone", "session/delete"))
    await world.session()
    await world.close()
    copied(trashed(world)[0], world.path())
    path = world.home / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    session = await world.reopened()
    assert not is_on(session) and said(session)


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
async def test_a_deleted_folder_put_back_by_hand_starts_with_approvals_off(world: World, how: Any) -> None:
    await approved(world)
    await world.restart()
    await world.store.delete("s1")
    await world.close()
    how(str(trashed(world)[0]), str(world.path()))
    session = await world.reopened()
    assert not is_on(session) and said(session)
    await set_yolo(session, True)
    session = await world.reopened()
    assert is_on(session) and session.warnings == []


async def test_undelete_brings_the_approvals_back(world: World) -> None:
    await approved(world)
    await world.restart()
    for _ in range(2):
        await world.store.delete("s1")
        await world.store.trash.undelete("s1")
        session = await world.reopened()
        assert is_on(session) and session.warnings == []


async def test_undelete_brings_back_only_those_of_that_directory(world: World) -> None:
    """The files of one deleted session, put into another one that is deleted and brought back in its turn."""
    trash = await deleted_and_made_anew(world)
    copied(trash, world.path())
    await world.restart()
    await world.store.delete("s1")
    await world.store.trash.undelete("s1")
    session = await world.reopened()
    assert not is_on(session) and said(session)
    await world.restart()
    await world.store.delete("s1")
    later = trashed(world)[-1]
    copied(trash, later)
    await world.store.trash.undelete("s1")
    assert not is_on(await world.reopened())


async def test_the_first_one_comes_back_when_the_later_one_is_gone(world: World) -> None:
    await deleted_and_made_anew(world)
    await world.restart()
    await world.store.delete("s1")
    shutil.rmtree(trashed(world)[-1])
    await world.store.trash.undelete("s1")
    assert is_on(await world.reopened())


async def test_a_session_removed_by_hand_leaves_nothing_to_its_successor(world: World, tmp_path: Path) -> None:
    await approved(world)
    await world.close()
    shutil.move(world.path(), tmp_path / "backup")
    await world.restart()
    await world.session()
    await world.close()
    copied(tmp_path / "backup", world.path())
    session = await world.reopened()
    assert not is_on(session) and said(session)


async def test_the_same_session_put_back_from_a_backup_of_now_stays_on(world: World, tmp_path: Path) -> None:
    await approved(world)
    await world.close()
    shutil.copytree(world.path(), tmp_path / "backup")
    shutil.rmtree(world.path())
    shutil.copytree(tmp_path / "backup", world.path())
    assert is_on(await world.reopened())


@pytest.mark.parametrize("there", [True, False])
async def test_the_session_of_that_id_in_another_store_is_another_one(
    world: World, tmp_path: Path, there: bool
) -> None:
    other = World(tmp_path / "other")
    other.key_file = world.key_file
    await other.restart()
    await approved(other)
    await other.close()
    await world.session()
    await world.close()
    copied(other.path(), world.path())
    if not there:
        shutil.rmtree(other.path())
    session = await world.reopened()
    assert not is_on(session) and said(session)
    if there:
        assert is_on(await other.reopened())
        await other.close()


async def test_a_store_that_moves_keeps_the_approvals_of_its_sessions(world: World, tmp_path: Path) -> None:
    for name in ("s1", "s2"):
        await approved(world, name)
    for number in range(2):
        await world.close()
        moved = tmp_path / f"moved-{number}"
        shutil.move(world.home, moved)
        world.home = moved
        for name in ("s1", "s2", "s1"):
            session = await world.reopened(name, access="read" if number else "write")
            assert is_on(session) and session.warnings == []


async def test_a_copied_store_starts_with_approvals_off_and_the_first_one_keeps_them(
    world: World, tmp_path: Path
) -> None:
    await approved(world)
    await world.close()
    first, copy = world.home, tmp_path / "copy"
    shutil.copytree(first, copy)
    world.home = copy
    session = await world.reopened()
    assert not is_on(session) and said(session)
    world.home = first
    assert is_on(await world.reopened())


async def test_a_store_behind_a_link_is_the_same(world: World, tmp_path: Path) -> None:
    await approved(world)
    await world.close()
    (tmp_path / "link").symlink_to(world.home)
    world.home = tmp_path / "link"
    assert is_on(await world.reopened())


async def test_a_fork_s_parent_and_a_session_by_path_switch_nothing_on(world: World, tmp_path: Path) -> None:
    session = await approved(world)
    await world.store.fork("s1", new_session_id="f")
    await world.close()
    copied(world.path(), world.path("f"))
    session = await world.reopened("f")
    assert not is_on(session) and said(session)
    await world.close()
    shutil.copytree(world.path(), tmp_path / "s1")
    await world.restart()
    session = (await world.store.open(path=tmp_path / "s1", access="write")).session
    assert not is_on(session)


async def test_a_delete_that_fails_leaves_the_approvals(world: World) -> None:
    await approved(world)
    await world.restart()
    durable.arm("store.before_move=raise:EIO")
    try:
        with pytest.raises(OSError, match="error"):
            await world.store.delete("s1")
    finally:
        durable.arm("")
    assert is_on(await world.reopened())


async def test_a_repeated_delete_leaves_the_successor_s_approvals(world: World) -> None:
    await approved(world)
    await world.restart()
    guard = asked("gone", "session/delete")
    await world.store.delete("s1", guard)
    await approved(world)
    await world.restart()
    assert await world.store.delete("s1", guard) is False
    assert is_on(await world.reopened())


async def test_what_an_earlier_release_noted_counts_and_gets_a_place(world: World) -> None:
    session = await approved(world)
    uid = session.meta.uid
    await world.close()
    register = world.key_file.with_name("approval.key.revisions.json")
    register.write_text(json.dumps({uid: json.loads(register.read_text())[uid]}))
    assert is_on(await world.reopened(access="read"))
    assert is_on(await world.reopened())
    assert json.loads(register.read_text())["places"] == {uid: [str(world.home.resolve()), "s1"]}


async def test_of_what_an_earlier_release_deleted_nothing_is_switched_on(world: World) -> None:
    session = await approved(world)
    uid = session.meta.uid
    await world.restart()
    register = world.key_file.with_name("approval.key.revisions.json")
    await world.store.delete("s1")
    await world.session()
    await world.close()
    register.write_text(json.dumps({uid: 1}))
    copied(trashed(world)[0], world.path())
    session = await world.reopened()
    assert not is_on(session) and said(session)


async def test_a_seal_from_before_a_person_switched_on_again_counts_no_more(world: World, tmp_path: Path) -> None:
    """The uid counts again from then on, none of the copies of its seals does."""
    trash = await deleted_and_made_anew(world)
    copied(trash, world.path())
    session = await world.reopened()
    await set_auto_approve(session, "read", True)
    await world.close()
    copied(trash, world.path())
    session = await world.reopened()
    assert not session.facts.approval.anything_on and said(session)


async def test_nothing_forgotten_beyond_the_bound_comes_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first seal of all is one ahead of what is known of nobody: that must not be enough."""
    monkeypatch.setattr(seal, "MAX_REVISIONS", 3)
    trash = await deleted_and_made_anew(world)
    await world.restart()
    for number in range(4):
        await approved(world, f"other-{number}")
    await world.close()
    register = json.loads(world.key_file.with_name("approval.key.revisions.json").read_text())
    assert len(register) == 5 and len(register["places"]) == 3
    assert register["forgotten"] == 1
    copied(trash, world.path())
    session = await world.reopened()
    assert not is_on(session) and said(session)
    assert not is_on(await world.session("other-0"))
    assert is_on(await world.session("other-1"))


async def test_a_forgotten_session_that_is_known_again_brings_no_old_seal_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switching something on by hand makes a uid known again, with revisions beyond those of all copies."""
    monkeypatch.setattr(seal, "MAX_REVISIONS", 2)
    trash = await deleted_and_made_anew(world)
    await world.restart()
    for number in range(3):
        await approved(world, f"other-{number}")
    await world.close()
    copied(trash, world.path())
    session = await world.reopened()
    await set_auto_approve(session, "read", True)
    assert session.facts.approval.actions == ("read",)
    await world.close()
    copied(trash, world.path())
    session = await world.reopened()
    assert not session.facts.approval.anything_on and said(session)


async def test_a_purged_session_brings_no_old_seal_back(world: World, tmp_path: Path) -> None:
    trash = await deleted_and_made_anew(world)
    shutil.copytree(trash, tmp_path / "kept")
    KeyRing(world.key_file).change(Register.forget, [trash.name])
    copied(tmp_path / "kept", world.path())
    session = await world.reopened()
    assert not is_on(session) and said(session)
    await set_auto_approve(session, "read", True)
    await world.close()
    copied(tmp_path / "kept", world.path())
    session = await world.reopened()
    assert not session.facts.approval.anything_on and said(session)


@pytest.mark.parametrize(
    "odd",
    [
        {"u": -5}, {"u": 10**30}, {"u": True}, {"u": float("nan")}, {"u": [1]}, {"u": 1, "places": []},
        {"u": 1, "places": {"u": "x"}}, {"u": 1, "places": {"u": ["a"]}}, {"u": 1, "places": {"u": [1, {}]}},
        {"u": 1, "places": {"u": ["a", "b", "c", "d"]}}, {"u": 1, "places": {"u": ["\0", "s"]}}, {"\ud800": 1}, {"u": 1, "forgotten": []},
        {"forgotten": -5}, {"forgotten": 10**30},
    ],
)  # fmt: skip
def test_a_register_of_any_content_is_read(tmp_path: Path, odd: Any) -> None:
    ring = KeyRing(tmp_path / "k")
    (tmp_path / "k.revisions.json").write_text(json.dumps(odd))
    ring.register().refusal("u", ("/home", "s"))
    ring.change(Register.raise_to, "u", 3, ("/home", "s"))
    assert ring.register().revision("u") >= 3
    ring.change(Register.retire, ("/home", "s"), "s~t")
    assert ring.register().sessions["u"].retired == "s~t"
    ring.change(Register.revive, ("/home", "s"), "s~other")
    assert ring.register().refusal("u", ("/home", "s")) is not None
    ring.change(Register.revive, ("/home", "s"), "s~t")
    assert ring.register().refusal("u", ("/home", "s")) is None


def test_an_earlier_release_takes_a_retired_revision_for_none() -> None:
    register = Register({})
    register.put("u", Standing(1, ("/home", "s"), "s~t"))
    assert register.document()["u"] < 0
    assert Register(register.document()).sessions == register.sessions


@pytest.mark.parametrize("change", [lambda _: None, lambda env: env.update(XDG_CONFIG_HOME="/x y"), lambda env: env.update(XDG_CONFIG_HOME=" ")])  # fmt: skip
def test_the_key_is_where_the_platform_keeps_settings(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, str]], object]
) -> None:
    monkeypatch.delenv(seal.ENVIRONMENT, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    env: dict[str, str] = {}
    change(env)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    expected = Path(platformdirs.user_config_dir("timeleap", appauthor=False)) / "approval.key"
    assert seal.default_key_file() == expected


def test_a_home_that_cannot_be_looked_at_was_not_moved() -> None:
    register = Register({})
    register.put("u", Standing(3, ("/" + "long" * 2000, "s")))
    assert register.moved_from("u", ("/new", "s")) is None
    assert register.refusal("u", ("/new", "s")) is not None
