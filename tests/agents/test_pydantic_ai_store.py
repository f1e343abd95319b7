"""The conversation store of pydantic-ai: what InMemoryConversationStore does, and what a window sees and may do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage
from tests.agents.conftest import Blocking
from tests.agents.window import Window

from timeleap_agents.adapters import pydantic_ai
from timeleap_agents.adapters.pydantic_ai import TimeleapConversationStore
from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # with the SDKs, in a stage of their own: `make test-agents`


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def answered(text: str, tokens: int = 0) -> ModelResponse:
    return ModelResponse(parts=[TextPart(content=text)], usage=RequestUsage(input_tokens=tokens))


def used_tool() -> list[Any]:
    call = ToolCallPart(tool_name="f", args={"a": [1, None]}, tool_call_id="c1")
    back = ToolReturnPart(tool_name="f", content={"b": "\U0001f600"}, tool_call_id="c1")
    return [ModelResponse(parts=[call]), ModelRequest(parts=[back])]


MESSAGES = st.one_of(
    st.lists(st.builds(asked, st.text(max_size=4)), min_size=1, max_size=2),
    st.builds(lambda text: [answered(text, 3)], st.text(max_size=4)),
    st.builds(used_tool),
)
NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.one_of(
    st.tuples(st.just("extend"), NAMES, MESSAGES),
    st.tuples(st.just("extend"), NAMES, MESSAGES),
    st.tuples(st.just("rewrite"), NAMES, st.integers(0, 3), MESSAGES),
    st.tuples(st.just("stale"), NAMES, MESSAGES),
    st.tuples(st.just("branch"), NAMES, st.integers(0, 4)),
    st.tuples(st.just("back"), NAMES),
    st.tuples(st.just("fork"), NAMES, NAMES, st.integers(0, 4)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("window"), NAMES, st.integers(0, 3)),
)


async def take(store: ConversationStore, prefix: str, step: tuple[Any, ...]) -> Any:
    """One step on a store; what is seen of it, without the ids that each store makes itself."""
    kind, name, *rest = step
    name = f"{prefix}{name}"
    try:
        conversation = await store.load(name)
        if kind == "delete":
            return await store.delete(name)
        if kind == "window":
            loaded = await store.load(name, limit=rest[0])
            return None if loaded is None else loaded.messages
        if kind == "branch":
            branched = await store.branch(name, at=rest[0], expected_revision=conversation and conversation.revision)
            return branched.messages
        if kind == "back":
            record = await store.read_record(name)
            tip = record.branches[-1] if record is not None and record.branches else "none"
            revision = conversation and conversation.revision
            return (await store.branch(name, from_entry=tip, expected_revision=revision)).messages
        if kind == "fork":
            return (await store.fork(name, at=rest[1], new_conversation_id=f"{prefix}{rest[0]}")).messages
        conversation = conversation or Conversation(conversation_id=name)
        if kind == "stale":
            conversation.revision = "another"
        if kind == "rewrite":
            conversation.messages = [*conversation.messages[: rest[0]], *rest[1]]
            conversation.new_message_index = None
        else:
            conversation.messages = [*conversation.messages, *rest[0]]
        conversation.usage = RunUsage(requests=len(conversation.messages))
        return [entry.message for entry in await store.save(conversation, scope="ours")]
    except (UserError, ConversationConflict) as error:
        return type(error)


async def seen(store: ConversationStore, prefix: str) -> Any:
    found = {}
    for name in ("a", "b", "c"):
        conversation, record = await store.load(f"{prefix}{name}"), await store.read_record(f"{prefix}{name}")
        if conversation is not None and record is not None:
            branches = [[entry.message for entry in await store.read_history(tip)] for tip in record.branches]
            found[name] = (conversation.messages, conversation.usage, record.scope, record.forked_from, branches)
    return found


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, max_size=8), number=st.uuids())
def test_random_sequences_do_what_the_store_in_memory_does(
    blocking_client: Blocking, steps: list[Any], number: Any
) -> None:
    async def compare(client: RawTimeleap) -> None:
        prefix = f"{number}-"
        ours, theirs = TimeleapConversationStore(client), InMemoryConversationStore()
        for step in steps:
            assert await take(ours, prefix, step) == await take(theirs, prefix, step)
            assert await seen(ours, prefix) == await seen(theirs, prefix)
        fresh = TimeleapConversationStore(client)  # knows nothing but what was stored
        assert await seen(fresh, prefix) == await seen(theirs, prefix)
        for name in "abc":
            await ours.delete(f"{prefix}{name}")

    blocking_client(compare)


async def test_a_run_is_stored_with_a_checkpoint_at_its_prompt(client: RawTimeleap, window: Window) -> None:
    store, agent = TimeleapConversationStore(client), Agent(TestModel(custom_output_text="Done."))
    for text in ("Fix the login", "And the logout"):
        conversation = await store.load("chat") or Conversation(conversation_id="chat")
        await store.save(await agent.run(text, conversation=conversation))
    shown = await window.only("pydantic-ai")
    assert list(await window.checkpoints(shown)) == ["Fix the login", "And the logout"]
    assert await window.texts(shown) == ["Fix the login", "Done.", "And the logout", "Done."]
    assert (await window.call("session/getState", shown))["context"]["tokenCount"] > 0


async def test_after_a_revert_what_is_kept_is_loaded_and_an_undo_brings_all_back(
    client: RawTimeleap, window: Window
) -> None:
    store = TimeleapConversationStore(client)
    conversation = Conversation(conversation_id="chat")
    for text in ("first", "second"):
        conversation.messages = [*conversation.messages, asked(text), answered("ok")]
        await store.save(conversation)
    shown = await window.only("pydantic-ai")
    await window.revert(shown, "second")
    kept = await store.load("chat")
    assert kept is not None
    assert kept.messages == conversation.messages[:2]
    await window.call("context/undo", shown)
    whole = await store.load("chat")
    assert whole is not None
    assert whole.messages == conversation.messages


async def test_an_agent_whose_log_was_reverted_cannot_save(client: RawTimeleap, window: Window) -> None:
    store = TimeleapConversationStore(client)
    conversation = Conversation(conversation_id="chat", messages=[asked("first"), answered("ok")])
    await store.save(conversation)
    conversation.messages = [*conversation.messages, asked("second")]
    await store.save(conversation)
    shown = await window.only("pydantic-ai")
    await window.revert(shown, "second")
    conversation.messages = [*conversation.messages, answered("late")]
    with pytest.raises(ConversationConflict):
        await store.save(conversation)
    assert await window.texts(shown) == ["first", "ok"]


async def test_a_fork_outlives_what_it_came_from(client: RawTimeleap) -> None:
    store = TimeleapConversationStore(client)
    await store.save(Conversation(conversation_id="chat", messages=[asked("first"), answered("ok"), asked("second")]))
    fork = await store.fork("chat", at=2)
    await store.delete("chat")
    kept = await TimeleapConversationStore(client).load(fork.conversation_id)
    assert kept is not None
    assert kept.messages == fork.messages
    with pytest.raises(KeyError):
        await store.read_entry("no entry")


async def test_entries_in_a_circle_are_no_history(client: RawTimeleap, window: Window) -> None:
    store = TimeleapConversationStore(client)
    await store.save(Conversation(conversation_id="chat", messages=[asked("first")]))
    record = await store.read_record("chat")
    assert record is not None
    made_up = {"id": record.head_id, "parent": record.head_id, "message": {}}
    odd = [{"role": "user", "content": "x", "pydanticAi": member} for member in (made_up, {"id": 5}, "text")]
    await window.call("context/appendMessage", await window.only("pydantic-ai"), messages=odd)
    with pytest.raises(KeyError):
        await store.load("chat")


async def test_only_so_many_conversations_are_open(client: RawTimeleap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pydantic_ai, "MAX_OPEN", 2)
    store = TimeleapConversationStore(client)
    for name in "abcdef":
        await store.save(Conversation(conversation_id=name, messages=[asked(name)]))
    assert {record.conversation_id for record in await store.list_conversations()} == set("abcdef")
    assert len(store._conversations) == 2
