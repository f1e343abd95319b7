"""`context/getHistory` and `context/getRecords`."""

from __future__ import annotations

import json
from typing import Any

import psutil
import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import at_least
from tests.support.server import Server
from tests.support.session import Session, user


def pages(session: Session, **params: Any) -> list[list[int]]:
    """The indexes of every page."""
    page = session.call("context/getHistory", **params)
    found = [[entry["index"] for entry in page["messages"]]]
    follow = {name: params[name] for name in ("limit", "order", "maxBytes", "timelineId") if name in params}
    while "nextCursor" in page:
        page = session.call("context/getHistory", cursor=page["nextCursor"], **follow)
        found.append([entry["index"] for entry in page["messages"]])
    return found


@pytest.fixture
def ten(session: Session) -> Session:
    for number in range(10):
        if number % 4 == 2:
            session.checkpoint(label=f"c{number}")
        session.say(str(number))
    return session


def test_an_empty_history(session: Session) -> None:
    assert session.call("context/getHistory") == {"messages": []}
    assert session.call("context/getHistory", order="desc") == {"messages": []}


def test_entries_are_index_and_message(session: Session) -> None:
    session.say("a", "b")
    assert session.call("context/getHistory") == {
        "messages": [{"index": 0, "message": user("a")}, {"index": 1, "message": user("b")}]
    }


def test_pages_ascending_and_descending(ten: Session) -> None:
    assert pages(ten, limit=4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert pages(ten, limit=4, order="desc") == [[9, 8, 7, 6], [5, 4, 3, 2], [1, 0]]
    assert pages(ten, limit=10) == [list(range(10))]
    assert pages(ten) == [list(range(10))]


def test_a_page_too_long_to_be_made_in_one_piece(session: Session) -> None:
    said = [f"{number} " + chr(0x61 + number % 26) * 3000 for number in range(400)]
    session.say(*said[:300])
    session.checkpoint()
    session.say(*said[300:])
    every = [{"index": index, "message": user(text)} for index, text in enumerate(said)]
    page = session.call("context/getHistory", limit=350, maxBytes=4 << 20)
    assert page["messages"] == every[:350]
    rest = session.call("context/getHistory", cursor=page["nextCursor"], limit=350, maxBytes=4 << 20)
    assert rest == {"messages": every[350:]}
    assert session.call("context/getHistory", limit=400, maxBytes=4 << 20, order="desc") == {"messages": every[::-1]}


def test_ranges_exclude_their_end(ten: Session) -> None:
    assert pages(ten, **{"from": 2, "to": 5}) == [[2, 3, 4]]
    assert pages(ten, **{"from": 2, "to": 5}, order="desc") == [[4, 3, 2]]
    assert pages(ten, **{"from": 2, "to": 8}, limit=4) == [[2, 3, 4, 5], [6, 7]]
    assert pages(ten, **{"from": 2, "to": 8}, limit=4, order="desc") == [[7, 6, 5, 4], [3, 2]]
    assert pages(ten, **{"from": 8, "to": 100}) == [[8, 9]]
    assert pages(ten, **{"from": 7}) == [[7, 8, 9]]
    assert pages(ten, to=2) == [[0, 1]]
    assert pages(ten, **{"from": 5, "to": 5}) == [[]]
    assert pages(ten, **{"from": 10}) == [[]]


def test_the_messages_between_a_checkpoint_and_the_next(ten: Session) -> None:
    uids = [checkpoint["uid"] for checkpoint in ten.get_state()["context"]["checkpoints"]]
    assert [pages(ten, checkpointUid=uid) for uid in uids] == [[[2, 3, 4, 5]], [[6, 7, 8, 9]]]
    assert pages(ten, checkpointUid=uids[0], limit=3) == [[2, 3, 4], [5]]
    assert pages(ten, checkpointUid=uids[0], order="desc", limit=3) == [[5, 4, 3], [2]]
    assert ten.refuse("context/getHistory", checkpointUid="x")["code"] == 4002


@pytest.mark.parametrize(
    "params",
    [
        {"from": 0, "checkpointUid": "x"},
        {"to": 1, "cursor": "x"},
        {"checkpointUid": "x", "cursor": "y"},
        {"from": -1},
        {"to": -1},
        {"from": "0"},
        {"from": 1.5},
        {"order": "sideways"},
        {"maxBytes": 0},
        {"maxBytes": -1},
        {"maxBytes": "1"},
    ],
)
def test_params_that_make_no_sense_are_refused(ten: Session, params: dict[str, Any]) -> None:
    assert ten.refuse("context/getHistory", **params)["code"] == -32602


def test_a_page_ends_before_it_is_too_large_but_holds_at_least_one(session: Session) -> None:
    session.append(*[user("x" * 1000) for _ in range(10)])
    assert pages(session, maxBytes=3500) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert pages(session, maxBytes=1) == [[number] for number in range(10)]
    assert pages(session, maxBytes=3500, order="desc")[0] == [9, 8, 7]


def test_a_page_is_4_mib_unless_asked_otherwise(session: Session) -> None:
    session.append(*[user("x" * 1_000_000) for _ in range(6)])
    assert pages(session, limit=1000) == [[0, 1, 2, 3], [4, 5]]
    assert pages(session, limit=1000, maxBytes=60_000_000) == [list(range(6))]


def test_a_cursor_outlives_appends(ten: Session) -> None:
    page = ten.call("context/getHistory", limit=4)
    ten.say("10")
    page = ten.call("context/getHistory", limit=4, cursor=page["nextCursor"])
    assert [entry["index"] for entry in page["messages"]] == [4, 5, 6, 7]


def test_a_cursor_from_before_a_rewrite_is_refused(ten: Session) -> None:
    cursor = ten.call("context/getHistory", limit=4)["nextCursor"]
    ten.call("context/revertTo", checkpointId=1)
    error = ten.refuse("context/getHistory", cursor=cursor)
    assert (error["code"], error["data"]["head"]) == (-32801, ten.head)


def test_a_cursor_of_another_session_or_method_is_refused(ten: Session, server: Server) -> None:
    other = Session.open(server)
    other.say(*"abcdef")
    cursor = ten.call("context/getHistory", limit=1)["nextCursor"]
    assert other.refuse("context/getHistory", cursor=cursor)["code"] in (-32602, -32801)
    assert ten.refuse("context/listCheckpoints", cursor=cursor)["code"] == -32602


def test_a_timeline_is_read_like_the_live_log(ten: Session) -> None:
    before = pages(ten, limit=4)
    timeline = ten.call("context/clear")["timelineId"]
    assert ten.texts() == []
    assert ten.texts(timelineId=timeline) == [str(number) for number in range(10)]
    assert pages(ten, limit=4, timelineId=timeline) == before
    for bad in ("context_9", "context", "../../etc/passwd", "", "context_1.jsonl", "context_01", "\u0000"):
        assert ten.refuse("context/getHistory", timelineId=bad)["code"] == 4009, bad


def test_records_are_all_lines_with_their_numbers(ten: Session) -> None:
    page = ten.call("context/getRecords", limit=5)
    assert [entry["line"] for entry in page["records"]] == [0, 1, 2, 3, 4]
    assert page["next"] == 5
    assert page["records"][2] == {"line": 2, "record": ten.lines()[2]}
    assert page["records"][2]["record"] == at_least({"role": "_checkpoint", "id": 0, "_tl": at_least({"l": "c2"})})
    assert ten.records() == ten.lines()
    last = ten.call("context/getRecords", **{"from": 11})
    assert [entry["line"] for entry in last["records"]] == [11] and "next" not in last
    assert ten.call("context/getRecords", **{"from": 1000}) == {"records": []}


def test_records_of_a_timeline(ten: Session) -> None:
    before = ten.records()
    timeline = ten.call("context/clear")["timelineId"]
    assert ten.records(timelineId=timeline) == before
    assert ten.refuse("context/getRecords", timelineId="context_7")["code"] == 4009


def test_blank_damaged_and_foreign_lines_keep_their_numbers(server: Server) -> None:
    session = Session.open(server)
    session.call("session/close")
    lines = [
        '{"role": "user", "content": "0"}',
        "",
        '{"role": "_future", "x": 1}',
        "{broken",
        "   ",
        '{"role":"user","content":"1"}',
    ]
    session.log.write_text("\n".join(lines) + "\n")
    again = session.reopen(server)
    assert again.texts() == ["0", "1"]
    records = again.call("context/getRecords")["records"]
    assert {entry["line"]: entry["record"] for entry in records}.items() >= {
        0: {"role": "user", "content": "0"},
        2: {"role": "_future", "x": 1},
        5: {"role": "user", "content": "1"},
    }.items()
    again.say("2")
    assert session.log.read_text() == "\n".join(lines) + '\n{"role":"user","content":"2"}\n'


def test_history_is_the_log_s_own_json(server: Server) -> None:
    session = Session.open(server)
    session.call("session/close")
    text = '{"role": "user",  "content": "\\u00e9\\u2028", "n": 1.10, "big": 123456789012345678901234567890, "e": 1E+2}'
    session.log.write_text(text + "\n")
    again = session.reopen(server)
    assert again.history() == [json.loads(text)]


def test_meta_never_stands_inside_the_message(session: Session) -> None:
    session.append(user("a"), user("b"), requestId="r1")
    session.say("c")
    entries = session.call("context/getHistory")["messages"]
    assert [entry["message"] for entry in entries] == [user("a"), user("b"), user("c")]
    assert all(set(entry) <= {"index", "message", "meta"} for entry in entries)
    assert "meta" not in entries[2]


@pytest.mark.slow
@pytest.mark.long
def test_a_page_of_large_messages_is_not_read_whole_to_be_cut(start: StartServer) -> None:
    server = start(options={"durability": "os"})
    session = Session.open(server, "s")
    for _ in range(50):
        session.append(user("x" * 4_000_000))
    before = psutil.Process(server.process.pid).memory_info().rss
    page = session.call("context/getHistory", limit=1000)
    assert [entry["index"] for entry in page["messages"]] == [0]
    page = session.call("context/getHistory", limit=1000, order="desc", maxBytes=9_000_000)
    assert [entry["index"] for entry in page["messages"]] == [49, 48]
    records = session.call("context/getRecords", limit=1000)
    assert [entry["line"] for entry in records["records"]] == [0] and records["next"] == 1
    assert psutil.Process(server.process.pid).memory_info().rss - before < 60 << 20
