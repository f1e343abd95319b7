"""Records: making them, and telling what a line of a log is.

What a line is follows the original program's reading of it, with three differences: bytes that are no UTF-8 make a
line damaged (the original puts U+FFFD there and so alters the text); so do zeros (no program writes them into JSON, but a
power failure and a failing disk put them in the place of blocks); and what makes the original refuse the whole log (a
message without content, an unknown type of part) is a message with the flag UNREADABLE.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from timeleap.errors import InvalidInputError
from timeleap.storage.engine import NewRecord, RecordFlag, RecordKind, Role
from timeleap.storage.jsontext import decode_strictly, encode_json
from timeleap.storage.marks import ABSENT, TL_KEY, TL_MARK, read_tl, request_flags, strip_tl, tl_flags

Style = Literal["spaced", "compact"]
"""The two spacings of control records: `spaced` as the original's `Context` writes them (json.dumps, ASCII only),
`compact` as its `JsonlLinearStorage` does. Messages are compact in both."""

_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL, "system": Role.SYSTEM}
_NUMBERS: Final = range(1 - 2**53, 2**53)  # what every JSON parser reads exactly: others cannot go over the wire
_NO_FLAGS: Final = RecordFlag(0)
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
    """A message, with its keys, values and order kept.

    One without `content` gets a null one, which the original program can open, and a mark by which it is taken off again.

    Args:
        message: The message as a JSON object; `role` is a non-empty string that does not start with `_`.
        tl: Members of `_tl`, if it needs any.

    Raises:
        InvalidInputError: It is not a message, or cannot be written as JSON exactly.
    """
    role = message.get("role")
    if not isinstance(role, str) or not role or role.startswith("_"):
        raise InvalidInputError("a message needs a role: a non-empty string that does not start with an underscore")
    if TL_KEY in message:
        raise InvalidInputError(f"the key {TL_KEY!r} is reserved")
    if "content" not in message:
        message, tl = {**message, "content": None}, {ABSENT: 1, **(tl or {})}
    body = encode_json(message)
    readable, value = _measure(message)
    flags = _NO_FLAGS if readable else RecordFlag.UNREADABLE
    return _with_tl(NewRecord(body, RecordKind.MESSAGE, _ROLES.get(role, Role.OTHER), value, flags), tl)


def usage_record(token_count: int, tl: Mapping[str, Any] | None = None, style: Style = "spaced") -> NewRecord:
    """A `_usage` record: the token count of the history up to here.

    Raises:
        InvalidInputError: The number is no integer or beyond 2**53.
    """
    _check_int(token_count, "token count")
    body = _control({"role": "_usage", "token_count": token_count}, style)
    return _with_tl(NewRecord(body, RecordKind.USAGE, value=token_count), tl)


def checkpoint_record(checkpoint_id: int, tl: Mapping[str, Any] | None = None, style: Style = "spaced") -> NewRecord:
    """A `_checkpoint` record.

    Raises:
        InvalidInputError: The number is no integer or beyond 2**53.
    """
    _check_int(checkpoint_id, "checkpoint id")
    body = _control({"role": "_checkpoint", "id": checkpoint_id}, style)
    return _with_tl(NewRecord(body, RecordKind.CHECKPOINT, value=checkpoint_id), tl)


def system_prompt_record(text: str, tl: Mapping[str, Any] | None = None, style: Style = "spaced") -> NewRecord:
    """A `_system_prompt` record; the last one of a log is in force."""
    body = _control({"role": "_system_prompt", "content": text}, style)
    return _with_tl(NewRecord(body, RecordKind.SYSTEM_PROMPT), tl)


def batch_member(record: NewRecord, batch_id: str, position: int, size: int) -> NewRecord:
    """The record marked as number `position` (from 0) of a batch of `size`."""
    flags = record.flags | RecordFlag.HAS_TL
    if position < size - 1:
        flags |= RecordFlag.BATCH_OPEN
    if position > 0:
        flags |= RecordFlag.BATCH_TAIL
    marks = b'"b":"%b","i":%d,"n":%d' % (batch_id.encode(), position, size)
    if record.flags & RecordFlag.HAS_TL:
        body = record.body[:-2] + b"," + marks + b"}}"
    else:
        body = record.body[:-1] + TL_MARK + marks + b"}}"
    return NewRecord(body, record.kind, record.role, record.value, flags)


def without_batch_marks(line: bytes) -> NewRecord:
    """The record of a line, no longer a member of a batch (the batch was cut through on purpose)."""
    tl = {key: value for key, value in read_tl(line).items() if key not in ("b", "i", "n")}
    return _with_tl(classify(strip_tl(line)), tl)


def copied(line: bytes) -> NewRecord:
    """The record of a line for another place in a log: without what `_tl` says of its request and its batch."""
    return _with_tl(classify(strip_tl(line)), {ABSENT: 1} if ABSENT in read_tl(line) else None)


def _control(record: dict[str, Any], style: Style) -> bytes:
    if style == "spaced":
        return json.dumps(record).encode()
    return encode_json(record)


def _with_tl(record: NewRecord, tl: Mapping[str, Any] | None) -> NewRecord:
    if not tl:
        return record
    flags = record.flags | RecordFlag.HAS_TL
    if "r" in tl:
        flags |= request_flags(tl["r"])
    body = record.body[:-1] + b',"_tl":' + encode_json(tl) + b"}"
    return NewRecord(body, record.kind, record.role, record.value, flags)


def _check_int(value: object, name: str) -> None:
    if not isinstance(value, int) or value not in _NUMBERS:
        raise InvalidInputError(f"the {name} {value!r:.40} is not an integer below 2**53")


# Telling what a line is


def classify(line: bytes) -> NewRecord:
    """Classify a line. Never raises: a line that cannot be read is DAMAGED.

    Args:
        line: The bytes of the line without its line feed.
    """
    body = line.strip()
    try:
        message = _decode_message(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _classify_slowly(body)
    content = message.content
    if content is None:
        value = 0
    elif isinstance(content, str):
        value = len(content)
    else:
        value = sum(len(part.text) for part in content if isinstance(part, _Text))
    flags = _NO_FLAGS if message.tl is msgspec.UNSET else tl_flags(message.tl)
    return NewRecord(body, RecordKind.MESSAGE, _ROLES[message.role], value, flags)


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
    if role == "_usage":
        return _counted(body, RecordKind.USAGE, record.get("token_count"), flags)
    if role == "_checkpoint":
        return _counted(body, RecordKind.CHECKPOINT, record.get("id"), flags)
    if "content" not in record:
        flags |= RecordFlag.UNREADABLE
    return NewRecord(body, RecordKind.FOREIGN, flags=flags)


def _counted(body: bytes, kind: RecordKind, number: object, flags: RecordFlag) -> NewRecord:
    if not isinstance(number, int) or number not in _NUMBERS:
        return NewRecord(body, RecordKind.DAMAGED, flags=flags)
    return NewRecord(body, kind, value=int(number), flags=flags)


# What the original can read of a message


def _measure(message: Mapping[str, Any]) -> tuple[bool, int]:
    """True if the original can read a message, and the number of characters of its text parts."""
    content = message.get("content")
    readable = (
        message["role"] in _ROLES
        and "content" in message
        and _is_text(message.get("name"), optional=True)
        and _is_text(message.get("tool_call_id"), optional=True)
        and _is_lenient_bool(message.get("partial"))
        and _are_tool_calls(message.get("tool_calls"))
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


def _is_text(value: object, *, optional: bool = False) -> bool:
    return isinstance(value, str) or (optional and value is None)


def _is_part(part: Mapping[str, Any]) -> bool:
    match part.get("type"):
        case "text":
            return _is_text(part.get("text"))
        case "think":
            return _is_text(part.get("think")) and _is_text(part.get("encrypted"), optional=True)
        case "image_url" | "audio_url" | "video_url" as kind:
            url = part.get(kind)
            return isinstance(url, Mapping) and _is_text(url.get("url")) and _is_text(url.get("id"), optional=True)
        case _:
            return False


def _is_lenient_bool(value: object) -> bool:
    """True for the values that pydantic accepts as `bool | None`."""
    if isinstance(value, str):
        return value.lower() in ("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes")
    return value is None or (isinstance(value, (bool, int, float)) and value in (0, 1))


def _are_tool_calls(calls: object) -> bool:
    if calls is None:
        return True
    return isinstance(calls, (list, tuple)) and all(isinstance(c, Mapping) and _is_tool_call(c) for c in calls)


def _is_tool_call(call: Mapping[str, Any]) -> bool:
    function = call.get("function")
    extras = call.get("extras")
    return (
        _is_text(call.get("id"))
        and call.get("type", "function") == "function"
        and (extras is None or isinstance(extras, Mapping))
        and isinstance(function, Mapping)
        and _is_text(function.get("name"))
        and "arguments" in function
        and _is_text(function["arguments"], optional=True)
    )
