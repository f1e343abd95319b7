"""What a row of the method table says, and how rows are written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from timeleap_protocol.errors import ErrorKind

if TYPE_CHECKING:
    from timeleap_protocol.base import Model

Kind = Literal["request", "notification", "clientRequest", "serverNotification"]
"""Client to server: request, notification. Server to client: clientRequest, serverNotification."""

Scope = Literal["open", "any", "none"]
"""The session a method works on: one that is open on the connection, any one of the store, or none in particular."""

_E = ErrorKind

_REQUEST_ERRORS: Final = (_E.INVALID_PARAMS, _E.INTERNAL_ERROR, _E.CANCELLED, _E.OVERLOADED, _E.TOO_LARGE)
_SESSION_ERRORS: Final = (_E.INVALID_SESSION_ID, _E.SESSION_NOT_FOUND)
_CHANGE_ERRORS: Final = (_E.CONTENT_MODIFIED, _E.READ_ONLY, _E.EXTERNALLY_MODIFIED, _E.STORAGE_FAILURE)


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes:
        name: The wire name.
        kind: Who sends it to whom, and whether it is answered.
        params: `module.Class` of its params.
        result: `module.Class` of its result; None: it has none, or the result is null.
        summary: One line.
        scope: Which session it works on.
        serialize_by: `session`: requests on one session begin, and take effect, in the order of their arrival.
            None: it may be answered out of turn.
        mutates: Whether it changes anything; then it takes `requestId` (and `expectedHead` where a log exists before).
        progress: Whether it reports `$/progress` when given a `workDoneToken`.
        waits: It is answered when a person has decided, which may take hours: nothing waits for it, and it ends with its
            connection. It takes a `requestId`.
        errors: What can go wrong beyond what `all_errors` derives from the other members.
        since: The protocol version that introduced it.
        planned: Its shape is fixed, but no server answers it yet; it is not advertised.
    """

    name: str
    kind: Kind
    params: str
    result: str | None
    summary: str
    scope: Scope = "none"
    serialize_by: Literal["session"] | None = None
    mutates: bool = False
    progress: bool = False
    waits: bool = False
    errors: tuple[ErrorKind, ...] = ()
    since: int = 1
    planned: bool = False

    @cached_property
    def params_model(self) -> type[Model]:
        """The model of the params."""
        return _model(self.params)

    @cached_property
    def result_model(self) -> type[Model] | None:
        """The model of the result; None where there is no result or it is null."""
        return None if self.result is None else _model(self.result)

    @property
    def works_unopened(self) -> bool:
        """Whether it also works on sessions that are not open on the connection."""
        return self.scope != "open"

    @property
    def python_name(self) -> str:
        """`context/appendMessage` as a Python name: `context_append_message`."""
        return "".join(f"_{char.lower()}" if char.isupper() else char for char in _plain(self.name)).strip("_")

    @property
    def flat_name(self) -> str:
        """`context/appendMessage` as one identifier: `contextAppendMessage`; `$/progress` is `progress`."""
        first, *rest = [word for word in self.name.replace(".", "/").split("/") if word != "$"]
        return first + "".join(word[0].upper() + word[1:] for word in rest)

    @property
    def all_errors(self) -> tuple[ErrorKind, ...]:
        """Every error a call can get once it was recognised, without repeats, in the order of the error table."""
        if self.kind != "request":
            return self.errors
        kinds = {*_REQUEST_ERRORS, *self.errors}
        if self.scope != "none":
            kinds.update(_SESSION_ERRORS)
        if self.scope == "open":
            kinds.add(_E.SESSION_NOT_OPEN)
        if self.mutates:
            kinds.update(_CHANGE_ERRORS)
        return tuple(kind for kind in ErrorKind if kind in kinds)


def _plain(name: str) -> str:
    return name.replace("DMail", "Dmail").replace("/", "_").replace(".", "_").replace("$", "")


def _model(path: str) -> type[Model]:
    module, name = path.split(".")
    return cast("type[Model]", getattr(import_module(f"timeleap_protocol.{module}"), name))


def request(name: str, params: str, result: str | None, summary: str, **rest: Any) -> Method:
    """A request of the client."""
    return Method(name, "request", params, result, summary, **rest)


def read(name: str, params: str, result: str, summary: str, **rest: Any) -> Method:
    """A question about one open session."""
    row: dict[str, Any] = {"scope": "open", "serialize_by": "session"} | rest
    return request(name, params, result, summary, **row)


def change(name: str, params: str, result: str, summary: str, *errors: ErrorKind, **rest: Any) -> Method:
    """A change of one open session."""
    row: dict[str, Any] = {"scope": "open", "serialize_by": "session", "mutates": True, "errors": errors} | rest
    return request(name, params, result, summary, **row)


def notice(name: str, params: str, summary: str) -> Method:
    """A notification of the server."""
    return Method(name, "serverNotification", params, None, summary)
