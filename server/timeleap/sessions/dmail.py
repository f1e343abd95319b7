"""The D-Mails of a session: left for an earlier self, taken back, come from another session, gone to one."""

from __future__ import annotations

from typing import Any

from timeleap.sessions import append_plan, session_state
from timeleap.sessions.checkpoints import find_line, read_checkpoint
from timeleap.sessions.outcomes import DMailOutcome, Mutation, PendingDMail, SentOutcome
from timeleap.sessions.session_state import StateChange
from timeleap.sessions.transaction import NOBODY, SessionTransactions

Json = dict[str, Any]


class Mailing(SessionTransactions):
    """The part of a session that sends and receives. Delivery is a rewrite, and stands with the others."""

    async def send_dmail(
        self,
        message: str,
        *,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        sender: str | None = None,
        guard: Mutation = NOBODY,
    ) -> Json:
        """Leave a note for the self at a checkpoint; it waits until it is delivered.

        Args:
            message: The note.
            checkpoint_id: The first checkpoint with that id.
            checkpoint_uid: Or the one with that uid.
            sender: The session it comes from, if not from this one.
            guard: The request.

        Raises:
            CheckpointNotFoundError: There is no such checkpoint.
            DMailPendingError: One waits already.
        """

        def work_out() -> session_state.StateStep:
            target = read_checkpoint(self.engine, find_line(self.engine, checkpoint_id, checkpoint_uid))
            dmail = PendingDMail(target.id, target.uid, message, sender)
            return self._mailed(
                session_state.with_dmail(self._session_state.facts, dmail), DMailOutcome(self.head, dmail)
            )

        return await self._change(guard, work_out)

    async def cancel_dmail(self, guard: Mutation = NOBODY) -> Json:
        """Take the pending D-Mail back."""
        return await self._change(
            guard,
            lambda: self._mailed(session_state.without_dmail(self._session_state.facts), DMailOutcome(self.head, None)),
        )

    async def take_note(self, message: str, sender: str, guard: Mutation = NOBODY) -> Json:
        """Append a note from another session (see `append_plan.note`)."""
        return await self._append(guard, lambda state, marks: append_plan.note(state, message, sender, marks))

    async def mail_sent(self, guard: Mutation, answer: Json) -> Json:
        """Remember a request that took effect in another session; `answer` says where."""
        return await self._change(
            guard, lambda: self._mailed(StateChange(self._session_state.facts), SentOutcome(self.head, answer))
        )

    def _mailed(self, change: StateChange, outcome: DMailOutcome | SentOutcome) -> session_state.StateStep:
        return session_state.StateStep(
            change, outcome, session_state.changes(self._session_state.facts, change.facts, self.head)
        )
