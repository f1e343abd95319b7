"""The checker of histories finds those that no single session could have answered, and no others."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.support.linearizable import (
    EMPTY,
    UNKNOWN,
    Operation,
    SessionState,
    session_answer,
    session_step,
    unexplained,
)


def op(name: str, argument: object, result: object, called: float, returned: float) -> Operation:
    """An operation of a process of its own."""
    return Operation(f"p{called}", name, argument, called, returned, result)


def explained(*history: Operation) -> bool:
    """True if an order was found."""
    return not unexplained(history, EMPTY, session_step)


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


def test_a_long_history_is_explained_until_one_answer_in_it_is_another() -> None:
    rng = random.Random(5)
    state: SessionState = EMPTY
    history = []
    for number in range(400):
        name = rng.choice(["append", "append", "append", "checkpoint", "revert", "undo", "read"])
        argument = {"append": str(number), "revert": rng.randrange(3)}.get(name)
        result, state = session_answer(state, name, argument)
        called, returned = number - 2 * rng.random(), number + 2 * rng.random()
        history.append(Operation("p", name, argument, called, returned, result))
    assert explained(*history)
    at = next(at for at in range(200, 400) if history[at].name == "read" and history[at].result)
    history[at] = replace(history[at], result=("other", *history[at].result[1:]))
    assert not explained(*history)
