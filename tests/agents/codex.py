"""Codex itself, as released (`make agents`), with a configuration of its own and the model on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model import Model

PROGRAM = Path(__file__).resolve().parents[2] / ".tools" / "agents" / "codex" / "node_modules" / ".bin" / "codex"
needs_codex = pytest.mark.skipif(
    not PROGRAM.exists() and not os.environ.get("CI"), reason="Codex is not installed: make agents"
)
FREELY = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")


class Codex:
    """The program in one folder.

    Attributes:
        home: Its own folder, with configuration and sessions.
        project: Where it works.
    """

    def __init__(self, folder: Path, model: Model, environment: Mapping[str, str] | None = None) -> None:
        self.home, self.project = folder / "codex", folder / "project"
        self.home.mkdir(parents=True)
        self.project.mkdir(exist_ok=True)
        self._environment = {**os.environ, **(environment or {}), "HOME": str(folder), "CODEX_HOME": str(self.home)}
        self._configuration = (
            'model = "fake"\nmodel_provider = "loop"\ncheck_for_update_on_startup = false\n'
            f'[analytics]\nenabled = false\n[model_providers.loop]\nname = "loop"\nbase_url = "{model.url}/v1"\n'
            'wire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
        )
        self._configure("")

    def _configure(self, more: str) -> None:
        (self.home / "config.toml").write_text(self._configuration + more)

    async def ask(self, *questions: str, resume: str | None = None) -> None:
        """A run of the program for each question, all in one session."""
        for question in questions:
            going_on = ("resume", resume) if resume is not None else ()
            await self._run("exec", *FREELY, *going_on, f"question {question}")
            resume = resume or max(self._sessions(), key=lambda path: path.stat().st_mtime_ns).stem[-36:]

    async def trust_hooks(self) -> None:
        """What a person does with /hooks: the program says what each hook is, and its hash is noted in the settings."""
        (answer,) = await self.serve(("hooks/list", {"cwds": [str(self.project)]}))
        hooks: list[dict[str, Any]] = answer["data"][0]["hooks"]
        assert {hook["trustStatus"] for hook in hooks} == {"untrusted"}
        tables = (
            f"[hooks.state.{json.dumps(hook['key'])}]\ntrusted_hash = {json.dumps(hook['currentHash'])}\n"
            for hook in hooks
        )
        self._configure("".join(tables))

    async def serve(self, *asked: tuple[str, dict[str, Any]]) -> list[Any]:
        """Ask the program as an editor does, one request after the other; returns the results."""
        client = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {"experimentalApi": True}}
        results = []
        async with asyncio.timeout(60):
            process = await self._start("app-server", stdin=asyncio.subprocess.PIPE)
            assert process.stdin is not None
            assert process.stdout is not None
            for number, (method, params) in enumerate([("initialize", client), *asked]):
                process.stdin.write(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n")
                while (answer := json.loads(await process.stdout.readline())).get("id") != number:
                    pass
                results.append(answer.get("result", answer))
            process.stdin.close()
            await process.wait()
        return results[1:]

    def newest(self) -> Path:
        """The file that the program wrote to last."""
        return max(self._sessions(), key=lambda path: path.stat().st_mtime_ns)

    def _sessions(self) -> list[Path]:
        return list((self.home / "sessions").rglob("rollout-*.jsonl"))

    async def _run(self, *arguments: str) -> None:
        async with asyncio.timeout(120):
            process = await self._start(*arguments, stdin=asyncio.subprocess.DEVNULL)
            said, complained = await process.communicate()
        assert process.returncode == 0, (said, complained)

    async def _start(self, *arguments: str, stdin: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            PROGRAM, *arguments, cwd=self.project, env=self._environment, stdin=stdin,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
