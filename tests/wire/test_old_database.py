"""A database that an earlier commit wrote, its server killed in the middle of things, opens and goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.machines import Serve
from tests.support.old_database import unpack
from tests.support.session import Session


@pytest.mark.no_tables
def test_it_opens_knows_its_requests_and_goes_on(serve: Serve, url: str) -> None:
    asked = unpack(url)
    server = serve(url)
    sessions = {name: Session.open(server, name, create=False) for name in ("undone", "waiting")}
    undone, waiting = sessions["undone"], sessions["waiting"]
    before = {name: (session.history(), session.head) for name, session in sessions.items()}
    for request in asked:
        session = sessions[request["session"]]
        again: dict[str, Any] = session.call(request["method"], **request["params"])
        assert again.pop("duplicate"), request
        for name in ("removed", "timelineId", "index", "messageCount", "steps"):
            assert again.get(name) == request["answer"].get(name), (request, again)
    assert before == {name: (session.history(), session.head) for name, session in sessions.items()}
    state = undone.get_state()
    assert (state["title"], state["context"]["canUndo"], state["context"]["canRedo"]) == ("in the middle", 1, 1)
    assert undone.texts() == ["one", "two"]
    undone.call("context/redo")
    assert undone.texts() == []
    undone.call("context/undo", steps=2)
    assert undone.texts() == ["one", "two", "three"]
    state = waiting.get_state()
    assert (state["pendingDMail"]["message"], state["pins"]) == ("a note for the past", ["never forget"])
    waiting.call("context/deliverDMail")
    (note,) = waiting.texts()
    assert "a note for the past" in note
    waiting.say("and on")
    assert waiting.texts()[-1] == "and on"
