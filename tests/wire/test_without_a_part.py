"""A part outside the core is not installed: the server starts and serves everything else, and says why it does not the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import SERVER
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.session import assistant, user
from tests.wire.test_upgrade_in_place import GOLDENS, installed, started

from timeleap_protocol.methods import ANSWERED

__all__ = ["installed"]  # a fixture

PARTS = [
    *("features/approvals", "features/compaction", "features/disk_usage", "features/dmail", "features/files"),
    *("features/providers", "features/redaction", "features/search", "features/transfer"),
    *("mirrors", "adapters", "api", "mcp"),
]
PACKAGES = ["timeleap_postgresql"]

NEEDED_BY = {
    "features/search": {"session/redact"},
    "mirrors": {"session/export", "session/import", "session/redact"},
}
"""Methods of other parts, which cannot do without this one."""


def take_out(installed: Path, part: str) -> None:
    """Delete a folder of the copy; the packages of the work tree are not found in its place."""
    shutil.rmtree(installed / part)
    found = f"import sys\nsys.path[:] = [place for place in sys.path if place != {str(SERVER.parent)!r}]\n"
    (installed / "sitecustomize.py").write_text(found)


@pytest.mark.parametrize("part", mostly_long([*(f"timeleap/{part}" for part in PARTS), *PACKAGES], every=4))
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
        name
        for name, place in places.items()
        if any(one.startswith(part.removeprefix("timeleap/").replace("/", ".")) for one in place)
    }
    assert set(refused) <= handled | NEEDED_BY.get(part.removeprefix("timeleap/"), set())
    assert server.finish() == 0


def test_a_store_in_a_database_is_refused_without_its_package(start: StartServer, installed: Path) -> None:
    take_out(installed, "timeleap_postgresql")
    server = started(start, installed, "--store", "postgresql://localhost/nowhere")
    error = server.refuse("session/open", sessionId="s")
    assert "its package timeleap_postgresql is missing" in error["message"] and not error["data"]["retryable"]
