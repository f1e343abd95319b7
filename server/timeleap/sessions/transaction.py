"""How a request becomes a change of a session, exactly once, in order.

A `Transaction` is one attempt at it: admitted at its turn in the engine's queue, begun, recorded (its result and what
listeners are told become durable in the very step that makes the change), finished, told. `carry_out` takes the steps of
any change that is decided as a value; appends go their own way, since many of them become durable together. A cancelled
turn that has begun is finished; the engine sees to that. A dry run is a decision that is not carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from timeleap import clock
from timeleap.call import to_its_end
from timeleap.errors import ReadOnlyError, SessionNotOpenError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions import past, shapes
from timeleap.sessions.append_events import append_events, append_result
from timeleap.sessions.companion import Companion
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.documents.warnings import SMALL, line_problems, placeholder_warnings
from timeleap.sessions.kernel import rewrites
from timeleap.sessions.kernel.change import Change, Decide, Erasure, LogRewrite, Removal
from timeleap.sessions.kernel.session_view import SessionView, StateSnapshot, changes
from timeleap.sessions.participants import (
    ApprovalRequests,
    OtherProcesses,
    Participant,
    StandingApprovals,
    cause_elsewhere,
    told_elsewhere,
)
from timeleap.sessions.past import Stacks, summarize
from timeleap.sessions.request_table import RepeatedError, RequestTable, Transaction, refuse_other_head
from timeleap.sessions.session_state import StateManager, follow
from timeleap.sessions.shapes import (
    CONTEXT,
    WARNING,
    Access,
    Cause,
    Event,
    Listeners,
    Mutation,
    Past,
    Retention,
    Shapes,
    Summary,
    set_members,
)
from timeleap.storage.durable import failpoint, set_change_time_apart, storage_errors
from timeleap.storage.engine import Drafted, LogEngine, same_timelines
from timeleap.storage.log_values import Appended, LogState, Prepared, Timeline
from timeleap.summaries.log_spans import NewestSpan

_log = logging.getLogger(__name__)
MAX_NOTICES = 100
CLOCK_LOOKS, CLOCK_STEP = 25, 0.001
"""How often to look at a file system's clock that has not gone on, and the seconds between; those of ext4 and NTFS tick
every 10 ms or less, a clock of whole seconds is not waited for."""
NOBODY = Mutation()
PRUNED: Final = "timelinesPruned"
T = TypeVar("T")


class SessionServices(Struct, frozen=True):
    """Services of the store for a session.

    Attributes:
        shapes: The forms of results and notifications.
        retention: Limits of the timelines that are kept.
        fork_points: By session id: the checkpoint uids that its forks came from.
        release: Called when the session is closed once.
        moved_away: True if nothing is at the session's place by now, or another session.
        companion: Makes what goes along with its log.
        approval_requests: Questions of a session that wait for a decision.
    """

    shapes: Shapes
    retention: Retention
    fork_points: Callable[[str], set[str]]
    release: Callable[[SessionTransactions], Awaitable[None]]
    approval_requests: Callable[[SessionTransactions], ApprovalRequests]
    moved_away: Callable[[SessionTransactions], bool] | None = None
    companion: Callable[[SessionTransactions], Companion] = Companion


class Files(Struct, frozen=True):
    """Files of a session, opened with one access."""

    engine: LogEngine
    meta: Meta
    approvals: StandingApprovals
    others: OtherProcesses | None = None  # that write to it, too


class SessionTransactions:
    """The parts of an open session, and the changes of it.

    Attributes:
        meta: Its `timeleap.json`.
        state: Its state beside the log.
        requests: The requests that are known, and their answers.
        notices: Warnings that it came to while it was open.
        away: Files of it were not there when it was opened, but placeholders of a sync program.
        closed: Nothing is begun any more.
        deleted: It is only read here, and another process has deleted it.
        others: Other processes that write to it, too.
    """

    def __init__(self, session_id: str, path: Path, files: Files, services: SessionServices) -> None:
        self.session_id = session_id
        self.path = path
        self.shapes = services.shapes
        self._services = services
        self.fork_points = partial(services.fork_points, session_id)
        self.listeners = listeners = Listeners()
        self.newest_span = NewestSpan()
        self.listen, self.emit = listeners.add, listeners.tell
        self.notices: list[Json] = []
        self.closed = self.deleted = False
        self._readers_turn = asyncio.Lock()
        self._latest: str | None = None  # the timeline that holds the log which the last rewrite replaced
        self._watches: list[Callable[[], object]] = []  # each ends one
        self.adopt(files)

    def adopt(self, files: Files) -> None:
        """Begin with the opened files; or go on with others, when a follower becomes the owner."""
        self._stop_watching()
        self.engine, self.meta, self.others = files.engine, files.meta, files.others
        self.state = StateManager(self.path, self.engine, self.meta, files.approvals)
        self.requests = RequestTable(self.engine, self.meta, self.state, self.shapes)
        self.state.load()
        if self.engine.access == "write":
            self.state.settle()
            self.requests.settle()
        self.notices += [problem.warning() for problem in line_problems(self.path, SMALL)]
        self.away = bool(placeholder_warnings(self.path))
        self._watches.append(self.engine.watch(partial(self.reread, log_changed=True)))
        if self.engine.access == "read":
            self._watches.append(follow(self.state.stamp, self.reread))

    def _stop_watching(self) -> None:
        while self._watches:
            self._watches.pop(0)()

    @property
    def access(self) -> Access:
        """`owner` if this process may write to it."""
        return "owner" if self.engine.access == "write" else "readOnly"

    @property
    def head(self) -> str:
        """Changes with every change of the log, and never repeats."""
        return self.engine.head

    def warn(self, kind: str, message: str) -> None:
        """Tell the user, now and at the next look."""
        notice = {"kind": kind, "message": message}
        self.notices = [*self.notices[1 - MAX_NOTICES :], notice]
        self.emit(Event(kind, self.head, notice, WARNING))

    def refuse_reader(self) -> None:
        """Refuse a change of what is open to be read only."""
        if self.engine.access == "read":
            raise ReadOnlyError("the session is open to be read only: close it and open it for writing")

    def refuse_closed(self) -> None:
        """Refuse what is asked for after the end."""
        if self.closed:
            raise SessionNotOpenError(f"session {self.session_id} was closed: open it again")

    # Changes

    async def carry_out(
        self,
        request: Mutation,
        decide: Decide,
        part: Participant | None = None,
        *,
        rewrites: bool = False,
        looks: bool = False,
    ) -> Json:
        """Carry out at its turn, once, what `decide` makes of the session; the result of the request.

        Args:
            request: Its circumstances.
            decide: Makes the change.
            part: Takes part in it.
            rewrites: The change may be a new log.
            looks: To decide takes a look at many files, so it is done in a thread.

        Raises:
            ReadOnlyError: The session is open to be read only.
            HeadConflictError: The head is not the expected one.
            TimeleapError: As `decide`, `part`, and what is written.
        """
        self.refuse_reader()
        return await self.once(request, partial(self._carried_out, decide, part, rewrites, looks))

    async def _carried_out(
        self, decide: Decide, part: Participant | None, rewrites: bool, looks: bool, transaction: Transaction
    ) -> None:
        steps = partial(self._take_steps, transaction, decide, part, looks)
        try:
            change = await self.engine.run(steps, rewrites=rewrites)
        finally:
            # After the turn: in a store that others write to, too, only now the notes say whether the log was changed.
            if part is not None and part.token is not None:
                await to_its_end(asyncio.to_thread(part.settle))
        transaction.finish()
        self.tell(transaction.events, transaction.request.cause)
        # What another program did, or a repair, is to cost no timeline.
        if change.rewrite is not None and change.rewrite.kind != "external":
            await self._prune(self.engine.timelines())
        if self.meta.accompanied and (change.records or change.rewrite is not None):
            await self.log_changed()

    async def _take_steps(
        self, transaction: Transaction, decide: Decide, part: Participant | None, looks: bool, _: LogState
    ) -> Change:
        """The steps of one change, in the order in which they become durable; returns what was carried out."""
        tell_others(self.others, transaction)
        if looks:
            # What an earlier request left undone goes first, also where this one asks for it again.
            await asyncio.to_thread(self.state.finish_removing)
        # A known request gets the answer of then, one on another head is refused.
        transaction.admit(self.head)
        if looks:
            change = await asyncio.to_thread(decide, self.view)
        else:
            change = self._unless_refused(decide(self.view))
        if part is not None and (change.records or change.rewrite is not None):
            change = await part.join(change)
        if change.erasure is not None:
            # Those under way are noted later: with fingerprints in which a guess could be tried.
            self.requests.forget_fingerprints()
        transaction.begin()
        if change.erasure is not None:
            await self._erase(transaction, change.erasure)
        elif change.records:
            await self._append(transaction, change)
        elif change.rewrite is None:
            with self.telling_half(transaction.request.cause):
                await asyncio.to_thread(self._note_change, transaction, change)
        else:
            draft, facts = await self.engine.rewrite(partial(self._put_in_place, transaction, change.rewrite, part))
            drops_dmail = facts.pending_dmail is not self.state.facts.pending_dmail
            # In the same call as the new log is shown: nobody is to see one without the other.
            self.state.facts = facts
            if draft.replaces and (drops_dmail or draft.equals is not None):
                await asyncio.to_thread(self._settle_rewrite, draft)
        return change

    async def _append(self, transaction: Transaction, change: Change) -> None:
        done = await self.engine.add(change.records)
        transaction.events = append_events(self.engine, self.newest_span, done, change, transaction.request.cause)
        transaction.result = append_result(self.shapes, done, change)
        transaction.appended(done.head, done.before.lines)

    def _put_in_place(
        self, transaction: Transaction, rewrite: LogRewrite, part: Participant | None
    ) -> tuple[Drafted, StateSnapshot]:
        """Put a new log in the place of the present one; the state beside the log then. Blocking."""
        # Notes before the log: they count only once the timeline exists that the log's step makes.
        with self.engine.draft(rewrite.replacement) as draft:
            facts = self._note_rewrite(transaction, rewrite, draft, part)
            self.engine.commit(draft)  # the moment
        return draft, facts

    def _unless_refused(self, change: Change) -> Change:
        """The change, or where it is not worth carrying out the answer that says so: asked again it must not be done."""
        if change.rewrite is None or change.rewrite.refused is None:
            return change
        context = self.shapes.summary(self.summary())
        return Change(result=rewrites.result(change.rewrite, self.head, None, context))

    def _note_change(self, transaction: Transaction, change: Change) -> None:
        """Make a change beside the log durable, with what its request is answered and listeners are told. Blocking."""
        if change.removal is not None:
            self._remove(transaction, change.removal, change.result or {})
            return
        before, result = self.state.facts, change.result or {}
        if change.approval is not None:
            self.state.change_approvals(change.approval, transaction.request.cause)
            result = {"approval": self.state.facts.approval.wire()}
        after = self.state.facts if change.facts is None else change.facts
        lines = transaction.record({"head": self.head, **result}, changes(before, after, self.head))
        self.state.carry_out(change, lines)

    def _remove(self, transaction: Transaction, removal: Removal, result: Mapping[str, Any]) -> None:
        """Remove timelines and quarantine files for good, as is noted before. Blocking."""
        before, lines = self.past(), transaction.record({"head": self.head, **result})
        try:
            self.state.remove_noted(removal.timeline_ids, removal.quarantine, lines)
        except BaseException:
            # Once noted the request is known: a repeat finishes it, and gets its answer.
            self.requests.forget()
            raise
        names = removal.timeline_ids
        if names:
            text = f"{len(names)} timelines were removed on request: {', '.join(names[:10])}"
            warning = {"kind": PRUNED, "message": text + past.fewer_steps(before, self.past())}
            transaction.events.append(Event(warning["kind"], self.head, warning, WARNING))

    async def _erase(self, transaction: Transaction, erasure: Erasure) -> None:
        """Take something out of the session. Of what was nothing is kept, not even the request: it is known only while this
        process lives, and asking again finishes what was cut short."""
        if self.others is not None:
            self.others.forget()
        request, before, head = transaction.request, self.state.facts, self.head
        try:
            await erasure.carry_out(request.cause)
            self._forget_erased(erasure)
            result, members = erasure.done()
        except BaseException:
            self._forget_erased(erasure)
            self.tell(
                self._erased("external", {}, before, head), request.cause
            )  # also of what was done before it failed
            raise
        if request.request_id is not None:
            self.requests.load()  # else this is not among what is known
        # Nothing may be left in which a guess could be tried.
        transaction.before = ""
        transaction.record(result, None)
        transaction.events += self._erased("redacted", members, before, head)

    def _forget_erased(self, erasure: Erasure) -> None:
        # Nothing in memory is to remember more than the files say now.
        self.requests.forget()
        self.meta.refresh()
        self.state.load()
        self.notices = [{**notice, "message": erasure.clean(notice["message"])} for notice in self.notices]
        erasure.forget()

    def _erased(self, kind: str, members: Json, before: StateSnapshot, head: str) -> list[Event]:
        events = changes(before, self.state.facts, self.head)
        if self.head != head:
            events.insert(0, Event(kind, self.head, members, CONTEXT))
        return events

    def _note_rewrite(
        self, transaction: Transaction, rewrite: LogRewrite, draft: Drafted, part: Participant | None
    ) -> StateSnapshot:
        """Note what will be true once the draft is in its place, with the request ids that the new log loses; the state
        beside the log then. Blocking."""
        replacement, before = rewrite.replacement, self.stacks()
        tokens, kept = dict[str, str](), dict[str, str]()
        with storage_errors("replace the log", self.path / LOG_NAME):
            # A mirror's log has none, and the whole index would be looked through in vain.
            carried = [] if self.meta.mirrored else self.requests.leaving(replacement.keep_lines)
            if part is not None:
                part.prepare()
                tokens, kept = set_members(**{part.followed: part.token}), set_members(**{part.key: part.before})
                extra = {**replacement.facts.extra, **kept}
                replacement = replace(replacement, facts=replace(replacement.facts, extra=extra))
            # Lines that carry ids are about to move; and if the rewrite fails, looking again costs nothing.
            self.requests.forget()
            after = rewrites.stacks_after(rewrite, before, draft, partial(same_timelines, self.engine), kept)
            head = draft.head if draft.replaces else transaction.before
            self._latest = draft.kept_as
            if rewrite.kind == "external":
                result = rewrites.repaired(draft, head, self.engine.state)
                events = [Event("external", head, method=CONTEXT)]
            else:
                # Of the log that was made: a decision does not know what the lines left out change, in size and in uids.
                context = self.shapes.summary(summarize(draft.log, self.past_after(rewrite, draft, after)))
                result = rewrites.result(rewrite, head, draft.kept_as, context)
                events = [rewrites.event(rewrite, head, draft.kept_as, context)]
            if part is not None:
                result, events = {**result, **part.result()}, [*part.events(head), *events]
            drops = self.state.dropping(draft.log, head) if draft.replaces else []
            own = transaction.record(result, [*events, *drops])
            if draft.replaces:
                self.state.note_rewrite(draft, replacement, [*carried, *own], after, tokens)
            else:
                self.state.note_stacks(after, own, tokens)
            failpoint("session.prepared")
        facts = replace(self.state.facts, stacks=after)
        return replace(facts, pending_dmail=None) if drops else facts

    def _settle_rewrite(self, draft: Prepared) -> None:
        """Make what was noted of a rewrite hold by itself, and remove a timeline that is there only to prove it. Blocking;
        the rewrite is done: what fails from here on must not make it look undone."""
        try:
            self.state.settle_rewrite(draft)
            if draft.equals is not None:
                failpoint("replace.settled")
                self.engine.remove_timeline(draft.timeline_id)
                failpoint("replace.duplicate_removed")
        except (OSError, TimeleapError):
            _log.exception("a timeline that is not needed could not be removed: %s", draft.timeline_id)

    def past_after(self, rewrite: LogRewrite, prepared: Prepared, stacks: Stacks) -> Past:
        """The past after the rewrite, without the timelines that go by themselves then."""
        left = past.timeline_ids(self.engine)
        if prepared.kept_as is not None:
            left.add(prepared.kept_as)
        limits, source, lines = self._services.retention, rewrite.source, rewrite.kept.lines
        going = past.going_after(self.engine, source, lines, prepared, limits=limits, fork_points=self.fork_points)
        return past.past_of(left, stacks, prepared.after, going)

    async def at_its_turn(
        self, guard: Mutation, work: Callable[[Transaction], Awaitable[None]], *, by_reader: bool = False
    ) -> Json:
        """Change something beside the log at its turn: `work` admits, works out, begins, and makes it durable together
        with what the transaction records of it. What is done `by_reader` changes nothing of the session's own."""
        if not by_reader:
            self.refuse_reader()
        return await self.once(guard, partial(self._worked, work, by_reader))

    async def _worked(
        self, work: Callable[[Transaction], Awaitable[None]], by_reader: bool, transaction: Transaction
    ) -> None:
        if by_reader and self.engine.access == "read":
            async with self._readers_turn:
                await self._work(work, transaction, self.engine.state)
        else:
            await self.engine.run(partial(self._work, work, transaction))
        self.tell(transaction.events, transaction.request.cause)

    async def _work(
        self, work: Callable[[Transaction], Awaitable[None]], transaction: Transaction, _: LogState
    ) -> None:
        tell_others(self.others, transaction)
        await work(transaction)
        transaction.finish()

    async def once(self, guard: Mutation, attempt: Callable[[Transaction], Awaitable[None]]) -> Json:
        """The result of a transaction, or of the one that the request made before."""
        while True:
            self.refuse_closed()
            transaction = Transaction(self.requests, guard)
            try:
                await attempt(transaction)
            except RepeatedError as repeated:
                if repeated.result is not None:
                    return self.told_again(repeated.result, guard)
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])
            else:
                return transaction.result
            finally:
                transaction.abandon()

    def told_again(self, result: Json, request: Mutation) -> Json:
        """The answer to a request that was carried out before."""
        return result if request.again else {**result, "duplicate": True, "head": self.head}

    async def answered(self, guard: Mutation) -> Json | None:
        """The earlier result of a request, or None if it is new. For methods with expensive work before their turn.

        Raises:
            InvalidInputError: The id is known for another request.
            HeadConflictError: The head is not the expected one.
        """
        return await self.once(guard, self._admitted) or None

    async def _admitted(self, transaction: Transaction) -> None:
        await self.at_turn(nothing)
        # Who has waited for a turn goes on before the next step begins.
        transaction.admit(self.head)

    async def log_changed(self) -> None:
        """Where files are kept, let the clock of their times go on before a change of the log is answered: whether a file
        was changed before that or since is told by its time, and decides whether a restore takes it for a conflict."""
        for _ in range(CLOCK_LOOKS):
            if set_change_time_apart(self.path / LOG_NAME):
                return
            await to_its_end(asyncio.sleep(CLOCK_STEP))

    # Turns

    async def at_turn(self, read: Callable[[], T]) -> T:
        """The result of `read`, called when all earlier requests have taken effect."""
        return await self.engine.at_turn(read)

    def expect_head(self, head: str | None) -> None:
        """Refuse what was asked of another past (None: of any), as the request itself would be.

        Raises:
            HeadConflictError: The head is not the expected one.
        """
        refuse_other_head(head, self.head)

    # The past

    @property
    def view(self) -> SessionView:
        """The session as decisions see it."""
        return SessionView(self.engine, self.state.facts, clock.now_iso())

    def stacks(self) -> Stacks:
        """The undo and redo stacks as they are now."""
        return past.in_reach(self.state.facts.stacks, self.engine)

    def past(self) -> Past:
        """Counts of states to go back to."""
        return past.past_of(past.timeline_ids(self.engine), self.state.facts.stacks, self.engine.state)

    def summary(self) -> Summary:
        """The facts of the log that fit on a screen."""
        return summarize(self.engine, self.past())

    async def _prune(self, timelines: Sequence[Timeline]) -> None:
        """Remove the oldest timelines beyond the limits, and say so."""
        if not past.excess(timelines, self._services.retention, (), self.engine.state, self._latest):
            return
        try:
            # To its end: the request is done, and is answered so.
            text = await to_its_end(self.engine.run(self._remove_excess))
        except (TimeleapError, OSError) as error:
            # The rewrite is done, whatever becomes of what is too much.
            self.warn("timelinesNotPruned", f"old timelines could not be removed: {error}")
            return
        if text:
            self.warn(PRUNED, text)

    async def _remove_excess(self, _: LogState) -> str:
        """Remove what is too much; the warning of it. One's turn has come."""
        present, before = self.engine.timelines(), self.past()
        kept = past.referred_to(present, await asyncio.to_thread(self.fork_points), self.engine)
        going = past.excess(present, self._services.retention, kept, self.engine.state, self._latest)
        text = await asyncio.to_thread(self.state.remove_timelines, going)
        return text and text + past.fewer_steps(before, self.past())

    # Changes that others make, and the end

    def reread(self, *, log_changed: bool = False) -> None:
        """Take over what stands beside the log; and the log, where its owner or a program that takes no lock has written to
        it. Of a session that is only read here, and that another process has deleted, listeners are told that, once."""
        moved = self._services.moved_away
        gone = moved is not None and self.engine.access == "read" and moved(self)
        if self.others is not None:
            gone = self.others.gone
        if not self.deleted and gone:
            self.deleted = True
            self.emit(Event("deleted", self.head, cause=cause_elsewhere(self.others)))
        if self.deleted:
            return
        told = None if self.others is None else told_elsewhere(self.others.heard())
        if log_changed:
            self.requests.forget()
            if told is None:
                self.emit(Event("external", self.head, method=CONTEXT))
        before = self.state.facts
        self.meta.refresh()
        self.state.load()
        self.emit(*(changes(before, self.state.facts, self.head) if told is None else told))

    @contextmanager
    def telling_half(self, cause: Cause) -> Iterator[None]:
        """A change of state that fails may have been half written: what is on disk then counts, and is told."""
        before = self.state.facts
        try:
            yield
        except OSError:
            self.tell_changes(before, cause)
            raise

    def tell(self, events: Iterable[Event], cause: Cause) -> None:
        """Tell listeners what has happened, and who asked for it."""
        self.emit(*(replace(event, cause=cause) for event in events))

    def tell_changes(self, before: StateSnapshot, cause: Cause) -> None:
        """Tell listeners how the state beside the log differs from what it was."""
        self.tell(changes(before, self.state.facts, self.head), cause)

    async def shut(self) -> None:
        """Finish what was accepted; whatever is asked for from now on is refused."""
        self.closed = True
        self._stop_watching()
        if self.engine.access == "write":
            await self.engine.at_turn(nothing, latest=False)


def nothing() -> None:
    """Do nothing; a turn is all that is waited for."""


def tell_others(others: OtherProcesses | None, what: Transaction | Change, cause: Cause = NOBODY.cause) -> None:
    """Have other processes tell the events of a transaction or of a planned append, too."""
    if others is not None:
        others.tell(partial(_events_told, what, cause))


def _events_told(what: Transaction | Change, cause: Cause, head: str, before: LogState, after: LogState) -> list[Event]:
    if isinstance(what, Transaction):
        return [replace(event, cause=what.request.cause) for event in what.events]
    return shapes.appended_events(Appended(before, after, head), what.made, what.told, cause)
