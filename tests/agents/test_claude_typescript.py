"""The TypeScript store of the Claude Agent SDK: it and the Python one read what the other wrote; the SDK itself runs on it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from tests.agents.conftest import AGENTS
from tests.agents.model import Model
from tests.agents.test_claude_store import ODD
from tests.agents.transcript import KEY, Entry, answer, prompt, result, turn
from tests.agents.window import Window

from timeleap.adapters.claude import ClaudeSessionStore
from timeleap_agents.adapters.followed_log import session_id_of
from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # with the SDKs, in a stage of their own: `make test-agents`
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "protocol" / "typescript"
SDK = AGENTS.parent / "typescript" / "node_modules" / "@anthropic-ai"
NODE = shutil.which("node") or "node"
README, PAGE = (path.read_text("utf-8") for path in (PACKAGE / "README.md", ROOT / "docs" / "agents.md"))
needs_sdk = pytest.mark.skipif(not SDK.is_dir() and "CI" not in os.environ, reason="`make agents` installs the SDK")

THINKING: list[Entry] = [
    prompt("t1", "\u2003 first line é\x0bsecond " + "x" * 200),
    answer("t2", "t1", {"type": "thinking", "thinking": "hm", "signature": "s"}, "text", cwd="/w"),
    answer("t3", "t2", {"type": "tool_use", "id": "c", "name": "Look", "input": {"a": [1, None, "é\n"], "b": {}}}),
    result("t4", "t3", "seen"),
    answer("t6", "t4", "said", {"type": "tool_use", "id": "d", "name": "Look", "input": {}}),
    answer("t7", "t6", {"type": "image"}, {"type": "text", "text": "cited", "citations": []}),
    answer("t8", "t7", "two", "texts", {"type": "tool_use", "id": "e", "name": "Look", "input": {}}),
    {"type": "ai-title", "aiTitle": " A title \ud800 "},
    {"type": "system", "subtype": "compact_boundary", "uuid": "t5", "parentUuid": None},
]
ENTRIES = [*turn(1), *turn(2, "a1"), *THINKING, *(entry for entry in ODD if "inf" not in repr(entry))]
"""What JSON can say: a program in Node.js has nothing else."""


def _camel(key: dict[str, Any]) -> dict[str, Any]:
    named = {"project_key": "projectKey", "session_id": "sessionId"}
    return {named.get(name, name): value for name, value in key.items()}


async def in_typescript(home: Path, *calls: list[Any]) -> list[Any]:
    """The results of calls of the TypeScript store, in a program of its own."""
    server = [sys.executable, "-m", "timeleap", "serve"]
    command = [NODE, str(Path(__file__).with_name("store_calls.cjs")), str(PACKAGE), str(home), *server]
    done = await asyncio.to_thread(
        subprocess.run, command, input=json.dumps(calls), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results


async def test_what_python_wrote_typescript_loads_equal(client: RawTimeleap, tmp_path: Path) -> None:
    await ClaudeSessionStore(client).append(KEY, ENTRIES)
    (loaded,) = await in_typescript(tmp_path / "home", ["load", _camel(KEY)])
    assert loaded == ENTRIES


async def test_what_typescript_wrote_python_loads_equal(client: RawTimeleap, tmp_path: Path) -> None:
    await in_typescript(tmp_path / "home", ["append", _camel(KEY), ENTRIES])
    assert await ClaudeSessionStore(client).load(KEY) == ENTRIES


async def test_both_write_the_same_log(client: RawTimeleap, window: Window, tmp_path: Path) -> None:
    plain = [*turn(1), *turn(2, "a1"), *THINKING]
    logs: list[Any] = []
    for write in (ClaudeSessionStore(client).append, None):
        if write is not None:
            await write(KEY, plain)
        else:
            await in_typescript(tmp_path / "home", ["append", _camel(KEY), plain])
        session = await window.only("claude-code")
        (info,) = await window.sessions("claude-code")
        records = (await window.call("context/getRecords", session, limit=1000))["records"]
        labels = list(await window.checkpoints(session))
        logs.append((session, info["source"], info["title"], info["workspace"], labels, _without_marks(records)))
        await window.client.call("session/close", {"sessionId": session})
        await ClaudeSessionStore(client).delete(KEY)
        window = Window(window.client)
    assert logs[0] == logs[1]


def _without_marks(records: list[Any]) -> list[Any]:
    return [{name: value for name, value in row["record"].items() if name != "_tl"} for row in records]


async def test_an_agent_in_typescript_is_stale_by_what_python_stored(
    client: RawTimeleap, window: Window, tmp_path: Path
) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    await window.revert(await window.only("claude-code"), "question 2")
    late = answer("b1", "a2", "still here")
    _, loaded = await in_typescript(tmp_path / "home", ["append", _camel(KEY), [late]], ["load", _camel(KEY)])
    assert loaded == turn(1)
    titles = {session["title"] for session in await window.sessions("claude-code")}
    assert titles == {"question 1", "question 1 (continued before revert)"}


async def test_both_name_a_session_alike_whatever_its_key_is(client: RawTimeleap, tmp_path: Path) -> None:
    keys = [
        ["p", "s"],
        ["", "\0"],
        ["é\u2028", "\U0001f600"],
        ["a" * 300, "b"],
        ["\ud800x", "\udc00"],
        ["p", "s", "sub/1"],
    ]
    named = [dict(zip(("projectKey", "sessionId", "subpath"), key, strict=False)) for key in keys]
    await in_typescript(tmp_path / "home", *(["append", key, [{"type": "x"}]] for key in named))
    sessions = (await client.call("session/list", {"source": {"kind": "claude-code"}}))["sessions"]
    assert {session["sessionId"] for session in sessions} == {session_id_of("cc", *key) for key in keys}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder in which the package and the SDK are installed."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "timeleap-client").symlink_to(PACKAGE, target_is_directory=True)
    (tmp_path / "node_modules" / "@anthropic-ai").symlink_to(SDK, target_is_directory=True)
    return tmp_path


def example() -> str:
    (found,) = re.findall(r"```ts\n(.*?)```", PAGE.partition("## Claude Agent SDK")[2].partition("\n## ")[0], re.DOTALL)
    return str(found)


@needs_sdk
def test_the_example_runs_on_the_sdk_and_its_session_is_there(model: Model, project: Path) -> None:
    program = Path(claude_agent_sdk.__file__).parent / "_bundled" / ("claude.exe" if os.name == "nt" else "claude")
    there = f"options: {{ pathToClaudeCodeExecutable: {json.dumps(str(program))}, "  # the SDK's own is not installed
    (project / "example.mjs").write_text(example().replace("options: { ", there))
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(project),
        "TIMELEAP_HOME": str(project / "store"),
        **model.environment(),
    }
    done = subprocess.run(
        [NODE, "example.mjs"], cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Done." in done.stdout
    (session,) = (project / "store" / "sessions").iterdir()
    assert session.name.startswith("cc-")
    assert "Why does the login fail?" in (session / "context.jsonl").read_text()


@needs_sdk
def test_the_store_is_what_the_sdk_takes(project: Path) -> None:
    (project / "fits.mts").write_text(
        'import { foldSessionSummary, type SessionStore } from "@anthropic-ai/claude-agent-sdk";\n'
        'import type { TimeleapClient } from "timeleap-client";\n'
        'import { ClaudeSessionStore } from "timeleap-client/claude";\n'
        "declare const client: TimeleapClient;\n"
        "export const store: SessionStore = new ClaudeSessionStore(client, { foldSessionSummary });\n"
    )
    compiler = PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
    strict = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "--module", "nodenext"]
    types = ["--types", "node", "--typeRoots", str(PACKAGE / "node_modules" / "@types"), "--target", "es2023"]
    done = subprocess.run(
        [NODE, str(compiler), *strict, *types, "fits.mts"], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_package_shows_the_same_example_and_its_page_names_the_version() -> None:
    assert example() in README
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (version,) = re.findall(r"@anthropic-ai/claude-agent-sdk@([\d.]+)", makefile)
    assert f"| @anthropic-ai/claude-agent-sdk | {version}" in PAGE
