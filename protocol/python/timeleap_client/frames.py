"""From bytes to JSON-RPC messages and back.

Strict where the server is concerned: it promises to write `Content-Length: N` headers or one object a line and
nothing else, so anything else is a broken stream, never something to skip.
"""

from __future__ import annotations

import gc
import json
from typing import Any

from timeleap_protocol.framing import Fault, FrameReader, Framing

__all__ = ["BrokenStreamError", "Framing", "Message", "MessageReader", "encode"]

Message = dict[str, Any]

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""What a client is ready to hold of one frame: four times the server's own limit."""
_LARGE = 64 * 1024
"""Bytes of a frame from which on msgspec reads it: it is three times as fast, and most programs never load it."""


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
    return framing.wrap(body)


class MessageReader:
    """Takes bytes as they come, gives back the messages they complete.

    Args:
        framing: What the other side writes.
        max_frame_bytes: A longer frame breaks the stream.
    """

    def __init__(self, framing: Framing, max_frame_bytes: int = MAX_REPLY_BYTES) -> None:
        self._frames = FrameReader(max_frame_bytes, framing)

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete yet."""
        return self._frames.pending

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes, in order.

        Raises:
            BrokenStreamError: The stream breaks the framing, or a frame is no JSON object.
        """
        return [_decode(frame) for frame in self._frames.feed(data)]


def _decode(frame: bytes | Fault) -> Message:
    if isinstance(frame, Fault):
        raise BrokenStreamError(frame.message)
    try:
        message = _read_large(frame) if len(frame) >= _LARGE else json.loads(frame)
    except (ValueError, RecursionError) as error:
        raise BrokenStreamError(f"a frame that is no JSON: {frame[:80]!r}") from error
    if not isinstance(message, dict):
        raise BrokenStreamError(f"a frame that is no JSON object: {frame[:80]!r}")
    return message


def _read_large(frame: bytes) -> Any:
    import msgspec

    # Before Python 3.12 the collector would run over and over while the values are made, none of which it could free.
    collects = gc.isenabled()
    gc.disable()
    try:
        return msgspec.json.decode(frame)
    except msgspec.DecodeError:
        # A log may hold what it refuses and `json` takes: half of a surrogate pair, written as an escape.
        return json.loads(frame)
    finally:
        if collects:
            gc.enable()
