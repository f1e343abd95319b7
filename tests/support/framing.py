"""The two framings of the wire, written strictly: what a picky client would accept, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

Framing = Literal["lsp", "ndjson"]
FRAMINGS: tuple[Framing, ...] = ("lsp", "ndjson")

_HEADER = re.compile(rb"Content-Length: ([1-9][0-9]*)\r\n\r\n")
_LONGEST_HEADER = len(b"Content-Length: \r\n\r\n") + 12


class StreamViolation(AssertionError):
    """The server wrote bytes that no strict client could read."""


def dumps(message: Any) -> bytes:
    """`message` as compact UTF-8 JSON, the way most clients write it."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def loads(body: bytes) -> Any:
    """Parse strictly: no NaN, no Infinity, no key twice in one object."""

    def refuse_constant(name: str) -> Any:
        raise StreamViolation(f"{name} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise StreamViolation(f"a key stands twice among {[name for name, _ in pairs]}")
        return members

    try:
        return json.loads(body.decode("utf-8"), parse_constant=refuse_constant, object_pairs_hook=unique)
    except ValueError as error:
        raise StreamViolation(f"not JSON in UTF-8: {error}: {body[:200]!r}") from error


def frame(body: bytes, framing: Framing) -> bytes:
    """`body` as one frame."""
    return body + b"\n" if framing == "ndjson" else b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class Decoder:
    """Cuts a byte stream into bodies. `rest` is what is left over, the beginning of an unfinished frame."""

    def __init__(self, framing: Framing) -> None:
        self._framing = framing
        self.rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield every body that `data` completes.

        Raises:
            StreamViolation: The bytes are not in the framing the server announced by its first byte.
        """
        self.rest += data
        take = self._line if self._framing == "ndjson" else self._headed
        while (body := take()) is not None:
            yield body

    def _line(self) -> bytes | None:
        end = self.rest.find(b"\n")
        if end < 0:
            return None
        body = bytes(self.rest[:end])
        del self.rest[: end + 1]
        if not body.startswith(b"{") or not body.endswith(b"}"):
            raise StreamViolation(f"not one JSON object on a line: {body[:200]!r}")
        return body

    def _headed(self) -> bytes | None:
        header = _HEADER.match(self.rest)
        if header is None:
            if len(self.rest) >= _LONGEST_HEADER or not b"Content-Length: ".startswith(bytes(self.rest[:16])):
                raise StreamViolation(f"not a header of `Content-Length` alone: {bytes(self.rest[:200])!r}")
            return None
        start, length = header.end(), int(header[1])
        if len(self.rest) < start + length:
            return None
        body = bytes(self.rest[start : start + length])
        del self.rest[: start + length]
        return body
