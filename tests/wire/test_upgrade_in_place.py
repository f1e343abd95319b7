"""Another version is installed in the place of the one that runs: the server goes on with its own code, all of it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import BESIDE, PROTOCOL, ROOT, SERVER
from tests.support.fixtures import StartServer
from tests.support.server import Server
from tests.support.session import user

from timeleap_protocol.methods import ANSWERED

GOLDENS = [json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "protocol" / "golden").glob("*/*.json"))]
NEXT = "raise RuntimeError('a module of the next version')\n"
BROKEN = ("internalError", "parseError", "methodNotFound")
LATE = {"aiofiles", "annotated_types", "kingfisher_sdk", "pydantic", "pydantic_core", "typing_inspection"}
"""Packages of others that a server loads when it needs them: `kept_modules` says why."""
NOTED = "import sys, pathlib; noted = open({!r}, 'a', buffering=1)\n"
NOTED += "class Noting:\n    def find_spec(self, name, path=None, target=None): noted.write(name + chr(10))\n"
NOTED += "sys.meta_path.insert(0, Noting())\n"
"""A `sitecustomize` module that writes down what is looked for to be loaded."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the packages, which a server is started from."""
    folder = tmp_path / "installed"
    for package in (SERVER, *BESIDE, PROTOCOL):
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


def started(start: StartServer, installed: Path, *arguments: str) -> Server:
    return start(args=arguments, env={"PYTHONPATH": str(installed)}, fresh=True)


def test_every_method_is_answered_by_the_version_that_runs(start: StartServer, installed: Path, tmp_path: Path) -> None:
    noted = tmp_path / "loaded"
    (installed / "sitecustomize.py").write_text(NOTED.format(str(noted)))
    server = started(start, installed)
    server.call("session/open", sessionId="s", title="one")
    install_next(installed)
    noted.write_text("")
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
    loaded = {name.partition(".")[0] for name in noted.read_text().split()} - sys.stdlib_module_names
    assert {name for name in loaded if not name.startswith("_")} <= LATE


def test_what_is_installed_before_initialize_is_noticed(start_at: StartServer, home: Path, installed: Path) -> None:
    server = start_at(home, env={"PYTHONPATH": str(installed)}, fresh=True)
    server.refuse("session/list")  # so it runs
    install_next(installed)
    refused = server.refuse("initialize")
    assert "start it again" in refused["message"]
    assert refused["data"]["retryable"] is False
    assert server.process.wait(60) == 4
    assert "next version" not in server.stderr()


@pytest.mark.parametrize("method", ["session/open", "session/list", "session/search"])
@pytest.mark.parametrize("replaced", ["all", "one file"])
def test_what_is_installed_right_after_initialize_is_noticed_or_not_used(
    start: StartServer, installed: Path, method: str, replaced: str
) -> None:
    server = started(start, installed)
    if replaced == "all":
        install_next(installed)
    else:  # the installation has only begun
        (installed / "timeleap" / "__init__.py").unlink()
    reply = server.start_with(method, {"query": "x"} if method == "session/search" else {}).reply()
    if "error" in reply:
        assert "start it again" in reply["error"]["message"], reply
        for _ in range(50):  # whatever the server does by itself in between, which it puts off at the start
            again = server.start_with("session/open", {}).reply()
            assert "start it again" in again["error"]["message"]
    assert server.finish() == 0
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
