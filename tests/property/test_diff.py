"""What two logs have in common, against the longest common prefix of two plain lists."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from timeleap.sessions.logs import Stretch, common_lines, common_messages
from timeleap.storage.load import load

T = TypeVar("T")

MESSAGES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "é😀"},
        {"content": "a", "role": "user"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"role": "tool", "content": "", "tool_call_id": "1", "n": 10**30},
        {"role": "tool", "content": "", "tool_call_id": "1", "n": 10**30 + 1},
    ]
)
CONTROL = st.sampled_from(
    [
        b'{"role":"_checkpoint","id":0}',
        b'{"role":"_checkpoint","id":1,"_tl":{"u":"c1-000000000001"}}',
        b'{"role":"_usage","token_count":5}',
        b'{"role":"_other","content":""}',
        b"",
        b"{broken",
    ]
)


@dataclass(frozen=True)
class Line:
    """A line of a log; `message` is None for what is no message."""

    text: bytes
    message: str | None


@st.composite
def message_lines(draw: st.DrawFn) -> Line:
    message = draw(MESSAGES)
    written = draw(st.sampled_from(["compact", "spaced", "marked"]))
    separators = (", ", ": ") if written == "spaced" else (",", ":")
    mark = {"_tl": {"r": draw(st.sampled_from("xy"))}} if written == "marked" else {}
    text = json.dumps({**message, **mark}, separators=separators, ensure_ascii=draw(st.booleans()))
    return Line(text.encode(), json.dumps(message))


LINES = st.lists(st.one_of(message_lines(), CONTROL.map(lambda text: Line(text, None))), max_size=12)


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[Line], list[Line]]:
    """Two logs that begin with the same bytes, and perhaps go on with the same messages otherwise written."""
    both = draw(LINES)
    return both + draw(LINES), both + draw(LINES)


def result_of(work: Generator[Any, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: T = stop.value
            return result


def model(one: list[Line], other: list[Line]) -> int:
    left, right = ([line.message for line in lines if line.message is not None] for lines in (one, other))
    common = 0
    while common < min(len(left), len(right)) and left[common] == right[common]:
        common += 1
    return common


def stretch_of(folder: Path, name: str, lines: list[Line], used: int) -> Stretch:
    path = folder / name
    path.write_bytes(b"".join(line.text + b"\n" for line in lines))
    return Stretch(load(path, writable=False).log, used)


@settings(deadline=None, max_examples=300)
@given(two_logs(), st.data())
def test_the_common_part_is_the_longest_common_prefix(logs: tuple[list[Line], list[Line]], data: st.DataObject) -> None:
    used = [data.draw(st.integers(0, len(lines))) for lines in logs]
    with tempfile.TemporaryDirectory() as name:
        one = stretch_of(Path(name), "one.jsonl", logs[0], used[0])
        other = stretch_of(Path(name), "other.jsonl", logs[1], used[1])
        begun = [lines[:count] for lines, count in zip(logs, used, strict=True)]
        assert result_of(common_messages(one, other)) == model(*begun)
        assert result_of(common_messages(other, one)) == model(*begun)


@settings(deadline=None, max_examples=200)
@given(two_logs(), st.integers(0, 30))
def test_shared_lines_are_those_with_the_same_bytes(logs: tuple[list[Line], list[Line]], most: int) -> None:
    texts = [[line.text for line in lines] for lines in logs]
    same = 0
    while same < min(most, *map(len, texts)) and texts[0][same] == texts[1][same]:
        same += 1
    with tempfile.TemporaryDirectory() as name:
        one = stretch_of(Path(name), "one.jsonl", logs[0], 0).log
        other = stretch_of(Path(name), "other.jsonl", logs[1], 0).log
        assert common_lines(one, other, most) == same
