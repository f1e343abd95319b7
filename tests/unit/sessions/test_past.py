"""The two stacks: how long they get, how they are written down, and what is believed of what stands there."""

from __future__ import annotations

from typing import Any, cast

import pytest

from timeleap.errors import RedoUnavailableError, UndoUnavailableError
from timeleap.sessions.documents import undo_member
from timeleap.sessions.documents.json_files import Problems
from timeleap.sessions.kernel.change import LogRewrite
from timeleap.sessions.kernel.rewrites import stacks_after
from timeleap.sessions.past import MAX_STEPS, Stacks
from timeleap.sessions.shapes import HistoryStep
from timeleap.storage.log_values import LogState, Prepared, Replacement, Timeline, TimelineFacts

AFTER = LogState(length=7, chain=8)


def prepared(name: str, equals: str | None = None, replaces: bool = True) -> Prepared:
    return Prepared(name, replaces, equals, AFTER)


def of(*names: str | None) -> tuple[HistoryStep, ...]:
    return tuple(HistoryStep("revert", name) for name in names)


def test_beyond_a_thousand_steps_the_oldest_are_forgotten() -> None:
    stacks = Stacks()
    for number in range(MAX_STEPS + 5):
        stacks = stacks.pushed("clear", prepared(f"context_{number}"))
    assert len(stacks.undo) == MAX_STEPS
    assert stacks.undo[0].timeline_id == "context_5"
    back = stacks.moved("undo", MAX_STEPS, prepared("context_x"), lambda one, other: one == other)
    assert (len(back.undo), len(back.redo)) == (0, MAX_STEPS)
    assert undo_member.read(back.members()) == back
    more = Stacks((*of("a"), *stacks.undo))
    assert undo_member.read(more.members()).undo == stacks.undo
    listed = [Timeline(f"context_{n}", "", TimelineFacts("revert"), 1, 1, 0, n) for n in range(MAX_STEPS + 5, 0, -1)]
    assert len(undo_member.after_old_rewrites(listed).undo) == MAX_STEPS


def test_a_log_that_is_no_step_of_the_session_ends_redo() -> None:
    facts = TimelineFacts("unknown", "", {"by": "repair"})
    rewrite = LogRewrite("external", Replacement(facts), cast("Any", None), LogState(), removed={})
    before = Stacks(of("context_1"), of("context_2"), (AFTER.length, AFTER.chain))
    for replaces, expected in ((True, before.without_redo()), (False, before)):
        after = stacks_after(rewrite, before, prepared("context_3", replaces=replaces), lambda one, other: one == other)
        assert after == expected


def test_what_is_read_is_what_was_written() -> None:
    stacks = Stacks(of("context_1", None), (HistoryStep("dmail", "context_3"),), (5, 2**64 - 1))
    assert undo_member.read(stacks.members()) == stacks
    assert undo_member.read(stacks.without_redo().members()) == Stacks(of("context_1", None))
    assert "chain" not in stacks.without_redo().members()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, ()),
        ([], ()),
        ({"undo": {}}, ()),
        ({"undo": ["x", {"kind": "revert", "timelineId": "a"}]}, of("a")),
        ({"undo": [{"kind": "revert", "timelineId": "a"}, {"kind": "prune", "timelineId": "b"}]}, ()),
        ({"undo": [{"kind": "revert", "timelineId": ""}, {"kind": "revert"}]}, of(None)),
        ({"undo": [{"kind": "revert", "timelineId": 5}, {"kind": "revert", "timelineId": "a"}]}, of("a")),
    ],
)
def test_what_is_malformed_ends_a_stack(value: Any, found: tuple[HistoryStep, ...]) -> None:
    assert undo_member.read(value).undo == found


def test_the_check_of_the_file_finds_what_reading_would_stop_at() -> None:
    stacks = Stacks(of("a", None), of("b"), (5, 6))
    following = {"timelineId": "context_1", "length": 5, "chain": "0" * 16, "equals": "", "stacks": stacks.members()}
    whole = {**stacks.members(), "next": following, "duplicate": {"timelineId": "context_2", "equals": "context_1"}}
    problems = Problems()
    assert undo_member.CHECK(whole, "undo", problems) == whole
    assert not problems
    bad = {
        "undo": [{"kind": "revert", "timelineId": "a"}, {"kind": "revert", "timelineId": 5}, {"kind": "clear"}],
        "redo": "x",
        "length": -1,
        "next": {"timelineId": "context_1"},
        "duplicate": 3,
    }
    assert undo_member.CHECK(bad, "undo", problems) == {"undo": [{"kind": "clear"}]}
    for word in ("undo.undo[1]", "undo.redo", "undo.length", "undo.next", "undo.duplicate"):
        assert word in problems.text


@pytest.mark.parametrize("chain", ["", "x" * 16, "0" * 15, 5, None, "0" * 17, "A" * 16])
def test_redo_without_a_fingerprint_holds_for_no_log(chain: Any) -> None:
    member = {"undo": [], "redo": [{"kind": "revert", "timelineId": "a"}], "length": 0, "chain": chain}
    assert undo_member.read(member).at(LogState()).redo == ()


def test_redo_holds_for_one_log() -> None:
    stacks = Stacks(of("a"), of("b"), (7, 8))
    assert stacks.at(AFTER) == stacks
    assert stacks.at(LogState(length=7, chain=9)) == Stacks(of("a"), (), (7, 8))
    assert stacks.at(LogState(length=8, chain=8)).redo == ()


def test_a_missing_timeline_ends_a_stack() -> None:
    stacks = Stacks(of("a", "b", None, "c"), of("d"), (0, 0))
    assert stacks.within({"a", "c"}).undo == of(None, "c")
    assert stacks.within({"b", "d"}) == Stacks((), of("d"), (0, 0))
    assert stacks.within({"a", "b", "c", "d"}) == stacks


def test_more_steps_than_there_are() -> None:
    stacks = Stacks(of("a"), of("b", "c"), (7, 8))
    with pytest.raises(UndoUnavailableError, match="1 can be undone") as undone:
        stacks.taken("undo", 2)
    assert undone.value.data == {"canUndo": 1, "canRedo": 2}
    with pytest.raises(RedoUnavailableError, match="2 can be redone"):
        stacks.taken("redo", 3)
    with pytest.raises(RedoUnavailableError, match="nothing to redo"):
        Stacks().taken("redo", 1)
    assert stacks.taken("redo", 2) == of("c", "b")


def test_a_step_to_an_equal_log_leaves_nothing_to_come_back_to() -> None:
    stacks = Stacks(of("a", "b", "b"))
    back = stacks.moved("undo", 3, prepared("context_4"), lambda one, other: one == other)
    assert back == Stacks((), of("context_4", "b"), (7, 8))
    assert Stacks(of("a")).pushed("clear", prepared("context_2", replaces=False)) == Stacks(of("a"))
    assert Stacks().pushed("clear", prepared("context_2", equals="")).undo == (HistoryStep("clear", None),)
    assert Stacks().pushed("clear", prepared("context_2", equals="context_1")).undo == (
        HistoryStep("clear", "context_1"),
    )


def test_only_rewrites_that_can_be_undone_count_in_an_old_session() -> None:
    reasons = ["dmail", "unknown", "import", "clear", "revert"]
    timelines = [
        Timeline(f"context_{5 - at}", "", TimelineFacts(reason), 1, 1, 0, 1)  # type: ignore[arg-type]
        for at, reason in enumerate(reasons)
    ]
    found = undo_member.after_old_rewrites(timelines).undo
    assert [(one.kind, one.timeline_id) for one in found] == [
        ("revert", "context_1"),
        ("clear", "context_2"),
        ("dmail", "context_5"),
    ]
