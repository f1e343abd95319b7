"""Handing a session over: its present owner disconnects the others; the next one recovers answers that got lost.

What an attached process and the next owner tell each other stands in `_meta`, under a name of ours, which every method
accepts and releases that know nothing of it ignore.

- With the `session/open` by which it attaches again, the process names the requests it has no answers to. The owner's
  reply tells of those that took effect: the head before and right after each, and what everybody else was told of it.
  So the client hears of its own changes, in their order, before it hears of anything later.
- With it the process also names the requests for approvals that its client was told of and not the end of; the reply
  tells what became of those that ended meanwhile.
- The reply also has the session's uid, and the process names it when it attaches again: a session of the same id may
  have been made since, which must not get what was meant for the other.
- A request that is asked again is marked, so that its answer is the one that the change had.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from timeleap.errors import SessionNotFoundError
from timeleap.sessions.shapes import Effect

if TYPE_CHECKING:
    from timeleap.call import Client
    from timeleap.sessions.session import Session

_T = TypeVar("_T")

META = "_meta"
_OURS = "timeleap"


class HandoverNote(msgspec.Struct, rename="camel", omit_defaults=True):
    """Note between processes in `_meta` of a message."""

    unanswered: list[str] = []
    made: list[Effect] = []
    approvals: list[str] = []
    ended_approvals: list[dict[str, Any]] = []
    again: bool = False
    session: str = ""

    def put_into(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The params of a request, or a result, with the note, if that says anything."""
        ours = msgspec.to_builtins(self)
        if not ours:
            return dict(params)
        meta = params.get(META)
        return {**params, META: {**(meta if isinstance(meta, Mapping) else {}), _OURS: ours}}


def note_of(params: Mapping[str, Any]) -> HandoverNote:
    """The note in a request or a result. What can be read of it counts: another release may say something else, too."""
    meta = params.get(META)
    ours = meta.get(_OURS) if isinstance(meta, Mapping) else None
    if not isinstance(ours, Mapping):
        return HandoverNote()
    return HandoverNote(
        unanswered=_readable(ours.get("unanswered"), str),
        made=[effect for entry in _readable(ours.get("made"), dict[str, Any]) for effect in _effect(entry)],
        approvals=_readable(ours.get("approvals"), str),
        ended_approvals=_readable(ours.get("endedApprovals"), dict[str, Any]),
        again=ours.get("again") is True,
        session=session if isinstance(session := ours.get("session"), str) else "",
    )


def _effect(entry: dict[str, Any]) -> list[Effect]:
    """The change counts though what others were told of it cannot be read; none if it is not one itself."""
    return _readable([entry], Effect) or _readable([{**entry, "told": None}], Effect)


def _readable(entries: object, kind: type[_T]) -> list[_T]:
    """The entries of a list that are of a type."""
    found: list[_T] = []
    for entry in entries if isinstance(entries, list) else ():
        with contextlib.suppress(msgspec.ValidationError):
            found.append(msgspec.convert(entry, kind))
    return found


def deleted(session_id: str) -> SessionNotFoundError:
    """The error where the session that was open is gone, and another one may have its id."""
    return SessionNotFoundError(
        f"session {session_id} was deleted; open it again to use another of that id", sessionId=session_id
    )


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
            await session.catch_its_turn()
        finally:
            del self._under_way[session.path]
            finished.set_result(None)
        await asyncio.gather(*(visitor.end() for visitor in visitors))

    def under_way(self, session: Session) -> bool:
        return session.path in self._under_way

    async def wait(self, directories: Iterable[Path]) -> None:
        """Return when the processes that have one of these sessions open may go."""
        for finished in [self._under_way[path] for path in directories if path in self._under_way]:
            await asyncio.shield(finished)
