"""Gemini CLI itself, as released (`make agents`), with settings of its own and the model on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.agents.model import Model
from tests.agents.node import KEEPING, NODE

PACKAGE = (
    Path(__file__).resolve().parents[2] / ".tools" / "agents" / "gemini" / "node_modules" / "@google" / "gemini-cli"
)
PROGRAM = PACKAGE / "bundle" / "gemini.js"
needs_gemini = pytest.mark.skipif(
    not PROGRAM.exists() and not os.environ.get("CI"), reason="Gemini CLI is not installed: make agents"
)


class Gemini:
    """The program in one folder.

    Attributes:
        home: Its own folder, with settings and sessions.
        project: Where it works.
    """

    def __init__(self, folder: Path, model: Model, environment: Mapping[str, str] | None = None) -> None:
        self.home, self.project = folder / ".gemini", folder / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir(exist_ok=True)
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False},
        }
        (self.home / "settings.json").write_text(json.dumps(settings, indent=2) + "\n")
        own = {
            "HOME": str(folder),
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": model.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",  # else it starts itself a second time, to ask for more memory
        }
        self._environment = {**os.environ, **(environment or {}), **own, **KEEPING}
        self._environment.pop("GEMINI_CLI_HOME", None)

    async def ask(self, question: str, *, resume: str | None = None) -> None:
        """A run of the program."""
        going_on = ("--resume", resume) if resume is not None else ()
        async with asyncio.timeout(120):
            process = await asyncio.create_subprocess_exec(
                NODE, PROGRAM, "--model", "fake", "--yolo", *going_on, "--prompt", f"question {question}",
                cwd=self.project, env=self._environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, complained = await process.communicate()
        assert process.returncode == 0, (said, complained)
