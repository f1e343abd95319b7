"""One open session: its log, and what belongs to it beside the log.

Every mutator takes its turn in the engine's queue. There, in this order, the request id is looked up, the expected head
is compared, and the operation's own checks are made; then it is written; then listeners are told; then it returns. What
a rewrite would do is worked out in `rewrite_plan`, what is appended in `append_plan`, state beside the log is changed
in `session_state`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from timeleap import clock
from timeleap.errors import InvalidInputError, TimeleapError
from timeleap.sessions import append_plan, approvals, checkpoints, events, rewrite_plan, session_state
from timeleap.sessions.approval_requests import ApprovalRequests
from timeleap.sessions.dmail import Mailing
from timeleap.sessions.events import External
from timeleap.sessions.listing import created_at, last_change_ns
from timeleap.sessions.outcomes import (
    Approval,
    AutoCheckpoint,
    Cause,
    Checkpoint,
    CompactionPlan,
    CompactOutcome,
    HeadOutcome,
    Mutation,
    Outcome,
    Parent,
    PendingDMail,
    PinsOutcome,
    RepairOutcome,
    Subagent,
    SubagentsOutcome,
    Summary,
)
from timeleap.sessions.pruning import Pruning
from timeleap.sessions.request_replay import Made
from timeleap.sessions.scrubbing import Scrubbing
from timeleap.sessions.summary import summarize
from timeleap.sessions.transaction import NOBODY, Transaction
from timeleap.sessions.warnings import LARGE, SMALL, line_problems, log_warnings, recovered, unreachable
from timeleap.storage.engine import LogEngine, LogReader, LogState, Recovery, Replacement

Json = dict[str, Any]

__all__ = ["Cause", "Mutation", "Session"]


class Session(Pruning, Scrubbing, Mailing, ApprovalRequests):
    """One open session. Opened and closed by its `SessionStore`.

    Attributes:
        unreachable: Why other processes cannot attach to it, though they should; None where they can, or need not.
        deleted: It is only read here, and another process has deleted it.
    """

    unreachable: str | None = None
    deleted: bool = False

    @property
    def title(self) -> str | None:
        """Its title for people."""
        return self._session_state.facts.title

    @property
    def workspace(self) -> str | None:
        """URI of the folder it is about."""
        return self._session_state.facts.workspace

    @property
    def archived(self) -> bool:
        """True if it is archived."""
        return self._session_state.facts.archived

    @property
    def created_at(self) -> str:
        """ISO-8601 UTC."""
        return created_at(self.path, self.meta)

    @property
    def updated_at(self) -> str:
        """ISO-8601 UTC of the last change of its log or state."""
        return clock.iso(last_change_ns(self.path) / 1e9)

    @property
    def parent(self) -> Parent | None:
        """Where it was forked from."""
        return self.meta.parent

    @property
    def approval(self) -> Approval:
        """The approvals to run without asking."""
        return self._session_state.facts.approval

    @property
    def subagents(self) -> tuple[Subagent, ...]:
        """The sub-agents defined while it ran, in the order they were put."""
        return self._session_state.facts.subagents

    @property
    def pins(self) -> tuple[str, ...]:
        """Texts that no compaction may lose."""
        return self._session_state.facts.pins

    @property
    def pending_dmail(self) -> PendingDMail | None:
        """The D-Mail that waits to be delivered."""
        return self._session_state.facts.pending_dmail

    @property
    def auto_checkpoint(self) -> AutoCheckpoint:
        """Where checkpoints are written automatically."""
        return self._session_state.facts.auto_checkpoint

    @property
    def warnings(self) -> list[Json]:
        """Warnings for the user: damage, recovery, broken seals. Each has `kind` and `message`."""
        return [
            *log_warnings(self.engine),
            *self._session_state.warnings,
            *unreachable(self.unreachable),
            *self._notices,
        ]

    def _changed_outside(self) -> None:
        if not self._found_deleted():
            super()._changed_outside()

    def _reread(self) -> None:
        if not self._found_deleted():
            super()._reread()

    def _found_deleted(self) -> bool:
        """True if another process has deleted the session that is followed here; listeners are told once."""
        if not self.deleted and self.access == "readOnly" and self._around.moved_away(self):
            self.deleted = True
            self.emit(events.Deleted(head=self.head))
        return self.deleted

    def _reread_scrubbed(self, clean: Callable[[str], str]) -> None:
        super()._reread_scrubbed(clean)
        self.redact_pending(clean)

    def summary(self) -> Summary:
        """The facts of the log."""
        return summarize(self.engine, self._past())

    def checkpoints(
        self, reader: LogReader, start_ordinal: int, count: int, newest_first: bool = False
    ) -> list[Checkpoint]:
        """Up to `count` checkpoints of the live log or of a timeline (see `checkpoints.list_checkpoints`)."""
        return checkpoints.list_checkpoints(reader, start_ordinal, count, newest_first)

    def find_checkpoint(self, *, id: int | None = None, uid: str | None = None) -> Checkpoint:  # noqa: A002
        """The first checkpoint with that id, or the one with that uid.

        Raises:
            CheckpointNotFoundError: There is none.
        """
        return checkpoints.read_checkpoint(self.engine, checkpoints.find_line(self.engine, id, uid))

    def is_approved(self, action: str) -> tuple[bool, str]:
        """True if an action runs without asking; with the reason: `yolo`, `autoApprove` or `notApproved`."""
        if self.approval.yolo:
            return True, "yolo"
        if action in self.approval.actions:
            return True, "autoApprove"
        return False, "notApproved"

    async def catch_its_turn(self) -> None:
        """Return when all earlier requests have taken effect."""
        await self.at_turn(lambda: None)

    # What is appended

    async def append(self, messages: Sequence[Json], guard: Mutation = NOBODY) -> Json:
        """Append messages as one step, with the checkpoints that `auto_checkpoint` asks for."""
        return await self._append(
            guard, lambda state, marks: append_plan.messages(state, messages, marks, self.auto_checkpoint)
        )

    async def update_token_count(self, token_count: int, guard: Mutation = NOBODY) -> Json:
        """Note the model's reported input usage."""
        return await self._append(guard, lambda state, marks: append_plan.usage(state, token_count, marks))

    async def set_system_prompt(self, text: str, guard: Mutation = NOBODY) -> Json:
        """Set the system prompt; a revert brings back the one of that time."""
        return await self._append(guard, lambda state, marks: append_plan.system_prompt(state, text, marks))

    async def checkpoint(self, label: str | None, add_user_message: bool, guard: Mutation = NOBODY) -> Json:
        """Write a checkpoint, and in the same step, if asked for, the user message that names it."""
        return await self._append(
            guard, lambda state, marks: append_plan.checkpoint(state, label, add_user_message, marks)
        )

    # What puts another log in the place of the present one

    async def revert(
        self,
        *,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        message_index: int | None = None,
        heal: bool = False,
        guard: Mutation = NOBODY,
        dry_run: bool = False,
    ) -> Json:
        """Remove a checkpoint, or a message, and all after it (see `rewrite_plan.plan_revert`,
        `rewrite_plan.plan_revert_to_message`)."""
        if message_index is not None:
            return await self._rewrite(
                guard,
                lambda _: rewrite_plan.plan_revert_to_message(self.engine, message_index, heal),
                dry_run=dry_run,
            )
        return await self._rewrite(
            guard,
            lambda _: rewrite_plan.plan_revert(self.engine, checkpoint_id, checkpoint_uid, heal),
            dry_run=dry_run,
        )

    async def clear(self, keep_system_prompt: bool = True, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Remove everything, but if asked for not the system prompt."""
        return await self._rewrite(
            guard, lambda _: rewrite_plan.plan_clear(self.engine, keep_system_prompt), dry_run=dry_run
        )

    async def restore_timeline(self, timeline_id: str, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Put an earlier log back, byte for byte."""
        return await self._rewrite(
            guard, lambda _: rewrite_plan.plan_restore(self.engine, timeline_id), dry_run=dry_run
        )

    async def undo(self, steps: int = 1, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Bring back the log as it was before the last `steps` rewrites, as one step.

        Raises:
            NothingToUndoError: There are fewer that can be undone.
        """
        return await self._rewrite(
            guard,
            lambda state: rewrite_plan.plan_undo(self.engine, self._stacks(state), "undo", steps),
            dry_run=dry_run,
        )

    async def redo(self, steps: int = 1, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Take back the last `steps` undone rewrites, as one step.

        Raises:
            NothingToRedoError: There are fewer that can be redone.
        """
        return await self._rewrite(
            guard,
            lambda state: rewrite_plan.plan_undo(self.engine, self._stacks(state), "redo", steps),
            dry_run=dry_run,
        )

    async def deliver_dmail(self, guard: Mutation = NOBODY, *, heal: bool = False, dry_run: bool = False) -> Json:
        """Go back to the pending D-Mail's checkpoint and leave the note there (see `rewrite_plan.plan_deliver`)."""
        return await self._rewrite(
            guard, lambda _: rewrite_plan.plan_deliver(self.engine, self.pending_dmail, heal), dry_run=dry_run
        )

    async def compact(self, compaction: CompactionPlan, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Replace what a plan summarises by its summary, unless the context would become longer.

        Raises:
            HeadConflictError: The log was rewritten since the plan was made.
        """
        return await self._rewrite(
            guard, lambda state: rewrite_plan.plan_compact(self.engine, state, compaction), dry_run=dry_run
        )

    # What stands beside the log

    async def put_subagent(self, name: str, system_prompt: str, guard: Mutation = NOBODY) -> Json:
        """Define a sub-agent; one of that name is replaced, in its place."""

        def work_out() -> session_state.StateStep:
            many = {subagent.name: subagent for subagent in self.subagents}
            many[name] = Subagent(name, system_prompt)
            return self._with_subagents(many.values())

        return await self._change(guard, work_out)

    async def remove_subagent(self, name: str, guard: Mutation = NOBODY) -> Json:
        """Remove a sub-agent; nothing happens if there is none of that name."""
        return await self._change(
            guard, lambda: self._with_subagents(subagent for subagent in self.subagents if subagent.name != name)
        )

    async def set_title(self, title: str, guard: Mutation = NOBODY) -> Json:
        """Call it something else."""
        return await self._change(
            guard, lambda: self._step(session_state.titled(self._session_state.facts, title), HeadOutcome(self.head))
        )

    async def set_workspace(self, workspace: str | None, guard: Mutation = NOBODY) -> Json:
        """Say which folder it is about; None: none."""
        return await self._change(
            guard,
            lambda: self._step(
                session_state.with_workspace(self._session_state.facts, workspace), HeadOutcome(self.head)
            ),
        )

    async def set_pins(self, pins: Iterable[str], guard: Mutation = NOBODY) -> Json:
        """Pin other strings in the place of those pinned before."""
        many = tuple(dict.fromkeys(pins))
        return await self._change(
            guard,
            lambda: self._step(session_state.with_pins(self._session_state.facts, many), PinsOutcome(self.head, many)),
        )

    async def archive(self, guard: Mutation = NOBODY) -> Json:
        """Put it away: it is not listed unless asked for."""
        return await self._change(
            guard, lambda: self._step(session_state.archived(self._session_state.facts, True), HeadOutcome(self.head))
        )

    async def unarchive(self, guard: Mutation = NOBODY) -> Json:
        """Take it out again."""
        return await self._change(
            guard, lambda: self._step(session_state.archived(self._session_state.facts, False), HeadOutcome(self.head))
        )

    async def set_auto_checkpoint(self, setting: AutoCheckpoint, guard: Mutation = NOBODY) -> Json:
        """Write checkpoints before turns, before steps, or not; stays until set otherwise."""
        return await self._change(
            guard,
            lambda: self._step(
                session_state.with_auto_checkpoint(self._session_state.facts, setting), HeadOutcome(self.head)
            ),
        )

    async def keep_auto_checkpoint(self, setting: AutoCheckpoint | None) -> None:
        """The setting an opening asks for; None leaves it, and so does a reader."""
        if setting not in (None, self.auto_checkpoint) and self.access == "owner":
            assert setting is not None
            await self.set_auto_checkpoint(setting)

    async def set_yolo(self, yolo: bool, guard: Mutation = NOBODY) -> Json:
        """Let everything run without asking, or not."""
        return await self._change_approvals(guard, lambda before: approvals.with_yolo(before, yolo))

    async def set_auto_approve(self, action: str, enabled: bool, guard: Mutation = NOBODY) -> Json:
        """Let one action run without asking, or not."""
        if not action:
            raise InvalidInputError("an action has a name")
        return await self._change_approvals(guard, lambda before: approvals.with_action(before, action, enabled))

    async def set_afk(self, afk: bool, guard: Mutation = NOBODY) -> Json:
        """Say that nobody is there to be asked, or that somebody is."""
        return await self._change_approvals(guard, lambda before: approvals.with_afk(before, afk))

    async def reload(self) -> Recovery:
        """Take over what is on disk now, after a program that takes no lock has written; the head changes."""
        found = await self._taken_over()
        self.emit(events.External(head=self.head))
        return found

    async def _taken_over(self) -> Recovery:
        self.meta.refresh()
        found = await self.engine.reload()
        self._requests.forget()
        self._reread()
        if (event := recovered(self.engine)) is not None:
            self.emit(event)
        return found

    async def repair(self, cause: Cause = NOBODY.cause) -> RepairOutcome:
        """Rewrite the log without the lines that are not part of history; the damaged log is kept as a timeline.

        What is there now is taken for what was written: of a silently damaged record either the new text counts, if it
        is one, or nothing.
        """
        self._refuse_reader()
        await self._taken_over()
        removed = 0

        def on_turn(state: LogState) -> Replacement:
            nonlocal removed
            removed = self.engine.damaged_lines()
            return Replacement(rewrite_plan.facts_now(self.engine, "unknown", {"by": "repair"}), keep_lines=state.lines)

        done = await self.engine.replace(self._keeping_facts(on_turn))
        self._requests.forget()
        self.emit(External(head=done.head, cause=cause))
        return RepairOutcome(done.head, done.timeline_id, removed)

    async def made(self, request_ids: Sequence[str]) -> list[tuple[str, Made]]:
        """The changes that some requests have made already, oldest first, with what listeners were told of them."""

        async def on_turn(_: LogState) -> list[tuple[str, Made]]:
            return [(name, self._recall.change(known)) for name, known in self._requests.known(request_ids)]

        return await self.engine.run(on_turn)

    async def check_in_background(self, engine: LogEngine) -> None:
        """Look at what opening left unchecked, and warn of what is found damaged."""
        try:
            found = await engine.validate_in_background(self._go_on)
        except _ClosingError:
            return
        except (TimeleapError, OSError) as error:
            self._warn("notChecked", f"the log could not be checked: {error}")
            return
        for damaged in found:
            text = f"{damaged.message} (line {damaged.line} at byte {damaged.offset})"
            self.emit(events.Warned(head=self.head, kind=damaged.kind, message=text))
        for problem in await asyncio.to_thread(lambda: list(line_problems(self.path, LARGE, least=SMALL))):
            self._warn(problem.kind, problem.message)

    def _go_on(self, _done: int, _total: int) -> None:
        """Called now and then by the thread that checks the log: closing does not wait for it."""
        if self._closed:
            raise _ClosingError

    async def answered(self, guard: Mutation) -> Json | None:
        """The earlier result of a request, or None if it is new. For methods with expensive work before their turn.

        Raises:
            InvalidInputError: The id is known for another request.
            HeadConflictError: The head is not the expected one.
        """

        async def attempt(transaction: Transaction) -> None:
            await self.at_turn(lambda: transaction.admit(self.head))

        return await self._once(guard, attempt) or None

    async def leave_uncompacted(self, reason: str, guard: Mutation = NOBODY) -> Json:
        """Answer a compaction for which there is nothing to do.

        Raises:
            HeadConflictError: The head is not the expected one.
        """
        self._refuse_reader()
        return await self._unchanged(guard, lambda: self.not_compacted(reason))

    def not_compacted(self, reason: str) -> CompactOutcome:
        """The outcome of a compaction for which there is nothing to do."""
        summary = self.summary()
        tokens = summary.token_count_with_pending
        return CompactOutcome(
            head=self.head,
            compacted=False,
            reason=reason,
            timeline_id=None,
            summary=None,
            removed_messages=0,
            preserved_messages=summary.message_count,
            token_count_before=tokens,
            token_count_after=tokens,
            context=summary,
        )

    async def aclose(self) -> None:
        """Undo one opening. The last one finishes what was accepted and lets go of the lock."""
        await self._around.release(self)

    def _with_subagents(self, many: Iterable[Subagent]) -> session_state.StateStep:
        change = session_state.with_subagents(self._session_state.facts, many)
        return self._step(change, SubagentsOutcome(self.head, change.facts.subagents))

    def _step(self, change: session_state.StateChange, outcome: Outcome) -> session_state.StateStep:
        return session_state.StateStep(
            change, outcome, session_state.changes(self._session_state.facts, change.facts, self.head)
        )


class _ClosingError(Exception):
    """The session is being closed."""
