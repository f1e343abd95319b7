from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from timeleap_agents.hooks import hook
from timeleap_agents.hooks.hook import FIRST_SECONDS, MAX_INPUT, SECONDS, _Deadline, _LeftAloneError, read_event
from timeleap_agents.hooks.host import AgentSession

PROMPT = {"hook_event_name": "UserPromptSubmit", "transcript_path": "/c/p/s.jsonl", "cwd": "/work", "prompt": "hi"}


def told(**members: Any) -> bytes:
    return json.dumps({**PROMPT, **members}).encode()


def test_an_event_is_told_without_what_was_said() -> None:
    event = {"kind": "claude-code", "event": "prompt", "path": "/c/p/s.jsonl", "cwd": "/work"}
    assert read_event("claude-code", told()) == event
    tool = read_event("codex", told(hook_event_name="PostToolUse", tool_name="Bash", tool_response={"out": "secret"}))
    assert tool == {**event, "kind": "codex", "event": "tool", "toolName": "Bash"}
    names = {"BeforeAgent": "prompt", "AfterTool": "tool", "AfterAgent": "stop", "SessionEnd": "end"}
    for name, meaning in names.items():
        assert read_event("gemini", told(hook_event_name=name))["event"] == meaning


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (told(hook_event_name="PreToolUse"), "not one that counts"),
        (told(hook_event_name=["Stop"]), "not one that counts"),
        (told(transcript_path=None), "no transcript"),
        (told(transcript_path="relative.jsonl"), "no transcript"),
        (b"[]", "no JSON object"),
        (b" " * (MAX_INPUT + 1), "more than"),
    ],
)
def test_what_is_no_event_of_interest_is_left_alone(data: bytes, says: str) -> None:
    with pytest.raises(_LeftAloneError, match=says):
        read_event("claude-code", data)


def test_a_folder_or_a_tool_of_the_wrong_kind_is_left_out() -> None:
    event = read_event("claude-code", told(hook_event_name="PostToolUse", cwd=5, tool_name={}))
    assert event == {"kind": "claude-code", "event": "tool", "path": "/c/p/s.jsonl"}
    assert len(read_event("c", told(hook_event_name="PostToolUse", tool_name="x" * 999))["toolName"]) == 200


def test_a_deadline_is_put_off_for_a_first_prompt_and_no_further() -> None:
    deadline = _Deadline()
    assert deadline.at == deadline.began + SECONDS
    deadline.allow(0.0)
    assert deadline.at == deadline.began + SECONDS
    deadline.allow(1e9)
    assert deadline.at == deadline.began + FIRST_SECONDS


def test_a_log_that_has_grown_too_large_is_begun_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "MAX_LOG", 100)
    log = tmp_path / "hooks" / "hook.log"
    for number in range(20):
        logged = threading.Lock()
        logged.acquire()
        hook._log(["--home", str(tmp_path), "hook", "claude-code"], f"reason {number}", logged)
        assert not logged.locked()
        assert log.stat().st_size < 300
    assert "reason 19" in log.read_text()


class Server:
    """Takes the events that a session hands on."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def call(self, event: dict[str, Any]) -> dict[str, Any]:
        self.events.append(event)
        return {"sessionId": "s"}


def tool(name: str) -> dict[str, Any]:
    return {"event": "tool", "toolName": name}


async def test_tools_that_follow_each_other_are_one_event() -> None:
    server, session = Server(), AgentSession()
    for name in ("Edit", "Bash", "Write"):
        session.tell_later(server.call, tool(name))
    assert session.busy
    await session.finish(server.call)
    assert server.events == [tool("Write")]
    assert not session.busy


async def test_a_prompt_takes_the_place_of_a_tool_that_waits() -> None:
    server, session = Server(), AgentSession()
    session.tell_later(server.call, tool("Edit"))
    await session.tell(server.call, {"event": "prompt"})
    await session.finish(server.call)
    assert server.events == [{"event": "prompt"}]
    assert session.prompted


async def test_the_end_of_a_turn_waits_for_nobody_and_nobody_for_it() -> None:
    server, session = Server(), AgentSession()
    session.tell_later(server.call, {"event": "stop"})
    assert server.events == []
    await session.finish(server.call)
    assert server.events == [{"event": "stop"}]


async def test_the_end_of_a_session_takes_no_snapshot_so_a_tool_that_waits_gets_its_own() -> None:
    server, session = Server(), AgentSession()
    session.tell_later(server.call, tool("Edit"))
    await session.tell(server.call, {"event": "end"})
    await session.finish(server.call)
    assert sorted(event["event"] for event in server.events) == ["end", "tool"]
