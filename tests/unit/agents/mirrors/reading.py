"""Reading a file of another program by its reader: whole, by pieces, and the records that it gives."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.support.said import Said

from timeleap.storage.log_values import LogState, RecordKind
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.record_list import RecordList
from timeleap_agents.mirrors.steps import Step


def messages(log: Conversation, steps: Sequence[Step] | None = None) -> list[dict[str, Any]]:
    """The messages of a conversation that was read, or of these steps of it."""
    records = RecordList(log.file.left_out, LogState())
    for _ in log.write(log.steps() if steps is None else steps, records):
        pass
    return [json.loads(record.body) for record in records.records if record.kind is RecordKind.MESSAGE]


def records(log: Conversation) -> list[dict[str, Any]]:
    """All records of a conversation as its file has it now; each step gives some."""
    log.read()
    found = RecordList(log.file.left_out, LogState())
    assert list(log.write(log.steps(), found)) == log.steps()
    return [json.loads(record.body) for record in found.records]


def texts(log: Conversation) -> list[Any]:
    """The contents of its messages."""
    return [record["content"] for record in records(log) if not record["role"].startswith("_")]


def losses(log: Conversation) -> list[str]:
    """The losses of a conversation, in words."""
    return [loss.message for loss in log.file.left_out.losses()]


def said_anywhere(log: Conversation, said: Callable[[list[dict[str, Any]]], list[Said]]) -> set[Said]:
    """All that is said in a log and in its timelines."""
    branches = [log.steps(), *(each.steps for each in log.earlier())]
    return {each for steps in branches for each in said(messages(log, steps))}


class History(Protocol):
    """Conversation that grew by random steps, and what the program sends of it.

    Attributes:
        log: What is sent on resume.
        left: What was sent before each step back and compaction.
        first: The first prompt.
    """

    @property
    def file(self) -> Any: ...
    @property
    def log(self) -> list[Said]: ...

    left: list[list[Said]]
    first: str | None
    random: random.Random


def read_whole_and_grown(
    history: History,
    reader: Callable[[Path], Conversation],
    said: Callable[[list[dict[str, Any]]], list[Said]],
    copy: Path,
    seed: int,
) -> tuple[list[list[Said]], list[list[Said]]]:
    """Check that a history is read as it is sent: its file, the file that continues it, and one that grows by pieces.

    Args:
        reader: Opens a file.
        said: Gives messages the form of the history's `log`.
        copy: Where the growing file is written.

    Returns:
        The timelines of the whole file, and those of the one that grew.
    """
    whole: Any = reader(history.file.path)
    whole.read()
    assert said(messages(whole)) == history.log, seed
    assert whole.first_prompt == history.first
    made = whole.continuation(whole.steps())
    made.path.write_text("".join(json.dumps(record) + "\n" for record in made.records))
    again = reader(made.path)
    again.read()
    assert said(messages(again)) == history.log, seed
    shown = [said(messages(whole, each.steps)) for each in whole.earlier()]
    logs = [history.log, *shown]
    assert all(any(log[: len(left)] == left for log in logs) for left in history.left), seed
    grown, data = reader(copy), history.file.path.read_bytes()
    read_in_pieces(grown, data, history.random)
    assert said(messages(grown)) == history.log, seed
    return shown, [said(messages(grown, each.steps)) for each in grown.earlier()]


def read_in_pieces(log: Conversation, data: bytes, chance: random.Random, then: Callable[[], object] = bool) -> None:
    """Have a reader see its file grow by pieces that end anywhere; `then` is called after each."""
    cuts = sorted(chance.sample(range(len(data)), 12))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        with log.file.path.open("ab") as file:
            file.write(data[start:end])
        log.read()
        then()
