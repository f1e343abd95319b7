"""Packs of git and trees made by hand, so that they can be wrong."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

COMMIT, TREE, BLOB, OFS_DELTA, REF_DELTA = 1, 2, 3, 6, 7
KINDS = {COMMIT: "commit", TREE: "tree", BLOB: "blob"}


class Made(Struct, frozen=True):
    """An object; `extra` stands before its content in a pack (the base of a delta)."""

    kind: int
    content: bytes
    extra: bytes = b""
    said: int | None = None

    @property
    def oid(self) -> str:
        return hashlib.sha1(f"{KINDS[self.kind]} {len(self.content)}\0".encode() + self.content).hexdigest()

    @property
    def packed(self) -> bytes:
        size = len(self.content) if self.said is None else self.said
        head = [self.kind << 4 | size & 15]
        size >>= 4
        while size:
            head[-1] |= 128
            head.append(size & 127)
            size >>= 7
        return bytes(head) + self.extra + zlib.compress(self.content)


def blob(content: bytes) -> Made:
    return Made(BLOB, content)


def tree(*entries: tuple[str, bytes, Made | str]) -> Made:
    """A tree of entries (mode, name, object) in the order given."""
    parts = (
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(found if isinstance(found, str) else found.oid)
        for mode, name, found in entries
    )
    return Made(TREE, b"".join(parts))


def pack(objects: Iterable[Made], count: int | None = None) -> bytes:
    listed = list(objects)
    number = len(listed) if count is None else count
    data = b"PACK" + (2).to_bytes(4, "big") + number.to_bytes(4, "big") + b"".join(each.packed for each in listed)
    return data + hashlib.sha1(data).digest()


def number(value: int) -> bytes:
    """A number as the head of a delta has it."""
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def delta(base: int, result: int, distance: int, copies: Sequence[bytes] = ()) -> Made:
    """A delta on an object of `base` bytes that stands `distance` (up to 127) before it."""
    return Made(OFS_DELTA, number(base) + number(result) + b"".join(copies), bytes([distance]))
