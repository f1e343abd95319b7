"""The list of every file of a session, and what a killed process leaves."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.support.leftovers import holders
from tests.unit.sessions.worlds import World, run_child

from timeleap.features.approvals.switches import set_yolo
from timeleap.features.redaction import redact_files
from timeleap.features.redaction.matchers import TextMatcher
from timeleap.features.redaction.redaction import RedactionRequest, redact
from timeleap.features.redaction.redactor import Redactor
from timeleap.sessions.documents import session_files
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.shapes import Mutation
from timeleap.storage.owner_lock import SessionLock
from timeleap.store.home import Home
from timeleap.store.purging import PurgeRequest

SECRET = "hunter2-Tq9"
TMP = "0123456789abcdef.tmp"

KINDS = {
    "context.jsonl": "log",
    "context_12.jsonl": "timeline",
    "context.jsonl.3": "timeline",
    ".context.jsonl.idx": "index",
    ".context_2.jsonl.idx": "index",
    ".context.jsonl.lock": "lock",
    ".context.jsonl.intent": "intent",
    "context.jsonl.quarantine-9-20260101T000000000Z-2": "quarantine",
    "timeleap.json": "meta",
    "state.json": "state",
    "metadata.json": "state",
    "requests.jsonl": "requests",
    "audit.jsonl": "audit",
    "timeleap.damaged-1780000000-ab12.json": "damaged",
    "state.damaged-1.json": "damaged",
    "requests.damaged-1780000000-ab12.jsonl": "damaged",
    f".context_2.jsonl.idx.{TMP}": "temporary",
    f".audit.jsonl.{TMP}": "temporary",
    "wire.jsonl": "foreign",
    "context_sub_1.jsonl": "foreign",
    "sub/context.jsonl": "foreign",
    "sub/.x.0123456789abcdef.tmp": "foreign",
}


def test_every_file_of_a_session_has_its_kind(tmp_path: Path) -> None:
    for name in KINDS:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "context.jsonl")
    os.mkfifo(tmp_path / "fifo")
    assert {file.name: file.kind for file in session_files.list_files(tmp_path)} == KINDS


async def test_what_a_session_makes_is_in_the_list(world: World) -> None:
    """A file that the server makes and the list does not know would be missed by redaction and export."""
    session = await world.session(title="t")
    await session.append([{"role": "user", "content": "x"}], Mutation(request_id="r", method="context/appendMessage"))
    await session.clear()
    await set_yolo(session, True)
    await session.set_title("u", Mutation(request_id="s", method="session/setTitle"))
    await session.set_title("v", Mutation(request_id="q", method="session/setTitle"))
    await world.close()
    with (world.path() / "context.jsonl").open("ab") as log:
        log.write(b'{"role":"us')
    (world.path() / "state.json").write_text("{")
    (world.path() / "timeleap.json").write_text("{")
    session = await world.reopened()
    await session.set_title("w")
    found = {file.kind for file in session_files.list_files(world.path())}
    assert "foreign" not in found
    assert found >= {"log", "timeline", "index", "lock", "meta", "state", "requests", "audit", "quarantine", "damaged"}


@pytest.mark.parametrize("present", [True, False])
def test_only_what_a_killed_process_left_is_removed(tmp_path: Path, present: bool) -> None:
    ours = [f".timeleap.json.{TMP}", f".requests.jsonl.{TMP}", f".context.jsonl.{TMP}", f".wire.jsonl.{TMP}"]
    orphans = [".context_3.jsonl.idx", ".context.jsonl.4.idx"]
    others = [".timeleap.json.tmp", f"state.json.{TMP}", ".context.jsonl.idx", ".other.idx", ".context.jsonl.lock"]
    logs = ["context_3.jsonl", "context.jsonl.4"] if present else []
    (tmp_path / ".context.jsonl.idx").touch()  # which stays, even without its log
    assert not session_files.may_hold_leftovers(tmp_path)
    for name in [*ours, *orphans, *others, *logs]:
        (tmp_path / name).touch()
        assert session_files.may_hold_leftovers(tmp_path) or name not in {*ours, *orphans}
    (tmp_path / f".state.json.{TMP}").symlink_to(tmp_path / others[0])
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / f".x.{TMP}").touch()
    recent = [one.name for one in session_files.leftovers(tmp_path, older_than=60)]
    assert sorted(recent) == ([] if present else sorted(orphans))
    removed = [one.name for one in session_files.remove_leftovers(tmp_path)]
    assert sorted(removed) == sorted(ours if present else [*ours, *orphans])
    left = sorted(one.name for one in tmp_path.iterdir())
    kept = [*others, *logs, *(orphans if present else ()), f".state.json.{TMP}", "sub"]
    assert left == sorted(kept)


PRUNE = """
import asyncio, os, sys
from pathlib import Path
from timeleap.sessions.kernel.pruning import (PruneRequest)
from timeleap.sessions.shapes import Retention
from timeleap.store.store import SessionStore
from timeleap.storage import durable

async def main():
    session = (await SessionStore(Path(sys.argv[1])).open("s1")).session
    left = int(sys.argv[2])
    unlink = os.unlink
    def killing(path, **options):
        nonlocal left
        if not left:
            os.kill(os.getpid(), 9)
        left -= 1
        unlink(path, **options)
    os.unlink = killing
    await session.prune(PruneRequest(limits=Retention(1, 1)))

asyncio.run(main())
"""


@pytest.mark.parametrize("unlinks", range(5))
async def test_a_prune_killed_at_any_unlink_leaves_no_index(world: World, unlinks: int) -> None:
    session = await world.session()
    for _ in range(3):
        await session.append([{"role": "user", "content": "PIN 4711"}])
        await session.clear()
    await world.close()
    run_child(PRUNE, str(world.home), str(unlinks), key_file=world.key_file)
    names = {path.name for path in world.path().iterdir()}
    assert not [name for name in names if name.endswith("jsonl.idx") and name[1:-4] not in names]
    session = await world.reopened()
    await session.prune(PruneRequest())
    assert session_files.leftovers(world.path()) == []


async def test_an_orphaned_index_goes_at_the_next_open(world: World) -> None:
    await world.session()
    await world.close()
    orphan = world.path() / ".context_7.jsonl.idx"
    orphan.write_bytes(b"x" * 144)
    await world.session(access="read")
    assert orphan.exists()  # a reader writes nothing
    await world.reopened()
    assert not orphan.exists()


async def test_a_redaction_removes_leftovers_and_redacts_what_was_kept(world: World) -> None:
    """Of an open session and of one in the trash."""
    for name in ("s1", "s2"):
        session = await world.session(name)
        await session.append([{"role": "user", "content": f"pw {SECRET}"}])
    await world.close()
    await world.restart()
    await world.store.delete("s2")
    trash = next((world.home / "trash").iterdir())
    session = await world.session("s1")
    for directory in (world.path("s1"), trash):
        (directory / f".context.jsonl.{TMP}").write_text(SECRET)
        (directory / ".context_9.jsonl.idx").write_text("crc")
        (directory / "timeleap.damaged-1780000000-ab12.json").write_text(
            f'{{"title": "{SECRET}", "journal": {{"requests": [{{"h": "0123456789abcdef", "head": "s.1"}}]}}}}'
        )
        (directory / "state.damaged-1780000000-ab12.json").write_text('{"h": "0123456789abcdef"}')
    order = RedactionRequest(TextMatcher([SECRET]), "*", lambda: (trash,))
    await redact(session, order, lambda one: {"head": one.head})
    assert holders(world.home, value=SECRET) == []
    assert holders(world.home, value="0123456789abcdef") == []
    for directory in (world.path("s1"), trash):
        assert session_files.leftovers(directory) == []


async def test_a_redaction_of_a_session_with_damaged_files_leaves_nothing_in_what_it_keeps_aside(world: World) -> None:
    """Writing what counts of a damaged file keeps the damaged one under another name."""
    session = await world.session(title="t")
    await session.append([{"role": "user", "content": "x"}])
    await world.close()
    document = {**world.json("timeleap.json"), "pins": [SECRET, [SECRET]], "journal": {"requests": 5, "a": SECRET}}
    world.put_json("timeleap.json", document)
    world.put_json("state.json", {"custom_title": [SECRET], "approval": SECRET})
    (world.path() / "requests.jsonl").write_text(f'{{"r": ["{SECRET}"]}}\n[')
    session = await world.reopened()
    await redact(session, RedactionRequest(TextMatcher([SECRET]), "*"), lambda one: {"head": one.head})
    await session.set_title("u")
    assert holders(world.home, value=SECRET) == []
    assert session.facts.pins == ("*",)


@pytest.mark.parametrize("journal", [5, [], {"requests": 5}, {"requests": [5], "timelineId": "\0"}, {"timelineId": []}])
async def test_a_damaged_session_in_the_trash_is_redacted_too(world: World, journal: object) -> None:
    session = await world.session()
    await session.append([{"role": "user", "content": SECRET}])
    await world.restart()
    await world.store.delete("s1")
    trash = next((world.home / "trash").iterdir())
    deep = json.loads("[" * 700 + "]" * 700)
    document = json.loads((trash / "timeleap.json").read_text())
    (trash / "timeleap.json").write_text(json.dumps({**document, "journal": journal, "pins": [SECRET], "a": deep}))
    session = await world.session("s1")
    order = RedactionRequest(TextMatcher([SECRET]), "*", lambda: (trash,))
    await redact(session, order, lambda one: {"head": one.head})
    assert holders(world.home, value=SECRET) == []


BUILD = """
import os, sys
from pathlib import Path
from timeleap.store.home import Home
with Home(Path(sys.argv[1])).building() as directory:
    (directory / "context.jsonl").write_text("half of a fork")
    os.kill(os.getpid(), 9)
"""


async def test_what_a_killed_process_was_building_goes_and_what_is_being_built_stays(world: World) -> None:
    await world.session()
    staging = world.home / "staging"
    run_child(BUILD, str(world.home))
    earlier = staging / f"{int(time.time())}-0123456789abcdef"  # of a release that did not lock it
    earlier.mkdir()
    with world.store.home.building() as mine, Home(world.home).building() as other:
        assert sorted(one for one in staging.iterdir() if one.is_dir()) == sorted([mine, other, earlier])
    assert list(staging.iterdir()) == [earlier]
    run_child(BUILD, str(world.home))
    world.store.home.sweep()
    assert list(staging.iterdir()) == [earlier]


async def test_a_purge_leaves_what_is_being_built_however_long_nothing_was_written(world: World) -> None:
    await world.session()
    with Home(world.home).building() as slow:
        idle = world.home / "staging" / f"{int(time.time())}-0123456789abcdef"  # of a release that did not lock it
        idle.mkdir()
        for directory in (slow, idle):
            os.utime(directory, (1, 1))
        await world.store.trash.purge(PurgeRequest(older_than=0))
        assert slow.is_dir() and not idle.exists()


async def test_the_name_of_the_client_in_a_seal_is_redacted_and_the_seal_stays(world: World) -> None:
    from timeleap.sessions.shapes import Cause

    client = Cause(None, f"agent --password {SECRET}")
    session = await world.session()
    await set_yolo(session, True, Mutation(cause=client))
    order = RedactionRequest(TextMatcher([SECRET]), "*")
    await redact(session, order, lambda one: {"head": one.head})
    assert holders(world.home, value=SECRET) == []
    assert (session.facts.approval.yolo, session.facts.approval.changed_by) == (True, "agent --password *")
    session = await world.reopened()
    assert (session.facts.approval.yolo, session.facts.approval.changed_by) == (True, "agent --password *")
    assert session.warnings == []


async def test_a_seal_is_no_text_that_a_redaction_changes(world: World) -> None:
    session = await world.session()
    await set_yolo(session, True)
    mac = world.json("timeleap.json")["seals"][-1]["mac"]
    order = RedactionRequest(TextMatcher([mac[5:9]]), "*")
    await redact(session, order, lambda one: {"head": one.head})
    assert world.json("timeleap.json")["seals"][-1]["mac"] == mac
    assert (await world.reopened()).facts.approval.yolo


async def test_a_trashed_session_is_looked_at_by_the_same_list(world: World) -> None:
    session = await world.session()
    await session.append([{"role": "user", "content": SECRET}])
    await world.close()
    await world.restart()
    await world.store.delete("s1")
    trash = next((world.home / "trash").iterdir())
    lock = SessionLock(trash / "context.jsonl")
    await lock.acquire("hold")
    redactor = Redactor(TextMatcher([SECRET]), "*")
    redact_files.redact_closed(redact_files.look_at(trash, redactor, trash.name), redactor)
    lock.release()
    assert holders(trash, value=SECRET) == []


async def test_every_text_of_a_session_is_shown_to_those_who_look_for_secrets(world: World) -> None:
    session = await world.session()
    await session.set_title("in the title")
    await session.append([{"role": "user", "content": json.dumps({"inner": "in a string of JSON"})}])
    (world.path() / "wire.jsonl").write_text("in a file of others\n")
    (world.path() / "context.jsonl.quarantine-9-20260101T000000000Z-2").write_text("no JSON")
    found = list(redact_files.every_text(world.path()))
    for text in ("in the title", "in a string of JSON", "no JSON"):
        assert any(text in one for one in found), text


def test_a_file_of_another_program_is_looked_at_as_far_as_it_can_be(tmp_path: Path) -> None:
    redactor, path = Redactor(TextMatcher([SECRET]), "*"), tmp_path / "session.jsonl"
    assert not redact_files.still_held(path, redactor)
    path.write_text(f"one\n{SECRET}\n")
    assert redact_files.still_held(path, redactor)
    path.write_text("one\ntwo\n")
    assert not redact_files.still_held(path, redactor)
    path.unlink()
    path.mkdir()
    assert redact_files.still_held(path, redactor), "a file that cannot be read may hold it"
