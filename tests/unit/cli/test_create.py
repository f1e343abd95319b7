from __future__ import annotations

import json

import pytest

from timeleap.cli.create import parse, steps
from timeleap.cli.terminal import UsageError


def message(text):
    return {"role": "user", "content": text}


def test_messages_in_a_row_go_together_and_control_records_between_them():
    records = [
        {"role": "_system_prompt", "content": "be kind"},
        {"role": "_checkpoint", "id": 0, "_tl": {"u": "c0-1", "l": "first"}},
        message("a"),
        {**message("b"), "_tl": {"b": "x", "i": 1, "n": 2}},
        {"role": "_usage", "token_count": 12},
        {"role": "_checkpoint", "id": 1},
        {"role": "_private", "x": 1},
        message("c"),
    ]
    assert [(step.method, step.params, step.messages) for step in steps(records)] == [
        ("context/setSystemPrompt", {"systemPrompt": "be kind"}, 0),
        ("context/checkpoint", {"label": "first"}, 0),
        ("context/appendMessage", {"messages": [message("a"), message("b")]}, 2),
        ("context/updateTokenCount", {"tokenCount": 12}, 0),
        ("context/checkpoint", {}, 0),
        ("context/appendMessage", {"messages": [message("c")]}, 1),
    ]


def test_batches_are_bounded_by_number_and_by_size():
    many = [message(str(n)) for n in range(250)]
    assert [step.messages for step in steps(many)] == [100, 100, 50]
    large = [message("x" * 100) for _ in range(6)]
    assert [step.messages for step in steps(large, batch_bytes=200)] == [2, 2, 2]


def test_unknown_members_and_their_order_stay():
    record = {"z": 1, "role": "tool", "b": [None], "content": None}
    (step,) = steps([record])
    assert json.dumps(step.params["messages"][0]) == json.dumps(record)


@pytest.mark.parametrize("line", ["{", "[1]", '"x"', "{}", '{"role": 5}', "[" * 100_000])
def test_a_bad_line_is_named(line):
    with pytest.raises(UsageError, match="line 7 is no"):
        parse(line, 7)


def test_blank_lines_are_nothing():
    assert parse(" \r\n", 1) is None
