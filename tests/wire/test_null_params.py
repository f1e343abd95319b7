"""Null for a param that may be left out is that param left out: in every method of the table, in every window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.scene import Two
from tests.support.server import Launch, Message, Server
from tests.support.session import Session
from tests.support.workspace import Workspace
from tests.wire.operations import OPERATIONS, Operation, prepare
from tests.wire.test_goldens import BEFORE, ID, OPTIONS, adapted, members, numbers, renamed, replayable, world

from timeleap_protocol.generate.schema import definitions
from timeleap_protocol.methods import ANSWERED

LIFECYCLE = {"initialize", "shutdown", "rpc.discover"}
ELSEWHERE = {
    *("approval/respond", "bridge/adopt", "bridge/catchUp", "bridge/listKept", "bridge/restoreFile", "files/read"),
}
"""What needs a second client to be answered, or another program's file (its params are tried in tests/unit/protocol), or a
file (below)."""


def nulls(method: str) -> dict[str, None]:
    """Every param that the method can do without, as null."""
    schema = definitions()[ANSWERED[method].params_model.__name__]
    return {name: None for name in schema.get("properties", {}) if name not in schema.get("required", [])}


def successes() -> list[Any]:
    """The first golden of success of every method that can be replayed."""
    found: dict[str, Any] = {}
    for case in replayable():
        name, golden = case.values
        if "result" in golden and name not in OPTIONS:
            found.setdefault(golden["method"], case)
    return list(found.values())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all."""
    running = Server(Launch(tmp_path_factory.mktemp("nulls") / "home", "ndjson"))
    running.initialize(clientInfo={"name": "editor"})
    yield running
    running.dispose()


def test_every_method_is_tried() -> None:
    tried = {case.values[1]["method"] for case in successes()}
    assert ANSWERED.keys() - LIFECYCLE - ELSEWHERE - tried == set()


@pytest.mark.parametrize(("name", "golden"), mostly_long(successes(), every=3))
def test_every_method_takes_null_for_what_it_can_do_without(
    start: StartServer, shared: Server, tmp_path: Path, name: str, golden: Message
) -> None:
    method = golden["method"]
    server = start() if method in ("session/list", "session/latest", "session/listTrash") else shared
    golden = renamed(golden)
    named = golden["params"].get("sessionId", "")
    session = world(server, named if named.startswith(ID) else f"any-{next(numbers)}")
    BEFORE.get(name, lambda server, session: None)(server, session)
    params = {**nulls(method), **adapted(name, golden, server, session, tmp_path)}
    result = server.call(method, **params)
    assert members(golden["result"]) <= members(result)


def test_a_file_is_read_with_null_for_what_it_can_do_without(shared: Server, tmp_path: Path) -> None:
    session = Workspace(tmp_path / "shop").open(shared)
    read = {"snapshot": session.checkpoint()["files"]["snapshot"], "path": "login.py"}
    assert session.call("files/read", **{**nulls("files/read"), **read}) == session.call("files/read", **read)


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=0), ids=str)
def test_null_and_absent_are_one_request_in_every_window(two: Two, operation: Operation) -> None:
    prepare(two.owner)
    operation.before(two.owner)
    with_nulls = {**nulls(operation.method), **operation.params, "requestId": "once"}
    first = two.attached.call(operation.method, **with_nulls)
    since, log = two.since(), two.owner.log.read_bytes()
    for window in two.both:
        for params in (with_nulls, {**operation.params, "requestId": "once"}):
            assert window.call(operation.method, **params) == {**first, "duplicate": True}
    assert (two.told(since), two.owner.log.read_bytes()) == ([], log)


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=1), ids=str)
def test_a_null_request_id_is_none(two: Two, operation: Operation) -> None:
    prepare(two.owner)
    operation.before(two.owner)
    assert "duplicate" not in two.attached.call(operation.method, **{**nulls(operation.method), **operation.params})


def test_nested_members_may_be_null(session: Session) -> None:
    session.say("a", "b")
    here = {"checkpointUid": None, "timelineId": None}
    assert session.call("context/diff", **{"from": here, "to": here}) == session.call(
        "context/diff", **{"from": {}, "to": {}}
    )


def test_members_of_the_options_may_be_null(start_at: StartServer, tmp_path: Path) -> None:
    options = definitions()["InitializationOptions"]["properties"]
    groups = {"retention": "Retention", "summarizer": "SummarizerOptions"}
    nothing: dict[str, Any] = dict.fromkeys(options)
    nested = {**nothing, **{name: dict.fromkeys(definitions()[shape]["properties"]) for name, shape in groups.items()}}
    budgets = []
    for number, given in enumerate(({}, nothing, nested, None)):
        server = start_at(tmp_path / str(number), env={"TIMELEAP_TRIGGER_RATIO": "0.5"})
        lsp = {"processId": None, "clientInfo": None, "capabilities": None, "trace": None, "rootUri": None}
        result = server.initialize(**lsp, initializationOptions=given)
        assert "warnings" not in result["capabilities"]["experimental"]["timeleap"]
        budgets.append(Session.open(server, "a").state["budget"])
    expected = {"maxContextSize": None, "reservedContextSize": 50000, "triggerRatio": 0.5}
    assert budgets == [expected] * 4


@pytest.mark.parametrize(
    ("method", "params", "loc"),
    [
        ("context/revertTo", {"checkpointId": None, "checkpointUid": None}, []),
        ("context/appendMessage", {"message": None, "messages": None}, []),
        ("context/restoreTimeline", {"timelineId": None}, ["timelineId"]),
        ("context/diff", {"from": None, "to": {}}, ["from"]),
        ("session/setTitle", {"title": None}, ["title"]),
        ("context/clear", {"keepSystemPromt": None}, ["keepSystemPromt"]),
    ],
)
def test_null_is_no_value_where_one_is_needed(
    session: Session, method: str, params: dict[str, Any], loc: list[str]
) -> None:
    assert [problem["loc"] for problem in session.refuse(method, **params)["data"]["errors"]] == [loc]
