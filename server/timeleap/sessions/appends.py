"""How an append gets its turn: in the call that asks for it, or together with those that wait.

It is decided at its turn, on the state it follows, and again on another one if a write together with others has failed.
One that another part has a share in is carried out as any other change (`SessionTransactions.carry_out`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from timeleap.errors import ReadOnlyError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions.append_events import append_events, append_result
from timeleap.sessions.kernel.change import NO_MARKS, NOTHING, Change, DecideAppend
from timeleap.sessions.kernel.session_view import SessionView
from timeleap.sessions.participants import Participant
from timeleap.sessions.request_table import RepeatedError, RequestTable, Transaction
from timeleap.sessions.shapes import Mutation
from timeleap.sessions.transaction import SessionTransactions, tell_others
from timeleap.storage.log_values import Appended, AppendStep, LogState, NewRecord
from timeleap.uncancelled_work import Outcome

Answer = Callable[[Json | None, BaseException | None], None]
"""Takes a result, or why there is none."""


async def append(
    session: SessionTransactions, request: Mutation, decide: DecideAppend, part: Participant | None = None
) -> Json:
    """Append at its turn what `decide` makes of the state and the request's marks. Cancelled while it waits it does
    nothing, later it is finished."""
    if part is not None:
        # A part takes its time, a snapshot say: nothing is to be planned on what such an append will write.
        return await session.carry_out(request, partial(_decided, session.requests, request, decide), part)
    session.refuse_closed()
    outcome: Outcome[Json] = Outcome()
    _submit(_AwaitedAppend(session=session, decide=decide, request=request, then=outcome.end, outcome=outcome))
    result = await outcome.result_uncancelled()
    if session.meta.accompanied:
        await session.log_changed()
    return result


def submit(session: SessionTransactions, decide: DecideAppend, request: Mutation, then: Answer) -> bool:
    """Append for a caller that never cancels: `then` is told the result, or the error, in this call if nothing has to be
    waited for.

    Returns:
        Whether it does; a session that keeps files needs more steps.
    """
    if session.closed or not session.meta.plain:
        return False
    _submit(_RequestedAppend(session=session, decide=decide, request=request, then=then))
    return True


def _submit(step: _RequestedAppend) -> None:
    request = step.request
    if request.request_id is not None or request.expected_head is not None:
        step.transaction = Transaction(step.session.requests, request)
    step.more = request.followed
    try:
        step.session.engine.submit(step)
    except ReadOnlyError as error:
        step.end(None, error)


def _decided(requests: RequestTable, request: Mutation, decide: DecideAppend, state: SessionView) -> Change:
    marks = NO_MARKS if request.request_id is None else requests.next_marks(request.request_id, request)
    return decide(state.log.state, marks)


class _RequestedAppend(AppendStep, eq=False, kw_only=True):
    """An append that is decided at its turn, and told its end."""

    session: SessionTransactions
    decide: DecideAppend
    request: Mutation
    then: Answer
    transaction: Transaction | None = None
    change: Change = NOTHING

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        if self.transaction is None:
            change = self.decide(state, NO_MARKS)
        else:
            change = self.transaction.decide(self.decide, state, self.session.engine.head_at)
        others = self.session.others
        if others is not None:
            tell_others(others, change, self.request.cause)
        self.change = change
        return change.records

    def end(self, done: Appended | None, error: BaseException | None) -> None:
        self.ended = True
        if done is None:
            self._fail(error)
            return
        session = self.session
        try:
            if self.transaction is not None:
                self.transaction.appended(done.head, done.before.lines)
                self.transaction.finish()
            if session.listeners.callbacks:
                session.emit(*append_events(session.engine, session.newest_span, done, self.change, self.request.cause))
            result = append_result(session.shapes, done, self.change)
        except Exception as fault:
            self.then(None, fault)
        else:
            self.then(result, None)

    def _fail(self, error: BaseException | None) -> None:
        if self.transaction is not None:
            self.transaction.abandon()
        if not isinstance(error, RepeatedError):
            self.then(None, error if isinstance(error, Exception) else asyncio.CancelledError())
        elif error.result is not None:
            self.then(self.session.told_again(error.result, self.request), None)
        elif error.first is not None:
            # Whether the attempt before it succeeds says what this one is answered.
            error.first.add_done_callback(self._try_again)

    def _try_again(self, _: object) -> None:
        """Ask once more: the attempt that was made before has ended, one way or the other."""
        self.ended = False
        try:
            self.session.refuse_closed()
        except TimeleapError as error:
            self.end(None, error)
        else:
            _submit(self)


class _AwaitedAppend(_RequestedAppend, eq=False, kw_only=True):
    """An append that a coroutine waits for, which may be cancelled until it has its turn."""

    outcome: Outcome[Json]

    def plan(self, state: LogState) -> Sequence[NewRecord]:
        self.outcome.taken = True
        return _RequestedAppend.plan(self, state)

    def done(self) -> bool:
        return self.ended or self.outcome.done()
