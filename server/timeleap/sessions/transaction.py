"""How a request becomes a change of a session, exactly once, in order.

A `Transaction` is one attempt at it: admitted at its turn in the engine's queue, begun, recorded (its result and what
listeners are told become durable in the very step that makes the change), finished, told. `carry_out` takes the steps of
any change that is decided as a value; appends go their own way, since many of them become durable together. A cancelled
turn that has begun is finished; the engine sees to that. A dry run is a decision that is not carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from timeleap import clock
from timeleap.call import to_its_end
from timeleap.errors import ReadOnlyError, SessionNotOpenError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions import past, shapes
from timeleap.sessions.append_plan import AppendPlan
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.documents.warnings import SMALL, line_problems, placeholder_warnings
from timeleap.sessions.kernel import rewrites
from timeleap.sessions.kernel.change import Change, Decide, LogRewrite
from timeleap.sessions.kernel.session_view import SessionView, StateSnapshot, changes
from timeleap.sessions.participants import (
    ApprovalRequests,
    Participant,
    SharedEvents,
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
)
from timeleap.sessions.working_tree import Restore, SessionFiles
from timeleap.storage.durable import failpoint, set_change_time_apart, storage_errors
from timeleap.storage.engine import Appended, LogEngine, LogState, Prepared, Replaced, Replacement, Timeline
from timeleap.storage.timeline_damage import damaged_before, new_damage, not_restored
from timeleap.summaries.log_spans import NewestSpan

_log = logging.getLogger(__name__)
MAX_NOTICES = 100
CLOCK_LOOKS, CLOCK_STEP = 25, 0.001
"""How often to look at a file system's clock that has not gone on, and the seconds between; those of ext4 and NTFS tick
every 10 ms or less, a clock of whole seconds is not waited for."""
NOBODY = Mutation()
T = TypeVar("T")


class SessionServices(Struct, frozen=True):
    """Services of the store for a session.

    Attributes:
        shapes: The forms of results and notifications.
        retention: Limits of the timelines that are kept.
        fork_points: By session id: the checkpoint uids that its forks came from.
        release: Called when the session is closed once.
        moved_away: True if nothing is at the session's place by now, or another session.
        files: Makes what keeps the files of its workspace.
        approval_requests: Questions of a session that wait for a decision.
    """

    shapes: Shapes
    retention: Retention
    fork_points: Callable[[str], set[str]]
    release: Callable[[SessionTransactions], Awaitable[None]]
    approval_requests: Callable[[SessionTransactions], ApprovalRequests]
    moved_away: Callable[[SessionTransactions], bool] = lambda _: False
    files: Callable[[SessionTransactions], SessionFiles] = SessionFiles


class Files(Struct, frozen=True):
    """Files of a session, opened with one access."""

    engine: LogEngine
    meta: Meta
    approvals: StandingApprovals
    shared: SharedEvents | None = None  # of a session that others write to, too


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
        shared: Where others hear of its changes, if they write to it, too.
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
        self._stop_watching: Callable[[], object] = lambda: None
        self.adopt(files)

    def adopt(self, files: Files) -> None:
        """Begin with the opened files; or go on with others, when a follower becomes the owner."""
        self._stop_watching()
        engine, meta, self.shared = files.engine, files.meta, files.shared
        self.engine, self.meta = engine, meta
        self.state = StateManager(self.path, engine, meta, files.approvals)
        self.requests = RequestTable(engine, meta, self.state, self.shapes)
        self.state.load()
        if engine.access == "write":
            self.state.settle()
            self.requests.settle()
        self.notices += [problem.warning() for problem in line_problems(self.path, SMALL)]
        self.away = bool(placeholder_warnings(self.path))
        stop_log = engine.watch(partial(self.reread, log_changed=True))
        stop_state = follow(self.state.stamp, self.reread) if engine.access == "read" else lambda: None
        self._stop_watching = lambda: (stop_log(), stop_state())

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
        if self.access == "readOnly":
            raise ReadOnlyError("the session is open to be read only: close it and open it for writing")

    def refuse_closed(self) -> None:
        """Refuse what is asked for after the end."""
        if self.closed:
            raise SessionNotOpenError(f"session {self.session_id} was closed: open it again")

    # Changes

    async def carry_out(
        self, request: Mutation, decide: Decide, part: Participant | None = None, *, rewrites: bool = False
    ) -> Json:
        """Carry out at its turn, once, what `decide` makes of the session; the result of the request.

        Args:
            request: Its circumstances.
            decide: Makes the change.
            part: Takes part in it.
            rewrites: The change may be a new log.

        Raises:
            ReadOnlyError: The session is open to be read only.
            HeadConflictError: The head is not the expected one.
            TimeleapError: As `decide`, `part`, and what is written.
        """
        self.refuse_reader()
        return await self.once(request, partial(self._carried_out, decide, part, rewrites))

    async def _carried_out(
        self, decide: Decide, part: Participant | None, rewrites: bool, transaction: Transaction
    ) -> None:
        try:
            replaced = await self.engine.run(partial(self._take_steps, transaction, decide, part), rewrites=rewrites)
        finally:
            # After the turn: in a store that others write to, too, only now the notes say whether the log was changed.
            if part is not None and part.token is not None:
                await to_its_end(asyncio.to_thread(part.settle))
        transaction.finish()
        self.tell(transaction.events, transaction.request.cause)
        if replaced is not None:
            await self._prune(self.engine.timelines())
            if self.meta.keeps_files:
                await self.log_changed()

    async def _take_steps(
        self, transaction: Transaction, decide: Decide, part: Participant | None, _: LogState
    ) -> Replaced | None:
        """The steps of one change, in the order in which they become durable."""
        announce(self.shared, transaction)
        transaction.admit(self.head)  # a known request gets the answer of then, one on another head is refused
        change = self._unless_refused(decide(self.view))
        if part is not None and change.rewrite is not None:
            change = await part.join(change)
        transaction.begin()
        if change.rewrite is None:
            with self.telling_half(transaction.request.cause):
                await asyncio.to_thread(self._note_change, transaction, change)
            return None
        # Notes before the log: they count only once the timeline exists that the log's step makes.
        async with self.engine.draft(change.rewrite.replacement) as draft:
            facts = await asyncio.to_thread(self._note_rewrite, transaction, change.rewrite, draft, part)
            replaced = await self.engine.commit(draft)  # the moment
        drops_dmail = facts.pending_dmail is not self.state.facts.pending_dmail
        # In the same call as the new log is shown: nobody is to see one without the other.
        self.state.facts = facts
        if draft.replaces and (drops_dmail or draft.equals is not None):
            await asyncio.to_thread(self._settle_rewrite, draft)
        return replaced

    def _unless_refused(self, change: Change) -> Change:
        """The change, or where it is not worth carrying out the answer that says so: asked again it must not be done."""
        if change.rewrite is None or change.rewrite.refused is None:
            return change
        context = self.shapes.summary(self.summary())
        return Change(result=rewrites.result(change.rewrite, self.head, None, context))

    def _note_change(self, transaction: Transaction, change: Change) -> None:
        """Make a change beside the log durable, with what its request is answered and listeners are told. Blocking."""
        before, result = self.state.facts, change.result
        if change.approval is not None:
            self.state.change_approvals(change.approval, transaction.request.cause)
            result = {"approval": self.state.facts.approval.wire()}
        after = self.state.facts if change.facts is None else change.facts
        lines = transaction.record({"head": self.head, **result}, changes(before, after, self.head))
        self.state.carry_out(change, lines)

    def _note_rewrite(
        self, transaction: Transaction, rewrite: LogRewrite, draft: Prepared, part: Participant | None
    ) -> StateSnapshot:
        """Note what will be true once the draft is in its place, with the request ids that the new log loses; the state
        beside the log then. Blocking."""
        assert draft.log is not None
        replacement, before = rewrite.replacement, self.stacks()
        token = files = None
        with storage_errors("replace the log", self.path / LOG_NAME):
            carried = self.requests.leaving(replacement.keep_lines)  # the whole index may be looked through for them
            if part is not None:
                part.prepare()
                token, files = part.token, part.before
                replacement = replace(replacement, facts=past.with_files(replacement.facts, files))
            # Lines that carry ids are about to move; and if the rewrite fails, looking again costs nothing.
            self.requests.forget()
            after = rewrites.stacks_after(rewrite, before, draft, self.engine.same_timelines, files)
            # Of the log that was made: a decision does not know what the lines left out of it change, in size and in uids.
            context = self.shapes.summary(summarize(draft.log, self._past_after(rewrite, draft, after)))
            head = draft.head if draft.replaces else transaction.before
            name = self._latest = draft.kept_as
            result = rewrites.result(rewrite, head, name, context)
            events = [rewrites.event(rewrite, head, name, context)]
            if part is not None:
                result, events = {**result, **part.result()}, [*part.events(head), *events]
            drops = self.state.dropping(draft.log, head) if draft.replaces else []
            own = transaction.record(result, [*events, *drops])
            if draft.replaces:
                self.state.note_rewrite(draft, replacement, [*carried, *own], after, token)
            else:
                self.state.note_stacks(after, own, token)
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

    async def replace_log(self, decide: Callable[[SessionView], Replacement]) -> Replaced:
        """Put a log in the place of the present one at its turn, though no request asks for it; that ends redo."""
        return await self.engine.run(partial(self._replace_log, decide), rewrites=True)

    async def _replace_log(self, decide: Callable[[SessionView], Replacement], _: LogState) -> Replaced:
        replacement, stacks = decide(self.view), self.stacks().without_redo()
        # What is remembered of requests goes along; a mirror's log has none, and would be looked through in vain.
        carried = [] if self.meta.mirrored else self.requests.leaving(replacement.keep_lines)
        async with self.engine.draft(replacement) as draft:
            await asyncio.to_thread(self.state.note_rewrite, draft, replacement, carried, stacks)
            replaced = await self.engine.commit(draft)
        if draft.replaces:
            self.state.facts = replace(self.state.facts, stacks=stacks)
            if draft.equals is not None:
                await asyncio.to_thread(self._settle_rewrite, draft)
        return replaced

    async def foretell(self, request: Mutation, decide: Decide, restore: Restore, part: Participant | None) -> Json:
        """The result of a rewrite as far as it can be told without carrying it out.

        Raises:
            CorruptedError: The timeline it would bring back is damaged.
            TimeleapError: As `decide`, and as `part`.
        """
        result = await self.at_turn(partial(self._foretold, request, decide, restore, part))
        if part is None or part.token is None:
            return result
        return {**result, **await asyncio.to_thread(part.foretell)}

    def _foretold(self, request: Mutation, decide: Decide, restore: Restore, part: Participant | None) -> Json:
        self.expect_head(request.expected_head)
        change = decide(self.view)
        rewrite = change.rewrite
        assert rewrite is not None
        if part is not None:
            part.intend(change)
        if restore == "files":
            return rewrites.files_result(rewrite, self.head, self.shapes.summary(self.summary()))
        self._refuse_damaged(rewrite.replacement.from_timeline)
        if rewrite.refused is not None:
            context = self.summary()
        else:
            prepared, after = rewrites.foreseen(rewrite, self.engine, self.stacks())
            context = rewrites.summary(rewrite, self._past_after(rewrite, prepared, after))
        return rewrites.result(rewrite, self.head, None, self.shapes.summary(context))

    def _refuse_damaged(self, timeline_id: str | None) -> None:
        """Refuse with CorruptedError a timeline that is known not to be what was set aside."""
        engine = self.engine
        known = next((timeline for timeline in engine.timelines() if timeline.timeline_id == timeline_id), None)
        if known is not None:
            damage = new_damage(engine.timeline(known.timeline_id), damaged_before(known.facts))
            if damage:
                raise not_restored(self.path / known.file, damage[0].offset)

    def _past_after(self, rewrite: LogRewrite, prepared: Prepared, stacks: Stacks) -> Past:
        """Past after the rewrite, without the timelines that go by themselves then."""
        left = self.engine.timeline_ids()
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

        async def attempt(transaction: Transaction) -> None:
            async def on_turn(_: LogState) -> None:
                announce(self.shared, transaction)
                await work(transaction)
                transaction.finish()

            if by_reader and self.access == "readOnly":
                async with self._readers_turn:
                    await on_turn(self.engine.state)
            else:
                await self.engine.run(on_turn)
            self.tell(transaction.events, guard.cause)

        return await self.once(guard, attempt)

    async def once(self, guard: Mutation, attempt: Callable[[Transaction], Awaitable[None]]) -> Json:
        """The result of a transaction, or of the one that the request made before."""
        while True:
            if self.closed:
                self.refuse_closed()
            transaction = Transaction(self.requests, guard)
            try:
                await attempt(transaction)
            except RepeatedError as repeated:
                if repeated.result is not None:
                    return {**repeated.result, **({} if guard.again else {"duplicate": True, "head": self.head})}
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])
            else:
                return transaction.result
            finally:
                transaction.abandon()

    async def answered(self, guard: Mutation) -> Json | None:
        """The earlier result of a request, or None if it is new. For methods with expensive work before their turn.

        Raises:
            InvalidInputError: The id is known for another request.
            HeadConflictError: The head is not the expected one.
        """

        async def attempt(transaction: Transaction) -> None:
            await self.at_turn(lambda: transaction.admit(self.head))

        return await self.once(guard, attempt) or None

    async def note(self, lines: list[Json]) -> None:
        """Make journal lines durable."""
        if lines:
            await asyncio.to_thread(self.state.note, {}, lines)

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
        return past.past_of(self.engine.timeline_ids(), self.state.facts.stacks, self.engine.state)

    def summary(self) -> Summary:
        """The facts of the log that fit on a screen."""
        return summarize(self.engine, self.past())

    async def _prune(self, timelines: Sequence[Timeline]) -> None:
        """Remove the oldest timelines beyond the limits, and say so."""
        limits, engine = self._services.retention, self.engine
        if not past.excess(timelines, limits, (), engine.state, self._latest):
            return

        async def on_turn(_: LogState) -> str:
            present = engine.timelines()
            kept = past.referred_to(present, await asyncio.to_thread(self.fork_points), engine)
            going = past.excess(present, limits, kept, engine.state, self._latest)
            before = self.past()
            text = await asyncio.to_thread(self.state.remove_timelines, going)
            return text and text + past.fewer_steps(before, self.past())

        try:
            text = await to_its_end(engine.run(on_turn))  # the request is done, and is answered so
        except (TimeleapError, OSError) as error:
            # The rewrite is done, whatever becomes of what is too much.
            self.warn("timelinesNotPruned", f"old timelines could not be removed: {error}")
            return
        if text:
            self.warn("timelinesPruned", text)

    # Changes that others make, and the end

    def reread(self, *, log_changed: bool = False) -> None:
        """Take over what stands beside the log; and the log, where its owner or a program that takes no lock has written to
        it. Of a session that is only read here, and that another process has deleted, listeners are told that, once."""
        gone = (
            self.shared.gone
            if self.shared is not None
            else self.access == "readOnly" and self._services.moved_away(self)
        )
        if not self.deleted and gone:
            self.deleted = True
            self.emit(Event("deleted", self.head, cause=cause_elsewhere(self.shared)))
        if self.deleted:
            return
        told = None if self.shared is None else told_elsewhere(self.shared.heard())
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
        if self.access == "owner":
            await self.engine.at_turn(lambda: None, latest=False)


def announce(shared: SharedEvents | None, what: Transaction | AppendPlan, cause: Cause = NOBODY.cause) -> None:
    """Have other processes tell the events of a transaction or of a planned append, too."""
    if shared is None:
        return

    def told(head: str, before: LogState, after: LogState) -> list[Event]:
        if isinstance(what, Transaction):
            return [replace(event, cause=what.request.cause) for event in what.events]
        return shapes.appended_events(Appended(before, after, head), what.made, what.told, cause)

    shared.announce(told)
