"""`context/search` and `session/search`: what is found, where, in pages, without holding anybody up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import psutil
import pytest
from tests.support.fixtures import StartServer
from tests.support.holding import file_time_passes
from tests.support.matching import at_least
from tests.support.server import Launch, Message, Pending, Server
from tests.support.session import Session, assistant, user
from tests.wire.test_large_session import write_log

PARTS = {
    "role": "assistant",
    "content": [
        {"type": "think", "think": "Let me look at ñandú first"},
        {"type": "text", "text": "I will 😀 look"},
        {"type": "text", "text": "ed at it"},
    ],
    "tool_calls": [
        {"type": "function", "id": "c1", "function": {"name": "read_file", "arguments": '{"path": "ñ.py"}'}}
    ],
}
PARTS_TEXT = 'I will 😀 looked at it\nLet me look at ñandú first\nread_file\n{"path": "ñ.py"}'


def hits(session: Session, query: str, **params: Any) -> list[tuple[str | None, int]]:
    """Timeline and index of all matches, by pages."""
    return [(one.get("timelineId"), one["index"]) for one in every(session, query, **params)]


def every(session: Session, query: str, **params: Any) -> list[Message]:
    page = session.call("context/search", query=query, **params)
    found = list(page["matches"])
    while "nextCursor" in page:
        page = session.call("context/search", query=query, cursor=page["nextCursor"], **params)
        found += page["matches"]
    return found


def answered_to(pending: Pending) -> bool:
    """Whether the reply has come."""
    return any("method" not in one and one["id"] == pending.id for one in pending.server.received[pending.sent_at :])


def piece(text: str, span: list[int]) -> str:
    return text.encode("utf-16-le")[2 * span[0] : 2 * span[1]].decode("utf-16-le")


@pytest.fixture
def told(session: Session) -> Session:
    """Three turns, then back to the second and on from there."""
    for number in range(3):
        session.checkpoint(label=f"turn {number}")
        session.append(user(f"question {number}: where is the needle?"), assistant(f"answer {number}"))
    session.call("context/revertTo", checkpointId=1)
    session.append(user("question 9: no needle"))
    return session


def test_words_are_found_with_their_places_in_the_live_log_and_in_timelines(told: Session) -> None:
    page = told.call("context/search", query="needle")
    assert page == {
        "matches": [
            {"index": 0, "ranges": [[25, 31]]},
            {"index": 2, "ranges": [[15, 21]]},
            {"index": 0, "timelineId": "context_1", "ranges": [[25, 31]]},
            {"index": 2, "timelineId": "context_1", "ranges": [[25, 31]]},
            {"index": 4, "timelineId": "context_1", "ranges": [[25, 31]]},
        ]
    }
    assert hits(told, "needle", timelines=False) == [(None, 0), (None, 2)]
    assert hits(told, "NEEDLE") == []
    assert hits(told, "nowhere") == []


def test_repeats_are_left_out_of_timelines_if_asked_for(told: Session) -> None:
    assert hits(told, "needle", distinct=True) == [(None, 0), (None, 2), ("context_1", 2), ("context_1", 4)]
    told.call(
        "context/revertTo", checkpointId=0
    )  # context_2 begins with what context_1 begins with, the live log does not
    assert hits(told, "needle", distinct=True) == [
        ("context_2", 0),
        ("context_2", 2),
        ("context_1", 2),
        ("context_1", 4),
    ]
    assert hits(told, "needle", distinct=True, limit=1) == hits(told, "needle", distinct=True)


@pytest.mark.parametrize(
    ("query", "options", "pieces"),
    [
        ("😀", {}, ["😀"]),
        ("look", {}, ["look", "look"]),
        ("looked", {}, ["looked"]),
        ("ñ", {}, ["ñ", "ñ"]),
        ("LOOK.D", {"regex": True, "ignoreCase": True}, ["looked"]),
        (r"\bread_\w+", {"regex": True}, ["read_file"]),
        ('"ñ.py"', {}, ['"ñ.py"']),
        (". look", {"regex": True}, ["😀 look", "e look"]),
        ("e\n", {}, ["e\n"]),
        ("i will", {"ignoreCase": True}, ["I will"]),
    ],
)
def test_ranges_are_utf16_units_of_the_text_of_parts_thoughts_and_calls(
    session: Session, query: str, options: dict[str, Any], pieces: list[str]
) -> None:
    session.append(PARTS)
    (match,) = session.call("context/search", query=query, **options)["matches"]
    assert [piece(PARTS_TEXT, span) for span in match["ranges"]] == pieces


def test_a_character_is_found_however_it_is_composed(session: Session) -> None:
    session.append(user("cafe\u0301 café 👩🏽"))
    for query in ("e\u0301", "é"):
        assert every(session, query) == [{"index": 0, "ranges": [[3, 5], [9, 10]]}]
        assert every(session, query, regex=True) == [{"index": 0, "ranges": [[3, 5], [9, 10]]}]
    assert every(session, "🏽") == [{"index": 0, "ranges": [[13, 15]]}]


def test_a_log_written_by_another_program_is_searched_like_ours(start: StartServer) -> None:
    session = Session.open(start(), "foreign")
    session.call("session/close")
    lines = [json.dumps(user(text), ensure_ascii=plain) for text in ("ñ/a", "x") for plain in (True, False)]
    lines += [
        '{"role": "user", "content": "\\u00f1\\/a"}',
        '{"role": "user", "content": "bell \\b raw\ttab"}',
        "{broken",
    ]
    session.put_log(("\n".join(lines) + "\n").encode())
    session = session.reopen(start())
    assert hits(session, "ñ/a") == [(None, 0), (None, 1), (None, 4)]
    assert hits(session, "\b raw\ttab") == [(None, 5)]


def test_pages_go_on_where_the_one_before_ended(told: Session) -> None:
    whole = told.call("context/search", query="needle")["matches"]
    for limit in range(1, 6):
        assert every(told, "needle", limit=limit) == whole
    page = told.call("context/search", query="needle", limit=1)
    told.append(user("needle again"))
    assert told.call("context/search", query="needle", cursor=page["nextCursor"])["matches"] == [
        *whole[1:2],
        {"index": 4 - 1, "ranges": [[0, 6]]},
        *whole[2:],
    ]


def test_a_cursor_is_good_for_its_own_search_only(told: Session) -> None:
    cursor = told.call("context/search", query="needle", limit=1)["nextCursor"]
    other = Session.open(told.server)
    for refused in (
        told.refuse("context/search", query="other", cursor=cursor),
        told.refuse("context/search", query="needle", regex=True, cursor=cursor),
        told.refuse("context/search", query="needle", cursor="made up"),
        told.refuse("context/getHistory", cursor=cursor),
        other.refuse("context/search", query="needle", cursor=cursor),
    ):
        assert (refused["code"], refused["data"]["errors"][0]["loc"]) == (-32602, ["cursor"])
    told.call("context/clear")
    error = told.refuse("context/search", query="needle", cursor=cursor)
    assert (error["code"], error["data"]["head"]) == (-32801, told.head)


def test_a_cursor_into_a_timeline_that_is_gone_says_so(told: Session) -> None:
    page = told.call("context/search", query="needle", limit=3)
    told.call("session/prune", timelineIds=["context_1"])
    error = told.refuse("context/search", query="needle", cursor=page["nextCursor"])
    assert (error["code"], error["data"]["timelineId"]) == (4009, "context_1")


def test_an_excerpt_shows_the_text_around_the_first_match(session: Session) -> None:
    text = "😀" * 300 + "needle" + "é" * 300 + "needle"
    session.append(user("short needle"), user(text))
    short, long = every(session, "needle", excerpts=True)
    assert short["excerpt"] == {"start": 0, "text": "short needle"}
    shown = long["excerpt"]
    assert "needle" in shown["text"] and len(shown["text"]) <= 170
    assert piece(text, [shown["start"], shown["start"] + len(shown["text"].encode("utf-16-le")) // 2]) == shown["text"]


def test_what_is_found_a_million_times_is_listed_a_thousand_times(session: Session) -> None:
    session.append(user("ab" * 500_000), user("aba"))
    many, few = every(session, "b")
    assert len(many["ranges"]) == 1000 and many["moreRanges"] is True
    assert few == {"index": 1, "ranges": [[1, 2]]}
    for _ in range(25):
        session.append(user("b" * 2000))
    page = session.call("context/search", query="b")
    assert sum(len(one["ranges"]) for one in page["matches"]) <= 21_000 and "nextCursor" in page
    assert len(every(session, "b")) == 27


@pytest.mark.parametrize(
    ("params", "loc"),
    [
        ({"query": ""}, ["query"]),
        ({"query": "x" * 1001}, ["query"]),
        ({"query": 5}, ["query"]),
        ({"query": "x", "regex": "yes"}, ["regex"]),
        ({"query": "x", "limit": 0}, ["limit"]),
        ({"query": "x", "limit": 1001}, ["limit"]),
        ({"query": "(a", "regex": True}, ["query"]),
        ({"query": "(?<=a)b", "regex": True}, ["query"]),
    ],
)
def test_what_cannot_be_looked_for_is_refused_by_name(session: Session, params: dict[str, Any], loc: list[str]) -> None:
    for error in (session.refuse("context/search", **params), session.server.refuse("session/search", **params)):
        assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, loc)


def test_a_session_that_is_not_open_or_unknown_is_said_to_be(session: Session) -> None:
    assert session.server.refuse("context/search", sessionId="nobody", query="x")["code"] == 4001
    session.call("session/close")
    assert session.refuse("context/search", query="x")["code"] == 4013


@pytest.mark.parametrize("expression", ["(a+)+$", "(x+x+)+y", "(a|aa)+b", "(.*)*=(.*)*;"])
def test_an_expression_that_explodes_elsewhere_does_not_here(session: Session, expression: str) -> None:
    session.append(user("a" * 100_000 + "!" + "x" * 100_000))
    pending = session.start("context/search", query=expression, regex=True)
    session.get_state()
    assert pending.result(60)["matches"] == []


def test_a_message_too_long_for_a_very_large_expression_is_left_out_and_named(session: Session) -> None:
    session.append(user("ab" * 100_000), user("ab7"))
    large = "|".join(f"[ab]{{1,{1000 - number}}}{number}" for number in range(8))
    page = session.start("context/search", query=large, regex=True).result(60)
    assert page["matches"] == [{"index": 1, "ranges": [[0, 3]]}]
    assert page["unread"] == [{"message": "message 0 is too long for so large an expression"}]


def test_the_read_only_and_the_attached_search_like_the_owner(start: StartServer) -> None:
    owner = Session.open(start())
    owner.append(user("needle"))
    owner.checkpoint()
    owner.append(user("needle 2"))
    owner.call("context/revertTo", checkpointId=0)
    expected = owner.call("context/search", query="needle")
    assert len(expected["matches"]) == 3
    attached = owner.reopen(start("ndjson"))
    assert attached.state["access"] == "attached"
    assert attached.call("context/search", query="needle") == expected
    reader = owner.reopen(start(), access="readOnly")
    assert reader.call("context/search", query="needle") == expected


def test_a_damaged_timeline_is_left_out_and_said_to_be(told: Session) -> None:
    before = told.call("context/search", query="answer 1")
    assert before == {"matches": [{"index": 3, "timelineId": "context_1", "ranges": [[0, 8]]}]}
    path = told.path / "context_1.jsonl"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b"answer 1", b"answer X"))
    after = told.call("context/search", query="answer 1")
    assert after["matches"] == [] and after["unread"] == [{"timelineId": "context_1", "message": ANY}]
    assert after["unread"][0]["message"].startswith("line 5 at byte ")
    path.unlink()
    assert hits(told, "needle") == [(None, 0), (None, 2)]


def test_the_whole_store_is_searched_the_session_changed_last_first(start: StartServer) -> None:
    server = start()
    for name in ("one", "two", "three"):
        session = Session.open(server, name)
        session.append(user("hay"), user(f"needle of {name}"))
        session.checkpoint()
        session.append(user("needle gone"))
        session.call("context/revertTo", checkpointId=0)
        session.call("session/close")
        file_time_passes()
    server.call("session/archive", sessionId="one")
    server.call("session/delete", sessionId="two")
    whole = server.call("session/search", query="needle")
    names = [one["sessionId"] for one in server.call("session/list", includeArchived=True)["sessions"]]
    assert whole["matches"] == [
        match
        for name in names
        for match in (
            {"sessionId": name, "index": 1, "ranges": [[0, 6]]},
            {"sessionId": name, "index": 1, "timelineId": "context_1", "ranges": [[0, 6]]},
            {"sessionId": name, "index": 2, "timelineId": "context_1", "ranges": [[0, 6]]},
        )
    ]
    assert set(names) == {"one", "three"}
    assert "nextCursor" not in whole
    for limit in range(1, 7):
        page = server.call("session/search", query="needle", limit=limit)
        found = list(page["matches"])
        while "nextCursor" in page:
            assert len(page["matches"]) <= limit
            page = server.call("session/search", query="needle", limit=limit, cursor=page["nextCursor"])
            found += page["matches"]
        assert found == whole["matches"], limit
    assert server.refuse("session/search", query="other", cursor="made up")["code"] == -32602


def test_sessions_that_are_live_elsewhere_are_searched_and_left_alone(start: StartServer) -> None:
    owner = Session.open(start(), "theirs")
    owner.append(user("needle"))
    other = start("ndjson")
    assert other.call("session/search", query="needle")["matches"] == [
        {"sessionId": "theirs", "index": 0, "ranges": [[0, 6]]}
    ]
    owner.append(user("needle 2"))
    assert [one["index"] for one in other.call("session/search", query="needle")["matches"]] == [0, 1]
    assert owner.get_state()["access"] == "owner"


def test_a_session_that_cannot_be_read_does_not_hide_the_others(start: StartServer, home: Path) -> None:
    server = start()
    for name in ("bad", "good"):
        session = Session.open(server, name)
        session.append(user("needle"))
        session.call("session/close")
    log = home / "sessions" / "bad" / "context.jsonl"
    log.unlink()
    log.symlink_to("/dev/zero")
    found = server.call("session/search", query="needle")
    assert [one["sessionId"] for one in found["matches"]] == ["good"]
    assert [one["sessionId"] for one in found["unread"]] == ["bad"]


MESSAGES = 60_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a log of 60 000 messages in its store."""
    home = tmp_path_factory.mktemp("large") / "home"
    directory = home / "sessions" / "large"
    directory.mkdir(parents=True, mode=0o700)
    write_log(directory / "context.jsonl", MESSAGES, "the quick brown fox " * 20)
    server = Server(Launch(home, "lsp"))
    server.initialize()
    server.start("session/open", sessionId="large").result(120)
    yield server
    server.dispose()


@pytest.mark.timeout(300)
@pytest.mark.long
def test_a_long_search_holds_nobody_up_and_tells_how_far_it_is(large: Server) -> None:
    session, other = Session(large, large.call("session/getState", sessionId="large")), Session.open(large)
    before = psutil.Process(large.process.pid).memory_full_info().uss
    pending = session.start("context/search", query=f"{MESSAGES - 1} the", regex=True, workDoneToken="s")
    answered = 0
    while not answered_to(pending):
        other.append(user("meanwhile"))
        session.call("context/getHistory", limit=1)
        answered += 1
    assert answered >= 3
    assert pending.result()["matches"] == [at_least({"index": MESSAGES - 1})]
    kinds = [m["params"]["value"] for m in pending.heard() if m["method"] == "$/progress"]
    assert (kinds[0]["kind"], kinds[-1]["kind"]) == ("begin", "end")
    percentages = [one["percentage"] for one in kinds if "percentage" in one]
    assert percentages and percentages == sorted(percentages)
    assert psutil.Process(large.process.pid).memory_full_info().uss - before < 40 << 20


@pytest.mark.timeout(300)
def test_a_search_can_be_cancelled(large: Server) -> None:
    session = Session(large, large.call("session/getState", sessionId="large"))
    many = [session.start("context/search", query="nowhere to be found") for _ in range(20)]
    for one in many:
        large.notify("$/cancelRequest", id=one.id)
    replies = [one.reply(60) for one in many]
    refused = [reply["error"]["code"] for reply in replies if "error" in reply]
    assert set(refused) == {-32800}
    assert len(refused) > 10  # one that was done before its cancellation was read has its real result
    assert large.start("session/search", query="0 the quick", limit=1).result(60)["matches"]
