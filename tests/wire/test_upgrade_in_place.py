"""Another version is installed in the place of the one that runs: the server goes on with its own code, all of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import PROTOCOL, ROOT, SERVER
from tests.support.fixtures import StartServer
from tests.support.server import Server
from tests.support.session import user

from timeleap_protocol.methods import ANSWERED

GOLDENS = [json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "protocol" / "golden").glob("*/*.json"))]
NEXT = "raise RuntimeError('a module of the next version')\n"
BROKEN = ("internalError", "parseError", "methodNotFound")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the packages, which a server is started from."""
    folder = tmp_path / "installed"
    for package in (SERVER, PROTOCOL):
        shutil.copytree(package, folder / package.name)  # compiled files, too, whose times are kept
    shutil.copy(SERVER.parent / "timeleap_command.py", folder)
    return folder


def install_next(installed: Path) -> None:
    """Replace every file, as a package manager does: the old ones are gone, and what is there is of another version."""
    for path in sorted(installed.rglob("*")):
        if path.is_file():
            path.unlink()
            if path.suffix == ".py":
                path.write_text(NEXT)
            elif path.suffix != ".pyc":
                path.write_text("the next version")
    (installed / "timeleap" / "version.py").write_text('__version__ = "99.0.0"\n')


def started(start: StartServer, installed: Path) -> Server:
    return start(env={"PYTHONPATH": str(installed)}, fresh=True)


def test_every_method_is_answered_by_the_version_that_runs(start: StartServer, installed: Path, tmp_path: Path) -> None:
    server = started(start, installed)
    server.call("session/open", sessionId="s", title="one")
    install_next(installed)
    s = {"sessionId": "s"}
    server.call("context/appendMessage", **s, message=user("one"))
    server.call("context/checkpoint", **s, label="first")
    server.call("context/appendMessage", **s, message=user("two"))
    done: set[str] = set()
    results: list[tuple[str, dict[str, Any]]] = [
        *(("context/getHistory", {**s, "format": each}) for each in ("openai", "anthropic")),
        ("context/search", {**s, "query": "one"}),
        ("session/search", {"query": "one"}),
        ("context/prepareCompaction", s),
        ("context/compact", {**s, "summarizer": "builtin"}),
        *(
            ("session/export", {**s, "format": each, "path": str(tmp_path / each)})
            for each in ("native", "markdown", "html")
        ),
        ("session/import", {"path": str(tmp_path / "native"), "sessionId": "t"}),
        ("session/storage", s),
        ("session/redact", {**s, "value": "two", "dryRun": True}),
        ("bridge/list", {}),
        ("rpc.discover", {}),
    ]
    for method, params in results:
        reply = server.start_with(method, params).reply()
        assert "result" in reply or reply["error"]["data"]["kind"] not in BROKEN, reply
        assert "result" in reply, (method, reply)
        done.add(method)
    assert "the next version" not in (tmp_path / "html").read_text("utf-8")
    for golden in GOLDENS:
        method = golden["method"]
        slow = "secrets" in golden["params"]  # loads the rules of another package
        if method in ANSWERED and method not in ("shutdown", "initialize") and not slow:
            reply = server.start_with(method, golden["params"]).reply()
            assert "result" in reply or reply["error"]["data"]["kind"] not in BROKEN, (method, reply)
            done.add(method)
            server.call("session/open", sessionId="s")
    assert done >= ANSWERED.keys() - {"shutdown", "initialize"}
    refused = server.refuse("context/appendMessage", **s, message={"role": 1})
    assert refused["data"]["errors"][0]["loc"][0] == "message"
    assert "next version" not in server.stderr()


def test_a_file_store_is_kept_by_the_version_that_runs(start: StartServer, installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    server = started(start, installed)
    server.call("session/open", sessionId="s", workspace=folder.as_uri(), files={"mode": "checkpoint"})
    install_next(installed)
    made = server.call("files/snapshot", sessionId="s")
    (folder / "a.txt").write_text("two\n")
    assert server.call("files/diff", sessionId="s", **{"from": {"snapshot": made["snapshot"]}, "to": {}})["changes"]
    server.call("files/restore", sessionId="s", to={"snapshot": made["snapshot"]}, onConflict="overwrite")
    assert (folder / "a.txt").read_text() == "one\n"


def test_a_second_window_attaches_by_the_version_that_runs(start: StartServer, installed: Path) -> None:
    owner, other = started(start, installed), started(start, installed)
    owner.call("session/open", sessionId="s")
    other.call("session/open", sessionId="elsewhere")
    install_next(installed)
    other.call("session/open", sessionId="s")
    other.call("context/appendMessage", sessionId="s", message=user("one"))
    assert len(owner.call("context/getHistory", sessionId="s")["messages"]) == 1
    assert owner.finish() == 0
    other.call("context/appendMessage", sessionId="s", message=user("two"))
    assert len(other.call("context/getHistory", sessionId="s")["messages"]) == 2
