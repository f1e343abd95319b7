"""Records of a log: their JSON, our key `_tl` in them, making them, and telling what a line is.

What a line is follows the original program's reading of it, with three differences: bytes that are no UTF-8 make a
line damaged (the original puts U+FFFD there and so alters the text); so do zeros (no program writes them into JSON, but
a power failure and a failing disk put them in the place of blocks); and what makes the original refuse the whole log (a
message without content, an unknown type of part) is a message with the flag UNREADABLE.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, Literal

import msgspec

from timeleap.errors import InvalidInputError, TooLargeError
from timeleap.storage.durable import crc32
from timeleap.storage.log_values import LogState, NewRecord, RecordFlag, RecordKind, Role

# JSON as the log has it: written strictly and exactly, read as leniently as the original program reads

decode_strictly = msgspec.json.Decoder().decode
_PLAIN: Final = frozenset((str, int, bool, type(None)))
encode_quickly = msgspec.json.Encoder().encode
"""Not exact: NaN and infinity become null. For values that are known to have none."""


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON, integers of any size exact.

    Raises:
        InvalidInputError: The value has no exact JSON form (NaN, infinity, a lone surrogate, an unknown type).
        TooLargeError: It is nested too deeply.
    """
    try:
        body = encode_quickly(value)
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"text with a lone surrogate cannot be stored: {error}") from None
    except RecursionError:
        raise TooLargeError("the value is nested too deeply") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"not a JSON value: {error}") from None
    # msgspec writes NaN and infinity as null; to look for that in the text takes twice as long as to write it.
    values = value.values() if type(value) is dict else (value,)
    if not _PLAIN.issuperset(map(type, values)) and not _finite(values):
        raise InvalidInputError("NaN and infinity are not JSON numbers")
    return body


def decode_json(line: bytes) -> Any:
    """The value of one line, read as leniently as the original does (raw control characters, NaN, any number).

    Raises:
        ValueError: It is not JSON or not UTF-8, is nested too deeply, or holds an integer of over 4 300 digits.
    """
    try:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return decode_strictly(line)
        return json.loads(line.decode(), strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def strict_json(line: bytes) -> bytes:
    """A LENIENT line as strict JSON: the same value, NaN and infinity as null, lone surrogates escaped."""
    value = _nulled(decode_json(line))
    try:
        return encode_quickly(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _finite(values: Iterable[object]) -> bool:
    for value in values:
        if type(value) in _PLAIN:
            continue
        if type(value) is dict or (not isinstance(value, (list, tuple, float)) and isinstance(value, Mapping)):
            finite = _PLAIN.issuperset(map(type, value.values())) or _finite(value.values())
        elif isinstance(value, (list, tuple)):
            finite = _finite(value)
        else:
            finite = not isinstance(value, float) or math.isfinite(value)
        if not finite:
            return False
    return True


def _nulled(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _nulled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_nulled(item) for item in value]
    return value


# Our reserved key `_tl`: finding it, reading it, taking it off
#
# It is always the LAST key of a record, written `,"_tl":{...}}`. That byte sequence cannot occur inside a JSON string
# (its quotes would be escaped), and where it occurs as a key of a nested object, what follows it up to the last brace
# is no JSON; so it is found and taken off without parsing the record. `USUAL_MARKS` is how it is written here.

TL_KEY: Final = "_tl"
TL_MARK: Final = b',"_tl":{'
SENDER: Final = "f"
"""The member that names the session a note came from."""
MADE_HERE: Final = "timeleap:"
"""Prefix of request ids made by a process attached to the session's owner, not by a client."""

# Combining flags takes longer than all else where they are needed.
_HAS_TL: Final = RecordFlag.HAS_TL
_HAS_REQUEST: Final = _HAS_TL | RecordFlag.REQUEST
_HAS_MADE: Final = _HAS_REQUEST | RecordFlag.MADE_HERE
_FORM: Final = (
    rb',"_tl":\{(?=")(?:"u":T(?:,"l":T)?,"t":T)?,?(?:"r":(?P<r>T),"h":T,"m":T,"s":N,"o":T,"g":T)?,?(?:"f":(?P<f>T))?,?'
    rb'(?:"b":(?P<b>T),"i":(?P<i>N),"n":(?P<n>N))?\}\}'
)
USUAL_MARKS: Final = re.compile(_FORM.replace(b"N", rb"(?:0|[1-9][0-9]{0,14})").replace(b"T", rb'"[^"\\\x00-\x1f]*"'))
ABSENT: Final = "a"
"""The member of a message that was sent without `content`: it got a null one so that the original can open the log."""
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
    """Record without our marks, of a record that was decoded."""
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


def tl_flags(tl: Mapping[str, Any]) -> RecordFlag:
    flags = _HAS_TL
    if "r" in tl:
        request_id = tl["r"]
        flags = _HAS_MADE if isinstance(request_id, str) and request_id.startswith(MADE_HERE) else _HAS_REQUEST
    if "b" not in tl:
        return flags
    position, size = tl.get("i"), tl.get("n")
    if isinstance(position, int) and isinstance(size, int):
        if position < size - 1:
            flags |= RecordFlag.BATCH_OPEN
        if position > 0:
            flags |= RecordFlag.BATCH_TAIL
    return flags


Style = Literal["spaced", "compact"]
"""The two spacings of control records: `spaced` as the original's `Context` writes them (json.dumps, ASCII only),
`compact` as its `JsonlLinearStorage` does. Messages are compact in both."""

_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL, "system": Role.SYSTEM}
ROLE_NUMBERS: Final = {name: int(role) for name, role in _ROLES.items()}
_NUMBERS: Final = range(1 - 2**53, 2**53)  # what every JSON parser reads exactly: others cannot go over the wire
_NO_FLAGS: Final = RecordFlag(0)
_UNREADABLE: Final = RecordFlag.UNREADABLE
_OTHER: Final = Role.OTHER  # a member of an enum takes longer to look up than to compare
_NUMBER: Final = b"+-.0123456789eE"


class _Text(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True, gc=False):
    text: str


class _Think(msgspec.Struct, tag_field="type", tag="think", forbid_unknown_fields=True, gc=False):
    think: str
    encrypted: str | None = None


class _Url(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    url: str
    id: str | None = None


class _Image(msgspec.Struct, tag_field="type", tag="image_url", forbid_unknown_fields=True, gc=False):
    image_url: _Url


class _Audio(msgspec.Struct, tag_field="type", tag="audio_url", forbid_unknown_fields=True, gc=False):
    audio_url: _Url


class _Video(msgspec.Struct, tag_field="type", tag="video_url", forbid_unknown_fields=True, gc=False):
    video_url: _Url


class _Function(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: str | None


class _ToolCall(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: str
    function: _Function
    type: Literal["function"] = "function"
    extras: dict[str, Any] | None = None


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message as nearly all are. Unknown keys are forbidden because a decoder skips them without looking at them:
    bad UTF-8 or a number of 5 000 digits would pass. Such lines take the slow way, which looks at everything."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[_Text | _Think | _Image | _Audio | _Video] | None
    tool_calls: list[_ToolCall] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    partial: bool | None = None
    tl: dict[str, Any] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name=TL_KEY)


_decode_message = msgspec.json.Decoder(_Message).decode


# Making records


def message_record(message: Mapping[str, Any], tl: Mapping[str, Any] | None = None) -> NewRecord:
    """A message, with its keys, values and order kept. Raises InvalidInputError for what is none.

    One without `content` gets a null one, which the original program can open, and a mark by which that is taken off.
    """
    role = message.get("role")
    if not isinstance(role, str) or not role or role.startswith("_"):
        raise InvalidInputError("a message needs a role: a non-empty string that does not start with an underscore")
    if TL_KEY in message:
        raise InvalidInputError(f"the key {TL_KEY!r} is reserved")
    if "content" not in message:
        message, tl = {**message, "content": None}, {ABSENT: 1, **(tl or {})}
    readable, value = _measure(message)
    flags = _NO_FLAGS if readable else _UNREADABLE
    record = NewRecord(encode_json(message), _MESSAGE, _ROLES.get(role, _OTHER), value, flags)
    return with_tl(record, tl) if tl else record


def plain_record(message: Mapping[str, Any]) -> NewRecord | None:
    """Make the record of a message that was decoded strictly, if it is one as nearly all are; else None."""
    try:
        found = msgspec.convert(message, _Message)
    except msgspec.ValidationError:
        return None
    if found.tl is not msgspec.UNSET:
        return None
    content = found.content
    value = len(content) if type(content) is str else _characters(found)
    return NewRecord(encode_quickly(message), _MESSAGE, _ROLES[found.role], value, _NO_FLAGS)


def opaque_record(record: Mapping[str, Any], tl: Mapping[str, Any] | None = None) -> NewRecord:
    """A client's own control record, which is no part of the history; its keys, values and order are kept."""
    return with_tl(NewRecord(encode_json(record), RecordKind.FOREIGN), tl)


def usage_record(token_count: int, tl: Mapping[str, Any] | None = None, style: Style = "spaced") -> NewRecord:
    _check_int(token_count, "token count")
    body = USAGE_FORMS[style] % token_count
    return with_tl(NewRecord(body, RecordKind.USAGE, value=token_count), tl)


def checkpoint_record(checkpoint_id: int, tl: Mapping[str, Any] | None = None, style: Style = "spaced") -> NewRecord:
    _check_int(checkpoint_id, "checkpoint id")
    body = CHECKPOINT_FORMS[style] % checkpoint_id
    return with_tl(NewRecord(body, RecordKind.CHECKPOINT, value=checkpoint_id), tl)


USAGE_FORMS: Final = {
    "spaced": b'{"role": "_usage", "token_count": %d}',
    "compact": b'{"role":"_usage","token_count":%d}',
}
CHECKPOINT_FORMS: Final = {"spaced": b'{"role": "_checkpoint", "id": %d}', "compact": b'{"role":"_checkpoint","id":%d}'}


def system_prompt_record(text: str, tl: Mapping[str, Any] | None = None, style: Style = "spaced") -> NewRecord:
    """A `_system_prompt` record; the last one of a log is in force."""
    body = _control({"role": "_system_prompt", "content": text}, style)
    return with_tl(NewRecord(body, RecordKind.SYSTEM_PROMPT), tl)


def with_member(record: NewRecord, name: str, value: Any) -> NewRecord:
    """The record with one more member of `_tl`, which is not one that says what a line is."""
    member = encode_json({name: value})[1:]
    if record.flags & RecordFlag.HAS_TL:
        body = record.body[:-2] + b"," + member + b"}"
    else:
        body = record.body[:-1] + TL_MARK + member + b"}"
    return NewRecord(body, record.kind, record.role, record.value, record.flags | RecordFlag.HAS_TL)


def batch_member(record: NewRecord, batch_id: str, position: int, size: int) -> NewRecord:
    """The record marked as number `position` (from 0) of a batch of `size`."""
    flags = _batch_flags(record.flags, position < size - 1, position > 0)
    marks = b'"b":"%b","i":%d,"n":%d' % (batch_id.encode(), position, size)
    if record.flags & RecordFlag.HAS_TL:
        body = record.body[:-2] + b"," + marks + b"}}"
    else:
        body = record.body[:-1] + TL_MARK + marks + b"}}"
    return NewRecord(body, record.kind, record.role, record.value, flags)


@cache  # combining flags takes longer than all else here
def _batch_flags(flags: RecordFlag, is_open: bool, is_tail: bool) -> RecordFlag:
    return flags | tl_flags({"b": "", "i": int(is_tail), "n": 2 + is_open if is_tail else 1 + is_open})


def without_batch_marks(line: bytes) -> NewRecord:
    """The record of a line, no longer a member of a batch (the batch was cut through on purpose)."""
    tl = {key: value for key, value in read_tl(line).items() if key not in ("b", "i", "n")}
    return with_tl(classify(strip_tl(line)), tl)


def copied(line: bytes) -> NewRecord:
    """The record of a line for another place in a log: without what `_tl` says of its request and its batch."""
    return with_tl(classify(strip_tl(line)), {ABSENT: 1} if ABSENT in read_tl(line) else None)


def _control(record: dict[str, Any], style: Style) -> bytes:
    return json.dumps(record).encode() if style == "spaced" else encode_json(record)


def with_tl(record: NewRecord, tl: Mapping[str, Any] | None) -> NewRecord:
    """The record with what `tl` says of it under `_tl`."""
    if not tl:
        return record
    body = record.body[:-1] + b',"_tl":' + encode_json(tl) + b"}"
    flags = tl_flags(tl)
    return NewRecord(body, record.kind, record.role, record.value, record.flags | flags if record.flags else flags)


def _check_int(value: object, name: str) -> None:
    if not isinstance(value, int) or value not in _NUMBERS:
        raise InvalidInputError(f"the {name} {value!r:.40} is not an integer below 2**53")


# Telling what a line is


def classify(line: bytes) -> NewRecord:
    """Classify a line (with or without its line feed). Never raises: a line that cannot be read is DAMAGED."""
    body = line.strip()
    try:
        message = _decode_message(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _classify_slowly(body)
    flags = _NO_FLAGS if message.tl is msgspec.UNSET else tl_flags(message.tl)
    return NewRecord(body, RecordKind.MESSAGE, _ROLES[message.role], _characters(message), flags)


def ordinary(line: bytes) -> tuple[int, int, int] | None:
    """Role, characters and flags of a line that is a message as nearly all are; None for any other."""
    try:
        message = _decode_message(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    flags = 0 if message.tl is msgspec.UNSET else int(tl_flags(message.tl))
    return ROLE_NUMBERS[message.role], _characters(message), flags


def _characters(message: _Message) -> int:
    content = message.content
    if isinstance(content, str):
        return len(content)
    return 0 if content is None else sum(len(part.text) for part in content if isinstance(part, _Text))


def may_go_on(tail: bytes) -> bool:
    """True if bytes that are no record may be the beginning of a record that a crash cut short or left zeros in.

    Other bytes are damaged: say, a record whose line feed has become something else.
    """
    if b"\0" in tail:
        return True
    try:
        decode_strictly(tail.strip().rstrip(_NUMBER))
    except msgspec.DecodeError as error:
        return "malformed" not in str(error)  # else it was "truncated"; only the text tells
    except (UnicodeDecodeError, RecursionError):
        return True
    return False


def _classify_slowly(body: bytes) -> NewRecord:
    flags = _NO_FLAGS
    try:
        record = decode_strictly(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if b"\0" in body:
            return NewRecord(body, RecordKind.DAMAGED)
        try:
            text = body.decode()
            if not text.strip():
                return NewRecord(body, RecordKind.BLANK)
            record = json.loads(text, strict=False)
            flags = RecordFlag.LENIENT
        except (ValueError, RecursionError):
            return NewRecord(body, RecordKind.DAMAGED)
    role = record.get("role") if isinstance(record, dict) else None
    if not isinstance(role, str) or not role:
        return NewRecord(body, RecordKind.DAMAGED)
    tl = record.pop(TL_KEY, None)
    if isinstance(tl, dict):
        flags |= tl_flags(tl)
    if not role.startswith("_"):
        readable, value = _measure(record)
        if not readable:
            flags |= RecordFlag.UNREADABLE
        return NewRecord(body, RecordKind.MESSAGE, _ROLES.get(role, Role.OTHER), value, flags)
    return _classify_control(body, role, record, flags)


def _classify_control(body: bytes, role: str, record: dict[str, Any], flags: RecordFlag) -> NewRecord:
    """Control records count if their value is of the type the original asks for (a bool is an int to it)."""
    if role == "_system_prompt":
        kind = RecordKind.SYSTEM_PROMPT if isinstance(record.get("content"), str) else RecordKind.DAMAGED
        return NewRecord(body, kind, flags=flags)
    if role in ("_usage", "_checkpoint"):
        usage = role == "_usage"
        number = record.get("token_count" if usage else "id")
        if not isinstance(number, int) or number not in _NUMBERS:
            return NewRecord(body, RecordKind.DAMAGED, flags=flags)
        kind = RecordKind.USAGE if usage else RecordKind.CHECKPOINT
        return NewRecord(body, kind, value=int(number), flags=flags)
    if "content" not in record:
        flags |= RecordFlag.UNREADABLE
    return NewRecord(body, RecordKind.FOREIGN, flags=flags)


# What the original can read of a message


def _measure(message: Mapping[str, Any]) -> tuple[bool, int]:
    content = message.get("content")
    if type(content) is str and len(message) == 2:  # a role and a text, as most have
        return message["role"] in _ROLES, len(content)
    readable = (
        message["role"] in _ROLES
        and "content" in message
        and ((name := message.get("name")) is None or isinstance(name, str))
        and ((answers := message.get("tool_call_id")) is None or isinstance(answers, str))
        and ((partial := message.get("partial")) is None or _is_lenient_bool(partial))
        and ((calls := message.get("tool_calls")) is None or _are_tool_calls(calls))
    )
    if content is None:
        return readable, 0
    if isinstance(content, str):
        return readable, len(content)
    if not isinstance(content, (list, tuple)):
        return False, 0
    characters = 0
    for part in content:
        if not isinstance(part, Mapping):
            readable = False
            continue
        readable = readable and _is_part(part)
        if part.get("type") == "text" and isinstance(text := part.get("text"), str):
            characters += len(text)
    return readable, characters


def _is_part(part: Mapping[str, Any]) -> bool:
    match part:
        case {"type": "text", "text": str()}:
            return True
        case {"type": "think", "think": str()}:
            return isinstance(part.get("encrypted"), str | None)
        case {"type": "image_url" | "audio_url" | "video_url" as kind}:
            url = part.get(kind)
            return (
                isinstance(url, Mapping) and isinstance(url.get("url"), str) and isinstance(url.get("id"), str | None)
            )
        case _:
            return False


def _is_lenient_bool(value: object) -> bool:
    """True for the values that pydantic accepts as `bool | None`."""
    if isinstance(value, str):
        return value.lower() in ("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes")
    return value is None or (isinstance(value, (bool, int, float)) and value in (0, 1))


def _are_tool_calls(calls: object) -> bool:
    return isinstance(calls, list | tuple) and all(map(_is_tool_call, calls))


def _is_tool_call(call: Any) -> bool:
    match call:
        case {"id": str(), "function": {"name": str(), "arguments": str() | None}}:
            extras = call.get("extras")
            return call.get("type", "function") == "function" and (extras is None or isinstance(extras, Mapping))
        case _:
            return False


# The state of a log after one more line. Pure

CHAIN_P: Final = 0x9E3779B97F4A7C15
CHAIN_Q: Final = 0xC2B2AE3D27D4EB4F
MASK: Final = 0xFFFFFFFFFFFFFFFF
# Ids from here on, and negative ones, are not counted on from: no request could name the next.
ID_LIMIT: Final = 1 << 52

_MESSAGE: Final = RecordKind.MESSAGE  # a member of an enum takes longer to look up than to compare
_TROUBLE: Final = int(RecordFlag.UNREADABLE)  # flags are combined as integers here: as flags it takes 15 times as long


def after_record(state: LogState, record: NewRecord) -> LogState:
    return advance(state, record, crc32(b"\n", crc32(record.body)), len(record.body) + 1)


def advance(state: LogState, record: NewRecord, crc: int, length: int) -> LogState:
    """The state after a line that is `record`; crc32 and length are those of the line with its line feed."""
    kind, value, pending = record.kind, record.value, state.pending_chars
    chain = (state.chain * CHAIN_P + crc * CHAIN_Q + length) & MASK
    has_damage = state.has_damage or (record.flags is not _NO_FLAGS and int(record.flags) & _TROUBLE > 0)
    if kind is _MESSAGE:
        return LogState(
            state.length + length, state.lines + 1, state.messages + 1, state.checkpoints, state.usages,
            state.token_count, -1 if pending < 0 or value < 0 else pending + value, state.next_checkpoint_id,
            state.system_prompt_line, record.role, chain, state.regular, has_damage,
        )  # fmt: skip
    checkpoints, usages, next_id = state.checkpoints, state.usages, state.next_checkpoint_id
    token_count, prompt, regular = state.token_count, state.system_prompt_line, state.regular
    if kind == RecordKind.USAGE:
        usages += 1
        token_count, pending = value, 0
    elif kind == RecordKind.CHECKPOINT:
        checkpoints += 1
        regular = regular and value == next_id
        next_id = value + 1 if 0 <= value < ID_LIMIT else next_id
    elif kind == RecordKind.SYSTEM_PROMPT:
        prompt = state.lines
    return LogState(
        state.length + length, state.lines + 1, state.messages, checkpoints, usages, token_count, pending, next_id,
        prompt, state.last_role, chain, regular, has_damage or kind == RecordKind.DAMAGED,
    )  # fmt: skip
