"""`timeleap hook AGENT`: what an agent runs at its events. Tells the hooks' process of them, and never stands in the way.

Always ends with 0 and says nothing, in time: an exit code, or words on the standard output, would mean something to the
agent. An agent runs this at each prompt and after many tools, so it imports next to nothing (a test says what).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports enum
import _thread
import json
import os
import socket
import stat
import sys
import time

TYPE_CHECKING = False  # not imported from `typing`: that takes longer than most of what is done here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SECONDS = 2.0
"""How long an event may take all told."""
FIRST_SECONDS = 10.0
"""How long the first prompt of a session may take: its snapshot reads all files of the folder."""
MAX_INPUT = 16 * 1024 * 1024
"""Bytes of an event; a larger one is left alone."""
MAX_LOG = 256 * 1024
"""Bytes of the log; one that has grown larger is begun again."""
UNREACHABLE_SECONDS = 60.0
"""How long a process that did not answer is tried by prompts only, and briefly: else each tool would wait for it."""

FOLDER = "hooks"
RECORD = "host.json"
LOG = "hook.log"
_UNREACHABLE = "unreachable"
_MAX_LINE = 64 * 1024
_LABEL = 200
_PAUSE = 0.01
_LAST_SECONDS = 0.2
_POSSIBLE_EVENTS = {
    "UserPromptSubmit": "prompt",
    "PostToolUse": "tool",
    "PostToolUseFailure": "tool",
    "Stop": "stop",
    "SessionEnd": "end",
    "SessionStart": "start",
    # Those of Gemini CLI.
    "BeforeAgent": "prompt",
    "AfterTool": "tool",
    "AfterAgent": "stop",
}


_GONE = "the hooks' process could not be reached in time"


class _LeftAloneError(Exception):
    """Nothing is done about an event; the message says why."""


class _Deadline:
    """The time by which the process ends, whatever happens."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.at = self.began + SECONDS
        self.accepted = False  # whether the hooks' process has said that it has the event

    def allow(self, seconds: float) -> None:
        self.at = max(self.at, self.began + min(seconds, FIRST_SECONDS))

    @property
    def left(self) -> float:
        return self.at - time.monotonic()

    @property
    def to_wait(self) -> float:
        """Seconds to wait for somebody else, after which there is time to note what became of it; never none."""
        return max(self.left - _LAST_SECONDS, _PAUSE)


def main(arguments: Sequence[str]) -> int:
    """Tell of the event on the standard input; ends the process with 0, at the latest at its deadline.

    Args:
        arguments: All of the command's: the last one is the agent's name, and `--home` counts.
    """
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent; we end soon anyway
        _run(arguments)
    finally:
        os._exit(0)


def _run(arguments: Sequence[str]) -> None:
    """Do what there is to do, until the deadline, and log why it was not done."""
    deadline = _Deadline()
    done = _thread.allocate_lock()
    done.acquire()
    reason = ["there was no time left"]

    def work() -> None:
        try:
            reason[0] = _tell(_home(arguments), arguments[-1], deadline)
        except BaseException as error:
            reason[0] = str(error) if isinstance(error, _LeftAloneError) else f"{type(error).__name__}: {error}"
        finally:
            done.release()

    # In a thread, since what it does may hang where nothing can interrupt it: a dead network folder, an open input.
    _thread.start_new_thread(work, ())
    while (left := deadline.left) > 0 and not done.acquire(timeout=left):
        pass
    if reason[0]:
        # Briefly: where the thread hangs on the store's folder, so does this.
        logged = _thread.allocate_lock()
        logged.acquire()
        _thread.start_new_thread(_log, (arguments, reason[0], logged))
        logged.acquire(timeout=0.2)


def _home(arguments: Sequence[str]) -> str:
    if "--home" in arguments[:-1]:
        return os.path.abspath(arguments[arguments.index("--home") + 1])
    if chosen := os.environ.get("TIMELEAP_HOME"):
        return os.path.abspath(chosen)
    raise _LeftAloneError("no store is named: --home DIR, as `timeleap agents install` writes it")


def _tell(home: str, agent: str, deadline: _Deadline) -> str:
    """Hand the event over; returns what is to be logged, nothing if all is well."""
    event = read_event(agent, _input())
    unreachable = os.path.join(home, FOLDER, _UNREACHABLE)
    prompt, doubtful = event["event"] == "prompt", _age(unreachable) < UNREACHABLE_SECONDS
    if doubtful and not prompt:
        return ""
    started = False
    try:
        while deadline.left > _LAST_SECONDS:
            if _ask(home, event, deadline):
                return ""  # what went wrong there stands in the same log
            if not started:
                started = True
                if prompt and not doubtful:
                    deadline.allow(FIRST_SECONDS)
                _start(home)
            time.sleep(_PAUSE)
    finally:
        _note(unreachable, not deadline.accepted)
    return "the hooks' process did not answer in time; what it has accepted goes on" if deadline.accepted else _GONE


def read_event(agent: str, data: bytes) -> dict[str, Any]:
    """The event that an agent tells, as `bridge/catchUp` takes it.

    Raises:
        _LeftAloneError: It is not one of those that are told on.
        ValueError: It is no JSON.
    """
    if len(data) > MAX_INPUT:
        raise _LeftAloneError(f"the event has more than {MAX_INPUT} bytes")
    told = json.loads(data)
    if not isinstance(told, dict):
        raise _LeftAloneError("the event is no JSON object")
    name, path, folder = told.get("hook_event_name"), told.get("transcript_path"), told.get("cwd")
    event = _POSSIBLE_EVENTS.get(name) if isinstance(name, str) else None
    if event is None:
        raise _LeftAloneError("the event is not one that counts")
    if path is None and agent == "kimi-code":
        path = _journal(told.get("session_id"))
    if not isinstance(path, str) or not os.path.isabs(path):
        raise _LeftAloneError("the event names no transcript")
    members: dict[str, Any] = {"kind": agent, "event": event, "path": path}
    if isinstance(folder, str) and os.path.isabs(folder):
        members["cwd"] = folder
    tool = told.get("tool_name")
    if event == "tool" and isinstance(tool, str):
        members["toolName"] = tool[:_LABEL]
    return members


def _journal(session: object) -> str | None:
    """Where kimi-code keeps a session, of which it names the id alone; None where there is none. Raises OSError."""
    if not isinstance(session, str) or not session.startswith("session_") or "/" in session:
        return None
    home = os.environ.get("KIMI_CODE_HOME") or os.path.expanduser("~/.kimi-code")
    folder = os.path.join(os.path.abspath(home), "sessions")
    for name in os.listdir(folder):
        path = os.path.join(folder, name, session)
        if os.path.isdir(path):
            return os.path.join(path, "agents", "main", "wire.jsonl")
    return None


def _input() -> bytes:
    read, size = [], 0
    while size <= MAX_INPUT and (part := os.read(0, 1 << 20)):
        read.append(part)
        size += len(part)
    return b"".join(read)


def _ask(home: str, event: dict[str, Any], deadline: _Deadline) -> bool:
    """Tell the hooks' process of an event; says whether it has answered."""
    record = _record(home)
    if record is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(deadline.to_wait)
            connection.connect(record["address"])
            if not _is_ours(connection):
                return False
            connection.sendall(json.dumps({"token": record["token"], **event}).encode() + b"\n")
            received = b""
            while len(received) <= _MAX_LINE:
                connection.settimeout(deadline.to_wait)
                part = connection.recv(4096)
                if not part:
                    return False
                received += part
                *lines, received = received.split(b"\n")
                for line in lines:
                    answer = json.loads(line)
                    deadline.accepted = True
                    if answer.get("done"):
                        return True
                    deadline.allow(float(answer.get("wait", 0.0)))
        except (OSError, ValueError, AttributeError, TypeError):
            return False
    return False


def _record(home: str) -> dict[str, Any] | None:
    """How the hooks' process is reached, where what is there can be trusted: a socket of ours in a folder of ours."""
    try:
        with open(os.path.join(home, FOLDER, RECORD), "rb") as file:
            record = json.loads(file.read(_MAX_LINE))
        address, token = record["address"], record["token"]
        folder, there = os.lstat(os.path.dirname(address)), os.lstat(address)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    private = stat.S_ISDIR(folder.st_mode) and not folder.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    ours = folder.st_uid == there.st_uid == os.geteuid()
    if not (private and ours and stat.S_ISSOCK(there.st_mode) and isinstance(token, str)):
        return None
    return {"address": address, "token": token}


def _is_ours(connection: socket.socket) -> bool:
    if sys.platform != "linux":
        return True  # the folder's permissions have to do
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], sys.byteorder) == (
        os.geteuid()
    )


def _start(home: str) -> None:
    """Start the hooks' process, detached: it has nothing of ours open, and outlives us and the agent."""
    log = open_log(home)
    arguments = [sys.executable, "-P", "-m", "timeleap_agents.hooks.host", "--home", home]
    nowhere = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
    actions = [nowhere, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    os.posix_spawn(sys.executable, arguments, os.environ, file_actions=actions, setsid=True)
    os.close(log)


def _age(path: str) -> float:
    try:
        return abs(time.time() - os.lstat(path).st_mtime)
    except OSError:
        return UNREACHABLE_SECONDS


def _note(path: str, there: bool) -> None:
    """Have an empty file at `path`, or none."""
    try:
        if there:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))
            os.utime(path, follow_symlinks=False)
        else:
            os.unlink(path)
    except OSError:
        pass


def open_log(home: str) -> int:
    """The log, open for appending; emptied if it has grown too large."""
    folder = os.path.join(home, FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, LOG)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    log = os.open(path, flags, 0o600)
    if os.fstat(log).st_size > MAX_LOG:
        os.close(os.open(path, flags | os.O_TRUNC))
    return log


def _log(arguments: Sequence[str], reason: str, logged: Any) -> None:
    try:
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {os.getpid()} {arguments[-1][:80]}: {reason[:1000]}"
        log = open_log(_home(arguments))
        os.write(log, line.encode("utf-8", "backslashreplace").replace(b"\n", b" ") + b"\n")
        os.close(log)
    except Exception:  # noqa: S110
        pass  # there is nobody to be told
    finally:
        logged.release()
