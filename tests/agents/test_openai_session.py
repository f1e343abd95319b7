"""The session of the OpenAI Agents SDK: what SQLiteSession does, and what a window sees and may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import Session, SQLiteSession
from agents.memory import SessionSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.agents.conftest import Blocking
from tests.agents.window import Window

from timeleap_agents.adapters import openai_agents
from timeleap_agents.adapters.openai_agents import StaleRunError, TimeleapSession
from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # with the SDKs, in a stage of their own: `make test-agents`
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


ITEMS = st.one_of(
    st.builds(said, st.text(st.characters(), max_size=5), st.sampled_from(["user", "assistant", "system", "developer"])),
    st.sampled_from([CALL, OUTPUT, {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "so"}]}]),
    st.dictionaries(st.sampled_from(["role", "type", "content", "id"]), st.integers() | st.none() | st.text(max_size=3)),
    st.just(said("lone \ud800")),
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("add_items"), st.lists(ITEMS, max_size=3)),
    st.tuples(st.just("get_items"), st.none() | st.integers(-1, 4)),
    st.tuples(st.sampled_from(["pop_item", "pop_item", "clear_session"])),
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, max_size=10))
def test_random_sequences_do_what_sqlite_does(blocking_client: Blocking, steps: list[Any]) -> None:
    async def compare(client: RawTimeleap) -> None:
        ours, theirs = TimeleapSession("sequence", client), SQLiteSession("s")
        try:
            await ours.clear_session()
            for name, *arguments in steps:
                assert await getattr(ours, name)(*arguments) == await getattr(theirs, name)(*arguments)
            assert await ours.get_items() == await theirs.get_items()
        finally:
            await ours.aclose()
            theirs.close()

    blocking_client(compare)


def test_it_is_a_session_to_the_sdk(client: RawTimeleap) -> None:
    assert isinstance(TimeleapSession("s", client), Session)


async def test_prompts_have_checkpoints_and_outputs_of_tools_have_none(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client)
    await session.add_items([said("first")])
    await session.add_items([CALL, OUTPUT, said("ok", "assistant")])
    await session.add_items([said("second")])
    shown = await window.only("openai-agents")
    assert list(await window.checkpoints(shown)) == ["first", "second"]
    assert await window.texts(shown) == ["first", "", "done", "ok", "second"]


async def test_a_run_after_a_revert_sees_what_is_kept(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client)
    await session.add_items([said("first"), said("ok", "assistant")])
    await session.add_items([said("second"), said("fine", "assistant")])
    shown = await window.only("openai-agents")
    await window.revert(shown, "second")
    assert await session.get_items() == [said("first"), said("ok", "assistant")]
    await session.add_items([said("third")])
    assert await session.get_items() == [said("first"), said("ok", "assistant"), said("third")]


async def test_a_run_whose_log_is_reverted_goes_on_in_a_session_of_its_own(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client)
    await session.add_items([said("first")])
    await session.add_items([said("second")])
    await session.get_items()
    shown = await window.only("openai-agents")
    await window.revert(shown, "second")
    await session.add_items([said("late", "assistant")])
    await session.add_items([said("later", "assistant")])
    assert await window.texts(shown) == ["first"]
    assert session.continued_as is not None
    assert await window.texts(session.continued_as) == ["first", "second", "late", "later"]
    assert await session.get_items() == [said("first")]


async def test_a_run_whose_log_is_reverted_can_be_refused(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client, on_stale="refuse")
    await session.add_items([said("first")])
    shown = await window.only("openai-agents")
    await window.revert(shown, "first")
    with pytest.raises(StaleRunError, match="begin the run again"):
        await session.add_items([said("late", "assistant")])
    assert await window.texts(shown) == []


async def test_pops_that_follow_one_another_are_one_step(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client)
    items = [said(str(number)) for number in range(5)]
    await session.add_items(items)
    assert [await session.pop_item() for _ in range(3)] == items[:1:-1]
    shown = await window.only("openai-agents")
    assert len((await window.call("context/listTimelines", shown))["timelines"]) == 1
    await window.call("context/undo", shown)
    assert await session.get_items() == items


async def test_a_pop_that_comes_late_is_a_step_of_its_own(
    client: RawTimeleap, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_agents, "JOINED", 0.0)
    session = TimeleapSession("s", client)
    await session.add_items([said("0"), said("1")])
    await session.pop_item()
    await session.pop_item()
    await window.call("context/undo", await window.only("openai-agents"))
    assert await session.get_items() == [said("0")]


async def test_a_message_of_a_window_is_an_item(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client)
    await session.add_items([said("first")])
    shown = await window.only("openai-agents")
    await window.call("context/appendMessage", shown, message=said("by the way"))
    assert await session.get_items() == [said("first"), said("by the way")]
    assert await session.pop_item() == said("by the way")


async def test_an_item_that_somebody_made_up_is_the_message_that_is_there(client: RawTimeleap, window: Window) -> None:
    session = TimeleapSession("s", client)
    await session.add_items([said("first")])
    odd = [{**said("x"), "openaiAgents": member} for member in ({"text": "{torn"}, {"text": 5}, {}, "text")]
    await window.call("context/appendMessage", await window.only("openai-agents"), messages=odd)
    assert await session.get_items() == [said("first"), *[said("x")] * 4]


async def test_the_limit_of_the_settings_counts(client: RawTimeleap) -> None:
    session = TimeleapSession("s", client, session_settings=SessionSettings(limit=1))
    await session.add_items([said("0"), said("1")])
    assert await session.get_items() == [said("1")]
    assert await session.get_items(5) == [said("0"), said("1")]


async def test_any_text_is_an_id_and_two_processes_share_it(client: RawTimeleap, tmp_path: Path) -> None:
    async with RawTimeleap(home=tmp_path / "home") as second:
        ids = ["a/b", "../c", "", "x" * 500]
        for name in ids:
            await TimeleapSession(name, client).add_items([said(name)])
            await TimeleapSession(name, second).add_items([said("too", "assistant")])
        for name in ids:
            assert await TimeleapSession(name, client).get_items() == [said(name), said("too", "assistant")]
