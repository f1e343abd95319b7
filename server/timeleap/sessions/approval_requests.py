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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

from timeleap import clock
from timeleap.errors import ApprovalNotPendingError, OverloadedError, StorageFailureError
from timeleap.failpoints import failpoint
from timeleap.sessions import approvals, shapes
from timeleap.sessions.approvals import ApprovalChange
from timeleap.sessions.audit import FIELD, MAX_PENDING, Audit, ends, entry, left_open
from timeleap.sessions.outcomes import (
    Approval,
    ApprovalDecision,
    ApprovalQuestion,
    Cause,
    Decision,
    Mutation,
    PendingApproval,
    Resolution,
)
from timeleap.sessions.request_table import RepeatedError, Transaction
from timeleap.sessions.shapes import APPROVAL_REQUESTED, Event
from timeleap.sessions.transaction import SessionTransactions
from timeleap.storage.engine import LogState

_log = logging.getLogger(__name__)

Json = dict[str, Any]

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


@dataclass(eq=False, slots=True)
class Waiting:
    """Somebody who waits for a decision; `answer` is the result, or cancelled where it waits no more without one."""

    asked: Asked
    answer: asyncio.Future[Json] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False, slots=True)
class Asked:
    """A question that waits for a decision: what windows are told of it, the request that asked it first, and everybody who
    waits."""

    pending: PendingApproval
    transaction: Transaction
    waiting: list[Waiting] = field(default_factory=list)

    def join(self) -> Waiting:
        """Wait for the decision, too."""
        waiting = Waiting(self)
        self.waiting.append(waiting)
        return waiting


class ApprovalRequests:
    """The approvals that are asked and decided in one session."""

    def __init__(self, session: SessionTransactions) -> None:
        self._session = session
        self.adopt()

    def adopt(self) -> None:
        """Begin with the session's files; an owner takes over what the last one left open."""
        self._audit = Audit(self._session.path)
        self._asked: dict[str, Asked] = {}
        self._left: dict[str, tuple[Json, asyncio.Future[None]]] = {}
        self._taken_over_lately = False
        if self._session.access == "owner" and self._audit.path.exists():
            loop = asyncio.get_running_loop()
            self._taken_over_lately = True
            left = left_open(self._audit.questions())
            self._left = {name: (question, loop.create_future()) for name, question in left.items()}
            loop.call_later(RETURN_SECONDS, self._give_up_left)

    async def change(self, guard: Mutation, work_out: Callable[[Approval], ApprovalChange]) -> Json:
        """Change what runs without asking, at its turn, and answer what waits and is covered by that."""
        session, changed = self._session, False
        session.refuse_reader()

        async def work(transaction: Transaction) -> None:
            nonlocal changed
            transaction.admit(session.head)
            before, cause = session.state.facts.approval, transaction.request.cause
            change = work_out(before)
            transaction.begin()
            # What the file switches on without a seal is to be off in the file too, once somebody says so.
            changed = change.after != before or session.state.approvals_doubted
            with session.telling_half(cause):
                if changed:
                    await asyncio.to_thread(session.state.change_approvals, change, cause)
                result = {"approval": shapes.approval(session.state.facts.approval)}
                told = [Event("approvalChanged", session.head, result)] if changed else []
                await session.note(transaction.record({"head": session.head, **result}, told))

        result = await session.at_its_turn(guard, work)
        if changed and self._asked:
            await session.engine.run(lambda _: self._settle_covered(guard.cause))
        return result

    @property
    def pending(self) -> list[PendingApproval]:
        """Questions waiting for a decision, oldest first."""
        return sorted((asked.pending for asked in self._asked.values()), key=lambda pending: pending.requested_at)

    async def ends(self, approval_ids: Sequence[str]) -> list[Json]:
        """What became of requests for approvals, of those of them that ended, as members of the notification: for who was
        told of them by the last owner.

        Who listens already misses none: each end is in the audit before anybody is told of it.
        """
        if not approval_ids:
            return []
        entries = await asyncio.to_thread(self._audit.questions)
        found: list[Json] = []
        for approval_id, said in ends(entries, approval_ids).items():
            if said.get("to") in get_args(Resolution):
                who, request_id, reason = (_text(said.get(name)) for name in ("who", "requestId", "reason"))
                cause = Cause(request_id=request_id, client=who)
                found.append(shapes.approval_resolved("", approval_id, said["to"], reason, cause).members)
        return found

    async def ask(self, question: ApprovalQuestion, guard: Mutation) -> Json | Waiting:
        """Ask for an approval; a known request id is answered as it was, one that waits is joined.

        Returns:
            The result, where it is known at once; else who waits for it now, until `stop_waiting`.

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
                if repeated.result is not None:
                    result = dict(repeated.result)
                    if self._taken_over_lately:
                        approval_id = self._approval_id(guard)
                        await session.engine.run(partial(self._tell_end, question, approval_id, result))
                    return {**result, "duplicate": True}
                for asked in self._asked.values():
                    if asked.transaction.request.request_id == guard.request_id:
                        return asked.join()
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])

    async def _ask(self, question: ApprovalQuestion, transaction: Transaction, _: LogState) -> Json | Waiting:
        session, cause = self._session, transaction.request.cause
        session.refuse_closed()
        transaction.admit(session.head)
        approval_id = self._approval_id(transaction.request)
        if (verdict := automatic(session.state.facts.approval, question.action)) is not None:
            decided = ApprovalDecision(*verdict, client=None, at=clock.now_iso(), automatic=True)
            pending = PendingApproval(approval_id, question, decided.at, cause.client)
            await asyncio.to_thread(self._audit.append, [_decided(pending, cause, None, decided)])
            try:
                await self._remember([(transaction, decided)])
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
        before, returned = self._left.get(approval_id, ({}, None))
        requested_at = str(before.get("time"))
        known = _TIME.fullmatch(requested_at) is not None
        pending = PendingApproval(approval_id, question, requested_at if known else clock.now_iso(), cause.client)
        if not known:
            # The time is the one that windows are told: the next owner has it from here.
            said = entry(cause, FIELD, None, "pending", **_members(pending))
            await asyncio.to_thread(self._audit.append, [{**said, "time": pending.requested_at}])
        transaction.begin()
        asked = self._asked[approval_id] = Asked(pending, transaction)
        self._left.pop(approval_id, None)
        if returned is not None:
            returned.set_result(None)
        members = {"approval": shapes.approval_request(pending)}
        session.emit(Event("approvalRequested", session.head, members, APPROVAL_REQUESTED, cause))
        return asked.join()

    async def _tell_end(self, question: ApprovalQuestion, approval_id: str, result: Json, _: LogState) -> None:
        """The last owner decided and went: what it did not note, and nobody was told, is noted and told now."""
        left = self._left.pop(approval_id, None)
        by = result.get("decidedBy", {})
        cause = Cause(client=by.get("client"))
        if left is not None:
            decided = ApprovalDecision(
                result["decision"], result.get("reason"), cause.client, str(by.get("at")), bool(result.get("automatic"))
            )
            pending = PendingApproval(approval_id, question, decided.at)
            await self._note_end([{**_decided(pending, cause, "pending", decided), "time": decided.at}])
            left[1].set_result(None)
        self._tell(approval_id, result["decision"], result.get("reason"), cause)

    def _tell(self, approval_id: str, decision: Resolution, reason: str | None, cause: Cause) -> None:
        self._session.emit(shapes.approval_resolved(self._session.head, approval_id, decision, reason, cause))

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
        session, action = self._session, asked.pending.question.action
        state = session.state
        changed = decision == "approveForSession" and action not in state.facts.approval.actions
        if changed:
            with session.telling_half(cause):
                wanted = approvals.with_action(state.facts.approval, action, True)
                await asyncio.to_thread(state.change_approvals, wanted, cause)
            members = {"approval": shapes.approval(state.facts.approval)}
            session.emit(Event("approvalChanged", session.head, members, cause=cause))
        await self._settle([(asked, ApprovalDecision(decision, reason, cause.client, clock.now_iso()))], cause)
        if changed:
            await self._settle_covered(cause)

    async def _settle_covered(self, cause: Cause) -> None:
        """Answer what waits and is covered by the session's approvals now. Where that cannot be noted, it goes on waiting."""
        at = clock.now_iso()
        decided = [
            (asked, ApprovalDecision(*verdict, client=cause.client, at=at, automatic=True))
            for asked in self._asked.values()
            if (verdict := automatic(self._session.state.facts.approval, asked.pending.question.action)) is not None
        ]
        if decided:
            try:
                await self._settle(decided, cause)
            except StorageFailureError as error:
                self._session.warn("approvalNotNoted", f"what is approved now goes on waiting: {error}")

    async def _settle(self, decided: list[tuple[Asked, ApprovalDecision]], cause: Cause) -> None:
        """Make decisions durable, then tell everybody."""
        entries = [_decided(asked.pending, cause, "pending", decision) for asked, decision in decided]
        # In this order: who asks the next owner gets the decision, and the audit, which has no end of it, gets one then.
        await self._remember([(asked.transaction, decision) for asked, decision in decided])
        failpoint("approval.after_requests")
        await asyncio.to_thread(self._audit.append, entries)
        failpoint("approval.after_audit")
        for asked, decision in decided:
            asked.transaction.finish()
            del self._asked[asked.pending.approval_id]
            self._tell(asked.pending.approval_id, decision.decision, decision.reason, cause)
            for waiting in asked.waiting:
                if not waiting.answer.done():
                    waiting.answer.set_result(asked.transaction.result)

    async def _remember(self, decided: list[tuple[Transaction, ApprovalDecision]]) -> None:
        """Note decisions as the results of their requests."""
        lines: list[Json] = []
        for transaction, decision in decided:
            transaction.before = self._session.head
            transaction.begin()  # its age is that of the decision, however long that took
            lines += transaction.record(shapes.decision(decision), None)
        await self._session.note(lines)

    async def stop_waiting(self, waiting: Waiting, resolution: Literal["cancelled", "timedOut"]) -> None:
        """Wait no more; the question is given up with the last who waited. If a decision came before, `answer` has it."""
        if not waiting.answer.done():
            await self._session.engine.run(lambda _: self._stop_waiting(waiting, resolution))

    async def _stop_waiting(self, waiting: Waiting, resolution: Literal["cancelled", "timedOut"]) -> None:
        if waiting.answer.done():
            return
        asked = waiting.asked
        asked.waiting.remove(waiting)
        if not asked.waiting:
            approval_id = asked.pending.approval_id
            asked.transaction.abandon()
            await self._note_end([_ended(approval_id, asked.pending.question.action, resolution)])
            del self._asked[approval_id]
            self._tell(approval_id, resolution, None, Cause())
        waiting.answer.cancel()

    def redact(self, redacted: Callable[[str], str]) -> None:
        """Take a value out of all that waits for a decision; those who wait go on waiting.

        Args:
            redacted: Gives a text, JSON or any other, without the value.
        """
        for asked in self._asked.values():
            question, client = asked.pending.question, asked.pending.client
            shown = replace(
                question,
                action=redacted(question.action),
                description=question.description and redacted(question.description),
                detail=question.detail and _redacted_json(question.detail, redacted),
                tool_call_id=question.tool_call_id and redacted(question.tool_call_id),
            )
            asked.pending = replace(asked.pending, question=shown, client=client and redacted(client))
            transaction = asked.transaction
            request_id = transaction.request.request_id
            if request_id is not None and redacted(request_id) != request_id:
                # The decision would be noted under this id.
                transaction.abandon()
                transaction.request = replace(transaction.request, request_id=None)
        for left, _ in self._left.values():
            left["action"] = redacted(_text(left.get("action")) or "")

    def leave_open(self, waiting: Waiting) -> None:
        """Somebody who waits is sent to the next owner, where the question goes on."""
        asked = waiting.asked
        if waiting in asked.waiting:
            asked.waiting.remove(waiting)
        if not asked.waiting and self._asked.get(asked.pending.approval_id) is asked:
            del self._asked[asked.pending.approval_id]
            asked.transaction.abandon()

    async def cancel_all(self) -> None:
        """The session is being closed."""
        for asked in list(self._asked.values()):
            for waiting in list(asked.waiting):
                await self.stop_waiting(waiting, "cancelled")
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
        left = {name: question for name, (question, _) in self._left.items()}
        await self._note_end([_ended(name, question.get("action"), "cancelled") for name, question in left.items()])
        for name in left:
            self._tell(name, "cancelled", None, Cause())

    async def _note_end(self, entries: list[Json]) -> None:
        """Note what nobody has decided: that it cannot be noted changes nothing about it."""
        try:
            await asyncio.to_thread(self._audit.append, entries)
        except StorageFailureError as error:
            self._session.warn("approvalNotNoted", f"the end of a request for an approval is not in the audit: {error}")

    def _approval_id(self, guard: Mutation) -> str:
        """Of a request with an id always the same, so that windows know it again after a hand-over."""
        if guard.request_id is None:
            return f"a{clock.new_uid(16)}"
        text = f"{self._session.meta.uid}\0{guard.request_id}".encode("utf-8", "surrogatepass")
        return f"a{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def _redacted_json(value: Json, redacted: Callable[[str], str]) -> Json | None:
    """An object without a value; None where the value gave it its form."""
    try:
        found = json.loads(redacted(json.dumps(value, ensure_ascii=False)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _decided(pending: PendingApproval, cause: Cause, before: str | None, decided: ApprovalDecision) -> Json:
    members = (
        _members(pending) if before is None else {"approvalId": pending.approval_id, "action": pending.question.action}
    )
    automatic = True if decided.automatic else None
    return entry(cause, FIELD, before, decided.decision, **members, reason=decided.reason, automatic=automatic)


def _ended(approval_id: str, action: Any, resolution: Resolution) -> Json:
    return entry(Cause(), FIELD, "pending", resolution, approvalId=approval_id, action=action)


def _members(pending: PendingApproval) -> Json:
    question = pending.question
    description = question.description[:DESCRIPTION_IN_AUDIT] if question.description is not None else None
    return {
        "approvalId": pending.approval_id,
        "action": question.action,
        "description": description,
        "toolCallId": question.tool_call_id,
    }
