"""`context/compact` and `context/prepareCompaction` (here: the built-in summariser and summaries handed in)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_COUNT, A_STRING, HEAD, at_least, containing
from tests.support.server import Server
from tests.support.session import Session, assistant, user

PREFACE = "<system>Previous context has been compacted. Here is the compaction output:</system>"
KINDS = ("paths", "identifiers", "errors", "todos", "constraints")


@pytest.fixture
def long(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="be kind")
    session.checkpoint()
    for number in range(10):
        session.append(user(f"question {number} " + "x" * 400), assistant(f"answer {number} " + "y" * 400))
    session.call("context/updateTokenCount", tokenCount=2000)
    session.say("last question" + "z" * 40)
    return session


def test_a_summary_handed_in_takes_the_place_of_the_older_messages(long: Session) -> None:
    before = long.log.read_bytes()
    preserved = long.history()[-2:]
    pending = long.get_state()["context"]["tokenCountWithPending"]
    result = long.call("context/compact", summary="All is well.")
    context = long.get_state()["context"]
    assert result == {
        "head": HEAD,
        "compacted": True,
        "timelineId": "context_1",
        "summary": "All is well.",
        "removedMessages": 19,
        "preservedMessages": 2,
        "tokenCountBefore": pending,
        "tokenCountAfter": context["tokenCount"],
        "context": context,
        "summarizer": "caller",
        "scorecard": {kind: {"found": 0, "kept": 0, "lost": []} for kind in KINDS},
    }
    assert (long.path / "context_1.jsonl").read_bytes() == before
    records = long.records()
    assert [record["role"] for record in records] == [
        "_system_prompt",
        "_checkpoint",
        "user",
        "assistant",
        "user",
        "_usage",
    ]
    assert records[0]["content"] == "be kind"
    assert (records[1]["id"], records[1]["_tl"]["l"]) == (0, "compacted")
    assert [part["text"] for part in records[2]["content"]] == [PREFACE, "All is well."]
    assert long.history()[1:] == preserved
    assert 0 < context["tokenCount"] < pending
    assert context["checkpoints"] == [at_least({"id": 0, "label": "compacted", "messageCount": 0})]


def test_the_built_in_summariser_needs_nothing(long: Session) -> None:
    for params in ({}, {"summarizer": "builtin"}):
        result = long.call("context/compact", **params)
        assert result == at_least({"compacted": True, "summary": A_STRING, "preservedMessages": 2})
        assert result["tokenCountAfter"] < result["tokenCountBefore"]
        long.call("context/restoreTimeline", timelineId=result["timelineId"])


def test_a_dry_run_says_whether_it_would_and_changes_nothing(long: Session) -> None:
    before, state = long.log.read_bytes(), long.get_state()
    result = long.call("context/compact", dryRun=True, summary="x")
    assert (result["compacted"], result["removedMessages"]) == (True, 19) and "timelineId" not in result
    assert (long.log.read_bytes(), long.get_state()) == (before, state)


def test_nothing_to_compact_is_no_error(session: Session) -> None:
    assert session.call("context/compact") == {
        "head": HEAD,
        "compacted": False,
        "reason": A_STRING,
        "removedMessages": 0,
        "preservedMessages": 0,
        "tokenCountBefore": 0,
        "tokenCountAfter": 0,
        "context": session.get_state()["context"],
    }
    session.say("a", "b")
    result = session.call("context/compact", summary="x")
    assert (result["compacted"], result["preservedMessages"], session.texts()) == (False, 2, ["a", "b"])
    assert session.timelines() == []


def test_a_summary_that_would_make_it_longer_is_refused_the_same_way(long: Session) -> None:
    before = long.log.read_bytes()
    result = long.call("context/compact", summary="x" * 100_000)
    assert (result["compacted"], result["reason"]) == (False, A_STRING)
    assert long.log.read_bytes() == before and long.timelines() == []


def test_how_many_messages_stay_can_be_said(long: Session) -> None:
    preserved = long.history()[-5:]
    result = long.call("context/compact", summary="s", maxPreservedMessages=5)
    assert (result["preservedMessages"], result["removedMessages"]) == (5, 16)
    assert long.history()[1:] == preserved


@pytest.mark.parametrize("value", [0, -1, "2", 1.5, True])
def test_at_least_one_message_stays(long: Session, value: Any) -> None:
    for method in ("context/compact", "context/prepareCompaction"):
        error = long.refuse(method, maxPreservedMessages=value)
        assert error["code"] == -32602
        assert [problem["loc"] for problem in error["data"]["errors"]] == [["maxPreservedMessages"]]


@pytest.mark.parametrize(
    "params", [{"summarizer": "magic"}, {"summary": 5}, {"customInstruction": []}, {"dryRun": "no"}]
)
def test_params_of_the_wrong_type_are_refused_by_name(long: Session, params: dict[str, Any]) -> None:
    error = long.refuse("context/compact", **params)
    assert [problem["loc"] for problem in error["data"]["errors"]] == [list(params)]


def test_a_tool_call_is_never_parted_from_its_result(session: Session) -> None:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in range(2)]
    session.append(*[user("x" * 400) for _ in range(5)])
    session.append({"role": "assistant", "content": "calling", "tool_calls": calls})
    session.append(*[{"role": "tool", "content": f"result {n}", "tool_call_id": f"c{n}"} for n in range(2)])
    session.append(user("thanks"))
    session.call("context/compact", summary="s", maxPreservedMessages=1)
    history = session.history()
    answered = {message["tool_call_id"] for message in history if message["role"] == "tool"}
    asked = {call["id"] for message in history for call in message.get("tool_calls", [])}
    assert answered == asked


def test_prepare_tells_what_a_summariser_would_be_asked(long: Session) -> None:
    before = long.get_state()
    prepared = long.call("context/prepareCompaction", customInstruction="mind the gap")
    assert prepared == {"systemPrompt": A_STRING, "prompt": at_least({"role": "user"}), "preservedFrom": 19}
    text = str(prepared["prompt"]["content"])
    assert "question 0" in text and "answer 8" in text and "mind the gap" in text
    assert "last question" not in text
    assert long.get_state() == before


def test_prepare_with_nothing_to_compact(session: Session) -> None:
    session.say("a")
    assert session.call("context/prepareCompaction") == {"systemPrompt": A_STRING, "prompt": None, "preservedFrom": 0}


def test_only_text_reaches_the_summariser_and_tool_calls_as_text(session: Session) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "search_tool", "arguments": '{"q":"needle"}'}}
    session.append(
        {
            "role": "user",
            "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:IMG"}}],
        },
        {"role": "assistant", "content": [{"type": "think", "think": "SECRET THOUGHT"}], "tool_calls": [call]},
        {"role": "tool", "content": "tool says 42", "tool_call_id": "1"},
        user("x"),
        assistant("y"),
    )
    prompt = session.call("context/prepareCompaction")["prompt"]
    text = str(prompt)
    assert "data:IMG" not in text
    assert {part["type"] for part in prompt["content"]} == {"text"}
    for word in ("see", "search_tool", "needle", "tool says 42"):
        assert word in text


def test_a_compacted_session_compacts_again(long: Session) -> None:
    long.call("context/compact", summary="first summary")
    long.append(*[user("more " + "m" * 400) for _ in range(6)])
    result = long.call("context/compact", summary="second summary")
    assert result["compacted"] is True
    assert [part["text"] for part in long.history()[0]["content"]] == [PREFACE, "second summary"]
    assert long.get_state()["context"]["systemPrompt"] == "be kind"
    assert result == at_least({"tokenCountBefore": A_COUNT, "tokenCountAfter": A_COUNT})


def test_a_compacted_session_without_a_system_prompt(session: Session) -> None:
    session.append(*[user("m" * 400) for _ in range(6)])
    session.call("context/compact", summary="s")
    assert [record["role"] for record in session.records()] == ["_checkpoint", "user", "user", "user", "_usage"]
    assert session.call("context/revertTo", checkpointId=0)["context"]["messageCount"] == 0


def test_a_summariser_that_is_not_there_is_a_clear_failure(long: Session) -> None:
    before = long.log.read_bytes()
    for summarizer in ("client", "server"):
        error = long.refuse("context/compact", summarizer=summarizer)
        assert error["code"] in (4006, -32602), error
        assert error["message"] == containing("")
    assert long.log.read_bytes() == before


def working(session: Session, turns: int, *, result: str = "ok") -> None:
    """An agent that works by tool calls, says nothing, and reports no usage."""
    session.append(user("Fix it."))
    for turn in range(turns):
        function = {"name": "write_file", "arguments": json.dumps({"path": f"f{turn}.py", "text": "x = 1\n" * 50})}
        call = {"id": f"c{turn}", "type": "function", "function": function}
        session.append(
            {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": f"c{turn}", "content": result}
        )


@pytest.mark.parametrize("summary", [{"summary": "All files were written. " * 20}, {"summarizer": "builtin"}])
def test_what_a_summary_replaces_is_more_than_text(session: Session, summary: dict[str, str]) -> None:
    working(session, 12)
    done = session.call("context/compact", **summary)
    assert done == at_least({"compacted": True, "timelineId": "context_1"})


def test_a_summary_longer_than_the_calls_it_replaces_is_refused(session: Session) -> None:
    working(session, 2)
    done = session.call("context/compact", summary="All files were written. " * 100)
    assert done["compacted"] is False and "longer" in done["reason"]
    assert session.timelines() == []


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("preserved", [1, 2], ids=["longer", "nothing to compact"])
def test_a_refusal_that_is_asked_for_again_stays_one(start: StartServer, preserved: int, crash: bool) -> None:
    server = start()
    session = Session.open(server, "s")
    session.say("a", "b")
    asked = {"summary": "in short " * 9, "maxPreservedMessages": preserved, "requestId": "c"}
    first = session.call("context/compact", **asked)
    assert first["compacted"] is False
    session.append(*[user("x" * 400) for _ in range(9)])
    if crash:
        server.kill()
        session = Session.open(start(), "s")
    again = session.call("context/compact", **asked)
    assert again == {**first, "duplicate": True, "head": session.head}
    assert session.timelines() == []
    assert session.refuse("context/compact", **{**asked, "summary": "other"})["code"] == -32602
    assert session.call("context/compact", **{**asked, "requestId": "new"})["compacted"] is True


@pytest.mark.parametrize("params", [{}, {"summary": "short"}, {"summary": "short", "dryRun": True}])
def test_a_conversation_that_claude_code_keeps_here_is_left_to_its_own_command(server: Server, params: Any) -> None:
    session = Session.open(server, source={"kind": "claude-code", "key": '["p", "s"]'})
    session.say(*(f"turn {number} " + "x" * 400 for number in range(6)))
    log = session.log.read_bytes()
    error = session.refuse("context/compact", maxPreservedMessages=1, **params)
    assert (error["code"], error["data"]["retryable"]) == (4006, False)
    assert "/compact" in error["message"]
    assert session.log.read_bytes() == log


def test_a_fork_of_such_a_conversation_is_compacted_like_any_other(server: Server) -> None:
    session = Session.open(server, source={"kind": "claude-code", "key": '["p", "f"]'})
    session.say(*(f"turn {number} " + "x" * 400 for number in range(6)))
    fork = Session.open(server, session.call("session/fork")["sessionId"])
    assert fork.call("context/compact", maxPreservedMessages=1, summary="short")["compacted"] is True
