"""From bytes to frames: both framings of the wire, for servers and clients. No I/O, no JSON.

`FrameReader.feed` takes chunks of any size and gives back what they complete, in order: the body of a frame as
`bytes`, or a `Fault`. A frame over the limit is a fault that costs only itself: its bytes are passed over as they
come, never held. A fault that loses the place in the stream is final: a body has no end mark of its own, so guessing
where the next header starts would answer the wrong requests, or nothing at all, for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from timeleap_protocol.limits import MAX_FRAME_BYTES

BOM = b"\xef\xbb\xbf"
MAX_HEADER_BYTES = 4096
"""All header lines of one frame together."""

_JOINED = 64 * 1024
"""Bytes of the beginning of a frame that are put before the next chunk; a larger beginning is not copied every time."""

_SPACE = b" \t\r\n"
_HEADER_NAMES = (b"content-length", b"content-type")
_USUAL_HEADER = re.compile(rb"Content-Length: ([0-9]{1,18})\r\n\r\n")
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*?)[ \t]*")


class Framing(StrEnum):
    """How messages are told apart on the stream; the server answers in the framing it is spoken to."""

    LSP = "lsp"
    """`Content-Length` headers, as in the Language Server Protocol."""
    NDJSON = "ndjson"
    """One JSON object a line."""

    def wrap(self, body: bytes) -> bytes:
        """`body` as one frame."""
        return FORMS[self] % (len(body), body)


_LSP = Framing.LSP  # a member of an enum takes longer to look up than to compare

FORMS: Final = {Framing.LSP: b"Content-Length: %d\r\n\r\n%b", Framing.NDJSON: b"%.0a%b\n"}
"""A frame, from the length of its body, of which a line shows no digit, and the body."""


def framed(form: bytes, pieces: list[bytes]) -> list[bytes]:
    """A body in pieces as a frame of a form (`FORMS`)."""
    around = form % (sum(map(len, pieces)), b"")
    return [*pieces, around] if form is FORMS[Framing.NDJSON] else [around, *pieces]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something on the stream that is no frame.

    Attributes:
        message: What was wrong, without any of the bytes.
        fatal: Whether the place in the stream is lost; nothing comes after such a fault.
    """

    message: str
    fatal: bool


class FrameReader:
    """Cuts one connection's input into frames.

    Args:
        max_frame_bytes: A longer body is passed over and reported.
        framing: Agreed upon, and then kept to the letter: no blank lines, one Content-Length. None recognises it by the
            first byte, and is lenient.

    Attributes:
        framing: The one agreed upon or recognised; None before the first byte that tells.
        form: Of the frames of answers (`FORMS`), in that framing; one a line before it is known.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES, framing: Framing | None = None) -> None:
        self.framing = framing
        self.form = FORMS[framing or Framing.NDJSON]
        self._limit = max_frame_bytes
        self._buffer = bytearray()
        self._start = 0  # of what was not yet given back
        self._searched = 0  # up to here the buffer is known to hold no end of a line
        self._passing = 0  # bytes of an oversized body still to come (LSP)
        self._passing_line = False  # within an oversized line (NDJSON)
        self._at_beginning = True
        self._lost = self._between = False  # between two frames of LSP: nothing is kept of what came
        self._strict = framing is not None
        self._take: Callable[[], bytes | Fault | None] = self._recognise
        if framing is not None:
            self._take = self._line if framing is Framing.NDJSON else self._frame

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes | Fault]:
        """Frames and faults that `data` completes, in order."""
        if self._between and (usual := _USUAL_HEADER.match(data)) is not None:
            body = usual.end()
            if len(data) - body == int(usual[1]) <= self._limit:
                return [data[body:]]  # of a client that asks one thing at a time
        if self._lost:
            return []
        found: list[bytes | Fault] = []
        if self.framing is _LSP and len(self._buffer) < _JOINED and not self._passing:
            if self._buffer:
                data = bytes(self._buffer) + data
                self._buffer.clear()
            data = self._whole_frames(data, found)
            self._between = not data
            if self._between:
                return found
        self._buffer += data
        while (item := self._take()) is not None:
            found.append(item)
            if isinstance(item, Fault) and item.fatal:
                self._lost = True
                break
        self._forget()
        return found

    def _whole_frames(self, data: bytes, found: list[bytes | Fault]) -> bytes:
        """Cut the frames off that `data` begins with, as far as they are whole and plain; returns the rest."""
        start, size, limit = 0, len(data), self._limit
        while start < size and (usual := _USUAL_HEADER.match(data, start)) is not None:
            body = usual.end()
            end = body + int(usual[1])
            if end > size or end - body > limit:
                break
            found.append(data[body:end])
            start = end
        return data[start:]

    def finish(self) -> list[bytes | Fault]:
        """Frames and faults at the end of input: the last line of NDJSON, or a fault for a frame that was cut off."""
        rest = bytes(self._buffer[self._start :])
        self._buffer.clear()
        self._start = self._searched = 0
        if self._lost:
            return []
        self._lost, self._between = True, False
        if self.framing is Framing.LSP:
            cut = bool(self._passing or rest.strip(_SPACE))
            return [Fault("the input ended within a frame", fatal=True)] if cut else []
        rest = rest.strip(_SPACE)
        if self.framing is Framing.NDJSON:
            return [rest] if rest and not self._passing_line else []
        if not rest or rest == BOM:
            return []
        self.framing = Framing.NDJSON
        return [_unrecognised()]

    def _forget(self) -> None:
        del self._buffer[: self._start]
        self._searched = max(0, self._searched - self._start)
        self._start = 0

    def _recognise(self) -> bytes | Fault | None:
        """Find out the framing from what comes first after a byte order mark and white space."""
        buffer = self._buffer
        if self._at_beginning:
            if len(buffer) < len(BOM) and BOM.startswith(buffer):
                return None
            self._at_beginning = False
            if buffer.startswith(BOM):
                self._start = len(BOM)
        self._skip_space()
        head = bytes(buffer[self._start : self._start + 64]).lower()
        if not head:
            return None
        if head.startswith(b"{"):
            self.framing, self._take = Framing.NDJSON, self._line
        elif re.match(rb"content-(length|type)[ \t]*:", head):
            self.framing, self._take, self.form = Framing.LSP, self._frame, FORMS[_LSP]
        elif any(name.startswith(head) or re.fullmatch(name + rb"[ \t]*", head) for name in _HEADER_NAMES):
            return None
        else:
            # A client that speaks neither is answered in the form that needs the least understanding.
            self.framing = Framing.NDJSON
            return _unrecognised()
        self._searched = self._start
        return self._take()

    def _skip_space(self) -> None:
        buffer, start = self._buffer, self._start
        while start < len(buffer) and buffer[start] in _SPACE:
            start += 1
        self._start = start

    def _line(self) -> bytes | Fault | None:
        while True:
            end = self._buffer.find(b"\n", max(self._searched, self._start))
            if end < 0:
                self._searched = len(self._buffer)
                return self._unfinished_line()
            line = bytes(memoryview(self._buffer)[self._start : end]).strip(b" \t\r")
            self._start = self._searched = end + 1
            if self._passing_line:
                self._passing_line = False
            elif len(line) > self._limit:
                return self._oversized()
            elif line or self._strict:
                return line

    def _unfinished_line(self) -> Fault | None:
        if self._passing_line:
            self._start = len(self._buffer)
        elif len(self._buffer) - self._start > self._limit:
            self._start = len(self._buffer)
            self._passing_line = True
            return self._oversized()
        return None

    def _frame(self) -> bytes | Fault | None:
        if self._start == len(self._buffer):
            return None
        if self._passing:
            passed = min(self._passing, len(self._buffer) - self._start)
            self._passing -= passed
            self._start += passed
            if self._passing:
                return None
        usual = _USUAL_HEADER.match(self._buffer, self._start)
        if usual is not None:
            length, body = int(usual[1]), usual.end()
        else:
            # Line ends between frames are harmless: some clients end bodies with one and do not count it.
            self._skip_space()
            header = self._header()
            if header is None or isinstance(header, Fault):
                return header
            length, body = header
        if length > self._limit:
            self._start, self._passing = body, length
            return self._oversized()
        end = body + length
        if len(self._buffer) < end:
            return None
        self._start = end
        return bytes(memoryview(self._buffer)[body:end])

    def _header(self) -> tuple[int, int] | Fault | None:
        """The length a header announces and where its body starts, read by the letter of the specification."""
        end = _HEADER_END.search(self._buffer, self._start, self._start + MAX_HEADER_BYTES)
        if end is None:
            return self._unfinished_header()
        length: int | None = None
        for line in re.split(rb"\r?\n", bytes(self._buffer[self._start : end.start()])):
            field = _FIELD.fullmatch(line)
            if field is None:
                return Fault("a header line is not of the form `Name: value`", fatal=True)
            if field[1].lower() != b"content-length":
                continue
            if re.fullmatch(rb"[0-9]+", field[2]) is None:
                return Fault("Content-Length is not a number of bytes", fatal=True)
            if length is not None and (self._strict or length != int(field[2])):
                return Fault(
                    "two Content-Length headers" if self._strict else "two Content-Length headers disagree", fatal=True
                )
            length = int(field[2])
        if length is None:
            return Fault("a frame has no Content-Length header", fatal=True)
        return length, end.end()

    def _unfinished_header(self) -> Fault | None:
        """Refuse early what can never become a header: its writer waits for an answer, not for our patience."""
        held = len(self._buffer) - self._start
        if held >= MAX_HEADER_BYTES:
            return Fault(f"a header is longer than {MAX_HEADER_BYTES} bytes", fatal=True)
        first, newline, _ = bytes(self._buffer[self._start :]).partition(b"\n")
        if newline and _FIELD.fullmatch(first.rstrip(b"\r")) is None:
            return Fault("a header line is not of the form `Name: value`", fatal=True)
        return None

    def _oversized(self) -> Fault:
        return Fault(f"a frame is larger than {self._limit} bytes", fatal=False)


def _unrecognised() -> Fault:
    return Fault("the input is neither JSON objects, one a line, nor frames with a Content-Length header", fatal=True)
