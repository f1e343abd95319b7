"""A message without `content`: on disk what the original can open, on the wire what its sender wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.matching import at_least
from tests.support.server import Message, Server
from tests.support.session import Session, assistant, user

CALL: Message = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS: Message = {"role": "assistant", "tool_calls": [CALL]}
NULL: Message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: Message = {"role": "tool", "tool_call_id": "c1", "content": "done"}
ODD: Message = {"role": "user"}
NESTED: Message = {
    "role": "assistant",
    "extra": {"content": None, "_tl": {"a": 1}},
    "name": ',"content":null,"_tl":{"a":1}}',
}


@pytest.mark.parametrize("message", [CALLS, ODD, NESTED])
def test_it_is_written_with_null_and_comes_back_as_it_was_sent(server: Server, message: Message) -> None:
    session = Session.open(server)
    session.append(user("go"), message, NULL, RESULT)
    session.call("context/appendMessage", message=message, requestId="r")
    (line,) = [one for one in session.lines() if one.get("_tl", {}).get("r") == "r"]
    assert line == {**message, "content": None, "_tl": at_least({"a": 1, "r": "r"})}
    assert list(line)[-2:] == ["content", "_tl"]
    history = session.history()
    assert history == [user("go"), message, NULL, RESULT, message]
    assert [list(one) for one in history] == [list(user("go")), list(message), list(NULL), list(RESULT), list(message)]
    assert session.get_state()["warnings"] == []
    again = session.call("context/appendMessage", message=message, requestId="r")
    assert again["duplicate"] is True
    assert (
        session.refuse("context/appendMessage", message={**message, "content": None}, requestId="r")["code"] == -32602
    )
    session.call("session/close")
    for index in session.path.glob(".*.idx"):
        index.unlink()
    reader = session.reopen(server, access="readOnly")
    assert (reader.history(), reader.state["warnings"]) == (history, [])


def test_it_stays_so_through_everything_that_makes_a_log_anew(server: Server, tmp_path: Any) -> None:
    session = Session.open(server)
    session.append(user("secret one"), CALLS, RESULT, assistant("two"))
    session.checkpoint()
    session.append(user("more"), CALLS, RESULT, assistant("at last"))
    whole = session.history()
    reverted = session.call("context/revertTo", checkpointId=0)
    assert session.history() == whole[:4]
    assert session.history(timelineId=reverted["timelineId"]) == whole
    session.call("context/restoreTimeline", timelineId=reverted["timelineId"])
    assert session.history() == whole
    fork = Session(server, session.call("session/fork"))
    assert fork.history() == whole
    archive = str(tmp_path / "archive.zip")
    session.call("session/export", format="native", path=archive)
    assert Session(server, server.call("session/import", path=archive)).history() == whole
    assert session.call("context/diff", **{"from": {"timelineId": reverted["timelineId"]}, "to": {}})["common"] == 8
    assert [one["index"] for one in session.call("context/search", query="at last", timelines=False)["matches"]] == [7]
    session.call("session/redact", value="secret")
    assert session.history()[1:] == whole[1:]
    session.call("context/compact", summary="They went.", maxPreservedMessages=2)
    assert CALLS in session.history()
    assert b'"tool_calls"' in session.log.read_bytes() and b'"content":null' in session.log.read_bytes()


def test_a_batch_cut_through_leaves_it_whole(server: Server) -> None:
    session = Session.open(server)
    session.append(user("go"), CALLS, RESULT, user("on"), CALLS, RESULT)
    plan = session.call("context/getHistory", **{"from": 1, "to": 2})["messages"]
    assert plan[0]["message"] == CALLS
    lines = session.lines()
    session.call("session/close")
    session.log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in reversed(lines)))
    assert session.reopen(server).history() == [RESULT, CALLS, user("on"), RESULT, CALLS, user("go")]


def test_another_program_may_have_moved_the_mark(server: Server) -> None:
    session = Session.open(server)
    session.append(CALLS)
    (line,) = session.lines()
    session.call("session/close")
    moved = {"_tl": line["_tl"], "content": None, "role": "assistant", "tool_calls": [CALL]}
    said = {**line, "content": "now something was said"}
    session.log.write_text(json.dumps(moved) + "\n" + json.dumps(said, separators=(",", ":")) + "\n")
    history = session.reopen(server).history()
    assert history == [CALLS, {**CALLS, "content": "now something was said"}]


def test_the_records_show_what_stands_in_the_log(server: Server) -> None:
    session = Session.open(server)
    session.append(CALLS)
    assert session.records() == [{**CALLS, "content": None, "_tl": {"a": 1}}]
    body = session.call("context/getHistory", format="openai")["body"]["messages"]
    assert [one.get("content") for one in body if one["role"] == "assistant"] == [None]
