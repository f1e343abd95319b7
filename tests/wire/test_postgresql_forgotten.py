"""State beside the log that one process has removed stays removed, whatever another process changes afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.machines import Serve
from tests.support.session import Session, user

Call = tuple[str, dict[str, Any]]
MAIL: Call = ("context/sendDMail", {"message": "m", "checkpointId": 0})
REVERT: Call = ("context/revertTo", {"checkpointId": 0})
REMOVALS: dict[str, tuple[list[Call], list[Call]]] = {
    "a D-Mail by a revert": ([MAIL], [REVERT]),
    "a D-Mail by clearing": ([MAIL], [("context/clear", {})]),
    "a D-Mail by a compaction": ([MAIL], [("context/compact", {"summarizer": "builtin", "maxPreservedMessages": 1})]),
    "a D-Mail by its delivery": ([MAIL], [("context/deliverDMail", {})]),
    "a D-Mail by taking it back": ([MAIL], [("context/cancelDMail", {})]),
    "pins": ([("context/setPins", {"pins": ["p"]})], [("context/setPins", {"pins": []}), REVERT]),
    "a sub-agent": (
        [("session/putSubagent", {"name": "a", "systemPrompt": "be a"})],
        [("session/removeSubagent", {"name": "a"}), REVERT],
    ),
    "a title": ([("session/setTitle", {"title": "T"})], [("session/setTitle", {"title": ""}), REVERT]),
    "a workspace": (
        [("session/setWorkspace", {"workspace": "/tmp"})],
        [("session/setWorkspace", {"workspace": None}), REVERT],
    ),
    "the archive": ([("session/archive", {})], [("session/unarchive", {}), REVERT]),
    "steps to undo": ([REVERT], [("session/prune", {"timelineIds": ["context_1"]}), ("context/clear", {})]),
}
CHANGES: list[list[Call]] = [
    [("context/undo", {})],
    [("context/undo", {}), ("context/redo", {})],
    [("session/setTitle", {"title": "another"})],
    [("context/appendMessage", {"message": user("x")}), ("context/undo", {})],
]


@pytest.mark.parametrize("what", REMOVALS)
def test_what_one_process_removed_no_change_of_another_brings_back(serve: Serve, url: str, what: str) -> None:
    before, removal = REMOVALS[what]
    servers = [serve(url), serve(url)]
    for number, changes in enumerate(CHANGES):
        a, b = (Session.open(server, f"s{number}") for server in servers)
        a.say("one")
        a.checkpoint()
        for text in ("two", "three", "four"):
            a.say(f"{text} " * 1000)
        for method, params in before:
            a.call(method, **params)
        b.texts()
        for method, params in removal:
            a.call(method, **params)
        state = a.get_state()
        for method, params in changes:
            b.start(method, **params).reply()  # or there is nothing to undo
            state = a.get_state()
            assert b.get_state() == state
            assert state["pendingDMail"] is None
        if what.startswith("a D-Mail"):
            assert {session.refuse("context/deliverDMail")["code"] for session in (a, b)} == {4008}
        for session in (a, b):
            session.call("session/close")
        assert Session.open(servers[1], f"s{number}").get_state() == state


def test_every_process_hears_once_that_a_dmail_is_dropped(serve: Serve, url: str) -> None:
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    a.checkpoint()
    a.call(MAIL[0], **MAIL[1])
    head = a.call(REVERT[0], **REVERT[1])["head"]
    b.say("after")
    for session in (a, b):
        session.server.call("session/list")
        told = [
            message["params"]["head"]
            for message in session.server.received
            if message.get("params", {}).get("kind") == "dmailChanged" and message["params"]["pendingDMail"] is None
        ]
        assert told == [head]
