"""`context/updateTokenCount`, `context/listUsage`, `context/setSystemPrompt`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.matching import HEAD
from tests.support.session import Session, user


def test_a_token_count_is_a_record_and_counts(session: Session) -> None:
    session.say("x" * 40)
    result = session.call("context/updateTokenCount", tokenCount=123)
    assert result == {"head": HEAD, "tokenCount": 123}
    assert session.lines()[-1] == {"role": "_usage", "token_count": 123}
    context = session.get_state()["context"]
    assert (context["tokenCount"], context["tokenCountWithPending"], context["messageCount"]) == (123, 123, 1)


def test_the_last_token_count_wins(session: Session) -> None:
    for count in (5, 3, 0):
        session.call("context/updateTokenCount", tokenCount=count)
    assert session.get_state()["context"]["tokenCount"] == 0


@pytest.mark.parametrize("count", [-1, 1.5, "5", None, True, 10**400])
def test_a_token_count_is_an_integer_of_zero_or_more(session: Session, count: Any) -> None:
    error = session.refuse("context/updateTokenCount", tokenCount=count)
    assert error["code"] == -32602
    assert [problem["loc"] for problem in error["data"]["errors"]] == [["tokenCount"]]
    assert session.records() == []


def test_the_trail_of_token_counts(session: Session) -> None:
    session.call("context/updateTokenCount", tokenCount=1)
    session.say("a", "b")
    session.call("context/updateTokenCount", tokenCount=2)
    session.checkpoint()
    session.say("c")
    session.call("context/updateTokenCount", tokenCount=3)
    trail = [{"index": 0, "tokenCount": 1}, {"index": 2, "tokenCount": 2}, {"index": 3, "tokenCount": 3}]
    assert session.call("context/listUsage") == {"usage": trail}
    first = session.call("context/listUsage", limit=2)
    assert first["usage"] == trail[:2]
    assert session.call("context/listUsage", limit=2, cursor=first["nextCursor"]) == {"usage": trail[2:]}


def test_no_usage_is_an_empty_trail(session: Session) -> None:
    assert session.call("context/listUsage") == {"usage": []}


def test_the_system_prompt_is_the_first_record_of_an_empty_log(session: Session) -> None:
    assert session.call("context/setSystemPrompt", systemPrompt="be kind") == {"head": HEAD}
    assert session.log.read_bytes() == b'{"role": "_system_prompt", "content": "be kind"}\n'
    assert session.get_state()["context"]["systemPrompt"] == "be kind"
    assert session.history() == []


def test_the_last_system_prompt_wins_and_a_revert_brings_back_the_one_of_that_time(session: Session) -> None:
    session.call("context/setSystemPrompt", systemPrompt="one")
    session.say("a")
    session.checkpoint()
    session.call("context/setSystemPrompt", systemPrompt="two")
    session.say("b")
    assert session.get_state()["context"]["systemPrompt"] == "two"
    assert [line["role"] for line in session.lines()][-2:] == ["_system_prompt", "user"]
    assert session.call("context/revertTo", checkpointId=0)["context"]["systemPrompt"] == "one"
    assert session.get_state()["context"]["systemPrompt"] == "one"


def test_an_empty_system_prompt_is_one(session: Session) -> None:
    session.call("context/setSystemPrompt", systemPrompt="")
    assert session.get_state()["context"]["systemPrompt"] == ""


@pytest.mark.parametrize("prompt", [None, 1, [], {}])
def test_a_system_prompt_is_text(session: Session, prompt: Any) -> None:
    assert session.refuse("context/setSystemPrompt", systemPrompt=prompt)["code"] == -32602
    assert session.refuse("context/setSystemPrompt")["code"] == -32602


def test_a_system_prompt_of_awkward_text_comes_back_exactly(session: Session) -> None:
    prompt = 'a"\\\n\u2028\u0000😀</system>' + "x" * 200_000
    session.call("context/setSystemPrompt", systemPrompt=prompt)
    session.append(user("x"))
    assert session.get_state()["context"]["systemPrompt"] == prompt
