"""Damage in the file of any program costs the reader what it hits, and nothing else."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.claude_histories import History as ClaudeHistory
from tests.support.codex_histories import CodexHistory
from tests.support.damage import Damaged, damaged, names_in, odd, odd_lines
from tests.support.gemini_histories import GeminiHistory
from tests.support.kimi_code_histories import History as KimiCodeHistory
from tests.support.kimi_histories import KimiHistory
from tests.support.opencode_histories import OpencodeHistory
from tests.support.pi_histories import PiHistory
from tests.support.said import Said, said, said_apart
from tests.unit.agents.mirrors.reading import messages

from timeleap_agents.mirrors import claude_log
from timeleap_agents.mirrors.formats.conversion import whole_records
from timeleap_agents.mirrors.formats.opencode import COMPACTED
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.mirror import READERS

RECORDS = 5_000
"""Records of one kind of damage in the long tests of a reader: twice as many in all."""


def goes_back(record: dict[str, Any]) -> bool:
    """Tell whether a record takes away what was said, or says something else in its place: then an odd one is no damage."""
    text = json.dumps(record)
    if record.get("type") in ("event_msg", "response_item"):
        return '"num_turns"' in text
    takes = (
        "compact",
        "last-prompt",
        "rewindTo",
        '"messages"',
        "context.clear",
        "context.undo",
        "agent.switched",
        "context_edit",
        "aborted",
        '"error"',
        '"parentId": null',
        '"parentUuid": null',
        '"parentId": "x"',
        '"parentId": "0000',
    )
    return any(each in text for each in takes)


class Format(NamedTuple):
    """A form of files of lines.

    Attributes:
        history: Makes a random history in a folder.
        unknown: A record of a newer version.
        named: Members of a record that tell it from all others.
    """

    history: Callable[[Path, int], Any]
    unknown: dict[str, Any]
    named: tuple[str, ...] = ()


FORMATS = {
    "claude-code": Format(ClaudeHistory, {"type": "dream", "uuid": "x"}, ("uuid",)),
    "codex": Format(CodexHistory, {"type": "dream", "payload": {}}),
    "gemini": Format(GeminiHistory, {"dream": 1}, ("id",)),
    "kimi": Format(KimiHistory, {"role": "dream"}),
    "pi": Format(PiHistory, {"type": "dream", "id": "x", "parentId": None}, ("id", "parentId")),
    "kimi-code": Format(KimiCodeHistory, {"type": "dream"}),
}


def everything(log: Conversation) -> set[Said]:
    """All that is said in the log and in its timelines."""
    branches = [log.steps(), *(each.steps for each in log.earlier())]
    return {each for steps in branches for each in said_apart(messages(log, steps))}


def read(kind: str, path: Path) -> Conversation:
    log = READERS[kind](path)
    log.read()
    return log


def told(log: Conversation) -> Counter[str]:
    """Number of the losses of each kind that are told, but those of damaged lines and unknown records."""
    found: Counter[str] = Counter()
    for loss in log.file.left_out.losses():
        if loss.kind not in ("lines", "records", "sidechains", "agents"):
            found[loss.kind] += int(loss.message.split()[0])
    return found


def check(kind: str, folder: Path, seed: int, steps: int = 12) -> int:
    """Damage one history; returns in how many places. What whole records say is read, or its loss is told."""
    form = FORMATS[kind]
    history = form.history(folder, seed).grow(steps)
    path = history.file.path
    before = everything(read(kind, path))
    found = damaged(path.read_bytes(), random.Random(seed), json.dumps(form.unknown).encode())
    path.write_bytes(found.data)
    log = read(kind, path)
    after, losses = everything(log), told(log)
    changed = {each for each in before - after if not found.has(each[1])}
    # The entry that was edited may be torn, or the answer that says that a prompt was heard.
    assert len(changed) <= losses["edits"] + losses["queue"], (seed, changed)
    lost = names_in(found.whole) - names_in("\n".join(text for _, text in after))
    alone = {name for name in lost if name.startswith("call")}  # their calls are torn
    assert len(alone) <= losses.pop("results", 0), (seed, alone)
    assert len(lost - alone) <= losses.total(), (seed, lost, losses)
    return found.hit


@pytest.mark.parametrize("kind", FORMATS)
def test_damage_costs_only_the_records_that_it_hits(tmp_path: Path, kind: str) -> None:
    for seed in range(8):
        check(kind, tmp_path / str(seed), seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", FORMATS)
def test_thousands_of_damaged_records_cost_only_themselves(tmp_path: Path, kind: str) -> None:
    seed = hit = 0
    while hit < RECORDS:
        seed += 1
        hit += check(kind, tmp_path / str(seed), 1000 + seed, 40)


@pytest.mark.parametrize("kind", FORMATS)
def test_odd_values_lose_nothing_else(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_log, "MAX_BRANCHES", 10 * RECORDS)  # odd parents make more branches than are shown
    check_odd(kind, tmp_path, 500)


@pytest.mark.long
@pytest.mark.parametrize("kind", FORMATS)
def test_thousands_of_odd_records_lose_nothing_else(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_log, "MAX_BRANCHES", 10 * RECORDS)
    check_odd(kind, tmp_path, RECORDS)


def check_odd(kind: str, folder: Path, number: int) -> None:
    """Put records with odd values behind a history, and another turn behind these."""
    form, chance = FORMATS[kind], random.Random(7)
    history = form.history(folder, 7).grow(25)
    path = history.file.path
    before = everything(read(kind, path))
    made = bytearray()
    for line, record in odd_lines(path.read_bytes(), chance, number, form.named):
        if not goes_back(record):
            made += line
    history.file.write_bytes(bytes(made) + b"\n")
    history.turn()
    log = read(kind, path)
    assert not before - everything(log)
    last = said(messages(log))[-2:]
    assert [who for who, _ in last] == ["user", "assistant"]
    assert (last[0][1].split()[0], last[1][1].split()[0]) == ("question", "answer")


def tear_rows(connection: sqlite3.Connection, chance: random.Random) -> Damaged:
    """Tear rows and events of a database, and add some of a newer version."""
    torn, hit = "", 0
    for table in ("message", "part", "event"):
        kinds = (
            " WHERE type != 'message.removed.1'" if table == "event" else ""
        )  # nothing else says when a message went
        for name, text in connection.execute(f"SELECT id, data FROM {table}{kinds}").fetchall():
            if chance.random() < 0.3:
                cut = text[: chance.randrange(len(text))]
                connection.execute(f"UPDATE {table} SET data = ? WHERE id = ?", (cut, name))
                torn, hit = f"{torn}{text}\n", hit + 1
    for number, (name, session) in enumerate(connection.execute("SELECT id, session_id FROM message").fetchall()):
        row: tuple[Any, ...] = f"prt_{number:012x}dream", name, session, number, number, '{"type": "dream"}'
        connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        row = f"msg_{number:012x}dream", session, number, number, '{"role": "dream"}'
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        hit += 2
    return Damaged(b"", torn, hit)


def check_rows(folder: Path, seed: int, steps: int = 12) -> int:
    """Damage the rows of one history of opencode; returns in how many places."""
    history = OpencodeHistory(folder, seed).grow(steps)
    before = everything(read("opencode", history.file.path))
    found = tear_rows(history.file.connection, random.Random(seed))
    texts = {text for _, text in everything(read("opencode", history.file.path))}  # who said it may be torn
    lost = {text for _, text in before if text not in {*texts, COMPACTED} and not found.has(text)}
    assert not lost, (seed, lost)
    history.file.close()
    return found.hit


def test_damage_of_rows_costs_only_these(tmp_path: Path) -> None:
    for seed in range(6):
        check_rows(tmp_path / str(seed), seed)


@pytest.mark.long
def test_thousands_of_damaged_rows_cost_only_themselves(tmp_path: Path) -> None:
    seed = hit = 0
    while hit < RECORDS:
        seed += 1
        hit += check_rows(tmp_path / str(seed), 1000 + seed, 40)


@pytest.mark.parametrize("number", [200, pytest.param(RECORDS, marks=pytest.mark.long)])
def test_odd_values_in_rows_lose_nothing_else(tmp_path: Path, number: int) -> None:
    chance = random.Random(7)
    history = OpencodeHistory(tmp_path, 7).grow(40)
    connection, path = history.file.connection, history.file.path
    before = everything(read("opencode", path))
    messages_of = connection.execute("SELECT session_id, data FROM message").fetchall()
    parts_of = connection.execute("SELECT message_id, session_id, data FROM part").fetchall()
    connection.execute("BEGIN")
    for at in range(number):
        session, text = chance.choice(messages_of)
        row: tuple[Any, ...] = f"msg_{at:012x}odd", session, at, at, json.dumps(odd(json.loads(text), chance))
        connection.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        message, session, text = chance.choice(parts_of)
        told = json.loads(text)
        if told["type"] != "compaction":
            row = f"prt_{at:012x}odd", message, session, at, at, json.dumps(odd(told, chance))
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.execute("COMMIT")
    history.turn()
    log = read("opencode", path)
    assert not before - everything(log)
    assert [who for who, _ in said(messages(log))[-2:]] == ["user", "assistant"]
    history.file.close()


@pytest.mark.parametrize("end", [b"", b'{"role": "us', b'er", "content": "x"}'])
def test_whole_records_of_a_last_line_without_an_end_are_read(tmp_path: Path, end: bytes) -> None:
    history = KimiHistory(tmp_path, 1)
    one, other = ({"role": "user", "content": text} for text in ("one", "other"))
    history.file.write_bytes(json.dumps(one).encode() + json.dumps(other).encode() + end)
    log = read("kimi", history.file.path)
    assert said(messages(log)) == [("user", "one"), ("user", "other")]
    history.file.write_bytes(b'er", "content": "third"}\n' if end.endswith(b"us") else b"\n")
    log.read()
    assert said(messages(log))[2:] == ([("user", "third")] if end.endswith(b"us") else [])


@pytest.mark.parametrize("kind", FORMATS)
def test_bytes_that_are_no_text_cost_only_themselves(tmp_path: Path, kind: str) -> None:
    history = FORMATS[kind].history(tmp_path, 3)
    history.turn()
    path = history.file.path
    path.write_bytes(path.read_bytes().replace(b"question ", b"question \xff").replace(b"answer ", b"answer \xc3"))
    texts = [text for _, text in said(messages(read(kind, path)))]
    assert any(text.startswith("question \ufffd") for text in texts)
    assert texts[-1].startswith("answer \ufffd")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
        ('{"a": 1}rest of one"}', [{"a": 1}]),
        ('{"role": "x",{"role": "y"}', [{"role": "y"}]),
        ('{"role": "x", "tags": [{"role": "y"}, {"role": "z"}', []),
        ('{"role": "x", "message": {"role": "y"}, "k', []),
        ('ssage": {"role": "y"}, "k": 1}', []),
        ('{"text": "{", "x{"role": "y"}', [{"role": "y"}]),
        ('{"x": {"y"\x00\x00\x00{"uuid": "y"}\x00', [{"uuid": "y"}]),
    ],
)
def test_objects_in_a_torn_record_are_no_records(line: str, found: list[Any]) -> None:
    assert [record for _, _, record in whole_records(line.encode())] == found
