"""Commands on a session that is live in another process, and commands that go on looking at it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import PATIENCE, Cli

from timeleap.client import SyncSession, SyncTimeleap

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and pseudo terminals")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def owner(cli: Cli) -> Iterator[SyncTimeleap]:
    """Another program, whose session `s` is live."""
    with SyncTimeleap(home=cli.home, env=cli.environment(), name="agent") as client:
        yield client


@pytest.fixture
def live(owner: SyncTimeleap) -> Iterator[SyncSession]:
    with owner.session("s") as session:
        session.append("one")
        yield session


class Follower:
    """A command that goes on until Ctrl-C, and all it has said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said: list[str] = []
        self.hints = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)

    def until(self, wanted: str, times: int = 1) -> None:
        """Wait until it has said that."""
        deadline = time.monotonic() + PATIENCE
        while sum(wanted in line for line in self.said) < times:
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def interrupt(self) -> int:
        """Ctrl-C; returns the exit code."""
        assert self._process.stderr is not None
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(PATIENCE)
        self.hints += self._process.stderr.read()
        assert "Traceback" not in self.hints
        return code

    def begin(self) -> None:
        """Wait until it listens."""
        assert self._process.stderr is not None
        self.hints += self._process.stderr.readline()
        assert "Ctrl-C ends" in self.hints


@pytest.fixture
def follow(cli: Cli) -> Iterator[object]:
    started = []

    def start(*args: str) -> Follower:
        started.append(cli.start(*args))
        return Follower(started[-1])

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_every_command_takes_effect_through_the_owner(cli, live):
    heard = live.notifications("context/didChange")
    cli.run("append", "s", "two " * 100)
    assert cli.run("checkpoint", "s", "here").out.startswith("checkpoint #0")
    cli.run("append", "s", input='{"role":"assistant","content":"three"}\n')
    assert "2 messages stay" in cli.run("revert", "s", "0", "--yes").out
    assert "is the log again: 3 messages" in cli.run("undo", "s").out
    assert "became a summary" in cli.run("compact", "s", "--summary", "so far", "--keep", "1").out
    changes = [change for _ in range(6) if (change := heard.take(PATIENCE))]
    assert [(change.kind, change.params["cause"]["client"]) for change in changes] == [
        (kind, "timeleap-cli")
        for kind in (
            "messagesAppended",
            "checkpointCreated",
            "messagesAppended",
            "reverted",
            "undone",
            "compacted",
        )
    ]
    assert live.state().access == "owner"


def test_state_and_sessions_say_who_has_it(cli, owner, live):
    assert f"live         in process {owner.pid}, opened " in cli.run("state", "s").out
    assert f"live in process {owner.pid}, opened " in cli.run("sessions").out
    live.close()
    assert "live         in no process" in cli.run("state", "s").out


@pytest.mark.long
def test_following_hears_who_did_what_and_goes_on_over_a_hand_over(cli, owner, live, follow):
    follower = follow("tail", "-f", "s")
    follower.begin()
    live.append("two")
    follower.until("messagesAppended")
    heard = json.loads(follower.said[-1])
    assert (heard["params"]["firstIndex"], heard["params"]["cause"]["client"]) == (1, "agent")
    other = SyncTimeleap(home=cli.home, env=cli.environment(), name="other")
    with other, other.session("s") as taking_over:
        assert taking_over.opened.access == "attached"
        os.kill(owner.pid or 0, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while not any('"client":"other"' in line for line in follower.said):  # before that, changes are `external`
            assert time.monotonic() < deadline, follower.said
            taking_over.append("and on")
            time.sleep(0.1)
        live.append("from the first")  # which came back, attached
        follower.until('"client":"agent"', times=2)
    assert follower.interrupt() == 130


@pytest.mark.parametrize(
    ("options", "first", "wanted"), [((), "now ", "#0  here"), (("--json",), '"checkpoints":[]', '"label":"here"')]
)
def test_the_graph_is_drawn_anew_with_every_change(live, follow, options, first, wanted):
    watcher = follow("log", "--watch", "s", *options)
    watcher.until(first)
    live.checkpoint("here")
    watcher.until(wanted)
    assert watcher.interrupt() == 130
    assert ("Ctrl-C ends" in watcher.hints) is (not options)


@on_posix
def test_on_a_terminal_people_read_what_happens(cli, live):
    with Screen(cli, "tail", "-f", "s") as screen:
        screen.until("Ctrl-C ends")
        live.append({"role": "assistant", "content": "look, \x1b[2J a trick"})
        screen.until("1 message appended  by agent")
        screen.until("look, \\x1b[2J a trick")
        checkpoint = live.checkpoint("a plan")
        screen.until("checkpoint #0  a plan  by agent")
        live.revert_to(checkpoint)
        screen.until(
            "reverted to before #0: 0 messages and 1 checkpoint went, 2 messages stay; the log before it is context_1"
        )
        log = cli.home / "sessions" / "s" / "context.jsonl"
        os.truncate(log, log.read_bytes().index(b"\n") + 1)
        screen.until("context.jsonl lacks 1 message that was saved")


@on_posix
def test_on_a_terminal_the_graph_takes_the_place_of_the_one_before(cli, live):
    with Screen(cli, "log", "--watch", "s") as screen:
        screen.until("start")
        live.checkpoint("a plan")
        screen.until("#0  a plan")
        assert re.search(r"\x1b\[\d+A\x1b\[J", screen.seen)


@on_posix
@pytest.mark.long
def test_an_owner_that_hangs_is_explained_and_can_be_followed(cli, owner, live, follow):
    os.kill(owner.pid or 0, signal.SIGSTOP)
    try:
        refused = cli.run("append", "s", "two", code=1)
        assert f"It belongs to process {owner.pid} on " in refused.err
        assert "Reading still works: timeleap log s" in refused.err
        assert "one" in cli.run("show", "s").out
    finally:
        os.kill(owner.pid or 0, signal.SIGCONT)
    assert "appended 1 message" in cli.run("append", "s", "two").out


@on_posix
def test_an_owner_without_a_safe_directory_is_explained(cli, tmp_path):
    unsafe = tmp_path / "unsafe"
    unsafe.mkdir(mode=0o755)
    env = {**cli.environment(), "TIMELEAP_RUNTIME_DIR": str(unsafe)}
    with SyncTimeleap(home=cli.home, env=env) as client, client.session("s"):
        refused = cli.run("append", "s", "two", code=1)
        assert "Set TIMELEAP_RUNTIME_DIR to a directory that only you can use" in refused.err
        assert "timeleap tail -f s" in refused.err
        assert (
            "cannot attach"
            in cli.run("state", "s").out + client.call("session/getState", {"sessionId": "s"})["warnings"][0]["message"]
        )


class Screen:
    """A command on a pseudo terminal of 120 columns, until Ctrl-C."""

    def __init__(self, cli: Cli, *args: str) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = {**cli.environment(), "TERM": "xterm", "COLUMNS": "160"}
        self._process = subprocess.Popen(cli.argv(args), stdin=side, stdout=side, stderr=side, env=env)
        os.close(side)
        self.seen = ""

    def until(self, wanted: str) -> None:
        """Wait until that stands on it, colours aside."""
        import re
        import select

        deadline = time.monotonic() + PATIENCE
        while wanted not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.seen):
            assert time.monotonic() < deadline, self.seen
            if select.select([self._main], [], [], 0.2)[0]:
                self.seen += os.read(self._main, 1 << 16).decode(errors="replace")

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            code = self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            os.close(self._main)
        assert code == 130
        assert "Traceback" not in self.seen
