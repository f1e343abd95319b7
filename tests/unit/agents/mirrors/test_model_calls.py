"""Calls of models in files of Codex: each once, however many threads have a copy of it, and none for another."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from timeleap_agents.mirrors.model_calls import calls_in_file

ROOT, OTHER, CHILD, GRANDCHILD = (str(uuid.UUID(int=number)) for number in range(1, 5))


class Threads:
    """The folder of Codex."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "sessions" / "2026" / "11" / "20"
        self.folder.mkdir(parents=True)
        self._second = 0

    def write(self, thread: str, counts: Iterable[int], *more: dict[str, Any], segment: str = "", **facts: Any) -> Path:
        """A rollout with a count of so many tokens so far for each call. `more`: what other threads say of themselves."""
        self._second += 1
        path = self.folder / f"rollout-2026-11-20T10-00-{self._second:02}-{thread}{segment and f'_{segment}'}.jsonl"
        lines = [{"type": "session_meta", "payload": each} for each in ({"id": thread, **facts}, *more)]
        before = 0
        for count in counts:
            last = {"input_tokens": count - before, "cached_input_tokens": 0, "output_tokens": 0}
            info = {"last_token_usage": last, "total_token_usage": {**last, "input_tokens": count}}
            lines += 2 * [{"type": "event_msg", "payload": {"type": "token_count", "info": info}}]
            before = count
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path)


def total(*paths: Path) -> int:
    calls = {call.key: call.total for path in paths for call in calls_in_file("codex", path) or []}
    return sum(calls.values())


def test_calls_of_two_threads_that_took_the_same_are_two(threads: Threads) -> None:
    assert total(threads.write(ROOT, [100, 150]), threads.write(OTHER, [100, 180])) == 330


def test_a_count_that_is_told_again_is_one_call(threads: Threads) -> None:
    assert total(threads.write(ROOT, [100, 150, 150])) == 150


@pytest.mark.parametrize(
    "facts",
    [
        {"forked_from_id": ROOT},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": ROOT}}}},
        {"thread_source": "subagent", "parent_thread_id": ROOT},
    ],
)
def test_a_copy_of_another_threads_calls_is_counted_once(threads: Threads, facts: dict[str, Any]) -> None:
    parent = threads.write(ROOT, [100, 150])
    child = threads.write(CHILD, [100, 150, 170], {"id": ROOT}, **facts)
    grandchild = threads.write(GRANDCHILD, [100, 150, 170, 175], forked_from_id=CHILD)
    assert total(parent, child, grandchild) == 175
    parent.unlink()
    assert total(child, grandchild) == 175


def test_a_copy_that_names_no_parent_is_known_by_what_that_says_of_itself(threads: Threads) -> None:
    assert total(threads.write(ROOT, [100, 150]), threads.write(CHILD, [100, 150, 170], {"id": ROOT})) == 170


def test_the_calls_of_all_files_of_a_thread_count(threads: Threads) -> None:
    threads.write(ROOT, [100, 150])
    base = {"thread_id": ROOT, "end_ordinal_exclusive": 3}
    present = threads.write(ROOT, [180, 190], segment=str(uuid.UUID(int=9)), history_base=base)
    assert total(present) == 150 + 180 + 10


def test_a_circle_of_threads_has_an_end(threads: Threads) -> None:
    paths = threads.write(ROOT, [100], forked_from_id=CHILD), threads.write(CHILD, [100], forked_from_id=ROOT)
    assert total(*paths) in (100, 200)
