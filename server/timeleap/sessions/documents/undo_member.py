"""The member `undo` of `timeleap.json`: the stacks of undo and redo, which change in the same atomic step as the log.

Stacks after a rewrite are noted before it (`next`), with the timeline whose existence says that the rewrite was done, and
count from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from timeleap.sessions.documents.companion_forms import FORMS
from timeleap.sessions.documents.json_files import BAD, Check, Problems, choice, complete, model, text, whole
from timeleap.sessions.documents.request_file import counts
from timeleap.sessions.past import KINDS, MAX_STEPS, Stacks, is_step, kept_with
from timeleap.sessions.shapes import HistoryStep, camel_case, json_members
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import Timeline

MEMBER: Final = "undo"
"""Member of `timeleap.json` with the stacks."""
_TIMELINE: Final = camel_case("timeline_id")
_STEP_MEMBERS: Final = json_members(kind=choice(*sorted(KINDS)), timeline_id=text(empty=False))


@lru_cache
def _step_check(keys: tuple[str, ...]) -> Check:
    """The type of a step, of which companions keep something under these keys."""
    return model({**_STEP_MEMBERS, **dict.fromkeys(keys, text(empty=False))}, required=("kind",))


def _steps(value: Any, where: str, problems: Problems) -> Any:
    """A stack. What lies below a step that cannot be used cannot be gone back to."""
    if not isinstance(value, list):
        return problems.add(where, "is not an array")
    found: list[Any] = []
    check = _step_check(tuple(FORMS))
    for at, entry in enumerate(value):
        step = check(entry, f"{where}[{at}]", problems)
        bad = step is BAD or (isinstance(entry, dict) and _TIMELINE in entry and _TIMELINE not in step)
        found = [] if bad else [*found[1 - MAX_STEPS :], step]
    return found


_STACKS: Final = {"undo": _steps, "redo": _steps, "length": whole(), "chain": text("[0-9a-f]{16}")}
_STACKS_CHECK: Final = model(_STACKS)
_PROOF: Final = json_members(timeline_id=text(), length=whole(), chain=text("[0-9a-f]{16}"))
CHECK: Final = model(
    {
        **_STACKS,
        "next": model({**_PROOF, "equals": text(), "stacks": _STACKS_CHECK}, required=(*_PROOF, "stacks")),
        "duplicate": complete(json_members(timeline_id=text(), equals=text())),
    }
)
"""The type of the member."""


def read(value: Any) -> Stacks:
    """The stacks that a member of `timeleap.json` holds; what is malformed ends a stack."""
    found = _STACKS_CHECK(value, MEMBER, Problems())
    if found is BAD:
        return Stacks()
    undo, redo = (
        tuple(HistoryStep(step["kind"], step.get(_TIMELINE), kept_with(step)) for step in found.get(name, ()))
        for name in ("undo", "redo")
    )
    if "length" in found and "chain" in found:
        return Stacks(undo, redo, (found["length"], int(found["chain"], 16)))
    return Stacks(undo)


def in_force(value: Any, log: LogEngine) -> Stacks:
    """The stacks of a log, as a member of `timeleap.json` says: those after the last rewrite, if it was done."""
    if value is None:
        return after_old_rewrites(log.timelines())
    following = next_of(value)
    return read(following.get("stacks") if following is not None and counts(following, log) else value)


def next_of(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Note in the member of a rewrite that may have been done."""
    return value.get("next") if value is not None else None


def after_old_rewrites(timelines: Sequence[Timeline]) -> Stacks:
    """The undo stack of a session that nobody noted one for: each rewrite made one of its timelines, newest first, and
    said why."""
    found = [
        HistoryStep(log.facts.reason, log.timeline_id, kept_with(log.facts.extra))
        for log in timelines
        if is_step(log.facts.reason)
    ]
    return Stacks(tuple(found[:MAX_STEPS][::-1]))
