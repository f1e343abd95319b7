"""Claude Code itself, as released, on a session store and a model on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage
from tests.agents.model import Model


class ClaudeCode:
    """Runs of the program in one folder, one after another, on a store."""

    def __init__(self, folder: Path, model: Model, store: Any) -> None:
        self._folder, self._model, self._store = folder, model, store
        folder.mkdir(parents=True, exist_ok=True)

    def options(self, resume: str | None = None) -> ClaudeAgentOptions:
        environment = {
            "HOME": str(self._folder),
            "CLAUDE_CONFIG_DIR": str(self._folder / "config"),
            **self._model.environment(),
        }
        return ClaudeAgentOptions(
            cwd=self._folder,
            env=environment,
            resume=resume,
            session_store=self._store,
            setting_sources=[],
            model="fake",
        )

    async def ask(self, *questions: str, resume: str | None = None) -> str:
        """One run of the program with these turns; returns its session id."""
        async with ClaudeSDKClient(self.options(resume)) as client:
            return [await turn(client, question) for question in questions][-1]


async def turn(client: ClaudeSDKClient, question: str) -> str:
    """Ask `question NAME`, and wait for the answer; returns the session id."""
    await client.query(f"question {question}")
    results = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
    assert not results[-1].is_error, results
    return results[-1].session_id
