"""Our reserved key `_tl`: finding it, reading it, taking it off.

It is always the LAST key of a record, written `,"_tl":{...}}`. That byte sequence cannot occur inside a JSON string
(its quotes would be escaped), and where it occurs as a key of a nested object, what follows it up to the last brace is
no JSON; so it is found and taken off without parsing the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from timeleap.storage.engine import RecordFlag
from timeleap.storage.jsontext import decode_json, decode_strictly, encode_quickly

TL_KEY: Final = "_tl"
TL_MARK: Final = b',"_tl":{'
SENDER: Final = "f"
"""The member that names the session a note came from."""
MADE_HERE: Final = "timeleap:"
"""Prefix of request ids made by a process attached to the session's owner, not by a client."""


_MADE: Final = RecordFlag.REQUEST | RecordFlag.MADE_HERE


ABSENT: Final = "a"
"""The member of a message that was sent without `content`, and was given a null one so that the original can open the log."""
_NULL_CONTENT: Final = b',"content":null'
_ABSENT_FIRST: Final = b'{"a":1'


def read_tl(line: bytes) -> dict[str, Any]:
    """The members of a record's `_tl`; empty if it has none."""
    tail = _tl_tail(line)
    if tail is None and b'"_tl"' not in line:
        return {}
    try:
        tl = decode_strictly(tail) if tail is not None else decode_json(line).get(TL_KEY)
    except (ValueError, AttributeError, msgspec.MsgspecError):
        return {}
    return tl if isinstance(tl, dict) else {}


def strip_tl(line: bytes) -> bytes:
    """The record without its `_tl`."""
    tail = _tl_tail(line)
    if tail is not None:
        return line.rstrip()[: -len(tail) - len(TL_MARK)] + b"}"
    if b'"_tl"' not in line:
        return line
    try:
        record = decode_json(line)
    except ValueError:
        return line
    if not isinstance(record, dict) or TL_KEY not in record:
        return line
    del record[TL_KEY]  # another program moved it from its place
    return encode_quickly(record)


def as_sent(line: bytes) -> bytes:
    """The message of a record as its sender wrote it."""
    tail = _tl_tail(line)
    if tail is not None and not tail.startswith(_ABSENT_FIRST):
        return line.rstrip()[: -len(tail) - len(TL_MARK)] + b"}"
    message = strip_tl(line)
    if ABSENT not in read_tl(line):
        return message
    if message.endswith(_NULL_CONTENT + b"}"):
        return message[: -len(_NULL_CONTENT) - 1] + b"}"
    return encode_quickly(without_marks(decode_json(line)))  # another program moved it from its place


def without_marks(record: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a record that was decoded."""
    tl = record.get(TL_KEY)
    absent = isinstance(tl, dict) and ABSENT in tl and record.get("content") is None
    left_out = (TL_KEY, "content") if absent else (TL_KEY,)
    return {name: value for name, value in record.items() if name not in left_out}


def _tl_tail(line: bytes) -> bytes | None:
    """The bytes of the `_tl` object where it is the last key, else None."""
    if not line.endswith(b"}}"):
        line = line.rstrip()
        if not line.endswith(b"}}"):
            return None
    at = line.rfind(TL_MARK)
    if at < 0:
        return None
    tail = line[at + len(TL_MARK) - 1 : -1]
    try:
        decode_strictly(tail)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return tail


def request_flags(request_id: object) -> RecordFlag:
    """The flags of a record that carries a request id."""
    made_here = isinstance(request_id, str) and request_id.startswith(MADE_HERE)
    return _MADE if made_here else RecordFlag.REQUEST


def tl_flags(tl: Mapping[str, Any]) -> RecordFlag:
    """The flags that follow from a record's `_tl`."""
    flags = RecordFlag.HAS_TL
    if "r" in tl:
        flags |= request_flags(tl["r"])
    position, size = tl.get("i"), tl.get("n")
    if "b" in tl and isinstance(position, int) and isinstance(size, int):
        if position < size - 1:
            flags |= RecordFlag.BATCH_OPEN
        if position > 0:
            flags |= RecordFlag.BATCH_TAIL
    return flags
