"""Histories at which a session and its model once seemed to differ, step by step (`test_session_model.py` found them)."""

from __future__ import annotations

import pytest
from tests.property.test_session_model import OsMachine, StoreMachine
from tests.support.session_operations import TAIL, Op


def test_a_crash_before_old_timelines_go_leaves_what_can_be_undone_with_them() -> None:
    machine = OsMachine()
    try:
        for number in range(4):
            machine.do(("append", {"messages": [{"role": "user", "content": str(number)}]}), False, "none")
            machine.agrees()
            machine.do(("clear", {"keep_system_prompt": False}), False, "none")
            machine.agrees()
        for at in range(1, 31):
            machine.do(("append", {"messages": [{"role": "user", "content": f"at {at}"}]}), False, "none")
            machine.agrees()
            machine.crash(("clear", {"keep_system_prompt": False}), at, False, True, True)
            machine.agrees()
    finally:
        machine.teardown()


def test_a_timeline_that_cannot_be_read_any_more_need_not_be_named_where_nothing_changes() -> None:
    machine = OsMachine()
    try:
        machine.do(("append", {"messages": [{"role": "user", "content": "hi"}]}), False, "none")
        machine.agrees()
        machine.do(("clear", {"keep_system_prompt": False}), False, "none")
        machine.agrees()
        machine.undo_and_redo(1, 1, False)
        machine.do(("undo", {"steps": 1}), False, "none")
        machine.agrees()
        for at in range(1, 31):
            machine.crash(("restore_timeline", {"pick": 0}), at, False, False, False)
            machine.agrees()
    finally:
        machine.teardown()


@pytest.mark.parametrize("nothing", [("prune", {"keep": 1}), ("clear", {"keep_system_prompt": False})])
def test_a_step_that_changes_nothing_may_have_been_noted_before_a_crash(nothing: Op) -> None:
    machine = OsMachine()
    try:
        for at in range(1, 31):
            machine.crash(nothing, at, False, True, True)
            machine.agrees()
    finally:
        machine.teardown()


@pytest.mark.parametrize(("at_once", "left"), [(False, [2, 1]), (True, [4, 1])])
def test_undo_to_and_fro_leads_as_far_as_what_is_kept_on_the_way(at_once: bool, left: list[int]) -> None:
    """The way leads over more different logs than may be kept, and over an empty one: one by one, the oldest goes."""
    machine = StoreMachine()
    clear: Op = ("clear", {"keep_system_prompt": False})
    appends: list[Op] = [("append", {"messages": [{"role": "user", "content": str(number)}]}) for number in range(4)]
    cleared = [one for append in appends[:3] for one in (append, clear)]
    try:
        for one in (*cleared, ("restore_timeline", {"pick": 2}), clear, appends[3], ("undo", {"steps": 1})):
            machine.do(one, False, "none")
            machine.agrees()
        present = machine.live
        assert machine.model.shown()["steps"] == [4, 1]
        machine.undo_and_redo(3, 1, at_once)
        assert machine.model.shown()["steps"] == left
        assert machine.live == present
    finally:
        machine.teardown()


def test_what_forks_may_need_is_kept_where_they_cannot_be_read_any_more() -> None:
    for at in range(1, 8):
        machine = OsMachine()
        try:
            machine.mail(0, ("revert", {"pick": 0, "by_uid": False, "heal": False}))
            machine.agrees()
            machine.fork(0, 0, 0)
            machine.agrees()
            machine.compact_an_exchange([TAIL[0], TAIL[0]], 1)
            machine.agrees()
            machine.follow()
            machine.agrees()
            machine.crash(("prune", {"pick": 0}), at, False, False, False)
            machine.agrees()
        finally:
            machine.teardown()
