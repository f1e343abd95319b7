"""A server that may open no more files: what fails leaves nothing, and what there is goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.server import DATABASES, Message, Server
from tests.support.session import Session, user

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process can be set on Linux only")


@contextmanager
def only(server: Server, more: int) -> Iterator[None]:
    """Let the server have so many more descriptors than now."""
    import resource

    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    # The least of many looks: what the server has open for a moment only is not to count.
    highest = min(max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) for _ in range(200))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + more, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def stored(server: Server) -> list[str]:
    return sorted(path.name for folder in ("sessions", "staging") for path in (server.home / folder).glob("*"))


MAKERS: dict[str, Any] = {
    "session/open": lambda name, archive: {"sessionId": name, "systemPrompt": "be kind"},
    "session/fork": lambda name, archive: {"sessionId": "source", "newSessionId": name},
    "session/import": lambda name, archive: {"sessionId": name, "path": archive},
}


@pytest.mark.parametrize("method", MAKERS)
def test_a_session_that_cannot_be_opened_for_want_of_descriptors_is_not_made(
    start: StartServer, method: str, tmp_path: Any
) -> None:
    server = start()
    source = Session.open(server, "source")
    source.append(user("one"))
    archive = str(tmp_path / "archive.zip")
    source.call("session/export", format="native", path=archive)
    warm = {**MAKERS[method]("warm", archive)}  # what is loaded at first need is loaded
    server.call(method, **warm)
    failed: list[Message] = []
    made = 0
    in_database = server.home in DATABASES  # which has made a session, or not: a repeat finds out
    for more in range(24):
        before, name = stored(server), f"s{more}"
        with only(server, more):
            reply = server.start_with(method, {**MAKERS[method](name, archive), "requestId": f"r{more}"}).reply()
        if "error" in reply:
            failed.append(reply["error"])
            data = reply["error"]["data"]
            assert reply["error"]["code"] == 4005, reply
            # libpq does not say why there is no connection.
            assert data.get("errno") == "EMFILE" or (in_database and data["reason"] in ("unreachable", "lost")), reply
            assert reply["error"]["data"]["retryable"] is True
            assert in_database or stored(server) == before, f"{more} more descriptors"
            again = server.start_with(method, {**MAKERS[method](name, archive), "requestId": f"r{more}"}).result()
            assert again["sessionId"] == name and (in_database or "duplicate" not in again)
        else:
            made += 1
        server.call("session/close", sessionId=name)
    assert len(failed) >= 2 and made > 2
    source.append(user("two"))
    assert source.texts() == ["one", "two"]


READS: list[tuple[str, dict[str, Any]]] = [
    ("context/getHistory", {}),
    ("context/getHistory", {"format": "openai"}),
    ("context/getHistory", {"format": "anthropic"}),
    ("context/listCheckpoints", {}),
    ("context/listTimelines", {}),
    ("context/listUsage", {}),
    ("context/getRecords", {}),
    ("context/search", {"query": "one"}),
    ("context/search", {"query": "o.e", "regex": True}),
    ("context/diff", {"from": {}, "to": {}}),
    ("context/prepareCompaction", {}),
    ("session/getState", {}),
    ("approval/list", {}),
    ("session/isApproved", {"action": "run"}),
]


def test_an_open_session_is_read_without_a_descriptor_left(start: StartServer, home: Path) -> None:
    """A server that has answered nothing else yet has loaded nothing of what it is asked for."""
    server = start(fresh=True)
    opened = server.call("session/open", sessionId="s")
    server.call("context/appendMessage", sessionId="s", message=user("one"))
    server.call("context/checkpoint", sessionId="s")
    assert opened["sessionId"] == "s"
    with only(server, 0):
        for number in range(20):  # what is free below is taken
            if "error" in server.start("session/open", sessionId=f"t{number}").reply():
                break
        refused = {}
        for method, params in READS:
            reply = server.start(method, sessionId="s", **params).reply()
            if "error" in reply:
                refused[method, *params] = reply["error"]["message"]
        assert not refused
