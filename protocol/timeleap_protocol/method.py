"""What a row of the method table says, and how rows are written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec import convert
from msgspec.json import Encoder

from timeleap_protocol.errors import ErrorKind, InvalidParamsError, validation_errors

if TYPE_CHECKING:
    from timeleap_protocol.base import Model
    from timeleap_protocol.params import LenientStruct

Kind = Literal["request", "notification", "clientRequest", "serverNotification"]
"""Client to server: request, notification. Server to client: clientRequest, serverNotification."""

Scope = Literal["open", "any", "none"]
"""The session a method works on: one that is open on the connection, any one of the store, or none in particular."""

Order = Literal["free", "queue", "ahead", "blocks", "trash"]
"""When a request on a session begins, as seen from the others of its connection on that session:

free: It names no session.
queue: In the order of arrival.
ahead: As queue; though it changes something, it passes a request that waits for another party, as reads do.
blocks: As queue; requests behind it begin when it is done.
trash: As blocks; requests on the trash as a whole wait for it, and it for them.
"""

Cancel = Literal["anytime", "unbegun", "unwritten"]
"""Until when a request can be cancelled: until it is answered, until it begins, or until it begins to write, which its
handler sees to. After that it is finished, and answered with its result."""

Access = Literal["none", "read", "write"]
"""How the session has to be open on the connection, or is opened for the request: not at all, to be read, to be changed."""

Forward = Literal["never", "owner", "handler", "attach", "readsAhead"]
"""How a request on a session that another process owns gets to the owner:

never: It is done here.
owner: Passed on if the session is attached.
handler: Passed on by its handler, changed.
attach: As owner; where the session is not open here, it is attached for the time of the request.
readsAhead: As owner; what does not change the log may go ahead once the owner waits for another party.
"""

Opens = Literal["opens", "closes", "ends"]
"""What its success does to how often the session is open on the connection: once more, once less, not any more."""

IGNORED: Final = frozenset(
    {"expected_head", "request_id", "meta", "work_done_token", "partial_result_token", "timeout"}
)
"""Params that do not change the effect of a request."""
IGNORED_IN_SESSION: Final = IGNORED | {"session_id"}
"""The same, and how the session is called."""

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
        handler: `package.module.function` that answers it, or `Session.method` where that gets the params by their names;
            None where the connection does so itself.
        begun_by: `package.module.function` that answers it in the call that reads it, in fewer steps, or says that it cannot.
        formats: `package.module.function` that answers it instead where its params name a `format`.
        completed_by: `package.module.function` of a part outside the core that adds to the result, where the part is
            installed.
        scope: Which session it works on.
        order: When it begins.
        cancel: Until when it can be cancelled.
        access: How the session has to be open; a dry run only reads.
        forward: How it gets to the owner of the session.
        opens: What it does to how often the session is open; None: nothing.
        session_id_counts: A repeat has to name the session by the same id: its request id is kept by the store, or names
            a session that is not there yet.
        mutates: Whether it changes anything; then it takes `requestId` (and `expectedHead` where a log exists before).
        progress: Whether it reports `$/progress` when given a `workDoneToken`.
        brief: Though it reports progress, it takes long only where a session keeps files.
        waits: It is answered when a person has decided, which may take hours: nothing waits for it, and it ends with its
            connection. It takes a `requestId`.
        decides: It switches approvals, or answers somebody who asks for one: refused on a connection that only asks.
        on_mirrors: It may be done to the mirror of another program's session, too, though it changes something.
        errors: What can go wrong beyond what `all_errors` derives from the other members.
        since: The protocol version that introduced it.
        stale: While the store cannot be asked, it may be answered with less than was committed, if the store's URL says
            so; `stale` of its result tells. Of what also opens sessions to be changed only where they are to be read.
        needs_directory: Why a store in a database does not do it, in words; empty where it does.
        planned: Its shape is fixed, but no server answers it yet; it is not advertised.
    """

    name: str
    kind: Kind
    params: str
    result: str | None
    summary: str
    handler: str | None = None
    begun_by: str | None = None
    formats: str | None = None
    completed_by: str | None = None
    scope: Scope = "none"
    order: Order = "free"
    cancel: Cancel = "anytime"
    access: Access = "none"
    forward: Forward = "never"
    opens: Opens | None = None
    session_id_counts: bool = False
    mutates: bool = False
    progress: bool = False
    brief: bool = False
    waits: bool = False
    decides: bool = False
    on_mirrors: bool = False
    errors: tuple[ErrorKind, ...] = ()
    since: int = 1
    stale: bool = False
    needs_directory: str = ""
    planned: bool = False

    @cached_property
    def at_once(self) -> bool:
        """True if it can be worked on as soon as it is read, without a task of its own before it has to wait: it uses
        nothing that only a task has, such as a limit of time, before it waits for the session."""
        plain = self.order in ("queue", "ahead") and self.forward == "owner"
        return self.scope == "open" and plain and not self.waits and (not self.progress or self.brief)

    @cached_property
    def params_model(self) -> type[Model]:
        """The model of the params."""
        return cast("type[Model]", _class("", self.params))

    @cached_property
    def result_model(self) -> type[Model] | None:
        """The model of the result; None where there is no result or it is null."""
        return None if self.result is None else cast("type[Model]", _class("", self.result))

    @cached_property
    def params_struct(self) -> type[LenientStruct]:
        """What a server makes of the params; only of requests, and of what it asks a client."""
        return cast("type[LenientStruct]", _class("structs.", self.params))

    def read_params(self, params: dict[str, Any]) -> LenientStruct:
        """The params of a request from their JSON; no model is loaded for what is plainly right.

        Raises:
            InvalidParamsError: They do not fit.
        """
        try:
            return convert(params, self.params_struct)
        except ValueError:  # msgspec's, for one of the params or for two that exclude each other
            return self.params_struct.from_wire(self._judged(params))

    def _judged(self, params: dict[str, Any]) -> Any:
        """The params as the model has them: it takes what is rare (`timeleap_protocol.params`), or says what is wrong."""
        from pydantic import ValidationError

        try:
            return self.params_model.from_wire(params).to_wire()
        except ValidationError as error:
            raise InvalidParamsError(validation_errors(error)) from None

    def writes(self, params: Any) -> bool:
        """Whether a request needs write access; `params`: as they were read."""
        return self.access == "write" and not getattr(params, "dry_run", None)

    def may_be_stale(self, params: Any) -> bool:
        """Whether a request may be answered with less than was committed; `params`: as they were read."""
        return self.stale and (not self.mutates or getattr(params, "access", None) == "readOnly")

    def leaves_log_alone(self, params: Any) -> bool:
        """Whether a request changes no record, and may pass one that waits for another party; `params`: as they were read."""
        return not self.mutates or self.order == "ahead" or bool(getattr(params, "dry_run", None))

    def fingerprint(self, params: LenientStruct) -> str:
        """16 hexadecimal digits that tell one request from another with the same id; `params`: as they were read.

        Order of keys does not count, nor does what does not change the effect (expected head, tokens, `_meta`), nor what
        the session is called here: another process may know the same directory under another id.
        """
        value = self._identity(params)
        try:
            text = _encode_sorted(value)
        except (ValueError, OverflowError, RecursionError):  # a lone surrogate, say
            text = _in_ascii(value)
        return _hash(text)

    def earlier_fingerprints(self, params: LenientStruct) -> tuple[str, ...]:
        """Those that earlier releases made of the same request: of its JSON in ASCII."""
        return (_hash(_in_ascii(self._identity(params))),)

    def _identity(self, params: LenientStruct) -> list[Any]:
        return [self.name, params.not_null(IGNORED if self.session_id_counts else IGNORED_IN_SESSION)]

    @property
    def returns_state(self) -> bool:
        """Whether its result is the state of the session."""
        return self.result == "shapes.SessionState"

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
        if self.needs_directory:
            kinds.add(_E.NOT_SUPPORTED_BY_STORE)
        return tuple(kind for kind in ErrorKind if kind in kinds)


_encode_sorted = Encoder(order="sorted").encode


def _hash(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _in_ascii(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _plain(name: str) -> str:
    return name.replace("DMail", "Dmail").replace("/", "_").replace(".", "_").replace("$", "")


def _class(package: str, path: str) -> Any:
    module, name = path.split(".")
    return getattr(import_module(f"timeleap_protocol.{package}{module}"), name)


def request(name: str, params: str, result: str | None, summary: str, **rest: Any) -> Method:
    """A request of the client."""
    return Method(name, "request", params, result, summary, **rest)


def read(name: str, params: str, result: str, summary: str, *, handler: str, **rest: Any) -> Method:
    """A question about one session, unless `rest` says otherwise about one that is open; it may be stale."""
    row: dict[str, Any] = {"scope": "open", "order": "queue", "access": "read", "forward": "owner"} | rest
    row.setdefault("stale", row["access"] == "read" and not (row.get("mutates") or row.get("needs_directory")))
    return request(name, params, result, summary, handler=handler, **row)


def change(name: str, params: str, result: str, summary: str, *, handler: str, **rest: Any) -> Method:
    """A change of one session, unless `rest` says otherwise of one that is open."""
    row: dict[str, Any] = {"cancel": "unbegun", "access": "write", "mutates": True} | rest
    return read(name, params, result, summary, handler=handler, **row)


def notice(name: str, params: str, summary: str) -> Method:
    """A notification of the server."""
    return Method(name, "serverNotification", params, None, summary)
