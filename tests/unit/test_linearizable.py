"""The checker of histories finds those that no single session could have answered, and no others."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.support.linearizable import (
    BESIDE,
    NOTHING,
    READS,
    UNKNOWN,
    Contents,
    Operation,
    session_answer,
    unexplained_session,
)


def op(
    name: str, argument: object, result: object, called: float, returned: float, version: int | None = None
) -> Operation:
    """An operation of a process of its own."""
    return Operation(f"p{called}", name, argument, called, returned, result, None if version is None else (version,))


def explained(*history: Operation) -> bool:
    """True if an order was found."""
    return not unexplained_session(history)


def test_operations_at_the_same_time_may_be_in_either_order() -> None:
    assert explained(op("append", "b", 1, 0, 9), op("append", "a", 0, 1, 8), op("read", None, ("a", "b"), 10, 11))
    assert explained(op("append", "a", 0, 0, 9), op("read", None, (), 1, 2), op("read", None, ("a",), 3, 4))


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([op("append", "a", 0, 0, 1), op("append", "b", 0, 2, 3)], id="one place twice"),
        pytest.param([op("append", "a", 0, 0, 1), op("read", None, (), 2, 3)], id="lost"),
        pytest.param([op("append", "a", 0, 0, 1), op("read", None, ("a", "a"), 2, 3)], id="twice"),
        pytest.param(
            [op("append", "a", 0, 0, 9), op("read", None, ("a",), 1, 2), op("read", None, (), 3, 4)], id="gone again"
        ),
        pytest.param([op("append", "a", 1, 0, 1), op("append", "b", 0, 2, 3)], id="the later one before"),
        pytest.param([op("revert", 0, 0, 0, 1)], id="to a checkpoint that is not there"),
        pytest.param([op("undo", None, 0, 0, 1)], id="of nothing"),
        pytest.param(
            [
                op("checkpoint", None, 0, 0, 1),
                op("append", "a", 0, 2, 3),
                op("revert", 0, 0, 4, 5),
                op("undo", None, 1, 6, 7),
                op("read", None, (), 8, 9),
            ],
            id="undone and not back",
        ),
        pytest.param(
            [op("append", "a", 0, 0, 1), op("append", "b", 1, 2, 3), op("read", None, ("a",), 4, 5)], id="a stale read"
        ),
        pytest.param(
            [
                op("checkpoint", None, 0, 0, 1),
                op("append", "a", 0, 2, 3),
                op("revert", 0, 0, 4, 5),
                op("read", None, ("a",), 6, 7),
            ],
            id="a read of before a revert",
        ),
        pytest.param(
            [op("append", "a", 0, 0, 1, 1), op("append", "b", 1, 2, 3, 2), op("count", None, 1, 4, 5, 1)],
            id="a stale count",
        ),
        pytest.param(
            [op("append", "a", 0, 0, 1, 1), op("append", "b", 1, 2, 3, 2), op("count", None, 2, 4, 5, 1)],
            id="a stale version",
        ),
        pytest.param([op("append", "a", 0, 0, 1, 2), op("append", "b", 1, 2, 3, 1)], id="a version that goes back"),
        pytest.param([op("append", "a", 0, 0, 1, 1), op("append", "b", 1, 2, 3, 1)], id="two changes, one version"),
        pytest.param([op("append", "a", 0, 0, 9, 2), op("append", "b", 1, 1, 8, 1)], id="another order of versions"),
    ],
)
def test_what_no_session_answers_is_found(history: list[Operation]) -> None:
    assert not explained(*history)


def test_an_operation_of_unknown_outcome_is_done_or_not_but_not_twice() -> None:
    lost = Operation("p", "append", "a", 0)
    assert lost.result is UNKNOWN
    assert explained(lost, op("read", None, (), 1, 2), op("read", None, ("a",), 3, 4))
    assert explained(lost, op("read", None, (), 1, 2))
    assert not explained(lost, op("read", None, ("a", "a"), 1, 2))
    assert not explained(op("read", None, ("a",), -2, -1), lost)


def test_a_change_that_nobody_heard_of_has_a_version_all_the_same() -> None:
    lost = Operation("p", "append", "b", 2)
    before, after = op("append", "a", 0, 0, 1, 1), op("append", "c", 2, 5, 6, 3)
    assert explained(before, lost, op("count", None, 2, 3, 4, 2), after)
    assert not explained(before, lost, op("count", None, 2, 3, 4, 3), after)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_history_is_explained_until_one_answer_in_it_is_another(seed: int) -> None:
    rng = random.Random(seed)
    state: Contents = NOTHING
    history, changes = [], 0
    for number in range(2000):
        names = ["append", "checkpoint", "revert", "undo", "read", "count", "compact", "send", "cancel", "deliver"]
        (name,) = rng.choices(names, (6, 2, 2, 2, 2, 2, 1, 2, 1, 1))
        to = rng.randrange(3), f"mail {number}"
        unique = {"append": str(number), "checkpoint": str(number), "compact": str(number), "deliver": str(number)}
        argument = {**unique, "revert": rng.randrange(3), "send": to}.get(name)
        result, state = session_answer(state, name, argument)
        called, returned = number - 4 * rng.random(), number + 4 * rng.random()
        changes += name not in READS | BESIDE and not isinstance(result, bool)
        version = None if name == "read" or (isinstance(result, bool) and name not in BESIDE) else (changes,)
        version = None if result is False else version
        history.append(Operation("p", name, argument, called, returned, result, version))
    assert explained(*history)
    at = next(at for at in range(1000, 2000) if history[at].name in READS and history[at].result)
    texts = history[at].result
    wrong = ("other", *texts[1:]) if isinstance(texts, tuple) else texts + 1
    assert not explained(*history[:at], replace(history[at], result=wrong), *history[at + 1 :])
    at = next(at for at in range(1000, 1100) if history[at].name == "count")  # texts may come back by an undo
    late = history[at]
    stale = replace(late, called=late.called + 900, returned=late.returned + 900)  # heard long after it was true
    assert not explained(*history[:at], stale, *history[at + 1 :])
