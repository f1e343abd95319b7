"""Claude Code itself, as released, keeps its sessions as ever: they are shown here live, and it goes on where a mirror was cut."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SettingSource
from tests.agents.model import Model
from tests.agents.window import Window, until

from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # several runs of the program each


class ClaudeCode:
    """The program in one folder, keeping its sessions in its own files."""

    def __init__(self, folder: Path, model: Model) -> None:
        self._folder, self._model = folder, model
        folder.mkdir(parents=True)
        self.sessions = folder / "config" / "projects"

    async def ask(
        self,
        *questions: str,
        resume: str | None = None,
        sources: Sequence[SettingSource] = (),
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """One run of the program with these turns; it stays until `meanwhile` is done. `sources`: of its settings."""
        environment = {
            "HOME": str(self._folder),
            "CLAUDE_CONFIG_DIR": str(self._folder / "config"),
            **self._model.environment(),
        }
        options = ClaudeAgentOptions(
            cwd=self._folder, env=environment, resume=resume, setting_sources=list(sources), model="fake"
        )
        async with ClaudeSDKClient(options) as client:
            for question in questions:
                await client.query(f"question {question}")
                results = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
                assert not results[-1].is_error, results
            if meanwhile is not None:
                await meanwhile()


async def says(window: Window, session: str) -> list[Any]:
    """The texts of a session, whether they are parts or not; what the model only thought is left out."""
    texts = await window.texts(session)
    return ["".join(part.get("text", "") for part in text) if isinstance(text, list) else text for text in texts]


async def test_it_is_shown_live_and_goes_on_where_its_mirror_was_cut(
    client: RawTimeleap, window: Window, model: Model, tmp_path: Path
) -> None:
    program = ClaudeCode(tmp_path / "folder", model)
    await client.call("bridge/watch", {"kind": "claude-code", "path": str(program.sessions)})
    await program.ask("one", "two")

    async def is_whole() -> bool:
        found = await window.sessions("claude-code")
        return bool(found) and await says(window, found[0]["sessionId"]) == [
            "question one", "answer one", "question two", "answer two",
        ]  # fmt: skip

    await until(is_whole)
    mirror = await window.only("claude-code")
    checkpoints = await window.checkpoints(mirror)
    assert list(checkpoints) == ["question one", "question two"]

    adopted = await window.call("bridge/adopt", mirror, at=checkpoints["question two"])
    command, arguments = adopted["resume"]["command"], adopted["resume"]["args"]
    assert (command, arguments[0]) == ("claude", "--resume")
    await program.ask("three", resume=arguments[1])
    assert model.texts() == ["question one", "answer one", "question three"]
    assert len(await window.sessions("claude-code")) == 2
    assert (await says(window, mirror))[-1] == "answer two"
