"""`timeleap fold`, `edit`, `merge`, and `diff` with another session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path / "home")
    cli.run("new", "s", "--title", "Fix dates")
    records = [{"role": "user", "content": f"message {number} {'x' * 40}"} for number in range(4)]
    cli.run("append", "s", input="".join(json.dumps(record) + "\n" for record in records))
    return cli


def texts(cli: Cli, session: str = "s") -> list[str]:
    messages = [entry["message"]["content"] for entry in cli.run("show", session, "--json").lines()]
    return [text[:9] if isinstance(text, str) else text[-1]["text"][:9] for text in messages]


def test_fold_shows_first_and_then_drops_or_sums_up(cli: Cli) -> None:
    shown = cli.run("fold", "s", "1", "3", "--drop", "--dry-run")
    assert "Messages 1 to 2 (2) would become nothing; 2 messages stay." in shown.out + shown.err
    assert len(texts(cli)) == 4
    cli.run("fold", "s", "1", "3", "--drop", "--yes")
    assert texts(cli) == ["message 0", "message 3"]
    cli.run("undo", "s")
    cli.run("fold", "s", "0", "3", "--summary", "In short.", "--yes")
    assert texts(cli) == ["In short.", "message 3"]
    refused = cli.run("fold", "s", "2", "1", "--drop", "--yes", code=1)
    assert "turned round" in refused.err


def test_edit_takes_the_text_from_the_input_or_an_editor(cli: Cli, tmp_path: Path) -> None:
    cli.run("edit", "s", "1", "-", "--yes", input="Another text.\n")
    assert texts(cli) == ["message 0", "Another t"]
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "By an editor" > "$1"\n')
    editor.chmod(0o755)
    Cli(cli.home, {"EDITOR": str(editor), "VISUAL": ""}).run("edit", "s", "0", "--yes")
    assert texts(cli) == ["By an edi"]


def test_merge_and_a_comparison_with_another_session(cli: Cli) -> None:
    cli.run("fork", "s", "side")
    cli.run("append", "side", "found it")
    compared = cli.json("diff", "s", "present", "side:present")
    assert (compared["common"], compared["addedCount"], compared["removedCount"]) == (4, 1, 0)
    shown = cli.run("merge", "side", "--into", "s", "--summary", "It works.", "--dry-run")
    assert "sums up 1 message of side" in shown.out + shown.err and len(texts(cli)) == 4
    cli.run("merge", "side", "--into", "s", "--summary", "It works.", "--yes")
    assert texts(cli)[-1] == "It works."
