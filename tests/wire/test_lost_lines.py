"""A log that has lost what was acknowledged: told, not written to, and accepted by a reload."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.server import Launch, Refused, Server
from tests.support.session import Session, user


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all: what is lost is of a session of the test's own."""
    running = Server(Launch(tmp_path_factory.mktemp("lost") / "home", "lsp"))
    running.initialize()
    yield running
    running.dispose()


def _cut(log: Path) -> None:
    os.truncate(log, sum(map(len, log.read_bytes().splitlines(keepends=True)[:1])))


def _without_index(log: Path) -> None:
    log.unlink()
    log.with_name(".context.jsonl.idx").unlink()


LOSSES: dict[str, tuple[Callable[[Path], object], str, list[str]]] = {
    "cut": (_cut, "linesLost", ["one"]),
    "emptied": (lambda log: os.truncate(log, 0), "linesLost", []),
    "gone": (Path.unlink, "logMissing", []),
    "gone with its index": (_without_index, "logMissing", []),
    "placeholder": (lambda log: log.rename(log.with_name(".context.jsonl.icloud")), "logMissing", []),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_loss_is_told_and_nothing_is_written_until_a_reload(store: Server, how: str) -> None:
    change, kind, left = LOSSES[how]
    session = Session.open(store)
    session.say("one", "two", "three")
    session.call("session/close")
    change(session.log)
    there = session.log.exists() and session.log_bytes()
    (session.path / "context (conflicted copy).jsonl").write_bytes(b'{"role":"user","content":"elsewhere"}\n')
    checked = session.call("session/verify")
    assert not checked["ok"]
    assert checked["problems"][0]["kind"] == kind
    copies = [one["message"] for one in checked["warnings"] if one["kind"] == "conflictCopy"]
    assert len(copies) == 1
    assert "timeleap import '" in copies[0]
    for access in ("readOnly", "write"):
        state = store.call("session/open", sessionId=session.id, access=access)
        told = [one["message"] for one in state["warnings"] if one["kind"] == kind]
        assert len(told) == 1
        assert "conflicted copy" in told[0]
        store.call("session/close", sessionId=session.id)
    again = session.reopen(store)
    for method, params in (("context/appendMessage", {"message": user("four")}), ("context/clear", {})):
        with pytest.raises(Refused) as refused:
            again.call(method, **params)
        assert refused.value.error["data"]["kind"] == "externallyModified"
    assert (session.log.exists() and session.log_bytes()) == there
    state = again.call("session/reload")
    assert [one for one in state["warnings"] if one["kind"] == kind] == []
    again.say("four")
    assert again.texts() == [*left, "four"]
    again.call("session/close")
    assert session.call("session/verify")["ok"]


def test_a_conflict_copy_is_imported_as_a_session_of_its_own(store: Server) -> None:
    session = Session.open(store)
    session.say("one")
    copies = (
        "context (conflicted copy).jsonl",
        "context (Ann's conflicted copy 2026-01-01).jsonl",
        "context.sync-conflict-20260101-120000-ABCDEFG.jsonl",
        "context-LAPTOP.jsonl",
        "context (1).jsonl",
        "context 2.jsonl",
        "context (conflicted copy 2026-01-01 120000).jsonl",
        "context_conflict-20260101-120000.jsonl",
    )
    for name in copies:
        (session.path / name).write_bytes(b'{"role":"user","content":"elsewhere"}\n')
    checked = session.call("session/verify")
    assert checked["ok"], "other versions are no damage"
    assert sorted(one["file"] for one in checked["warnings"] if one["kind"] == "conflictCopy") == sorted(copies)
    for name in copies:
        made = store.call("session/import", path=str(session.path / name))
        assert made["sessionId"] != session.id
