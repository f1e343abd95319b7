"""kimi-code itself, as released (`make agents`), with a configuration of its own and the model on loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.agents.model import Model
from tests.agents.node import KEEPING, NODE

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
PROGRAM = TOOLS / "agents" / "kimi-code" / "node_modules" / "@moonshot-ai" / "kimi-code" / "dist" / "main.mjs"
needs_kimi_code = pytest.mark.skipif(
    not PROGRAM.exists() and not os.environ.get("CI"), reason="kimi-code is not installed: make agents"
)


class KimiCode:
    """The program in one folder.

    Attributes:
        home: Its own folder, with its configuration and sessions.
        project: Where it works.
    """

    def __init__(self, folder: Path, model: Model, environment: Mapping[str, str] | None = None) -> None:
        self.home, self.project = folder / ".kimi-code", folder / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(
            "# Mine.\n"
            'default_model = "fake"  # the only one\n\n'
            f'[providers.fake]\ntype = "openai"\nbase_url = "{model.url}/v1"\napi_key = "none"\n\n'
            '[models.fake]\nprovider = "fake"\nmodel = "fake"\nmax_context_size = 200000\n'
        )
        own = {
            "HOME": str(folder),
            "KIMI_CODE_HOME": str(self.home),
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        }
        self._environment = {**os.environ, **(environment or {}), **own, **KEEPING}

    async def ask(self, question: str, *, resume: str | None = None) -> str:
        """A run of the program; returns what it said."""
        going_on = ("-r", resume) if resume is not None else ()
        async with asyncio.timeout(120):
            process = await asyncio.create_subprocess_exec(
                NODE, PROGRAM, *going_on, "-p", f"question {question}",
                cwd=self.project, env=self._environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, complained = await process.communicate()
        assert process.returncode == 0, (said, complained)
        return said.decode()
