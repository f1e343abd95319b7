"""Session files of agents as documents: outline, hover, diagnostics and links, and never a change."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from timeleap.errors import TimeleapError
from timeleap.json_value import Json
from timeleap.optional_parts import part
from timeleap.storage.record import decode_json
from timeleap_lsp.record_lines import LONGEST, TranscriptLine, message_line

FORMATS: Final = frozenset(("claude-code", "codex", "kimi", "kimi-code", "pi"))
"""Formats whose files have a record a line."""
CHUNK: Final = 1 << 20
MOST_BYTES: Final = 2 << 30
"""Bytes of a file that are looked at; a longer one is no document."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_ROLES: Final = {"user": "user", "assistant": "assistant", "tool": "tool", "toolResult": "tool"}
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call")


class AgentTranscript:
    """A session file of an agent, with a record a line (`timeleap_lsp.record_lines.RecordLines`).

    Attributes:
        path: The file.
        stamp: Inode, size and time of the file when it was read.
    """

    def __init__(self, path: Path) -> None:
        """Read where its lines and its prompts are. Raises OSError."""
        self.path = path
        self._ends = array("Q")  # of each line, line feed included
        self._turns: list[int] = []
        self._file = os.open(path, _FLAGS)
        try:
            found = os.fstat(self._file)
            self.stamp = found.st_ino, found.st_size, found.st_mtime_ns
            self._scan(min(found.st_size, MOST_BYTES))
        except BaseException:
            os.close(self._file)
            raise

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def _scan(self, size: int) -> None:
        offset, rest = 0, b""
        long = False  # the line in `rest` is longer than is kept of it
        while offset < size and (data := os.pread(self._file, min(CHUNK, size - offset), offset)):
            begin = 0
            while (end := data.find(b"\n", begin)) >= 0:
                self._take(offset + end + 1, b"" if long else rest + data[begin:end])
                rest, begin, long = b"", end + 1, False
            rest += data[begin:] if len(rest) <= LONGEST else b""
            long = long or len(rest) > LONGEST
            offset += len(data)
        if rest or long:
            self._take(offset, b"" if long else rest)

    def _take(self, end: int, body: bytes) -> None:
        """Note the end of a line, and that a turn begins with it."""
        if b'"user"' in body or b'"user_message"' in body:
            message = message_in(_decoded(body))
            if message is not None and described(len(self._ends), message, {}).tag == "prompt":
                self._turns.append(len(self._ends))
        self._ends.append(end)

    @property
    def count(self) -> int:
        return len(self._ends)

    @property
    def turns(self) -> list[int]:
        return self._turns

    def line_at(self, offset: int) -> int:
        """The line that holds a byte."""
        return bisect_left(self._ends, offset + 1)

    def body(self, line: int) -> bytes | None:
        """The bytes of a line; None if it is longer than `LONGEST`."""
        begin = self._ends[line - 1] if line else 0
        size = self._ends[line] - begin
        return None if size > LONGEST else os.pread(self._file, size, begin)

    def lines(self, start: int, stop: int) -> Iterator[TranscriptLine]:
        for line in range(max(0, start), min(stop, self.count)):
            body = self.body(line)
            record = None if body is None else _decoded(body)
            message = message_in(record)
            if message is not None and record is not None:
                yield described(line, message, record)

    def record(self, line: int) -> tuple[Json | None, int]:
        begin = self._ends[line - 1] if line else 0
        body = self.body(line)
        record = None if body is None else _decoded(body)
        return message_in(record) or record, self._ends[line] - begin


def _decoded(body: bytes) -> Json | None:
    try:
        found = decode_json(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def message_in(record: Json | None) -> Json | None:
    """The message in a record of an agent, in the form of the contract; None where it has none."""
    if record is None:
        return None
    inner = next((each for name in ("message", "payload") if isinstance(each := record.get(name), dict)), record)
    kind = inner.get("type")
    if kind in _CALLS:
        return _call(inner)
    if kind in ("function_call_output", "custom_tool_call_output"):
        return {"role": "tool", "content": _text(inner.get("output")), "tool_call_id": inner.get("call_id")}
    return _message(inner)


def _call(inner: Json) -> Json:
    """A call that is a record of its own, as in Codex."""
    given = inner.get("arguments", inner.get("input", inner.get("action")))
    call = {"id": inner.get("call_id"), "function": {"name": inner.get("name") or "shell", "arguments": given}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _message(inner: Json) -> Json | None:
    role, content = inner.get("role"), inner.get("content")
    if role not in _ROLES:
        return None
    parts = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    result = next((each for each in parts if each.get("type") == "tool_result"), None)
    if result is not None:
        answer = {"role": "tool", "content": _text(result.get("content")), "tool_call_id": result.get("tool_use_id")}
        return {**answer, "is_error": True} if result.get("is_error") else answer
    said = [{**each, "type": "text"} if isinstance(each.get("text"), str) else each for each in parts]
    return {**inner, "role": _ROLES[role], "content": said or content}


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return "\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def described(line: int, message: Json, record: Json) -> TranscriptLine:
    """Describe a line; the words of a program in the person's name are no prompt."""
    found = message_line(line, message)
    time = record.get("timestamp")
    found.time = time if isinstance(time, str) else found.time
    if found.tag == "prompt":
        said_by = part("timeleap_agents.mirrors.formats.said_by")
        content = message.get("content")
        texts = [content] if isinstance(content, str) else [str(each.get("text", "")) for each in content or ()]
        if record.get("isMeta") or (said_by is not None and said_by.words_of_person(texts) is None):
            found.tag = "message"
    return found


def recognised(path: Path) -> bool:
    """True for a session file of an agent that has a record a line. Blocking."""
    found = part("timeleap_agents.importing.recognition")
    if found is None or path.suffix != ".jsonl":
        return False
    try:
        return found.recognised(path) in FORMATS and path.stat().st_size <= MOST_BYTES
    except (TimeleapError, OSError):
        return False
