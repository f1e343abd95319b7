"""The outline of a document: its turns, the newest of them with their steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lsprotocol import types

from timeleap_lsp.record_lines import MadeCall, RecordLines, TranscriptLine

MOST_SYMBOLS: Final = 5000
"""Symbols of an outline. Older turns beyond them are shown in groups."""
GROUP: Final = 100
"""Turns in a group."""
MOST_LINES: Final = 20_000
"""Lines of the newest turns that are looked at."""
MOST_FOLDS: Final = 5000

_KINDS: Final = {
    "checkpoint": types.SymbolKind.Key,
    "usage": types.SymbolKind.Number,
    "compaction": types.SymbolKind.Package,
    "note": types.SymbolKind.Event,
}


def outline(transcript: RecordLines) -> list[dict[str, Any]]:
    """LogDocument symbols of the wire, in the order of lines. At most `MOST_SYMBOLS`, of which the newest are detailed."""
    turns = transcript.turns
    stops = [*turns[1:], transcript.count]
    detailed: list[dict[str, Any]] = []
    room = MOST_SYMBOLS - len(turns) // GROUP - 2
    first, seen = len(turns), 0
    while first > 0:
        start, stop = turns[first - 1], stops[first - 1]
        seen += stop - start
        if detailed and (seen > MOST_LINES or room <= 1):
            break
        found = _turn(transcript, start, stop, room)
        room -= _count(found)
        detailed.append(found)
        first -= 1
    groups = [_group(begin, min(begin + GROUP, first), turns, stops) for begin in range(0, first, GROUP)]
    before = _before_turns(transcript, turns[0] if turns else transcript.count) if first == 0 else []
    return [*before, *groups, *reversed(detailed)]


def _group(begin: int, end: int, turns: list[int], stops: list[int]) -> dict[str, Any]:
    name = f"Turns {begin + 1} to {end}" if end - begin > 1 else f"Turn {end}"
    return symbol(name, "", types.SymbolKind.Namespace, turns[begin], stops[end - 1])


def _before_turns(transcript: RecordLines, stop: int) -> list[dict[str, Any]]:
    lines = transcript.lines(0, min(stop, MOST_LINES))
    return list(_steps(lines, stop, 200))


def _turn(transcript: RecordLines, start: int, stop: int, room: int) -> dict[str, Any]:
    """Make the symbol of a turn, named by its prompt; of a long turn the newest lines are shown."""
    shown = max(start, stop - MOST_LINES)
    lines = list(transcript.lines(shown, stop))
    prompt = next((line for line in lines if line.tag in ("prompt", "note", "compaction", "message")), None)
    name = prompt.name if prompt is not None and prompt.name else "Turn"
    last = next((line.tokens for line in reversed(lines) if line.tokens), None)
    detail = _detail(prompt.role if prompt is not None else "", last, prompt.time if prompt is not None else "")
    found = symbol(name, detail, types.SymbolKind.Class, start, stop)
    steps = list(_steps(iter(lines), stop, len(lines) * 2, prompt))
    found["children"] = steps[-max(room - 1, 0) :] if room > 1 else []
    return found


def _steps(
    lines: Iterator[TranscriptLine], stop: int, most: int, prompt: TranscriptLine | None = None
) -> Iterator[dict[str, Any]]:
    """A symbol for each step: checkpoints, answers, calls with their results, compactions, token counts."""
    made: list[dict[str, Any]] = []
    open_calls: dict[str, dict[str, Any]] = {}
    for line in lines:
        if len(made) >= most:
            break
        if line is prompt:
            continue
        if line.tag == "result" and line.answers in open_calls:
            _add_result(open_calls.pop(line.answers), line, stop)
            continue
        if line.tag == "assistant" and line.calls:
            for call in line.calls:
                made.append(_call(line, call))
                if call.call_id:
                    open_calls[call.call_id] = made[-1]
            continue
        kind = _KINDS.get(line.tag, types.SymbolKind.String)
        made.append(
            symbol(line.name or line.role or line.tag, _detail(line.role, line.tokens, line.time), kind, line.line)
        )
    yield from made


def _call(line: TranscriptLine, call: MadeCall) -> dict[str, Any]:
    return symbol(call.name, _detail("", line.tokens, line.time), types.SymbolKind.Function, line.line)


def _add_result(call: dict[str, Any], line: TranscriptLine, stop: int) -> None:
    """Put a result below its call, whose range then ends with it."""
    end = min(line.line + 1, stop)
    call["range"]["end"] = {"line": end, "character": 0}
    if line.failed:
        call["detail"] = f"failed, {call['detail']}" if call["detail"] else "failed"
    call["children"] = [
        symbol(line.name or "no output", "failed" if line.failed else "", types.SymbolKind.String, line.line)
    ]


def symbol(name: str, detail: str, kind: types.SymbolKind, start: int, stop: int | None = None) -> dict[str, Any]:
    """A document symbol of the lines from `start` to `stop`; of one line where `stop` is None."""
    end = start + 1 if stop is None else max(stop, start + 1)
    begin = {"line": start, "character": 0}
    return {
        "name": name or "…",
        "detail": detail,
        "kind": kind.value,
        "range": {"start": begin, "end": {"line": end, "character": 0}},
        "selectionRange": {"start": begin, "end": begin},
    }


def _detail(role: str, tokens: int | None, time: str) -> str:
    parts = [role, f"{tokens:,} tokens" if tokens else "", time]
    return ", ".join(part for part in parts if part)


def _count(found: dict[str, Any]) -> int:
    return 1 + sum(_count(child) for child in found.get("children", ()))


def folds(transcript: RecordLines) -> list[types.FoldingRange]:
    """A range for each turn of several lines, the newest `MOST_FOLDS` of them."""
    turns = transcript.turns[-MOST_FOLDS:]
    found: list[types.FoldingRange] = []
    for start, stop in zip(turns, [*turns[1:], transcript.count], strict=False):
        if stop - start > 1:
            found.append(types.FoldingRange(start, stop - 1))
    return found


def named(transcript: RecordLines, query: str, most: int) -> list[dict[str, Any]]:
    """Turns whose prompts hold a text, newest first."""
    wanted = query.casefold()
    found: list[dict[str, Any]] = []
    for each in reversed(outline(transcript)):
        if wanted in str(each["name"]).casefold():
            found.append(each)
            if len(found) >= most:
                break
    return found
