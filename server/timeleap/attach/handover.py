"""Handing a session over: its present owner disconnects the others; the next one recovers answers that got lost.

What an attached process and the next owner tell each other stands in `_meta`, under a name of ours, which every method accepts and releases that know nothing of it ignore.

- With the `session/open` by which it attaches again, the process names the requests it has no answers to. The owner's
  reply tells of those that took effect: the head before and right after each, and what everybody else was told of it. So
  the client hears of its own changes, in their order, before it hears of anything later.
- With it the process also names the requests for approvals that its client was told of and not the end of; the reply tells
  what became of those that ended meanwhile.
- The reply also has the session's uid, and the process names it when it attaches again: a session of the same id may have
  been made since, which must not get what was meant for the other.
- A request that is asked again is marked, so that its answer is the one that the change had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.errors import SessionNotFoundError
from timeleap.sessions.request_replay import Made

if TYPE_CHECKING:
    from timeleap.call import Client
    from timeleap.sessions.session import Session

META = "_meta"
_OURS = "timeleap"
_UNANSWERED = "unanswered"
_MADE = "made"
_APPROVALS = "approvals"
_ENDED = "endedApprovals"
_AGAIN = "again"
_SESSION = "session"

Told = tuple[str, str, dict[str, Any]]
"""A notification: its method, the kind of change, and the members that are its own."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A request that took effect, though its answer got lost.

    Attributes:
        request_id: Its id.
        before: The head before it; empty where it is not known.
        head: The head right after it.
        told: Its notifications to other clients; None where they are not known.
    """

    request_id: str
    before: str
    head: str
    told: Sequence[Told] | None


def asking_for(
    params: Mapping[str, Any], request_ids: Iterable[str], approval_ids: Iterable[str] = (), uid: str = ""
) -> dict[str, Any]:
    """The params of a `session/open` that asks which requests took effect, and which requests for approvals ended.

    Args:
        params: The others.
        request_ids: The requests.
        approval_ids: The requests for approvals.
        uid: The session's, if it was open before.
    """
    return _with(params, {_UNANSWERED: list(request_ids), _APPROVALS: list(approval_ids), _SESSION: uid})


def session_asked_for(params: Mapping[str, Any]) -> str:
    """The uid of the session that a `session/open` asks for; empty where any will do."""
    uid = _ours(params).get(_SESSION)
    return uid if isinstance(uid, str) else ""


def asked_for(params: Mapping[str, Any]) -> list[str]:
    """The requests that a `session/open` asks for."""
    return _names(_ours(params).get(_UNANSWERED))


def approvals_asked_for(params: Mapping[str, Any]) -> list[str]:
    """The requests for approvals that a `session/open` asks for."""
    return _names(_ours(params).get(_APPROVALS))


def deleted(session_id: str) -> SessionNotFoundError:
    """The error where the session that was open is gone, and another one may have its id."""
    return SessionNotFoundError(
        f"session {session_id} was deleted; open it again to use another of that id", sessionId=session_id
    )


def answered(
    state: Mapping[str, Any], effects: Iterable[Effect], ends: Iterable[dict[str, Any]], uid: str
) -> dict[str, Any]:
    """The reply to a `session/open` that tells which requests took effect, and which requests for approvals ended; with
    the session's uid."""
    many = [
        {
            "requestId": effect.request_id,
            "before": effect.before,
            "head": effect.head,
            **({} if effect.told is None else {"told": [list(each) for each in effect.told]}),
        }
        for effect in effects
    ]
    return _with(state, {_MADE: many, _ENDED: list(ends), _SESSION: uid})


def answer(state: dict[str, Any]) -> tuple[list[Effect], list[dict[str, Any]], str]:
    """What a reply tells of requests that took effect, and of requests for approvals that ended, each as members of the
    notification; and the session's uid, if it says that. It is taken out of the reply."""
    uid = session_asked_for(state)
    ours = _ours(state)
    state.pop(META, None)
    ended = ours.get(_ENDED)
    ends = [entry for entry in ended if _is_end(entry)] if isinstance(ended, list) else []
    return _effects(ours.get(_MADE)), ends, uid


def _is_end(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("approvalId"), str)


def _effects(many: Any) -> list[Effect]:
    found: list[Effect] = []
    for entry in many if isinstance(many, list) else []:
        match entry:
            case {"requestId": str(request_id), "before": str(before), "head": str(head)}:
                found.append(Effect(request_id, before, head, _told(entry.get("told"))))
            case _:
                continue
    return found


def effects(made: Iterable[tuple[str, Made]]) -> list[Effect]:
    """The same of requests that took effect in a session of ours."""
    return [
        Effect(
            name,
            change.before,
            change.head,
            None if change.told is None else [(method, kind, dict(members)) for method, kind, members in change.told],
        )
        for name, change in made
    ]


def asking_again(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a request, marked as repeated."""
    return _marked(params, {_AGAIN: True})


def was_asked_before(params: Mapping[str, Any]) -> bool:
    """True if a request is marked as repeated."""
    return _ours(params).get(_AGAIN) is True


def _with(params: Mapping[str, Any], ours: Mapping[str, list[Any] | str]) -> dict[str, Any]:
    """Marked with what of ours is not empty."""
    said = {name: value for name, value in ours.items() if value}
    return _marked(params, said) if said else dict(params)


def _names(many: Any) -> list[str]:
    return [name for name in many if isinstance(name, str)] if isinstance(many, list) else []


def _marked(params: Mapping[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    meta = params.get(META)
    return {**params, META: {**(meta if isinstance(meta, Mapping) else {}), _OURS: ours}}


def _ours(params: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = params.get(META)
    ours = meta.get(_OURS) if isinstance(meta, Mapping) else None
    return ours if isinstance(ours, Mapping) else {}


def _told(many: Any) -> list[Told] | None:
    if not isinstance(many, list):
        return None
    found: list[Told] = []
    for entry in many:
        match entry:
            case [str(method), str(kind), dict(members)]:
                found.append((method, kind, members))
            case _:
                return None
    return found


class SessionDrain:
    """The sessions of this process that are being handed over, by their directories.

    All other processes that have one open are disconnected, after all their requests are answered: the last request of
    one of them notifies the others, which a process disconnected earlier would miss.
    """

    def __init__(self) -> None:
        self._under_way: dict[Path, asyncio.Future[None]] = {}

    async def drain(self, session: Session, visitors: Sequence[Client]) -> None:
        """Finish what `visitors` and our own client asked for, then end the connections of the visitors."""
        finished = self._under_way[session.path] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.gather(*(visitor.finish() for visitor in visitors))
            await session.at_turn(_nothing)
        finally:
            del self._under_way[session.path]
            finished.set_result(None)
        await asyncio.gather(*(visitor.end() for visitor in visitors))

    def under_way(self, session: Session) -> bool:
        """True if a session is being handed over."""
        return session.path in self._under_way

    async def wait(self, directories: Iterable[Path]) -> None:
        """Return when the processes that have one of these sessions open may go."""
        for finished in [self._under_way[path] for path in directories if path in self._under_way]:
            await asyncio.shield(finished)


def _nothing() -> None:
    """Placeholder: its turn comes when every earlier request is done."""
