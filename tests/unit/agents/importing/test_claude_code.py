"""Session files of Claude Code: a tree of records becomes a log, and its other branches timelines."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.unit.features.transfer.arrivals import Json, arrived

numbers = itertools.count(1)


def record(uuid: str, parent: str | None, kind: str, message: Json | None = None, **more: Any) -> Json:
    time = f"2025-05-26T07:{next(numbers) % 60:02}:00.000Z"
    common = {"isSidechain": False, "cwd": "/home/ada/shop", "sessionId": "4f35", "version": "2.0.1", "timestamp": time}
    return {
        "uuid": uuid,
        "parentUuid": parent,
        "type": kind,
        **common,
        **({"message": message} if message else {}),
        **more,
    }


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> Json:
    return record(uuid, parent, "user", {"role": "user", "content": content}, **more)


def answer(uuid: str, parent: str | None, *blocks: Json, id: str = "", **usage: int) -> Json:
    message: Json = {"id": id or f"msg_{uuid}", "role": "assistant", "model": "claude", "content": list(blocks)}
    return record(uuid, parent, "assistant", {**message, **({"usage": usage} if usage else {})})


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(call: str, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": arguments}


def result(call: str, content: Any) -> list[Json]:
    return [{"type": "tool_result", "tool_use_id": call, "content": content}]


def said(messages: list[Json]) -> list[Any]:
    return [one["content"] for one in messages]


def test_a_conversation_with_a_tool(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"}
    came = arrived(
        tmp_path,
        {"type": "summary", "summary": "The broken shop", "leafUuid": "d"},
        user("a", None, "Why is it broken?"),
        answer("b", "a", thought, id="m1"),
        answer("c", "b", text("I look."), id="m1"),
        answer("d", "c", use("t1", command="ls -l", ünï="ü"), id="m1", input_tokens=5, cache_read_input_tokens=100, output_tokens=7),
        user("e", "d", result("t1", "a.py"), toolUseResult={"stdout": "a.py"}),
        answer("f", "e", text("Found it.")),
        user("g", "f", [text("And this?"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aWJ"}}]),
    )  # fmt: skip
    call = {
        "type": "function",
        "id": "t1",
        "function": {"name": "Bash", "arguments": '{"command": "ls -l", "ünï": "ü"}'},
    }
    assert came.records() == [
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "Why is it broken?"},
        {"role": "assistant", "content": [{"type": "think", "think": "Look first.", "encrypted": "c2ln"}]},
        {"role": "assistant", "content": "I look."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "_usage", "token_count": 112},
        {"role": "tool", "content": "a.py", "tool_call_id": "t1"},
        {"role": "assistant", "content": "Found it."},
        {"role": "_checkpoint", "id": 1},
        {
            "role": "user",
            "content": [text("And this?"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWJ"}}],
        },
    ]
    assert [one["l"] for one in came.marks()] == ["Why is it broken?", "And this?"]
    assert all(one["t"].startswith("2025-05-26T07:") for one in came.marks())
    assert (came.state["custom_title"], came.notes["workspace"]) == ("The broken shop", "file:///home/ada/shop")
    assert came.notes["createdAt"].startswith("2025-05-26T07:")
    assert came.notes["importedFrom"]["sessionId"] == "4f35"
    assert came.losses == {}


def test_results_of_calls_made_at_once_stand_aside_in_the_tree_but_not_in_the_log(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        user("a", None, "Both, please."),
        answer("b", "a", use("t1"), id="m1"),
        answer("c", "b", use("t2"), id="m1"),
        user("d", "b", result("t1", "one")),
        user("e", "c", result("t2", [text("two")])),
        answer("f", "e", text("Done.")),
    )
    assert [one.get("tool_call_id") for one in came.messages()] == [None, None, None, "t1", "t2", None]
    assert came.timelines == {}


def test_what_was_said_before_redo_from_here_becomes_a_timeline(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        user("a", None, "Begin."),
        answer("b", "a", text("Ready.")),
        user("c", "b", "This way."),
        answer("d", "c", text("Hm.")),
        user("e", "b", "That way."),
        answer("f", "e", text("Yes.")),
    )
    assert said(came.messages()) == ["Begin.", "Ready.", "That way.", "Yes."]
    assert came.timelines == {"context_1.jsonl": "import"}
    assert said(came.messages("context_1.jsonl")) == ["Begin.", "Ready.", "This way.", "Hm."]


def test_what_was_compacted_becomes_a_timeline(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        user("a", None, "Long ago."),
        answer("b", "a", text("Indeed.")),
        record(
            "c", None, "system", subtype="compact_boundary", logicalParentUuid="b", content="Conversation compacted"
        ),
        user("d", "c", "This session is continued: long ago.", isCompactSummary=True),
        user("e", "d", "And now?"),
    )
    assert said(came.messages()) == ["This session is continued: long ago.", "And now?"]
    assert [one["l"] for one in came.marks()] == ["And now?"]
    assert came.timelines == {"context_1.jsonl": "compact"}
    assert said(came.messages("context_1.jsonl")) == ["Long ago.", "Indeed."]


def test_what_has_no_place_is_told(tmp_path: Path) -> None:
    failed = answer("e", "d", text("API Error: 529"))
    came = arrived(
        tmp_path,
        {"type": "file-history-snapshot", "messageId": "a", "snapshot": {}},
        {"type": "queue-operation", "operation": "enqueue", "sessionId": "4f35"},
        user("a", None, [text("Read this."), {"type": "document", "source": {}}]),
        {**user("b", None, "Find it."), "isSidechain": True},
        {**answer("c", "b", text("Found.")), "isSidechain": True},
        "{broken",
        '"a string"',
        answer("d", "a", text("\ud800 half")),
        {**failed, "isApiErrorMessage": True},
    )
    assert said(came.messages()) == ["Read this.", "? half", "API Error: 529"]
    assert came.losses == {
        "lines": "2 lines are no JSON objects",
        "sidechains": "2 messages of sub-agents stand in sidechains",
        "parts": "1 parts of the type document have no place in a message",
    }


def test_the_file_of_a_sub_agent_is_a_conversation_too(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        {**user("a", None, "Find it."), "isSidechain": True},
        {**answer("b", "a", text("Here.")), "isSidechain": True},
    )
    assert said(came.messages()) == ["Find it.", "Here."]
    assert came.losses == {}


def test_a_title_of_the_users_own_goes_first(tmp_path: Path) -> None:
    titles = [
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"},
        {"type": "summary", "summary": "Its", "leafUuid": "a"},
    ]
    assert arrived(tmp_path, *titles, user("a", None, "x")).state["custom_title"] == "Mine"


@pytest.mark.parametrize(
    "records",
    [
        [user("a", "a", "My own parent."), user("b", "c", "x"), user("c", "b", "A ring.")],
        [user("a", None, "x"), record("b", None, "system", subtype="compact_boundary", logicalParentUuid="c"), user("c", "b", "y")],
        [user("a", "nobody", "An orphan.")],
        [user("a", None, None), user("b", "a", 7), user("c", "b", [1, None, {"type": 3}, "x"]), answer("d", "c", {})],
        [{"type": "user", "uuid": "a", "message": []}, {"type": "user", "uuid": 3, "message": {}}, {"type": ["x"], "uuid": "x"}],
        [{"type": "summary", "summary": 7, "leafUuid": "x"}],
        [user("a", None, "x", timestamp="yesterday", cwd="../here")],
        [user("a", None, result("t1", {"deep": 1})), answer("b", "a", {"type": "tool_use"})],
    ],
)  # fmt: skip
def test_odd_trees_do_no_harm(tmp_path: Path, records: list[Json]) -> None:
    came = arrived(
        tmp_path,
        {"type": "summary", "summary": "x", "leafUuid": "x"},
        *records,
        user("z", None, "Heard."),
        name="claude-code",
    )
    assert (came.directory / "context.jsonl").exists()


def test_records_that_name_no_parent_follow_each_other(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        user("a", None, "Begin."),
        answer("b", None, use("t1")),
        user("c", None, result("t1", "one")),
        answer("d", None, text("Done.")),
    )
    assert said(came.messages()) == ["Begin.", "", "one", "Done."]
    assert came.timelines == {} and came.losses == {}


def test_more_branches_than_a_session_keeps_are_counted(tmp_path: Path) -> None:
    branches = [user(f"b{number}", "a", f"Way {number}.") for number in range(60)]
    came = arrived(tmp_path, user("a", None, "Begin."), *branches)
    assert len(came.timelines) == 50
    assert came.losses == {"branches": "9 older branches of the conversation"}
    assert said(came.messages("context_50.jsonl")) == ["Begin.", "Way 58."]
    assert said(came.messages("context_1.jsonl")) == ["Begin.", "Way 9."]
