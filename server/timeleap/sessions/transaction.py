"""How a request becomes a change of a session, exactly once, in order.

A `Transaction` is one attempt at it: admitted at its turn in the engine's queue, begun, recorded (its result and what
listeners are told become durable in the very step that makes the change), finished, told. All changes go that way:
`_append`, `_rewrite` and, for what stands beside the log, `_at_its_turn` differ only in what is written. A cancelled turn
that has begun is finished; the engine sees to that. A dry run is the plan of a rewrite, not carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from timeleap.errors import ReadOnlyError, SessionNotOpenError, StorageFailureError, TimeleapError
from timeleap.failpoints import failpoint
from timeleap.sessions import events, retention
from timeleap.sessions.append_plan import AppendPlan, Marks
from timeleap.sessions.approvals import Approvals, WantedApprovals
from timeleap.sessions.checkpoints import has_uid
from timeleap.sessions.meta import REQUESTS_REDACTED, Meta
from timeleap.sessions.outcomes import (
    Access,
    Approval,
    ApprovalOutcome,
    Cause,
    CompactOutcome,
    Mutation,
    Outcome,
    Retention,
    RewriteOutcome,
)
from timeleap.sessions.request_replay import RequestReplayer
from timeleap.sessions.requests import Remembered, RepeatedError, RequestTable, Told, by_age
from timeleap.sessions.requests import told as stored_event
from timeleap.sessions.rewrite_plan import RewritePlan, foreseen_context, refuse_damaged, timelines_after
from timeleap.sessions.session_state import StateManager, StateSnapshot, StateStep, changes, follow
from timeleap.sessions.shapes import Shapes
from timeleap.sessions.summary import Past, fewer_steps, past_of, summarize
from timeleap.sessions.undo import Stacks
from timeleap.sessions.warnings import SMALL, line_problems, recovered
from timeleap.storage.engine import (
    LogEngine,
    LogReader,
    LogState,
    NewRecord,
    Prepared,
    Replacement,
    Timeline,
    TimelineFacts,
)

_log = logging.getLogger(__name__)

MAX_NOTICES = 100
Json = dict[str, Any]
NOBODY = Mutation()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionServices:
    """Values and callbacks that a session gets from its store.

    Attributes:
        shapes: The forms of results and notifications.
        retention: Limits of the timelines that are kept.
        fork_points: By session id: the checkpoint uids that its forks came from.
        release: Called when the session is closed once.
        moved_away: True if what is at the session's place by now is nothing, or another session.
    """

    shapes: Shapes
    retention: Retention
    fork_points: Callable[[str], set[str]]
    release: Callable[[SessionTransactions], Awaitable[None]]
    moved_away: Callable[[SessionTransactions], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a session, opened with one access."""

    engine: LogEngine
    meta: Meta
    approvals: Approvals


class Transaction:
    """One attempt of a request to change a session: admitted, begun, recorded, finished, told; each exactly once.

    Attributes:
        request: The request; its identity tells this attempt from another one with the same id.
        before: The head it was admitted at.
        result: What the request is answered with; made once, so that a repeat gets the same.
        events: What listeners are told when it is done.
        then: What else follows from it.
    """

    def __init__(self, requests: RequestTable, shapes: Shapes, request: Mutation) -> None:
        self._requests = requests
        self._shapes = shapes
        self._told: list[Told] | None = None
        self.request = replace(request)
        self.before = ""
        self.result: Json = {}
        self.events: list[events.Event] = []
        self.then: Callable[[Cause], Awaitable[None]] | None = None

    def admit(self, head: str) -> None:
        """Let it pass if it is new and made on the present head (see `RequestTable.admit`)."""
        self.before = head
        self._requests.admit(self.request, head)

    def begin(self) -> None:
        """It has passed all checks and is on its way to the disk."""
        self._requests.begin(self.request)

    def record(self, outcome: Outcome, *told: events.Event) -> list[Json]:
        """The journal line that is to become durable with the change, which says its result and what listeners are told;
        none where the request carries no id."""
        self.result = self._shapes.result(outcome)
        self.events = [replace(event, cause=self.request.cause) for event in told]
        if self.request.request_id is None:
            return []
        parts = [stored_event(*self._shapes.notification(event), self.result) for event in self.events]
        kept = [part for part in parts if part is not None]
        self._told = kept if len(kept) == len(parts) else None  # else too large
        line = self._requests.line(self.request, self.result, self.before, self._told)
        return [line] if line is not None else []

    def finish(self) -> None:
        """It is done: a repeat is answered from now on."""
        self._requests.finish(self.request, self.result, self.before, self._told)


class SessionTransactions:
    """The part of a session that changes it.

    Attributes:
        session_id: Its id.
        path: Its directory.
        engine: Its log and timelines.
        meta: Its `timeleap.json`.
        recovered: What opening it found and cut, if anything.
    """

    def __init__(self, session_id: str, path: Path, files: Files, around: SessionServices) -> None:
        self.session_id = session_id
        self.path = path
        self._around = around
        self._shapes = around.shapes
        self._listeners: list[Callable[[events.Event], None]] = []
        self._notices: list[Json] = []
        self._closed = False
        self._stop_watching: Callable[[], object] = lambda: None
        self.adopt(files)

    def adopt(self, files: Files) -> None:
        """Begin with the opened files; or go on with others, when a follower becomes the owner."""
        self._stop_watching()
        self.engine = engine = files.engine
        self.meta = meta = files.meta
        self._approvals = approvals = files.approvals
        self._recall = RequestReplayer(engine, self._shapes, meta, lambda: self._session_state.facts)
        self._session_state = StateManager(self.path, engine, meta, approvals)
        self._requests = RequestTable(self._known_requests, self._recall.result, lambda: meta.origin)
        self._session_state.load()
        if engine.access == "write":
            self._session_state.settle()
            self._settle_requests()
        self.recovered = recovered(engine)
        self._notices += [problem.warning() for problem in line_problems(self.path, SMALL)]
        stop_log = engine.watch(self._changed_outside)
        stop_state = follow(self._session_state.stamp, self._reread) if engine.access == "read" else lambda: None
        self._stop_watching = lambda: (stop_log(), stop_state())

    @property
    def access(self) -> Access:
        """`owner` if this process may write to it."""
        return "owner" if self.engine.access == "write" else "readOnly"

    @property
    def head(self) -> str:
        """Changes with every change of the log, and never repeats."""
        return self.engine.head

    def listen(self, callback: Callable[[events.Event], None]) -> Callable[[], None]:
        """Tell `callback` of every change from now on; returns what ends that."""
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return stop

    def emit(self, event: events.Event) -> None:
        """Tell all listeners."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # What is done is done: a listener that fails must not make it look undone to the one who asked.
                _log.exception("a listener failed at %s", event.kind)

    async def _append(self, guard: Mutation, work_out: Callable[[LogState, Marks], AppendPlan]) -> Json:
        """Append at its turn what `work_out` makes of the state and the request's marks."""

        async def attempt(transaction: Transaction) -> None:
            request = transaction.request
            planned: AppendPlan | None = None

            def on_turn(state: LogState) -> Sequence[NewRecord]:
                # Called again, on another state, if a write together with others has failed.
                nonlocal planned
                transaction.admit(self.engine.head_at(state) if request.expected_head is not None else "")
                planned = work_out(state, self._marks(request))
                transaction.begin()
                return planned.records

            done = await self.engine.append(on_turn)
            assert planned is not None
            transaction.result = self._shapes.result(planned.outcome(done))
            transaction.events = planned.events(done, request.cause)
            self._requests.appended(request, done.head, done.before.lines)
            self._tell_all(transaction)

        return await self._once(guard, attempt)

    async def _rewrite(
        self, guard: Mutation, work_out: Callable[[LogState], RewritePlan], *, dry_run: bool = False
    ) -> Json:
        """Put at its turn the log in the place of the present one that `work_out` plans; a dry run stops at the plan."""
        if dry_run:
            return await self.at_turn(lambda: self._foretold(guard, work_out))

        async def attempt(transaction: Transaction) -> None:
            def on_turn(state: LogState) -> Replacement:
                transaction.admit(self.engine.head_at(state))
                planned = work_out(state)
                if planned.refused:
                    raise _NothingDoneError(planned)
                transaction.begin()
                prepare, settle = self._prepare(transaction, planned, self._stacks(state))
                return replace(planned.replacement, prepare=prepare, settle=settle)

            await self.engine.replace(on_turn)
            timelines = self.engine.timelines()
            transaction.finish()
            self._tell_all(transaction)
            self._drop_dmail(transaction.request.cause)
            await self._prune(timelines)

        try:
            return await self._once(guard, attempt)
        except _NothingDoneError as nothing:
            planned = nothing.planned
            return await self._unchanged(
                guard, lambda: planned.outcome(self.head, None, summarize(self.engine, self._past()))
            )

    async def _change(self, guard: Mutation, work_out: Callable[[], StateStep]) -> Json:
        """Change state beside the log at its turn, as `work_out` says."""
        self._refuse_reader()

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.head)
            step = work_out()
            transaction.begin()
            lines = transaction.record(step.outcome, *step.events)
            with self._telling_half(transaction.request.cause):
                await asyncio.to_thread(self._session_state.carry_out, step.change, lines)

        return await self._at_its_turn(guard, work)

    async def _unchanged(self, guard: Mutation, work_out: Callable[[], CompactOutcome | RewriteOutcome]) -> Json:
        """Answer at its turn a request that is refused by its result: asked again, it must not be done after all."""

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.head)
            transaction.begin()
            await self._note(transaction.record(work_out()))

        return await self._at_its_turn(guard, work)

    async def _change_approvals(self, guard: Mutation, work_out: Callable[[Approval], WantedApprovals]) -> Json:
        """Change what runs without asking at its turn."""
        self._refuse_reader()

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.head)
            before, cause = self._session_state.facts.approval, transaction.request.cause
            wanted = work_out(before)
            transaction.begin()
            # What the file switches on without a seal is to be off in the file too, once somebody says so.
            values = (before.yolo, before.afk, before.actions)
            same = (wanted.yolo, wanted.afk, wanted.actions) == values and not self._approvals.warnings
            with self._telling_half(cause):
                if not same:
                    await asyncio.to_thread(self._session_state.change_approvals, wanted, cause)
                now = self._session_state.facts.approval
                told = [] if same else [events.ApprovalChanged(head=self.head, approval=now)]
                await self._note(transaction.record(ApprovalOutcome(self.head, now), *told))
            if told:
                transaction.then = self._approvals_changed

        return await self._at_its_turn(guard, work)

    async def _note(self, lines: list[Json]) -> None:
        if lines:
            await asyncio.to_thread(self._session_state.note, {}, lines)

    async def _approvals_changed(self, cause: Cause) -> None:
        """Approvals were changed and told: what else follows from that."""

    async def _at_its_turn(self, guard: Mutation, work: Callable[[Transaction], Awaitable[None]]) -> Json:
        """Change something beside the log at its turn: `work` admits, works out, begins, and makes it durable together
        with what the transaction records of it."""

        async def attempt(transaction: Transaction) -> None:
            async def on_turn(_: LogState) -> None:
                await work(transaction)
                transaction.finish()

            await self.engine.run(on_turn)
            self._tell_all(transaction)
            if transaction.then is not None:
                await transaction.then(transaction.request.cause)

        return await self._once(guard, attempt)

    async def _once(self, guard: Mutation, attempt: Callable[[Transaction], Awaitable[None]]) -> Json:
        """The result of a transaction, or of the one that the request made before."""
        while True:
            if self._closed:
                raise SessionNotOpenError(f"session {self.session_id} was closed: open it again")
            transaction = Transaction(self._requests, self._shapes, guard)
            try:
                await attempt(transaction)
            except RepeatedError as repeated:
                if repeated.result is not None and guard.again:
                    return dict(repeated.result)
                if repeated.result is not None:
                    return {**repeated.result, "duplicate": True, "head": self.head}
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])
            else:
                return transaction.result
            finally:
                self._requests.abandon(transaction.request)

    def _tell_all(self, transaction: Transaction) -> None:
        for event in transaction.events:
            self.emit(event)

    def _prepare(
        self, transaction: Transaction, planned: RewritePlan, stacks: Stacks
    ) -> tuple[Callable[[Prepared], None], Callable[[Prepared], None]]:
        """Callbacks that note a rewrite before and after it is done, with the request ids that the new log loses."""
        carried = self._recall.leaving(planned.replacement.keep_lines, self._session_state.stored)
        after = stacks

        def prepare(prepared: Prepared) -> None:
            nonlocal after
            assert prepared.log is not None
            # Lines that carry ids are about to move; and if the rewrite fails, looking again costs nothing.
            self._requests.forget()
            after = planned.stacks_after(stacks, prepared, self.engine.same_timelines)
            going = self._to_be_pruned(planned, prepared)
            past = past_of(timelines_after(self.engine.timeline_ids(), prepared), after, prepared.after, going)
            head, name = prepared.head if prepared.replaces else transaction.before, prepared.kept_as
            # Of the log that was made: a plan does not know what the lines left out of it change, in size and in uids.
            context = summarize(prepared.log, past)
            event = planned.event(head, name, context, transaction.request.cause)
            own = transaction.record(planned.outcome(head, name, context), event)
            if prepared.replaces:
                self._session_state.note_rewrite(prepared, planned.replacement, [*carried, *own], after)
            else:
                self._session_state.note_stacks(after, own)
            failpoint("session.prepared")

        return prepare, lambda prepared: self._session_state.settle_rewrite(prepared, after)

    # Dry runs

    async def at_turn(self, read: Callable[[], T]) -> T:
        """The result of `read`, called when all earlier requests have taken effect."""
        if self.access == "readOnly":
            return read()

        async def job(_: LogState) -> T:
            return read()

        return await self.engine.run(job)

    def expect_head(self, head: str | None) -> None:
        """Refuse what was asked of another past, as the request itself would be.

        Args:
            head: The head the caller expects; None for any.

        Raises:
            HeadConflictError: The head is not the expected one.
        """
        self._requests.admit(Mutation(expected_head=head), self.head)

    def _foretold(self, guard: Mutation, work_out: Callable[[LogState], RewritePlan]) -> Json:
        """The result of a rewrite that is not carried out.

        Raises:
            HeadConflictError: As the request itself.
            CorruptedError: The timeline it would bring back is known to be damaged.
        """
        self.expect_head(guard.expected_head)
        state = self.engine.state
        planned = work_out(state)
        refuse_damaged(self.engine, self.path, planned.replacement.from_timeline)
        going = partial(self._to_be_pruned, planned)
        context = foreseen_context(self.engine, planned, self._stacks(state), going)
        return self._shapes.result(planned.outcome(self.head, None, context))

    def _stacks(self, state: LogState) -> Stacks:
        """The undo and redo stacks where the log is at `state`."""
        return self._session_state.facts.stacks.at(state).within(self.engine.timeline_ids())

    @property
    def stacks(self) -> Stacks:
        """The undo and redo stacks."""
        return self._stacks(self.engine.state)

    def _past(self) -> Past:
        """Counts of states to go back to."""
        return past_of(self.engine.timeline_ids(), self._session_state.facts.stacks, self.engine.state)

    def _to_be_pruned(self, planned: RewritePlan, prepared: Prepared) -> set[str]:
        """The timelines that will go by themselves after a rewrite: what can be undone must not be promised before."""
        engine, present = self.engine, self.engine.timelines()
        if prepared.replaces and prepared.equals is None:
            live, facts = engine.state, TimelineFacts()
            added = Timeline(prepared.timeline_id, "", facts, live.length, live.messages, live.checkpoints, live.chain)
            present = [added, *present]
        limits = self._around.retention
        if not retention.excess(present, limits, (), prepared.after):
            return set()

        def reader(timeline_id: str) -> LogReader:
            return engine if timeline_id == prepared.timeline_id else engine.timeline(timeline_id)

        restored = planned.replacement.from_timeline
        source, lines = (engine, planned.replacement.keep_lines) if restored is None else (reader(restored), None)
        points = self._around.fork_points(self.session_id)
        kept = retention.referred_to(lambda uid: has_uid(source, uid, lines), present, reader, points)
        return {timeline.timeline_id for timeline in retention.excess(present, limits, kept, prepared.after)}

    def _keeping_facts(self, work_out: Callable[[LogState], Replacement]) -> Callable[[LogState], Replacement]:
        """The plan of a rewrite nobody asked for by a request: what is remembered of the past goes along all the same."""

        def on_turn(state: LogState) -> Replacement:
            replacement = work_out(state)
            stacks = self._stacks(state).without_redo()
            carried = self._recall.leaving(replacement.keep_lines, self._session_state.stored)
            return replace(
                replacement,
                prepare=lambda prepared: self._session_state.note_rewrite(prepared, replacement, carried, stacks),
                settle=lambda prepared: self._session_state.settle_rewrite(prepared, stacks),
            )

        return on_turn

    # Requests that are known

    def _marks(self, guard: Mutation) -> Marks:
        """Members of `_tl` for a request; none where it carries no id."""
        return self._requests.marks(guard, self.head.rpartition(".")[0]) if guard.request_id is not None else {}

    def _known_requests(self) -> Remembered:
        """The requests that are known, wherever they are kept."""
        known = by_age(self._session_state.requests(), self._recall.requests())
        newest = max((request.number for _, request in known.items()), default=0)
        if self.meta.requests_redacted > newest and self.access == "owner":
            # Before another one gets a number: whatever the file says, a request of the future was not redacted.
            with suppress(StorageFailureError):  # it is tried again when they are next looked at
                self.meta.write({REQUESTS_REDACTED: newest})
        return known

    def _settle_requests(self) -> None:
        """At open by the owner: see to it that every record of a request says whose it is, or that it does not count."""
        meta = self.meta
        changes: Json = {}
        carried: list[Json] = []
        if meta.uid_is_new and (origin := self._recall.last_origin()) is not None:
            changes["requestsOf"] = origin
        elif meta.inherited_lines and meta.get("requestsMarked") is not True:
            # An earlier release made this fork: it went by the number of lines, which other steps move.
            carried = self._recall.leaving(0, self._session_state.stored)
            changes["requestsMarked"] = True
        if changes:
            with suppress(StorageFailureError):  # it counts as it did, and the next opening tries again
                self._session_state.note(changes, carried)

    def _drop_dmail(self, cause: Cause) -> None:
        """Forget the pending D-Mail if its checkpoint is gone (a crash before this is mended at the next open)."""
        before = self._session_state.facts
        try:
            self._session_state.drop_stale_dmail()
        except StorageFailureError as error:
            self._warn("dmailNotDropped", f"the D-Mail that was dropped is still on disk: {error}")
        self._tell(before, cause)

    async def _prune(self, timelines: Sequence[Timeline]) -> None:
        """Remove the oldest timelines beyond the limits, and say so."""
        limits, engine = self._around.retention, self.engine
        if not retention.excess(timelines, limits, (), engine.state):
            return

        async def on_turn(_: LogState) -> str:
            present = engine.timelines()
            points = await asyncio.to_thread(self._around.fork_points, self.session_id)
            kept = retention.referred_to(lambda uid: has_uid(engine, uid), present, engine.timeline, points)
            going = retention.excess(present, limits, kept, engine.state)
            before = self._past()
            text = await asyncio.to_thread(self._session_state.remove_timelines, going)
            return text and text + fewer_steps(before, self._past())

        try:
            text = await self.engine.run(on_turn)
        except (TimeleapError, OSError) as error:
            # The rewrite is done, whatever becomes of what is too much.
            self._warn("timelinesNotPruned", f"old timelines could not be removed: {error}")
            return
        if text:
            self._warn("timelinesPruned", text)

    def _warn(self, kind: str, message: str) -> None:
        self._notices = [*self._notices[1 - MAX_NOTICES :], {"kind": kind, "message": message}]
        self.emit(events.Warned(head=self.head, kind=kind, message=message))

    async def shut(self) -> None:
        """Finish what was accepted; whatever is asked for from now on is refused."""
        self._closed = True
        self._stop_watching()
        if self.access == "owner":
            await self.engine.run(_nothing)

    def _refuse_reader(self) -> None:
        if self.access == "readOnly":
            raise ReadOnlyError("the session is open to be read only: close it and open it for writing")

    def _changed_outside(self) -> None:
        """The owner of a followed log, or a program that takes no lock, has written."""
        self._requests.forget()
        self.emit(events.External(head=self.head))
        self._reread()

    async def catch_up(self) -> None:
        """Of a follower: show what the owner has changed up to now."""
        await self.engine.catch_up()
        self._reread()

    def _reread(self) -> None:
        """Take over the state beside the log."""
        before = self._session_state.facts
        self.meta.refresh()
        self._session_state.load()
        self._tell(before, NOBODY.cause)

    @contextmanager
    def _telling_half(self, cause: Cause) -> Iterator[None]:
        """A change of state that fails may have been half written: what is on disk then counts, and is told."""
        before = self._session_state.facts
        try:
            yield
        except OSError:
            self._tell(before, cause)
            raise

    def _tell(self, before: StateSnapshot, cause: Cause) -> None:
        """Tell listeners how the state beside the log differs from what it was."""
        for event in changes(before, self._session_state.facts, self.head):
            self.emit(replace(event, cause=cause))


class _NothingDoneError(Exception):
    """The plan is not worth carrying out."""

    def __init__(self, planned: RewritePlan) -> None:
        super().__init__("nothing done")
        self.planned = planned


async def _nothing(_: LogState) -> None:
    """A job without effect, to wait for the end of the queue."""
