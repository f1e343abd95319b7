"""Names of checkpoints, and the growth of a span in the words of a row."""

from __future__ import annotations

from typing import Any

import pytest

from timeleap.message_text import checkpoint_name, span_name
from timeleap.summaries.calls import calls_in
from timeleap.summaries.names import growth


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
        (calls(("edit", "a/b.py", False), ("bash", "pytest", False)), "Edit a/b.py"),
        (calls(("bash", "pytest", False), ("str_replace", "a/b.py", False)), "Edit a/b.py"),
        (calls(("edit", "a.py", False), ("write_file", "c.py", False), ("Edit", "b.py", False)), "Edit a.py, b.py"),
        (calls(("MultiEdit", "a.py", False), ("apply_patch", "a.py", False)), "Edit a.py"),
        (
            calls(
                ("edit_file", "a.py", True),
            ),
            "Edit a.py",
        ),
        (calls(("write_file", "src/a.py", False)), "Write src/a.py"),
        (calls(("Write", "C:\\src\\a.py", False)), "Write C:\\src\\a.py"),
        (calls(("edit", "6:12", False)), "edit 6:12"),
        (calls(("edit", "Makefile", False)), "Edit Makefile"),
        (calls(("create_branch", "feature/x", False)), "create_branch feature/x"),
        (calls(("create_issue", "Fix the bug", False)), "create_issue Fix the bug"),
        (calls(("str_replace_editor", "view a/b.py", False)), "str_replace_editor view a/b.py"),
        (calls(("read_file", "tests/test_split.py", False)), "read_file tests/test_split.py"),
        (calls(("local_shell", "cd /x/y && PYTHONPATH=. pytest -q", False)), "pytest -q"),
        (calls(("bash", "cd /x", False)), "cd /x"),
        (calls(("submit", None, False)), "submit"),
        (calls(("grep", "two words/and more", False)), "grep two words/and more"),
    ],
)
def test_the_words(summary: Any, expected: str) -> None:
    assert span_name(summary) == expected


def test_the_words_are_cut_to_the_room() -> None:
    assert span_name(of(text="one two three four"), 15) == "one two three…"
    assert span_name(calls(("bash", "x" * 200, False)), 20) == "x" * 19 + "…"


def test_a_name_is_the_label_else_what_happened_else_what_follows_as_a_whole_line() -> None:
    long = "curl -X POST -F file=@" + "a" * 170
    assert checkpoint_name("mine\n", "hello", of()) == "mine"
    assert checkpoint_name(None, "hello", calls(("bash", long, False))) == long
    assert checkpoint_name(None, " hello\nworld ", of(kind="empty", text="")) == "hello world"
    assert checkpoint_name(None, None, of(kind="empty", text="")) is None
    assert checkpoint_name("mine", "hello", None) is None


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        (
            "str_replace_based_edit_tool",
            {"command": "view", "path": "/w/a.py"},
            "str_replace_based_edit_tool view /w/a.py",
        ),
        ("str_replace_based_edit_tool", {"command": "str_replace", "path": "/w/a.py", "old_str": "x"}, "Edit /w/a.py"),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: src/a.py\n@@"]}, "Edit src/a.py"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: src/b.py\n+x"}, "Edit src/b.py"),
        ("replace", {"file_path": "/w/a.py", "old_string": "a", "new_string": "b"}, "Edit /w/a.py"),
        ("NotebookEdit", {"notebook_path": "/w/a.ipynb", "new_source": "1"}, "Edit /w/a.ipynb"),
        ("Read", {"file_path": "/w/a.py"}, "Read /w/a.py"),
    ],
)
def test_an_edit_by_the_tools_of_agents_is_named_by_its_file(name: str, arguments: Any, expected: str) -> None:
    [call] = calls_in({"tool_calls": [{"id": "1", "function": {"name": name, "arguments": arguments}}]})
    assert span_name(of(kind="calls", text="x", calls=[call.wire()])) == expected


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
