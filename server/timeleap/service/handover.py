"""Recovery of lost answers between an attached process and the next owner of a session.

It stands in `_meta`, under a name of ours, which every method accepts and releases that know nothing of it ignore.

- With the `session/open` by which it attaches again, the process names the requests it has no answers to. The owner's
  reply tells of those that took effect: the head before and right after each, and what everybody else was told of it. So
  the client hears of its own changes, in their order, before it hears of anything later.
- With it the process also names the requests for approvals that its client was told of and not the end of; the reply tells
  what became of those that ended meanwhile.
- A request that is asked again is marked, so that its answer is the one that the change had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from timeleap.sessions.request_replay import Made

META = "_meta"
_OURS = "timeleap"
_UNANSWERED = "unanswered"
_MADE = "made"
_APPROVALS = "approvals"
_ENDED = "endedApprovals"
_AGAIN = "again"

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
    params: Mapping[str, Any], request_ids: Iterable[str], approval_ids: Iterable[str] = ()
) -> dict[str, Any]:
    """The params of a `session/open` that asks which requests took effect, and which requests for approvals ended."""
    return _with(params, {_UNANSWERED: list(request_ids), _APPROVALS: list(approval_ids)})


def asked_for(params: Mapping[str, Any]) -> list[str]:
    """The requests that a `session/open` asks for."""
    return _names(_ours(params).get(_UNANSWERED))


def approvals_asked_for(params: Mapping[str, Any]) -> list[str]:
    """The requests for approvals that a `session/open` asks for."""
    return _names(_ours(params).get(_APPROVALS))


def answered(state: Mapping[str, Any], effects: Iterable[Effect], ends: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The reply to a `session/open` that tells which requests took effect, and which requests for approvals ended."""
    many = [
        {
            "requestId": effect.request_id,
            "before": effect.before,
            "head": effect.head,
            **({} if effect.told is None else {"told": [list(each) for each in effect.told]}),
        }
        for effect in effects
    ]
    return _with(state, {_MADE: many, _ENDED: list(ends)})


def answer(state: dict[str, Any]) -> tuple[list[Effect], list[dict[str, Any]]]:
    """What a reply tells of requests that took effect, and of requests for approvals that ended, each as members of the
    notification; it is taken out of the reply."""
    ours = _ours(state)
    state.pop(META, None)
    ended = ours.get(_ENDED)
    ends = [entry for entry in ended if _is_end(entry)] if isinstance(ended, list) else []
    return _effects(ours.get(_MADE)), ends


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


def _with(params: Mapping[str, Any], ours: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Marked with what of ours is not empty."""
    said = {name: many for name, many in ours.items() if many}
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
