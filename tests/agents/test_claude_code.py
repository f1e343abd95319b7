"""Claude Code itself, as released, on a model on loopback: what a window does to its log is what it resumes from."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient
from tests.agents.claude_code import ClaudeCode, turn
from tests.agents.model import Model
from tests.agents.window import Window

from timeleap_agents.adapters.claude import ClaudeSessionStore, Continuation
from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # several runs of the program each
ALL = ["question one", "answer one", "question two", "answer two"]


async def test_a_resume_sends_what_is_kept_after_revert_and_after_undo(
    client: RawTimeleap, window: Window, model: Model, tmp_path: Path
) -> None:
    program = ClaudeCode(tmp_path / "folder", model, ClaudeSessionStore(client))
    session = await program.ask("one", "two")
    assert model.texts() == ALL[:3]
    shown = await window.only("claude-code")
    assert list(await window.checkpoints(shown)) == ["question one", "question two"]

    await window.revert(shown, "question two")
    assert await program.ask("three", resume=session) == session
    assert model.texts() == ["question one", "answer one", "question three"]

    await window.revert(shown, "question three")
    await window.call("context/undo", shown, steps=2)  # this revert, and the one before
    await program.ask("four", resume=session)
    assert model.texts() == [*ALL, "question four"]
    assert len(await window.sessions("claude-code")) == 1


async def test_a_revert_while_a_turn_runs_leaves_the_log_as_it_was_reverted(
    client: RawTimeleap, window: Window, model: Model, tmp_path: Path
) -> None:
    told: list[Continuation] = []
    program = ClaudeCode(tmp_path / "folder", model, ClaudeSessionStore(client, on_continuation=told.append))
    async with ClaudeSDKClient(program.options()) as running:
        session = await turn(running, "one")
        await turn(running, "two")
        shown = await window.only("claude-code")
        model.gate.clear()
        model.asked.clear()
        third = asyncio.ensure_future(turn(running, "three"))
        assert await asyncio.to_thread(model.asked.wait, 60)
        await window.revert(shown, "question two")
        model.gate.set()
        await third
    assert await says(window, shown) == ALL[:2]
    (continuation,) = told
    await program.ask("four", resume=continuation.continued_as)
    assert model.texts() == [*ALL, "question three", "answer three", "question four"]
    await program.ask("five", resume=session)
    assert model.texts() == [*ALL[:2], "question five"]


async def says(window: Window, session: str) -> list[Any]:
    """The texts of a session, whether they are parts or not."""
    texts = await window.texts(session)
    return [text if isinstance(text, str) else "".join(part["text"] for part in text) for text in texts]
