"""How often a session is open follows the method table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from timeleap_client import opened
from timeleap_protocol import methods
from timeleap_protocol.method import Opens
from timeleap_protocol.methods import REQUESTS


@pytest.mark.parametrize(("effect", "count"), [("opens", 3), ("closes", 1), ("ends", 0), (None, 2)])
def test_a_row_says_what_becomes_of_an_open_session(
    monkeypatch: pytest.MonkeyPatch, effect: Opens | None, count: int
) -> None:
    rows = {name: replace(REQUESTS["session/setTitle"], name=name, opens="opens") for name in ("open", "probe")}
    monkeypatch.setattr(methods, "REQUESTS", {**rows, "probe": replace(rows["probe"], opens=effect)})
    sessions, known = opened.OpenSessions(), {"sessionId": "a"}
    for method in ("open", "open", "probe"):
        sessions.note(method, known, known)
    found = sessions.get("a")
    assert (found.count if found else 0) == count
