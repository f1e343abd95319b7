"""Sessions to measure with: the same on every machine, in the shape of real ones.

A quarter of the messages are a user's, short and after a checkpoint; two fifths an assistant's, with a token count after
each; the rest is what tools returned, the longest. A fifth of them are in other scripts than Latin.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = {
    "latin": [
        "the",
        "file",
        "has",
        "a",
        "test",
        "that",
        "fails",
        "when",
        "the",
        "path",
        "of",
        "the",
        "session",
        "is",
        "not",
        "absolute",
        "and",
        "nobody",
        "knows",
        "why",
    ],
    "other": ["文件", "測試", "失敗", "путь", "сессии", "неизвестен", "🙂", "パス", "が", "見つかり", "ません", "오류"],
}


MARKS = ',"_tl":{"r":"request-%d","h":"0123456789abcdef","m":"appendMessage","s":%d,"o":"0a1b2c3d","g":"tp0kpc.0"}}'
"""The end of a record that a request with an id wrote."""


def write_session(directory: Path, messages: int, *, size: float = 1.0, marked: bool = False) -> Path:
    """Write a session's log.

    Args:
        directory: Of the session; made if need be.
        messages: How many.
        size: How long they are, beside real ones (4.4 KB on average).
        marked: Whether each record but the first says that a request with an id wrote it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "context.jsonl"
    with path.open("w", encoding="utf-8", newline="\n") as log:
        for number, record in enumerate(_records(messages, size)):
            line = json.dumps(record, ensure_ascii=False)
            log.write((line[:-1] + MARKS % (number, number) if marked and number else line) + "\n")
    return path


def messages(count: int, *, size: float = 1.0) -> list[dict[str, Any]]:
    """The messages of such a session, without checkpoints and token counts."""
    return [record for record in _records(count, size) if not record["role"].startswith("_")]


def _records(messages: int, size: float) -> Iterator[dict[str, Any]]:
    random_ = random.Random(11)
    checkpoints = tokens = 0
    yield {"role": "_system_prompt", "content": "You are a careful engineer."}
    for number in range(messages):
        words = WORDS["other" if number % 5 == 4 else "latin"]
        match number % 25:
            case at if at % 4 == 0:
                yield {"role": "_checkpoint", "id": checkpoints}
                checkpoints += 1
                yield {"role": "user", "content": _text(random_, words, 20, 300, size)}
            case at if at % 2 == 1:
                call = {"type": "function", "id": f"c{number}", "function": {"name": "read", "arguments": "{}"}}
                content = _text(random_, words, 1_000, 8_000, size)
                yield {"role": "assistant", "content": content, "tool_calls": [call]}
                tokens += 1_000
                yield {"role": "_usage", "token_count": tokens}
            case _:
                content = _text(random_, words, 2_000, 12_000, size)
                yield {"role": "tool", "content": content, "tool_call_id": f"c{number - 1}"}


def _text(random_: random.Random, words: list[str], least: int, most: int, size: float) -> str:
    wanted = int(random_.randint(least, most) * size)
    line = " ".join(random_.choices(words, k=40))
    return (line + "\n") * (wanted // (len(line) + 1)) + line[: wanted % (len(line) + 1)]
