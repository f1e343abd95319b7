"""The store: opening, making, closing, and what lies in the way."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.holding import PATIENCE
from tests.support.turns import until
from tests.unit.sessions.worlds import ANSWER, USER, World, asked, heard, kinds, records, run_child, texts

from timeleap import clock
from timeleap.errors import (
    CorruptedError,
    InvalidInputError,
    InvalidSessionIdError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SessionNotOpenError,
    StorageFailureError,
)
from timeleap.features.approvals.switches import set_yolo
from timeleap.sessions.documents.warnings import recovered
from timeleap.storage import opened_log
from timeleap.store.listing import created_at, last_change_ns
from timeleap.store.store import SessionStore

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "a\x00b",
    "-a",
    ".a",
    "a.",
    "a" * 65,
    "a b",
    "é",
    "con",
    "NUL.txt",
    "a\n",
]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_new_session_is_whole_and_private(world: World) -> None:
    old = os.umask(0)
    try:
        opened = await world.store.open(
            "s1", title="T", system_prompt="p", workspace="file:///w", auto_checkpoint="turn"
        )
        await opened.session.append([USER])
        await opened.session.clear()
        await set_yolo(opened.session, True)
    finally:
        os.umask(old)
    session = opened.session
    assert opened.created
    assert (session.facts.title, session.facts.workspace, session.facts.auto_checkpoint) == ("T", "file:///w", "turn")
    assert records(session) == [{"role": "_system_prompt", "content": "p"}]
    assert session.access == "owner"
    assert created_at(session.path, session.meta) <= clock.iso(last_change_ns(session.path) / 1e9)
    for path in [world.home, *world.home.rglob("*")]:
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    again = await world.store.open("s1", title="other", system_prompt="other")
    assert again.session is session
    assert not again.created
    assert session.facts.title == "T"


async def test_an_id_is_invented_where_none_is_given(world: World) -> None:
    ids = {(await world.store.open()).session.session_id for _ in range(3)}
    assert len(ids) == 3
    assert all(world.path(one).is_dir() for one in ids)


async def test_openings_are_counted(world: World) -> None:
    session = await world.session()
    assert await world.session() is session
    await session.aclose()
    await session.append([USER])
    await session.aclose()
    await session.aclose()
    other = await world.session()
    assert other is not session
    assert texts(other) == ["Where is the file?"]


async def test_many_openings_at_once_make_one_session(world: World) -> None:
    opened = await asyncio.gather(*(world.store.open("s1") for _ in range(5)))
    assert len({id(one.session) for one in opened}) == 1
    assert [one.created for one in opened].count(True) == 1


async def test_an_unknown_session_is_not_made_unasked(world: World) -> None:
    with pytest.raises(SessionNotFoundError):
        await world.store.open("s1", create=False)
    assert not world.path().exists()


@pytest.mark.parametrize("wrong", HOSTILE)
async def test_what_cannot_be_an_id_touches_nothing(world: World, wrong: str) -> None:
    await world.session()
    before = world.tree()
    with pytest.raises(InvalidSessionIdError):
        await world.store.open(wrong)
    with pytest.raises(InvalidSessionIdError):
        await world.store.delete(wrong)
    with pytest.raises(InvalidSessionIdError):
        await world.store.trash.undelete(wrong)
    with pytest.raises(InvalidSessionIdError):
        world.store.locate(wrong)
    with pytest.raises(InvalidSessionIdError):
        await world.store.fork(wrong)
    if wrong:
        with pytest.raises(InvalidSessionIdError):
            await world.store.fork("s1", new_session_id=wrong)
    assert world.tree() == before


async def test_an_id_that_differs_only_by_case_is_taken(world: World) -> None:
    await world.session("Abc")
    with pytest.raises(SessionExistsError, match="only by case"):
        await world.store.open("aBC")
    with pytest.raises(SessionExistsError):
        await world.store.fork("Abc", new_session_id="ABC")


def lay_link(path: Path) -> None:
    target = path.parent.parent.parent / "elsewhere"
    target.mkdir(exist_ok=True)
    (target / "context.jsonl").write_text('{"role":"user","content":"secret"}\n')
    path.symlink_to(target)


@pytest.mark.parametrize("lay", [lay_link, os.mkfifo, Path.touch], ids=["link", "fifo", "file"])
async def test_what_is_no_directory_is_refused_and_does_not_break_the_list(world: World, lay: Any) -> None:
    await world.session("good")
    lay(world.path("bad"))
    for attempt in (world.store.open("bad"), world.store.delete("bad"), world.store.fork("bad")):
        with pytest.raises(CorruptedError):
            await attempt
    assert [one.session_id for one in (await world.store.list()).sessions] == ["good"]
    assert os.path.lexists(world.path("bad"))


@pytest.mark.parametrize("name", ["context.jsonl", "timeleap.json", "state.json", "requests.jsonl", "audit.jsonl"])
async def test_links_and_fifos_among_a_sessions_files_are_not_followed(world: World, name: str, tmp_path: Path) -> None:
    await world.session()
    await world.close()
    secret = tmp_path / "secret"
    secret.write_text('{"role":"user","content":"secret","title":"secret"}\n')
    for lay in (lambda path: path.symlink_to(secret), os.mkfifo):
        path = world.path() / name
        path.unlink(missing_ok=True)
        lay(path)
        await world.restart()
        try:
            session = await world.session()
            await session.set_title("t", asked("r", "session/setTitle"))
            await set_yolo(session, True)
        except StorageFailureError as error:
            assert name in str(error) or name == "context.jsonl"  # noqa: PT017
        assert secret.read_text() == '{"role":"user","content":"secret","title":"secret"}\n'
        await world.store.list()


async def test_a_locked_session_names_its_owner_and_can_be_followed(world: World) -> None:
    await world.session()
    await world.close()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(world.home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "open\n"
        with pytest.raises(SessionLockedError) as caught:
            await world.session()
        assert caught.value.data["owner"]["pid"] == child.pid
        with pytest.raises(SessionLockedError):
            await world.store.delete("s1")
        listed = (await world.store.list()).sessions[0]
        assert listed.owner is not None
        assert listed.owner.pid == child.pid
        follower = await world.session(access="read")
        told = heard(follower)
        assert (follower.access, follower.facts.title) == ("readOnly", None)
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "titled\n"
        await until(lambda: follower.facts.title == "by the owner")
        assert kinds(told) == ["titleChanged"]
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        await until(lambda: texts(follower))
        assert texts(follower) == ["Where is the file?"]
        assert kinds(told) == ["titleChanged", "external"]
        fork = (await world.store.fork("s1", new_session_id="s2")).session
        assert texts(fork) == ["Where is the file?"]
        await follower.aclose()
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
    assert (await world.store.list()).sessions[-1].owner is None
    assert (await world.session()).access == "owner"


HOLDER = """
import asyncio, sys
from pathlib import Path
from timeleap.store.store import SessionStore

async def main(home):
    session = (await SessionStore(Path(home)).open("s1")).session
    print("open", flush=True)
    sys.stdin.readline()
    await session.set_title("by the owner")
    print("titled", flush=True)
    sys.stdin.readline()
    await session.append([{"role": "user", "content": "Where is the file?"}])
    print("done", flush=True)
    sys.stdin.readline()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_follower_in_this_process_becomes_the_owner_when_somebody_wants_to_write(world: World) -> None:
    await world.session()
    session = await world.reopened(access="read")
    told = heard(session)
    writer = await world.session(access="write")
    assert writer is session
    assert session.access == "owner"
    assert kinds(told) == ["accessChanged"]
    await writer.append([USER])
    assert kinds(told)[-1] == "messagesAppended"
    reader = await world.session(access="read")
    assert reader is session


async def test_two_stores_of_one_process_do_not_share_a_session(world: World) -> None:
    await world.session()
    other = SessionStore(world.home)
    with pytest.raises(SessionLockedError):
        await other.open("s1")
    await other.aclose()
    await world.close()
    other = SessionStore(world.home)
    assert not (await other.open("s1")).created
    await other.aclose()


def foreign(folder: Path, name: str = "8f14e45f") -> Path:
    """A session as the original leaves it."""
    path = folder / "sessions" / name
    path.mkdir(parents=True)
    lines = [{"role": "_system_prompt", "content": "p"}, {"role": "_checkpoint", "id": 0}, USER, ANSWER]
    (path / "context.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "state.json").write_text(json.dumps({"version": 1, "custom_title": "theirs", "todos": []}))
    return path


async def test_a_session_of_the_original_opens_by_path_and_reading_writes_nothing(world: World, tmp_path: Path) -> None:
    path = foreign(tmp_path)
    before = sorted(one.name for one in path.iterdir())
    opened = await world.store.open(path=path, access="read")
    session = opened.session
    assert (session.session_id, session.facts.title, session.path) == ("8f14e45f", "theirs", path)
    assert texts(session) == ["Where is the file?", "In the drawer."]
    assert [one.session_id for one in (await world.store.list()).sessions] == ["8f14e45f"]
    assert created_at(session.path, session.meta)
    await session.aclose()
    assert sorted(one.name for one in path.iterdir()) == before
    assert (await world.store.list()).sessions == ()
    session = (await world.store.open(path=path, access="write")).session
    await session.append([USER])
    assert json.loads((path / "state.json").read_text())["todos"] == []


async def test_by_path_only_what_is_a_session_opens(world: World, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "empty", tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(SessionNotFoundError):
            await world.store.open(path=path)
    with pytest.raises(InvalidInputError):
        await world.store.open(path=Path("relative"))
    assert list((tmp_path / "empty").iterdir()) == []


async def test_the_id_of_a_session_opened_by_path_is_free(world: World, tmp_path: Path) -> None:
    await world.session("taken")
    one = (await world.store.open(path=foreign(tmp_path, "taken"), access="read")).session
    odd = (await world.store.open(path=foreign(tmp_path, "not an id"), access="read")).session
    same = (await world.store.open(path=tmp_path / "sessions" / "taken", access="read")).session
    assert one.session_id != "taken"
    assert odd.session_id not in ("not an id", one.session_id)
    assert same is one
    twins = [foreign(tmp_path / name, "twin") for name in ("a", "b")]
    opened = await asyncio.gather(*(world.store.open(path=path, access="read") for path in twins))
    assert [each.session.path for each in opened] == twins
    assert opened[0].session.session_id != opened[1].session.session_id


async def test_a_path_into_the_store_is_the_session_of_that_id(world: World) -> None:
    session = await world.session()
    assert (await world.store.open(path=world.path())).session is session
    assert world.store.contains(world.path())
    assert not world.store.contains(world.home)
    await world.store.delete("s1")
    trashed = next((world.home / "trash").iterdir())
    with pytest.raises(SessionNotFoundError):
        await world.store.open(path=trashed)


async def test_a_home_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailureError):
        SessionStore(tmp_path / "file")
    with pytest.raises(StorageFailureError):
        SessionStore(tmp_path / "file" / "below")


async def test_leftovers_of_a_killed_process_are_removed(world: World) -> None:
    await world.session()
    await world.close()
    for name in (".timeleap.json.0123456789abcdef.tmp", ".state.json.0123456789abcdef.tmp"):
        (world.path() / name).touch()
    (world.path() / "mine.tmp").touch()
    old = world.home / "staging" / "1000-abc"
    old.mkdir(parents=True)
    fresh = world.home / "staging" / "9999999999-abc"
    fresh.mkdir()
    await world.reopened()
    await world.session("s2")
    names = {one.name for one in world.path().iterdir()}
    assert "mine.tmp" in names
    assert not any(name.startswith((".timeleap.json.", ".state.json.")) for name in names)
    assert not old.exists()
    assert fresh.exists()


async def test_a_repeated_creation_is_answered_with_the_session_it_made(world: World) -> None:
    guard = asked("r1", "session/open")
    first = await world.store.open(title="T", guard=guard)
    again = await world.store.open(title="T", guard=guard)
    assert (first.created, first.duplicate) == (True, False)
    assert (again.created, again.duplicate) == (False, True)
    assert again.session is first.session
    await world.restart()
    again = await world.store.open(title="T", guard=guard)
    assert again.duplicate
    assert again.session.session_id == first.session.session_id
    with pytest.raises(InvalidInputError, match="requestId"):
        await world.store.open(guard=asked("r1", "session/open", "other"))
    with pytest.raises(InvalidInputError, match="requestId"):
        await again.session.append([USER], asked("r1", fingerprint="of an append"))
    named = await world.store.open("named", guard=asked("r2", "session/open"))
    assert (await world.store.open("named", guard=asked("r2", "session/open"))).duplicate
    assert not (await world.store.open("named", guard=asked("r3", "session/open"))).duplicate
    assert named.session.session_id == "named"


async def test_a_repeated_fork_is_answered_with_the_session_it_made(world: World) -> None:
    session = await world.session()
    await session.append([USER])
    guard = asked("f1", "session/fork")
    first = await world.store.fork("s1", guard=guard)
    await session.append([ANSWER])
    again = await world.store.fork("s1", guard=guard)
    assert again.duplicate
    assert again.session is first.session
    assert len((await world.store.list()).sessions) == 2


CREATOR = """
import asyncio, sys
from pathlib import Path
from timeleap.sessions.shapes import Mutation
from timeleap.store.store import SessionStore

async def main(home, how):
    store = SessionStore(Path(home))
    guard = Mutation(request_id="r1", method="session/" + how, fingerprint="f")
    if how == "fork":
        await store.fork("s1", guard=guard)
    else:
        await store.open(system_prompt="p", guard=guard)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.crash
@pytest.mark.parametrize("how", ["open", "fork"])
@pytest.mark.parametrize("point", ["store.before_move", "store.published"])
async def test_killed_anywhere_a_creation_sent_again_makes_one_session(world: World, how: str, point: str) -> None:
    session = await world.session()
    await session.append([USER])
    await world.close()
    assert run_child(CREATOR, str(world.home), how, failpoints=f"{point}=kill") == -9
    assert len((await world.store.list()).sessions) == (1 if point == "store.before_move" else 2)
    await world.restart()
    guard = asked("r1", f"session/{how}")
    opened = await (
        world.store.fork("s1", guard=guard) if how == "fork" else world.store.open(system_prompt="p", guard=guard)
    )
    assert opened.duplicate is (point == "store.published")
    assert len((await world.store.list()).sessions) == 2
    assert recovered(opened.session.engine) is None
    assert opened.session.engine.state.lines == 1


async def test_a_store_that_is_read_only_can_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await world.session()
    await session.append([USER])
    await world.close()
    before = world.tree()
    store = SessionStore(world.home)
    opened = await store.open("s1", access="read")
    assert texts(opened.session) == ["Where is the file?"]
    await store.list()
    await store.trash.page()
    await store.aclose()
    assert world.tree() == before


async def test_damage_found_behind_the_back_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:

    session = await world.session()
    for _ in range(50):
        await session.append([USER])
    await world.close()
    monkeypatch.setattr(opened_log, "SMALL", 100)
    log = world.path() / "context.jsonl"
    data = bytearray(log.read_bytes())
    data[data.index(b"Where", 400)] = ord("w")
    log.write_bytes(data)
    session = await world.reopened()
    told = heard(session)
    async with asyncio.timeout(30):
        while "checksumMismatch" not in kinds(told):
            await asyncio.sleep(0.02)
    assert "warn" not in kinds(told)
    assert [one["kind"] for one in session.warnings] == ["checksumMismatch"]


async def test_closing_does_not_wait_for_the_check_of_a_large_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from timeleap.storage.jsonl import JsonlEngine

    begun, waited = threading.Event(), list[bool]()

    async def slow(self: JsonlEngine, progress: Any = None) -> list[Any]:
        def work() -> list[Any]:
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                progress(1, 3000)
                begun.set()
            waited.append(True)
            return []

        return await asyncio.to_thread(work)

    monkeypatch.setattr(JsonlEngine, "validate_in_background", slow)
    session = await world.session()
    await until(begun.is_set)
    await session.aclose()
    assert not waited


async def test_what_is_asked_of_a_closed_session_is_refused(world: World) -> None:
    session = await world.session()
    await session.aclose()
    with pytest.raises(SessionNotOpenError):
        await session.append([USER])
    with pytest.raises(SessionNotOpenError):
        await session.set_title("t")


async def test_a_store_on_a_read_only_disk_can_be_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeleap.storage.owner_lock import SessionLock

    def refuse(_: SessionLock) -> bool:
        raise StorageFailureError("cannot take the session's lock: Read-only file system", errno="EROFS")

    await world.session()
    monkeypatch.setattr(SessionLock, "taken", refuse)
    assert [one.owner for one in (await world.store.list()).sessions] == [None]


def test_a_store_costs_nothing_that_the_first_reply_need_not_wait_for() -> None:
    """Neither pydantic nor platformdirs nor aiofiles are imported for opening a session."""
    program = (
        "import sys, timeleap.store.store;"
        "print([n for n in ('pydantic', 'platformdirs', 'aiofiles', 'psutil') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


async def test_opening_a_session_compiles_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first open of a process is waited for; each pattern that is made of a log's name took a tenth of a millisecond."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    written = [{"role": "_checkpoint", "id": 0}, USER, ANSWER]
    (folder / "context.jsonl").write_text("".join(json.dumps(record) + "\n" for record in written))
    store = SessionStore(tmp_path / "home")
    await (await store.open(path=folder)).session.aclose()  # makes the index
    asked: list[object] = []
    monkeypatch.setattr(re, "_compile", lambda pattern, _flags: asked.append(pattern))
    session = (await store.open(path=folder)).session
    assert session.summary().checkpoints[0].summary is not None
    await store.aclose()
    assert not asked
