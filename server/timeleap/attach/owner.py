"""The process that owns a session: how it is reached, requests passed on to it, changes read from its notifications."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from timeleap.attach.peer_api import PeerLostError
from timeleap.errors import SessionLockedError
from timeleap.sessions.listing import holder_of
from timeleap.storage.lock import Endpoint
from timeleap_protocol.limits import DEFAULT_APPROVAL_TIMEOUT
from timeleap_protocol.methods import REQUESTS

if TYPE_CHECKING:
    from timeleap.call import Call

_NOT_PASSED_ON = frozenset({"workDoneToken", "sessionId"})


def endpoint_of(directory: Path) -> Endpoint:
    """The endpoint of the owner of a session, from its record.

    Raises:
        PeerLostError: The record has no endpoint that can be used here.
    """
    holder = holder_of(directory)
    host = (holder.owner or {}).get("host")
    if host is not None and host != socket.gethostname():
        raise PeerLostError(f"it runs on {host}, and can only be reached from there", hopeless=True)
    if holder.endpoint is None:
        raise PeerLostError("it does not say how it is reached")
    if "problem" in holder.endpoint:
        raise PeerLostError(f"it cannot be reached: {holder.endpoint['problem']}", hopeless=True)
    return holder.endpoint


def unreachable(lost: PeerLostError, owner: dict[str, Any] | None) -> SessionLockedError:
    """The refusal for a session whose owner cannot be asked."""
    who = f"process {owner.get('pid')} on {owner.get('host')}" if owner is not None else "another process"
    why = str(lost).rstrip(".")
    message = f'the session is owned by {who}, but {why}. Try again, or open it with access "readOnly" to follow it'
    return SessionLockedError(message, owner=owner)


@dataclass(slots=True)
class Forwarded:
    """A request that is not answered yet.

    Attributes:
        method: Its wire name.
        params: In wire names, but for the session's: its owner may know it by another.
        model: The same, for doing it here.
        call: Its circumstances.
        answer: The answer to the client.
        own_id: Its request id was made here.
        again: It was asked for before.
        until: Of a request that waits for a decision: the time on the loop's clock at which it times out.
        withdrawn: The client no longer waits for it.
        task: Carries it out here, since we own the session.
        repeat: The client has used its request id before: it repeats something.
    """

    method: str
    params: dict[str, Any]
    model: Any
    call: Call
    answer: asyncio.Future[Any]
    own_id: bool = False
    again: bool = False
    until: float | None = None
    withdrawn: bool = False
    task: asyncio.Task[Any] | None = None
    repeat: bool = False

    @property
    def request_id(self) -> str | None:
        """Of a change: its request id, the client's own or one made here."""
        request_id = self.params.get("requestId")
        return request_id if isinstance(request_id, str) and REQUESTS[self.method].mutates else None

    def only_what_is_left(self) -> None:
        """Shorten its timeout by the time it has waited, before it is sent again."""
        if self.until is not None:
            left = max(0.001, self.until - asyncio.get_running_loop().time())
            self.params["timeout"] = left
            self.model = self.model.model_copy(update={"timeout": left})

    def settle_as(self, task: asyncio.Task[Any]) -> None:
        """Answer it with the outcome of `task`."""
        if self.answer.done():
            return
        if task.cancelled():
            self.answer.cancel()
        elif (error := task.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())


def forwarded(method: str, model: Any, call: Call, request_ids: Iterator[str]) -> Forwarded:
    """A request as it is passed on: a change without a request id gets the next of `request_ids`."""
    params = {name: value for name, value in given_params(model, call).items() if name not in _NOT_PASSED_ON}
    request = Forwarded(method, params, model, call, asyncio.get_running_loop().create_future())
    row = REQUESTS[method]
    if row.waits:
        request.until = asyncio.get_running_loop().time() + (model.timeout or DEFAULT_APPROVAL_TIMEOUT)
    if (row.mutates or row.waits) and getattr(model, "request_id", "") is None:
        params["requestId"] = next(request_ids)
        request.own_id = True
        request.model = model.model_copy(update={"request_id": params["requestId"]})
    return request


def given_params(model: Any, call: Call) -> dict[str, Any]:
    """The params of a request as they came, without the nulls that mean nothing."""
    given: dict[str, Any] = model.without_nulls(dict(call.params))
    return given


class ForwardedChange(msgspec.Struct, rename="camel"):
    """The members of an owner's notification that are used here; empty if absent."""

    session_id: str = ""
    head: str = ""
    kind: str = ""


_decode_change = msgspec.json.Decoder(ForwardedChange).decode


def read_change(params: bytes) -> ForwardedChange:
    """Decode the params of a notification; empty if they are malformed."""
    try:
        return _decode_change(params)
    except msgspec.MsgspecError:
        return ForwardedChange()


def as_here(params: bytes, theirs: str, ours: str) -> Any:
    """The params of an owner's notification, with the session called as it is here.

    Args:
        params: JSON text, spliced as it is where nothing has to be changed.
        theirs: The session's id in the owner's process.
        ours: Its id here.
    """
    if theirs == ours:
        return msgspec.Raw(params)
    return {**msgspec.json.decode(params), "sessionId": ours}


def plain(result: Any) -> Any:
    """A result as a value, whether it is one already or still text."""
    return msgspec.json.decode(result) if isinstance(result, msgspec.Raw) else result
