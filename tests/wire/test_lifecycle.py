"""From start to exit code: the order of the handshake, end of input, signals, and whatever stdin and stdout may be."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Decoder, Framing, dumps, frame, loads
from tests.support.holding import Hold, wait_until
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, user

"""Slows every commit of an append; the name is that of `storage/appending.py`."""


def request(id: int, method: str, **params: object) -> bytes:
    return dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


# the order of the handshake


def test_requests_before_initialize_are_refused_and_do_nothing(
    start_at: StartServer, framing: Framing, home: Path
) -> None:
    server = start_at(home, framing)
    for method in ("session/open", "session/list", "shutdown"):
        assert server.refuse(method)["code"] == -32002
    server.initialize()
    assert server.call("session/list")["sessions"] == []


def test_an_unknown_request_before_initialize_is_refused_too(start_at: StartServer, home: Path) -> None:
    assert start_at(home).refuse("no/such")["code"] in (-32002, -32601)


def test_notifications_before_initialize_are_dropped(start_at: StartServer, framing: Framing, home: Path) -> None:
    server = start_at(home, framing)
    server.notify("initialized")
    server.notify("$/cancelRequest", id=1)
    server.notify("no/such")
    server.initialize()
    assert [message for message in server.received if message.get("id") is None] == []


def test_a_second_initialize_is_refused_and_the_first_stays(server: Server) -> None:
    error = server.refuse("initialize", capabilities={})
    assert error["code"] == -32600
    assert server.call("session/list", limit=1)


def test_requests_may_be_pipelined_behind_initialize(start_at: StartServer, framing: Framing, home: Path) -> None:
    server = start_at(home, framing)
    first = server.start("initialize")
    opened = server.start("session/open", sessionId="early")
    appended = server.start("context/appendMessage", sessionId="early", message=user("hello"))
    assert first.result()["serverInfo"]["name"] == "timeleap"
    assert opened.result()["sessionId"] == "early"
    assert appended.result()["firstIndex"] == 0


def test_requests_after_shutdown_are_refused(start: StartServer, framing: Framing) -> None:
    server = start(framing)
    assert server.call("shutdown") is None
    for method in ("session/list", "session/open", "shutdown", "initialize", "no/such"):
        assert server.refuse(method)["code"] == -32600, method
    server.notify("exit")
    assert server.wait() == 0


@pytest.fixture
def hold(tmp_path: Path) -> Hold:
    """Holds a server up at its first append."""
    return Hold("append.after_write", tmp_path)


def test_shutdown_answers_what_was_accepted_before_it(
    start_at: StartServer, framing: Framing, home: Path, hold: Hold
) -> None:
    server = start_at(home, framing, env=hold.environment)
    server.initialize()
    session = Session.open(server, "s")
    appended = session.start("context/appendMessage", message=user("kept"))
    hold.wait()
    ending = server.start("shutdown")
    hold.release()
    assert ending.result() is None
    assert appended.result()["messageCount"] == 1
    server.notify("exit")
    assert server.wait() == 0


def test_exit_after_shutdown_is_clean(start: StartServer, framing: Framing) -> None:
    assert start(framing, fresh=True).shut_down() == 0


def test_exit_without_shutdown_is_1(start: StartServer, framing: Framing) -> None:
    server = start(framing, fresh=True)
    server.notify("exit")
    assert server.wait() == 1


def test_exit_before_initialize_is_1(start_at: StartServer, framing: Framing, home: Path) -> None:
    server = start_at(home, framing, fresh=True)
    server.notify("exit")
    assert server.wait() == 1


def test_exit_finishes_what_was_accepted(start_at: StartServer, home: Path, hold: Hold) -> None:
    server = start_at(home, env=hold.environment, fresh=True)
    server.initialize()
    appended = Session.open(server, "s").start("context/appendMessage", message=user("kept"))
    hold.wait()
    server.notify("exit")
    hold.release()
    assert server.wait() == 1
    assert appended.result()["messageCount"] == 1


def test_exit_leaves_with_stdin_still_open(start: StartServer) -> None:
    server = start(fresh=True)
    server.call("shutdown")
    server.notify("exit")
    assert server.wait() == 0
    assert server.process.stdin is not None and not server.process.stdin.closed


# end of input


def test_end_of_input_is_clean(start: StartServer, framing: Framing) -> None:
    assert start(framing, fresh=True).finish() == 0


FAILING = ("--fail-on-error",)


def test_with_fail_on_error_a_refused_request_is_5_at_a_clean_end(start: StartServer, framing: Framing) -> None:
    server = start(framing, args=FAILING)
    Session.open(server, "a")
    server.refuse("session/getState", sessionId="nobody")
    assert server.finish() == 5
    server = start(framing, args=FAILING)
    assert server.refuse("no/such")["code"] == -32601
    server.call("shutdown")
    server.notify("exit")
    assert server.wait() == 5


def test_with_fail_on_error_what_cannot_be_read_is_5_too(start: StartServer) -> None:
    server = start("ndjson", args=FAILING)
    server.send_bytes(b'{"jsonrpc": "2.0", "id": 1}\n')
    assert server.finish() == 5


def test_without_fail_on_error_a_refused_request_is_0(start: StartServer) -> None:
    server = start()
    server.refuse("no/such")
    assert server.finish() == 0


def test_with_fail_on_error_success_and_cancellation_are_0(start: StartServer, hold: Hold) -> None:
    server = start(args=FAILING, env=hold.environment)
    session = Session.open(server, "a")
    first = session.start("context/appendMessage", message=user("x"))
    second = session.start("session/setTitle", title="T")
    server.notify("$/cancelRequest", id=second.id)
    hold.wait()
    hold.release()
    first.result()
    reply = second.reply()
    assert "error" not in reply or reply["error"]["code"] == -32800
    third = server.start("session/search", query="x")
    server.notify("$/cancelRequest", id=third.id)
    third.reply()
    assert server.finish() == 0


def test_with_fail_on_error_other_exit_codes_go_first(
    start: StartServer, start_at: StartServer, tmp_path: Path
) -> None:
    server = start("lsp", args=FAILING)
    server.refuse("no/such")
    server.notify("exit")
    assert server.wait() == 1
    server = start("lsp", args=FAILING)
    server.refuse("no/such")
    server.send_bytes(b"Content-Length: 100\r\n\r\n{")
    assert server.finish() == 3
    (tmp_path / "file").write_text("")
    server = start_at(tmp_path / "file" / "home", args=FAILING, private=tmp_path / "private")
    assert server.refuse("initialize")["code"] == 4005
    assert server.wait() == 4


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf"])
def test_empty_input_is_clean(start_at: StartServer, home: Path, data: bytes) -> None:
    server = start_at(home, fresh=True)
    server.send_bytes(data)
    assert server.finish() == 0
    assert server.received == []


def test_accepted_requests_are_answered_at_end_of_input(
    start_at: StartServer, framing: Framing, home: Path, hold: Hold
) -> None:
    server = start_at(home, framing, env=hold.environment, fresh=True)
    server.start("initialize")
    server.start("session/open", sessionId="s")
    appended = [server.start("context/appendMessage", sessionId="s", message=user(str(n))) for n in range(20)]
    hold.wait()
    server.close_stdin()
    hold.release()
    assert server.wait() == 0
    assert [pending.result()["messageCount"] for pending in appended] == list(range(1, 21))


@pytest.mark.parametrize("part", [b"C", b"Content-Le", b"Content-Length: 20\r\n", b"Content-Length: 20\r\n\r\n{"])
def test_a_partial_header_framed_message_at_the_end_is_3(start: StartServer, part: bytes) -> None:
    server = start("lsp")
    server.send_bytes(part)
    assert server.finish() == 3


def test_a_last_line_without_line_feed_counts(start: StartServer) -> None:
    server = start("ndjson")
    pending = server.expect("session/list", 99)
    server.send_bytes(request(99, "session/list"))
    assert server.finish() == 0
    assert pending.result()["sessions"] == []


# signals and the death of others


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_drains_and_exits_0_with_stdin_open_and_an_append_in_flight(
    start_at: StartServer, home: Path, framing: Framing, number: signal.Signals
) -> None:
    hold = Hold("append.after_write", home.parent)
    server = start_at(home, framing, env={"TIMELEAP_FAILPOINTS": hold.failpoints}, fresh=True)
    server.initialize()
    session = Session.open(server, "s")
    appended = session.start("context/appendMessage", message=user("kept"))
    hold.wait()
    server.signal(number)
    hold.release()
    assert server.wait() == 0
    assert appended.result()["messageCount"] == 1
    assert Session.open(server.again(), "s").texts() == ["kept"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_initialize_exits_0(start_at: StartServer, home: Path, number: signal.Signals) -> None:
    server = start_at(home, fresh=True)
    assert server.call("rpc.discover")
    server.signal(number)
    assert server.wait() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_hang_up_that_was_ignored_at_the_start_stays_ignored(start_at: StartServer, home: Path) -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = start_at(home, fresh=True)
    finally:
        signal.signal(signal.SIGHUP, before)
    server.initialize()
    server.signal(signal.SIGHUP)
    Session.open(server, "s").say("goes on")
    assert server.finish() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_second_signal_while_draining_changes_nothing(start_at: StartServer, home: Path) -> None:
    hold = Hold("append.after_write", home.parent)
    server = start_at(home, env={"TIMELEAP_FAILPOINTS": hold.failpoints}, fresh=True)
    server.initialize()
    session = Session.open(server, "s")
    appended = session.start("context/appendMessage", message=user("kept"))
    hold.wait()
    for _ in range(20):
        server.signal(signal.SIGTERM)
    hold.release()
    assert server.wait() == 0
    assert appended.result()["messageCount"] == 1


@pytest.mark.long
def test_the_death_of_the_given_process_ends_the_server_drained(start_at: StartServer, home: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    server = start_at(home, fresh=True)
    server.initialize(processId=parent.pid)
    Session.open(server, "s").say("kept")
    assert parent.stdin is not None
    parent.stdin.close()
    parent.wait()
    assert server.wait() == 0
    assert Session.open(server.again(), "s").texts() == ["kept"]


def test_a_given_process_that_is_not_seen_here_ends_nothing(start_at: StartServer, home: Path) -> None:
    """The client starts the server in a container, where its number is that of nobody."""
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    server = start_at(home, fresh=True)
    server.initialize(processId=parent.pid)
    Session.open(server, "s").say("still there")
    assert server.process.poll() is None


def test_a_living_process_keeps_the_server(start_at: StartServer, home: Path, tmp_path: Path) -> None:
    hold = Hold("watch.look", tmp_path, passing=2)
    server = start_at(home, env={"TIMELEAP_FAILPOINTS": hold.failpoints}, fresh=True)
    server.initialize(processId=os.getpid())
    hold.wait()
    hold.release()
    assert server.call("session/list")["sessions"] == []


def test_no_process_is_none_to_wait_for(start_at: StartServer, home: Path) -> None:
    server = start_at(home, fresh=True)
    server.initialize(processId=None)
    assert server.call("session/list")["sessions"] == []


# whatever stdin and stdout are


def test_stdin_and_stdout_may_be_files(tmp_path: Path, framing: Framing) -> None:
    requests = [request(1, "initialize"), request(2, "session/open", sessionId="s"), request(3, "shutdown")]
    (tmp_path / "in").write_bytes(b"".join(frame(body, framing) for body in requests))
    launch = Launch(tmp_path / "home", framing)
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        code = subprocess.run(
            launch.command(),
            env=launch.environment(),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        ).returncode
    replies = [loads(body) for body in Decoder(framing).feed((tmp_path / "out").read_bytes())]
    assert code == 0
    assert [reply["id"] for reply in replies if "id" in reply] == [1, 2, 3]


def test_the_null_device_as_input_is_an_empty_input(tmp_path: Path) -> None:
    launch = Launch(tmp_path / "home", "lsp")
    done = subprocess.run(
        launch.command(),
        env=launch.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_null_device_as_output_is_no_failure(tmp_path: Path) -> None:
    launch = Launch(tmp_path / "home", "ndjson")
    data = request(1, "initialize") + b"\n" + request(2, "session/open", sessionId="s") + b"\n"
    done = subprocess.run(
        launch.command(), env=launch.environment(), input=data, stdout=subprocess.DEVNULL, check=False, timeout=120
    )
    assert done.returncode == 0
    assert (tmp_path / "home" / "sessions" / "s").is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="socket pairs as standard streams")
def test_stdin_and_stdout_may_be_one_socket(tmp_path: Path, framing: Framing) -> None:
    launch = Launch(tmp_path / "home", framing)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            launch.command(),
            env=launch.environment(),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        ours.settimeout(30)
        ours.sendall(b"".join(frame(request(n, m), framing) for n, m in enumerate(["initialize", "session/open"])))
        decoder = Decoder(framing)
        replies: list[Message] = []
        while len(replies) < 2:
            replies += [m for m in map(loads, decoder.feed(ours.recv(1 << 16))) if "id" in m]
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(30) == 0
    assert [reply["id"] for reply in replies] == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="closes a descriptor of the child")
@pytest.mark.parametrize("closing", ["<&-", ">&-"])
def test_a_closed_standard_stream_is_no_crash(tmp_path: Path, closing: str) -> None:
    launch = Launch(tmp_path / "home", "ndjson")
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *launch.command()],
        env=launch.environment(),
        input=request(1, "initialize") + b"\n",
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 3)
    assert b"Traceback" not in done.stderr


def test_when_the_reader_of_our_output_goes_away_it_finishes_and_exits_3(start: StartServer, framing: Framing) -> None:
    server = start(framing)
    session = Session.open(server, "s")
    session.say("before")
    assert server.process.stdout is not None
    _close_for_good(server)
    server.send({"jsonrpc": "2.0", "id": 1000, "method": "context/appendMessage", "params": _hello()})
    assert server.process.wait(20) == 3
    assert Session.open(server.again(), "s").texts()[:1] == ["before"]


def _hello() -> dict[str, object]:
    return {"sessionId": "s", "message": user("nobody hears the reply")}


def _close_for_good(server: Server) -> None:
    """Close the reading end while our reader thread is blocked in it: put the null device in its place."""
    assert server.process.stdout is not None
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, server.process.stdout.fileno())
    os.close(null)
    # The blocked read holds the pipe until something arrives.
    server.send({"jsonrpc": "2.0", "id": 999, "method": "session/list", "params": {}})
    server._reader.join(20)


# stores, options


def test_the_home_is_created_if_absent(start_at: StartServer, tmp_path: Path) -> None:
    server = start_at(tmp_path / "a" / "b" / "home")
    server.initialize()
    assert Session.open(server).path.is_relative_to(tmp_path / "a" / "b" / "home")
    if sys.platform != "win32":
        assert (tmp_path / "a" / "b" / "home").stat().st_mode & 0o777 == 0o700


def test_an_unusable_home_is_4(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        launch = Launch(home, "lsp")
        done = subprocess.run(
            [sys.executable, "-m", "timeleap", "serve", "--home", str(home)],
            env={**launch.environment(), "HOME": str(tmp_path), "TIMELEAP_KEY_FILE": str(tmp_path / "key")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 4, done
        assert b"Traceback" not in done.stderr and str(home).encode() in done.stderr
        assert done.stdout == b""


@pytest.mark.parametrize("args", [["--no-such-option"], ["--log-level", "loud"], ["surplus"]])
def test_a_wrong_command_line_is_2(tmp_path: Path, args: list[str]) -> None:
    launch = Launch(tmp_path / "home", "lsp", args)
    (tmp_path / "user" / "run").mkdir(parents=True)
    done = subprocess.run(
        launch.command(),
        env=launch.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr


def test_the_log_goes_to_the_file_named_and_not_to_stderr(start_at: StartServer, tmp_path: Path) -> None:
    log = tmp_path / "timeleap.log"
    server = start_at(tmp_path / "home", args=("--log-level", "debug", "--log-file", str(log)))
    server.initialize()
    Session.open(server).say("x")
    assert server.finish() == 0
    assert log.read_text() != ""
    assert server.stderr() == ""
    if sys.platform != "win32":
        assert log.stat().st_mode & 0o777 == 0o600


def test_message_bodies_and_keys_never_reach_the_log_at_any_level(start_at: StartServer, home: Path) -> None:
    canary = "canary-7f3a9"
    server = start_at(home, env={"TIMELEAP_LOG_LEVEL": "debug", "TIMELEAP_SUMMARIZER_API_KEY": canary})
    server.initialize()
    session = Session.open(server, systemPrompt=f"secret {canary}")
    session.say(canary)
    session.append(user(f"{canary} 1"), user(f"{canary} 2"))
    session.checkpoint(label=canary)
    session.refuse("context/appendMessage", message={"role": "user", "content": [{"text": canary}]})
    session.refuse("context/appendMessage", message={"role": "_x", "content": canary})
    session.refuse("session/setYolo", yolo=canary)
    session.call("context/sendDMail", checkpointId=0, message=canary)
    session.call("context/deliverDMail")
    session.call("session/putSubagent", name="a", systemPrompt=canary)
    server.send_body(b'{"jsonrpc":"2.0","id":5,"method":"session/list","params":{"x":"%s"' % canary.encode())
    session.refuse("context/appendMessage", message={"role": "user", "content": canary, "_tl": {}})
    assert server.finish() == 0
    log = server.stderr()
    assert log != "" and canary not in log


# nothing but protocol on stdout

POLLUTER = """
import os, subprocess, sys, threading, time

def pollute():
    while not os.path.exists(os.environ["POLLUTE"]):
        time.sleep(0.01)
    print("print")
    sys.stdout.write("write")
    sys.stdout.flush()
    try:
        os.write(1, b"descriptor")
    except OSError:
        pass
    subprocess.run(["echo", "child"])

threading.Thread(target=pollute, daemon=True).start()
"""


def test_prints_and_child_processes_do_not_reach_the_protocol(
    start_at: StartServer, framing: Framing, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(POLLUTER)
    sign = tmp_path / "sign"
    server = start_at(home, framing, env={"PYTHONPATH": str(tmp_path / "path"), "POLLUTE": str(sign)})
    server.initialize()
    sign.touch()
    words = ("print", "write", "descriptor", "child")
    wait_until(lambda: all(word in server.stderr() for word in words))
    assert server.call("session/list")["sessions"] == []
    assert server.shut_down() == 0


def test_the_environment_of_unbuffered_python_tears_no_frames(
    start_at: StartServer, framing: Framing, home: Path
) -> None:
    server = start_at(home, framing, env={"PYTHONUNBUFFERED": "1"})
    server.initialize()
    session = Session.open(server, "s")
    session.append(*[user("x" * 50_000) for _ in range(20)])
    pages = [session.start("context/getHistory", limit=20) for _ in range(50)]
    assert all(len(page.result()["messages"]) == 20 for page in pages)
