"""`initializationOptions.approvals: "ask"`: a connection that asks for approvals, and cannot decide about them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support.approvals import ask, audit, decide, pending
from tests.support.fixtures import StartServer
from tests.support.peer import Peer, endpoint
from tests.support.scene import until
from tests.support.server import Message
from tests.support.session import Session

from timeleap_client import AsyncTimeleap, TimeleapRpcError

ONLY_ASKS = {"approvals": "ask"}
SWITCHES: tuple[tuple[str, Message], ...] = (
    ("session/setYolo", {"yolo": True}),
    ("session/setYolo", {"yolo": False}),
    ("session/setAfk", {"afk": True}),
    ("session/setAfk", {"afk": False}),
    ("session/setAutoApprove", {"action": "run command", "enabled": True}),
    ("session/setAutoApprove", {"action": "run command", "enabled": False}),
)


def two(start: StartServer, agent_is: str) -> tuple[Session, Session]:
    """The agent's session, which only asks, and the person's; one process owns it, the other is attached."""
    if agent_is == "owner":
        agent = Session.open(start(options=ONLY_ASKS), "s")
        return agent, Session.open(start(), "s")
    person = Session.open(start(), "s")
    return Session.open(start(options=ONLY_ASKS), "s"), person


def refuses_to_switch(agent: Session) -> None:
    for method, params in SWITCHES:
        assert_only_asks(agent.refuse(method, **params), method)


def assert_only_asks(error: Message, method: str) -> None:
    assert (error["code"], error["data"]["kind"], error["data"]["reason"]) == (4004, "readOnly", "onlyAsks")
    assert error["data"]["retryable"] is False
    assert method in error["message"]


@pytest.mark.parametrize("agent_is", ["owner", "attached"])
def test_no_decision_is_taken_and_another_connection_decides(start: StartServer, agent_is: str) -> None:
    agent, person = two(start, agent_is)
    before = person.get_state()
    request = ask(agent, description="rm -r build")
    until(lambda: pending(person))
    approval_id = pending(person)[0]["approvalId"]
    written = audit(person)
    for decision in ("approve", "approveForSession", "reject"):
        error = agent.refuse("approval/respond", approvalId=approval_id, decision=decision)
        assert_only_asks(error, "approval/respond")
    refuses_to_switch(agent)
    assert person.get_state() == before
    assert [one["approvalId"] for one in pending(agent)] == [approval_id]
    assert audit(person) == written
    agent.say("all else goes on")
    assert decide(person, approval_id) == {}
    assert request.result()["decision"] == "approve"
    person.call("session/setAutoApprove", action="run command", enabled=True)
    assert agent.call("session/isApproved", action="run command")["approved"] is True
    assert ask(agent).result()["automatic"] is True


def test_requests_sent_at_once_and_behind_an_opening_are_refused(start: StartServer) -> None:
    server = start(options=ONLY_ASKS)
    opening = server.start("session/open", sessionId="s", create=True)
    switches = [(method, server.start(method, sessionId="s", **params)) for method, params in SWITCHES]
    opening.result()
    for method, switch in switches:
        assert_only_asks(switch.error(), method)
    approval = server.call("session/getState", sessionId="s")["approval"]
    assert (approval["yolo"], approval["autoApproveActions"]) == (False, [])


def test_it_holds_when_the_owner_goes(start: StartServer) -> None:
    agent, person = two(start, "attached")
    person.server.kill()
    agent.say("who owns it now?")
    refuses_to_switch(agent)


def test_the_owner_refuses_a_connection_that_was_introduced_so(start: StartServer) -> None:
    person = Session.open(start(), "s")
    for options in (ONLY_ASKS, {}):
        with Peer(person.path) as peer:
            token = endpoint(person.path)["token"]
            peer.greet(initializationOptions={"token": token, **options})
            peer.call("session/open", path=str(person.path), create=False)
            switch = {"method": "session/setYolo", "params": {"sessionId": "s", "yolo": True}}
            peer.send({"jsonrpc": "2.0", "id": "switch", **switch})
            reply = next(said for said in iter(peer.receive, None) if said.get("id") == "switch")
        if options:
            assert_only_asks(reply["error"], "session/setYolo")
        assert person.get_state()["approval"]["yolo"] is (not options)


@pytest.mark.parametrize("value", ["decide", "Ask", "", True, 1, ["ask"], {"ask": True}])
def test_another_value_is_refused_and_the_next_one_taken(start_at: StartServer, home: Path, value: Any) -> None:
    server = start_at(home, "lsp")
    error = server.refuse("initialize", initializationOptions={"approvals": value})
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, ["initializationOptions", "approvals"])
    assert '"ask"' in error["message"]
    hello = server.initialize(initializationOptions=ONLY_ASKS)
    assert "warnings" not in hello["capabilities"]["experimental"]["timeleap"]


def test_null_is_a_connection_that_decides(start: StartServer) -> None:
    session = Session.open(start(options={"approvals": None}), "s")
    assert session.call("session/setYolo", yolo=True)["approval"]["yolo"] is True


async def test_it_holds_in_the_server_that_a_client_starts_again(home: Path) -> None:
    async with AsyncTimeleap(home=home, options=ONLY_ASKS) as client, client.session("s") as session:
        killed = client.pid
        assert killed is not None
        os.kill(killed, getattr(signal, "SIGKILL", signal.SIGTERM))
        assert await session.approvals() == []
        assert client.pid != killed
        with pytest.raises(TimeleapRpcError) as caught:
            await session.set_yolo(True)
        assert (caught.value.kind, caught.value.data["reason"]) == ("readOnly", "onlyAsks")
        assert not (await session.state()).approval.yolo
