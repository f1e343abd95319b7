"""Says whether what several processes were answered could have come from one session that does one operation at a time.

The search of Wing and Gong with the memory of Lowe: an order of the operations in which each lies between its call and
its return, and in which a model gives each the result that it had.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

S = TypeVar("S")
UNKNOWN = object()
"""The result of an operation of which nobody heard the outcome: it may be done at any time after its call, or never."""


@dataclass(frozen=True)
class Operation:
    """One call and what came of it.

    Attributes:
        process: Who called.
        name: Of the operation, with its `argument`.
        called, returned: By one clock; `returned` is infinite where no answer came.
        result: What was answered, or UNKNOWN.
        version: That the state had afterwards, as was answered; those of later changes are greater.
    """

    process: str
    name: str
    argument: Any
    called: float
    returned: float = math.inf
    result: Any = UNKNOWN
    version: tuple[int, ...] | None = None


Step = Callable[[S, Operation], "S | None"]
"""The state after an operation; None where it cannot have had its result in that state."""


class _Event:
    """A call or a return, in a list by time; `returning` is that of a call."""

    __slots__ = ("after", "before", "number", "operation", "returning")

    def __init__(self, number: int, operation: Operation, returning: _Event | None) -> None:
        self.number = number
        self.operation = operation
        self.returning = returning
        self.before: _Event | None = None
        self.after: _Event | None = None

    def take_out(self) -> None:
        assert self.before is not None
        self.before.after = self.after
        if self.after is not None:
            self.after.before = self.before

    def put_back(self) -> None:
        assert self.before is not None
        self.before.after = self
        if self.after is not None:
            self.after.before = self


def unexplained(history: Iterable[Operation], initial: S, step: Step[S]) -> str:
    """Why no order of the operations explains their results: those that the longest one leaves over; empty if one does."""
    operations = sorted(history, key=lambda operation: operation.called)
    first = _events(operations)
    state, done = initial, 0
    seen: set[tuple[int, S]] = set()
    chosen: list[tuple[_Event, S]] = []
    most, left = -1, ""
    event = first.after
    while first.after is not None:
        assert event is not None
        if event.returning is not None:
            following = step(state, event.operation)
            mark = done | 1 << event.number
            if following is not None and (mark, following) not in seen:
                seen.add((mark, following))
                chosen.append((event, state))
                state, done = following, mark
                event.take_out()
                event.returning.take_out()
                event = first.after
            else:
                event = event.after
            continue
        if len(chosen) > most:
            most, left = len(chosen), f"after {len(chosen)} of {len(operations)}: {event.operation}"
        if not chosen:
            return left
        event, state = chosen.pop()
        done &= ~(1 << event.number)
        assert event.returning is not None
        event.returning.put_back()
        event.put_back()
        event = event.after
    return ""


def _events(operations: list[Operation]) -> _Event:
    """A list of calls and returns by time, after a first one that is none."""
    timed: list[tuple[float, int, int, _Event]] = []
    for number, operation in enumerate(operations):
        returning = _Event(number, operation, None)
        timed.append((operation.called, 0, number, _Event(number, operation, returning)))
        timed.append((operation.returned, 1, number, returning))
    first = last = _Event(-1, Operation("", "", None, -math.inf), None)
    for *_, event in sorted(timed, key=lambda each: each[:3]):
        last.after, event.before = event, last
        last = event
    return first


class Entry:
    """A message or a checkpoint of a log, on those before it; two equal ones are one object, so that states are cheap to
    make and to compare.

    Attributes:
        text: Of the message; None of a checkpoint.
        label: Of a checkpoint, where it matters which one it is.
        messages, checkpoints: How many there are up to here.
    """

    __slots__ = ("before", "checkpoints", "label", "messages", "text")
    _known: dict[tuple[int, str | None, str | None], Entry] = {}  # noqa: RUF012  # of the class: equal ones are the same

    def __init__(self, text: str | None, before: Entry | None, label: str | None = None) -> None:
        self.text = text
        self.before = before
        self.label = label
        self.messages: int = (before.messages if before else 0) + (text is not None)
        self.checkpoints: int = (before.checkpoints if before else 0) + (text is None)

    @classmethod
    def on(cls, before: Entry | None, text: str | None, label: str | None = None) -> Entry:
        return cls._known.setdefault((id(before), text, label), cls(text, before, label))


class Undo:
    """A log that `undo` brings back, on those that the next ones bring back."""

    __slots__ = ("below", "log")
    _known: dict[tuple[int, int], Undo] = {}  # noqa: RUF012

    def __init__(self, log: Entry | None, below: Undo | None) -> None:
        self.log = log
        self.below = below

    @classmethod
    def on(cls, below: Undo | None, log: Entry | None) -> Undo:
        return cls._known.setdefault((id(below), id(log)), cls(log, below))


READS = frozenset(("read", "count"))
"""Operations that change nothing."""
BESIDE = frozenset(("send", "cancel"))
"""Those that change what stands beside the log, and leave its version as it is."""
Mail = tuple[str | None, str]
"""A D-Mail that waits: the label of its checkpoint, and its text."""
Contents = tuple[Entry | None, Undo | None, Mail | None]
NOTHING: Contents = (None, None, None)
SUMMARY = "summary"
"""The text of the message that a compaction makes."""
SessionState = tuple[Contents, int]
"""With how many of the versions that were answered of changes have been reached."""


def session_answer(state: Contents, name: str, argument: Any, result: Any = UNKNOWN) -> tuple[object, Contents]:
    """How a session answers, and what it is then.

    `append` of a text: the index it is at. `checkpoint` with a label: its id. `revert` to the checkpoint of an id, and
    `undo`: how many messages there are then; False where there is none. `compact`, with a label for the checkpoint that it makes: how many of
    the last messages stay, or True where nothing is done, which nobody works out here: the `result` says it. `send` of a D-Mail to the
    checkpoint of an id, and `cancel`: True; `deliver` with a label for the checkpoint before it: as `revert`. `read`: the
    texts. `count`: how many there are.
    """
    log, undo, mail = state
    match name:
        case "append":
            return _messages(log), (Entry.on(log, argument), undo, mail)
        case "checkpoint":
            return (log.checkpoints if log else 0), (Entry.on(log, None, argument), undo, mail)
        case "revert":
            if log is None or argument >= log.checkpoints:
                return False, state
            return _replaced(state, _before_checkpoint(log, argument))
        case "undo":
            if undo is None:
                return False, state
            return _messages(undo.log), (undo.log, undo.below, _kept(mail, undo.log))
        case "compact":
            texts = texts_of(log)
            if result is True or len(texts) < 2:
                return True, state
            kept = result if isinstance(result, int) else 1
            if not 0 < kept < len(texts):
                return 1, state
            compacted = Entry.on(Entry.on(None, None, argument), SUMMARY)
            for text in texts[-kept:]:
                compacted = Entry.on(compacted, text)
            return kept, _replaced(state, compacted)[1]
        case "send":
            number, text = argument
            if mail is not None or log is None or number >= log.checkpoints:
                return False, state
            return True, (log, undo, (_labels(log)[number], text))
        case "cancel":
            return (False, state) if mail is None else (True, (log, undo, None))
        case "deliver":
            if mail is None:
                return False, state
            cut = Entry.on(_before_checkpoint(log, _labels(log).index(mail[0])), None, argument)
            count, (after, below, _) = _replaced(state, Entry.on(cut, mail[1]))
            return count, (after, below, None)
        case "count":
            return _messages(log), state
        case _:
            return texts_of(log), state


def _replaced(state: Contents, log: Entry | None) -> tuple[int, Contents]:
    """How many messages there are once a log has taken the place of the present one, and what the session is then."""
    return _messages(log), (log, Undo.on(state[1], state[0]), _kept(state[2], log))


def _kept(mail: Mail | None, log: Entry | None) -> Mail | None:
    """A D-Mail that waits, if its checkpoint is still there."""
    return mail if mail is not None and mail[0] in _labels(log) else None


def _labels(log: Entry | None) -> list[str | None]:
    """Of the checkpoints of a log."""
    labels = []
    while log is not None:
        if log.text is None:
            labels.append(log.label)
        log = log.before
    return labels[::-1]


def _before_checkpoint(log: Entry | None, number: int) -> Entry | None:
    while log is not None and log.checkpoints > number:
        log = log.before
    return log


def unexplained_session(history: Iterable[Operation]) -> str:
    """Why no session can have answered a history like that; empty if one can.

    Changes are taken in the order of the versions that they were answered with. Without that an undo fits wherever as many
    messages come back, and the search has no end.
    """
    operations = list(history)
    versions = sorted(
        operation.version
        for operation in operations
        if operation.version is not None and operation.name not in READS | BESIDE
    )

    def step(state: SessionState, operation: Operation) -> SessionState | None:
        contents, reached = state
        result, after = session_answer(contents, operation.name, operation.argument, operation.result)
        # False is no count of messages, though it equals 0.
        told = operation.result is UNKNOWN or (operation.result == result and type(operation.result) is type(result))
        if not told:
            return None
        if operation.version is None:  # nobody heard of it, or nothing was changed
            return after, reached
        if operation.name in READS or operation.name in BESIDE:
            # Between the last one and the next: the change may be one of which nobody heard.
            return (after, reached) if bisect_right(versions, operation.version) == reached else None
        return (after, reached + 1) if bisect_left(versions, operation.version) == reached else None

    return unexplained(operations, (NOTHING, 0), step)


def texts_of(log: Entry | None) -> tuple[str, ...]:
    """The messages of a log."""
    texts = []
    while log is not None:
        if log.text is not None:
            texts.append(log.text)
        log = log.before
    return tuple(reversed(texts))


def _messages(log: Entry | None) -> int:
    return 0 if log is None else log.messages
