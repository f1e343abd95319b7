"""What a reader of another program's files makes of one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from timeleap.mirrors.growing_file import Conversation, Step
from timeleap.mirrors.record_list import RecordList
from timeleap.storage.engine import LogState, RecordKind


def messages(log: Conversation, steps: list[Step] | None = None) -> list[dict[str, Any]]:
    """The messages of a conversation that was read, or of these steps of it."""
    records = RecordList(log.file.left_out, LogState())
    for _ in log.write(log.steps() if steps is None else steps, records):
        pass
    return [json.loads(record.body) for record in records.records if record.kind is RecordKind.MESSAGE]


def read_in_pieces(log: Conversation, data: bytes, chance: random.Random, then: Callable[[], object] = bool) -> None:
    """Have a reader see its file grow by pieces that end anywhere; `then` is called after each."""
    cuts = sorted(chance.sample(range(len(data)), 12))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        with log.file.path.open("ab") as file:
            file.write(data[start:end])
        log.read()
        then()
