"""Comparison of a mirror's log with the program's file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from msgspec import Struct

from timeleap.features.transfer_losses import LossTally
from timeleap.storage.log_values import NewRecord, RecordKind
from timeleap.storage.reader import LogReader
from timeleap.storage.record import as_sent
from timeleap_agents.mirrors.formats.conversion import RecordWriter
from timeleap_agents.mirrors.growing_file import (
    Conversation,
)
from timeleap_agents.mirrors.steps import Step

ENTRIES_AT_ONCE: Final = 1000


class _Messages(RecordWriter):
    """The messages that are written, as bytes."""

    def __init__(self) -> None:
        super().__init__(LossTally())
        self.written: list[bytes] = []

    def _add(self, record: NewRecord) -> None:
        if record.kind is RecordKind.MESSAGE:
            self.written.append(record.body)


class Comparison(Struct, frozen=True):
    """Attributes:
    same: Number of messages at the beginning that the log and the file have in common.
    in_log: Number of messages of the log; `in_file`: of the file.
    """

    same: int
    in_log: int
    in_file: int


def messages_of(conversation: Conversation, steps: Sequence[Step]) -> Iterator[bytes]:
    """The messages that steps are, as a log has them. Blocking."""
    writer = _Messages()
    for _ in conversation.write(list(steps), writer):
        yield from writer.written
        writer.written.clear()


def messages_in(log: LogReader, start: int, stop: int) -> Iterator[bytes]:
    """The messages on some lines of a log. Blocking."""
    for first in range(start, stop, ENTRIES_AT_ONCE):
        for entry in log.entries(first, min(stop, first + ENTRIES_AT_ONCE)):
            if entry.kind is RecordKind.MESSAGE:
                yield as_sent(log.read(entry.line, entry.line + 1)[0])


def compared(log: LogReader, conversation: Conversation) -> Comparison:
    """How far a log and a file that was read agree. Blocking."""
    same = in_log = in_file = 0
    for logged, filed in zip_longest(
        messages_in(log, 0, log.state.lines), messages_of(conversation, conversation.steps())
    ):
        in_log += logged is not None
        in_file += filed is not None
        if logged == filed and same == in_log - 1:
            same += 1
    return Comparison(same, in_log, in_file)
