"""Session files of Codex: the present form, the older one, and the oldest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.features.transfer.arrivals import Json, arrived

from timeleap.errors import CorruptedError, TooLargeError
from timeleap_agents.importing import agent_sessions
from timeleap_agents.mirrors.formats import conversion

META = {"id": "019a", "timestamp": "2025-10-29T00:59:38.308Z", "cwd": "/home/ada/shop", "cli_version": "0.46.0"}


def line(kind: str, payload: Any, minute: int = 0) -> Json:
    return {"timestamp": f"2025-10-29T01:{minute:02}:00.000Z", "type": kind, "payload": payload}


def item(kind: str, minute: int = 0, **members: Any) -> Json:
    return line("response_item", {"type": kind, **members}, minute)


def said_by(role: str, words: str, minute: int = 0) -> Json:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": words}
    return item("message", minute, role=role, content=[part])


def calling(call: str, name: str, arguments: str) -> Json:
    made = {"type": "function", "id": call, "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [made]}


def tokens(total: int) -> Json:
    return line(
        "event_msg", {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 1, "total_tokens": total}}}
    )


def meta(**more: Any) -> Json:
    return line("session_meta", {**META, **more})


def contents(messages: list[Json]) -> list[Any]:
    return [one["content"] for one in messages]


def test_a_conversation_with_tools(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        meta(base_instructions={"text": "You are Codex."}),
        said_by("developer", "Be terse."),
        said_by("user", "<environment_context>\n  <cwd>/home/ada/shop</cwd>\n</environment_context>"),
        line("event_msg", {"type": "user_message", "message": "Why?"}),
        line("turn_context", {"cwd": "/home/ada/shop", "model": "gpt-5"}),
        said_by("user", "Why is it broken?", 5),
        item("reasoning", summary=[{"type": "summary_text", "text": "Look."}], encrypted_content="Z2Y="),
        said_by("assistant", "I look."),
        item("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        tokens(1200),
        item("function_call_output", call_id="c1", output="a.py"),
        item("custom_tool_call_output", call_id="c2", output={"content": "done", "success": True}),
        item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["true"]}),
        item("function_call_output", call_id="c3", output=[{"type": "input_text", "text": "ok"}]),
        said_by("assistant", "Mended."),
    )
    assert came.records() == [
        {"role": "_system_prompt", "content": "You are Codex."},
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "<environment_context>\n  <cwd>/home/ada/shop</cwd>\n</environment_context>"},
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "Why is it broken?"},
        {"role": "assistant", "content": [{"type": "think", "think": "Look.", "encrypted": "Z2Y="}]},
        {"role": "assistant", "content": "I look."},
        calling("c1", "shell", '{"command":["ls"]}'),
        calling("c2", "apply_patch", '{"input": "*** Begin"}'),
        {"role": "_usage", "token_count": 1200},
        {"role": "tool", "content": "a.py", "tool_call_id": "c1"},
        {"role": "tool", "content": "done", "tool_call_id": "c2"},
        calling("c3", "local_shell", '{"type": "exec", "command": ["true"]}'),
        {"role": "tool", "content": "ok", "tool_call_id": "c3"},
        {"role": "assistant", "content": "Mended."},
    ]
    (mark,) = came.marks()
    assert (mark["l"], mark["t"]) == ("Why is it broken?", "2025-10-29T01:05:00.000Z")
    assert came.notes["workspace"] == "file:///home/ada/shop"
    assert came.notes["createdAt"] == "2025-10-29T00:59:38.308Z"
    assert came.notes["importedFrom"]["sessionId"] == "019a"
    assert came.losses == {"events": "1 prompts stand in events alone"}


def test_turns_that_were_rolled_back_become_a_timeline(tmp_path: Path) -> None:
    turns = [turn for n in range(3) for turn in (said_by("user", f"Q{n}"), said_by("assistant", f"A{n}"))]
    came = arrived(
        tmp_path,
        meta(),
        *turns,
        line("event_msg", {"type": "thread_rolled_back", "num_turns": 2}),
        said_by("user", "Q9"),
    )
    assert contents(came.messages()) == ["Q0", "A0", "Q9"]
    assert [one["id"] for one in came.records() if one["role"] == "_checkpoint"] == [0, 1]
    assert came.timelines == {"context_1.jsonl": "revert"}
    assert contents(came.messages("context_1.jsonl")) == ["Q0", "A0", "Q1", "A1", "Q2", "A2"]


def test_a_small_file_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_sessions, "MAX_TIMELINE_BYTES", 1_500)
    back = [line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}), said_by("user", "Q")]
    came = arrived(tmp_path, meta(), said_by("user", "x" * 1000), said_by("user", "Q"), *back * 9)
    assert len(came.timelines) == 2
    assert came.losses == {"timelines": "7 earlier states or branches beyond 0 MiB"}
    assert [len(one) for one in contents(came.messages())] == [1000, 1]


@pytest.mark.parametrize(
    ("compacted", "now"),
    [
        ({"message": "In short.", "replacement_history": [said_by("user", "Q0")["payload"], said_by("user", "In short.")["payload"]]}, ["Q0", "In short.", "Q1"]),
        ({"message": "In short."}, ["Q0", "In short.", "Q1"]),
    ],
)  # fmt: skip
def test_what_was_compacted_becomes_a_timeline(tmp_path: Path, compacted: Json, now: list[str]) -> None:
    before = [meta(base_instructions={"text": "Base."}), said_by("user", "Q0"), said_by("assistant", "A0")]
    came = arrived(tmp_path, *before, line("compacted", compacted), said_by("user", "Q1"))
    assert came.records()[0] == {"role": "_system_prompt", "content": "Base."}
    assert contents(came.messages()) == now
    assert came.timelines == {"context_1.jsonl": "compact"}
    assert contents(came.messages("context_1.jsonl")) == ["Q0", "A0"]


def test_the_older_form_has_bare_items(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        {"id": "5973", "timestamp": "2025-07-01T10:00:00Z", "instructions": "Old base.", "git": {}},
        {"record_type": "state"},
        said_by("user", "Q0")["payload"],
        item("reasoning", id="rs", summary=[])["payload"],
        said_by("assistant", "A0")["payload"],
    )
    assert [one["role"] for one in came.records()] == [
        "_system_prompt",
        "_checkpoint",
        "user",
        "assistant",
        "assistant",
    ]
    assert came.notes["createdAt"] == "2025-07-01T10:00:00.000Z"
    assert came.losses == {}


OLDEST: Json = {
    "session": {"timestamp": "2025-04-17T10:00:00.000Z", "id": "8d14", "instructions": "Old base."},
    "items": [
        said_by("user", "Q0")["payload"],
        item("reasoning", id="rs", summary=[], duration_ms=2400)["payload"],
        item("function_call", id="f1", name="shell", arguments='{"command":["ls"]}', status="completed")["payload"],
        item("function_call_output", call_id="f1", output='{"output":"a.py","metadata":{"exit_code":0}}')["payload"],
        said_by("assistant", "A0")["payload"],
    ],
}


@pytest.mark.parametrize("indent", [2, None])
def test_the_oldest_form_is_one_document(tmp_path: Path, indent: int | None) -> None:
    came = arrived(tmp_path, json.dumps(OLDEST, indent=indent))
    assert [one["role"] for one in came.records()] == [
        *("_system_prompt", "_checkpoint", "user", "assistant", "assistant", "tool", "assistant"),
    ]
    assert came.messages()[2]["tool_calls"][0]["id"] == came.messages()[3]["tool_call_id"] == "f1"
    assert came.notes["createdAt"] == "2025-04-17T10:00:00.000Z"
    assert came.notes["importedFrom"]["sessionId"] == "8d14"
    assert came.losses == {}


def test_odd_things_in_the_oldest_form_do_no_harm(tmp_path: Path) -> None:
    came = arrived(
        tmp_path, json.dumps({"session": {}, "items": [7, {}, {"type": "message", "role": "user", "content": "Q0"}]})
    )
    assert contents(came.messages()) == ["Q0"]
    assert came.losses == {"records": "1 records are of no known kind", "items": "1 items are no JSON objects"}


def test_a_document_that_is_cut_short_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(OLDEST, indent=2)
    with pytest.raises(CorruptedError, match="cut short"):
        arrived(tmp_path, text[:-200])
    monkeypatch.setattr(conversion, "MAX_LINE", len(text) - 1)
    (tmp_path / "more").mkdir()
    with pytest.raises(TooLargeError, match="one JSON document"):
        arrived(tmp_path / "more", text)


def test_what_has_no_place_is_told(tmp_path: Path) -> None:
    came = arrived(
        tmp_path,
        meta(),
        item("web_search_call", action={"query": "x"}),
        item("message", role="martian", content="x"),
        item("message", role="user", content=[{"type": "input_file"}, {"type": "input_image", "image_url": "data:,"}]),
        line("dream", {}),
        "[]",
    )
    assert came.losses == {
        "items": "1 messages have a role that is not known",
        "parts": "1 parts of the type input_file have no place in a message",
        "records": "1 records of the type dream are not known",
        "lines": "1 lines are no JSON objects",
    }
    losses = [loss["message"] for loss in came.notes["importedFrom"]["losses"]]
    assert any(loss.startswith("1 items of the type web_search_call") for loss in losses)
    assert contents(came.messages()) == [[{"type": "image_url", "image_url": {"url": "data:,"}}]]


@pytest.mark.parametrize(
    "records",
    [
        [{"type": "response_item", "payload": {}}, {"type": "response_item", "payload": {"type": ["x"]}}],
        [line("session_meta", {}), line("event_msg", {"type": "token_count", "info": {"last_token_usage": {"total_tokens": -1}}})],
        [line("event_msg", {"type": "thread_rolled_back", "num_turns": 10**9}), line("event_msg", {"type": "thread_rolled_back"})],
        [line("compacted", {}), line("compacted", {"replacement_history": [1, {}, []]})],
        [item("function_call"), item("function_call_output", output=[{"type": []}, 1]), item("reasoning", summary=7), item("message", role=1, content=2)],
        [said_by("user", "Q0"), line("event_msg", {"type": "thread_rolled_back", "num_turns": 5}), said_by("user", "Q1")],
    ],
)  # fmt: skip
def test_odd_records_do_no_harm(tmp_path: Path, records: list[Json]) -> None:
    came = arrived(tmp_path, meta(), *records, said_by("user", "Heard."), name="codex")
    assert all(json.dumps(one) for one in came.records())
