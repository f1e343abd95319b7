"""`serve` as a process with a fake service: descriptors, signals, the end of input, exit codes, the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.holding import PATIENCE
from tests.support.mostly_long import mostly_long
from tests.unit.rpc.edge import change, read, request

from timeleap import __main__ as entry
from timeleap.cli import serve

FAKE = str(Path(__file__).with_name("fake_server.py"))
INITIALIZE = request("init", "initialize")
Start = Callable[..., "Process"]


class Process:
    """The fake server, spoken to in lines."""

    def __init__(self, *args: str, **popen: Any) -> None:
        popen = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        self.popen = subprocess.Popen([sys.executable, FAKE, *args], **popen)

    def send(self, *messages: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(lines(*messages))
        self.popen.stdin.flush()

    def receive(self) -> Any:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line.endswith(b"\n"), self.popen.communicate()
        return json.loads(line)

    def receive_ready(self) -> None:
        self.send(INITIALIZE)
        assert self.receive()["id"] == "init"

    def end(self, timeout: float = PATIENCE) -> tuple[list[Any], str, int]:
        """What else it said, its log, and its exit code."""
        out, log = self.popen.communicate(timeout=timeout)
        return [json.loads(line) for line in (out or b"").splitlines()], (log or b"").decode(), self.popen.returncode


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Process] = []

    def begin(*args: str, **popen: Any) -> Process:
        started.append(Process(*args, **popen))
        return started[-1]

    yield begin
    for process in started:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.wait()
        for stream in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def test_the_end_of_input_is_a_clean_end(start: Start) -> None:
    process = start()
    process.send(INITIALIZE, change(1, "linger"), read(2, "fine"))
    out, log, code = process.end()
    assert [reply["id"] for reply in out] == ["init", 2, 1]
    assert (log, code) == ("", 0)


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_empty_input(start: Start, data: bytes) -> None:
    process = start()
    process.popen.stdin.write(data)  # type: ignore[union-attr]
    assert process.end() == ([], "", 0)


def test_files_as_input_and_output(start: Start, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(lines(INITIALIZE, *[change(n, "x" * 1000) for n in range(2000)]))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as target:
        process = start(stdin=source, stdout=target)
        assert process.end()[2] == 0
    replies = [json.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    assert [reply["id"] for reply in replies] == ["init", *range(2000)]


def test_the_null_device_as_input_and_output(start: Start) -> None:
    assert start(stdin=subprocess.DEVNULL).end() == ([], "", 0)
    process = start(stdout=subprocess.DEVNULL)
    process.send(INITIALIZE)
    assert process.end()[2] == 0


def test_sockets_as_input_and_output(start: Start) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start(stdin=theirs, stdout=theirs)
        theirs.close()
        ours.sendall(lines(INITIALIZE, read(1, "big:3000000")))
        stream = ours.makefile("rb")
        assert [json.loads(stream.readline())["id"] for _ in range(2)] == ["init", 1]
        ours.shutdown(socket.SHUT_WR)
        assert process.end()[2] == 0
        stream.close()


@pytest.mark.parametrize("closed", mostly_long([[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], every=3))
def test_closed_descriptors(closed: list[int]) -> None:
    """A parent may start us without some of the standard descriptors."""
    close = ";".join(f"os.close({fd})" for fd in closed)
    code = f"import os, sys; {close}; os.execv(sys.executable, [sys.executable, {FAKE!r}])"
    done = subprocess.run(
        [sys.executable, "-c", code], input=lines(INITIALIZE), capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) is (closed == [2])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted on Linux")
def test_the_first_stream_needs_no_descriptor_of_the_event_loops_own() -> None:
    """libuv keeps one in reserve from its first stream on, which may come when there are no more."""

    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def open_one() -> int:
        before = opened()
        await serve._reserve_descriptor()
        async with asyncio.timeout(PATIENCE):
            while opened() != before + 1:  # the pipe that it needed is closed a turn later
                await asyncio.sleep(0)
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, theirs)
        more = opened() - before
        transport.abort()
        ours.close()
        return more

    with asyncio.Runner(loop_factory=serve._event_loop) as runner:
        assert runner.run(open_one()) == 1 + 2


def test_stray_output_never_reaches_the_stream(start: Start) -> None:
    process = start(env={**os.environ, "PYTHONUNBUFFERED": "1"})
    process.receive_ready()
    process.send(read(1, "print"))
    assert process.receive()["id"] == 1, "though a child reads the standard input, which is still open"
    process.send(read(2, "fine"))
    out, log, code = process.end()
    assert ([reply["id"] for reply in out], code) == ([2], 0)
    assert "stray output" in log
    assert "more stray output" in log
    assert "from a child" in log
    assert "EOFError" in log, "a child finds the standard input empty"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_was_accepted(start: Start, number: signal.Signals, tmp_path: Path) -> None:
    process = start()
    process.receive_ready()
    process.send(change(1, f"linger:{tmp_path / 'signalled'}"), read(2, "fine"))
    assert process.receive()["id"] == 2
    process.popen.send_signal(number)
    process.popen.send_signal(number)
    (tmp_path / "signalled").touch()
    assert process.receive()["id"] == 1
    assert process.popen.wait(PATIENCE) == 0, "though the input is still open"


def test_a_signal_ends_a_server_whose_client_does_not_read(start: Start) -> None:
    process = start(env={**os.environ, "FAKE_PATIENCE": "0.3"})
    process.receive_ready()
    process.send(*[read(n, "big:1000000") for n in range(20)])
    assert process.popen.stdout is not None
    assert select.select([process.popen.stdout], [], [], PATIENCE)[0]  # far more than fits is on its way
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(PATIENCE) == 3


def test_a_signal_before_initialize(start: Start) -> None:
    process = start()
    process.send(request(1, "rpc.discover"))
    assert process.receive()["id"] == 1
    process.popen.send_signal(signal.SIGTERM)
    assert process.popen.wait(PATIENCE) == 0


def test_a_reader_of_the_output_that_goes_away(start: Start) -> None:
    process = start()
    process.receive_ready()
    process.popen.stdout.close()  # type: ignore[union-attr]
    process.send(change(1, "fine"))
    assert process.popen.wait(PATIENCE) == 3, "though the input is still open"


def test_a_client_that_does_not_read_is_not_read_from(start: Start) -> None:
    process = start()
    process.receive_ready()
    stdin = process.popen.stdin
    assert stdin is not None
    os.set_blocking(stdin.fileno(), False)
    message = lines(*[read(n, "big:100000") for n in range(1000)])
    sent = 0
    deadline = time.monotonic() + 1
    while sent < 10_000_000 and time.monotonic() < deadline:
        try:
            sent += os.write(stdin.fileno(), message)
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < 2_000_000


@pytest.mark.parametrize(
    ("data", "code", "errors"),
    [
        (b"nonsense\n", 3, [-32700]),
        (b"Content-Length: 10\r\n\r\n{", 3, [-32700]),
        (b"Content-Len", 3, [-32700]),
        (b"Content-Length: nine\r\n\r\n", 3, [-32700]),
        (b"Content-Length: 0\r\n\r\n", 0, [-32700]),
        (b"{nonsense\n", 0, [-32700]),
        (b'{"a":1', 0, [-32700]),
    ],
)
def test_what_a_broken_stream_ends_in(start: Start, data: bytes, code: int, errors: list[int]) -> None:
    process = start()
    out, _ = process.popen.communicate(data, timeout=PATIENCE)
    bodies = [part for part in out.replace(b"\r\n\r\n", b"\n").splitlines() if part.startswith(b"{")]
    replies = [json.loads(body) for body in bodies]
    assert [(reply["id"], reply["error"]["code"]) for reply in replies] == [(None, error) for error in errors]
    assert process.popen.returncode == code


def test_a_gigantic_length_is_survived(start: Start) -> None:
    process = start()
    stdin, stdout = process.popen.stdin, process.popen.stdout
    assert stdin is not None
    assert stdout is not None
    size = 70_000_000
    body = json.dumps(INITIALIZE).encode()
    stdin.write(b"Content-Length: %d\r\n\r\n" % size)
    for _ in range(size // 1_000_000):
        stdin.write(b"x" * 1_000_000)
    stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    stdin.close()
    out = stdout.read()
    assert b'"code":4011' in out
    assert b'"id":null' in out
    assert b'"id":"init","result"' in out
    assert process.popen.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([INITIALIZE, request(1, "shutdown"), {"jsonrpc": "2.0", "method": "exit"}], 0),
        ([INITIALIZE, {"jsonrpc": "2.0", "method": "exit"}], 1),
        ([{"jsonrpc": "2.0", "method": "exit"}], 1),
        ([request(1, "initialize", {"initializationOptions": {"home": "unusable"}})], 4),
    ],
)
def test_exit_codes_though_the_input_stays_open(start: Start, messages: list[Any], code: int) -> None:
    process = start()
    process.send(*messages)
    assert process.popen.wait(PATIENCE) == code


def test_the_process_of_the_client_dies(start: Start) -> None:
    client = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = start()
    process.send(request(1, "initialize", {"processId": client.pid}))
    process.receive()
    client.communicate()
    assert process.popen.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("args", "environ"),
    [
        (["--log-level", "loud"], {}),
        (["--durability", "maybe"], {}),
        (["--no-such-option"], {}),
        (["argument"], {}),
        ([], {"TIMELEAP_LOG_LEVEL": "loud"}),
    ],
)
def test_wrong_usage(args: list[str], environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        serve.parse(args, environ)
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


def test_options_of_the_command_line(tmp_path: Path) -> None:
    options = serve.parse(["--home", str(tmp_path), "--log-level", "DEBUG"], {"TIMELEAP_LOG_LEVEL": "error"})
    assert (options.home, options.log_level, options.durability, options.log_file) == (tmp_path, "debug", None, None)
    assert serve.parse([], {"TIMELEAP_LOG_LEVEL": "error"}).log_level == "error"
    assert serve.parse([], {}).log_level == "warning"


def test_an_exception_nobody_caught_is_logged_without_its_text(start: Start) -> None:
    process = start()
    process.send(INITIALIZE, read(1, "stray:secret"), read(2, "fine"))
    out, log, code = process.end()
    assert ([reply["id"] for reply in out], code) == (["init", 1, 2], 0)
    assert "ValueError" in log
    assert "secret" not in log
    assert "Traceback" not in log


def test_a_log_file_that_cannot_be_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "timeleap", "serve", "--log-file", str(tmp_path)]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert str(tmp_path).encode() in done.stderr


def test_the_log_may_go_to_a_file(start: Start, tmp_path: Path) -> None:
    process = start("--log-file", str(tmp_path / "log"))
    process.send(INITIALIZE, read(1, "fail"))
    _, stderr, code = process.end()
    assert (stderr, code) == ("", 0)
    assert "incident" in (tmp_path / "log").read_text()
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "position"),
    [
        (["serve"], 0),
        (["--home", "serve", "serve"], 2),
        (["--home=x", "-v", "serve", "--log-level", "info"], 2),
        (["new", "serve"], 0),
        (["--help"], None),
        ([], None),
    ],
)
def test_where_the_command_stands(arguments: list[str], position: int | None) -> None:
    assert entry.command_position(arguments) == position


def test_serving_imports_nothing_of_the_command_line() -> None:
    code = """
import sys
sys.argv = ["timeleap", "--log-level", "error", "serve"]
from timeleap.__main__ import main
code, slow = main(), ("lsprotocol.types", "jsonschema")
loaded = {name for name in sys.modules if name in slow or name.startswith("timeleap.cli.")}
of_every_program = {"timeleap.cli.serve", "timeleap.cli.installed_parts", "timeleap.cli.interrupt"}
print(code, sorted(loaded - of_every_program), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, timeout=PATIENCE, check=False)
    assert done.stderr.decode().strip() == "0 []"
    assert done.stdout == b""


@pytest.mark.parametrize("message", [None, INITIALIZE])
def test_an_unusable_home(tmp_path: Path, message: Any) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "timeleap", "serve", "--home", str(tmp_path / "file" / "home")]
    done = subprocess.run(
        command, input=lines(message) if message else b"", capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 4
    if message:
        assert json.loads(done.stdout)["error"]["code"] == 4005


def test_a_usable_home_of_the_options_makes_up_for_the_one_of_the_argument(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "timeleap", "serve", "--home", str(tmp_path / "file" / "home")]
    message = request(1, "initialize", {"initializationOptions": {"home": str(tmp_path / "usable")}})
    done = subprocess.run(command, input=lines(message), capture_output=True, timeout=PATIENCE, check=False)
    assert "result" in json.loads(done.stdout)
    assert done.returncode == 0
