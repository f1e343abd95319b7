"""The note by which processes hand a session over: what can be read of it counts, whatever else it says."""

from __future__ import annotations

from typing import Any

import pytest

from timeleap.attach.handover import META, HandoverNote, note_of
from timeleap.sessions.shapes import Effect

TOLD: list[tuple[str, str, dict[str, Any]]] = [("session/didChange", "titleChanged", {"title": "t"})]
EFFECT = {"requestId": "r", "before": "b", "head": "h", "told": [list(each) for each in TOLD]}
READ = Effect("r", "b", "h", TOLD)
WELL_FORMED: dict[str, Any] = {
    "unanswered": ["r1", "r2"],
    "made": [EFFECT],
    "approvals": ["a1"],
    "endedApprovals": [{"approvalId": "a1", "decision": "approve"}],
    "again": True,
    "session": "uid",
}
NOTE = HandoverNote(
    unanswered=["r1", "r2"],
    made=[READ],
    approvals=["a1"],
    ended_approvals=[{"approvalId": "a1", "decision": "approve"}],
    again=True,
    session="uid",
)
EMPTY = HandoverNote()
NAMES = dict(zip(WELL_FORMED, HandoverNote.__struct_fields__, strict=True))


def note(ours: Any) -> HandoverNote:
    return note_of({META: {"timeleap": ours, "other": 1}})


def test_what_is_put_into_a_request_is_read_from_it() -> None:
    assert note(WELL_FORMED) == NOTE
    put = NOTE.put_into({META: {"other": 1}, "path": "p"})
    assert put == {META: {"other": 1, "timeleap": {**WELL_FORMED, "made": [{**EFFECT, "told": TOLD}]}}, "path": "p"}
    assert EMPTY.put_into({"path": "p"}) == {"path": "p"}


@pytest.mark.parametrize("name", WELL_FORMED)
@pytest.mark.parametrize("odd", [3, None, "x", {"new": "form"}, [[]], [None, 3]])
def test_a_member_that_cannot_be_read_takes_no_other_with_it(name: str, odd: Any) -> None:
    if name == "session" and odd == "x":
        odd = ["x"]
    read = note({**WELL_FORMED, name: odd, "newMember": odd})
    assert getattr(read, NAMES[name]) == getattr(EMPTY, NAMES[name])
    for other in set(NAMES.values()) - {NAMES[name]}:
        assert getattr(read, other) == getattr(NOTE, other)


@pytest.mark.parametrize("name", ["unanswered", "made", "approvals", "endedApprovals"])
def test_an_entry_that_cannot_be_read_takes_no_other_with_it(name: str) -> None:
    assert note({**WELL_FORMED, name: [3, *WELL_FORMED[name], None, []]}) == NOTE


@pytest.mark.parametrize("told", [3, "x", {}, [3], [["m", "k"]], [["m", "k", 3]], [["m", "k", {}, 4]], [*TOLD, None]])
def test_a_change_counts_though_what_others_were_told_of_it_cannot_be_read(told: Any) -> None:
    assert note({"made": [{**EFFECT, "told": told}]}).made == [Effect("r", "b", "h", None)]


@pytest.mark.parametrize("odd", [{"requestId": 3}, {"before": None}, {"head": 3}, {"head": None, "told": 3}])
def test_a_change_without_a_request_or_heads_does_not_count(odd: dict[str, Any]) -> None:
    assert note({"made": [{**EFFECT, **odd}, EFFECT]}).made == [READ]


@pytest.mark.parametrize("meta", [None, 3, "x", [], {}, {"timeleap": None}, {"timeleap": []}, {"timeleap": "x"}])
def test_without_a_note_there_is_an_empty_one(meta: Any) -> None:
    assert note_of({META: meta}) == EMPTY
    assert note_of({}) == EMPTY
