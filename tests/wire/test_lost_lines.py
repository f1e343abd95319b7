"""A log that has lost what was acknowledged: told, not written to, and accepted by a reload."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.cli import Cli
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


@pytest.mark.parametrize("how", LOSSES)
def test_two_windows_see_a_loss_and_either_accepts_it(servers: list[Server], how: str) -> None:
    change, kind, left = LOSSES[how]
    session = Session.open(servers[0])
    session.say("one", "two", "three")
    session.call("session/close")
    change(session.log)
    there = session.log.exists() and session.log_bytes()
    owner = session.reopen(servers[0])
    attached = session.reopen(servers[1])
    assert (owner.state["access"], attached.state["access"]) == ("owner", "attached")
    for window in (owner, attached):
        assert [one["kind"] for one in window.state["warnings"]].count(kind) == 1
        assert [one["kind"] for one in window.get_state()["warnings"]].count(kind) == 1
        assert window.refuse("context/appendMessage", message=user("x"))["data"]["kind"] == "externallyModified"
    assert (session.log.exists() and session.log_bytes()) == there
    state = attached.call("session/reload")
    assert [one for one in state["warnings"] if one["kind"] == kind] == []
    owner.say("owner")
    attached.say("attached")
    assert owner.texts() == attached.texts() == [*left, "owner", "attached"]


@pytest.mark.parametrize("how", LOSSES)
def test_the_command_line_tells_a_loss_once_and_repair_accepts_it(tmp_path: Path, how: str) -> None:
    change, kind, left = LOSSES[how]
    cli = Cli(tmp_path / "home")
    cli.run("new", "s")
    for text in ("one", "two", "three"):
        cli.run("append", "s", input=json.dumps(user(text)) + "\n")
    log = cli.home / "sessions" / "s" / "context.jsonl"
    change(log)
    checked = cli.run("verify", "s", code=1)
    assert f"({kind})" in checked.out
    assert "backups" in checked.out
    assert "timeleap repair s" in checked.err
    for command in (["log", "s"], ["show", "s"]):
        told = cli.run(*command)
        assert told.err.count("timeleap repair s") == 1, command
        assert "history of a sync program" in told.err
    refused = cli.run("append", "s", input=json.dumps(user("four")) + "\n", code=1)
    assert refused.err.count("timeleap repair s") == 1
    assert json.loads(cli.run("log", "s", "--json").err.splitlines()[0])["notice"]["kind"] == kind
    cli.run("repair", "s", "--dry-run")
    assert cli.run("verify", "s", code=1).out == checked.out
    assert "goes on with the log as it is" in cli.run("repair", "s", "--yes").out
    assert "no damage" in cli.run("verify", "s").out
    cli.run("append", "s", input=json.dumps(user("four")) + "\n")
    shown = cli.run("show", "s", "--json")
    assert [line["message"]["content"] for line in shown.lines()] == [*left, "four"]
    assert "repair" not in shown.err


@pytest.mark.parametrize("folder", ["plain", 'it\'s a "folder" of $HOME; `x`'])
def test_the_printed_command_imports_a_conflict_copy(tmp_path: Path, folder: str) -> None:
    cli = Cli(tmp_path / folder)
    cli.run("new", "s")
    copy = cli.home / "sessions" / "s" / "context (Ann's conflicted copy).jsonl"
    copy.write_bytes(b'{"role":"user","content":"elsewhere"}\n')
    warnings = cli.json("verify", "s")["warnings"]
    message = next(one["message"] for one in warnings if one["kind"] == "conflictCopy")
    command = message[message.index("timeleap import ") :]
    assert command in cli.run("verify", "s").out
    program, *args = shlex.split(command)
    made = cli.run(*args).out.strip()
    assert program == "timeleap"
    assert [line["message"]["content"] for line in cli.run("show", made, "--json").lines()] == ["elsewhere"]


@pytest.mark.parametrize("how", LOSSES)
def test_what_only_reads_tells_a_loss_and_overwrites_nothing(store: Server, tmp_path: Path, how: str) -> None:
    change, kind, left = LOSSES[how]
    session = Session.open(store)
    session.say("one", "two", "three")
    session.call("session/close")
    change(session.log)
    there = {path.name: path.read_bytes() for path in session.path.iterdir() if path.is_file()}
    assert store.call("session/list", limit=1000)["sessions"]
    reader = session.reopen(store, access="readOnly")
    for state in (reader.state, reader.get_state()):
        assert [one["kind"] for one in state["warnings"]].count(kind) == 1
    assert reader.texts() == left
    for number, form in enumerate(("native", "markdown", "html")):
        exported = reader.call("session/export", path=str(tmp_path / f"{how} {number}"), format=form)
        assert kind in [one["kind"] for one in exported["losses"]]
    forked = Session(store, reader.call("session/fork"))
    assert forked.texts() == left
    reader.call("session/close")
    made = store.call("session/import", path=str(session.path))
    assert kind in [one["kind"] for one in made["losses"]]
    assert {path.name: path.read_bytes() for path in session.path.iterdir() if path.is_file()} == there
