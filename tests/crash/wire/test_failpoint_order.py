"""Durable steps keep their order: each operation passes the failpoints that it passed when the list was made.

The order in which things become durable is a promise to stores on disk. A change of structure must not change it; one
that is meant to writes the list anew: `python -m tests.crash.wire.test_failpoint_order`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from tests.support.server import Launch, Server
from tests.support.session import Session
from tests.support.trace import Tracer
from tests.wire.operations import OPERATIONS, prepare

pytestmark = [pytest.mark.crash, pytest.mark.long]

RECORDED = Path(__file__).with_name("failpoint_order.json")


def passed(folder: Path) -> dict[str, list[str]]:
    """The failpoints that each operation passes, in their order."""
    tracer = Tracer(folder / "trace")
    server = Server(Launch(folder / "home", "ndjson", env=tracer.env))
    server.initialize(clientInfo={"name": "traced"})
    found: dict[str, list[str]] = {}
    try:
        for number, operation in enumerate(OPERATIONS):
            session = Session.open(server, f"s{number}")
            prepare(session)
            operation.before(session)
            before = len(tracer.passed())
            session.call(operation.method, **operation.params, requestId="traced")
            session.get_state()  # what the change left to do is done
            found[operation.name] = [name for name in tracer.passed()[before:] if name != "watch.look"]
            session.call("session/close")
    finally:
        server.dispose()
    return found


def test_each_operation_passes_its_failpoints_in_their_order(tmp_path: Path) -> None:
    assert passed(tmp_path) == json.loads(RECORDED.read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        RECORDED.write_text(json.dumps(passed(Path(folder)), indent=1) + "\n")
