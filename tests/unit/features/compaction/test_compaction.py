"""Compaction without I/O: the trigger, what is kept, what the summariser sees, what the new log holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeleap import should_auto_compact
from timeleap.features.compaction.prepare import (
    COMPACT,
    preserved_from,
    prompt_message,
    summary_message,
)
from timeleap.message_text import is_summary, reserve_fits, should_compact

Record = dict[str, Any]
LIMITS: dict[str, Any] = {"trigger_ratio": 0.85, "reserved_context_size": 50_000}


def say(role: str, text: str = "x") -> Record:
    return {"role": role, "content": text}


@pytest.mark.parametrize(
    ("tokens", "window", "ratio", "reserved", "due"),
    [
        (150_000, 200_000, 0.85, 50_000, True),  # the reserve
        (149_999, 200_000, 0.85, 50_000, False),
        (850_000, 1_000_000, 0.85, 50_000, True),  # the ratio
        (849_999, 1_000_000, 0.85, 50_000, False),
        (140_000, 200_000, 0.7, 50_000, True),
        (139_999, 200_000, 0.7, 50_000, False),
        (0, 200_000, 0.85, 50_000, False),
    ],
)
def test_the_trigger(tokens: int, window: int, ratio: float, reserved: int, due: bool) -> None:
    for rule in (should_auto_compact, should_compact):
        assert rule(tokens, window, trigger_ratio=ratio, reserved_context_size=reserved) is due


def test_a_reserve_of_half_the_window_does_not_trigger() -> None:
    assert should_auto_compact(0, 50_000, **LIMITS), "the original compacts a small window for ever"
    assert not should_compact(0, 50_000, **LIMITS)
    assert not should_compact(0, 100_000, **LIMITS)
    assert should_compact(50_001, 100_001, **LIMITS)
    assert should_compact(42_500, 50_000, **LIMITS), "the ratio still counts"
    assert [reserve_fits(window, 50_000) for window in (50_000, 100_000, 100_001)] == [False, False, True]


def test_without_a_window_there_is_no_trigger() -> None:
    assert not should_compact(10**9, None, **LIMITS)


def test_what_is_kept() -> None:
    messages = [say("system"), say("user"), say("assistant"), say("tool"), say("user"), say("assistant"), say("tool")]
    assert [preserved_from(messages, keep) for keep in (1, 2, 3, 4)] == [5, 4, 2, 1]
    assert preserved_from(messages, 5) == 0, "there are not so many"
    assert preserved_from(messages, 0) == 0
    assert preserved_from([], 2) == 0
    assert preserved_from(messages[1:3], 2) == 0, "nothing before them"


def test_a_call_and_its_result_stay_together() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}
    result = {"role": "tool", "content": "r", "tool_call_id": "a"}
    assert preserved_from([say("user"), call, say("user"), result, say("assistant")], 2) == 1


def texts(message: Record) -> list[str]:
    assert message["role"] == "user"
    return [part["text"] for part in message["content"]]


def test_what_the_summariser_sees() -> None:
    messages: list[Record] = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "think", "think": "hidden"}]},
        {"role": "assistant", "content": "b", "tool_calls": [
            {"type": "function", "id": "c1", "function": {"name": "read", "arguments": '{"path":"a.py"}'}}, 5,
        ]},
        {"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "data:IMG"}}], "tool_call_id": "c1"},
        {"role": "assistant", "content": "", "tool_calls": "broken"},
    ]  # fmt: skip
    assert texts(prompt_message(messages)) == [
        "## Message 1\nRole: user\nContent:\n",
        "a",
        "## Message 2\nRole: assistant\nContent:\n",
        "b",
        '\nTool call c1: read({"path":"a.py"})\n',
        "## Message 3\nRole: tool\nContent:\n",
        "Result of tool call c1:\n",
        "## Message 4\nRole: assistant\nContent:\n",
        "",
        "\n" + COMPACT,
    ]


def test_the_user_s_wish_goes_to_the_summariser() -> None:
    last = texts(prompt_message([], "keep all that concerns the {database}"))[-1]
    assert last.startswith("\n" + COMPACT)
    assert "keep all that concerns the {database}" in last


def test_the_prompt_asks_for_the_six_sections() -> None:
    names = ["current_focus", "environment", "completed_tasks", "active_issues", "code_state", "important_context"]
    places = [COMPACT.index(f"<{name}>") for name in names]
    assert places == sorted(places)
    assert all(f"</{name}>" in COMPACT for name in names)


def test_a_summary_is_known_again() -> None:
    message = summary_message("s")
    assert message["content"][0]["text"] == (
        "<system>Previous context has been compacted. Here is the compaction output:</system>"
    )
    assert texts(message)[1] == "s"
    assert is_summary(message)
    assert not is_summary(say("user", "Previous context has been compacted."))
    assert not is_summary({**message, "role": "assistant"})
    assert not is_summary({"role": "user"})


@given(st.lists(st.sampled_from(["user", "assistant", "tool", "system"]).map(say), max_size=12), st.integers(-1, 6))
def test_at_least_the_wanted_messages_are_kept(messages: list[Record], keep: int) -> None:
    start = preserved_from(messages, keep)
    speaking = [message for message in messages[start:] if message["role"] in ("user", "assistant")]
    assert start == 0 or len(speaking) == keep
