"""A session that another process owns, as one client of ours has it open.

Requests are passed on to the owner in the order they come, its notifications to the client. Each change carries a
request id, the client's own or one made here, so that it can be asked for again where its effect is not known.

When the owner ends, all attached processes race for the lock. The winner opens the session from disk and is the
owner from then on: this object has done its work, and what was not answered is done here. The others attach to the
winner and ask it what was not answered. In both cases the order stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from timeleap.attach.handover import META, HandoverNote, deleted, note_of
from timeleap.attach.notified import NotifiedApprovals, as_here, read_change
from timeleap.attach.peer import PeerCallbacks, PeerConnection, PeerLostError, attach, endpoint_of, unreachable
from timeleap.clock import new_uid
from timeleap.errors import CancelledError, SessionLockedError, SessionNotFoundError, SessionNotOpenError, TimeleapError
from timeleap.json_value import Json
from timeleap.rpc.codec import plain
from timeleap.rpc.errors import OwnersRefusalError
from timeleap.sessions.kernel.session_view import CHANGES, changed
from timeleap.sessions.shapes import CONTEXT, SESSION, Effect, set_members
from timeleap.storage.record import MADE_HERE
from timeleap.store.listing import holder_of
from timeleap_protocol.approval_rows import LIST as LIST_APPROVALS
from timeleap_protocol.errors import ERRORS, ErrorKind
from timeleap_protocol.limits import DEFAULT_APPROVAL_TIMEOUT
from timeleap_protocol.methods import REQUESTS

if TYPE_CHECKING:
    from timeleap.call import Call, Client
    from timeleap.sessions.session import Session
    from timeleap.storage.log_values import Progress
    from timeleap.store.open_sessions import SessionLocation
    from timeleap.store.store import OpenedSession

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds without an answering owner after which requests are refused; the search for an owner continues."""

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25
_LAST_CALL = 0.25  # seconds after the end of input in which an answer may come that needs no person
_REMEMBERED = 1024  # requests of the client, and changes it has heard of: as many as it may have in flight
_NOT_OPEN = ERRORS[ErrorKind.SESSION_NOT_OPEN].code
_NOT_FOUND = ERRORS[ErrorKind.SESSION_NOT_FOUND].code
_MEMBERS = {**{kind: member for member, kind in CHANGES.items()}, "unarchived": "archived"}
_NOT_PASSED_ON = frozenset({"workDoneToken", "sessionId"})


class Forwarded(Struct, eq=False):
    """A request that is not answered yet."""

    method: str
    params: dict[str, Any]  # in wire names, but for the session's: its owner may know it by another
    model: Any  # the same, for doing it here
    call: Call
    answer: asyncio.Future[Any]
    own_id: bool = False  # its request id was made here
    repeat: bool = False  # the client has used its request id before
    again: bool = False  # it was asked for before
    until: float | None = None  # of one that waits for a decision: the time on the loop's clock at which it times out
    withdrawn: bool = False  # the client no longer waits for it
    task: asyncio.Task[Any] | None = None  # carries it out here, since we own the session

    @property
    def request_id(self) -> str | None:
        """Request id of a change: the client's own, or one made here."""
        request_id = self.params.get("requestId")
        return request_id if isinstance(request_id, str) and REQUESTS[self.method].mutates else None

    def settle_as(self, task: asyncio.Task[Any]) -> None:
        if self.answer.done():
            return
        if task.cancelled():
            self.answer.cancel()
        elif (error := task.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())


class AttachmentHost(Protocol):
    """Interface of the process that has an attached session open (`timeleap.service.service.Service`)."""

    async def own(self, place: SessionLocation, progress: Progress | None = None) -> OpenedSession: ...
    def reachable(self) -> AbstractAsyncContextManager[None]: ...
    async def act(self, method: str, params: Any, call: Call) -> Any: ...
    def forget(self, client: Client, attachment: Attachment) -> None: ...
    def replace(self, client: Client, attachment: Attachment, session: Session) -> None: ...


class Attachment:
    """A session that is open here through its owner.

    With `quiet` the client does not have it open, and is told nothing but the answers to its requests.
    """

    access = "attached"

    def __init__(self, service: AttachmentHost, client: Client, place: SessionLocation, *, quiet: bool = False) -> None:
        self.place = place
        self.times = 1  # how often the client has it open
        self.notified_approvals = NotifiedApprovals()
        self._quiet = quiet
        self._service = service
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._peer: PeerConnection | None = None
        self._owners_id = place.session_id
        self._uid = ""
        self._head = ""
        self._notified_state = NotifiedState()
        self._heard: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)  # heads and kinds of changes of the log
        self._given: dict[str, None] = {}  # request ids of the client's that were not refused
        self._missed = False  # it is not known whether the client has heard of all changes up to the head
        self._unanswered: dict[Forwarded, None] = {}  # in the order they came
        name = new_uid(12)
        self._request_ids = (f"{MADE_HERE}{name}.{number}" for number in itertools.count(1))
        self._search: asyncio.Task[None] | None = None
        self._reaching_out = False
        self._leaving: asyncio.Task[None] | None = None
        self._held_back: list[tuple[str, bytes]] = []  # what came before the client knew that the session is open
        self._closed = False
        self._congested = False
        self._stop_watching = client.watch_congestion(self._regulate)

    # Opening and closing

    async def open(self, params: Json, progress: Progress | None = None) -> Json | OpenedSession:
        """Attach to the owner of the session; own it if there is no owner any more.

        `params` are those of the `session/open` that the owner is asked, beside the path. Returns the session's state;
        or the session, which is ours.

        Raises:
            SessionLockedError: It has an owner that cannot be reached, or does not answer.
            SessionNotFoundError: It was deleted, and may be another one by now.
            TimeleapError: As opening it; OwnersRefusalError if the owner refuses.
        """
        until, pause = self._loop.time() + PATIENCE, _FIRST_PAUSE
        lost = PeerLostError("it is not known")
        while True:
            self._reaching_out = True
            try:
                return await self._attach(params)
            except PeerLostError as error:
                lost = error
            except OwnersRefusalError as error:
                if self._uid and error.wire.get("code") == _NOT_FOUND:
                    raise deleted(self.place.session_id) from None
                if error.wire.get("code") != _NOT_OPEN:  # it is about to be the owner, or was
                    raise
            finally:
                self._reaching_out = False
            try:
                return await self._own(progress)
            except SessionLockedError as locked:
                if lost.hopeless or lost.hung or self._loop.time() >= until:
                    raise unreachable(lost, locked.data.get("owner")) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _own(self, progress: Progress | None) -> OpenedSession:
        found = await self._service.own(self.place, progress)
        try:
            if self._uid and not found.session.meta.is_of(self._uid):
                raise deleted(self.place.session_id)
        except BaseException:  # also where that cannot be read: the opening would be left behind
            await found.session.aclose()
            raise
        return found

    async def _attach(self, params: Json) -> Json:
        endpoint = endpoint_of(self.place.directory)
        note = HandoverNote(unanswered=self._in_doubt(), approvals=self.notified_approvals.known, session=self._uid)
        callbacks = PeerCallbacks(self._hear, self._be_asked, self._lose)
        try:
            peer, state = await attach(endpoint, self.place.directory, self._client, callbacks, note.put_into(params))
        finally:
            self._loop.call_soon(self._catch_up)
        self._owners_id = state["sessionId"]
        note = note_of(state)
        self._uid = note.session
        self._tell_effects(note.made)
        self._catch_up_with(state)
        tell = self.notified_approvals.tell_ends  # behind what was held back, which says more
        self._loop.call_soon(tell, self._client, self.place.session_id, note.ended_approvals)
        self._peer = peer
        self._regulate(self._congested)
        return self._as_here(state)

    async def close(self) -> None:
        """Finish what was accepted, then leave."""
        self._withdraw([request for request in self._unanswered if request.until is not None])
        while waiting := self._waiting():
            await asyncio.wait([request.answer for request in waiting])
        self.leave()
        if self._search is not None:  # it may just have got the session: then it has let go of it when this returns
            await asyncio.wait([self._search])

    def leave(self) -> None:
        """End it at once; unanswered requests are answered with an error."""
        if self._closed:
            return
        self._closed = True
        if self._search is not None and self._reaching_out:
            self._search.cancel()  # else it ends by itself: cancelled while it opens, it could leave the lock behind
        self._stop_watching()
        self._drop_peer()
        self._fail(SessionNotOpenError(f"session {self.place.session_id} was closed"))

    @contextlib.asynccontextmanager
    async def for_one_request(self) -> AsyncIterator[Attachment | None]:
        """Attach for one request; None if the session has no owner any more."""
        found = await self.open({"access": "write"})
        if not isinstance(found, dict):
            self.leave()
            await found.session.aclose()
            yield None
            return
        try:
            yield self
        finally:
            await self.close()

    # Requests

    async def request(self, method: str, model: Any, call: Call) -> Any:
        """Have the owner answer a request; `model`, its params, is for the case that we are the owner before it has.

        Raises:
            OwnersRefusalError: The owner's error.
            SessionLockedError: There is no owner that answers; `requestId` in its data tells under which id a change
                may be asked for again, if it carried one.
        """
        request = self._forwarded(method, model, call)
        self._unanswered[request] = None

        def ending(_: asyncio.Future[None]) -> None:
            self._loop.call_later(_LAST_CALL, self._withdraw, [request])

        waits = request.until is not None
        if waits:
            call.client.ending.add_done_callback(ending)
        try:
            if self._peer is not None:
                self._send(request)
            else:
                self._look_for_owner()
                self._loop.call_later(PATIENCE, self._give_up, [request], None)
            result = await self._answer(request)
        except TimeleapError:
            if not request.repeat:
                self._given.pop(request.request_id or "", None)
            raise
        finally:
            if waits:
                call.client.ending.remove_done_callback(ending)
            del self._unanswered[request]
        return self._result(request, result)

    def _forwarded(self, method: str, model: Any, call: Call) -> Forwarded:
        """A request as it is passed on: a change without a request id gets one."""
        given = model.without_nulls(dict(call.params))
        params = {name: value for name, value in given.items() if name not in _NOT_PASSED_ON}
        request = Forwarded(method, params, model, call, self._loop.create_future())
        row = REQUESTS[method]
        if row.waits:
            request.until = self._loop.time() + (model.timeout or DEFAULT_APPROVAL_TIMEOUT)
        if (row.mutates or row.waits) and getattr(model, "request_id", "") is None:
            params["requestId"] = next(self._request_ids)
            request.own_id = True
            request.model = model.replace(request_id=params["requestId"])
        elif request.request_id is not None:  # the client's own repeats are told from ours
            request.repeat = request.request_id in self._given
            self._given[request.request_id] = None
            if len(self._given) > _REMEMBERED:
                del self._given[next(iter(self._given))]
        return request

    async def answers_reads(self, call: Call) -> None:
        """Return when the owner answers what only reads and is asked for now."""
        row = LIST_APPROVALS  # reads nothing of the log
        params = {"sessionId": self.place.session_id}
        model = row.read_params(params)
        await self.request(row.name, model, replace(call, method=row.name, params=params, progress=None))

    async def _answer(self, request: Forwarded) -> Any:
        """Answer to a request, also after its cancellation: a change may have begun, which only the owner knows."""
        while True:
            try:
                return await asyncio.shield(request.answer)
            except OwnersRefusalError as refusal:
                if request.until is None or not refusal.wire["data"].get("handedOver"):
                    raise
                request.answer = self._loop.create_future()  # the next owner is asked
                if request.withdrawn:
                    self._withdraw([request])
            except asyncio.CancelledError:
                if request.answer.cancelled():
                    raise
                if request.until is not None:
                    self._withdraw([request])
                    continue
                if not REQUESTS[request.method].mutates:
                    if self._peer is not None:
                        self._peer.forget(request.answer)
                    request.answer.cancel()
                    raise
                if self._peer is not None:
                    self._peer.take_back(request.answer)

    def _withdraw(self, requests: list[Forwarded]) -> None:
        """Stop waiting for decisions: the answer says whether there was one all the same."""
        for request in requests:
            request.withdrawn = True
            if request.task is not None:
                request.task.cancel()
            elif self._peer is not None:
                self._peer.take_back(request.answer)
            elif not request.answer.done():
                request.answer.set_exception(CancelledError("the request for an approval was cancelled"))

    async def settle(self) -> None:
        """Return when all that was asked for has taken effect, but for what waits for a person or another party."""
        for request in list(self._unanswered):
            if request.until is None and REQUESTS[request.method].forward != "readsAhead":
                await asyncio.wait([request.answer])

    def _waiting(self) -> list[Forwarded]:
        return [request for request in self._unanswered if not request.answer.done()]

    def _in_doubt(self) -> list[str]:
        """The request ids of changes that were asked for once and not answered: they may have taken effect."""
        names = [] if self._quiet else [request.request_id for request in self._waiting() if not request.repeat]
        return [name for name in names if name]

    def _to_ask_again(self) -> list[Forwarded]:
        """Requests that the last owner left unanswered; a wait for a decision counts against its timeout."""
        waiting = self._waiting()
        for request in waiting:
            request.again = True
            if request.until is not None:
                left = max(0.001, request.until - self._loop.time())
                request.params["timeout"] = left
                request.model = request.model.replace(timeout=left)
        return waiting

    def _send(self, request: Forwarded) -> None:
        assert self._peer is not None
        params, call = {"sessionId": self._owners_id, **request.params}, request.call
        if request.again and not request.repeat:
            params = HandoverNote(again=True).put_into(params)
        self._peer.send(request.method, params, request.answer, call.progress, followed=call.followed)

    def _result(self, request: Forwarded, result: Any) -> Any:
        if REQUESTS[request.method].returns_state and isinstance(result, msgspec.Raw):
            return self._as_here(plain(result))
        if request.again and request.own_id:
            # The client has asked once, and does not know that we asked twice.
            members = plain(result)
            if isinstance(members, dict):
                members.pop("duplicate", None)
            return members
        return result

    def _as_here(self, state: Json) -> Json:
        """A session's state as our client gets it: without the owner's note, which is meant for us."""
        state.pop(META, None)
        access = "readOnly" if state["access"] == "readOnly" else self.access  # a mirror is read only for all
        return {**state, "sessionId": self.place.session_id, "access": access}

    def _fail(self, error: Exception) -> None:
        for request in self._waiting():
            request.answer.set_exception(error)

    def _give_up(self, requests: list[Forwarded], lost: PeerLostError | None) -> None:
        if self._peer is not None or self._closed:
            return
        owner = holder_of(self.place.directory).owner
        for request in requests:
            if not request.answer.done():
                refusal = unreachable(lost or PeerLostError("it does not answer"), owner)
                if "requestId" in request.params:
                    refusal.data["requestId"] = request.params["requestId"]
                request.answer.set_exception(refusal)

    # What the owner says

    def _hear(self, method: str, params: bytes) -> None:
        if self._peer is None or self._held_back:
            self._held_back.append((method, params))
        else:
            self._pass_on(method, params)

    def _catch_up(self) -> None:
        held_back, self._held_back = self._held_back, []
        for method, params in held_back if self._peer is not None else []:
            self._pass_on(method, params)

    def _pass_on(self, method: str, params: bytes) -> None:
        change = read_change(params)
        if change.session_id != self._owners_id:
            return
        if change.head:
            self._head = change.head
        if method == CONTEXT:
            self._heard.append((change.head, change.kind))
        if method == SESSION:
            self._notified_state.note(change.kind, params)
        if self._quiet or not self.notified_approvals.passes(method, params):
            return
        self._client.notify(method, as_here(params, self._owners_id, self.place.session_id))
        if method == SESSION and change.kind == "deleted":
            self._service.forget(self._client, self)
            self._leaving = self._loop.create_task(self.close())

    async def _be_asked(self, method: str, params: Json) -> Any:
        asked = {**params, "sessionId": self.place.session_id} if "sessionId" in params else params
        # How long is waited is for the owner to say: it takes its question back (`summarizer.timeout`), or is lost.
        return await self._client.request(method, asked, timeout=None)

    def _regulate(self, congested: bool) -> None:
        # What our client does not read waits where it comes from: the owner knows how much it may be.
        changed, self._congested = congested is not self._congested, congested
        if self._peer is not None and (changed or congested):
            (self._peer.pause if congested else self._peer.resume)()

    # The end of an owner

    def _lose(self, lost: PeerLostError) -> None:
        if self._peer is None:
            return
        log.info("lost the owner of a session: %s", lost)
        self._peer = None
        requests = list(self._unanswered)
        self._withdraw([request for request in requests if request.withdrawn])
        if lost.hung:
            self._give_up(requests, lost)
        else:
            self._loop.call_later(PATIENCE, self._give_up, requests, lost)
        self._look_for_owner()

    def _look_for_owner(self) -> None:
        if self._search is None and not self._closed:
            self._search = self._loop.create_task(self._find_owner())

    async def _find_owner(self) -> None:
        try:
            while self._peer is None and not self._closed:
                try:
                    await self._settle_with(await self.open({"access": "write"}))
                except (SessionLockedError, OwnersRefusalError) as error:
                    log.info("no owner yet: %s", error)
                    await asyncio.sleep(_LONGEST_PAUSE)
        except SessionNotFoundError as error:
            self._fail(error)
            self._tell(SESSION, "deleted")
            self._service.forget(self._client, self)
            self.leave()
        except (TimeleapError, OSError) as error:
            # Nothing that waiting helps against: those who wait hear of it, the next request tries again.
            self._fail(error)
        finally:
            self._search = None

    async def _settle_with(self, found: Json | OpenedSession) -> None:
        if isinstance(found, dict):
            if self._closed:
                self._drop_peer()
                return
            self._tell(SESSION, "accessChanged", access=self.access)
            for request in self._to_ask_again():
                self._send(request)
        elif self._closed:
            await found.session.aclose()
        else:
            await self._take_over(found)

    async def _take_over(self, found: OpenedSession) -> None:
        """We own the session: do here what the last owner left unanswered."""
        session = found.session
        async with self._service.reachable():  # nobody holds it yet: we would stop listening for the others
            try:
                # First, which requests took effect: no other process can change anything before.
                made = await session.made(self._in_doubt())
                ends = await session.approval_requests.ends(self.notified_approvals.known)
            except (TimeleapError, OSError) as error:
                log.warning("what took effect before the owner went cannot be told: %s", error)
                made, ends = [], []
                self._missed = True
            if self._closed:
                await session.aclose()
                return
            self._closed = True
            self._stop_watching()
            self._service.replace(self._client, self, session)
            self._tell_effects(made)
            self._catch_up_with(session.wire("owner"))
            self._tell(SESSION, "accessChanged", access="owner")
            for request in self._to_ask_again():
                call = replace(request.call, again=not request.repeat)
                request.task = self._loop.create_task(self._service.act(request.method, request.model, call))
                request.task.add_done_callback(request.settle_as)
            self.notified_approvals.tell_ends(self._client, self.place.session_id, ends)

    def _tell_effects(self, made: list[Effect]) -> None:
        """Notify the client of its own changes whose answers got lost, as it would have been of others'."""
        for effect in made:
            told = [each for each in effect.told or () if (effect.head, each[1]) not in self._heard]
            if effect.told and not told:
                continue  # only the answer got lost
            self._missed |= effect.told is None or effect.before != self._head
            self._head = effect.head
            for method, kind, members in told:
                request_id = None if effect.request_id.startswith(MADE_HERE) else effect.request_id
                cause = set_members(requestId=request_id, client=self._client.name)
                self._tell(method, kind, cause=cause, **members)
                if method == CONTEXT:
                    self._heard.append((effect.head, kind))
                else:
                    self._notified_state.note(kind, msgspec.json.encode(members))

    def _catch_up_with(self, state: Json) -> None:
        """Notify the client of the differences between the session and its last known state."""
        moved = self._head not in {"", state["head"]} or self._missed
        self._head, self._missed = state["head"], False
        if moved:
            self._tell(CONTEXT, "external")
        for kind, members in self._notified_state.missed(state):
            self._tell(SESSION, kind, **members)

    def _drop_peer(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _tell(self, method: str, kind: str, **members: Any) -> None:
        if self._quiet:
            return
        about = {"head": self._head, "kind": kind} if method in (CONTEXT, SESSION) else {}
        self._client.notify(method, {"sessionId": self.place.session_id, **about, "cause": {}, **members})


class NotifiedState:
    """The state outside the log as the client knows it.

    A change of it leaves the head as it is. So a client that missed the notification, because the owner died first,
    could not know that its state is stale: a window would show for ever that approvals are off which are on.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def note(self, kind: str, params: bytes) -> None:
        """Record that the client was notified of a change: its kind, and its params as JSON text."""
        member = _MEMBERS.get(kind)
        if member == "archived":
            self._known[member] = kind == "archived"
        elif member is not None:
            self._known[member] = msgspec.json.decode(params).get(member)

    def missed(self, state: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Notifications that bring the client up to the session's state: kinds and members. They count as sent."""
        state = {"pins": [], **state}  # left out of a state while there are none
        before, self._known = self._known, {member: state.get(member) for member in CHANGES}
        for member in CHANGES if before else ():
            if before.get(member) != self._known[member]:
                yield changed(member, self._known[member])
