"""A person with Claude Code, a project, and Timeleap's command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage
from tests.agents.model import Model
from tests.support.cli import Cli

FILES = {"kept.txt": "same\n", "changed.txt": "one\n", "src/gone.txt": "here\n"}


class Person:
    """Somebody with Claude Code and Timeleap.

    Attributes:
        project: The folder of the project.
        config: Claude Code's own folder.
        cli: Timeleap's command line.
    """

    def __init__(self, folder: Path, model: Model, files: Mapping[str, str] = FILES, columns: int = 120) -> None:
        self.project = folder / "project"
        self.config = folder / "config"
        self.config.mkdir()
        for name, text in files.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text)
        environment = {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(self.config), "COLUMNS": str(columns)}
        self.cli = Cli(folder / "home", environment)
        self._model = model

    async def ask(self, *questions: str) -> None:
        """One run of Claude Code."""
        async with ClaudeSDKClient(self.options()) as client:
            for question in questions:
                await client.query(question)
                results = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
                assert not results[-1].is_error, results

    def options(self) -> ClaudeAgentOptions:
        """Those of Claude Code as it is started by hand: its settings are the person's own."""
        environment = {
            **self.cli.environment(),
            **self._model.environment(),
        }
        return ClaudeAgentOptions(
            cwd=self.project, env=environment, setting_sources=["user"], model="fake", allowed_tools=["Bash"]
        )

    def close(self) -> None:
        """End what the hooks have started."""
        if (record := self.cli.home / "hooks" / "host.json").exists():
            with suppress(ProcessLookupError):
                os.kill(json.loads(record.read_bytes())["pid"], signal.SIGTERM)

    def files(self) -> dict[str, str]:
        """The files of the project."""
        paths = [path for path in sorted(self.project.rglob("*")) if path.is_file()]
        return {path.relative_to(self.project).as_posix(): path.read_text() for path in paths}

    def session(self) -> dict[str, Any]:
        """The only session that Timeleap lists in the project."""
        (session,) = self.cli.run("sessions", "--json").lines()
        return dict(session)
