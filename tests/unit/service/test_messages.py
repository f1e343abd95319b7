"""What a message must be, and where the refusal points."""

from __future__ import annotations

from typing import Any

import pytest

from timeleap.errors import InvalidInputError
from timeleap.service.writing import check_message


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi"},
        {"role": "x"},
        {"role": "tool", "content": None, "tool_call_id": "1"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "new", "any": 1}]},
        {"role": "user", "content": None, "extra": [[["end"]]]},
    ],
)
def test_good_messages_pass(message: dict[str, Any]):
    check_message(message, ["message"])


@pytest.mark.parametrize(
    ("message", "loc"),
    [
        ([], ["message"]),
        ({}, ["message", "role"]),
        ({"role": ""}, ["message", "role"]),
        ({"role": 1}, ["message", "role"]),
        ({"role": "_usage"}, ["message", "role"]),
        ({"role": "user", "content": 1}, ["message", "content"]),
        ({"role": "user", "content": {}}, ["message", "content"]),
        ({"role": "user", "content": ["a"]}, ["message", "content", 0]),
        ({"role": "user", "content": [{"type": "text"}, {"type": 1}]}, ["message", "content", 1]),
        ({"role": "user", "_tl": {}}, ["message", "_tl"]),
    ],
)
def test_bad_messages_are_refused_at_the_place(message: Any, loc: list[Any]):
    with pytest.raises(InvalidInputError) as caught:
        check_message(message, ["message"])
    assert [error["loc"] for error in caught.value.data["errors"]] == [loc]
