"""What must hold for EVERY message the server sends; the harness applies it to each one it receives.

The envelope is checked by hand, as an outsider would; params and results by the models of the method table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lsprotocol.converters import get_converter
from lsprotocol.types import METHOD_TO_TYPES
from pydantic import BaseModel, ValidationError

from timeleap_protocol.methods import METHODS
from timeleap_protocol.shapes import StateWarning

Message = dict[str, Any]
OF_LSP = ("textDocument/", "codeLens/", "codeAction/", "window/", "workspace/")
"""How the methods of LSP begin that a server answers, or sends, to a client that has documents."""
_PLAIN = (str, int, float, dict, type(None))

ANNOUNCED_BY_LSP = frozenset(
    f"ServerCapabilities.{name}"
    for name in (
        "positionEncoding", "textDocumentSync", "hoverProvider", "documentSymbolProvider", "codeActionProvider",
        "codeLensProvider", "documentLinkProvider", "workspaceSymbolProvider", "foldingRangeProvider",
        "executeCommandProvider", "inlayHintProvider", "diagnosticProvider", "workspace",
    )
)  # fmt: skip
"""What a server announces to a client that has documents, beside what the table knows."""

KINDS: dict[int, str] = {
    -32700: "parseError",
    -32600: "invalidRequest",
    -32601: "methodNotFound",
    -32602: "invalidParams",
    -32603: "internalError",
    -32002: "notInitialized",
    -32800: "cancelled",
    -32801: "contentModified",
    4001: "sessionNotFound",
    4002: "checkpointNotFound",
    4003: "sessionLocked",
    4004: "readOnly",
    4005: "storageFailure",
    4006: "compactionFailed",
    4007: "dmailPending",
    4008: "noPendingDMail",
    4009: "timelineNotFound",
    4010: "invalidSessionId",
    4011: "tooLarge",
    4012: "overloaded",
    4013: "sessionNotOpen",
    4014: "corrupted",
    4015: "externallyModified",
    4016: "sessionExists",
    4017: "protocolVersion",
    4018: "nothingToUndo|nothingToRedo",
    4020: "filesUnavailable",
    4021: "filesConflict",
    4022: "filesIncomplete",
    4023: "filesTooLarge",
    4024: "filesBusy",
    4025: "snapshotNotFound",
    4026: "approvalNotPending",
    4027: "approvalTimeout",
    4028: "notSupportedByStore",
}
UNREADABLE = {-32700, -32600, 4011, 4012}
"""The codes an answer with `id: null` may carry: what could not be read, and what ends a connection."""

DATA: dict[int, set[str]] = {-32801: {"head"}, 4005: {"path", "errno"}, -32602: {"errors"}}
"""What `error.data` has to carry beside `kind` and `retryable`."""


def check_envelope(message: Any) -> None:
    """Fail unless `message` is a well-formed reply, notification or request of ours."""
    assert isinstance(message, dict) and message.get("jsonrpc") == "2.0", message
    if "method" in message:
        assert set(message) <= {"jsonrpc", "id", "method", "params"}, message
        assert isinstance(message["method"], str)
        assert isinstance(message.get("params", {}), dict), message
        return
    assert "id" in message, message
    assert isinstance(message["id"], str | int | None) and not isinstance(message["id"], bool), message
    if "error" in message:
        assert set(message) == {"jsonrpc", "id", "error"}, message
        check_error(message["error"], has_id=message["id"] is not None)
    else:
        assert set(message) == {"jsonrpc", "id", "result"}, message
        assert message["id"] is not None, message


def check_error(error: Any, *, has_id: bool) -> None:
    """Fail unless `error` is of the form the contract gives every error."""
    assert set(error) == {"code", "message", "data"}, error
    code, data = error["code"], error["data"]
    assert isinstance(error["message"], str) and error["message"].strip(), error
    assert data["kind"] in KINDS[code].split("|"), error
    assert isinstance(data["retryable"], bool), error
    assert has_id or code in UNREADABLE, error
    for leak in ("Traceback", 'File "', "site-packages", ".py:", '.py"'):
        assert leak not in str(error), error
    for problem in data.get("errors", ()):
        assert set(problem) == {"loc", "msg", "type"}, error
        assert all(isinstance(part, str | int) for part in problem["loc"]), error
    missing = (DATA.get(code, set()) if "store" not in data else {"store", "reason"}) - set(data)
    assert not missing, (missing, error)


def check_content(message: Message, method: str | None) -> None:
    """Fail unless params or result are what the method table says, with nothing the table does not know.

    Args:
        message: One that passed `check_envelope`.
        method: What a reply answers; None where nobody knows.
    """
    named = str(message.get("method") or method or "")
    row = METHODS.get(named)
    if row is None and named.startswith(OF_LSP):
        _check_lsp(message, named)
    elif "method" in message:
        both_ways = message["method"] == "$/cancelRequest"  # as in LSP: a question of the server's is taken back
        assert row is not None and (both_ways or row.kind in ("serverNotification", "clientRequest")), message
        _check_value(row.params_model, message.get("params", {}), message)
    elif "result" in message and row is not None:
        if row.result_model is None:
            assert message["result"] is None, message
        else:
            _check_value(row.result_model, message["result"], message)


def _check_lsp(message: Message, method: str) -> None:
    """Fail unless a message of LSP is what lsprotocol says."""
    request, response = METHOD_TO_TYPES[method][:2]
    if "error" not in message:
        model: Any = request if "method" in message else response
        get_converter().structure(message, model)


def _check_value(model: type[Any], value: Any, message: Message) -> None:
    try:
        parsed = model.from_wire(value)
    except ValidationError as error:
        raise AssertionError(f"{model.__name__} is not the shape of {str(message)[:2000]}: {error}") from None
    unknown = [name for name in _unknown(parsed) if name not in ANNOUNCED_BY_LSP]
    assert not unknown, f"the method table does not know {unknown} of {model.__name__}"


def _unknown(value: Any) -> Iterator[str]:
    """Members of ours that no model names, at any depth; members of messages are the caller's business.

    It looks at each value of each message, so what is no model costs a look at its type.
    """
    if isinstance(value, BaseModel):
        if isinstance(value, StateWarning):
            return
        # Fields by the name of `root`, too: in the place of a value that a model wraps.
        if value.__pydantic_extra__:
            yield from (f"{type(value).__name__}.{name}" for name in value.__pydantic_extra__)
        inner: Iterable[Any] = value.__dict__.values()
    elif isinstance(value, list):
        inner = value
    else:
        return
    for each in inner:
        if not isinstance(each, _PLAIN):
            yield from _unknown(each)
