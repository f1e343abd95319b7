"""context/sendDMail and cancelDMail: notes to an earlier self, and to other sessions.

A note to another session takes effect there, under a request id that is made of the sender and of its request id: so
the session it goes to knows it again, whatever has crashed between the two. The sender remembers the request, too, as
it does all others. The process that owns the sender does this; where the note goes to is said by a path then, because
processes may call a directory differently.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from timeleap.errors import InvalidInputError, ReadOnlyError, SessionLockedError, SessionNotFoundError
from timeleap.rpc.codec import plain
from timeleap.service.service import guard
from timeleap.sessions.kernel.members import decide_members
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation, set_members
from timeleap.storage.durable import failpoint
from timeleap.storage.record import MADE_HERE
from timeleap.store.home import check_session_id
from timeleap_protocol.methods import REQUESTS
from timeleap_protocol.structs.context import SendDMailParams

if TYPE_CHECKING:
    from timeleap.attach.attachment import Attachment
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.store.open_sessions import SessionLocation


async def send_dmail(service: Service, params: SendDMailParams, call: Call) -> Any:
    """Leave a note for an earlier self, or for another session."""
    _check(params)
    attachment = service.attached(call).get(params.session_id)
    mine = attachment.place.directory if attachment else service.held(call, params.session_id).session.path
    elsewhere = params.to_session_id is not None or params.to_path is not None
    try:
        target = await _target(service, params, mine, call) if elsewhere else None
    except SessionNotFoundError:
        if params.request_id is None:
            raise
        if attachment is not None:
            return await attachment.request(call.method, params, call)
        # What was answered before counts although the session it went to is gone; where it is, its name is not known.
        name = params.to_session_id if params.to_path is None else Path(params.to_path).name
        known = None
        with contextlib.suppress(InvalidInputError):
            known = await service.session(call, params).answered(_guard_elsewhere(params, name or "", call))
        if known is None:
            raise
        return known
    addressed = params.replace(to_session_id=None, to_path=str(target.directory) if target is not None else None)
    to_itself = target is None and params.from_session_id is None
    if to_itself and params.checkpoint_id is None and params.checkpoint_uid is None:
        message = (
            "a note to the session itself goes to a checkpoint: give exactly one of 'checkpointId', 'checkpointUid'"
        )
        raise InvalidInputError(message, errors=[{"loc": [], "msg": message, "type": "choice"}])
    if attachment is not None:
        asked = {name: value for name, value in call.params.items() if name not in {"toSessionId", "toPath"}}
        if target is not None:
            asked["toPath"] = addressed.to_path
        return await attachment.request(call.method, addressed, replace(call, params=asked))
    session = service.session(call, params)
    if target is not None:
        return await _send_elsewhere(service, session, target, addressed, call)
    return await _receive(session, addressed, call)


async def _receive(session: Session, params: SendDMailParams, call: Call, cause: str | None = None) -> Json:
    """Put a note where it belongs in this session. `cause` is the client's request id where another one is used."""
    mine = guard(params, call)
    if cause is not None:
        mine = replace(mine, cause=replace(mine.cause, request_id=cause))
    sender, uid, number = params.from_session_id, params.checkpoint_uid, params.checkpoint_id
    if sender is not None and uid is None and number is None:
        return await session.take_note(params.message, sender, mine)
    return await session.send_dmail(params.message, checkpoint_id=number, checkpoint_uid=uid, sender=sender, guard=mine)


async def _send_elsewhere(
    service: Service, session: Session, target: SessionLocation, params: SendDMailParams, call: Call
) -> Json:
    mine = _guard_elsewhere(params, target.directory.name, call)
    id_there = None  # the same for each repeat, unique otherwise
    if params.request_id is not None:
        sender = f"{session.meta.uid}\n{params.request_id}".encode()
        id_there = f"{MADE_HERE}dmail.{hashlib.blake2b(sender, digest_size=16).hexdigest()}"
    if (known := await session.answered(mine)) is not None:
        return known
    there = params.replace(
        session_id=target.session_id,
        to_path=None,
        from_session_id=session.session_id,
        expected_head=None,
        request_id=id_there,
    )
    async with _reached(service, target, call) as reached:
        if isinstance(reached, Session):
            found = await _receive(reached, there, call, mine.cause.request_id)
        else:
            asked = {name: value for name, value in there.to_wire().items() if name != "sessionId"}
            found = plain(await reached.request(call.method, there, replace(call, params=asked)))
    failpoint("mail.arrived")
    arrival = {"sessionId": target.session_id, "head": found["head"], **set_members(index=found.get("index"))}
    answer = {"pendingDMail": found["pendingDMail"], "to": arrival}
    # What the sender's head is by now says nothing about what is done already.
    result = await session.transactions.carry_out(
        replace(mine, expected_head=None), partial(decide_members, meta={}, result=answer)
    )
    return {**result, "duplicate": True} if found.get("duplicate") else result


def _guard_elsewhere(params: SendDMailParams, name: str, call: Call) -> Mutation:
    """The guard of a request to another session, which is identified by its name alone: stores are moved."""
    mine = guard(params.replace(to_session_id=name, to_path=None), call)
    if mine.request_id is None:
        return mine
    row, earlier = REQUESTS[call.method], mine.earlier
    return replace(mine, earlier=lambda: (*earlier(), row.fingerprint(params), *row.earlier_fingerprints(params)))


@contextlib.asynccontextmanager
async def _reached(service: Service, target: SessionLocation, call: Call) -> AsyncIterator[Session | Attachment]:
    """The target session of a note, for the time of the request: ours, or through its owner."""
    if (attachment := service.attached(call).get(target.session_id)) is not None:
        yield attachment
        return
    try:
        session = (await service.own(target)).session
    except SessionLockedError:
        if service.network is None:
            raise
        async with service.attachment(call, target, quiet=True).for_one_request() as quiet:
            if quiet is not None:
                yield quiet
                return
        session = (await service.own(target)).session  # the owner went just now
    try:
        yield session
    finally:
        await session.aclose()


async def _target(service: Service, params: SendDMailParams, mine: Path, call: Call) -> SessionLocation | None:
    """Where the note goes; None where that is the session itself."""
    path = Path(params.to_path) if params.to_path is not None else None
    if path is not None and not path.is_absolute():
        raise _refused("toPath", "must be an absolute path")
    try:
        place = await asyncio.to_thread(service.store.place, params.to_session_id, path)
    except SessionNotFoundError as error:
        found = error
        if params.to_session_id is not None:
            with contextlib.suppress(SessionNotFoundError):
                await asyncio.to_thread(service.store.home.newest_trashed, params.to_session_id)
                message = f"session {params.to_session_id} is in the trash: bring it back with session/undelete first"
                found = SessionNotFoundError(message, sessionId=params.to_session_id)
        raise found from None
    held = service.opened(call).get(place.session_id)
    if held is not None and held.access == "readOnly":
        message = f"session {place.session_id} is open read-only: close it to send a note to it"
        raise ReadOnlyError(message, sessionId=place.session_id)
    return None if place.directory == mine else place


def _check(params: SendDMailParams) -> None:
    """Check the rules for params that the schema cannot express."""
    if params.to_session_id is not None and params.to_path is not None:
        raise _refused("toPath", "does not go with toSessionId: say one of them")
    if params.from_session_id is not None:
        check_session_id(params.from_session_id)
        if params.to_session_id is not None or params.to_path is not None:
            raise _refused("fromSessionId", "does not go with toSessionId and toPath: a note has one sender")


def _refused(name: str, message: str) -> InvalidInputError:
    return InvalidInputError(f"{name}: {message}", errors=[{"loc": [name], "msg": message, "type": "choice"}])
