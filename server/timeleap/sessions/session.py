"""An open session: its log, and its state outside the log.

Every mutator takes its turn in the engine's queue. There, in this order, the request id is looked up, the expected head
is compared, and the operation's own checks are made; then it is written; then listeners are told; then it returns: all
of that in `transaction`. What is to be done is decided in `kernel`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from timeleap import clock
from timeleap.call import NO_CONTROL, WorkControl
from timeleap.json_value import Json
from timeleap.sessions import past
from timeleap.sessions.appends import append
from timeleap.sessions.companion import RestoreCancelledError, RewriteScope, ScopeArguments
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME, quarantine_files
from timeleap.sessions.documents.warnings import (
    inherited_losses,
    log_warnings,
    modes_warning,
    placeholder_warnings,
    recovered,
)
from timeleap.sessions.foretelling import foretell
from timeleap.sessions.kernel import append_records, members, pruning, rewrites
from timeleap.sessions.kernel.change import Change, Decide, Marks
from timeleap.sessions.kernel.pruning import PruneRequest
from timeleap.sessions.kernel.session_view import LEFT_OUT, StateSnapshot
from timeleap.sessions.shapes import (
    CONTEXT,
    Access,
    AutoCheckpoint,
    Cause,
    Checkpoint,
    Effect,
    Event,
    Mutation,
    set_members,
)
from timeleap.sessions.transaction import NOBODY, Files, SessionServices, SessionTransactions, nothing
from timeleap.storage.damage import Recovery
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import LogState
from timeleap.storage.reader import LogReader
from timeleap_protocol.folder_uri import canonical_folder_uri


class Session:
    """An open session. Opened and closed by its `SessionStore`.

    Attributes:
        transactions: What it consists of, and how that is changed.
        approval_requests: The approvals that are asked in it.
        location: Where it lies, in words.
        unreachable: Why other processes cannot attach to it, though they should; None where they can, or need not.
    """

    def __init__(self, session_id: str, path: Path, files: Files, services: SessionServices) -> None:
        self.session_id = session_id
        self.path = path
        self.location = str(path)
        self.unreachable: str | None = None
        self._release = services.release
        self.transactions = transactions = SessionTransactions(session_id, path, files, services)
        self.approval_requests = services.approval_requests(transactions)
        self.listen, self.emit, self.at_turn = transactions.listen, transactions.emit, transactions.at_turn
        self.expect_head, self.answered, self.summary = (
            transactions.expect_head,
            transactions.answered,
            transactions.summary,
        )
        self.companion = services.companion(transactions)
        self.append_decided, self._carry_out = partial(append, transactions), transactions.carry_out

    def adopt(self, files: Files) -> None:
        """Go on with other files, when a follower becomes the owner."""
        self.transactions.adopt(files)
        self.approval_requests.adopt()

    @property
    def engine(self) -> LogEngine:
        """Its log and timelines."""
        return self.transactions.engine

    @property
    def meta(self) -> Meta:
        """Its `timeleap.json`."""
        return self.transactions.meta

    @property
    def access(self) -> Access:
        """`owner` if this process may write to it."""
        return self.transactions.access

    @property
    def head(self) -> str:
        """Changes with every change of the log, and never repeats."""
        return self.engine.head

    @property
    def deleted(self) -> bool:
        """True if it is only read here, and another process has deleted it."""
        return self.transactions.deleted

    @property
    def facts(self) -> StateSnapshot:
        """The state beside the log, as it counts now."""
        return self.transactions.state.facts

    @property
    def warnings(self) -> list[Json]:
        """Warnings for the user: damage, recovery, broken seals. Each has `kind` and `message`."""
        found = [
            *log_warnings(self.engine, self.path / LOG_NAME),
            *self.transactions.state.warnings,
            *self.transactions.notices,
            *(placeholder_warnings(self.path) if self.transactions.away else ()),
        ]
        found += modes_warning()
        if self.unreachable is None:
            return found
        message = f"other processes cannot attach to this session: {self.unreachable}"
        return [*found, {"kind": "notReachable", "message": message}]

    def warnings_of_forks(self) -> list[Json]:
        """Warnings for a session that is made of this one's log."""
        return inherited_losses(self.engine, self.session_id)

    def wire(self, access: str) -> Json:
        """`SessionState` of the contract, as seen with `access`."""
        forms, found = self.transactions.shapes, self.facts.wire()
        source = self.meta.source
        return {
            **set_members(
                session_id=self.session_id,
                path=self.location,
                source=source and source.wire(),
                access="readOnly" if self.meta.mirrored else access,
                head=self.head,
                context=forms.summary(self.summary()),
                budget=forms.budget.wire(),
            ),
            **{name: value for name, value in found.items() if value or name not in LEFT_OUT},
            **self.companion.wire(),
            "warnings": self.warnings,
        }

    def checkpoints(
        self, reader: LogReader, start_ordinal: int, count: int, newest_first: bool = False
    ) -> list[Checkpoint]:
        """Up to `count` checkpoints of the live log or of a timeline (see `past.told_checkpoints`)."""
        return past.told_checkpoints(reader, start_ordinal, count, newest_first)

    def find_checkpoint(self, *, id: int | None = None, uid: str | None = None) -> Checkpoint:  # noqa: A002
        """The first checkpoint with that id, or the one with that uid.

        Raises:
            CheckpointNotFoundError: There is none.
        """
        return past.read_checkpoint(self.engine, past.find_line(self.engine, id, uid))

    async def catch_its_turn(self) -> None:
        """Return when all earlier requests have taken effect."""
        await self.at_turn(nothing)

    # What is appended

    async def append(self, messages: Sequence[Json], guard: Mutation = NOBODY) -> Json:
        """Append messages as one step, with the checkpoints that `auto_checkpoint` asks for."""
        if not self.meta.accompanied:
            return await self.append_decided(guard, partial(self._decide_messages, messages))
        part = self.companion.for_messages(messages, guard.cause)
        result = await self.append_decided(guard, partial(self._decide_messages, messages), part)
        await self.companion.appended(messages, guard.cause)
        return result

    def _decide_messages(self, messages: Sequence[Json], state: LogState, marks: Marks) -> Change:
        return append_records.decide_messages(state, messages, marks, self.facts.auto_checkpoint)

    async def update_token_count(self, token_count: int, guard: Mutation = NOBODY) -> Json:
        """Note the model's reported input usage."""
        return await self.append_decided(guard, partial(append_records.decide_usage, token_count))

    async def set_system_prompt(self, system_prompt: str, guard: Mutation = NOBODY) -> Json:
        """Set the system prompt; a revert brings back the one of that time."""
        return await self.append_decided(guard, partial(append_records.decide_system_prompt, system_prompt))

    async def checkpoint(
        self,
        label: str | None = None,
        add_user_message: bool = False,
        guard: Mutation = NOBODY,
        *,
        files: bool | None = None,
        control: WorkControl = NO_CONTROL,
    ) -> Json:
        """Write a checkpoint, and in the same step, if asked for, the user message that names it; with the
        `files` as they are, or without, or (None) as the session's settings say."""
        decide = partial(append_records.decide_checkpoint, label, add_user_message)
        return await self.append_decided(guard, decide, self.companion.for_checkpoint(files, guard.cause, control))

    async def take_note(self, message: str, sender: str, guard: Mutation = NOBODY) -> Json:
        """Append a note from another session (see `append_records.decide_note`)."""
        part = self.companion.for_checkpoint(None, guard.cause, NO_CONTROL)
        return await self.append_decided(guard, partial(append_records.decide_note, message, sender), part)

    # What puts another log in the place of the present one: see the decisions in `kernel.rewrites`

    async def revert(
        self,
        *,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        message_index: int | None = None,
        heal: bool = False,
        guard: Mutation = NOBODY,
        dry_run: bool = False,
        **scope: Unpack[ScopeArguments],
    ) -> Json:
        """Remove a checkpoint, or a message, and all after it."""
        decide = partial(
            rewrites.decide_revert,
            checkpoint_id=checkpoint_id,
            checkpoint_uid=checkpoint_uid,
            message_index=message_index,
            heal=heal,
        )
        return await self.rewrite(guard, decide, dry_run, **scope)

    async def clear(self, keep_system_prompt: bool = True, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Remove everything, but if asked for not the system prompt."""
        decide = partial(rewrites.decide_clear, keep_system_prompt=keep_system_prompt)
        return await self.rewrite(guard, decide, dry_run)

    async def restore_timeline(
        self, timeline_id: str, guard: Mutation = NOBODY, *, dry_run: bool = False, **scope: Unpack[ScopeArguments]
    ) -> Json:
        """Put an earlier log back, byte for byte."""
        decide = partial(rewrites.decide_restore, timeline_id=timeline_id)
        return await self.rewrite(guard, decide, dry_run, **scope)

    async def undo(
        self, steps: int = 1, guard: Mutation = NOBODY, *, dry_run: bool = False, **scope: Unpack[ScopeArguments]
    ) -> Json:
        """Bring back the log as it was before the last `steps` rewrites, as one step."""
        decide = partial(rewrites.decide_undo, direction="undo", steps=steps)
        return await self.rewrite(guard, decide, dry_run, **scope)

    async def redo(
        self, steps: int = 1, guard: Mutation = NOBODY, *, dry_run: bool = False, **scope: Unpack[ScopeArguments]
    ) -> Json:
        """Take back the last `steps` undone rewrites, as one step."""
        decide = partial(rewrites.decide_undo, direction="redo", steps=steps)
        return await self.rewrite(guard, decide, dry_run, **scope)

    async def deliver_dmail(
        self, guard: Mutation = NOBODY, *, heal: bool = False, dry_run: bool = False, **scope: Unpack[ScopeArguments]
    ) -> Json:
        """Go back to the pending D-Mail's checkpoint and leave the note there."""
        return await self.rewrite(guard, partial(rewrites.decide_delivery, heal=heal), dry_run, **scope)

    async def rewrite(self, guard: Mutation, decide: Decide, dry_run: bool, **scope: Unpack[ScopeArguments]) -> Json:
        """Put the log that is decided in the place of the present one, or say what that would be."""
        wanted, transactions = RewriteScope(**scope), self.transactions
        if wanted.restore == "files" and not dry_run:
            return await self.companion.restore_alone(guard, decide, wanted)
        takes_part = self.meta.accompanied or wanted.restore != "conversation"
        part = self.companion.for_rewrite(wanted, guard.cause) if takes_part else None
        if dry_run:
            return await foretell(transactions, guard, decide, wanted.restore == "files", part)
        try:
            return await transactions.carry_out(guard, decide, part, rewrites=True)
        except RestoreCancelledError:
            raise asyncio.CancelledError from None

    # What stands beside the log

    async def put_subagent(self, name: str, system_prompt: str, guard: Mutation = NOBODY) -> Json:
        """Define a sub-agent; one of that name is replaced, in its place."""
        return await self._carry_out(guard, partial(members.decide_subagent, name=name, system_prompt=system_prompt))

    async def remove_subagent(self, name: str, guard: Mutation = NOBODY) -> Json:
        """Remove a sub-agent; nothing happens if there is none of that name."""
        return await self._carry_out(guard, partial(members.decide_no_subagent, name=name))

    async def set_title(self, title: str, guard: Mutation = NOBODY) -> Json:
        """Call it something else."""
        return await self._carry_out(guard, partial(members.decide_title, title=title))

    async def set_workspace(self, workspace: str | None, guard: Mutation = NOBODY) -> Json:
        """Say which folder it is about; None: none."""
        workspace = workspace and canonical_folder_uri(workspace)
        return await self.follow_program({"workspace": workspace}, workspace, guard)

    async def follow_program(self, meta: Json, workspace: str | None, guard: Mutation = NOBODY) -> Json:
        """Keep what the program that a mirror is of says of its session: members of `timeleap.json`."""
        return await self._carry_out(guard, partial(members.decide_workspace, workspace=workspace, members=meta))

    async def set_pins(self, pins: Iterable[str], guard: Mutation = NOBODY) -> Json:
        """Pin other strings in the place of those pinned before."""
        return await self._carry_out(guard, partial(members.decide_pins, pins=tuple(pins)))

    async def archive(self, guard: Mutation = NOBODY) -> Json:
        """Put it away: it is not listed unless asked for."""
        return await self._carry_out(guard, partial(members.decide_archived, archived=True, time=clock.now()))

    async def unarchive(self, guard: Mutation = NOBODY) -> Json:
        """Take it out again; it is not to be archived again by itself."""
        return await self._carry_out(guard, partial(members.decide_archived, archived=False, time=None))

    async def set_auto_checkpoint(self, setting: AutoCheckpoint, guard: Mutation = NOBODY) -> Json:
        """Write checkpoints before turns, before steps, or not; stays until set otherwise."""
        return await self._carry_out(guard, partial(members.decide_auto_checkpoint, setting=setting))

    async def keep_auto_checkpoint(self, setting: AutoCheckpoint | None) -> None:
        """The setting an opening asks for; None leaves it, and so does a reader."""
        if setting is not None and setting != self.facts.auto_checkpoint and self.access == "owner":
            await self.set_auto_checkpoint(setting)

    async def send_dmail(
        self,
        message: str,
        *,
        checkpoint_id: int | None = None,
        checkpoint_uid: str | None = None,
        sender: str | None = None,
        guard: Mutation = NOBODY,
    ) -> Json:
        """Leave a note for the self at a checkpoint, which waits until it is delivered; `sender` is the session it
        comes from, if not this one. Raises as `members.decide_dmail`."""
        at = checkpoint_id, checkpoint_uid
        return await self._carry_out(guard, partial(members.decide_dmail, at=at, message=message, sender=sender))

    async def cancel_dmail(self, guard: Mutation = NOBODY) -> Json:
        """Take the pending D-Mail back. Raises NoPendingDMailError where none waits."""
        return await self._carry_out(guard, members.decide_no_dmail)

    # What frees space, and what takes something out

    async def prune(self, selection: PruneRequest, guard: Mutation = NOBODY, *, dry_run: bool = False) -> Json:
        """Remove timelines for good. Raises as `pruning.decide_prune`; after a StorageFailureError some may be gone."""
        transactions = self.transactions
        decide = partial(
            pruning.decide_prune,
            selection=selection,
            fork_points=transactions.fork_points,
            quarantined=partial(quarantine_files, self.path),
        )
        if not dry_run:
            return await self._carry_out(guard, decide, looks=True)
        await self.at_turn(partial(self.expect_head, guard.expected_head))
        change = await asyncio.to_thread(decide, transactions.view)
        return {"head": self.head, **(change.result or {})}

    # What others have written

    async def catch_up(self) -> None:
        """Show a follower the owner's changes up to now."""
        await self.engine.catch_up()
        self.transactions.reread()

    async def reload(self) -> Recovery:
        """Take over what is on disk now, after a program that takes no lock has written; the head changes."""
        found = await self._taken_over()
        self.emit(Event("external", self.head, method=CONTEXT))
        return found

    async def _taken_over(self) -> Recovery:
        self.meta.refresh()
        found = await self.engine.reload()
        self.transactions.requests.forget()
        self.transactions.reread()
        event = recovered(self.engine)
        if event is not None:
            self.emit(event)
        return found

    async def repair(self, cause: Cause = NOBODY.cause) -> Json:
        """Write the log again without the lines that are not part of history; the damaged log is kept as a timeline.

        What is there now is taken for what was written: of a silently damaged record either the new text counts, if it
        is one, or nothing.
        """
        self.transactions.refuse_reader()
        await self._taken_over()
        return await self._carry_out(Mutation(cause=cause), rewrites.decide_repair, rewrites=True)

    async def made(self, request_ids: Sequence[str]) -> list[Effect]:
        """The changes that some requests have made already, oldest first, with what listeners were told of them."""
        return await self.at_turn(partial(self.transactions.requests.effects, request_ids))

    async def shut(self) -> None:
        """Finish what was accepted; what waits for an approval is cancelled first, and what comes now is refused."""
        self.transactions.closed = True
        await self.approval_requests.cancel_all()
        await self.transactions.shut()
        await self.companion.wait_for_background()

    async def aclose(self) -> None:
        """Undo one opening. The last one finishes what was accepted and lets go of the lock."""
        await self._release(self.transactions)
