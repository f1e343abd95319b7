"""Strict JSON in, compact JSON out.

Decoding has two tiers. msgspec decodes what is right and refuses everything we refuse (NaN, lone surrogates, numbers
that overflow, bytes that are no UTF-8), but says little about it and forgets whose request it was. So what it refuses
is read a second time, slowly, by `explain`: what is no JSON is `parseError` under no id; what is JSON but cannot be
kept exactly is an error under the request's own id that says where the value stands.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeGuard, cast

import msgspec

from timeleap.rpc.errors import RefusedError, refused_value
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.framing import BOM
from timeleap_protocol.limits import MAX_DEPTH
from timeleap_protocol.params import nested

MAX_DIGITS = 4300
"""Digits of an integer: Python's own limit for conversions that take quadratic time."""

_MAX_PROBLEMS = 20
_MAX_OUTLINE = 4 * 1024 * 1024  # bytes of a frame nested too deeply that are searched for its id
_PLAIN_DEPTH = 5  # of a member of params: the parts of the contents of messages, and what they hold
_ENVELOPE_DEPTH = 2  # the braces of the envelope and of its params stand around a message

_decode = msgspec.json.Decoder().decode

MessageId = str | int


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """A request of the client's; `size`: bytes of its frame."""

    id: MessageId
    method: str
    params: dict[str, Any]
    jsonrpc: Literal["2.0"]
    size: int = 0


# As deep as nearly all are, in the type: so that they are is seen while they are decoded, for nothing.
_member: Any = nested(str | int | float | bool | None, _PLAIN_DEPTH)
_Plain = msgspec.defstruct("_Plain", [("params", dict[str, _member])], bases=(Request,), forbid_unknown_fields=True)
decode_request: Callable[[Any], Request] = msgspec.json.Decoder(cast("type[Request]", _Plain)).decode
"""The request in a frame; it has no size yet. Raises for whatever is no plain request, which `decode` has to judge; takes
nothing that `decode` and `EdgeProtocol.structure_message` would not take, and reads it as they do."""


@dataclass(eq=False)
class UnreadableError(Exception):
    """A frame that could not be taken in."""

    refusal: RefusedError  # what to answer
    message_id: MessageId | None = None  # under which id; None: it is not known, or is itself what is wrong
    wants_reply: bool = True  # a notification is never answered
    answers: MessageId | None = None  # the request of ours that it was to answer, if it was an answer


def is_message_id(value: object) -> TypeGuard[MessageId]:
    """True if `value` can be the id of a request: a string or an integer (a boolean is neither)."""
    return type(value) is str or type(value) is int


def decode(body: bytes) -> Any:
    """The JSON value of a frame.

    Raises:
        UnreadableError: It is not JSON, or holds something that could not be kept as it is.
    """
    body = body.removeprefix(BOM)
    try:
        value = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        explain(body, str(error))
    # Fewer braces than the limit cannot nest deeper than it: true for nearly every frame, and much cheaper to know.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _too_deep(value):
        raise _nested_too_deeply(value)
    return value


def _too_deep(value: Any) -> bool:
    """True if a message in `value` is nested deeper than allowed, counted from its own braces."""
    if not isinstance(value, dict) or _depth(value) <= MAX_DEPTH + _ENVELOPE_DEPTH:
        return False
    params = value.get("params")
    for member in params.values() if isinstance(params, dict) else [value]:
        for item in member if isinstance(member, list) else [member]:
            if _depth(item) > MAX_DEPTH:
                return True
    return False


def _depth(value: Any) -> int:
    """How deep `value` is nested, level by level: it may be deeper than Python can recurse."""
    depth = 0
    level = [value] if type(value) is dict or type(value) is list else []
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
    return depth


class _Unkeepable:
    """Stands in a decoded value for a number that could not be kept exactly."""

    def __init__(self, msg: str) -> None:
        self.msg = msg


def _parse_int(digits: str) -> int | _Unkeepable:
    if len(digits) > MAX_DIGITS:
        return _Unkeepable(f"an integer of more than {MAX_DIGITS} digits")
    return int(digits)


def _parse_float(text: str) -> float | _Unkeepable:
    number = float(text)
    return number if math.isfinite(number) else _Unkeepable("a number too large for a double")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def explain(body: bytes, reason: str) -> NoReturn:
    """Raise `UnreadableError` with why a frame was refused: the decoder's `reason`, where nothing better is found."""
    try:
        value = json.loads(
            body.decode(), parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise _no_json(f"invalid UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _no_json(f"{error.msg.removesuffix(' at')} at character {error.pos}") from None
    except ValueError as error:
        raise _no_json(str(error)) from None
    except RecursionError:
        raise _outline(body) from None
    if _too_deep(value):
        raise _nested_too_deeply(value) from None
    problems = list(_problems(value))
    if not problems or not isinstance(value, dict):
        raise _no_json(reason) from None
    message_id = value.get("id")
    known = message_id if "method" in value and is_message_id(message_id) else None
    loc, msg = problems[0]
    if "method" in value and all(problem[0][:1] == ["params"] for problem in problems):
        errors = [refused_value(loc[1:], msg, "unkeepable") for loc, msg in problems]
        refusal = RefusedError(
            ErrorKind.INVALID_PARAMS, f"invalid params: {'.'.join(map(str, loc[1:]))}: {msg}", errors=errors
        )
        raise UnreadableError(refusal, known, wants_reply="id" in value) from None
    # The envelope itself, or an answer to a request of ours.
    if any(problem[0] == ["id"] for problem in problems):
        known = None
    refusal = RefusedError(ErrorKind.INVALID_REQUEST, f"{'.'.join(map(str, loc))}: {msg} stands in the message")
    raise UnreadableError(refusal, known, answers=_answered(value)) from None


def _no_json(why: str) -> UnreadableError:
    return UnreadableError(RefusedError(ErrorKind.PARSE_ERROR, f"not JSON: {why}"))


def _nested_too_deeply(envelope: dict[str, Any]) -> UnreadableError:
    refusal = RefusedError(ErrorKind.TOO_LARGE, f"nested deeper than {MAX_DEPTH} levels", maxDepth=MAX_DEPTH)
    message_id = envelope.get("id") if "method" in envelope else None
    return UnreadableError(
        refusal,
        message_id if is_message_id(message_id) else None,
        wants_reply="method" not in envelope or "id" in envelope,
        answers=_answered(envelope),
    )


def _answered(envelope: dict[str, Any]) -> MessageId | None:
    """The id of the request of ours that a message answers, if it is an answer."""
    message_id = envelope.get("id")
    is_answer = "method" not in envelope and ("result" in envelope or "error" in envelope)
    return message_id if is_answer and is_message_id(message_id) else None


def _problems(value: Any) -> Iterator[tuple[list[str | int], str]]:
    """Where in `value` stands what cannot be kept, at most `_MAX_PROBLEMS`, each with what it is."""
    found = 0
    stack: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while stack and found < _MAX_PROBLEMS:
        path, item = stack.pop()
        problem = None
        if isinstance(item, dict):
            stack += [((path, key), inner) for key, inner in reversed(item.items())]
            if any(_has_surrogate(key) for key in item):
                problem = "a name with a lone surrogate"
        elif isinstance(item, list):
            stack += [((path, index), inner) for index, inner in reversed(list(enumerate(item)))]
        elif isinstance(item, str):
            problem = "a lone surrogate" if _has_surrogate(item) else None
        elif isinstance(item, _Unkeepable):
            problem = item.msg
        if problem is not None:
            found += 1
            yield _location(path), problem


def _location(path: tuple[Any, ...]) -> list[str | int]:
    """`path` is a chain of (rest, key) from the inside: cheaper to grow than a list for every value."""
    loc: list[str | int] = []
    while path:
        path, key = path
        loc.append(key.encode("utf-8", "replace").decode()[:100] if isinstance(key, str) else key)
    return loc[::-1]


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


# A string that never ends is one token: else each quotation mark in it would be tried as the beginning of another.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{]++|[\]}]++|:|,|-?[0-9][0-9.eE+-]*+', re.DOTALL)


def _outline(body: bytes) -> UnreadableError:
    """The error for a frame nested too deeply for a recursive parser; its id is found without descending into it."""
    depth = 0
    name = last = b""  # at the envelope's own level: the member we are in, and the token before
    members: dict[bytes, bytes] = {}
    for match in _TOKEN.finditer(body, 0, _MAX_OUTLINE):
        token = match[0]
        first = token[:1]
        if first in b"[{":
            depth += len(token)
        elif first in b"]}":
            depth -= len(token)
            if depth < 0:
                break
        elif depth == 1:
            if first == b":":
                name = last
                members[name] = b""
            elif first == b",":
                name = b""
            elif name and not members[name]:
                members[name] = token
            last = token
    if depth != 0 and len(body) <= _MAX_OUTLINE:
        return _no_json("brackets do not match")
    envelope: dict[str, Any] = {"method": None} if b'"method"' in members else {}
    if b'"id"' in members:
        try:
            envelope["id"] = _decode(members[b'"id"'] or b"null")
        except (msgspec.DecodeError, UnicodeDecodeError):
            envelope["id"] = None
    return _nested_too_deeply(envelope)


class Pieces:
    """JSON text in pieces, of a value that is too long to be copied from one place to the next."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __or__(self, members: dict[str, Any]) -> Pieces:
        """This JSON object with more members, as dicts have it; none of them may be there already."""
        return Pieces([*self.pieces[:-1], self.pieces[-1][:-1], b"," + encode_usual(members)[1:]])

    def to_wire(self) -> msgspec.Raw:
        return msgspec.Raw(b"".join(self.pieces))


def _to_json(value: Any) -> Any:
    """Encode a type that no encoder knows: the models of the protocol, by their wire names; spliced text for `json`."""
    if isinstance(value, msgspec.Raw):
        return json.loads(bytes(value))
    to_wire = getattr(value, "to_wire", None)
    if to_wire is None:
        raise TypeError(f"{type(value).__qualname__} has no JSON form")
    return to_wire()


encode_usual: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_to_json).encode
"""Encode JSON like `encode`, except that lone surrogates raise UnicodeEncodeError."""


def encode(message: Any) -> bytes:
    """`message` as JSON on one line, `msgspec.Raw` spliced in as it is. Raises TypeError for what has no JSON form."""
    try:
        return encode_usual(message)
    except UnicodeEncodeError:
        # A lone surrogate, from a log somebody else wrote: legal JSON when escaped, and kept that way.
        return json.dumps(message, default=_to_json, allow_nan=False, separators=(",", ":")).encode()


def plain(result: Any) -> Any:
    """A result as a value, whether it is one already or still text."""
    return msgspec.json.decode(result) if isinstance(result, msgspec.Raw) else result
