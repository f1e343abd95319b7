"""The requests of a session: which are known, what they were answered with, which are on their way to the disk.

`RequestTable` is the one place that says so. What is stored of requests, and where, is in `timeleap.sessions.documents.request_file`;
of the others the records in the log carry the ids, and results are made of these when somebody asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import CorruptedError, HeadConflictError, StorageFailureError
from timeleap.json_value import Json
from timeleap.message_text import texts
from timeleap.sessions import shapes
from timeleap.sessions.documents.meta import REQUESTS_REDACTED, Meta
from timeleap.sessions.documents.request_file import (
    HIGHEST,
    MADE_REMEMBERED,
    REMEMBERED,
    Remembered,
    StoredResponse,
    by_age,
    check_same,
    encode,
    fitted,
    members_of,
    number_of,
    short,
    stored_events,
    window_of,
)
from timeleap.sessions.kernel.change import NO_MARKS, Change, DecideAppend
from timeleap.sessions.logs import begin_of, end_of, era_of
from timeleap.sessions.past import past_of, read_checkpoint, summarize, timeline_ids, uid_at
from timeleap.sessions.session_state import StateManager
from timeleap.sessions.shapes import (
    COUNT_UPDATED,
    SYSTEM_PROMPT_SET,
    Cause,
    Checkpoint,
    Effect,
    Event,
    Mutation,
    Shapes,
    json_members,
)
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import Appended, Entry, LogState, RecordFlag, RecordKind
from timeleap.storage.record import TL_KEY, decode_json, read_tl
from timeleap.summaries.log_spans import NewSpans, SpanRead, read_spans, with_spans, without_spans

NO_HEAD = "0.0.0-00000000"
"""In the place of a head that a redaction took out: no log ever has it."""
AT_ONCE = 64
MOST_LINES = 64 * REMEMBERED
"""Lines that are looked through for ids that count."""
MAX_BYTES_AT_ONCE = 4 << 20
MERGED = "merged"
"""The member of a message that was merged from another session: members of the answer that it had."""


class RepeatedError(Exception):
    """A request id that is known; `result` (with the head right after the change) is None while the `first` request is
    still on its way."""

    def __init__(self, result: Json | None, first: asyncio.Future[None] | None = None) -> None:
        super().__init__("the request was made before")
        self.result = result
        self.first = first


class Transaction(Struct, eq=False):
    """An attempt of a request to change a session: admitted, begun, recorded, finished, told; each exactly once.

    Attributes:
        before: The head it was admitted at.
        result: The result of the request; made once, so that a repeat gets the same.
        events: Events for listeners when it is done.
        begun: It is on its way to the disk.
    """

    _table: RequestTable
    request: Mutation
    before: str = ""
    result: Json = {}
    events: list[Event] = []
    begun: bool = False
    _done: asyncio.Future[None] | None = None
    _number: int = 0
    _response: StoredResponse | None = None

    def admit(self, head: str) -> None:
        """Let it pass if it is new and made on the present head. Call again if its turn comes a second time.

        Raises:
            RepeatedError: The id is known (asked first: a repeat of what moved the head must not conflict with itself).
            InvalidInputError: The id is known for another request.
            HeadConflictError: The head is not the expected one.
        """
        self.before = head
        request = self.request
        if request.request_id is not None:
            self._table.refuse_known(self, request.request_id)
        refuse_other_head(request.expected_head, head)

    def decide(self, decide: DecideAppend, state: LogState, head_at: Callable[[LogState], str]) -> Change:
        """Admit it, and begin it with what `decide` makes of the state and its marks; raises as these two."""
        request_id, expected_head = self.request.request_id, self.request.expected_head
        if request_id is not None or expected_head is not None:
            self.admit("" if expected_head is None else head_at(state))
        if request_id is None:
            return decide(state, NO_MARKS)
        change = decide(state, self._table.next_marks(request_id, self.request))
        self.begin()
        return change

    def begin(self) -> None:
        """It has passed all checks and is on its way to the disk: it has a number from now on."""
        request_id = self.request.request_id
        if request_id is not None:
            table = self._table
            self._number = table.last = min(table.last + 1, HIGHEST)
            table.under_way[request_id] = self
            self.begun = True

    def ended(self) -> asyncio.Future[None]:
        """Done when it is not on its way any more, for those that ask again meanwhile."""
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        return self._done

    def record(self, result: Json, told: Sequence[Event] | None = ()) -> list[Json]:
        """The journal line that is to become durable with the change, which says its result and what listeners are told
        (None: a repeat does not tell it again); none where the request carries no id."""
        self.result = result
        self.events = list(told or ())
        kept = without_spans(result)
        known = self._known(result=kept, before=self.before, told=None if told is None else stored_events(told, kept))
        if known is None:
            return []
        self._response = fitted(known)
        return [encode(self._response)]

    def appended(self, head: str, line: int) -> None:
        """It is written, and the record at `line` that carries its id says all there is to say: nothing else is kept.
        `head` is that right after it."""
        if self.request.request_id is not None:
            self._response = self._known(line=line, era=era_of(head))

    def finish(self) -> None:
        """It is done: a repeat is answered from now on."""
        if self._response is not None:
            self._table.remember(self._response)
        self.abandon()

    def abandon(self) -> None:
        """It is not on its way any more; its waiters look again."""
        if self.begun:
            self.begun = False
            under_way, request_id = self._table.under_way, self.request.request_id or ""
            if under_way.get(request_id) is self:
                del under_way[request_id]
            if self._done is not None:
                self._done.set_result(None)
                self._done = None

    def forget_fingerprint(self) -> None:
        """A redaction begins: it matches any params, too (one for an approval may be on its way for long)."""
        self.request = replace(self.request, fingerprint="")
        self._response = self._response and replace(self._response, fingerprint="")

    def _known(self, **members: Any) -> StoredResponse | None:
        request = self.request
        if request.request_id is None:
            return None
        method = short(request.method)
        return StoredResponse(request.request_id, request.fingerprint, method, number=self._number, **members)


def refuse_other_head(expected: str | None, head: str) -> None:
    """Refuse, with HeadConflictError, what was asked of another past (None: of any)."""
    if expected is not None and expected != head:
        raise HeadConflictError(
            f"the log has changed: its head is {head}, not {expected[:80]}; look at it and try again", head=head
        )


class _Records(Struct):
    """The records that a request appended: the state before it, the entries of its records, and the checkpoints among them, which are
    read where they are asked for."""

    _engine: LogEngine
    before: LogState
    entries: list[Entry]
    _made: list[Checkpoint] | None = None

    def made(self) -> list[Checkpoint]:
        if self._made is None:
            last = self.entries[-1].state.messages
            lines = [entry.line for entry in self.entries if entry.kind is RecordKind.CHECKPOINT]
            self._made = [read_checkpoint(self._engine, line, last) for line in lines]
        return self._made


class RequestTable:
    """The newest requests of one session, and those on their way to the disk. What is known is looked up at the first
    request that carries an id.

    Attributes:
        under_way: The requests on their way to the disk, by id.
        last: The highest number that a request has.
    """

    def __init__(self, engine: LogEngine, meta: Meta, state: StateManager, shapes: Shapes) -> None:
        self._engine = engine
        self._meta = meta
        self._state = state
        self._shapes = shapes
        self._remembered: Remembered | None = None
        self._of_reader: dict[str, StoredResponse] = {}  # done where the session is only read: noted nowhere else
        self.under_way: dict[str, Transaction] = {}
        self.last = 0

    def forget(self) -> None:
        """Look again before the next use: a rewrite moves the records that carry ids."""
        self._remembered = None

    def forget_fingerprints(self) -> None:
        """A redaction begins: those on their way match any params, too."""
        for transaction in self.under_way.values():
            transaction.forget_fingerprint()

    def load(self) -> Remembered:
        """The requests that are known: those kept in files, and those in the log."""
        if self._remembered is None:
            known = by_age((*self._state.requests(), *self._of_reader.values()), self._since(0))
            newest = max((request.number for request in known.oldest_first()), default=0)
            if self._meta.requests_redacted > newest and self._engine.access == "write":
                # Before another one gets a number: whatever the file says, a request of the future was not redacted.
                with suppress(StorageFailureError):  # it is tried again when they are next looked at
                    self._meta.write({REQUESTS_REDACTED: newest})
            self._remembered, self.last = known, max(self.last, newest)
        return self._remembered

    def remember(self, known: StoredResponse) -> None:
        """A request is done."""
        if self._engine.access == "read":
            self._of_reader[known.request_id] = known
            if len(self._of_reader) > REMEMBERED:
                del self._of_reader[next(iter(self._of_reader))]
        if self._remembered is not None:
            self._remembered.add(known)

    def refuse_known(self, transaction: Transaction, request_id: str) -> None:
        """Refuse a request whose id is known, or on its way by another attempt (see `Transaction.admit`)."""
        known, first = self.load().get(request_id), self.under_way.get(request_id)
        if first is not None and first is not transaction:
            check_same(transaction.request, first.request.fingerprint)
            raise RepeatedError(None, first.ended())
        if known is not None:
            check_same(transaction.request, known.fingerprint)
            # Answered at once: the record the answer is made of may move before the caller gets to it.
            raise RepeatedError(self._result(known))

    def next_marks(self, request_id: str, request: Mutation) -> dict[str, str | int]:
        """Members of `_tl` of the next request: what it is, its number, whose it is, and the era of the log."""
        number, era = min(self.last + 1, HIGHEST), era_of(self._engine.head)
        marks: dict[str, str | int] = {"r": request_id, "h": request.fingerprint, "m": short(request.method)}
        marks["s"], marks["o"], marks["g"] = number, self._meta.origin, era
        return marks

    def effects(self, request_ids: Iterable[str]) -> list[Effect]:
        """The changes that some requests have made already, oldest first."""
        table = self.load()
        known = (known for name in request_ids if (known := table.get(name)) is not None)
        return [self._effect(request) for request in sorted(known, key=lambda request: request.number)]

    def settle(self) -> None:
        """At open by the owner: note what every record of a request needs to say whose it is, or that it does not
        count."""
        members: Json = {}
        leaving: list[Json] = []
        if self._meta.uid_is_new and (origin := self._last_origin()) is not None:
            members = json_members(requests_of=origin)
            self._meta.note_missing()
        elif self._meta.inherited_lines and not self._meta.requests_marked:
            # An earlier release made this fork: it went by the number of lines, which other steps move.
            members, leaving = json_members(requests_marked=True), self.leaving(0)
        if members:
            with suppress(StorageFailureError):  # it counts as it did, and the next opening tries again
                self._state.note(members, leaving)
        if self._meta.requests_redacted >= 0:
            self.load()  # what it corrects is stored with the rest that opening completes, before another id gets a number

    def leaving(self, keep_lines: int) -> list[Json]:
        """Journal lines for the requests that cannot be answered from the first `keep_lines` lines alone.

        Of a batch that is cut through the first record may stay, with the id but without the rest of its effect. And
        behind a damaged line, which is left out, no record stays where it was: the head of then could not be told. So
        what is stored already is not to be made of the log again.
        """
        damage = self._engine.damage()
        damaged = (record.line for record in damage if record.outside_history)
        going = self._since(min((keep_lines, *damaged)))
        if not going:
            return []
        kept = self._state.stored()
        newest = by_age((), going).oldest_first()
        first, last = going[0].line - 1, going[-1].line
        if last - first < 4 * len(going):  # else reading them together would take longer
            near = {entry.line: entry for entry in self._engine.entries(first, last + 1)}
        else:
            near = {}
        new = (known for known in newest if known.number > kept.get(known.request_id, -1))
        return [encode(self._whole(known, self._records(known.line, near))) for known in new]

    # What known requests were answered with

    def _result(self, known: StoredResponse) -> Json:
        """The result of a request, its head that of right after the change; members too large to be kept are computed
        from the session as it is now."""
        if known.result is None:
            return self._of_record(known, self._records(known.line))
        now = self._now(known.members) if known.left_out else {}
        result = {**{name: now[name] for name in known.left_out if name in now}, **known.result}
        for name in {left_out.partition(".")[0] for left_out in known.left_out if "." in left_out}:
            result[name] = {**members_of(now.get(name)), **members_of(result.get(name))}
        if result.get("head") == "":
            result["head"] = NO_HEAD
        return with_spans(self._engine, result)

    def _effect(self, known: StoredResponse) -> Effect:
        """A known request, with the notifications of it to be sent again."""
        result, before = self._result(known), known.before
        told: list[tuple[str, str, Mapping[str, Any]]] | None = None
        head = str(result.get("head", ""))
        if known.told is not None:
            told = [
                (method, kind, {**{name: result[name] for name in same if name in result}, **members})
                for method, kind, members, same in known.told
            ]
        elif known.line >= 0:
            records = self._records(known.line)
            before = before or self._head_before(known, records)
            events = self._events(known, head, records, with_spans=True)
            told = [(event.method, event.kind, event.members) for event in events]
        return Effect(known.request_id, before, head, told)

    def _whole(self, known: StoredResponse, records: _Records) -> StoredResponse:
        """A request of a record with all that is to be stored of it."""
        result = self._of_record(known, records)
        told = stored_events(self._events(known, str(result.get("head", "")), records), result)
        return replace(known, result=result, before=self._head_before(known, records), told=told)

    def _now(self, members: Collection[str]) -> Json:
        """Members of a result that describe the session, as it is now."""
        engine, facts = self._engine, self._state.facts
        subagents = [agent.wire() for agent in facts.subagents]
        now = json_members(dynamic_subagents=subagents, approval=facts.approval.wire())
        if "compacted" not in members:  # a compaction's say which pins its summary has
            now["pins"] = list(facts.pins)
        if "context" in members:
            past = past_of(timeline_ids(engine), facts.stacks, engine.state)
            now["context"] = self._shapes.summary(summarize(engine, past))
        return now

    def _records(self, line: int, near: Mapping[int, Entry] = MappingProxyType({})) -> _Records:
        """Find the records of the request whose first one is at `line`; `near`: entries that were read already."""
        engine = self._engine
        found = [near[line - 1], near[line]] if line - 1 in near else engine.entries(max(0, line - 1), line + 1)
        before, entries = found[0].state if line else LogState(), found[-1:]
        while entries[-1].flags & RecordFlag.BATCH_OPEN and entries[-1].line < engine.state.lines - 1:
            for entry in engine.entries(entries[-1].line + 1, entries[-1].line + 1 + AT_ONCE):
                entries.append(entry)
                if not entry.flags & RecordFlag.BATCH_OPEN:
                    break
        return _Records(engine, before, entries)

    def _of_record(self, known: StoredResponse, records: _Records) -> Json:
        """The result of a request whose records stand in the log."""
        entry, before, after = records.entries[0], records.before, records.entries[-1].state
        if after.pending_chars < 0:  # not counted yet
            after = self._engine.state_before(after.lines)
        head = {"head": self._head_of(known, after)}
        if entry.kind is RecordKind.CHECKPOINT and known.method == "checkpoint":
            # Its preview is what was written with it; what follows by now was not there when it was answered.
            return {**head, "checkpoint": records.made()[0].wire()}
        if entry.kind is RecordKind.USAGE and known.method != "appendMessage":
            return {**head, **json_members(token_count=entry.value)}
        if entry.kind is RecordKind.SYSTEM_PROMPT:
            return head
        if known.method == "sendDMail":
            return {**head, **json_members(pending_dmail=None, index=before.messages)}
        if known.method == "merge":
            message = decode_json(self._engine.read(records.entries[-1].line, after.lines)[0])
            members = {
                **json_members(first_index=before.messages),
                **message[TL_KEY][MERGED],
                "summary": texts(message)[-1],
            }
            return {**head, "checkpoint": records.made()[0].wire(), **members}
        return self._shapes.appended(Appended(before, after, head["head"]))

    def _events(self, known: StoredResponse, head: str, records: _Records, *, with_spans: bool = False) -> list[Event]:
        """Events about the records that a request appended; spans only where it is asked for, as they are not
        stored."""
        engine, end, made = self._engine, records.entries[-1].state, records.made()
        said: tuple[str, Json] | None = None
        for entry in records.entries:
            if entry.kind is RecordKind.USAGE:
                said = COUNT_UPDATED, json_members(token_count=entry.value)
            elif entry.kind is RecordKind.SYSTEM_PROMPT:
                said = SYSTEM_PROMPT_SET, {}
        spans: Sequence[SpanRead] = ()
        if with_spans and end.checkpoints:
            spans = read_spans(engine, end.checkpoints - (len(made) or 1), len(made) or 1, end)
        happened = [read.span.wire() for read in spans]
        newest = NewSpans(happened if made else [], happened[-1]) if spans else None
        uid = uid_at(engine, spans[-1].entry.line) if spans else None
        told, span = shapes.changed_span(made, newest, uid, asked_for=known.method == "checkpoint")
        return shapes.appended_events(Appended(records.before, end, head), told, said, Cause(), span)

    def _head_before(self, known: StoredResponse, records: _Records) -> str:
        return self._head_of(known, records.before) if known.era else ""

    def _head_of(self, known: StoredResponse, state: LogState) -> str:
        """The head that the log had at a state when a record was written."""
        head = self._engine.head_at(state)
        return f"{known.era}.{head.rpartition('.')[2]}" if known.era else head

    # The records that carry ids

    def _last_origin(self) -> str | None:
        """The origin in the newest record of a request; None where it has none."""
        for _, body in self._bodies(self._engine.view.request_lines(1)):
            origin = read_tl(body).get("o")
            return origin if isinstance(origin, str) else None
        return None

    def _since(self, keep_lines: int) -> list[StoredResponse]:
        """The newest requests whose records end at `keep_lines` or behind it, oldest first."""
        limit = REMEMBERED
        if not self._engine.view.request_lines(1):
            return []  # of a log without any the whole index was looked through: once is enough
        made_here = self._lines(MADE_REMEMBERED, True, keep_lines)
        while True:
            clients = self._lines(limit, False, keep_lines)
            found, whole = self._read(sorted({*made_here, *clients}))
            given = sum(window_of(known.request_id) is None for known in found)
            if whole or len(clients) < limit or limit >= MOST_LINES or given >= REMEMBERED:
                return found
            limit *= 4  # an index of an earlier release does not tell whose ids they are

    def _lines(self, limit: int, made_here: bool, keep_lines: int) -> list[int]:
        """The last lines with ids whose batches end at `keep_lines` or behind it."""
        lines: list[int] = []
        for line in self._engine.view.request_lines(limit, made_here):
            if line < keep_lines and self._records(line).entries[-1].line < keep_lines:
                break  # all that come now end before it
            lines.append(line)
        return lines

    def _read(self, lines: Sequence[int]) -> tuple[list[StoredResponse], bool]:
        """The session's own requests among the records of some lines; and whether there are records of another's before
        them, of which a fork is made: then there are no more of its own."""
        own, unmarked, redacted = self._meta.origins, self._meta.unmarked_lines, self._meta.requests_redacted
        last, inherited = 0, False
        found: list[StoredResponse] = []
        for line, body in self._bodies(lines):
            marks = read_tl(body)
            if str(marks["o"]) not in own if "o" in marks else line < unmarked:
                inherited = True
                continue
            match marks:
                case {"r": str(name), "h": str(fingerprint), "m": str(method)}:
                    # An earlier release that wrote to the log again gave no numbers.
                    last = max(last, number_of(marks))
                    fingerprint = fingerprint if last > redacted else ""
                    era = era if isinstance(era := marks.get("g"), str) else ""
                    found.append(StoredResponse(name, fingerprint, method, line=line, number=last, era=era))
                case _:
                    continue
        return found, inherited

    def _bodies(self, lines: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """The bodies of lines in rising order; those that are damaged are left out, their ids are lost with them."""
        engine = self._engine
        for start in range(0, len(lines), AT_ONCE):
            few = lines[start : start + AT_ONCE]
            first, last = few[0], few[-1]
            if last - first < 2 * AT_ONCE and end_of(engine, last) - begin_of(engine, first) < MAX_BYTES_AT_ONCE:
                try:
                    bodies = engine.read(first, last + 1)
                except CorruptedError:
                    pass  # one of them: look at each alone
                else:
                    yield from ((line, bodies[line - first]) for line in few)
                    continue
            for line in few:
                with suppress(CorruptedError):
                    yield line, engine.read(line, line + 1)[0]
