"""Answers from the log: which requests its records carry, and what they were answered with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from timeleap.errors import CorruptedError, StorageFailureError
from timeleap.sessions import shapes
from timeleap.sessions.checkpoints import past_of, read_checkpoint, summarize
from timeleap.sessions.meta import REQUESTS_REDACTED, Meta
from timeleap.sessions.outcomes import Checkpoint
from timeleap.sessions.requests import (
    MADE_REMEMBERED,
    REMEMBERED,
    Remembered,
    StoredResponse,
    by_age,
    completed,
    encode,
    number_of,
    told,
)
from timeleap.sessions.shapes import Shapes
from timeleap.storage.engine import LogEngine, LogState, RecordFlag, RecordKind
from timeleap.storage.record import MADE_HERE, read_tl

if TYPE_CHECKING:
    from timeleap.sessions.session_state import StateSnapshot

NO_HEAD = "0.0.0-00000000"
"""In the place of a head that a redaction took out: no log ever has it."""
AT_ONCE = 64
MOST_LINES = 64 * REMEMBERED
"""That are looked through for ids that count."""
MAX_BYTES_AT_ONCE = 4 << 20


@dataclass(frozen=True, slots=True)
class Made:
    """A change that was made by a request which is asked again.

    Attributes:
        head: The head right after it.
        before: The head before it; empty where it is not known.
        told: The notifications of it: method, kind and members of each; None where they are not known.
    """

    head: str
    before: str
    told: Sequence[tuple[str, str, Mapping[str, Any]]] | None


class RequestReplayer:
    """The requests that appended records to a log. `meta` says whose records are this session's own, `facts` gives the
    state beside the log as it counts now."""

    def __init__(
        self,
        engine: LogEngine,
        shapes: Shapes,
        meta: Meta,
        facts: Callable[[], StateSnapshot],
    ) -> None:
        self._engine = engine
        self._shapes = shapes
        self._meta = meta
        self._facts = facts

    def known(self, kept: Iterable[tuple[str, StoredResponse]]) -> Remembered:
        """The requests that are known, those in the log (of which results are made only when somebody asks again) and those
        kept in files."""
        known = by_age(kept, self._since(0))
        newest = max((request.number for _, request in known.items()), default=0)
        if self._meta.requests_redacted > newest and self._engine.access == "write":
            # Before another one gets a number: whatever the file says, a request of the future was not redacted.
            with suppress(StorageFailureError):  # it is tried again when they are next looked at
                self._meta.write({REQUESTS_REDACTED: newest})
        return known

    def to_settle(self, stored: Callable[[], Mapping[str, int]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Members of `timeleap.json` and journal lines to note at open, so that every record of a request says whose it is,
        or that it does not count; `stored` as in `leaving`."""
        meta = self._meta
        if meta.uid_is_new and (origin := self.last_origin()) is not None:
            return {"requestsOf": origin}, []
        if meta.inherited_lines and meta.get("requestsMarked") is not True:
            # An earlier release made this fork: it went by the number of lines, which other steps move.
            return {"requestsMarked": True}, self.leaving(0, stored)
        return {}, []

    def last_origin(self) -> str | None:
        """The origin in the newest record of a request; None where it has none."""
        for _, body in self._bodies(self._engine.request_lines(1)):
            origin = read_tl(body).get("o")
            return origin if isinstance(origin, str) else None
        return None

    def leaving(self, keep_lines: int, stored: Callable[[], Mapping[str, int]]) -> list[dict[str, Any]]:
        """Journal lines for the requests that cannot be answered from the first `keep_lines` lines alone.

        Of a batch that is cut through the first record may stay, with the id but without the rest of its effect. And
        behind a damaged line, which is left out, no record stays where it was: the head of then could not be told. So
        what is stored already is not to be made of the log again.

        Args:
            keep_lines: How many lines stay.
            stored: The request ids whose answers are kept beside the log, and their numbers; asked for only if there is
                need.
        """
        damage = self._engine.damage()
        damaged = (record.line for record in damage if record.kind in ("damagedRecord", "checksumMismatch"))
        going = self._since(min((keep_lines, *damaged)))
        if not going:
            return []
        kept, newest = stored(), by_age((), going)
        return [
            encode(name, self._remembered(known)) for name, known in newest.items() if known.number > kept.get(name, -1)
        ]

    def result(self, known: StoredResponse) -> Mapping[str, Any]:
        """The result of a request, its head that of right after the change; members too large to be kept are computed
        from the session as it is now."""
        if known.result is None:
            return self._of_record(known, self._end_of_batch(known.line))
        now = self._now(known.members) if known.left_out else {}
        result = completed(known, now)
        if result.get("head") == "":
            result["head"] = NO_HEAD
        return result

    def change(self, known: StoredResponse) -> Made:
        """The notifications that a known request caused, to be sent again."""
        result = self.result(known)
        head, told = str(result.get("head", "")), known.told
        if told is None and known.line >= 0:
            return Made(head, known.before or self._head_before(known), self._told_of(known, head))
        if told is None:
            return Made(head, known.before, None)
        said = [(event.method, event.kind, {**_of(result, event.same), **event.members}) for event in told]
        return Made(head, known.before, said)

    def _remembered(self, known: StoredResponse) -> StoredResponse:
        """A request of a record with all that is to be stored of it."""
        result = self.result(known)
        parts = [told(*event, result) for event in self._told_of(known, str(result.get("head", "")))]
        kept = tuple(part for part in parts if part is not None)
        before = self._head_before(known)
        return replace(known, result=result, before=before, told=kept if len(kept) == len(parts) else None)

    def _told_of(self, known: StoredResponse, head: str) -> list[tuple[str, str, Mapping[str, Any]]]:
        """The notifications of what a request appended."""
        first, last = known.line, self._end_of_batch(known.line)
        engine = self._engine
        messages = engine.state_before(last + 1).messages
        made: list[Checkpoint] = []
        said: tuple[str, dict[str, Any]] | None = None
        for entry in engine.entries(first, last + 1):
            if entry.kind is RecordKind.CHECKPOINT:
                made.append(read_checkpoint(engine, entry.line, messages))
            elif entry.kind is RecordKind.USAGE:
                said = "tokenCountUpdated", {"tokenCount": entry.value}
            elif entry.kind is RecordKind.SYSTEM_PROMPT:
                said = "systemPromptSet", {}
        found = shapes.appended_events(head, made, said, self._before(first).messages, messages)
        return [(event.method, event.kind, event.members) for event in found]

    def _head_before(self, known: StoredResponse) -> str:
        return self._head_of(known, self._before(known.line)) if known.era else ""

    def _before(self, line: int) -> LogState:
        """The state before a line; its pending characters may not be counted."""
        return self._engine.entries(line - 1, line)[0].state if line else LogState()

    def _head_of(self, known: StoredResponse, state: LogState) -> str:
        """The head that the log had at a state when a record was written."""
        head = self._engine.head_at(state)
        return f"{known.era}.{head.rpartition('.')[2]}" if known.era else head

    def _since(self, keep_lines: int) -> list[tuple[str, StoredResponse]]:
        """The newest requests whose records end at `keep_lines` or behind it, oldest first."""
        limit = REMEMBERED
        made_here = self._lines(MADE_REMEMBERED, True, keep_lines)
        while True:
            clients = self._lines(limit, False, keep_lines)
            found, whole = self._read(sorted({*made_here, *clients}))
            if whole or len(clients) < limit or limit >= MOST_LINES or _given(found) >= REMEMBERED:
                return found
            limit *= 4  # an index of an earlier release does not tell whose ids they are

    def _lines(self, limit: int, made_here: bool, keep_lines: int) -> list[int]:
        """The last lines with ids whose batches end at `keep_lines` or behind it."""
        lines: list[int] = []
        for line in self._engine.request_lines(limit, made_here):
            if line < keep_lines and self._end_of_batch(line) < keep_lines:
                break  # all that come now end before it
            lines.append(line)
        return lines

    def _read(self, lines: Sequence[int]) -> tuple[list[tuple[str, StoredResponse]], bool]:
        """The session's own requests among the records of some lines; and whether there are records of another's before
        them, of which a fork is made: then there are no more of its own."""
        own, unmarked, redacted = self._meta.origins, self._meta.unmarked_lines, self._meta.requests_redacted
        last, inherited = 0, False
        found: list[tuple[str, StoredResponse]] = []
        for line, body in self._bodies(lines):
            marks = read_tl(body)
            origin = marks.get("o")
            if origin not in own if "o" in marks else line < unmarked:
                inherited = True
                continue
            match marks:
                case {"r": str(name), "h": str(fingerprint), "m": str(method)}:
                    # An earlier release that wrote to the log again gave no numbers.
                    last = max(last, number_of(marks))
                    era = marks.get("g")
                    known = StoredResponse(
                        fingerprint if last > redacted else "",
                        method,
                        line=line,
                        number=last,
                        era=era if isinstance(era, str) else "",
                    )
                    found.append((name, known))
                case _:
                    continue
        return found, inherited

    def _now(self, members: Collection[str]) -> dict[str, Any]:
        """Of a result with these members, those that say how the session is, as it is now."""
        engine, facts = self._engine, self._facts()
        now: dict[str, Any] = {
            "dynamicSubagents": shapes.subagents(facts.subagents),
            "approval": shapes.approval(facts.approval),
        }
        if "compacted" not in members:  # a compaction's say which pins its summary has
            now["pins"] = list(facts.pins)
        if "context" in members:
            past = past_of(engine.timeline_ids(), facts.stacks, engine.state)
            now["context"] = self._shapes.summary(summarize(engine, past))
        return now

    def _of_record(self, known: StoredResponse, last: int) -> dict[str, Any]:
        """The result of a request whose records stand in the log."""
        engine, line = self._engine, known.line
        entry = engine.entries(line, line + 1)[0]
        after = engine.state_before(last + 1)
        head = {"head": self._head_of(known, after)}
        if entry.kind is RecordKind.CHECKPOINT and known.method == "checkpoint":
            # Its preview is what was written with it; what follows by now was not there when it was answered.
            return {**head, "checkpoint": shapes.checkpoint(read_checkpoint(engine, line, after.messages))}
        if entry.kind is RecordKind.USAGE:
            return {**head, "tokenCount": entry.value}
        if entry.kind is RecordKind.SYSTEM_PROMPT:
            return head
        before = self._before(line)
        if known.method == "sendDMail":
            return {**head, "pendingDMail": None, "index": before.messages}
        return {**head, **self._shapes.appended(before, after)}

    def _bodies(self, lines: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """The bodies of lines in rising order; those that are damaged are left out, their ids are lost with them."""
        for start in range(0, len(lines), AT_ONCE):
            few = lines[start : start + AT_ONCE]
            if few[-1] - few[0] < 2 * AT_ONCE and self._bytes(few[0], few[-1]) < MAX_BYTES_AT_ONCE:
                try:
                    bodies = self._engine.read(few[0], few[-1] + 1)
                except CorruptedError:
                    pass  # one of them: look at each alone
                else:
                    yield from ((line, bodies[line - few[0]]) for line in few)
                    continue
            for line in few:
                try:
                    yield line, self._engine.read(line, line + 1)[0]
                except CorruptedError:
                    continue

    def _bytes(self, first: int, last: int) -> int:
        """The size of the lines from `first` to `last`."""
        start, end = self._engine.entries(first, first + 1)[0], self._engine.entries(last, last + 1)[0]
        return end.offset + end.length - start.offset

    def _end_of_batch(self, line: int) -> int:
        """The last line of the batch that begins at `line`."""
        step = 64
        while True:
            for entry in self._engine.entries(line, line + step):
                if not entry.flags & RecordFlag.BATCH_OPEN:
                    return entry.line
                line = entry.line + 1
            if line >= self._engine.state.lines:
                return self._engine.state.lines - 1


def _given(found: Sequence[tuple[str, StoredResponse]]) -> int:
    """How many of some ids clients gave."""
    return sum(not name.startswith(MADE_HERE) for name, _ in found)


def _of(result: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: result[name] for name in names if name in result}
