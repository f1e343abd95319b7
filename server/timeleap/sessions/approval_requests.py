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
from timeleap.errors import (
    ApprovalNotPendingError,
    OverloadedError,
    SessionNotOpenError,
    StorageFailureError,
)
from timeleap.failpoints import failpoint
from timeleap.sessions import approvals, events
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
from timeleap.sessions.requests import RepeatedError
from timeleap.sessions.transaction import Files, SessionTransactions
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
    """Somebody who waits for a decision.

    Attributes:
        answer: The result of its request; cancelled where it waits no more without one.
    """

    asked: Asked
    answer: asyncio.Future[Json] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(eq=False, slots=True)
class Asked:
    """A question that waits for a decision.

    Attributes:
        pending: What windows are told of it.
        guard: The request that asked it first.
        waiting: Everybody who waits for the decision.
    """

    pending: PendingApproval
    guard: Mutation
    waiting: list[Waiting] = field(default_factory=list)

    def join(self) -> Waiting:
        """Wait for the decision, too."""
        waiting = Waiting(self)
        self.waiting.append(waiting)
        return waiting


class ApprovalRequests(SessionTransactions):
    """The part of a session in which approvals are asked and decided."""

    def adopt(self, files: Files) -> None:
        """As `SessionTransactions.adopt`; an owner also takes over what the last one left open."""
        super().adopt(files)
        self._audit = Audit(self.path)
        self._asked: dict[str, Asked] = {}
        self._left: dict[str, tuple[Json, asyncio.Future[None]]] = {}
        self._taken_over_lately = False
        if self.access == "owner" and self._audit.path.exists():
            loop = asyncio.get_running_loop()
            self._taken_over_lately = True
            left = left_open(self._audit.questions())
            self._left = {name: (question, loop.create_future()) for name, question in left.items()}
            loop.call_later(RETURN_SECONDS, self._give_up_left)

    @property
    def pending_approvals(self) -> list[PendingApproval]:
        """Questions waiting for a decision, oldest first."""
        return sorted((asked.pending for asked in self._asked.values()), key=lambda pending: pending.requested_at)

    async def approval_ends(self, approval_ids: Sequence[str]) -> list[events.ApprovalResolved]:
        """What became of requests for approvals, of those of them that ended: for who was told of them by the last owner.

        Who listens already misses none: each end is in the audit before anybody is told of it.
        """
        if not approval_ids:
            return []
        entries = await asyncio.to_thread(self._audit.questions)
        found = (self._end_of(*each) for each in ends(entries, approval_ids).items())
        return [event for event in found if event is not None]

    def _end_of(self, approval_id: str, said: Json) -> events.ApprovalResolved | None:
        if said.get("to") not in get_args(Resolution):
            return None
        who, request_id, reason = (_text(said.get(name)) for name in ("who", "requestId", "reason"))
        cause = Cause(request_id=request_id, client=who)
        return events.ApprovalResolved(
            head=self.head, cause=cause, approval_id=approval_id, decision=said["to"], reason=reason
        )

    async def ask_approval(self, question: ApprovalQuestion, guard: Mutation) -> Json | Waiting:
        """Ask for an approval.

        Args:
            question: What for.
            guard: The request; a known id is answered as it was, one that waits is joined.

        Returns:
            The result, where it is known at once; else who waits for it now, until `stop_waiting`.

        Raises:
            OverloadedError: Too much waits already.
            StorageFailureError: It could not be noted in the audit; nobody was asked.
        """
        self._refuse_reader()
        while True:
            mine = replace(guard)
            try:
                return await self.engine.run(partial(self._ask, question, mine))
            except RepeatedError as repeated:
                if repeated.result is not None:
                    result = dict(repeated.result)
                    if self._taken_over_lately:
                        await self.engine.run(partial(self._tell_end, question, self._approval_id(guard), result))
                    return {**result, "duplicate": True}
                for asked in self._asked.values():
                    if asked.guard.request_id == guard.request_id:
                        return asked.join()
                if repeated.first is not None:
                    await asyncio.wait([repeated.first])

    async def _ask(self, question: ApprovalQuestion, guard: Mutation, _: LogState) -> Json | Waiting:
        if self._closed:
            raise SessionNotOpenError(f"session {self.session_id} was closed: open it again")
        self._requests.admit(guard, self.head)
        approval_id = self._approval_id(guard)
        if (verdict := automatic(self._session_state.facts.approval, question.action)) is not None:
            decided = ApprovalDecision(*verdict, client=None, at=clock.now_iso(), automatic=True)
            pending = PendingApproval(approval_id, question, decided.at, guard.cause.client)
            await asyncio.to_thread(self._audit.append, [_decided(pending, guard.cause, None, decided)])
            try:
                (result,) = await self._remember([(guard, decided)])
                self._requests.finish(guard, result, self.head)
            finally:
                self._requests.abandon(guard)
            return result
        if (asked := self._asked.get(approval_id)) is not None:
            return asked.join()  # its id is not among the requests on their way: a redaction took it out
        if len(self._asked) >= MAX_PENDING:
            raise OverloadedError(
                f"{MAX_PENDING} approvals are pending in this session: wait for decisions, or cancel some"
            )
        before, returned = self._left.get(approval_id, ({}, None))
        requested_at = str(before.get("time"))
        known = _TIME.fullmatch(requested_at) is not None
        pending = PendingApproval(approval_id, question, requested_at if known else clock.now_iso(), guard.cause.client)
        if not known:
            await asyncio.to_thread(self._audit.append, [_asked(pending, guard.cause)])
        self._requests.begin(guard)
        asked = self._asked[approval_id] = Asked(pending, guard)
        self._left.pop(approval_id, None)
        if returned is not None:
            returned.set_result(None)
        self.emit(events.ApprovalRequested(head=self.head, cause=guard.cause, request=pending))
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
        event = events.ApprovalResolved(
            head=self.head,
            cause=cause,
            approval_id=approval_id,
            decision=result["decision"],
            reason=result.get("reason"),
        )
        self.emit(event)

    async def decide_approval(self, approval_id: str, decision: Decision, reason: str | None, cause: Cause) -> None:
        """Decide what was asked; the first decision counts.

        Raises:
            ApprovalNotPendingError: Nothing of that id waits for a decision.
            StorageFailureError: It could not be noted, or the action not be approved for the session; it still waits.
        """
        self._refuse_reader()
        if (left := self._left.get(approval_id)) is not None:
            await asyncio.wait([left[1]])  # who asked is about to ask again
        await self.engine.run(lambda _: self._decide(approval_id, decision, reason, cause))

    async def _decide(self, approval_id: str, decision: Decision, reason: str | None, cause: Cause) -> None:
        asked = self._asked.get(approval_id)
        if asked is None:
            raise ApprovalNotPendingError(
                f"approval {approval_id[:80]!r} does not wait for a decision: it was decided, taken back, or never asked for"
            )
        action = asked.pending.question.action
        changed = decision == "approveForSession" and action not in self._session_state.facts.approval.actions
        if changed:
            with self._telling_half(cause):
                wanted = approvals.with_action(self._session_state.facts.approval, action, True)
                await asyncio.to_thread(self._session_state.change_approvals, wanted, cause)
            self.emit(events.ApprovalChanged(head=self.head, cause=cause, approval=self._session_state.facts.approval))
        await self._settle([(asked, ApprovalDecision(decision, reason, cause.client, clock.now_iso()))], cause)
        if changed:
            await self._settle_covered(cause)

    async def _approvals_changed(self, cause: Cause) -> None:
        if self._asked:
            await self.engine.run(lambda _: self._settle_covered(cause))

    async def _settle_covered(self, cause: Cause) -> None:
        """Answer what waits and is covered by the session's approvals now. Where that cannot be noted, it goes on waiting."""
        at = clock.now_iso()
        decided = [
            (asked, ApprovalDecision(*verdict, client=cause.client, at=at, automatic=True))
            for asked in self._asked.values()
            if (verdict := automatic(self._session_state.facts.approval, asked.pending.question.action)) is not None
        ]
        if decided:
            try:
                await self._settle(decided, cause)
            except StorageFailureError as error:
                self._warn("approvalNotNoted", f"what is approved now goes on waiting: {error}")

    async def _settle(self, decided: list[tuple[Asked, ApprovalDecision]], cause: Cause) -> None:
        """Make decisions durable, then tell everybody."""
        entries = [_decided(asked.pending, cause, "pending", decision) for asked, decision in decided]
        # In this order: who asks the next owner gets the decision, and the audit, which has no end of it, gets one then.
        results = await self._remember([(asked.guard, decision) for asked, decision in decided])
        failpoint("approval.after_requests")
        await asyncio.to_thread(self._audit.append, entries)
        failpoint("approval.after_audit")
        for (asked, decision), result in zip(decided, results, strict=True):
            self._requests.finish(asked.guard, result, self.head)
            self._resolve(asked, decision.decision, decision.reason, cause)
            for waiting in asked.waiting:
                if not waiting.answer.done():
                    waiting.answer.set_result(result)

    async def _remember(self, decided: list[tuple[Mutation, ApprovalDecision]]) -> list[Json]:
        """Note decisions under their request ids; returns the results."""
        results = [self._shapes.result(decision) for _, decision in decided]
        for guard, _ in decided:
            self._requests.begin(guard)  # its age is that of the decision, however long that took
        found = [
            self._requests.line(guard, result, self.head, None)
            for (guard, _), result in zip(decided, results, strict=True)
        ]
        if known := [line for line in found if line is not None]:
            await asyncio.to_thread(self._session_state.note, {}, known)
        return results

    def _resolve(self, asked: Asked, resolution: Resolution, reason: str | None, cause: Cause) -> None:
        del self._asked[asked.pending.approval_id]
        self.emit(
            events.ApprovalResolved(
                head=self.head,
                cause=cause,
                approval_id=asked.pending.approval_id,
                decision=resolution,
                reason=reason,
            )
        )

    async def stop_waiting(self, waiting: Waiting, resolution: Literal["cancelled", "timedOut"]) -> None:
        """Wait no more; the question is given up with the last who waited. If a decision came before, `answer` has it."""
        if not waiting.answer.done():
            await self.engine.run(lambda _: self._stop_waiting(waiting, resolution))

    async def _stop_waiting(self, waiting: Waiting, resolution: Literal["cancelled", "timedOut"]) -> None:
        if waiting.answer.done():
            return
        asked = waiting.asked
        asked.waiting.remove(waiting)
        if not asked.waiting:
            self._requests.abandon(asked.guard)
            await self._note_end([_ended(asked.pending.approval_id, asked.pending.question.action, resolution)])
            self._resolve(asked, resolution, None, Cause())
        waiting.answer.cancel()

    def redact_pending(self, redacted: Callable[[str], str]) -> None:
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
            request_id = asked.guard.request_id
            if request_id is not None and redacted(request_id) != request_id:
                # The decision would be noted under this id.
                self._requests.abandon(asked.guard)
                asked.guard = replace(asked.guard, request_id=None)
        for left, _ in self._left.values():
            left["action"] = redacted(_text(left.get("action")) or "")

    def leave_open(self, waiting: Waiting) -> None:
        """Somebody who waits is sent to the next owner, where the question goes on."""
        asked = waiting.asked
        if waiting in asked.waiting:
            asked.waiting.remove(waiting)
        if not asked.waiting and self._asked.get(asked.pending.approval_id) is asked:
            del self._asked[asked.pending.approval_id]
            self._requests.abandon(asked.guard)

    async def shut(self) -> None:
        """As `SessionTransactions.shut`; what waits is cancelled first."""
        self._closed = True
        for asked in list(self._asked.values()):
            for waiting in list(asked.waiting):
                await self.stop_waiting(waiting, "cancelled")
        self._forget_left()
        await super().shut()

    def _give_up_left(self) -> None:
        self._taken_over_lately = False
        if self._left and not self._closed:
            giving_up = asyncio.ensure_future(self.engine.run(lambda _: self._cancel_left()))
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
        """Cancel what the last owner left open and nobody has asked for again."""
        left = {name: question for name, (question, _) in self._left.items()}
        await self._note_end([_ended(name, question.get("action"), "cancelled") for name, question in left.items()])
        for name in left:
            self.emit(events.ApprovalResolved(head=self.head, approval_id=name, decision="cancelled"))

    async def _note_end(self, entries: list[Json]) -> None:
        """Note what nobody has decided: that it cannot be noted changes nothing about it."""
        try:
            await asyncio.to_thread(self._audit.append, entries)
        except StorageFailureError as error:
            self._warn("approvalNotNoted", f"the end of a request for an approval is not in the audit: {error}")

    def _approval_id(self, guard: Mutation) -> str:
        """Of a request with an id always the same, so that windows know it again after a hand-over."""
        if guard.request_id is None:
            return f"a{clock.new_uid(16)}"
        text = f"{self.meta.uid}\0{guard.request_id}".encode("utf-8", "surrogatepass")
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


def _asked(pending: PendingApproval, cause: Cause) -> Json:
    # The time is the one that windows are told: the next owner has it from here.
    return {**entry(cause, FIELD, None, "pending", **_members(pending)), "time": pending.requested_at}


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
