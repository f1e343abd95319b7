"""What a client that changed owners has to be told of the state beside the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from timeleap.attach.attachment import NotifiedState

STATE: dict[str, Any] = {
    "title": None,
    "archived": False,
    "approval": {"yolo": False},
    "dynamicSubagents": [],
    "pendingDMail": None,
}
CHANGES = [
    ("titleChanged", {"title": "T"}),
    ("approvalChanged", {"approval": {"yolo": True}}),
    ("subagentsChanged", {"dynamicSubagents": [{"name": "a", "systemPrompt": "p"}]}),
    ("dmailChanged", {"pendingDMail": {"checkpointId": 0, "checkpointUid": "c", "message": "m"}}),
    ("pinsChanged", {"pins": ["never"]}),
]


@pytest.mark.parametrize(("kind", "members"), CHANGES)
def test_a_change_nobody_heard_of_is_told_once_and_one_that_was_heard_of_is_not(kind: str, members: Any) -> None:
    hearsay = NotifiedState()
    assert list(hearsay.missed(STATE)) == []
    after = {**STATE, **members}
    assert list(hearsay.missed(after)) == [(kind, members)]
    assert list(hearsay.missed(after)) == []
    heard = NotifiedState()
    assert list(heard.missed(STATE)) == []
    heard.note(kind, json.dumps(members).encode())
    assert list(heard.missed(after)) == []


def test_pins_that_were_taken_away_are_no_news_to_who_heard_of_it() -> None:
    hearsay = NotifiedState()
    assert list(hearsay.missed({**STATE, "pins": ["never"]})) == []
    hearsay.note("pinsChanged", b'{"pins": []}')
    assert list(hearsay.missed(STATE)) == []


def test_the_archive_is_told_in_both_directions() -> None:
    hearsay = NotifiedState()
    assert list(hearsay.missed(STATE)) == []
    assert list(hearsay.missed({**STATE, "archived": True})) == [("archived", {})]
    assert list(hearsay.missed(STATE)) == [("unarchived", {})]
