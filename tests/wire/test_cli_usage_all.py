"""`timeleap usage --all` counts each call of a model once, in however many sessions it stands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_file import ClaudeFile
from tests.support.cli import Cli
from tests.support.kimi_code_file import KimiCodeFile
from tests.support.kimi_file import KimiFile
from tests.support.opencode_file import OpencodeFile

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


def watch(cli: Cli, folder: Path, kind: str = "claude-code") -> None:
    cli.run("agents", "watch", kind, str(folder), "--once")


def told(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("usage", "--all")
    return found


def test_a_call_counts_once_in_mirrors_resumes_and_forks(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    first = ClaudeFile(folder)
    first.asks("hello")
    answer(first, "msg_1", "two", "blocks")
    first.asks("more")
    answer(first, "msg_2", "done", output_tokens=1)  # as it was told when it had begun
    resumed = ClaudeFile(folder)  # its records are those of the first, with their ids
    for line in first.path.read_text().splitlines():
        record = json.loads(line.replace('"output_tokens": 1', '"output_tokens": 5')) | {
            "sessionId": resumed.session_id
        }
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


def counted(usage: dict[str, Any]) -> tuple[int, ...]:
    names = ("calls", "repeatedCalls", "inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens")
    return tuple(usage[name] for name in names)


def test_calls_of_kimi_cli_are_in_its_journal_of_events(cli: Cli, tmp_path: Path) -> None:
    usage = {"input_other": 10, "output": 5, "input_cache_read": 100, "input_cache_creation": 20}
    for _ in range(2):  # the second is a copy of the first, which goes on
        file = KimiFile(tmp_path / "kimi")
        file.turn(1)
        journal = file.path.with_name("wire.jsonl").open("a")
        for number, name in enumerate(["chat-1", "chat-1", None]):
            payload = {"context_usage": 0.1, "token_usage": usage, "message_id": name}
            record = {"timestamp": 1795946589.5 + number, "message": {"type": "StatusUpdate", "payload": payload}}
            journal.write(json.dumps(record) + "\n")
        journal.close()
    watch(cli, tmp_path / "kimi" / "sessions", "kimi")
    assert counted(told(cli)) == (2, 2, 20, 200, 40, 10)


def test_calls_of_kimi_code_are_the_steps_of_its_journal(cli: Cli, tmp_path: Path) -> None:
    file = KimiCodeFile(tmp_path / "kimi-code")
    file.turn(1)
    file.turn(2)
    copy = KimiCodeFile(tmp_path / "kimi-code")
    copy.path.write_bytes(file.path.read_bytes())
    copy.turn(3)
    watch(cli, tmp_path / "kimi-code" / "sessions", "kimi-code")
    assert counted(told(cli)) == (3, 2, 33, 0, 0, 9)


def test_calls_of_opencode_count_though_a_fork_renames_them_and_a_revert_deletes_them(cli: Cli, tmp_path: Path) -> None:
    file = OpencodeFile(tmp_path / "opencode")
    file.turn(1)
    fork = OpencodeFile(file.folder, name="ses_2")
    fork.turn(1)  # at the same times, with ids of its own
    file.reverts(file.turn(2))
    file.cleans()
    for each in (file, fork):
        each.close()
    watch(cli, file.folder, "opencode")
    assert counted(told(cli)) == (2, 1, 22, 0, 0, 6)
