"""Dry runs of the methods that rewrite a session: the result, without the change."""

from __future__ import annotations

from timeleap.sessions import rewrite_plan
from timeleap.sessions.outcomes import CompactionPlan, CompactOutcome, Mutation, RewriteOutcome, Summary
from timeleap.sessions.summary import past_of, with_past
from timeleap.sessions.transaction import SessionTransactions
from timeleap.sessions.undo import Direction
from timeleap.storage.engine import damaged_before, new_damage, not_restored


class DryRuns(SessionTransactions):
    """The part of a session that foretells."""

    def expect_head(self, head: str | None) -> None:
        """Refuse what was asked of another past, as the request itself would be.

        Args:
            head: The head the caller expects; None for any.

        Raises:
            HeadConflictError: The head is not the expected one.
        """
        self._requests.admit(Mutation(expected_head=head), self.head)

    def plan_revert(
        self,
        *,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        message_index: int | None = None,
        heal: bool = False,
    ) -> RewriteOutcome:
        """Result of a dry run of `revert`."""
        if message_index is not None:
            return self._imagined(rewrite_plan.plan_revert_to_message(self.engine, message_index, heal))
        return self._imagined(rewrite_plan.plan_revert(self.engine, checkpoint_id, checkpoint_uid, heal))

    def plan_clear(self, keep_system_prompt: bool = True) -> RewriteOutcome:
        """Result of a dry run of `clear`."""
        return self._imagined(rewrite_plan.plan_clear(self.engine, keep_system_prompt))

    def plan_restore(self, timeline_id: str) -> RewriteOutcome:
        """Result of a dry run of `restore_timeline`.

        Raises:
            TimelineNotFoundError: There is no such timeline.
            CorruptedError: It is known to be damaged, so it would not be restored.
        """
        self._refuse_damaged(timeline_id)
        return self._imagined(rewrite_plan.plan_restore(self.engine, timeline_id))

    def _refuse_damaged(self, timeline_id: str) -> None:
        known = next((timeline for timeline in self.engine.timelines() if timeline.timeline_id == timeline_id), None)
        damage = new_damage(self.engine.timeline(timeline_id), damaged_before(known.facts)) if known else []
        if known and damage:
            raise not_restored(self.path / known.file, damage[0].offset)

    def plan_undo(self, direction: Direction, steps: int = 1) -> RewriteOutcome:
        """Result of a dry run of `undo` or `redo`.

        Raises:
            NothingToUndoError, NothingToRedoError: There are fewer steps.
            CorruptedError: The log it would bring back is known to be damaged.
        """
        stacks = self._stacks(self.engine.state)
        if (name := stacks.taken(direction, steps)[-1].timeline_id) is not None:
            self._refuse_damaged(name)
        return self._imagined(rewrite_plan.plan_undo(self.engine, stacks, direction, steps))

    def plan_deliver_dmail(self, heal: bool = False) -> RewriteOutcome:
        """Result of a dry run of `deliver_dmail`."""
        return self._imagined(rewrite_plan.plan_deliver(self.engine, self._session_state.facts.pending_dmail, heal))

    def plan_compact(self, compaction: CompactionPlan) -> CompactOutcome:
        """Result of a dry run of `compact`."""
        planned = rewrite_plan.plan_compact(self.engine, self.engine.state, compaction)
        return planned.outcome(self.head, None, self._foreseen(planned))

    def _imagined(self, planned: rewrite_plan.RewritePlan) -> RewriteOutcome:
        outcome = planned.outcome(self.head, None, self._foreseen(planned))
        assert isinstance(outcome, RewriteOutcome)
        return outcome

    def _foreseen(self, planned: rewrite_plan.RewritePlan) -> Summary:
        """The log it would make, as far as sizes and fingerprints tell what equals what."""
        timelines, state = self.engine.timelines(), self.engine.state
        known = {timeline.timeline_id: (timeline.bytes, timeline.chain) for timeline in timelines}
        stacks = self._stacks(state)
        if planned.refused is not None:
            return with_past(planned.context, past_of(known, stacks, state))
        prepared = rewrite_plan.foreseen(planned, timelines, state)
        after = planned.stacks_after(stacks, prepared, lambda name, other: known.get(name, 0) == known.get(other, 1))
        left, going = rewrite_plan.timelines_after(known, prepared), self._to_be_pruned(planned, prepared)
        return with_past(planned.context, past_of(left, after, prepared.after, going))
