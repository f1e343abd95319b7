"""`timeleap hook` as agents run it: with a process that answers, none, one that hangs; and what it is given."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli

from timeleap.storage.lock import FileLock
from timeleap_agents.hooks.hook import FIRST_SECONDS, MAX_LOG, SECONDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks are refused there")

GENEROUS = 15.0
"""Seconds beyond a deadline that a machine with other things to do may take to start and end a process."""
EVENT = {"hook_event_name": "UserPromptSubmit", "transcript_path": "/c/s.jsonl", "cwd": "/c/work", "session_id": "s"}
TOOL = {**EVENT, "hook_event_name": "PostToolUse", "tool_name": "Bash"}


class Host:
    """Stands where the hooks' process is; takes connections, and answers as it is told."""

    def __init__(self, home: Path, runtime: Path, answers: list[dict[str, Any]] | None) -> None:
        self.events: list[dict[str, Any]] = []
        self.connections = 0
        self._answers = answers
        (home / "hooks").mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(home / "hooks" / "host.lock")  # so that no hook starts another
        assert self._lock.try_acquire()
        runtime.mkdir(mode=0o700)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(runtime / "host.sock"))
        self._listening.listen()
        record = {"address": str(runtime / "host.sock"), "token": "t0ken", "pid": os.getpid()}
        (home / "hooks" / "host.json").write_text(json.dumps(record))
        self._held: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._held:
            connection.close()
        self._lock.release()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._held.append(connection)
            if self._answers is not None:
                self.events.append(json.loads(connection.makefile("rb").readline()))
                for answer in self._answers:
                    connection.sendall(json.dumps(answer).encode() + b"\n")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def hanging(cli: Cli, tmp_path: Path) -> Iterator[Host]:
    host = Host(cli.home, tmp_path / "run", None)
    yield host
    host.close()


@pytest.fixture
def answering(cli: Cli, tmp_path: Path) -> Iterator[Host]:
    host = Host(cli.home, tmp_path / "run", [{"wait": 0.0}, {"done": True}])
    yield host
    host.close()


def run_hook(cli: Cli, event: object = EVENT, *, data: bytes | None = None, within: float = SECONDS) -> float:
    """Run the hook as an agent does; returns the seconds it took. It always ends with 0 and says nothing."""
    began = time.monotonic()
    ran = subprocess.run(
        cli.argv(["hook", "claude-code"]),
        input=json.dumps(event).encode() if data is None else data,
        capture_output=True,
        env=cli.environment(),
        timeout=within + GENEROUS,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    return time.monotonic() - began


def log(cli: Cli) -> str:
    return (cli.home / "hooks" / "hook.log").read_text()


def test_an_event_is_told_and_the_hook_ends(cli: Cli, answering: Host) -> None:
    run_hook(cli)
    run_hook(cli, TOOL)
    told = {"token": "t0ken", "kind": "claude-code", "event": "prompt", "path": "/c/s.jsonl", "cwd": "/c/work"}
    assert answering.events == [told, {**told, "event": "tool", "toolName": "Bash"}]
    assert not (cli.home / "hooks" / "hook.log").exists()


def test_a_process_that_never_answers_holds_nobody_up_beyond_the_deadline(cli: Cli, hanging: Host) -> None:
    run_hook(cli, TOOL)
    assert hanging.connections
    assert "could not be reached in time" in log(cli)


@pytest.mark.long
def test_only_prompts_try_again_what_did_not_answer(cli: Cli, hanging: Host) -> None:
    run_hook(cli, TOOL)
    tried = hanging.connections
    run_hook(cli, TOOL)
    assert hanging.connections == tried
    run_hook(cli)
    assert hanging.connections > tried


@pytest.mark.long
def test_an_input_that_never_ends_holds_nobody_up(cli: Cli) -> None:
    reading, writing = os.pipe()
    try:
        ran = subprocess.run(
            cli.argv(["hook", "claude-code"]),
            stdin=reading,
            capture_output=True,
            env=cli.environment(),
            timeout=SECONDS + GENEROUS,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    assert "no time left" in log(cli)


def test_ctrl_c_is_for_the_agent(cli: Cli, hanging: Host) -> None:
    process = subprocess.Popen(
        cli.argv(["hook", "claude-code"]), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=cli.environment()
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(TOOL).encode())
    process.stdin.close()
    until = time.monotonic() + GENEROUS
    while not hanging.connections and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS + GENEROUS) == 0


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"\0" * 1000, b"\xff\xfe{}", b"[" * 200_000, b" " * (17 * 1024 * 1024), b"{}"],
    ids=["nothing", "cut", "null", "NUL", "UTF-16", "deep", "huge", "empty"],
)
def test_whatever_is_on_the_input_the_agent_does_not_notice(cli: Cli, answering: Host, data: bytes) -> None:
    run_hook(cli, data=data)
    assert answering.events == []
    assert log(cli).count("\n") == 1


def test_a_store_that_cannot_be_written_is_no_reason_to_stop_an_agent(cli: Cli) -> None:
    cli.home.write_text("a file in its place")
    run_hook(cli, within=FIRST_SECONDS)


def test_a_hook_that_was_given_nothing_else_ends_as_quietly(cli: Cli) -> None:
    for arguments in (["hook"], ["hook", "no-such-agent"], ["hook", "--home"]):
        ran = subprocess.run(cli.argv(arguments), input=b"", capture_output=True, env=cli.environment(), check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.parametrize("spoil", [lambda path: path.chmod(0o755), lambda path: path.rename(path.with_name("gone"))])
@pytest.mark.long
def test_a_socket_where_others_could_put_theirs_is_not_connected_to(
    cli: Cli, answering: Host, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(tmp_path / "run")
    run_hook(cli, TOOL)
    assert answering.connections == 0


def test_a_hook_loads_next_to_nothing(cli: Cli, answering: Host) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "timeleap", "hook", "claude-code"],
        input=json.dumps(EVENT).encode(),
        capture_output=True,
        env=cli.environment(),
        check=True,
    )
    assert len(answering.events) == 1
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.decode().splitlines() if "|" in line}
    assert {"json", "timeleap.cli.installed_parts"} <= loaded  # a module that is named by a text is not listed itself
    heavy = {"asyncio", "pydantic", "typer", "msgspec", "subprocess", "pathlib", "timeleap_client", "platformdirs"}
    assert loaded.isdisjoint(heavy)


# The hooks' own process


def host(cli: Cli, idle: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "timeleap_agents.hooks.host", "--home", str(cli.home), "--idle", str(idle)]
    return subprocess.Popen(command, env=cli.environment(), stderr=subprocess.PIPE)


def test_the_hooks_process_ends_when_nothing_comes(cli: Cli) -> None:
    process = host(cli, 0.1)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
    assert sorted(path.name for path in (cli.home / "hooks").iterdir()) == ["host.lock"]


def test_there_is_one_for_a_store(cli: Cli, answering: Host) -> None:
    process = host(cli, 600)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
    assert answering.connections == 0


@pytest.fixture
def started(cli: Cli) -> Iterator[int]:
    """The hooks' process, as a hook starts it; its process id."""
    run_hook(cli, within=FIRST_SECONDS)
    there = cli.home / "hooks" / "host.json"
    until = time.monotonic() + 60
    while not there.exists() and time.monotonic() < until:
        time.sleep(0.01)
    process: int = json.loads(there.read_bytes())["pid"]
    yield process
    os.kill(process, signal.SIGTERM)


def test_a_hook_that_finds_no_process_starts_one_that_outlives_it(started: int) -> None:
    assert os.getsid(started) == started != os.getsid(0)


def test_the_log_is_bounded_while_that_process_runs(cli: Cli, started: int) -> None:
    assert started
    file = cli.home / "hooks" / "hook.log"
    file.write_bytes(b"x" * (MAX_LOG + 1))
    run_hook(cli)
    until = time.monotonic() + 60
    while file.stat().st_size > MAX_LOG and time.monotonic() < until:
        time.sleep(0.01)
    assert file.stat().st_size <= MAX_LOG
