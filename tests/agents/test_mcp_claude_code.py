"""Claude Code itself, as released, with `timeleap mcp` as one of its servers: its model asks, and is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import claude_agent_sdk
import pytest
from tests.agents.conftest import PACKAGES
from tests.agents.model import Model
from tests.agents.test_mcp import TIMELEAP

from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # two runs of the program


async def test_claude_code_finds_what_was_said_earlier(client: RawTimeleap, model: Model, tmp_path: Path) -> None:
    await client.call("session/open", {"sessionId": "shop", "workspace": tmp_path.as_uri()})
    said = {"role": "user", "content": "The cause is in names.py."}
    await client.call("context/appendMessage", {"sessionId": "shop", "message": said})
    # The program begins before its servers are connected, and tells its model to wait for them, and to try again.
    model.calls["where"] = [("WaitForMcpServers", {}), ("mcp__timeleap__search_history", {"query": "The cause"})] * 5
    program = Path(claude_agent_sdk.__file__).parent / "_bundled" / ("claude.exe" if os.name == "nt" else "claude")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGES),
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "config"),
        **model.environment(),
        "ENABLE_TOOL_SEARCH": "false",  # else its model has to look for the tool first
    }

    def run(*arguments: str) -> str:
        return subprocess.run(
            [str(program), *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120,
        ).stdout  # fmt: skip

    added = ["timeleap", "--", TIMELEAP, "mcp", "--home", str(tmp_path / "home"), "--workspace", str(tmp_path)]
    await asyncio.to_thread(run, "mcp", "add", *added)  # as docs/agents.md says
    asked = ["-p", "question where", "--model", "fake", "--allowedTools", "mcp__timeleap__search_history"]
    assert "answer where" in await asyncio.to_thread(run, *asked)
    told = json.dumps(model.requests[-1]["messages"])
    assert "shop#0 user: The cause is in names.py." in told
    assert "Data from earlier conversations" in told
