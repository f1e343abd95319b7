"""The errors of the protocol: stable kinds, their codes, and how a failed validation is reported.

`data.kind` is what programs compare; the code is derived from it. No other module knows a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MAX_REPORTED: Final = 50
"""Errors of one validation that are reported; a list of a thousand bad messages needs no thousand entries."""

_MAX_NAME: Final = 100
"""Characters of a caller's own field name that are repeated to it."""

_IN_JSON_WORDS: Final = {
    "model_type": "Input should be an object",
    "model_attributes_type": "Input should be an object",
    "dict_type": "Input should be an object",
    "list_type": "Input should be an array",
}
"""Messages that would otherwise speak of Python's types and our class names."""


class ErrorKind(StrEnum):
    """What went wrong, as `error.data.kind` has it."""

    PARSE_ERROR = "parseError"
    INVALID_REQUEST = "invalidRequest"
    METHOD_NOT_FOUND = "methodNotFound"
    INVALID_PARAMS = "invalidParams"
    INTERNAL_ERROR = "internalError"
    NOT_INITIALIZED = "notInitialized"
    CANCELLED = "cancelled"
    CONTENT_MODIFIED = "contentModified"
    SESSION_NOT_FOUND = "sessionNotFound"
    CHECKPOINT_NOT_FOUND = "checkpointNotFound"
    SESSION_LOCKED = "sessionLocked"
    READ_ONLY = "readOnly"
    STORAGE_FAILURE = "storageFailure"
    COMPACTION_FAILED = "compactionFailed"
    DMAIL_PENDING = "dmailPending"
    NO_PENDING_DMAIL = "noPendingDMail"
    TIMELINE_NOT_FOUND = "timelineNotFound"
    INVALID_SESSION_ID = "invalidSessionId"
    TOO_LARGE = "tooLarge"
    OVERLOADED = "overloaded"
    SESSION_NOT_OPEN = "sessionNotOpen"
    CORRUPTED = "corrupted"
    EXTERNALLY_MODIFIED = "externallyModified"
    SESSION_EXISTS = "sessionExists"
    PROTOCOL_VERSION = "protocolVersion"
    NOTHING_TO_UNDO = "nothingToUndo"
    NOTHING_TO_REDO = "nothingToRedo"
    FILES_UNAVAILABLE = "filesUnavailable"
    FILES_CONFLICT = "filesConflict"
    FILES_INCOMPLETE = "filesIncomplete"
    FILES_TOO_LARGE = "filesTooLarge"
    FILES_BUSY = "filesBusy"
    SNAPSHOT_NOT_FOUND = "snapshotNotFound"
    APPROVAL_NOT_PENDING = "approvalNotPending"
    APPROVAL_TIMEOUT = "approvalTimeout"
    NOT_SUPPORTED_BY_STORE = "notSupportedByStore"


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """One error of the protocol.

    Attributes:
        kind: The stable name.
        code: The JSON-RPC code.
        retryable: Whether the same request may succeed later, unless the error at hand says otherwise.
        summary: What it means to a caller.
        members: What `data` has beside `kind` and `retryable`, by name, with what it says.
    """

    kind: ErrorKind
    code: int
    retryable: bool
    summary: str
    members: dict[str, str]


def _table(*rows: tuple[ErrorKind, int, bool, str, dict[str, str]]) -> dict[ErrorKind, ErrorSpec]:
    return {row[0]: ErrorSpec(*row) for row in rows}


_OWNER = {"owner": "who holds it: `{pid, host, since}`"}
_HEAD = {"head": "the present head"}
_STEPS = {"canUndo": "how many steps can be undone", "canRedo": "how many can be redone"}

ERRORS: Final[dict[ErrorKind, ErrorSpec]] = _table(
    (ErrorKind.PARSE_ERROR, -32700, False, "What arrived is not JSON.", {}),
    (ErrorKind.INVALID_REQUEST, -32600, False, "JSON, but no request that can be taken here and now.", {}),
    (ErrorKind.METHOD_NOT_FOUND, -32601, False, "No method of that name.", {}),
    (
        ErrorKind.INVALID_PARAMS,
        -32602,
        False,
        "The params do not fit the method; every misfit is named.",
        {"errors": "list of `{loc, msg, type}`, `loc` being the path of wire names"},
    ),
    (
        ErrorKind.INTERNAL_ERROR,
        -32603,
        False,
        "A fault of the server; details are in its log only.",
        {"incident": "the id under which the log has the details"},
    ),
    (ErrorKind.NOT_INITIALIZED, -32002, False, "Sent before `initialize`.", {}),
    (ErrorKind.CANCELLED, -32800, False, "Cancelled; nothing was written.", {}),
    (ErrorKind.CONTENT_MODIFIED, -32801, True, "The log is not at the head (or cursor) the request names.", _HEAD),
    (ErrorKind.SESSION_NOT_FOUND, 4001, False, "No such session.", {}),
    (ErrorKind.CHECKPOINT_NOT_FOUND, 4002, False, "The present log has no such checkpoint.", {}),
    (ErrorKind.SESSION_LOCKED, 4003, True, "Another process writes to the session.", _OWNER),
    (
        ErrorKind.READ_ONLY,
        4004,
        False,
        "The session is open to look at, not to change; or this connection may not change that.",
        {"reason": "`mirrored`, `approvalKey` or `onlyAsks`, where it is not the access"},
    ),
    (
        ErrorKind.STORAGE_FAILURE,
        4005,
        True,
        "The operating system, or the database, refused; nothing was changed.",
        {
            "path": "the file or directory",
            "errno": "the symbolic name, such as `ENOSPC`",
            "store": "the database that refused, without user and password",
            "reason": "`unreachable`, `authentication`, `rights`, `newerSchema`, `readOnly`, `full`, `lost`, `busy`, `timeout` or `pooler`",
            "outcome": "`unknown` where it may have been made all the same: ask again with the same `requestId`",
        },
    ),
    (ErrorKind.COMPACTION_FAILED, 4006, True, "No usable summary could be had; nothing was changed.", {}),
    (ErrorKind.DMAIL_PENDING, 4007, False, "A D-Mail is pending already.", {}),
    (ErrorKind.NO_PENDING_DMAIL, 4008, False, "No D-Mail is pending.", {}),
    (ErrorKind.TIMELINE_NOT_FOUND, 4009, False, "The session has no such timeline.", {}),
    (ErrorKind.INVALID_SESSION_ID, 4010, False, "The session id does not have the allowed form.", {}),
    (ErrorKind.TOO_LARGE, 4011, False, "Over a limit that `initialize` announced.", {}),
    (ErrorKind.OVERLOADED, 4012, True, "The server cannot take more right now.", {}),
    (ErrorKind.SESSION_NOT_OPEN, 4013, False, "The session exists, but is not open on this connection.", {}),
    (ErrorKind.CORRUPTED, 4014, False, "Stored data is damaged where it cannot be worked around.", {}),
    (
        ErrorKind.EXTERNALLY_MODIFIED,
        4015,
        False,
        "A program that takes no lock changed the log; `session/reload` takes its state over.",
        {},
    ),
    (ErrorKind.SESSION_EXISTS, 4016, False, "The session id is taken.", {}),
    (
        ErrorKind.PROTOCOL_VERSION,
        4017,
        False,
        "The client speaks another version of the protocol.",
        {"supported": "the version the server speaks"},
    ),
    (ErrorKind.NOTHING_TO_UNDO, 4018, False, "Fewer steps can be undone; nothing was changed.", _STEPS),
    (ErrorKind.NOTHING_TO_REDO, 4018, False, "Fewer steps can be redone; nothing was changed.", _STEPS),
    (
        ErrorKind.FILES_UNAVAILABLE,
        4020,
        False,
        "The workspace's files cannot be kept; everything else goes on.",
        {"reason": "`noGit`, `notConfigured`, `rootMissing` or `rootUnsafe`"},
    ),
    (
        ErrorKind.FILES_CONFLICT,
        4021,
        False,
        "Files were changed by somebody else since; nothing was changed.",
        {"paths": "the first 200 of them", "more": "how many are not listed"},
    ),
    (
        ErrorKind.FILES_INCOMPLETE,
        4022,
        False,
        "A restore was interrupted, and files are neither as before nor as they should be.",
        {
            "before": "the snapshot of the files before it",
            "target": "the snapshot it restored",
            "paths": "the first 200 files that are neither",
            "more": "how many are not listed",
        },
    ),
    (
        ErrorKind.FILES_TOO_LARGE,
        4023,
        False,
        "The workspace has more files than a snapshot may hold; exclude some, or raise `maxFiles`.",
        {"files": "how many there are", "limit": "how many there may be"},
    ),
    (ErrorKind.FILES_BUSY, 4024, True, "Another process takes or restores a snapshot of the same folder.", {}),
    (ErrorKind.SNAPSHOT_NOT_FOUND, 4025, False, "There is no such snapshot (any more).", {}),
    (ErrorKind.APPROVAL_NOT_PENDING, 4026, False, "No approval of that id waits for a decision (any more).", {}),
    (ErrorKind.APPROVAL_TIMEOUT, 4027, True, "Nobody decided in time.", {}),
    (
        ErrorKind.NOT_SUPPORTED_BY_STORE,
        4028,
        False,
        "The store cannot do this; `initialize` lists such methods.",
        {"method": "the method"},
    ),
)
"""Every error, in the order of the spec."""

_BY_CODE: Final = {spec.code: spec for spec in reversed(ERRORS.values())}


def code_of(kind: str) -> int:
    """The JSON-RPC code of `kind`.

    Raises:
        ValueError: The protocol has no such kind.
    """
    return ERRORS[ErrorKind(kind)].code


def spec_of_code(code: int) -> ErrorSpec | None:
    """The (first) error with that code, or None for a code of somebody else's."""
    return _BY_CODE.get(code)


class InvalidParamsError(Exception):
    """Params do not fit their method; `errors`: what `data.errors` says about it."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        super().__init__(f"{len(errors)} misfits")
        self.errors = errors


def validation_errors(error: ValidationError) -> list[dict[str, Any]]:
    """What `data.errors` says about a failed validation.

    The values that were sent are never repeated: they may be message bodies or keys. Names of fields are, shortened.

    Args:
        error: What pydantic raised for params that came over the wire.

    Returns:
        At most `MAX_REPORTED` of `{loc, msg, type}`; `loc` is the path of wire names and list positions.
    """
    found = error.errors(include_url=False, include_input=False)
    return [_entry(_place(item), item["msg"], item["type"]) for item in found[:MAX_REPORTED]]


def _place(item: ErrorDetails) -> tuple[int | str, ...]:
    """Where it is; of fields that exclude each other, the model says which one is meant."""
    field = item.get("ctx", {}).get("field") if item["type"] == "choice" else None
    return item["loc"] if field is None else (*item["loc"], field)


def _entry(loc: Iterable[int | str], msg: str, kind: str) -> dict[str, Any]:
    path = [part if isinstance(part, int) else part[:_MAX_NAME] for part in loc]
    if kind == "extra_forbidden" and path:
        msg = f"Unknown field '{path[-1]}'"
    elif kind == "missing" and path:
        msg = f"Field '{path[-1]}' is required"
    elif kind in _IN_JSON_WORDS:
        msg = _IN_JSON_WORDS[kind]
    return {"loc": path, "msg": msg, "type": kind}
