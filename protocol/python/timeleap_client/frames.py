"""The two framings of the wire: from bytes to JSON-RPC messages and back.

Strict where the server is concerned: it promises to write `Content-Length: N` headers or one object a line and
nothing else, so anything else is a broken stream, never something to skip.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

Message = dict[str, Any]

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""What a client is ready to hold of one frame: four times the server's own limit."""

_MAX_HEADER_BYTES = 4096


class Framing(StrEnum):
    """How messages are told apart on the stream; the server answers in the framing it is spoken to."""

    LSP = "lsp"
    """`Content-Length` headers, as in the Language Server Protocol."""
    NDJSON = "ndjson"
    """One JSON object a line."""


class BrokenStreamError(Exception):
    """What came is not the protocol; the stream cannot be used any more."""


def encode(message: Message, framing: Framing) -> bytes:
    """The bytes of one message.

    Raises:
        ValueError: The message holds something JSON cannot say (NaN, an infinity, a cycle).
        TypeError: The message holds something that is no JSON value.
    """
    try:
        body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A lone surrogate. Escaped it can at least travel, and the server says where it is.
        body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    if framing is Framing.NDJSON:
        return body + b"\n"
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Takes bytes as they come, gives back the messages they complete.

    Args:
        framing: What the other side writes.
        max_frame_bytes: A longer frame breaks the stream.
    """

    def __init__(self, framing: Framing, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._next = self._next_line if framing is Framing.NDJSON else self._next_counted
        self._limit = max_frame_bytes
        self._buffer = bytearray()
        self._searched = 0
        """How far the buffer is known not to hold the end that is looked for: a long frame is searched once."""
        self._length: int | None = None
        """Of the body whose header has been read."""

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Message]:
        """Take in `data`.

        Returns:
            The messages that are complete now, in order.

        Raises:
            BrokenStreamError: The stream breaks the framing, or a frame is no JSON object.
        """
        self._buffer += data
        messages: list[Message] = []
        while (body := self._next()) is not None:
            messages.append(_decode(body))
        return messages

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            self._refuse_over_limit(self._searched)
            return None
        self._searched = 0
        return self._take(end, skip=1)

    def _next_counted(self) -> bytes | None:
        if self._length is None:
            end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
            if end < 0:
                self._searched = len(self._buffer)
                if self._searched > _MAX_HEADER_BYTES:
                    raise BrokenStreamError("a header without an end")
                return None
            self._searched = 0
            self._length = _content_length(self._take(end, skip=4))
            self._refuse_over_limit(self._length)
        if len(self._buffer) < self._length:
            return None
        body = self._take(self._length, skip=0)
        self._length = None
        return body

    def _take(self, size: int, skip: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[: size + skip]
        return taken

    def _refuse_over_limit(self, size: int) -> None:
        if size > self._limit:
            raise BrokenStreamError(f"a frame of {size} bytes or more, over the limit of {self._limit}")


def _content_length(header: bytes) -> int:
    lengths = [
        value.strip()
        for name, _, value in (line.partition(b":") for line in header.split(b"\r\n"))
        if name.strip().lower() == b"content-length"
    ]
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise BrokenStreamError(f"no usable Content-Length in the header {header[:80]!r}")
    return int(lengths[0])


def _decode(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BrokenStreamError(f"a frame that is no JSON: {body[:80]!r}") from error
    if not isinstance(message, dict):
        raise BrokenStreamError(f"a frame that is no JSON object: {body[:80]!r}")
    return message
