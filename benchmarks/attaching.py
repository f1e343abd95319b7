"""Sessions that several processes have open: what an append costs, and when the others hear of it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import psutil
from benchmarks.server import Server

MESSAGE = {"role": "assistant", "content": "A reply of the usual length. " * 30}
OWNER, ATTACHED = "through the owner", "through an attached process"

Durability = Literal["disk", "os"]


@contextmanager
def cases(home: Path, durability: Durability, in_flight: int, appends: int) -> Iterator[dict[str, Callable[[], float]]]:
    """The two cases: the owner of a session that nobody else has open, and one attached to another session of its. Each
    append carries a request id: one that is passed on gets one, if it has none.

    Args:
        home: Where the store will be.
        durability: Of both servers.
        in_flight: How many requests are sent at once.
        appends: How many a case makes.
    """
    servers: list[Server] = []
    try:
        servers += [Server.timeleap(home, "--durability", durability) for _ in range(2)]
        owner, attached = servers
        for session in ("alone", "shared"):
            owner.request("session/open", {"sessionId": session})
        state = attached.request("session/open", {"sessionId": "shared"})
        if state["access"] != "attached":
            raise RuntimeError(f"not attached but {state['access']}")

        numbers = itertools.count()

        def case(server: Server, session: str) -> Callable[[], float]:
            def run() -> float:
                asked = [
                    {"sessionId": session, "message": MESSAGE, "requestId": f"{next(numbers)}"} for _ in range(appends)
                ]
                frames = server.frames("context/appendMessage", asked)
                started = time.perf_counter()
                server.answered(frames, in_flight)
                return time.perf_counter() - started

            return run

        yield {OWNER: case(owner, "alone"), ATTACHED: case(attached, "shared")}
    finally:
        for server in servers:
            server.kill()


class Crowd:
    """An owner of two sessions: `alone`, and `shared`, which other processes are attached to.

    Args:
        home: Where the store will be.
        windows: How many processes are attached.
        messages: What an append round appends, one message each.
        apart: Whether the windows have the other cores: on the owner's, their work would make it wait between two appends.
    """

    def __init__(self, home: Path, windows: int, messages: Sequence[dict[str, Any]], *, apart: bool = False) -> None:
        self._servers: list[Server] = []
        try:
            self.owner = Server.timeleap(home, "--durability", "os")
            self._servers.append(self.owner)
            with other_cores() if apart else nullcontext():
                self._servers += [Server.timeleap(home, "--durability", "os") for _ in range(windows)]
            self.attached = self._servers[1:]
            self._frames = {
                name: self.owner.frames(
                    "context/appendMessage", [{"sessionId": name, "message": message} for message in messages]
                )
                for name in ("alone", "shared")
            }
            for name in self._frames:
                self.owner.request("session/open", {"sessionId": name})
            for server in self.attached:
                state = server.request("session/open", {"sessionId": "shared"})
                if state["access"] != "attached":
                    raise RuntimeError(f"not attached but {state['access']}")
        except BaseException:
            self.close()
            raise

    def append(self, session: str, in_flight: int) -> float:
        """Seconds of processor time that the owner takes to append all messages, until everybody has heard of them."""
        before = processor_time(self.owner.pid)
        self.owner.answered(self._frames[session], in_flight)
        if session == "shared":
            for server in self.attached:
                heard = 0
                while heard < len(self._frames[session]):
                    heard += len(server.read())
        return processor_time(self.owner.pid) - before

    def delays(self) -> list[float]:
        """For each append to `shared`, one at a time: seconds from its reply to the moment the last window heard of it."""
        found = []
        for frame in self._frames["shared"]:
            self.owner.exchange([frame])
            replied = time.perf_counter()
            for server in self.attached:
                while not server.read():
                    pass
            found.append(time.perf_counter() - replied)
        return found

    def close(self) -> None:
        """End all processes."""
        for server in self._servers:
            server.kill()


@contextmanager
def other_cores() -> Iterator[None]:
    """Have processes that are started within run on the cores that the benchmarks leave free, if there are any."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    if others := os.sched_getaffinity(0) - ours:
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


def processor_time(pid: int) -> float:
    """Seconds that the threads of a process have run; to the nanosecond where the system tells."""
    threads = Path(f"/proc/{pid}/task")
    try:
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads.iterdir()) / 1e9
    except FileNotFoundError:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
