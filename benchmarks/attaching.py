"""An append through an attached process beside one through the owner, in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from benchmarks.server import Server

MESSAGE = {"role": "assistant", "content": "A reply of the usual length. " * 30}
OWNER, ATTACHED = "through the owner", "through an attached process"

Durability = Literal["disk", "os"]


@contextmanager
def cases(home: Path, durability: Durability, in_flight: int, appends: int) -> Iterator[dict[str, Callable[[], None]]]:
    """The two cases: the owner of a session that nobody else has open, and one attached to another session of its.

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

        def case(server: Server, session: str) -> Callable[[], None]:
            at_once = [{"sessionId": session, "message": MESSAGE}] * in_flight

            def append() -> None:
                for _ in range(appends // in_flight):
                    server.requests("context/appendMessage", at_once)

            return append

        yield {OWNER: case(owner, "alone"), ATTACHED: case(attached, "shared")}
    finally:
        for server in servers:
            server.kill()
