"""How a request becomes a change of a session, exactly once, in order.

A `Transaction` is one attempt at it: admitted at its turn in the engine's queue, begun, recorded (its result and what
listeners are told become durable in the very step that makes the change), finished, told. All changes go that way:
`append`, `rewrite` and, for what stands beside the log, `at_its_turn` differ only in what is written. A cancelled turn
that has begun is finished; the engine sees to that. A dry run is the plan of a rewrite, not carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from timeleap.call import to_its_end
from timeleap.errors import ReadOnlyError, SessionNotOpenError, TimeleapError
from timeleap.sessions import past, restoring, shapes
from timeleap.sessions.append_plan import AppendPlan, WorkOut
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.documents.warnings import SMALL, line_problems, placeholder_warnings
from timeleap.sessions.participants import (
    ApprovalRequests,
    SharedEvents,
    StandingApprovals,
    cause_elsewhere,
    told_elsewhere,
)
from timeleap.sessions.past import Stacks, summarize
from timeleap.sessions.request_table import RepeatedError, RequestTable, Transaction, refuse_other_head
from timeleap.sessions.restoring import LOG_ALONE, FilesStep, RestoreRequest
from timeleap.sessions.rewrite_plan import RewritePlan, refuse_damaged
from timeleap.sessions.session_state import StateChange, StateManager, StateSnapshot, changes, follow
from timeleap.sessions.shapes import (
    CONTEXT,
    WARNING,
    Access,
    Cause,
    Checkpoint,
    Event,
    Listeners,
    Mutation,
    Past,
    Retention,
    Shapes,
    Summary,
)
from timeleap.sessions.working_tree import TreeOf, WorkingTree, no_tree
from timeleap.storage.durable import failpoint, set_change_time_apart
from timeleap.storage.engine import Appended, LogEngine, LogState, NewRecord, Prepared, Replacement, Timeline
from timeleap.summaries.log_spans import NewestSpan

_log = logging.getLogger(__name__)
MAX_NOTICES = 100
CLOCK_LOOKS, CLOCK_STEP = 25, 0.001
"""How often to look at a file system's clock that has not gone on, and the seconds between; those of ext4 and NTFS tick
every 10 ms or less, a clock of whole seconds is not waited for."""
Json = dict[str, Any]
NOBODY = Mutation()
T = TypeVar("T")


class SessionServices(Struct, frozen=True):
    """What a session gets from its store.

    Attributes:
        shapes: The forms of results and notifications.
        retention: Limits of the timelines that are kept.
        fork_points: By session id: the checkpoint uids that its forks came from.
        release: Called when the session is closed once.
        moved_away: True if what is at the session's place by now is nothing, or another session.
        tree_of: The files of its workspace.
        approval_requests: Questions of a session that wait for a decision.
    """

    shapes: Shapes
    retention: Retention
    fork_points: Callable[[str], set[str]]
    release: Callable[[SessionTransactions], Awaitable[None]]
    approval_requests: Callable[[SessionTransactions], ApprovalRequests]
    moved_away: Callable[[SessionTransactions], bool] = lambda _: False
    tree_of: TreeOf = no_tree


class Files(Struct, frozen=True):
    """Files of a session, opened with one access."""

    engine: LogEngine
    meta: Meta
    approvals: StandingApprovals
    shared: SharedEvents | None = None  # of a session that others write to, too


class AppendFiles(Struct, frozen=True):
    """What an append does for the session's files.

    Attributes:
        at_checkpoints: Gives the checkpoints of the plan a snapshot, before they are written.
        appended: Called when it is written.
    """

    at_checkpoints: Callable[[AppendPlan], Awaitable[AppendPlan]] | None = None
    appended: Callable[[], Awaitable[None]] | None = None


NO_FILES: Final = AppendFiles()


class SessionTransactions:
    """What one open session consists of, and the changes of it.

    Attributes:
        meta: Its `timeleap.json`.
        state: Its state beside the log.
        requests: The requests that are known, and what those were answered with.
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
        self._newest = NewestSpan()
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

    def working_tree(self) -> WorkingTree | None:
        """The files of its workspace; None where none are kept."""
        return self._services.tree_of(self.path, self.meta)

    def refuse_reader(self) -> None:
        """Refuse a change of what is open to be read only."""
        if self.access == "readOnly":
            raise ReadOnlyError("the session is open to be read only: close it and open it for writing")

    def refuse_closed(self) -> None:
        """Refuse what is asked for after the end."""
        if self.closed:
            raise SessionNotOpenError(f"session {self.session_id} was closed: open it again")

    # Changes

    def append(self, guard: Mutation, work_out: WorkOut, files: AppendFiles = NO_FILES) -> Coroutine[Any, Any, Json]:
        """Append at its turn what `work_out` makes of the state and the request's marks."""

        async def attempt(transaction: Transaction) -> None:
            ready: AppendPlan | None = None
            planned: AppendPlan | None = None

            def on_turn(state: LogState) -> Sequence[NewRecord]:
                # Called again, on another state, if a write together with others has failed.
                nonlocal planned
                planned = ready or transaction.plan(work_out, state, self.engine.head_at)
                announce(self.shared, planned, guard.cause)
                return planned.records

            async def with_snapshot(state: LogState) -> None:
                nonlocal ready
                assert files.at_checkpoints is not None
                on_turn(state)
                assert planned is not None
                ready = await files.at_checkpoints(planned)

            first = with_snapshot if files.at_checkpoints is not None else None
            done = await self.engine.append(on_turn, first=first, more=guard.followed)
            assert planned is not None
            transaction.result = self.finish_append(transaction, done, planned, guard.cause)
            if files.appended is not None:
                await files.appended()
            if self.meta.keeps_files:
                await self._log_changed()

        return self._once(guard, attempt)

    def finish_append(self, transaction: Transaction | None, done: Appended, planned: AppendPlan, cause: Cause) -> Json:
        """Make the request of an append that is written known, and tell listeners; returns its result."""
        if transaction is not None:
            transaction.appended(done.head, done.before.lines)
        if self.listeners.callbacks:
            made, span = planned.made, None
            if done.after.checkpoints:
                made, span = _spans(self.engine, self._newest, done, planned)
            self.emit(*shapes.appended_events(done, made, planned.told, cause, span))
        return self.shapes.appended(done) if planned.result is None else {"head": done.head, **planned.result}

    async def rewrite(
        self,
        guard: Mutation,
        work_out: Callable[[], RewritePlan],
        *,
        dry_run: bool = False,
        files: RestoreRequest = LOG_ALONE,
        at_checkpoint: Callable[[RewritePlan], Awaitable[RewritePlan]] | None = None,
    ) -> Json:
        """Put at its turn the log in the place of the present one that `work_out` plans; a dry run stops at the plan.
        The `files` go back first, and stay so if the log does; `at_checkpoint` gives the plan's checkpoint a snapshot.

        Raises:
            HeadConflictError: The head is not the expected one.
            CorruptedError: The timeline it would bring back is damaged.
            TimeleapError: See `restoring.files_step` and `WorkingTree.begin_restore`.
        """
        if dry_run:
            result, step = await self.at_turn(lambda: self._foretold(guard, work_out, files))
            return result if step is None else {**result, **await asyncio.to_thread(step.foretell)}

        async def attempt(transaction: Transaction) -> None:
            step: FilesStep | None = None
            ready: RewritePlan | None = None

            def plan(state: LogState) -> RewritePlan:
                transaction.admit(self.engine.head_at(state))
                planned = work_out()
                if planned.refused:
                    raise _NothingDoneError(planned)
                return planned

            async def with_snapshot(state: LogState) -> None:
                nonlocal ready
                assert at_checkpoint is not None
                ready = await at_checkpoint(plan(state))

            def on_turn(state: LogState) -> Replacement:
                nonlocal step
                planned = ready if ready is not None else plan(state)
                step = restoring.files_step(self, planned, files) if files.restore != "conversation" else None
                transaction.begin()
                announce(self.shared, transaction)
                return self._prepared(transaction, planned, step)

            try:
                await self.engine.replace(on_turn, first=with_snapshot if at_checkpoint is not None else None)
            finally:
                if step is not None:
                    await to_its_end(asyncio.to_thread(step.settle))
            timelines = self.engine.timelines()
            transaction.finish()
            self.tell(transaction.events, guard.cause)
            await self._prune(timelines)
            if self.meta.keeps_files:
                await self._log_changed()

        try:
            return await self._once(guard, attempt)
        except restoring.RestoreCancelledError:
            raise asyncio.CancelledError from None
        except _NothingDoneError as nothing:
            planned = nothing.planned
            return await self.leave(guard, lambda: planned.result(self.head, None, self.shapes.summary(self.summary())))

    async def change(self, guard: Mutation, work_out: Callable[[StateSnapshot], StateChange]) -> Json:
        """Change state beside the log at its turn, as `work_out` says."""

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.head)
            before = self.state.facts
            change = work_out(before)
            transaction.begin()
            told = changes(before, change.facts, self.head)
            lines = transaction.record({"head": self.head, **change.result}, told)
            with self.telling_half(transaction.request.cause):
                await asyncio.to_thread(self.state.carry_out, change, lines)

        return await self.at_its_turn(guard, work)

    async def leave(self, guard: Mutation, work_out: Callable[[], Json]) -> Json:
        """Answer at its turn a request that is refused by its result: asked again, it must not be done after all."""

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.head)
            transaction.begin()
            await self.note(transaction.record(work_out()))

        return await self.at_its_turn(guard, work)

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

        return await self._once(guard, attempt)

    async def _once(self, guard: Mutation, attempt: Callable[[Transaction], Awaitable[None]]) -> Json:
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

        return await self._once(guard, attempt) or None

    async def note(self, lines: list[Json]) -> None:
        """Make journal lines durable."""
        if lines:
            await asyncio.to_thread(self.state.note, {}, lines)

    async def _log_changed(self) -> None:
        """Where files are kept, let the clock of their times go on before a change of the log is answered: whether a file
        was changed before that or since is told by its time, and decides whether a restore takes it for a conflict."""
        for _ in range(CLOCK_LOOKS):
            if set_change_time_apart(self.path / LOG_NAME):
                return
            await to_its_end(asyncio.sleep(CLOCK_STEP))

    def _prepared(self, transaction: Transaction, planned: RewritePlan, step: FilesStep | None) -> Replacement:
        """The rewrite, noted before and after it is done, with the request ids that the new log loses."""
        before = after = self.stacks()
        drops: list[Event] = []

        def prepare(prepared: Prepared) -> None:
            nonlocal after, drops
            assert prepared.log is not None
            replacement, token, files = planned.replacement, None, None
            carried = self.requests.leaving(replacement.keep_lines)  # the whole index may be looked through for them
            if step is not None:
                step.begin()
                token, files = step.token, step.before
                replacement = replace(replacement, facts=past.with_files(replacement.facts, files))
            # Lines that carry ids are about to move; and if the rewrite fails, looking again costs nothing.
            self.requests.forget()
            after = planned.stacks_after(before, prepared, self.engine.same_timelines, files)
            # Of the log that was made: a plan does not know what the lines left out of it change, in size and in uids.
            context = self.shapes.summary(summarize(prepared.log, self._past_after(planned, prepared, after)))
            head = prepared.head if prepared.replaces else transaction.before
            name = self._latest = prepared.kept_as
            result, events = planned.result(head, name, context), [planned.event(head, name, context)]
            if step is not None:
                result, events = {**result, **step.result()}, [*step.events(head), *events]
            drops = self.state.dropping(prepared.log, head) if prepared.replaces else []
            own = transaction.record(result, [*events, *drops])
            if prepared.replaces:
                self.state.note_rewrite(prepared, replacement, [*carried, *own], after, token)
            else:
                self.state.note_stacks(after, own, token)
            failpoint("session.prepared")

        def settle(prepared: Prepared) -> None:
            self.state.settle_rewrite(prepared, after, drops_dmail=bool(drops))

        return replace(planned.replacement, prepare=prepare, settle=settle)

    def _foretold(
        self, guard: Mutation, work_out: Callable[[], RewritePlan], files: RestoreRequest
    ) -> tuple[Json, FilesStep | None]:
        self.expect_head(guard.expected_head)
        planned = work_out()
        step = restoring.files_step(self, planned, files) if files.restore != "conversation" else None
        if files.restore == "files":
            return planned.files_result(self.head, self.shapes.summary(self.summary())), step
        refuse_damaged(self.engine, self.path, planned.replacement.from_timeline)
        if planned.refused is not None:
            context = self.summary()
        else:
            prepared, after = planned.foreseen(self.engine, self.stacks())
            context = planned.summary(self._past_after(planned, prepared, after))
        return planned.result(self.head, None, self.shapes.summary(context)), step

    def _past_after(self, planned: RewritePlan, prepared: Prepared, stacks: Stacks) -> Past:
        """What there will be to go back to: without the timelines that go by themselves then."""
        left = {*self.engine.timeline_ids(), *([prepared.kept_as] if prepared.kept_as is not None else [])}
        limits, source, lines = self._services.retention, planned.source, planned.kept.lines
        going = past.going_after(self.engine, source, lines, prepared, limits=limits, fork_points=self.fork_points)
        return past.past_of(left, stacks, prepared.after, going)

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

    def stacks(self) -> Stacks:
        """The undo and redo stacks as they are now."""
        return self.state.facts.stacks.at(self.engine.state).within(self.engine.timeline_ids())

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


def _spans(
    engine: LogEngine, newest: NewestSpan, done: Appended, planned: AppendPlan
) -> tuple[Sequence[Checkpoint], Json | None]:
    """The checkpoints of an append and the newest span (`ChangedSpan` of the contract), with what happened in them."""
    try:
        spans = newest.appended(engine, done.before, done.after, planned.records, planned.message)
        if spans is None:
            return planned.made, None
        newest.uid = planned.made[-1].uid if planned.made else newest.uid or past.uid_at(engine, newest.line)
        return past.changed_span(planned.made, spans, newest.uid, asked_for=planned.result is not None)
    except Exception:
        # What is written is written: that it cannot be told in short must not make it look undone.
        _log.exception("no summary of the newest span")
        return planned.made, None


def announce(shared: SharedEvents | None, what: Transaction | AppendPlan, cause: Cause = NOBODY.cause) -> None:
    """What a transaction tells, or an append that is planned, other processes are to tell, too."""
    if shared is None:
        return

    def told(head: str, before: LogState, after: LogState) -> list[Event]:
        if isinstance(what, Transaction):
            return [replace(event, cause=what.request.cause) for event in what.events]
        return shapes.appended_events(Appended(before, after, head), what.made, what.told, cause)

    shared.announce(told)


class _NothingDoneError(Exception):
    """The plan is not worth carrying out."""

    def __init__(self, planned: RewritePlan) -> None:
        super().__init__("nothing done")
        self.planned = planned
