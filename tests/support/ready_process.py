"""The process that is ready to be `timeleap` (`tests.support.ready`)."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from unittest import mock

import tests.support.warm  # noqa: F401
from tests.support.ready import launcher

from timeleap import __main__
from timeleap.storage import durable

_LENGTH = 16


def serve(listener: socket.socket, address: str) -> None:
    """Be `timeleap` for each launcher that connects, until the input ends."""
    # What runs here starts its own servers in the same way.
    mock.patch("timeleap_client.raw.default_command", return_value=(*launcher(address), "serve")).start()
    while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            head, streams, _, _ = socket.recv_fds(connection, _LENGTH, 3)
            data = b""
            while len(data) < int(head):
                data += connection.recv(int(head) - len(data))
            directory, count, *rest = map(os.fsdecode, data.split(b"\0"))
            arguments, environment = rest[: int(count)], rest[int(count) :]
            if "mcp" in arguments:
                _load_mcp()
            if os.fork() == 0:
                listener.close()
                _watch(connection, streams, directory, arguments, environment)
        for stream in streams:
            os.close(stream)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _load_mcp() -> None:
    """Not before it is needed: it takes two seconds, and the rules for secrets again as much, which the forks have from
    here. Without the SDK, each fork says so."""
    if "timeleap_agents.mcp.sdk_server" not in sys.modules:
        importlib.import_module("timeleap_agents.mcp.stdio_server")
        with suppress(ImportError):
            importlib.import_module("timeleap_agents.mcp.sdk_server")
            mask = importlib.import_module("timeleap_agents.mcp.secret_masks").SecretMask()
            mask.masked("Long enough to be looked at.")
            mock.patch("kingfisher_sdk.Rules").start()
            mock.patch("kingfisher_sdk.Scanner", return_value=mask._scanner).start()
        gc.freeze()


def _watch(
    connection: socket.socket, streams: list[int], directory: str, arguments: list[str], environment: list[str]
) -> None:
    """Fork once more; tell the launcher the exit code, and kill the fork if the launcher is gone. Does not return."""
    child = os.fork()
    if child == 0:
        connection.close()
        _take(streams)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(dict(entry.split("=", 1) for entry in environment))
        sys.argv = ["timeleap", *arguments]
        os._exit(_run())
    for stream in (0, *streams):
        os.close(stream)
    ended, lock = threading.Event(), threading.Lock()

    def end_with_launcher() -> None:
        connection.recv(1)
        with lock:
            if not ended.is_set():
                os.kill(child, signal.SIGKILL)

    threading.Thread(target=end_with_launcher, daemon=True).start()
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with lock:
        ended.set()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.sendall(b"%d" % code)
    os._exit(0)


def _take(streams: list[int]) -> None:
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _run() -> int:
    """What Python does with a program, from its `main` to its end."""
    durable.arm(os.environ.get(durable.ENVIRONMENT, ""))
    try:
        code = __main__.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
