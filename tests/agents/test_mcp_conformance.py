"""The published conformance suite of the Model Context Protocol, and what the tools cost a model in tokens.

The suite speaks HTTP only: the server is put behind it here. What needs tools, prompts and resources of the suite's own is
left out. Suite and tokenizer are in `.tools/mcp` (`make agents`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.agents.node import KEEPING, NODE
from tests.agents.test_mcp import parameters

from timeleap_agents.mcp import methods
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.resources import Resources
from timeleap_agents.mcp.secret_masks import SecretMask
from timeleap_agents.mcp.toolbox import Toolbox
from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # with the SDKs, in a stage of their own: `make test-agents`
TOOLS = Path(__file__).resolve().parents[2] / ".tools"
MODULES = TOOLS / "mcp" / "node_modules"
MOST_TOKENS = 2_500
SCENARIOS = ["server-initialize", "ping", "tools-list", "resources-list", "resources-subscribe", "resources-unsubscribe",
             "prompts-list", "dns-rebinding-protection"]  # fmt: skip

if not os.environ.get("CI") and not (MODULES / ".installed").exists():
    pytest.skip("`make agents` installs what this needs", allow_module_level=True)


async def node(*arguments: str, said: bytes = b"") -> tuple[int | None, str]:
    """The exit code and the output of a program of Node.js."""
    process = await asyncio.create_subprocess_exec(
        NODE, *arguments, stdin=-1, stdout=-1, stderr=asyncio.subprocess.STDOUT, cwd=MODULES.parent,
        env={**os.environ, **KEEPING},
    )  # fmt: skip
    output, _ = await process.communicate(said)
    return process.returncode, output.decode()


class SuiteResources(Resources):
    """Ours, of which one has the address that the suite subscribes to."""

    async def watch(self, uri: str, tell: Any) -> None:
        await super().watch(_ours(uri), tell)

    async def unwatch(self, uri: str) -> None:
        await super().unwatch(_ours(uri))


def _ours(uri: str) -> str:
    return "timeleap://session/shop" if uri == "test://watched-resource" else uri


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """Where the server answers over HTTP."""
    from timeleap_agents.mcp.sdk_server import SdkServer

    async with RawTimeleap(home=tmp_path / "home") as client:
        await client.call("session/open", {"sessionId": "shop", "workspace": tmp_path.as_uri()})
    sessions = OpenedSessions(
        lambda: RawTimeleap(home=tmp_path / "home"), methods.callable_with(frozenset()), None, tmp_path, SecretMask()
    )
    app = SdkServer(Toolbox(sessions, frozenset()), SuiteResources(sessions)).made().streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    served = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    running = asyncio.create_task(served.serve(sockets=[listening]))
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    served.should_exit = True
    await running
    listening.close()
    await sessions.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_server_conforms(address: str, scenario: str) -> None:
    suite = str(MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")
    code, said = await node(suite, "server", "--url", address, "--scenario", scenario)
    assert code == 0, said
    passed, failed = map(int, re.findall(r"Passed: (\d+)/\d+, (\d+) failed", said)[0])
    assert (passed > 0, failed) == (True, 0), said


COUNT = """
import { encode } from "gpt-tokenizer/encoding/cl100k_base";
const parts = [];
for await (const part of process.stdin) parts.push(part);
console.log(encode(Buffer.concat(parts).toString()).length);
"""


async def tokens(text: str) -> int:
    code, said = await node("--input-type=module", "--eval", COUNT, said=text.encode())
    assert code == 0, said
    return int(said)


async def test_all_tools_together_cost_a_model_few_tokens(tmp_path: Path) -> None:
    from mcp import Client

    assert await tokens("hello world") == 2
    async with Client(parameters(tmp_path, "--allow", ",".join(methods.CHANGING))) as asked:
        tools = (await asked.list_tools()).tools
    assert {tool.name for tool in tools} >= set(methods.CHANGING)
    told: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
    ]
    assert await tokens(json.dumps(told)) <= MOST_TOKENS
