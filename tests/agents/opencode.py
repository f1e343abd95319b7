"""opencode itself, as released (`make agents`): its server, with a configuration of its own and the model on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model import Model

PROGRAM = Path(__file__).resolve().parents[2] / ".tools" / "agents" / "node_modules" / ".bin" / "opencode"
needs_opencode = pytest.mark.skipif(
    not PROGRAM.exists() and not os.environ.get("CI"), reason="opencode is not installed: make agents"
)
PATIENCE = 120.0


def settings(url: str) -> dict[str, str]:
    """Variables with which opencode speaks to the model at an address, and to nobody else."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"fake": {"name": "fake", "tool_call": True, "limit": {"context": 1_000_000, "output": 8000}}},
    }
    config = {
        "model": "fake/fake", "small_model": "fake/fake", "permission": {"*": "allow", "external_directory": "allow"},
        "autoupdate": False, "share": "disabled", "lsp": False, "formatter": False, "provider": {"fake": provider},
    }  # fmt: skip
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {**{f"OPENCODE_DISABLE_{name}": "1" for name in off}, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}


class Opencode:
    """The program in one folder.

    Attributes:
        data: Where it keeps its database.
        settings: Where its settings and plugins are.
        project: Where it works.
    """

    def __init__(self, folder: Path, model: Model, environment: Mapping[str, str] | None = None) -> None:
        self.data, self.project = folder / "data" / "opencode", folder / "project"
        self.settings = folder / "config" / "opencode"
        for path in (self.data, self.project, self.settings):
            path.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **os.environ,
            **(environment or {}),
            **settings(model.url),
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self._server: subprocess.Popen[bytes] | None = None
        self._url = ""

    @property
    def database(self) -> Path:
        return self.data / "opencode.db"

    def serve(self) -> None:
        """Start its server."""
        self._server = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", "--hostname", "127.0.0.1"],
            cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._server.stdout is not None
        for line in self._server.stdout:
            if found := re.search(rb"http://127\.0\.0\.1:\d+", line):
                self._url = found[0].decode()
                return
        raise AssertionError("opencode ended before it listened")

    def close(self) -> None:
        """End its server."""
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
            self._server = None

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request to the server; without a body it only asks."""
        query = urllib.parse.urlencode({"directory": str(self.project)})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}?{query}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.loads(reply.read() or b"null")

    def ask(self, session: str, question: str) -> str:
        """A turn; returns the id of its prompt."""
        said = self.call(f"/session/{session}/message", {"parts": [{"type": "text", "text": f"question {question}"}]})
        return str(said["info"]["parentID"])

    async def run(self, *arguments: str) -> str:
        """A run of the program; returns what it said."""
        async with asyncio.timeout(PATIENCE):
            process = await asyncio.create_subprocess_exec(
                PROGRAM, *arguments, cwd=self.project, env=self.environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, complained = await process.communicate()
        assert process.returncode == 0, (said, complained)
        return said.decode()
