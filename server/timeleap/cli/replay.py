"""Records of a session file as requests: what `append` takes in, and what the demo replays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from timeleap.cli.terminal import UsageError

Json = dict[str, Any]

BATCH_MESSAGES = 100
BATCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One request, without its session.

    Attributes:
        method: Wire name.
        params: In wire names.
        messages: How many messages it appends.
    """

    method: str
    params: Json
    messages: int = 0


def parse(line: str, number: int) -> Json | None:
    """The record on a line; None for a blank one.

    Raises:
        UsageError: It is no JSON object, or none with a role.
    """
    if not line.strip():
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"line {number} is no JSON: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("role"), str):
        raise UsageError(f'line {number} is no message: {{"role": "user", "content": "..."}} is one')
    return record


def steps(
    records: Iterable[Json], batch_messages: int = BATCH_MESSAGES, batch_bytes: int = BATCH_BYTES
) -> Iterator[ReplayStep]:
    """The requests that bring these records into a session, in order; messages in a row go together.

    Control records become what they stand for: checkpoints (the new session numbers them itself), token counts, system
    prompts. Other roles with an underscore are private to the program that wrote them and are left out.
    """
    batch: list[Json] = []
    held = 0
    for record in records:
        step = _control(record)
        if step is None and not record["role"].startswith("_"):
            message = {name: value for name, value in record.items() if name != "_tl"}
            batch.append(message)
            held += len(json.dumps(message))
        if batch and (step is not None or len(batch) >= batch_messages or held >= batch_bytes):
            yield _append(batch)
            batch, held = [], 0
        if step is not None:
            yield step
    if batch:
        yield _append(batch)


def _append(batch: list[Json]) -> ReplayStep:
    return ReplayStep("context/appendMessage", {"messages": batch}, len(batch))


def _control(record: Json) -> ReplayStep | None:
    role = record["role"]
    if role == "_checkpoint":
        marks = record.get("_tl")
        label = marks.get("l") if isinstance(marks, dict) else None
        return ReplayStep("context/checkpoint", {"label": label} if isinstance(label, str) else {})
    if role == "_usage" and isinstance(record.get("token_count"), int):
        return ReplayStep("context/updateTokenCount", {"tokenCount": max(0, record["token_count"])})
    if role == "_system_prompt" and isinstance(record.get("content"), str):
        return ReplayStep("context/setSystemPrompt", {"systemPrompt": record["content"]})
    return None
