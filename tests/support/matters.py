"""What matters in a session, as listed by hand in `benchmarks/compaction`, and how much of it a summary keeps."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from timeleap import message_text
from timeleap.features.compaction.prepare import call_texts, preserved_from

LISTS = Path(__file__).resolve().parents[2] / "benchmarks" / "compaction"
PRESERVED = 2
"""User and assistant messages that stay: the default."""

Record = dict[str, Any]


def messages(session_file: Path) -> list[Record]:
    """The history of a session."""
    records = map(json.loads, session_file.read_text(encoding="utf-8").splitlines())
    return [record for record in records if not record["role"].startswith("_")]


def removed(session_file: Path) -> list[Record]:
    """What a compaction of a session would replace."""
    history = messages(session_file)
    return history[: preserved_from(history, PRESERVED)]


def shown(many: list[Record]) -> str:
    """All text of messages, their tool calls included."""
    return "\n".join(text for one in many for text in (*message_text.texts(one), *call_texts(one)))


def items(session_file: Path) -> list[Record]:
    """What matters in a session: what it is, and the ways it may be put."""
    with (LISTS / f"{session_file.stem}.toml").open("rb") as file:
        listed: list[Record] = tomllib.load(file)["items"]
    return listed


def kept(listed: list[Record], text: str) -> list[Record]:
    """The items a text has in it, white space and case aside."""
    flat = _flat(text)
    return [one for one in listed if any(_flat(words) in flat for words in one["any"])]


def ends(many: list[Record], limit: int) -> str:
    """The baseline: the first and the last sentences of every message, as many messages from the end as fit.

    Args:
        many: The messages.
        limit: Characters the text may have.
    """
    found: list[str] = []
    for one in reversed(many):
        sentences = [line.strip() for line in shown([one]).splitlines() if line.strip()]
        text = " ".join([*sentences[:1], *sentences[1:][-1:]])
        if limit < len(text):
            break
        found.insert(0, text)
        limit -= len(text) + 1
    return "\n".join(found)


def _flat(text: str) -> str:
    return " ".join(text.lower().split())
