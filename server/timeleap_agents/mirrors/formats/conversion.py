"""Common parts of the readers of other programs' files: JSON lines, however long they are, times, folders and parts
of messages, and a count of what is lost. The earliest files of some programs are a single JSON document each."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import msgspec
from msgspec import Struct

from timeleap import clock
from timeleap.errors import CorruptedError, InvalidInputError, TooLargeError
from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap.sessions.shapes import set_members
from timeleap.storage.durable import OpenFile, storage_errors
from timeleap.storage.log_values import NewRecord
from timeleap.storage.record import checkpoint_record, message_record, system_prompt_record, usage_record
from timeleap_agents.mirrors.packed_files import file_at
from timeleap_protocol.folder_uri import canonical_folder_uri

BLOCK: Final = 1 << 18
MAX_LINE: Final = 64 << 20
MAX_FILE: Final = 4 << 30
MAX_LINES: Final = 1_000_000
"""Notes about each line stay in memory."""

MAX_RECORD: Final = 32 << 20


_AS_KEPT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_NOTHING: Final = b" \t\r\n\0\xef\xbb\xbf"
"""White space, zeros and the mark of a file's beginning."""
_PASSED_OVER: Final = re.compile("[^ \\t\\r\\n\\0\xef\xbb\xbf]")
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]')
_OF_RECORDS: Final = frozenset({"timestamp", "uuid", "payload", "parentUuid", "sessionId"})
"""Members of records, not of objects in them."""
_JOINED: Final = b'}{"'
MAX_TRIES: Final = 1000
"""Places of a damaged line at which a record is looked for."""
_DECODER: Final = json.JSONDecoder()
_DOCUMENT: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{(?:\s*"session"\s*:\s*\{|[ \t\r]*\n\s*")')
_MARK: Final = b"\xef\xbb\xbf"


class JsonLine(Struct, frozen=True):
    """A line; `record` is the object on it, None where there is none: blank, too long, or no JSON object. Of a damaged
    line each whole record is one."""

    offset: int
    length: int
    record: Json | None


def opened(path: Path) -> OpenFile:
    """A file to be imported: an ordinary one, no link, FIFO or device. One that Codex has packed is as it was before.

    Raises:
        StorageFailureError: It is none, or cannot be opened.
        CorruptedError, TooLargeError: It is packed, and damaged, or larger than what is read.
    """
    with storage_errors(f"read {path.name}", path):
        return file_at(path)


class JsonLines:
    """A file of JSON lines; what is added to it later is not read. Lines that cannot be read are noted in `left_out`.

    Raises:
        TooLargeError: It is larger than what is imported; on the way through it: it has more lines.
    """

    def __init__(self, file: OpenFile, left_out: LossTally, start: int = 0) -> None:
        self._file = file
        self._left_out = left_out
        self._lines = 0
        self._start = start
        self.size = file.status().size
        if self.size > MAX_FILE:
            message = f"the file has {self.size} bytes; at most {MAX_FILE} are imported"
            raise TooLargeError(message, limit="bytes", maximum=MAX_FILE)

    def __iter__(self) -> Iterator[JsonLine]:
        start = at = self._start
        pending = bytearray()
        while at < self.size and (block := self._file.pread(at, min(BLOCK, self.size - at))):
            at += len(block)
            *whole, rest = block.split(b"\n")
            for piece in whole:
                pending += piece
                yield from self._records(start, pending)
                start += len(pending) + 1
                pending = bytearray()
            pending += rest
            if len(pending) > MAX_LINE:
                at, pending = self._passed_over(at), bytearray()
                start = at
        if pending:
            yield from self._records(start, pending)

    def at(self, offset: int, length: int) -> Json:
        """The record on a line that was met before; empty if it is another one by now."""
        return _object(self._file.pread(offset, length).removeprefix(_MARK)) or {}

    def _records(self, start: int, line: bytearray) -> Iterator[JsonLine]:
        """The record on a line; of a damaged one each record that is whole on it."""
        self._lines += 1
        if self._lines > MAX_LINES:
            message = f"the file has more than {MAX_LINES} lines; no more are imported"
            raise TooLargeError(message, limit="lines", maximum=MAX_LINES)
        text = bytes(line)
        found = _object(text)
        if found is not None or not text.strip():
            yield JsonLine(start, len(text), found)
            return
        whole = list(whole_records(text))
        if not whole:
            self._left_out.add("lines", "lines are no JSON objects")
            yield JsonLine(start, len(text), None)
        elif sum(length for _, length, _ in whole) < len(text.strip(_NOTHING)):
            self._left_out.add("lines", "lines are damaged: of each the whole records are read")
        for offset, length, record in whole:
            yield JsonLine(start + offset, length, record)

    def _passed_over(self, at: int) -> int:
        """Offset of the next line."""
        self._left_out.add("lines", f"lines have more than {MAX_LINE >> 20} MiB")
        while at < self.size and (block := self._file.pread(at, BLOCK)):
            if (end := block.find(b"\n")) >= 0:
                return at + end + 1
            at += len(block)
        return self.size


def begins_document(start: bytes) -> bool:
    """True if a file that begins like this is a single document, on many lines or of the oldest form of Codex, and has
    no lines of records."""
    return _DOCUMENT.match(start) is not None


def document(file: OpenFile) -> Json | None:
    """The document a file is; None for a file of lines.

    Raises:
        CorruptedError: It is cut short, or damaged.
        TooLargeError: It is larger than what is held in memory.
    """
    if not begins_document(file.pread(0, BLOCK)):
        return None
    size = file.status().size
    if size > MAX_LINE:
        message = f"the file is one JSON document of {size} bytes; at most {MAX_LINE} are read"
        raise TooLargeError(message, limit="bytes", maximum=MAX_LINE)
    found = _object(file.pread(0, size).removeprefix(_MARK))
    if found is None:
        raise CorruptedError("the file is one JSON document, and it is cut short or damaged")
    return found


def workspace_of(path: object) -> str | None:
    """The URI of a folder that a program on some machine named."""
    if not isinstance(path, str) or not path:
        return None
    pure = PureWindowsPath(path) if path[1:3] in (":\\", ":/") or path.startswith("\\\\") else PurePosixPath(path)
    try:
        return canonical_folder_uri(pure.as_uri()) if pure.is_absolute() else None
    except ValueError:
        return None


def folder_of(workspace: str | None) -> str | None:
    """The path of a folder's URI; None where it is none."""
    if workspace is None:
        return None
    path = unquote(urlsplit(workspace).path)
    return url2pathname(path) if os.name == "nt" else path


def time_of(text: object) -> str | None:
    """A time as sessions keep it, ISO-8601 UTC; None for what is none."""
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
        if _AS_KEPT.fullmatch(text):
            return text
        return clock.iso((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def object_in(text: object) -> Json | None:
    """The JSON object that a text is; None where it is none."""
    return _object(text.encode("utf-8", "replace")) if isinstance(text, str) else None


def is_object(text: bytes) -> bool:
    """True of a JSON object."""
    return _object(text) is not None


def whole_records(text: bytes) -> Iterator[tuple[int, int, Json]]:
    """The records that are whole on a damaged line: two that share it, one behind a torn one or a run of zeros, one before
    the rest of another; each with its offset and length. Objects within a torn record are none, nor is what is nested too
    deeply."""
    characters, at = text.decode("latin-1"), 0  # a character a byte; JSON's own marks are ASCII
    torn = _TornRecord()
    for _ in range(MAX_TRIES):
        at = characters.find('{"', at)
        if at < 0:
            return
        try:
            found, end = _DECODER.raw_decode(characters, at)
        except (ValueError, RecursionError):
            at += 2
            continue
        behind = _PASSED_OVER.search(characters, end)
        is_inside = torn.may_hold(characters, at) or (behind is not None and behind[0] in ",]}")
        is_record = not (is_inside and found.keys().isdisjoint(_OF_RECORDS))
        record = _object(text[at:end]) if is_record else None
        if record is None:
            at += 2
        else:
            yield at, end - at, record
            torn = _TornRecord(end)
            at = end


def joined_records(line: bytes) -> Iterator[tuple[int, int, Json]]:
    """The records that a damaged line begins with, one behind the other."""
    end = 0
    if _JOINED not in line:
        return
    for offset, length, record in whole_records(line):
        if offset != end:
            return
        yield offset, length, record
        end = offset + length


class _TornRecord:
    """Text on a line before a place at which an object begins, from the last whole record on."""

    def __init__(self, start: int = 0) -> None:
        self._start = self._at = start
        self._open: list[str] = []

    def may_hold(self, line: str, at: int) -> bool:
        """True if the object at this place can be a value in it; asked for places in their order."""
        before = line[max(self._start, at - 64) : at].rstrip()[-1:]
        if before not in (":", ",", "["):
            return False
        for token in _BRACKETS.finditer(line, self._at, at):
            if token[0] in ("{", "["):
                self._open.append(token[0])
            elif self._open and token[0] in ("}", "]"):
                self._open.pop()
        self._at = at
        # Behind a comma an object has a name before each of its values.
        return not (before == "," and self._open[-1:] == ["{"])


def _object(text: bytes) -> Json | None:
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):  # it refuses halves of surrogate pairs, NaN, and bytes that are no UTF-8
        try:
            found = json.loads(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


class RecordWriter(ABC):
    """Makes records. What cannot be written is noted in `left_out`."""

    def __init__(self, left_out: LossTally) -> None:
        self._left_out = left_out
        self.lines = 0
        self.messages = 0
        self._checkpoints = 0

    def system_prompt(self, text: str) -> None:
        self._add(system_prompt_record(sound(text)))

    def checkpoint(self, message: Mapping[str, Any], time: str | None, words: str | None = None) -> None:
        """A checkpoint before a user's `message`, called after its first words, or after the `words` in it
        that a person typed."""
        uid = f"c{self._checkpoints}-{clock.new_uid(12)}"
        label = first_words(message if words is None else {"content": words})
        self._add(checkpoint_record(self._checkpoints, set_members(u=uid, l=label, t=time)))
        self._checkpoints += 1

    def message(self, message: Mapping[str, Any]) -> None:
        """A message; one that no log can hold is left out, and noted."""
        try:
            record = message_record(message)
        except InvalidInputError:
            self._left_out.add("messages", "messages cannot be written exactly")
            return
        if len(record.body) > MAX_RECORD:
            self._left_out.add("messages", f"messages have more than {MAX_RECORD >> 20} MiB")
            return
        self._add(record)
        self.messages += 1

    def answer(self, parts: list[Json], calls: list[Json]) -> None:
        if parts or calls:
            made = {"tool_calls": calls} if calls else {}
            self.message({"role": "assistant", "content": content_of(parts), **made})

    def usage(self, tokens: object) -> None:
        """A token count; what is none is passed over."""
        if type(tokens) is int and 0 < tokens < 1 << 53:
            self._add(usage_record(tokens))

    @abstractmethod
    def _add(self, record: NewRecord) -> None: ...


def sound(text: str) -> str:
    """A text without halves of surrogate pairs, which no log of ours holds."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def text_part(text: str) -> Json:
    return {"type": "text", "text": sound(text)}


def image_part(url: str) -> Json:
    """A picture, as a URL or the data themselves."""
    return {"type": "image_url", "image_url": {"url": sound(url)}}


def think_part(thought: str, encrypted: object = None) -> Json:
    kept = {"encrypted": encrypted} if isinstance(encrypted, str) else {}
    return {"type": "think", "think": sound(thought), **kept}


def tool_call(call_id: object, name: object, arguments: str) -> Json:
    function = {"name": sound(str(name)), "arguments": sound(arguments)}
    return {"type": "function", "id": sound(str(call_id)), "function": function}


def parts_in(content: Any) -> list[Json]:
    """The parts of a content, which may be a text alone."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def shown_parts(content: Any, shown: Callable[[Json], Json | None], left_out: LossTally) -> list[Json]:
    """The parts of a content as a message of ours holds them: what `shown` makes of each; None is noted as a loss."""
    found = []
    for part in parts_in(content):
        made = shown(part)
        if made is None:
            lose_part(left_out, part.get("type"))
        else:
            found.append(made)
    return found


def lose_part(left_out: LossTally, kind: object) -> None:
    """Note the loss of a part that has no form in a message of ours."""
    left_out.add("parts", f"parts of the type {str(kind)[:40]} have no place in a message")


def content_of(parts: list[Json]) -> str | list[Json]:
    """Parts as a message holds them: a single text as it is."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or ""
