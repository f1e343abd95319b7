"""How an error looks on the wire: decided here, once.

Nothing of a caller's message and no part of our source ever stands in an error or in the log. What nobody expected
becomes `internalError` with an incident id; under that id the log has the exception's type and its frames.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import traceback
from collections.abc import Iterable
from typing import Any, Final

from timeleap.clock import new_uid
from timeleap.errors import StorageFailureError, TimeleapError
from timeleap_protocol.errors import ERRORS, ErrorKind, InvalidParamsError

log = logging.getLogger(__name__)

MAX_MESSAGE: Final = 500
MAX_TEXT: Final = 1000
"""Characters of a text in `error.data`."""

WireError = dict[str, Any]
"""`error` of a reply: `{code, message, data: {kind, retryable, ...}}`."""


class RefusedError(Exception):
    """The protocol edge turns something down by itself; `data`: further members of `error.data`."""

    def __init__(self, kind: ErrorKind, message: str, **data: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.data = data


class OwnersRefusalError(TimeleapError):
    """The owner of a session answered with an error, which is passed on as it is."""

    def __init__(self, wire: WireError) -> None:
        super().__init__(str(wire.get("message")))
        self.wire = wire


def wire_error(kind: ErrorKind, message: str, *, retryable: bool | None = None, **data: Any) -> WireError:
    """An error of that kind; `retryable` is what the protocol's table says unless given."""
    spec = ERRORS[kind]
    said = spec.retryable if retryable is None else retryable
    return {
        "code": spec.code,
        "message": _shortened(message, MAX_MESSAGE),
        "data": {"kind": kind.value, "retryable": said, **_bounded(data)},
    }


def _bounded(value: Any) -> Any:
    """Shorten long texts, which a client may have sent."""
    if isinstance(value, str):
        return _shortened(value, MAX_TEXT)
    if isinstance(value, dict):
        return {name: _bounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_bounded(inner) for inner in value]
    return value


def _shortened(text: str, limit: int) -> str:
    """A text of at most `limit` characters; what is left out is in the middle: the reason often stands at the end."""
    if len(text) <= limit:
        return text
    begin = limit * 2 // 3
    return f"{text[:begin]}…{text[begin + 1 - limit :]}"


def refused_value(loc: Iterable[str | int], msg: str, kind: str) -> dict[str, Any]:
    """An entry of `data.errors`."""
    return {"loc": list(loc), "msg": msg, "type": kind}


def to_wire(error: BaseException, where: str = "") -> WireError:
    """The wire form of any exception; `where`: the method, for the log. Never fails: somebody waits for a reply."""
    try:
        return _to_wire(error, where)
    except Exception as fault:
        names = (type(error).__qualname__, where or "the protocol edge", type(fault).__qualname__)
        log.error("%s in %s has lost its details to %s", *names)  # no random digits for an incident, or no memory
        return wire_error(ErrorKind.INTERNAL_ERROR, "internal error", incident="none")


def _to_wire(error: BaseException, where: str) -> WireError:
    if isinstance(error, RefusedError):
        return wire_error(error.kind, error.message, **error.data)
    if isinstance(error, OwnersRefusalError):
        return error.wire
    if isinstance(error, TimeleapError):
        return _ours(error)
    if isinstance(error, InvalidParamsError):
        errors = error.errors
        named = [f"{'.'.join(map(str, entry['loc'])) or 'params'}: {entry['msg']}" for entry in errors[:3]]
        more = f" (and {len(errors) - len(named)} more)" if len(errors) > len(named) else ""
        return wire_error(ErrorKind.INVALID_PARAMS, f"invalid params: {'; '.join(named)}{more}", errors=errors)
    if isinstance(error, asyncio.CancelledError):
        return wire_error(ErrorKind.CANCELLED, "the request was cancelled; nothing was written")
    # A timeout is an OSError to Python, but without a number it is none of the operating system's.
    if isinstance(error, OSError) and error.errno is not None:
        log.warning("%s: the operating system refused: %s", where, errno.errorcode.get(error.errno, error.errno))
        return _ours(StorageFailureError.of(error, "do that"))
    incident = new_uid(8)
    log.error("incident %s in %s\n%s", incident, where or "the protocol edge", describe(error))
    message = f"internal error, incident {incident}"
    if isinstance(error, ImportError):
        message += (
            f": {error.name or 'a module'} could not be loaded; if the installation was changed or removed while this "
            "server ran, start it again"
        )
    return wire_error(ErrorKind.INTERNAL_ERROR, message, incident=incident)


def _ours(error: TimeleapError) -> WireError:
    kind = ErrorKind(error.kind)
    data: dict[str, Any] = {"retryable": error.retryable, **error.data}
    if kind is ErrorKind.INTERNAL_ERROR:
        data = {"incident": new_uid(8), **data}
    elif kind is ErrorKind.INVALID_PARAMS:
        data = {"errors": [refused_value([], error.message, "value_error")], **data}
    return wire_error(kind, error.message, **data)


def describe(error: BaseException) -> str:
    """An exception, its causes and their frames for the log, without their texts: those may quote a message."""
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(lines) < 200:
        lines.append(f"{type(cause).__module__}.{type(cause).__qualname__}")
        lines += [line.rstrip() for line in traceback.format_tb(cause.__traceback__)]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines)
