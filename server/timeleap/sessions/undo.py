"""Undo and redo: two stacks of states of the log.

A state is a timeline, or the empty log. The stacks stand in `timeleap.json` (member `undo`) and change in the same
atomic step as the log: what a rewrite makes of them is noted before it (`next`), with the timeline whose existence says
that the rewrite was done, and counts from then on. What is appended empties the redo stack without a write: it holds
only for the log (length and fingerprint) that it was noted for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeGuard, get_args

from timeleap.errors import (
    CorruptedError,
    RedoUnavailableError,
    StorageFailureError,
    TimelineNotFoundError,
    UndoUnavailableError,
)
from timeleap.sessions.files import BAD, Problems, choice, model, text, whole
from timeleap.sessions.shapes import HistoryStep, StepKind
from timeleap.storage.engine import LogEngine, LogState, Prepared, Timeline

MEMBER: Final = "undo"
"""Of `timeleap.json`."""
MAX_STEPS: Final = 1000
"""Of each stack; the oldest are forgotten."""
KINDS: Final = frozenset(get_args(StepKind))

Direction = Literal["undo", "redo"]
Json = dict[str, Any]

_STEP: Final = model({"kind": choice(*sorted(KINDS)), "timelineId": text(empty=False)}, required=("kind",))


def _steps(value: Any, where: str, problems: Problems) -> Any:
    """A stack. What lies below a step that cannot be used cannot be gone back to."""
    if not isinstance(value, list):
        return problems.add(where, "is not an array")
    found: list[Any] = []
    for at, entry in enumerate(value):
        step = _STEP(entry, f"{where}[{at}]", problems)
        bad = step is BAD or (isinstance(entry, dict) and "timelineId" in entry and "timelineId" not in step)
        found = [] if bad else [*found[1 - MAX_STEPS :], step]
    return found


_STACKS: Final = {"undo": _steps, "redo": _steps, "length": whole(), "chain": text("[0-9a-f]{16}")}
_NEXT: Final = {
    "timelineId": text(),
    "length": whole(),
    "chain": text("[0-9a-f]{16}"),
    "equals": text(),
    "stacks": model(_STACKS),
}
CHECK: Final = model(
    {
        **_STACKS,
        "next": model(_NEXT, required=("timelineId", "length", "chain", "stacks")),
        "duplicate": model({"timelineId": text(), "equals": text()}, required=("timelineId", "equals")),
    }
)
"""What the member has to be."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """The undo and redo stacks, the next step last.

    Attributes:
        undo: The states before the steps that can be undone.
        redo: The states before the undoing of steps.
        valid_for: Length and fingerprint of the log that `redo` was noted for.
    """

    undo: tuple[HistoryStep, ...] = ()
    redo: tuple[HistoryStep, ...] = ()
    valid_for: tuple[int, int] | None = None

    def at(self, state: LogState) -> Stacks:
        """As they are where the log is at `state`."""
        return self if self.valid_for == (state.length, state.chain) else replace(self, redo=())

    def within(self, timeline_ids: Collection[str]) -> Stacks:
        """The steps that can be taken while these timelines exist: a missing one ends a stack."""
        return replace(self, undo=_reachable(self.undo, timeline_ids), redo=_reachable(self.redo, timeline_ids))

    def without_redo(self) -> Stacks:
        """With nothing that tells of the present log's bytes."""
        return Stacks(self.undo)

    def pushed(self, kind: StepKind, prepared: Prepared) -> Stacks:
        """After a step that can be undone; one that changes nothing leaves them as they are."""
        if not prepared.replaces:
            return self
        return _stacks((*self.undo, HistoryStep(kind, prepared.kept_as)), (), prepared.after)

    def moved(
        self, direction: Direction, steps: int, prepared: Prepared, same: Callable[[str | None, str | None], bool]
    ) -> Stacks:
        """After `steps` steps were undone or redone.

        Args:
            direction: Which.
            steps: How many; there must be as many.
            prepared: The rewrite that goes to the last of them.
            same: Whether two states have the same bytes: going from one to the other leaves nothing to come back to.
        """
        source, target = (self.undo, self.redo) if direction == "undo" else (self.redo, self.undo)
        going, present = list(target), prepared.kept_as
        for step in reversed(source[-steps:]):
            if not same(present, step.timeline_id):
                going.append(HistoryStep(step.kind, present))
            present = step.timeline_id
        left, grown = source[:-steps], tuple(going)
        return _stacks(*((left, grown) if direction == "undo" else (grown, left)), prepared.after)

    def taken(self, direction: Direction, steps: int) -> tuple[HistoryStep, ...]:
        """The next steps to undo or redo, in that order.

        Raises:
            UndoUnavailableError, RedoUnavailableError: There are fewer.
        """
        source = self.undo if direction == "undo" else self.redo
        if steps > len(source):
            data = {"canUndo": len(self.undo), "canRedo": len(self.redo)}
            if direction == "undo":
                few = f"cannot undo {steps} steps: {len(source)} can be undone"
                raise UndoUnavailableError(
                    few if source else "there is nothing to undo: no timeline to go back to", **data
                )
            few = f"cannot redo {steps} steps: {len(source)} can be redone"
            raise RedoUnavailableError(
                few if source else "there is nothing to redo: any other change ends redo", **data
            )
        return source[-steps:][::-1]

    def members(self) -> Json:
        """As `timeleap.json` keeps them."""
        found: Json = {"undo": _members(self.undo)}
        if self.redo and self.valid_for is not None:
            length, chain = self.valid_for
            found |= {"redo": _members(self.redo), "length": length, "chain": f"{chain:016x}"}
        return found


def read(value: Any) -> Stacks:
    """The stacks that a member of `timeleap.json` holds; what is malformed ends a stack."""
    if not isinstance(value, dict):
        return Stacks()
    match value:
        case {"length": int(length), "chain": str(chain)} if length >= 0 and is_fingerprint(chain):
            return Stacks(_read(value.get("undo")), _read(value.get("redo")), (length, int(chain, 16)))
        case _:
            return Stacks(_read(value.get("undo")))


def in_force(value: Any, log: LogEngine) -> Stacks:
    """The stacks of a log, as a member of `timeleap.json` says: those after the last rewrite, if it was done."""
    if value is None:
        return after_old_rewrites(log.timelines())
    following = next_of(value)
    return read(following.get("stacks") if following is not None and happened(following, log) else value)


def happened(proof: Mapping[str, Any], log: LogEngine) -> bool:
    """True if the log that a rewrite was to set aside is the timeline of that name now."""
    try:
        state = log.timeline(str(proof["timelineId"])).state
    except TimelineNotFoundError:
        return False
    except (CorruptedError, StorageFailureError):
        return True  # it is there, whatever is wrong with it
    return (state.length, f"{state.chain:016x}") == (proof.get("length"), proof.get("chain"))


def noted(before: Stacks, after: Stacks, prepared: Prepared, live: LogState) -> Json:
    """The member while a rewrite is on its way: what holds now, and what will hold.

    Args:
        before: The stacks now.
        after: The stacks after it.
        prepared: The rewrite.
        live: The present log, which becomes the timeline that says that the rewrite was done.
    """
    proof = {"timelineId": prepared.timeline_id, "length": live.length, "chain": f"{live.chain:016x}"}
    equals = {"equals": prepared.equals} if prepared.equals is not None else {}
    return {**before.members(), "next": {**proof, **equals, "stacks": after.members()}}


def after_old_rewrites(timelines: Sequence[Timeline]) -> Stacks:
    """The undo stack of a session that nobody noted one for: each rewrite made a timeline, in order, and said why.

    Args:
        timelines: All of them, newest first.
    """
    found = [HistoryStep(log.facts.reason, log.timeline_id) for log in timelines if is_step(log.facts.reason)]
    return Stacks(tuple(found[:MAX_STEPS][::-1]))


def is_fingerprint(text: str) -> bool:
    """True if `text` is a fingerprint as we write it."""
    return len(text) == 16 and all(character in "0123456789abcdef" for character in text)


def _stacks(undo: Sequence[HistoryStep], redo: Sequence[HistoryStep], after: LogState) -> Stacks:
    return Stacks(tuple(undo[-MAX_STEPS:]), tuple(redo[-MAX_STEPS:]), (after.length, after.chain))


def _reachable(steps: tuple[HistoryStep, ...], timeline_ids: Collection[str]) -> tuple[HistoryStep, ...]:
    for at in range(len(steps), 0, -1):
        name = steps[at - 1].timeline_id
        if name is not None and name not in timeline_ids:
            return steps[at:]
    return steps


def _members(steps: Sequence[HistoryStep]) -> list[Json]:
    return [{"kind": step.kind, **({"timelineId": step.timeline_id} if step.timeline_id else {})} for step in steps]


def _read(value: Any) -> tuple[HistoryStep, ...]:
    found: list[HistoryStep] = []
    for entry in reversed(value if isinstance(value, list) else []):
        match entry:
            case {"kind": str(kind)} if is_step(kind) and len(found) < MAX_STEPS:
                name = entry.get("timelineId")
                if name is not None and not (isinstance(name, str) and name):
                    break
                found.append(HistoryStep(kind, name))
            case _:
                break
    return tuple(reversed(found))


def is_step(kind: str) -> TypeGuard[StepKind]:
    """True if a rewrite for that reason can be undone."""
    return kind in KINDS


def next_of(value: Any) -> Mapping[str, Any] | None:
    """The note of a rewrite that may have been done: the timeline that proves it, and the stacks after it."""
    following = value.get("next") if isinstance(value, dict) else None
    return following if isinstance(following, dict) and isinstance(following.get("timelineId"), str) else None
