"""Damaged, foreign, newer and half lines; damaged state; lost or lying index: repaired or reported, never silent (G4)."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fixtures import Engine, StartServer, with_store
from tests.support.matching import A_COUNT, A_STRING, at_least
from tests.support.mostly_long import mostly_long
from tests.support.server import Launch, Server
from tests.support.session import Session, user


@pytest.fixture(scope="module")
def store(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all: what is damaged is a session of the test's own."""
    running = Server(Launch(with_store(tmp_path_factory.mktemp("damage") / "home", engine), "lsp"))
    running.initialize()
    yield running
    running.dispose()


def closed(server: Server, *texts: str) -> Session:
    """A closed session with these messages."""
    session = Session.open(server)
    session.say(*texts)
    session.call("session/close")
    return session


# the tail


@pytest.mark.parametrize("cut", [2, 3, 10, 31])
def test_a_torn_last_record_is_cut_kept_and_reported(store: Server, cut: int) -> None:
    session = closed(store, "one", "two")
    whole = session.log_bytes()
    line = whole.splitlines(keepends=True)[-1]
    session.put_log(whole + line[:-cut])
    before = len(store.received)
    again = session.reopen(store)
    told = store.heard("session/didRecover", since=before)
    torn = line[:-cut]
    assert told == {
        "sessionId": session.id,
        "quarantined": [{"file": A_STRING, "offset": len(whole), "bytes": len(torn), "reason": "tornTail"}],
        "cutBytes": len(torn),
    }
    assert torn in (session.path / told["quarantined"][0]["file"]).read_bytes()
    again.say("three")
    assert again.texts() == ["one", "two", "three"]
    assert session.log_bytes() == whole + b'{"role":"user","content":"three"}\n'


def test_a_whole_last_record_without_its_line_feed_is_kept(store: Server) -> None:
    session = closed(store, "one", "two")
    session.put_log(session.log_bytes()[:-1])
    again = session.reopen(store)
    assert again.texts() == ["one", "two"]
    again.say("three")
    assert again.texts() == ["one", "two", "three"]
    assert session.log_bytes().count(b"\n") == 3


@pytest.mark.long
def test_every_cut_of_the_log_opens_with_the_whole_records_before_it(store: Server) -> None:
    session = closed(store, "a", "b")
    whole = session.log_bytes()
    ends = [0, *(index + 1 for index, byte in enumerate(whole) if byte == 10)]
    for length in range(len(whole) + 1):
        name = f"{session.id[-8:]}-cut-{length}"
        target = session.path.parent / name
        target.mkdir()
        (target / "context.jsonl").write_bytes(whole[:length])
        again = Session.open(store, name)
        kept = sum(1 for end in ends[1:] if end <= length)
        complete = kept + (1 if length + 1 in ends else 0)
        again.say("next")
        assert again.texts() in ([*["a", "b"][:kept], "next"], [*["a", "b"][:complete], "next"]), length
        again.call("session/close")
        assert Session.open(store, name).texts()[-1] == "next"


def test_an_incomplete_batch_is_cut_as_a_whole(store: Server) -> None:
    session = closed(store, "before")
    again = session.reopen(store)
    again.append(user("x"), user("y"), user("z"))
    again.call("session/close")
    lines = session.log_bytes().splitlines(keepends=True)
    for keep in (2, 3):
        for torn in (b"", lines[keep][:20]):
            data = b"".join(lines[:keep]) + torn
            name = f"{session.id[-8:]}-batch-{keep}-{len(torn)}"
            (session.path.parent / name).mkdir()
            (session.path.parent / name / "context.jsonl").write_bytes(data)
            mark = len(store.received)
            opened = Session.open(store, name)
            assert opened.texts() == ["before"]
            told = store.heard("session/didRecover", since=mark, sessionId=name)
            assert told["cutBytes"] == len(data) - len(lines[0])
            assert {item["reason"] for item in told["quarantined"]} <= {"incompleteBatch", "tornTail"}
            opened.append(user("after"))
            assert opened.texts() == ["before", "after"]


@pytest.mark.parametrize("damage", ["one line", "two halves"])
def test_a_repair_costs_a_batch_only_its_damaged_member(store: Server, damage: str) -> None:
    session = Session.open(store)
    session.append(*[user(f"{number} " + "x" * 50) for number in range(20)])
    session.call("session/close")
    lines = session.log_bytes().splitlines(keepends=True)
    lines[10] = b"x" + lines[10][1:] if damage == "one line" else lines[10][:20] + b"\n" + lines[10][21:]
    session.put_log(b"".join(lines))
    again = session.reopen(store)
    assert len(again.history()) == 19
    result = again.call("session/repair")
    assert result == at_least({"removedLines": 1, "timelineId": "context_1"})
    assert len(again.history()) == 19
    again.call("session/close")
    assert len(session.reopen(store).history()) == 19
    session.call("session/close")
    for index in session.path.glob("*.idx"):
        index.unlink()
    assert len(session.reopen(store).history()) == 19


def test_a_flipped_line_feed_costs_its_own_line_only_and_no_checksum_is_forgotten(store: Server) -> None:
    session = closed(store, *[f"text {number}" for number in range(8)])
    lines = session.log_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:-1] + b"J"
    session.put_log(b"".join(lines))
    left = ["text 0", "text 1", "text 2", "text 4", "text 5", "text 6", "text 7"]
    reader = session.reopen(store, access="readOnly")
    assert reader.texts() == left
    assert [one["line"] for one in reader.state["warnings"]] == [3]
    reader.call("session/close")
    again = session.reopen(store)
    assert again.texts() == left
    again.call("session/close")
    lines[4] = lines[4].replace(b"text 4", b"text X")
    session.put_log(b"".join(lines))
    again = session.reopen(store)
    assert [one["line"] for one in again.state["warnings"]] == [3, 4], "its checksum is still known"
    left.remove("text 4")
    assert again.texts() == left
    assert again.call("session/repair", dryRun=True)["removedLines"] == 1, "what is a record now is taken as it is"
    assert again.call("session/repair")["removedLines"] == 1
    assert again.texts() == ["text 0", "text 1", "text 2", "text X", "text 5", "text 6", "text 7"]


def test_what_a_person_put_in_the_place_of_lines_is_taken_as_it_is(store: Server) -> None:
    session = closed(store, "a long text of some letters", "b", "c")
    lines = session.log_bytes().splitlines(keepends=True)
    session.put_log(lines[1] + lines[0] + lines[2])
    assert session.reopen(store).texts() == ["b", "a long text of some letters", "c"]


def test_the_dry_run_of_a_repair_counts_what_the_repair_takes_out(store: Server) -> None:
    session = closed(store, *[f"text {number}" for number in range(150)])
    lines = session.log_bytes().splitlines(keepends=True)
    session.put_log(b"".join(b"x" + line[1:] if at % 10 else line for at, line in enumerate(lines)))
    again = session.reopen(store)
    head = again.head
    planned = again.call("session/repair", dryRun=True)
    assert planned == at_least({"head": head, "removedLines": 135})
    assert again.timelines() == []
    done = again.call("session/repair")
    assert (done["removedLines"], done["problems"]) == (135, planned["problems"])
    assert again.call("session/repair", dryRun=True) == {"head": again.head, "removedLines": 0, "problems": []}


def test_a_read_only_open_repairs_nothing(store: Server) -> None:
    session = closed(store, "one")
    session.put_log(session.log_bytes() + b'{"role":"us')
    before = sorted((path.name, path.read_bytes()) for path in session.path.iterdir())
    reader = session.reopen(store, access="readOnly")
    assert reader.texts() == ["one"]
    assert sorted((path.name, path.read_bytes()) for path in session.path.iterdir()) == before


def test_zeros_at_the_end_are_a_torn_tail(store: Server) -> None:
    session = closed(store, "one")
    session.put_log(session.log_bytes() + b"\0" * 4096)
    again = session.reopen(store)
    again.say("two")
    assert again.texts() == ["one", "two"]


# the middle

ODD_LINES = {
    "broken JSON": b"{broken",
    "not an object": b"[1,2]",
    "scalar": b"17",
    "no role": b'{"content":"x"}',
    "role of another type": b'{"role":7,"content":"x"}',
    "bad UTF-8": b'{"role":"user","content":"\xff\xfe"}',
    "zeros": b"\0" * 64,
    "deep nesting": b'{"role":"user","content":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "huge integer": b'{"role":"user","content":"x","n":' + b"7" * 5000 + b"}",
    "NaN": b'{"role":"user","content":"x","n":NaN}',
    "lone surrogate": b'{"role":"user","content":"\\ud800"}',
    "carriage return": b'{"role":"user","content":"cr"}\r',
    "foreign control record": b'{"role":"_future","anything":[1]}',
    "usage of another type": b'{"role":"_usage","token_count":"many"}',
    "usage without count": b'{"role":"_usage"}',
    "checkpoint of another type": b'{"role":"_checkpoint","id":"x"}',
    "checkpoint without id": b'{"role":"_checkpoint"}',
    "prompt of another type": b'{"role":"_system_prompt","content":7}',
    "message with token_count": b'{"role":"user","content":"counted","token_count":5}',
    "message without content": b'{"role":"user"}',
    "unknown role": b'{"role":"robot","content":"beep"}',
    "tl of another type": b'{"role":"user","content":"tl","_tl":7}',
    "tl of a lonely batch": b'{"role":"user","content":"tl","_tl":{"b":"x","i":1,"n":3}}',
    "duplicate keys": b'{"role":"user","role":"_usage","content":"x","token_count":1}',
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_one_odd_line_never_makes_a_session_unopenable(store: Server, name: str) -> None:
    session = closed(store, "before", "after")
    first, second = session.log_bytes().splitlines(keepends=True)
    data = first + ODD_LINES[name] + b"\n" + second
    session.put_log(data)
    again = session.reopen(store)
    history = again.history()
    assert history[0] == user("before") and history[-1] == user("after") and len(history) in (2, 3)
    again.say("next")
    assert session.log_bytes() == data + b'{"role":"user","content":"next"}\n'
    again.checkpoint()
    again.say("gone")
    again.call("context/revertTo", checkpointId=again.get_state()["context"]["nCheckpoints"] - 1)
    assert again.history()[-1] == user("next")
    assert session.log_bytes("context_1.jsonl").startswith(data)
    again.call("session/close")
    assert session.reopen(store).history()[-1] == user("next")


@pytest.mark.parametrize("name", ["broken JSON", "not an object", "no role", "bad UTF-8", "zeros"])
def test_damage_in_the_middle_is_reported(store: Server, name: str) -> None:
    session = closed(store, "before", "after")
    first, second = session.log_bytes().splitlines(keepends=True)
    session.put_log(first + ODD_LINES[name] + b"\n" + second)
    state = session.reopen(store).state
    assert state["context"]["messageCount"] == 2
    (warning,) = state["warnings"]
    assert warning == at_least({"kind": "damagedRecord", "message": A_STRING})


def test_a_rewrite_leaves_damage_out_and_the_timeline_keeps_it(store: Server) -> None:
    session = closed(store, "before", "after")
    first, second = session.log_bytes().splitlines(keepends=True)
    session.put_log(first + b"{broken\n" + second)
    again = session.reopen(store)
    again.checkpoint()
    again.call("context/revertTo", checkpointId=0)
    assert session.log_bytes() == first + second
    assert b"{broken" in session.log_bytes("context_1.jsonl")


def test_a_flipped_byte_is_never_served_as_if_it_were_the_message(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "s")
    session.append(*[user(f"{number:04} " + "x" * 200) for number in range(200)])
    session.call("session/close")
    data = bytearray(session.log_bytes())
    position = data.index(b"0100 xxxx") + 50
    data[position] = ord("y")
    session.put_log(bytes(data))
    again = session.reopen(server)
    reply = again.start("context/getHistory", **{"from": 95, "to": 105}).reply()
    warned = again.get_state()["warnings"]
    assert "error" in reply or warned, "silently accepted"
    if "error" in reply:
        assert reply["error"]["code"] == 4014
    assert again.call("context/getHistory", **{"from": 0, "to": 90})["messages"]
    assert again.call("context/appendMessage", message=user("next"))


# state files


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"approval": 7}', b'{"version": "x"}', b"\0" * 100]
)
def test_a_damaged_state_file_is_moved_aside_and_reported(store: Server, garbage: bytes) -> None:
    session = closed(store, "x")
    session.put_file("state.json", garbage)
    again = session.reopen(store)
    assert again.texts() == ["x"]
    assert again.state["approval"] == at_least({"yolo": False, "autoApproveActions": []})
    again.call("session/setTitle", title="T")
    assert json.loads(session.file_bytes("state.json"))["custom_title"] == "T"
    if garbage not in (b"", b'{"version": "x"}', b'{"approval": 7}', b"null", b"[]"):
        assert again.state["warnings"] != []
        others = [path.read_bytes() for path in session.path.rglob("*") if path.is_file() and path.name != "state.json"]
        assert garbage in others


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b"\xff", b'{"uid": 7}', b"\0" * 50])
def test_a_damaged_timeleap_json_never_makes_a_session_unopenable(store: Server, garbage: bytes) -> None:
    session = Session.open(store, title="T")
    session.checkpoint(label="L")
    session.say("x")
    session.call("context/clear")
    session.say("y")
    session.call("session/close")
    session.put_file("timeleap.json", garbage)
    again = session.reopen(store)
    assert again.texts() == ["y"]
    assert [timeline["timelineId"] for timeline in again.timelines()] == ["context_1"]
    again.call("session/putSubagent", name="a", systemPrompt="p")
    again.call("context/clear")
    assert [timeline["timelineId"] for timeline in again.timelines()] == ["context_2", "context_1"]


@pytest.mark.parametrize("file", ["state.json", "timeleap.json", "requests.jsonl"])
def test_lost_files_beside_the_log_lose_no_history(start: StartServer, file: str) -> None:
    first = start()
    session = Session.open(first, "s")
    session.say("x")
    session.call("session/setTitle", title="T", requestId="r")
    session.call("context/clear", requestId="c")
    session.say("y")
    first.kill()
    session.put_file(file, None)
    again = Session.open(start(), "s")
    assert again.texts() == ["y"] and len(again.timelines()) == 1
    again.call("session/setTitle", title="U")


# index


def index_of(session: Session) -> Path:
    (index,) = session.path.glob("*context.jsonl.idx")
    return index


def facts(session: Session) -> tuple[object, ...]:
    state = session.get_state()
    return state["head"], state["context"], session.records(), session.history()


@pytest.mark.parametrize(
    "damage",
    mostly_long(
        ["deleted", "empty", "garbage", "flipped", "truncated", "stale", "of another log", "directory"], every=3
    ),
)
def test_the_index_is_never_believed_over_the_log(start: StartServer, damage: str) -> None:
    first = start()
    session = Session.open(first, "s")
    for number in range(30):
        session.checkpoint(label=str(number))
        session.append(user(f"{number} " + "x" * 100), user("batch"))
        session.call("context/updateTokenCount", tokenCount=number)
    stale = index_of(session).read_bytes()
    session.say("later")
    expected = facts(session)
    assert first.finish() == 0
    index = index_of(session)
    data = bytearray(index.read_bytes())
    rng = random.Random(7)
    if damage == "deleted":
        index.unlink()
    elif damage == "empty":
        index.write_bytes(b"")
    elif damage == "garbage":
        index.write_bytes(rng.randbytes(len(data)))
    elif damage == "flipped":
        for _ in range(20):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        index.write_bytes(data)
    elif damage == "truncated":
        index.write_bytes(data[: len(data) // 2 + 3])
    elif damage == "stale":
        index.write_bytes(stale)
    elif damage == "of another log":
        other = start()
        Session.open(other, "other").append(*[user("o" * 90) for _ in range(200)])
        assert other.finish() == 0
        shutil.copy(session.path.parent / "other" / index.name, index)
    else:
        index.unlink()
        index.mkdir()
    again = Session.open(start(), "s")
    assert facts(again) == expected
    again.say("next")
    assert again.texts()[-1] == "next"


@pytest.mark.long
def test_every_flipped_bit_of_the_last_index_entries_is_seen(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.checkpoint(label="c")
    session.say("a", "b")
    expected = facts(session)
    assert first.finish() == 0
    data = index_of(session).read_bytes()
    server = start()
    for position in range(0, len(data), 3):
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        index_of(session).write_bytes(changed)
        again = Session.open(server, "s")
        assert facts(again)[1:] == expected[1:], position
        again.call("session/close")


def test_recovery_is_told_in_the_state_too(store: Server) -> None:
    session = closed(store, "one")
    session.put_log(session.log_bytes() + b'{"role"')
    before = len(store.received)
    pending = store.start("session/open", sessionId=session.id)
    pending.result()
    assert [m["method"] for m in pending.heard()].count("session/didRecover") == 1
    assert store.heard("session/didRecover", since=before)["cutBytes"] == 7
    assert session.get_state()["context"] == at_least({"messageCount": A_COUNT})


# checkpoint ids that no program of ours would give


@pytest.mark.parametrize("index", ["rebuilt", "kept"])
@pytest.mark.parametrize(
    ("ids", "ours"),
    [
        ([-7], 0),
        ([3, -7], 4),
        ([-1, 0], 1),
        ([2**53 - 1], 0),
        ([2**53], 0),
        ([5, 2**62], 6),
        ([2**63 - 2], 0),
        ([2**63 - 1], 0),
        ([10**30], 0),
        ([1.0], 0),
        ([True], 2),
        ([2, 2, 2], 3),
        ([9, 1], 2),
    ],
)
def test_one_can_go_on_from_any_checkpoint_id_and_back_to_each(
    store: Server, ids: list[float], ours: int, index: str
) -> None:
    session = closed(store)
    told = [[f'{{"role": "_checkpoint", "id": {json.dumps(one)}}}', json.dumps(user(f"at {one}"))] for one in ids]
    session.put_log(("".join(line + "\n" for pair in told for line in pair)).encode())
    again = session.reopen(store)
    foreign = again.call("context/listCheckpoints", order="asc")["checkpoints"]
    made = again.checkpoint()
    assert made["id"] == ours
    again.say("ours")
    if index == "kept":
        again.call("session/close")
        again = session.reopen(store)
    assert again.get_state()["context"]["nCheckpoints"] == ours + 1
    assert again.call("context/checkpoint")["checkpoint"]["id"] == ours + 1
    again.call("context/revertTo", checkpointId=ours)
    assert again.texts() == [f"at {one}" for one in ids]
    assert [one["uid"] for one in again.call("context/listCheckpoints", order="asc")["checkpoints"]] == [
        one["uid"] for one in foreign
    ]
    for at in reversed(range(len(ids))):
        if isinstance(ids[at], int) and ids[at] < 2**53:
            again.call("context/revertTo", checkpointUid=foreign[at]["uid"])
            assert again.texts() == [f"at {one}" for one in ids[:at]]


def test_an_unusual_checkpoint_id_can_be_named_as_far_as_a_request_can(store: Server) -> None:
    session = closed(store)
    session.log.write_text(
        '{"role":"user","content":"a"}\n{"role":"_checkpoint","id":-7}\n{"role":"user","content":"b"}\n'
    )
    again = session.reopen(store)
    assert again.refuse("context/revertTo", checkpointId=-6)["code"] == 4002
    again.call("context/revertTo", checkpointId=-7)
    assert again.texts() == ["a"]
