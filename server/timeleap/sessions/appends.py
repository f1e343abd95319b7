"""How an append gets its turn: alone in the call that asks for it, or together with those that wait.

Its plan is made at its turn, on the state it follows, and again on another one if a write together with others has failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from timeleap.errors import ReadOnlyError
from timeleap.json_value import Json
from timeleap.sessions import past, shapes
from timeleap.sessions.append_plan import NO_MARKS, NOTHING, AppendPlan, WorkOut
from timeleap.sessions.request_table import RepeatedError, Transaction
from timeleap.sessions.shapes import Cause, Checkpoint, Mutation
from timeleap.sessions.transaction import SessionTransactions, announce
from timeleap.sessions.working_tree import NO_FILES, AppendFiles
from timeleap.storage.engine import Appended, AppendStep, LogState, NewRecord

_log = logging.getLogger(__name__)
Answer = Callable[[Json | None, BaseException | None], None]
"""Takes a result, or why there is none."""


async def append(
    session: SessionTransactions, guard: Mutation, work_out: WorkOut, files: AppendFiles = NO_FILES
) -> Json:
    """Append at its turn what `work_out` makes of the state and the request's marks."""
    return await session.once(guard, partial(_attempt, session, work_out, files))


async def _attempt(
    session: SessionTransactions, work_out: WorkOut, files: AppendFiles, transaction: Transaction
) -> None:
    guard = transaction.request
    step = _PlannedAppend(session, transaction, work_out, files)
    first = step.first if files.at_checkpoints is not None else None
    done = await session.engine.append(step.plan, first=first, more=guard.followed)
    transaction.result = _finish(session, transaction, done, step.planned, guard.cause)
    if files.appended is not None:
        await files.appended()
    if session.meta.keeps_files:
        await session.log_changed()


class _PlannedAppend(Struct, eq=False):
    session: SessionTransactions
    transaction: Transaction
    work_out: WorkOut
    files: AppendFiles
    planned: AppendPlan = NOTHING
    ready: bool = False  # the plan has its snapshot, which is taken once

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        # A snapshot is taken once: its plan stands, though the append may have to be tried on its own.
        if not self.ready:
            self.planned = self.transaction.plan(self.work_out, state, self.session.engine.head_at)
        announce(self.session.shared, self.planned, self.transaction.request.cause)
        return self.planned.records

    async def first(self, state: LogState) -> None:
        assert self.files.at_checkpoints is not None
        self.plan(state)
        self.planned = await self.files.at_checkpoints(self.planned)
        self.ready = True


class _RequestedAppend(AppendStep, eq=False):
    """An append that is planned at its turn and told its end without a coroutine."""

    session: SessionTransactions
    work_out: WorkOut
    guard: Mutation
    then: Answer
    transaction: Transaction | None
    planned: AppendPlan = NOTHING

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        if self.transaction is None:
            planned = self.work_out(state, NO_MARKS)
        else:
            planned = self.transaction.plan(self.work_out, state, self.session.engine.head_at)
        if (shared := self.session.shared) is not None:
            announce(shared, planned, self.guard.cause)
        self.planned = planned
        return planned.records

    def end(self, done: Appended | None, error: BaseException | None) -> None:
        self.ended = True
        if done is None:
            self._fail(error)
            return
        try:
            result = _finish(self.session, self.transaction, done, self.planned, self.guard.cause)
        except Exception as fault:
            self.then(None, fault)
        else:
            self.then(result, None)

    def _fail(self, error: BaseException | None) -> None:
        if self.transaction is not None:
            self.transaction.abandon()
        if isinstance(error, RepeatedError):  # it may have to wait for the first
            _answer_by(append(self.session, self.guard, self.work_out), self.then)
        else:
            self.then(None, error if isinstance(error, Exception) else asyncio.CancelledError())


def submit(session: SessionTransactions, work_out: WorkOut, guard: Mutation, then: Answer) -> bool:
    """Append for a caller that never cancels: `then` is told the result, or the error, in this call if nothing has to be
    waited for.

    Returns:
        Whether it does; a session that keeps files needs more steps.
    """
    if session.closed or not session.meta.plain:
        return False
    guarded = guard.request_id is not None or guard.expected_head is not None
    transaction = Transaction(session.requests, guard) if guarded else None
    step = _RequestedAppend(
        session=session,
        work_out=work_out,
        guard=guard,
        then=then,
        transaction=transaction,
        more=guard.followed,
    )
    try:
        session.engine.submit(step)
    except ReadOnlyError as error:
        step.end(None, error)
    return True


def _finish(
    session: SessionTransactions, transaction: Transaction | None, done: Appended, planned: AppendPlan, cause: Cause
) -> Json:
    """Make the request of an append that is written known, and tell listeners; returns its result."""
    if transaction is not None:
        transaction.appended(done.head, done.before.lines)
    if session.listeners.callbacks:
        made, span = planned.made, None
        if done.after.checkpoints:
            made, span = _spans(session, done, planned)
        session.emit(*shapes.appended_events(done, made, planned.told, cause, span))
    return session.shapes.appended(done) if planned.result is None else {"head": done.head, **planned.result}


def _spans(
    session: SessionTransactions, done: Appended, planned: AppendPlan
) -> tuple[Sequence[Checkpoint], Json | None]:
    """The checkpoints of an append and the newest span (`ChangedSpan` of the contract), with what happened in them."""
    engine, newest = session.engine, session.newest_span
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


def _answer_by(work: Coroutine[Any, Any, Json], then: Answer) -> None:
    task = asyncio.get_running_loop().create_task(_answer(work, then))
    _answering.add(task)
    task.add_done_callback(_answering.discard)


async def _answer(work: Coroutine[Any, Any, Json], then: Answer) -> None:
    try:
        result = await work
    except (Exception, asyncio.CancelledError) as error:
        then(None, error)
    else:
        then(result, None)


_answering: set[asyncio.Task[None]] = set()
