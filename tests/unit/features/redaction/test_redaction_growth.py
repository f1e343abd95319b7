"""Redacting takes no more time than the text is long, whatever a stranger wrote into it."""

from __future__ import annotations

import json

import pytest
from tests.support.growth import PATHOLOGICAL, grows_too_fast

from timeleap.features.redaction.matchers import TextMatcher
from timeleap.features.redaction.redactor import Redactor, each_text

REDACTOR = Redactor(TextMatcher(["hunter2hunter2"]), "[redacted]")


@pytest.mark.parametrize(
    "before", ["", '"', '["', '{"role":"user","content":"'], ids=["bare", "quote", "array", "record"]
)
@pytest.mark.parametrize("unit", ['"a\\', '\\"', '"\\', '" ', "\\", '\\\\"', '"'])
def test_strings_that_are_not_closed_are_read_once(before: str, unit: str) -> None:
    assert not grows_too_fast(lambda text: list(each_text(before + text, 0)), unit)
    assert not grows_too_fast(
        lambda text: REDACTOR.record(json.dumps({"role": "user", "content": before + text})), unit
    )


@pytest.mark.parametrize("unit", PATHOLOGICAL)
def test_twice_the_text_is_not_four_times_the_work(unit: str) -> None:
    assert not grows_too_fast(REDACTOR.text, unit)


@pytest.mark.parametrize("text", ['["a", "b', '["a", "b\\', '["a", "b\\"'])
def test_a_string_that_is_not_closed_is_none(text: str) -> None:
    assert list(each_text(text, 0)) == ["a"]
