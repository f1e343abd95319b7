"""Approvals that are asked: what waits for a decision, who waits for it, and how it ends.

A question is asked, decided or given up at its turn in the session's queue, but nothing waits there. Each of these steps
is in the audit before anybody is told of it; a decision is among the known request ids as well, so that who asks again
gets it again. The questions themselves are in memory: who waits for an answer asks the next owner under the same request
id, from which the approval's id is made. What the last owner's audit leaves open, and nobody asks for again, is cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from timeleap import clock
from timeleap.errors import ApprovalNotPendingError, ExternallyModifiedError, OverloadedError, StorageFailureError
from timeleap.features.approvals.questions import ApprovalQuestion, PendingApproval, answer_of, approval_resolved
from timeleap.features.approvals.standing import with_action
from timeleap.json_value import Json
from timeleap.sessions.documents.audit import FIELD, MAX_PENDING, Audit, ends, entry, left_open
from timeleap.sessions.kernel.change import ApprovalChange, Change
from timeleap.sessions.participants import Answer
from timeleap.sessions.request_table import RepeatedError, Transaction
from timeleap.sessions.shapes import APPROVAL_REQUESTED, Approval, Cause, Decision, Event, Mutation, Resolution
from timeleap.sessions.transaction import SessionTransactions
from timeleap.storage.durable import failpoint
from timeleap.storage.log_values import LogState

_log = logging.getLogger(__name__)


RETURN_SECONDS = 3.0
"""How long a new owner waits for those to ask again whose questions the last one left open."""
DESCRIPTION_IN_AUDIT = 200
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)


def automatic(approval: Approval, action: str) -> tuple[Decision, str] | None:
    """The decision of a session's approvals about an action, and its reason; None where a person is to be asked."""
    if approval.yolo:
        return "approve", "yolo"
    if action in approval.actions:
        return "approve", "autoApprove"
    if approval.afk:
        return "reject", "afk"
    return None


class Asked(Struct, eq=False):
    """A question that waits for a decision: what windows are told of it, the request that asked it first, and everybody
    who waits."""

    pending: PendingApproval
    transaction: Transaction
    answers: list[Answer] = field(default_factory=list[Answer])

    def join(self) -> Answer:
        """Wait for the decision, too."""
        answer: Answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return answer


class AskedApprovals:
    """The approvals that are asked and decided in one session."""

    def __init__(self, session: SessionTransactions) -> None:
        self._session = session
        self.adopt()

    def adopt(self) -> None:
        """Begin with the session's files; an owner takes over what the last one left open."""
        self._audit = Audit(self._session.path)
        self._asked: dict[str, Asked] = {}
        self._left: dict[str, tuple[PendingApproval, asyncio.Future[None]]] = {}
        self._taken_over_lately = self._session.access == "owner" and self._audit.path.exists()
        if self._taken_over_lately:
            loop = asyncio.get_running_loop()
            for approval_id, said in left_open(self._audit.questions()).items():
                at, action = str(said.get("time")), _text(said.get("action")) or ""
                known = at if _TIME.fullmatch(at) else ""
                left = PendingApproval(approval_id, ApprovalQuestion(action), known)
                self._left[approval_id] = (left, loop.create_future())
            loop.call_later(RETURN_SECONDS, self._give_up_left)

    async def change(self, guard: Mutation, work_out: Callable[[Approval], ApprovalChange]) -> Json:
        """Change what runs without asking, at its turn, and answer what waits and is covered by that."""
        result = await change_approvals(self._session, guard, work_out)
        if self._asked:
            await self._session.engine.run(lambda _: self._settle_covered(guard.cause))
        return result

    @property
    def pending(self) -> list[PendingApproval]:
        """Questions waiting for a decision, oldest first."""
        return sorted((asked.pending for asked in self._asked.values()), key=lambda pending: pending.requested_at)

    async def ends(self, approval_ids: Sequence[str]) -> list[Json]:
        """Find how requests for approvals ended, as members of the notification. Windows ask that were told of the
        requests by the last owner; requests that still wait are left out.

        A window that listens already misses none: each end is in the audit before anybody is told of it.
        """
        if not approval_ids:
            return []
        entries = await asyncio.to_thread(self._audit.questions)
        found: list[Json] = []
        for approval_id, said in ends(entries, approval_ids).items():
            if said.get("to") in get_args(Resolution):
                who, request_id, reason = (_text(said.get(name)) for name in ("who", "requestId", "reason"))
                cause = Cause(request_id=request_id, client=who)
                found.append(approval_resolved("", approval_id, said["to"], reason, cause).members)
        return found

    async def ask(self, question: ApprovalQuestion, guard: Mutation) -> Json | Answer:
        """Ask for an approval; a known request id is answered as it was, one that waits is joined.

        Returns:
            The result, where it is known at once; else what is waited for now, until `stop_waiting`.

        Raises:
            OverloadedError: Too much waits already.
            StorageFailureError: It could not be noted in the audit; nobody was asked.
        """
        session = self._session
        session.refuse_reader()
        while True:
            transaction = Transaction(session.requests, guard)
            try:
                return await session.engine.run(partial(self._ask, question, transaction))
            except RepeatedError as repeated:
                approval_id = approval_id_of(self._session, guard)
                if repeated.result is not None:
                    result = dict(repeated.result)
                    if self._taken_over_lately:
                        await session.engine.run(partial(self._tell_end, question, approval_id, result))
                    return {**result, "duplicate": True}
                if (asked := self._asked.get(approval_id)) is not None:
                    return asked.join()
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])

    async def _ask(self, question: ApprovalQuestion, transaction: Transaction, _: LogState) -> Json | Answer:
        session, cause = self._session, transaction.request.cause
        session.refuse_closed()
        transaction.admit(session.head)
        approval_id = approval_id_of(session, transaction.request)
        if (verdict := automatic(session.state.facts.approval, question.action)) is not None:
            pending = PendingApproval(approval_id, question, clock.now_iso(), cause.client)
            result = answer_of(*verdict, None, pending.requested_at, automatic=True)
            await asyncio.to_thread(self._audit.append, [audit_of_decision(cause, pending, None, result)])
            try:
                await remember(session, [(transaction, result)])
                transaction.finish()
            finally:
                transaction.abandon()
            return transaction.result
        if (asked := self._asked.get(approval_id)) is not None:
            return asked.join()  # its id is not among the requests on their way: a redaction took it out
        if len(self._asked) >= MAX_PENDING:
            raise OverloadedError(
                f"{MAX_PENDING} approvals are pending in this session: wait for decisions, or cancel some"
            )
        left, returned = self._left.get(approval_id, (None, None))
        known = left.requested_at if left is not None else ""
        pending = PendingApproval(approval_id, question, known or clock.now_iso(), cause.client)
        if not known:
            # The time is the one that windows are told: the next owner has it from here.
            said = audit_of_request(cause, pending, None, "pending")
            await asyncio.to_thread(self._audit.append, [{**said, "time": pending.requested_at}])
        transaction.begin()
        asked = self._asked[approval_id] = Asked(pending, transaction)
        self._left.pop(approval_id, None)
        if returned is not None:
            returned.set_result(None)
        members = {"approval": pending.wire()}
        session.emit(Event("approvalRequested", session.head, members, APPROVAL_REQUESTED, cause))
        return asked.join()

    async def _tell_end(self, question: ApprovalQuestion, approval_id: str, result: Json, _: LogState) -> None:
        """The last owner decided and went: what it did not note, and nobody was told, is noted and told now."""
        by = result.get("decidedBy", {})
        cause, at = Cause(client=by.get("client")), str(by.get("at"))
        if (left := self._left.pop(approval_id, None)) is not None:
            said = audit_of_decision(cause, PendingApproval(approval_id, question, at), "pending", result)
            await self._note_end([{**said, "time": at}])
            left[1].set_result(None)
        self._tell(approval_id, result["decision"], result.get("reason"), cause)

    def _tell(self, approval_id: str, decision: Resolution, reason: str | None, cause: Cause) -> None:
        self._session.emit(approval_resolved(self._session.head, approval_id, decision, reason, cause))

    async def decide(self, approval_id: str, decision: Decision, reason: str | None, cause: Cause) -> None:
        """Decide what was asked; the first decision counts.

        Raises:
            ApprovalNotPendingError: Nothing of that id waits for a decision.
            StorageFailureError: It could not be noted, or the action not be approved for the session; it still waits.
        """
        self._session.refuse_reader()
        if (left := self._left.get(approval_id)) is not None:
            await asyncio.wait([left[1]])  # who asked is about to ask again
        await self._session.engine.run(lambda _: self._decide(approval_id, decision, reason, cause))

    async def _decide(self, approval_id: str, decision: Decision, reason: str | None, cause: Cause) -> None:
        asked = self._asked.get(approval_id)
        if asked is None:
            raise ApprovalNotPendingError(
                f"approval {approval_id[:80]!r} does not wait for a decision: it was decided, taken back, or never asked for"
            )
        session, state, action = self._session, self._session.state, asked.pending.question.action
        changed = decision == "approveForSession" and action not in state.facts.approval.actions
        if changed:
            with session.telling_half(cause):
                change = with_action(state.facts.approval, action, True)
                await asyncio.to_thread(state.change_approvals, change, cause)
            members = {"approval": state.facts.approval.wire()}
            session.emit(Event("approvalChanged", session.head, members, cause=cause))
        await self._settle([(asked, answer_of(decision, reason, cause.client, clock.now_iso()))], cause)
        if changed:
            await self._settle_covered(cause)

    async def _settle_covered(self, cause: Cause) -> None:
        """Answer what waits and is covered by the session's approvals now. What cannot be noted goes on waiting."""
        at = clock.now_iso()
        decided = [
            (asked, answer_of(*verdict, cause.client, at, automatic=True))
            for asked in self._asked.values()
            if (verdict := automatic(self._session.state.facts.approval, asked.pending.question.action)) is not None
        ]
        if decided:
            try:
                await self._settle(decided, cause)
            except StorageFailureError as error:
                self._session.warn("approvalNotNoted", f"what is approved now goes on waiting: {error}")

    async def _settle(self, decided: list[tuple[Asked, Json]], cause: Cause) -> None:
        """Make decisions durable, then tell everybody."""
        entries = [audit_of_decision(cause, asked.pending, "pending", result) for asked, result in decided]
        # In this order: who asks the next owner gets the decision, and the audit, which has no end of it, gets one then.
        await remember(self._session, [(asked.transaction, result) for asked, result in decided])
        failpoint("approval.after_requests")
        await asyncio.to_thread(self._audit.append, entries)
        failpoint("approval.after_audit")
        for asked, result in decided:
            asked.transaction.finish()
            del self._asked[asked.pending.approval_id]
            self._tell(asked.pending.approval_id, result["decision"], result.get("reason"), cause)
            for answer in asked.answers:
                if not answer.done():
                    answer.set_result(asked.transaction.result)

    async def stop_waiting(self, answer: Answer, resolution: Literal["cancelled", "timedOut"]) -> None:
        """Wait no more; the question is given up with the last who waited. `answer` has a decision that came before."""
        if answer.done():
            return
        try:
            await self._session.engine.run(lambda _: self._stop_waiting(answer, resolution))
        except ExternallyModifiedError:  # another folder stands in the session's place: nothing is noted in that
            self.leave_open(answer)
            answer.cancel()

    async def _stop_waiting(self, answer: Answer, resolution: Literal["cancelled", "timedOut"]) -> None:
        if (asked := self._waited_for(answer)) is None:
            return
        asked.answers.remove(answer)
        if not asked.answers:
            approval_id = asked.pending.approval_id
            asked.transaction.abandon()
            await self._note_end([audit_of_request(Cause(), asked.pending, "pending", resolution)])
            del self._asked[approval_id]
            self._tell(approval_id, resolution, None, Cause())
        answer.cancel()

    def _waited_for(self, answer: Answer) -> Asked | None:
        """The question of an answer that has not come."""
        return next((asked for asked in self._asked.values() if answer in asked.answers), None)

    def redact(self, redacted: Callable[[str], str]) -> None:
        """Take a value out of all that waits for a decision; those who wait go on waiting. `redacted` gives a text,
        JSON or any other, without the value."""
        for asked in self._asked.values():
            asked.pending = without_value(asked.pending, redacted)
            redact_request(asked.transaction, redacted)
        self._left = {name: (without_value(left, redacted), returned) for name, (left, returned) in self._left.items()}

    def leave_open(self, answer: Answer) -> None:
        """Somebody who waits is sent to the next owner, where the question goes on."""
        if (asked := self._waited_for(answer)) is not None:
            asked.answers.remove(answer)
            if not asked.answers:
                del self._asked[asked.pending.approval_id]
                asked.transaction.abandon()

    async def cancel_all(self) -> None:
        """The session is being closed."""
        for asked in list(self._asked.values()):
            for answer in list(asked.answers):
                await self.stop_waiting(answer, "cancelled")
        self._forget_left()

    def _give_up_left(self) -> None:
        """Cancel what the last owner left open and nobody has asked for again."""
        self._taken_over_lately = False
        if self._left and not self._session.closed:
            giving_up = asyncio.ensure_future(self._session.engine.run(lambda _: self._cancel_left()))
            giving_up.add_done_callback(self._given_up)

    def _given_up(self, done: asyncio.Future[None]) -> None:
        self._forget_left()
        if not done.cancelled() and (error := done.exception()) is not None:
            _log.warning("open approvals of the last owner are not cancelled: %s", type(error).__name__)

    def _forget_left(self) -> None:
        left, self._left = self._left, {}
        for _, returned in left.values():
            returned.set_result(None)

    async def _cancel_left(self) -> None:
        left = [pending for pending, _ in self._left.values()]
        await self._note_end([audit_of_request(Cause(), pending, "pending", "cancelled") for pending in left])
        for pending in left:
            self._tell(pending.approval_id, "cancelled", None, Cause())

    async def _note_end(self, entries: list[Json]) -> None:
        """Note what nobody has decided: that it cannot be noted changes nothing about it."""
        try:
            await asyncio.to_thread(self._audit.append, entries)
        except StorageFailureError as error:
            self._session.warn("approvalNotNoted", f"the end of a request for an approval is not in the audit: {error}")


async def change_approvals(
    session: SessionTransactions, guard: Mutation, work_out: Callable[[Approval], ApprovalChange]
) -> Json:
    """Change what runs without asking, at its turn."""
    return await session.carry_out(guard, lambda state: Change(approval=work_out(state.facts.approval)))


async def remember(session: SessionTransactions, decided: list[tuple[Transaction, Json]]) -> None:
    """Note decisions as the results of their requests."""
    lines: list[Json] = []
    for transaction, result in decided:
        transaction.before = session.head
        transaction.begin()  # its age is that of the decision, however long that took
        lines += transaction.record(result, None)
    if lines:
        await asyncio.to_thread(session.state.note, {}, lines)


def approval_id_of(session: SessionTransactions, guard: Mutation) -> str:
    """Id of the approval. A request with an id always gets one approval id, so that windows know it after a hand-over."""
    if guard.request_id is None:
        return f"a{clock.new_uid(16)}"
    text = f"{session.meta.uid}\0{guard.request_id}".encode("utf-8", "surrogatepass")
    return f"a{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def redact_request(transaction: Transaction, redacted: Callable[[str], str]) -> None:
    """Forget the id of a request that waits, if it holds a value: the decision would be noted under it."""
    request_id = transaction.request.request_id
    if request_id is not None and redacted(request_id) != request_id:
        transaction.abandon()
        transaction.request = replace(transaction.request, request_id=None)


def without_value(pending: PendingApproval, redacted: Callable[[str], str]) -> PendingApproval:
    """A question without a value; without its detail where the value gave that its form."""
    question, client, detail = pending.question, pending.client, pending.question.detail
    if detail:
        try:
            found = json.loads(redacted(json.dumps(detail, ensure_ascii=False)))
        except ValueError:
            found = None
        detail = found if isinstance(found, dict) else None
    shown = ApprovalQuestion(
        redacted(question.action),
        question.description and redacted(question.description),
        detail,
        question.tool_call_id and redacted(question.tool_call_id),
    )
    return replace(pending, question=shown, client=client and redacted(client))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def audit_of_request(cause: Cause, pending: PendingApproval, before: str | None, to: str, **members: Any) -> Json:
    """An entry of the audit about a question; the first of them describes it."""
    question = pending.question
    if before is None:
        description = question.description and question.description[:DESCRIPTION_IN_AUDIT]
        members = {"description": description, "toolCallId": question.tool_call_id, **members}
    return entry(cause, FIELD, before, to, approvalId=pending.approval_id, action=question.action or None, **members)


def audit_of_decision(cause: Cause, pending: PendingApproval, before: str | None, result: Json) -> Json:
    automatic = True if result.get("automatic") else None
    return audit_of_request(
        cause, pending, before, result["decision"], reason=result.get("reason"), automatic=automatic
    )
