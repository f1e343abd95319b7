"""A store that an earlier commit wrote, its processes killed in the middle of everything, opens and goes on as it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.old_store import ask_again, made, unpack

Compared = dict[str, tuple[Any, Any]]


def named(requests: list[Any], answers: list[Any]) -> Compared:
    """What was said of each request then, and what is said now."""
    names = [f"{request['session']} {request['params']['requestId']}" for request in requests]
    return dict(zip(names, zip(requests, answers, strict=True), strict=True))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    home, requests = unpack(tmp_path_factory.mktemp("old"))
    return named(requests, ask_again(home, requests))


def without_summaries(value: Any) -> Any:
    """The commit that wrote the store knew no summaries of what happened after a checkpoint."""
    plain = json.loads(json.dumps(value))

    def bare(part: Any) -> Any:
        if isinstance(part, list):
            return [bare(one) for one in part]
        if not isinstance(part, dict):
            return part
        is_checkpoint = {"uid", "messageCount"} <= part.keys()
        new = {"summary", "name"} if is_checkpoint else {"span"} & part.keys()
        return {name: bare(one) for name, one in part.items() if name not in new}

    return bare(plain)


@pytest.mark.parametrize("part", ["before", "answer", "after"])
@pytest.mark.long
def test_asked_again_it_answers_as_the_commit_that_wrote_it(answers: Compared, part: str) -> None:
    differing = {
        name: (then[part], now[part])
        for name, (then, now) in answers.items()
        if part in now and then[part] != without_summaries(now[part])
    }
    assert not differing


def test_all_that_was_answered_is_known(answers: Compared) -> None:
    new = [name for name, (then, now) in answers.items() if not then["cutShort"] and "duplicate" not in now["answer"]]
    assert new == []


async def test_an_attached_process_hears_of_its_changes_as_from_the_commit_that_wrote_it(tmp_path: Path) -> None:
    home, requests = unpack(tmp_path)
    found = named(requests, await made(home, requests))
    assert not {
        name: (then["made"], now) for name, (then, now) in found.items() if then["made"] != without_summaries(now)
    }
