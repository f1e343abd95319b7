"""A summary in the words of a row."""

from __future__ import annotations

from typing import Any

import pytest

from timeleap.summaries.calls import growth, happened


def of(**members: Any) -> dict[str, Any]:
    return {"kind": "text", "text": "said", "messages": 1, **members}


def calls(*many: tuple[str, str | None, bool]) -> dict[str, Any]:
    made = [
        {"name": name, **({} if argument is None else {"argument": argument}), **({"failed": True} if failed else {})}
        for name, argument, failed in many
    ]
    return of(kind="calls", text="x", calls=made)


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        (None, ""),
        (of(kind="empty", text=""), ""),
        (of(), "said"),
        (of(kind="prompt", text="Fix it", calls=[{"name": "bash"}]), "Fix it"),
        (of(kind="compacted", text="All."), "Compacted: All."),
        (calls(("edit", "a/b.py", False), ("bash", "pytest", True)), "pytest"),
        (calls(("edit", "a/b.py", False), ("bash", "pytest", False)), "edit b.py"),
        (calls(("local_shell", "cd /x/y && PYTHONPATH=. pytest -q", False)), "pytest -q"),
        (calls(("bash", "cd /x", False)), "cd /x"),
        (calls(("submit", None, False)), "submit"),
        (calls(("grep", "two words/and more", False)), "grep two words/and more"),
    ],
)
def test_the_words(summary: Any, expected: str) -> None:
    assert happened(summary) == expected


def test_the_words_are_cut_to_the_room() -> None:
    assert happened(of(text="one two three four"), 15) == "one two three…"
    assert happened(calls(("bash", "x" * 200, False)), 20) == "x" * 19 + "…"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"tokens": 999}, "+999"),
        ({"tokens": 1000}, "+1K"),
        ({"tokens": 1449, "errors": 2}, "+1.4K 2 failed"),
        ({"tokens": 123_456}, "+123K"),
        ({"tokens": -2_500_000}, "-2.5M"),
        ({"tokens": 0}, "+1 message"),
        ({"messages": 3}, "+3 messages"),
        ({"messages": 0}, ""),
        ({"messages": 0, "errors": 1}, "1 failed"),
    ],
)
def test_the_facts(members: Any, expected: str) -> None:
    assert growth(of(**members)) == expected


def test_of_no_summary_there_are_no_facts() -> None:
    assert growth(None) == ""
