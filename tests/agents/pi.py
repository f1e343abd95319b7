"""pi itself, as released (`make agents`), with a configuration of its own and the model on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.agents.model import Model
from tests.agents.node import NODE

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
PROGRAM = (
    TOOLS / "agents" / "pi" / "node_modules" / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
)
needs_pi = pytest.mark.skipif(
    not PROGRAM.exists() and not os.environ.get("CI"), reason="pi is not installed: make agents"
)


class Pi:
    """The program in one folder.

    Attributes:
        home: Its own folder, with its configuration and sessions.
        project: Where it works.
    """

    def __init__(self, folder: Path, model: Model, environment: Mapping[str, str] | None = None) -> None:
        self.home, self.project = folder / "pi", folder / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir(exist_ok=True)
        fake = {"id": "fake", "name": "fake", "contextWindow": 200_000, "maxTokens": 8000}
        provider = {"baseUrl": f"{model.url}/v1", "api": "openai-completions", "apiKey": "none", "models": [fake]}
        (self.home / "models.json").write_text(json.dumps({"providers": {"fake": provider}}))
        own = {"HOME": str(folder), "PI_CODING_AGENT_DIR": str(self.home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
        self._environment = {**os.environ, **(environment or {}), **own}

    async def ask(self, question: str) -> str:
        """A run of the program; returns what it said."""
        async with asyncio.timeout(120):
            process = await asyncio.create_subprocess_exec(
                NODE, PROGRAM, "-p", "--provider", "fake", "--model", "fake", f"question {question}",
                cwd=self.project, env=self._environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, complained = await process.communicate()
        assert process.returncode == 0, (said, complained)
        return said.decode()
