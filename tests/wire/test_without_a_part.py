"""A part outside the core is not installed: the server starts and serves everything else, and says why it does not the rest."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import BESIDE, CLIENT, SERVER
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.session import assistant, user
from tests.wire.test_upgrade_in_place import GOLDENS, installed, started

from timeleap_protocol.methods import ANSWERED

__all__ = ["installed"]  # a fixture

PARTS = [
    "timeleap/features",
    *(
        f"timeleap/features/{name}"
        for name in (
            *("approvals", "compaction", "disk_usage", "dmail", "files"),
            *("comparison", "integrity", "providers", "redaction", "search", "transfer"),
        )
    ),
    *("timeleap/api", "timeleap/adapters"),
    *(package.name for package in BESIDE),
]

NEEDED_BY = {
    "timeleap/features": {name for name in ANSWERED if name.startswith("bridge/")},
    "timeleap/features/search": {"session/redact"},
}
"""Methods of other parts, which cannot do without this one."""


def take_out(installed: Path, part: str) -> None:
    """Delete a folder of the copy; the packages of the work tree are not found in its place."""
    shutil.rmtree(installed / part)
    found = f"import sys\nsys.path[:] = [place for place in sys.path if place != {str(SERVER.parent)!r}]\n"
    (installed / "sitecustomize.py").write_text(found)


@pytest.mark.parametrize("part", mostly_long(PARTS, every=4))
def test_the_server_does_without_a_part(start: StartServer, installed: Path, tmp_path: Path, part: str) -> None:
    take_out(installed, part)
    (tmp_path / "work").mkdir()
    server = started(start, installed)
    opened = server.call("session/open", sessionId="s", workspace=(tmp_path / "work").as_uri())
    assert opened["access"] == "owner"
    said = {"sessionId": "s"}
    server.call("context/appendMessage", **said, messages=[user("one"), assistant("two")])
    uid = server.call("context/checkpoint", **said)["checkpoint"]["uid"]
    server.call("context/appendMessage", **said, message=user("three"))
    server.call("context/revertTo", **said, checkpointUid=uid)
    server.call("context/undo", **said)
    assert len(server.call("context/getHistory", **said)["messages"]) == 3
    server.call("session/fork", **said, newSessionId="f")
    server.call("session/close", sessionId="f")
    server.call("session/delete", sessionId="f")
    refused = []
    for method in sorted(ANSWERED.keys() - {"initialize", "shutdown", "approval/request", "session/close"}):
        params: dict[str, Any] = next((golden["params"] for golden in GOLDENS if golden["method"] == method), {})
        reply = server.start_with(method, {**params, **({"sessionId": "s"} if "sessionId" in params else {})}).reply()
        error = reply.get("error", {})
        assert error.get("code") not in (-32603, -32601), (method, error)
        if "this installation does not do" in error.get("message", ""):
            refused.append(method)
            assert error["code"] == 4028
    places = {name: (row.handler or "", row.formats or "") for name, row in ANSWERED.items()}
    handled = {
        name for name, place in places.items() if any(one.startswith(f"{part.replace('/', '.')}.") for one in place)
    }
    offered = server.hello["capabilities"]["experimental"]["timeleap"]["methods"].keys()
    assert offered == ANSWERED.keys() - {"initialize", "shutdown"} - {
        name for name, row in ANSWERED.items() if (row.handler or "").startswith(f"{part.replace('/', '.')}.")
    }
    assert set(refused) <= handled | NEEDED_BY.get(part, set())
    assert server.finish() == 0


def test_without_agents_our_own_sessions_are_exported_imported_and_redacted(
    start: StartServer, installed: Path, tmp_path: Path
) -> None:
    take_out(installed, "timeleap_agents")
    server = started(start, installed)
    server.call("session/open", sessionId="s")
    server.call("context/appendMessage", sessionId="s", messages=[user("one secret word"), assistant("two")])
    for form in ("native", "markdown", "html"):
        server.call("session/export", sessionId="s", format=form, path=str(tmp_path / form))
    archive, page = str(tmp_path / "native"), str(tmp_path / "markdown")
    for named in ({}, {"format": "native"}):
        made = server.call("session/import", path=archive, **named)["sessionId"]
        assert len(server.call("context/getHistory", sessionId=made)["messages"]) == 2
    server.call("session/export", sessionId="s", format="native", path=str(tmp_path / "again"))
    for params in ({"path": page}, {"path": archive, "format": "claude-code"}, {"path": page, "format": "kimi"}):
        error = server.refuse("session/import", **params)
        assert error["code"] == 4028 and "its package timeleap_agents is missing" in error["message"]
    assert server.call("session/redact", sessionId="s", value="secret")["occurrences"] == 1
    assert server.call("session/verify", sessionId="s")["ok"]
    assert server.finish() == 0


def test_a_store_in_a_database_is_refused_without_its_package(start: StartServer, installed: Path) -> None:
    take_out(installed, "timeleap_postgresql")
    server = started(start, installed, "--store", "postgresql://localhost/nowhere")
    error = server.refuse("session/open", sessionId="s")
    assert "its package timeleap_postgresql is missing" in error["message"] and not error["data"]["retryable"]


@pytest.fixture
def run_in(installed: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        shutil.copytree(CLIENT, installed / CLIENT.name, dirs_exist_ok=True)
        environ = {**os.environ, "PYTHONPATH": str(installed), "TIMELEAP_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "timeleap", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)

    return run


def test_the_command_line_does_without_agents(
    installed: Path, run_in: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    take_out(installed, "timeleap_agents")
    overview = run_in("help", "--all")
    assert overview.returncode == 0
    offered = {line.split()[0] for line in overview.stdout.splitlines() if line.startswith("  ")}
    assert "serve" in offered and not offered & {"agents", "hook", "mcp"}
    assert run_in("new", "s").returncode == 0
    for arguments in (("agents", "status"), ("agents", "--help"), ("hook", "claude-code"), ("mcp",)):
        done = run_in(*arguments)
        assert (done.returncode, done.stdout) == (1, ""), arguments
        assert done.stderr == "error: this installation does not do this: its package timeleap_agents is missing\n"
    done = run_in("--json", "agents", "status")
    assert done.returncode == 1 and json.loads(done.stderr or done.stdout)["error"]["kind"] == "notSupported"


@pytest.mark.parametrize("module", ["claude", "openai_agents", "pydantic_ai"])
def test_adapters_are_importable_by_their_public_name(module: str) -> None:
    """The two modules are read, not imported: SDKs are not installed everywhere."""
    public = ast.parse((SERVER / "adapters" / f"{module}.py").read_text("utf-8"))
    (taken,) = [node for node in public.body if isinstance(node, ast.ImportFrom)]
    assert taken.module == f"timeleap_agents.adapters.{module}"
    defined = ast.parse((SERVER.parent / "timeleap_agents" / "adapters" / f"{module}.py").read_text("utf-8"))
    classes = {node.name for node in defined.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")}
    assert {alias.name for alias in taken.names} == classes


def test_without_the_package_of_lsp_documents_have_nothing(
    start_at: StartServer, installed: Path, tmp_path: Path
) -> None:
    take_out(installed, "timeleap_lsp")
    server = start_at(tmp_path / "home", env={"PYTHONPATH": str(installed)}, fresh=True)
    server.initialize(capabilities={"textDocument": {}})
    assert set(server.hello["capabilities"]) == {"experimental"}
    assert server.refuse("textDocument/hover")["code"] == -32601
    assert server.finish() == 0
