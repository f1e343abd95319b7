"""Approvals that are asked in a session that many machines share: asked on one of them, decided on any.

A question is a row of the database from the moment it is asked until everybody who waits has the decision. All steps are
transactions of the session: it is asked, decided or given up once, whoever does it, and windows everywhere are told so
by the notifications of that change. Each process keeps in memory only who waits here, and answers them by the rows. Of a
process that is gone the questions are cancelled by another one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from timeleap import clock
from timeleap.call import to_its_end
from timeleap.errors import ApprovalNotPendingError, OverloadedError, ReadOnlyError, StorageFailureError, TimeleapError
from timeleap.features.approvals.questions import ApprovalQuestion, PendingApproval, answer_of, approval_resolved
from timeleap.features.approvals.requests import (
    Asked,
    approval_id_of,
    audit_of_decision,
    audit_of_request,
    automatic,
    change_approvals,
    redact_request,
    remember,
    without_value,
)
from timeleap.features.approvals.standing import with_action
from timeleap.json_value import Json
from timeleap.sessions.documents.audit import MAX_PENDING, Audit
from timeleap.sessions.kernel.change import ApprovalChange
from timeleap.sessions.participants import Answer
from timeleap.sessions.request_table import RepeatedError, Transaction
from timeleap.sessions.shapes import APPROVAL_REQUESTED, APPROVAL_RESOLVED, Approval, Cause, Decision, Event, Mutation
from timeleap.sessions.transaction import SessionTransactions
from timeleap.storage.log_values import LogState
from timeleap_postgresql.store_key import Rows, StoreKey

T = TypeVar("T")
LOOK_SECONDS: Final = 1.0
"""Between two looks whether those are there who wait, while anybody elsewhere does."""
GONE_SECONDS: Final = 5.0
"""Seconds without a sign after which a process is gone; after a failover it may take that long to come back."""
_PREFIX: Final = "a"  # of an approval's id: the names of other rows begin otherwise
_log = logging.getLogger(__name__)


class Question(Struct):
    """A row: a question, the senders of the processes in which somebody waits, the request that asked it first, and the
    decision with its seal."""

    pending: PendingApproval
    askers: list[str]
    request_id: str | None = None
    method: str = ""
    fingerprint: str = ""
    result: Json | None = None
    seal: str | None = None


def _encoded(question: Question) -> bytes:
    # Not msgspec's: what is asked may hold half of a surrogate pair.
    return json.dumps(msgspec.to_builtins(question)).encode("ascii")


class SharedApprovalRequests:
    """The approvals that are asked and decided in one session of a shared store; see `AskedApprovals` for its
    methods."""

    def __init__(self, session: SessionTransactions, key: StoreKey) -> None:
        assert session.others is not None
        self._session, self._shared, self._key = session, session.others, key
        self._rows: Rows = session.others.approvals
        self._audit = Audit(session.path)
        self._asked: dict[str, Asked] = {}
        self._asking: list[asyncio.Future[None]] = []  # done when a question is in `_asked`, or was not asked
        self._told: set[str] = set()
        self._finished: set[str] = set()  # for which nobody waits here any more, and the rows say somebody does
        self._absent: dict[str, float] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._events: list[Event] = []
        self._then: list[Callable[[], None]] = []
        self._begun: list[Transaction] = []  # in the step under way, for others
        self._told |= {name for name, question in self._questions(self._rows.committed).items() if not question.result}
        self._stop = (self._session.listen(self._note_told), self._session.engine.watch(self._look))
        self._look()

    def _questions(self, rows: dict[str, bytes]) -> dict[str, Question]:
        found: dict[str, Question] = {}
        for name, body in rows.items():
            if name.startswith(_PREFIX):
                with suppress(ValueError, msgspec.ValidationError):  # what is no question is none
                    found[name] = msgspec.convert(json.loads(body), Question)
        return found

    @property
    def _now(self) -> dict[str, Question]:
        """The questions as they are in the step under way."""
        return self._questions(self._rows.now())

    def _put(self, name: str, question: Question | None) -> None:
        self._rows.put(name, None if question is None else _encoded(question))

    @property
    def pending(self) -> list[PendingApproval]:
        waiting = (question for question in self._questions(self._rows.committed).values() if question.result is None)
        return sorted((question.pending for question in waiting), key=lambda pending: pending.requested_at)

    # Steps

    async def _step(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` as one transaction, also where who waits is cancelled."""
        return await to_its_end(self._run(work))

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` as one transaction; what it tells is told, here and elsewhere, once it is committed. It is in the
        queue when this has begun, before all that is asked later."""

        async def whole(_: LogState) -> T:
            for transaction in self._begun:  # of an attempt that came to nothing
                transaction.abandon()
            self._events, self._then, self._begun = [], [], []
            events, then = self._events, self._then
            self._shared.tell(lambda head, before, after: list(events))

            def committed() -> None:
                self._session.emit(*events)
                for do in then:
                    do()
                self._look()

            self._shared.once_committed(committed)
            for name in sorted(self._finished):
                await self._leave(name, "cancelled")
            return await work()

        try:
            return await self._session.engine.run(whole)
        except BaseException:
            for transaction in self._begun:
                transaction.abandon()
            raise

    async def change(self, guard: Mutation, work_out: Callable[[Approval], ApprovalChange]) -> Json:
        result = await change_approvals(self._session, guard, work_out)
        approval = self._session.state.facts.approval
        if any(automatic(approval, pending.question.action) for pending in self.pending):
            with suppress(StorageFailureError):  # they go on waiting
                await self._step(partial(self._settle_covered, guard.cause))
        return result

    async def ask(self, question: ApprovalQuestion, guard: Mutation) -> Json | Answer:
        session = self._session
        session.refuse_reader()
        while True:
            transaction = Transaction(session.requests, guard)
            try:
                return await self._ask_once(question, transaction)
            except RepeatedError as repeated:
                if repeated.result is not None:
                    return {**repeated.result, "duplicate": True}
                if (asked := self._asked.get(approval_id_of(self._session, guard))) is not None:
                    return asked.join()
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])

    async def _ask_once(self, question: ApprovalQuestion, transaction: Transaction) -> Json | Answer:
        asking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.append(asking)
        try:
            return await self._run(partial(self._ask_at_turn, question, transaction))
        finally:
            self._asking.remove(asking)
            asking.set_result(None)

    async def _ask_at_turn(self, question: ApprovalQuestion, transaction: Transaction) -> Json | Answer:
        session, request = self._session, transaction.request
        session.refuse_closed()
        transaction.admit(session.head)
        approval_id, cause = approval_id_of(session, request), request.cause
        pending = PendingApproval(approval_id, question, clock.now_iso(), cause.client)
        if (verdict := automatic(session.state.facts.approval, question.action)) is not None:
            result = answer_of(*verdict, None, pending.requested_at, automatic=True)
            await asyncio.to_thread(self._audit.append, [audit_of_decision(cause, pending, None, result)])
            self._begun.append(transaction)
            await remember(session, [(transaction, result)])
            self._then.append(transaction.finish)
            return transaction.result
        questions = self._now
        row = questions.get(approval_id)
        if row is not None and row.result is None:  # asked elsewhere, or before a process ended
            row.askers = [*dict.fromkeys([*row.askers, self._rows.sender])]
            pending = row.pending
        else:
            if sum(each.result is None for each in questions.values()) >= MAX_PENDING:
                raise OverloadedError(
                    f"{MAX_PENDING} approvals are pending in this session: wait for decisions, or cancel some"
                )
            row = Question(pending, [self._rows.sender], request.request_id, request.method, request.fingerprint)
            said = audit_of_request(cause, pending, None, "pending")
            await asyncio.to_thread(self._audit.append, [{**said, "time": pending.requested_at}])
            members = {"approval": pending.wire()}
            self._events.append(Event("approvalRequested", session.head, members, APPROVAL_REQUESTED, cause))
        self._put(approval_id, row)
        if row.request_id != request.request_id:  # a redaction took it out: it is not to come back with the decision
            transaction = Transaction(session.requests, Mutation(None, row.request_id, row.method, row.fingerprint))
        asked = self._asked.get(approval_id) or Asked(pending, transaction)
        answer = asked.join()

        def waits() -> None:
            if approval_id not in self._asked:
                transaction.begin()
                self._asked[approval_id] = asked
            self._finished.discard(approval_id)

        self._then.append(waits)
        return answer

    async def decide(self, approval_id: str, decision: Decision, reason: str | None, cause: Cause) -> None:
        self._session.refuse_reader()
        await self._step(partial(self._decide_at_turn, approval_id, decision, reason, cause))

    async def _decide_at_turn(self, approval_id: str, decision: Decision, reason: str | None, cause: Cause) -> None:
        question = self._now.get(approval_id)
        if question is None or question.result is not None:
            raise ApprovalNotPendingError(
                f"approval {approval_id[:80]!r} does not wait for a decision: it was decided, taken back, or never asked for"
            )
        if decision != "reject" and (problem := self._key.refusal(self._rows.now())) is not None:
            raise ReadOnlyError(f"nothing can be approved here: {problem}", reason="approvalKey")
        session, state, action = self._session, self._session.state, question.pending.question.action
        changed = decision == "approveForSession" and action not in state.facts.approval.actions
        if changed:
            change = with_action(state.facts.approval, action, True)
            await asyncio.to_thread(state.change_approvals, change, cause)
            members = {"approval": state.facts.approval.wire()}
            self._events.append(Event("approvalChanged", session.head, members, cause=cause))
        result = answer_of(decision, reason, cause.client, clock.now_iso())
        await self._settle_rows([(question, result)], cause)
        if changed:
            await self._settle_covered(cause)

    async def _settle_covered(self, cause: Cause) -> None:
        at, approval = clock.now_iso(), self._session.state.facts.approval
        decided = [
            (question, answer_of(*verdict, cause.client, at, automatic=True))
            for question in self._now.values()
            if question.result is None
            and (verdict := automatic(approval, question.pending.question.action)) is not None
        ]
        if decided:
            await self._settle_rows(decided, cause)

    async def _settle_rows(self, decided: list[tuple[Question, Json]], cause: Cause) -> None:
        """Note decisions, as the results of their requests too, and have them told."""
        session, noted = self._session, list[tuple[Transaction, Json]]()
        for question, result in decided:
            approval_id = question.pending.approval_id
            asked = self._asked.get(approval_id)
            request = Mutation(None, question.request_id, question.method, question.fingerprint)
            transaction = asked.transaction if asked is not None else Transaction(session.requests, request)
            noted.append((transaction, result))
            question.result, question.seal = result, self._seal(approval_id, result)
            self._put(approval_id, question)
            said = result["decision"], result.get("reason")
            self._events.append(approval_resolved(session.head, approval_id, *said, cause))
        self._begun += [transaction for transaction, _ in noted if not transaction.begun]
        await remember(session, noted)
        entries = [audit_of_decision(cause, question.pending, "pending", result) for question, result in decided]
        await asyncio.to_thread(self._audit.append, entries)
        self._then += [transaction.finish for transaction, _ in noted]

    def _seal(self, approval_id: str, result: Json) -> str | None:
        identity = self._session.meta.uid, self._session.session_id
        return self._key.mac(self._rows.now(), identity, f"{approval_id} {result['decision']}")

    async def stop_waiting(self, answer: Answer, resolution: Literal["cancelled", "timedOut"]) -> None:
        asked = next((asked for asked in self._asked.values() if answer in asked.answers), None)
        if answer.done() or asked is None:
            return
        approval_id = asked.pending.approval_id

        async def give_up() -> None:
            if answer.done():
                return  # the decision came first
            last = asked.answers == [answer]
            if last:
                await self._leave(approval_id, resolution)

            def given_up() -> None:
                asked.answers.remove(answer)
                answer.cancel()
                if last:
                    self._drop(approval_id)

            self._then.append(given_up)

        try:
            await self._step(give_up)
        except TimeleapError:
            self._drop(approval_id)  # whether it was given up in the database nobody knows: it is, as soon as can be
            self._finished.add(approval_id)
            self._look()
            raise
        finally:
            answer.cancel()  # nothing, unless the step ended without giving it up: nobody is to wait for ever

    async def _leave(self, approval_id: str, resolution: Literal["cancelled", "timedOut"], *gone: str) -> None:
        """Nobody waits in this process any more, or in those that are `gone`; the question ends with the last of them."""
        question = self._now.get(approval_id)
        self._then.append(partial(self._finished.discard, approval_id))
        if question is None:
            return
        leaving = gone or (self._rows.sender,)
        question.askers = [asker for asker in question.askers if asker not in leaving]
        self._put(approval_id, question if question.askers else None)
        if question.result is None and not question.askers:
            said = audit_of_request(Cause(), question.pending, "pending", resolution)
            await asyncio.to_thread(self._audit.append, [said])
            self._events.append(approval_resolved(self._session.head, approval_id, resolution, None, Cause()))

    def _drop(self, approval_id: str) -> None:
        asked = self._asked.pop(approval_id, None)
        if asked is not None:
            asked.transaction.abandon()

    def redact(self, redacted: Callable[[str], str]) -> None:
        for asked in self._asked.values():
            redact_request(asked.transaction, redacted)
        for name, question in self._now.items():
            request_id, result = question.request_id, question.result
            clean = replace(
                question,
                pending=without_value(question.pending, redacted),
                request_id=None if request_id is None or redacted(request_id) != request_id else request_id,
                fingerprint="",
                result=result and {key: _clean(value, redacted) for key, value in result.items()},
            )
            if clean != question:
                self._put(name, clean)

    def adopt(self) -> None:
        """Never asked for: every process writes."""

    def leave_open(self, answer: Answer) -> None:
        """Nothing is handed over in a shared store."""

    async def ends(self, approval_ids: Sequence[str]) -> list[Json]:
        """Nobody was told of anything by another owner."""
        return []

    async def cancel_all(self) -> None:
        if self._asking:  # else they would wait for an answer that nobody gives any more
            await asyncio.wait(list(self._asking))
        for asked in list(self._asked.values()):
            for answer in list(asked.answers):
                with suppress(TimeleapError):  # it goes with this process
                    await self.stop_waiting(answer, "cancelled")
        if self._finished:
            with suppress(TimeleapError):
                await self._step(_nothing)
        for stop in self._stop:
            stop()
        if self._sweeping is not None:
            self._sweeping.cancel()

    # What the rows say

    def _note_told(self, event: Event) -> None:
        if event.method == APPROVAL_REQUESTED:
            self._told.add(str(event.members["approval"]["approvalId"]))
        elif event.method == APPROVAL_RESOLVED:
            self._told.discard(str(event.members["approvalId"]))

    def _look(self) -> None:
        """Answer who waits here, and tell what was not announced, by the rows that count now."""
        if self._session.closed:
            return
        questions = {} if self._session.deleted else self._questions(self._rows.committed)
        self._tell_missed(questions)
        self._answer(questions)
        elsewhere = any(asker != self._rows.sender for each in questions.values() for asker in each.askers)
        if (elsewhere or self._finished) and (self._sweeping is None or self._sweeping.done()):
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    def _tell_missed(self, questions: dict[str, Question]) -> None:
        session = self._session
        waiting = {name: question for name, question in questions.items() if question.result is None}
        for name in waiting.keys() - self._told:
            members = {"approval": waiting[name].pending.wire()}
            session.emit(Event("approvalRequested", session.head, members, APPROVAL_REQUESTED))
        for name in self._told - waiting.keys():
            ended = questions.get(name)
            result: Json = (ended.result if ended is not None else None) or {"decision": "cancelled"}
            who = Cause(client=result.get("decidedBy", {}).get("client"))
            session.emit(approval_resolved(session.head, name, result["decision"], result.get("reason"), who))

    def _answer(self, questions: dict[str, Question]) -> None:
        for name, asked in list(self._asked.items()):
            question = questions.get(name)
            if question is not None and question.result is None:
                continue
            self._drop(name)
            result = None if question is None else self._believed(name, question)
            if question is not None:
                self._finished.add(name)
            for answer in asked.answers:
                if not answer.done() and result is not None:
                    answer.set_result(result)
                answer.cancel()  # where it has none

    def _believed(self, name: str, question: Question) -> Json | None:
        """The decision of a question; None of an approval whose seal is not that of the store's key, which is here."""
        result = question.result
        if result is None or result["decision"] == "reject":
            return result
        expected = self._seal(name, result)
        if expected is None or expected == question.seal:
            return result
        self._session.warn(
            "approvalSealBroken", f"the decision about approval {name} counts for nothing: no seal covers it"
        )
        return None

    async def _sweep(self) -> None:
        """Take what nobody here waits for out of the rows; and cancel what those ask who are gone."""
        while not self._session.closed and not self._session.deleted:
            if self._finished:
                await self._try(partial(self._step, _nothing))
            questions = self._questions(self._rows.committed)
            askers = {asker for each in questions.values() for asker in each.askers} - {self._rows.sender}
            if not askers and not self._finished:
                return
            await asyncio.sleep(LOOK_SECONDS)
            await self._try(partial(self._look_for, askers))

    async def _look_for(self, askers: set[str]) -> None:
        there, now = await asyncio.to_thread(self._rows.waiting), time.monotonic()
        self._absent = {asker: self._absent.get(asker, now) for asker in askers - there}
        gone = [asker for asker, since in self._absent.items() if now - since >= GONE_SECONDS]
        if gone:
            await self._step(partial(self._cancel_gone, gone))

    async def _cancel_gone(self, gone: list[str]) -> None:
        still = set(gone) - await asyncio.to_thread(self._rows.waiting)
        for name, question in self._now.items():
            if still.intersection(question.askers):
                await self._leave(name, "cancelled", *still)

    async def _try(self, do: Callable[[], Awaitable[None]]) -> None:
        try:
            await do()
        except TimeleapError as error:
            _log.info("questions are not looked at: %s", type(error).__name__)  # again at the next look


async def _nothing() -> None:
    return


def _clean(value: Any, redacted: Callable[[str], str]) -> Any:
    """A member of a decision without a value; its words stay what they are."""
    return redacted(value) if isinstance(value, str) else value
