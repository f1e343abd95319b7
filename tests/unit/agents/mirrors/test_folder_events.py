"""How often the process is woken to look at what the system has told of folders."""

from __future__ import annotations

from threading import Event
from typing import Any, Final

from timeleap_agents.mirrors import folder_events
from timeleap_agents.mirrors.folder_events import QUIET_MS, QUIET_STEP_MS, STEP_MS

WAKES: Final = 10
"""A second, at most, where nothing changes: each takes some 50 us of the processor, of which there may be 1 ms."""


class Notifier:
    """Source of events that tells what it is given, and notes how often it looks."""

    def __init__(self, *told: Any) -> None:
        self.told = list(told)
        self.steps: list[int] = []
        self.limits: set[int] = set()

    def watch(self, joined: int, step: int, limit: int, stop: Event) -> Any:
        del joined, stop
        self.steps.append(step)
        self.limits.add(limit)
        return self.told.pop(0)


def test_a_folder_in_which_nothing_changes_is_looked_at_less_often() -> None:
    notifier = Notifier("timeout", "timeout", {(1, "/a")}, "timeout", {(1, "/b")}, "stop")
    found = list(folder_events._told(notifier, Event()))
    assert found == [{"/a"}, {"/b"}]
    assert notifier.steps == [STEP_MS, QUIET_STEP_MS, QUIET_STEP_MS, STEP_MS, QUIET_STEP_MS, STEP_MS]
    assert notifier.limits == {QUIET_MS}
    assert 1000 / QUIET_STEP_MS <= WAKES


def test_a_source_that_ends_is_asked_no_more() -> None:
    notifier = Notifier("signal", "timeout")
    assert list(folder_events._told(notifier, Event())) == []
    assert len(notifier.steps) == 1
