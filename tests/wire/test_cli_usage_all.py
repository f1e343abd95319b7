"""`timeleap usage --all` counts each call of a model once, in however many sessions it stands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli

USAGE = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 5}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "store", {"HOME": str(tmp_path)})


def answer(file: ClaudeFile, name: str, *blocks: str, **usage: int) -> None:
    """An answer of one call: a record for each block, all with its id."""
    for block in blocks:
        content = [{"type": "text", "text": block}]
        message = {"role": "assistant", "id": name, "model": "m", "content": content, "usage": {**USAGE, **usage}}
        file.write(file.record("assistant", message=message))


def watch(cli: Cli, folder: Path) -> None:
    cli.run("agents", "watch", "claude-code", str(folder), "--once")


def told(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("usage", "--all")
    return found


def test_a_call_counts_once_in_mirrors_resumes_and_forks(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    first = ClaudeFile(folder)
    first.asks("hello")
    answer(first, "msg_1", "two", "blocks")
    first.asks("more")
    answer(first, "msg_2", "done")
    resumed = ClaudeFile(folder)  # its records are those of the first, with their ids
    for line in first.path.read_text().splitlines():
        record = json.loads(line) | {"sessionId": resumed.session_id}
        resumed.write(record)
        resumed.last = record["uuid"]
    resumed.asks("and on")
    answer(resumed, "msg_3", "done", output_tokens=7)
    watch(cli, folder)
    mirrors = [each["sessionId"] for each in cli.run("sessions", "--json").lines()]
    assert len(mirrors) == 2
    cli.run("fork", mirrors[0], "forked")
    usage = told(cli)
    assert (usage["calls"], usage["repeatedCalls"], usage["sessions"]) == (3, 2, 3)
    assert (usage["inputTokens"], usage["cacheReadTokens"], usage["cacheCreationTokens"]) == (30, 300, 60)
    assert (usage["outputTokens"], usage["totalTokens"]) == (17, 407)
    assert [row["program"] for row in usage["programs"]] == ["claude-code", "timeleap"]


def test_counts_that_were_recorded_count_once_over_forks(cli: Cli) -> None:
    cli.run("new", "s")
    for text, count in (("one", 100), ("two", 250)):
        cli.run("append", "s", text)
        cli.run("tokens", "s", "--set", str(count))
    cli.run("fork", "s", "f")
    cli.run("fork", "f", "g")
    cli.run("append", "g", "three")
    cli.run("tokens", "g", "--set", "400")
    usage = told(cli)
    assert (usage["calls"], usage["totalTokens"]) == (3, 750)


def test_a_file_that_has_gone_is_counted_by_what_is_kept_or_recorded(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    file = ClaudeFile(folder)
    file.asks("hello")
    answer(file, "msg_1", "two", "blocks")
    watch(cli, folder)
    before = told(cli)["totalTokens"]
    assert before == 135
    shutil.rmtree(folder)
    assert told(cli)["totalTokens"] >= before


def test_what_is_no_count_is_none(cli: Cli, tmp_path: Path) -> None:
    file = ClaudeFile(tmp_path / "projects")
    file.asks("hello")
    wrong: list[Any] = [None, [], {"input_tokens": -1, "output_tokens": "5"}]
    for usage in (*wrong, {"input_tokens": 1 << 60}, {"input_tokens": True}):
        content = [{"type": "text", "text": "x"}]
        file.write(
            file.record("assistant", message={"role": "assistant", "id": "a", "content": content, "usage": usage})
        )
    file.write_bytes(b'{"type": "assistant", "message": {"usage": \n')
    watch(cli, tmp_path / "projects")
    assert told(cli)["totalTokens"] == 0


def test_a_person_sees_a_table(cli: Cli) -> None:
    cli.run("new", "s")
    shown = cli.run("usage", "--all").out.splitlines()
    assert shown[0].split("\t")[0] == "program"
    assert shown[-1].split("\t")[:2] == ["all", "1"]
