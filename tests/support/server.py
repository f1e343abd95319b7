"""`timeleap serve` as a child process, spoken to in raw bytes.

A reader thread takes in every frame, checks it (`schema`) and keeps it in order of arrival, so that a test can
ask what came before what. Nothing here imports the server: only its bytes, its exit code and its files count.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from tests.support import figures, forked, schema
from tests.support.forked import Running
from tests.support.framing import Decoder, Framing, dumps, frame, loads


class Databases:
    """By home: the database in which servers on it have their sessions, where that is not the home itself.

    One is made when it is first asked for: many a test has a home and starts no server there.
    """

    def __init__(self) -> None:
        self._makers: dict[Path, Callable[[], str]] = {}
        self._made: dict[Path, str] = {}

    def __setitem__(self, home: Path, make: Callable[[], str]) -> None:
        self._makers[home] = make

    def __contains__(self, home: Path) -> bool:
        return home in self._makers

    def __getitem__(self, home: Path) -> str:
        if home not in self._made:
            self._made[home] = self._makers[home]()
        return self._made[home]

    def get(self, home: Path) -> str | None:
        """The URL; None where the sessions are in the home itself."""
        return None if home not in self._makers else self[home]

    def made(self, home: Path) -> str | None:
        """The URL, if anybody has asked for it."""
        return self._made.get(home)


DATABASES = Databases()

PATIENCE = 120.0
"""Seconds after which a missing answer is a failure (generous: the machine may be busy)."""

Message = dict[str, Any]


@functools.cache
def runtime_directory() -> Path:
    """Where the servers of this process put their sockets: the path of one may only have about 100 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="tl-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class Refused(Exception):
    """The server answered with an error where a result was expected."""

    def __init__(self, method: str, error: Message) -> None:
        super().__init__(f"{method}: {error}")
        self.error = error


@dataclass
class Pending:
    """A request that was sent."""

    server: Server
    id: int | str
    method: str
    sent_at: int
    """How many messages had been received when it was sent."""

    def reply(self, timeout: float = PATIENCE) -> Message:
        """The whole reply."""
        return self.server.wait_for(self._is_reply, since=self.sent_at, timeout=timeout)

    def result(self, timeout: float = PATIENCE) -> Any:
        """The result; raises `Refused` if it is an error."""
        reply = self.reply(timeout)
        if "error" in reply:
            raise Refused(self.method, reply["error"])
        return reply["result"]

    def error(self, timeout: float = PATIENCE) -> Message:
        """The error; fails if there is a result."""
        reply = self.reply(timeout)
        assert "error" in reply, f"{self.method} succeeded: {reply}"
        return dict(reply["error"])

    def heard(self, timeout: float = PATIENCE) -> list[Message]:
        """The notifications that came between sending the request and its reply."""
        self.reply(timeout)
        received = self.server.received
        end = next(i for i, message in enumerate(received) if i >= self.sent_at and self._is_reply(message))
        return [message for message in received[self.sent_at : end] if "id" not in message]

    def _is_reply(self, message: Message) -> bool:
        return "method" not in message and message["id"] == self.id and type(message["id"]) is type(self.id)


@dataclass
class Launch:
    """How to start a server; the same again for a restart."""

    home: Path
    framing: Framing
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    wrapper: Sequence[str] = ()
    home_argument: bool = True
    private: Path | None = None
    """The user's own directory: key, what the server says on stderr. Default: beside the store."""
    fresh: bool = False
    """A new interpreter, as a user would start it, also where a fork of one that has imported everything would do."""

    @property
    def user(self) -> Path:
        """The user's own directory."""
        return self.private or self.home.parent / "user"

    def arguments(self) -> list[str]:
        """The arguments of the program."""
        home = ["--home", str(self.home)] if self.home_argument else []
        return ["serve", *home, *self.args]

    def command(self) -> list[str]:
        """The command line."""
        return [*self.wrapper, sys.executable, "-m", "timeleap", *self.arguments()]

    def run(self, stdin: int | IO[Any], stdout: int | IO[Any], stderr: IO[Any]) -> Running:
        """Start it: forked off one that is ready, unless it is the start that matters."""
        if forked.possible() and not self.fresh and not self.wrapper and not any(map(_for_python, self.env)):
            return forked.Forked(self.arguments(), self.environment(), stdin, stdout, stderr)
        environment = self.environment()
        return subprocess.Popen(self.command(), stdin=stdin, stdout=stdout, stderr=stderr, env=environment, bufsize=0)

    def environment(self) -> dict[str, str]:
        """The environment: ours, with nothing of the user's own Timeleap in it."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIMELEAP_")}
        if self.home in DATABASES:
            inherited["TIMELEAP_STORE"] = DATABASES[self.home]
        return {
            **inherited,
            "HOME": str(self.user),
            "XDG_RUNTIME_DIR": str(runtime_directory()),
            "TIMELEAP_KEY_FILE": str(self.user / "key"),
            **self.env,
        }


def _for_python(name: str) -> bool:
    return name.startswith("PYTHON")


class Server:
    """A running server and all it has said."""

    def __init__(
        self,
        launch: Launch,
        *,
        reading: bool = True,
        stdin: int | IO[Any] = subprocess.PIPE,
        stdout: int | IO[Any] = subprocess.PIPE,
    ) -> None:
        self.launch = launch
        self.home = launch.home
        self.framing: Framing = launch.framing
        self.hello: Message = {}
        self._successors: list[Server] = []
        self._disposed = False
        self.received: list[Message] = []
        self.raw: list[bytes] = []
        self.times: list[float] = []
        """When each message came, by `time.monotonic`."""
        self._arrived = threading.Condition()
        self._broken: list[BaseException] = []
        self._ended = False
        self._ids = itertools.count(1)
        self._methods: dict[int | str, str] = {}
        private = launch.user
        private.mkdir(parents=True, exist_ok=True)
        self._stderr = (private / f"stderr-{time.monotonic_ns()}").open("w+b")
        self.process: Running = launch.run(stdin, stdout, self._stderr)
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.start_reading()

    # sending

    def send_bytes(self, data: bytes) -> None:
        """Write raw bytes, all of them."""
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, message: Any) -> None:
        """Write one message in our framing."""
        body = dumps(message)
        if isinstance(message, dict) and "id" in message and isinstance(message["id"], str | int):
            self._methods.setdefault(message["id"], str(message.get("method")))
        self.send_bytes(frame(body, self.framing))

    def send_body(self, body: bytes) -> None:
        """Write one frame with a body that may be anything."""
        self.send_bytes(frame(body, self.framing))

    def start(self, method: str, /, **params: Any) -> Pending:
        """Send a request and do not wait."""
        return self.start_with(method, params)

    def start_with(self, method: str, params: Any, *, id: int | str | None = None) -> Pending:
        """Send a request with these params, whatever they are, and do not wait."""
        pending = self.expect(method, next(self._ids) if id is None else id)
        self.send({"jsonrpc": "2.0", "id": pending.id, "method": method, "params": params})
        return pending

    def expect(self, method: str, id: int | str) -> Pending:
        """A handle on the reply to a request that is sent by other means."""
        self._methods[id] = method
        return Pending(self, id, method, len(self.received))

    def call(self, method: str, /, **params: Any) -> Any:
        """Send a request and return its result."""
        return self.start_with(method, params).result()

    def refuse(self, method: str, /, **params: Any) -> Message:
        """Send a request that has to fail and return its error."""
        return self.start_with(method, params).error()

    def notify(self, method: str, /, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def initialize(self, **params: Any) -> Message:
        """The opening handshake; returns the result."""
        self.hello = dict(self.call("initialize", **params))
        self.notify("initialized")
        return self.hello

    # receiving

    def wait_for(self, wanted: Callable[[Message], bool], *, since: int = 0, timeout: float = PATIENCE) -> Message:
        """The first message after the first `since` ones that is `wanted`."""
        deadline = time.monotonic() + timeout
        position = since
        with self._arrived:
            while True:
                self._complain()
                for message in self.received[position:]:
                    position += 1
                    if wanted(message):
                        return message
                remaining = deadline - time.monotonic()
                if self._ended or remaining <= 0:
                    state = "ended its output" if self._ended else f"said nothing of the kind for {timeout:.0f} s"
                    raise AssertionError(f"the server {state}; last: {self.received[-3:]}\n{self.stderr()[-4000:]}")
                self._arrived.wait(remaining)

    def heard(self, method: str, *, since: int = 0, timeout: float = PATIENCE, **members: Any) -> Message:
        """Wait for a notification of that method whose params have these members; returns the params."""

        def wanted(message: Message) -> bool:
            params = message.get("params", {})
            return message.get("method") == method and members.items() <= params.items()

        return dict(self.wait_for(wanted, since=since, timeout=timeout)["params"])

    def notifications(self, since: int = 0) -> list[Message]:
        """What was received that is not a reply, in order."""
        with self._arrived:
            return [message for message in self.received[since:] if "method" in message]

    def start_reading(self) -> None:
        """Begin to take in what the server says (only for servers started with `reading=False`)."""
        if self.process.stdout is not None:
            self._reader.start()

    def stderr(self) -> str:
        """All that was written to the standard error output so far."""
        return Path(self._stderr.name).read_text(errors="replace")

    # ending

    def close_stdin(self) -> None:
        """End of input."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for the end; returns the exit code, all output read."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout:.0f} s\n{self.stderr()[-4000:]}") from None
        if self._reader.ident is not None:
            self._reader.join(timeout)
        self._complain()
        return code

    def finish(self) -> int:
        """End of input, then the exit code."""
        self.close_stdin()
        return self.wait()

    def shut_down(self) -> int:
        """`shutdown`, `exit`, then the exit code."""
        self.call("shutdown")
        self.notify("exit")
        return self.wait()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def again(self, **env: str) -> Server:
        """Start another one in the same way on the same store, handshake done; it ends with this one at the latest."""
        other = Server(replace(self.launch, env={**self.launch.env, **env}))
        self._successors.append(other)
        other.initialize()
        return other

    def dispose(self) -> None:
        """Make sure it is gone; fails if it ever broke the rules of the stream."""
        for other in self._successors:
            other.dispose()
        if self.process.poll() is None:
            self.kill()
        elif self.process.wait() == -signal.SIGKILL and not self._disposed:
            figures.count(kills=1)
        self._disposed = True
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                if stream is self.process.stdout and self._reader.ident is not None:
                    self._reader.join(PATIENCE)
                with contextlib.suppress(OSError):
                    stream.close()
        log = self.stderr()
        self._stderr.close()
        self._complain()
        assert "Traceback (most recent call last)" not in log and " incident " not in log, log[-4000:]

    # the reader

    def _complain(self) -> None:
        """Fail once for each rule that was broken, in the test that is running then."""
        if self._broken:
            broken = self._broken.pop(0)
            raise AssertionError(f"the server broke the protocol: {broken!r}") from broken

    def _read(self) -> None:
        assert self.process.stdout is not None
        decoder = Decoder(self.framing)
        try:
            while data := os.read(self.process.stdout.fileno(), 1 << 20):
                for body in decoder.feed(data):
                    self._take(body)
            assert not decoder.rest or self.process.wait(PATIENCE) == -signal.SIGKILL, bytes(decoder.rest[:200])
        except BaseException as error:
            self._broken.append(error)
        finally:
            with self._arrived:
                self._ended = True
                self._arrived.notify_all()

    def _take(self, body: bytes) -> None:
        message = loads(body)
        try:
            schema.check_envelope(message)
            schema.check_content(message, self._methods.get(message.get("id")) if "method" not in message else None)
        except AssertionError as error:
            self._broken.append(error)
        with self._arrived:
            self.received.append(message)
            self.raw.append(body)
            self.times.append(time.monotonic())
            self._arrived.notify_all()
