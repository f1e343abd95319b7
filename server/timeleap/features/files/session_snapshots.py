"""A session's files as it asks for them: snapshots at checkpoints, ends of turns, on request; going back alone.

The snapshot of a checkpoint is taken at the turn of its append, before its record is written, which names it. Where
none can be taken the checkpoint is written all the same, and says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from timeleap.call import NO_CONTROL, WorkControl, to_its_end
from timeleap.errors import CancelledError, TimeleapError
from timeleap.features.files.kept_form import FOLLOWED, MARK, MEMBER, TreeSettings, settings_of, snapshot_of
from timeleap.features.files.restore_step import FilesStep, target_of
from timeleap.features.files.tree_port import TreeOf, TreeSnapshot, TreeTarget, WorkingTree
from timeleap.json_value import Json
from timeleap.sessions import past
from timeleap.sessions.companion import Companion, RestoreCancelledError, RewriteScope, not_kept, problem_of
from timeleap.sessions.kernel.members import decide_members
from timeleap.sessions.kernel.rewrites import result_of_companion
from timeleap.sessions.shapes import Cause, Event, Mutation, set_members
from timeleap.storage.durable import failpoint
from timeleap.storage.log_values import NewRecord, RecordKind
from timeleap.storage.record import with_member

if TYPE_CHECKING:
    from timeleap.sessions.kernel.change import Change, Decide
    from timeleap.sessions.request_table import Transaction
    from timeleap.sessions.shapes import Checkpoint
    from timeleap.sessions.transaction import SessionTransactions
    from timeleap.storage.log_values import LogState

_logger = logging.getLogger(__name__)

NOTHING: Final[Json] = {"snapshots": 0, "bytes": 0}
TAKEN: Final = "files/didSnapshot"
TURN_NOT_KEPT: Final = "filesNotKept"
"""The kind of the warning that the end of a turn has no snapshot."""


class FileSnapshots(Companion):
    """The snapshots of one session's files.

    Args:
        tree_of: Finds the files.
        session: The session that they belong to.
    """

    def __init__(self, tree_of: TreeOf, session: SessionTransactions) -> None:
        super().__init__(session)
        self.session = session
        self.tree_of = tree_of
        self._state = NOTHING
        self._shrinking: asyncio.Task[None] | None = None

    @property
    def settings(self) -> TreeSettings:
        """The settings, as kept; those of a session without any where none were."""
        return settings_of(self.session.meta) or TreeSettings()

    def content(self) -> WorkingTree | None:
        return self.tree_of(self.session.path, self.session.meta)

    # What the session's state says of them

    def wire(self) -> Json:
        settings, workspace = self.settings, self.session.meta.workspace
        roots = settings.roots or ((workspace,) if workspace is not None else ())
        return {MEMBER: {**settings.member(), "roots": list(roots), **self._state}}

    async def look(self) -> Json:
        tree = self.content()
        self._state = NOTHING
        if tree is not None:
            try:
                self._state = await asyncio.to_thread(tree.state)
            except (TimeleapError, OSError) as error:
                self._state = {**NOTHING, "problem": problem_of(error)}
        return self.wire()

    async def keep(self, changes: Mapping[str, Any] | None) -> None:
        if changes is not None and self.session.access == "owner":
            after = self.settings.with_changes(changes)
            if after != settings_of(self.session.meta):
                member = after.member()
                await self.session.carry_out(Mutation(), partial(decide_members, meta={MEMBER: member}, result={}))

    # With what is appended

    def for_checkpoint(self, wanted: bool | None, cause: Cause, control: WorkControl) -> FilesOfChange | None:
        taken = self.settings.mode != "off" if wanted is None else wanted
        return FilesOfChange(self, RewriteScope(control=control), cause) if taken else None

    def for_messages(self, messages: Iterable[Mapping[str, Any]], cause: Cause) -> FilesOfChange | None:
        marked = self.session.state.facts.auto_checkpoint != "off" or any("checkpoint" in item for item in messages)
        return self.for_checkpoint(None, cause, NO_CONTROL) if marked else None

    async def appended(self, messages: Iterable[Mapping[str, Any]], cause: Cause) -> None:
        """Take a snapshot where a turn has ended."""
        ends = any(message.get("role") == "assistant" and not message.get("tool_calls") for message in messages)
        if ends and self.settings.mode == "turn":
            await self._turn_ended(cause)

    async def checkpoint_files(self, checkpoint_uid: str, cause: Cause, control: WorkControl) -> Json:
        """`CheckpointFiles` of the contract: a snapshot that is taken now, or why there is none.

        Raises:
            CancelledError: Nobody wants it any more.
        """
        try:
            made = await self._taken(cause, control, checkpoint_uid=checkpoint_uid)
        except Exception as error:
            if control.cancelled():
                raise CancelledError("the checkpoint was cancelled while its snapshot was taken") from error
            return {"error": problem_of(error)}
        return {"snapshot": made.snapshot, "changed": made.changed, "skipped": made.skipped_count, "ms": made.ms}

    def for_rewrite(self, scope: RewriteScope, cause: Cause) -> FilesOfChange:
        return FilesOfChange(self, scope, cause)

    async def _turn_ended(self, cause: Cause) -> None:
        """Take the snapshot of the end of a turn; one that fails is a warning."""

        async def on_turn(_: LogState) -> None:
            await self._taken(cause, NO_CONTROL)

        try:
            await self.session.engine.run(on_turn)
        except Exception as error:
            self.session.warn(
                TURN_NOT_KEPT, f"the files were not kept at the end of the turn: {problem_of(error)['message']}"
            )

    # On request

    async def take(self, label: str | None, guard: Mutation, control: WorkControl) -> Json:
        """Take a snapshot at the request's turn.

        Raises:
            FilesUnavailableError: The session keeps no files, or they cannot be kept.
            TimeleapError: As `WorkingTree.snapshot`.
        """

        async def work(transaction: Transaction) -> None:
            transaction.admit(self.session.head)
            tree = self._tree()
            transaction.begin()
            made = await asyncio.to_thread(tree.snapshot, control, label=label)
            event = taken(made, self.session.head, guard.cause)
            lines = transaction.record({"head": event.head, **made.result()}, [event])
            if lines:
                await asyncio.to_thread(self.session.state.note, {}, lines)
            self._shrink_soon()

        return await self.session.at_its_turn(guard, work)

    async def restore_alone(self, guard: Mutation, decide: Decide, scope: RewriteScope) -> Json:
        session = self.session

        async def plan() -> tuple[FilesStep, Json]:
            rewrite = decide(session.view).rewrite
            assert rewrite is not None
            step = self.step(scope)
            step.aim(target_of(rewrite))
            return step, result_of_companion(rewrite, session.head, session.shapes.summary(session.summary()))

        return await self._carried_out(guard, plan)

    async def restore(
        self, guard: Mutation, target: Callable[[], TreeTarget], request: RewriteScope, *, dry_run: bool = False
    ) -> Json:
        """Put files back as a snapshot has them; `target` finds it at the request's turn, and may block. The log stays.
        Also where the session is only read here: then the request is known as long as this process lives.

        Raises:
            FilesUnavailableError: The session keeps no files.
            HeadConflictError: The head is not the expected one.
            TimeleapError: As `target`, and as `WorkingTree.begin_restore`.
        """
        session = self.session
        self._tree()

        def step() -> FilesStep:
            step = self.step(request)
            step.aim(target())
            return step

        if dry_run:
            await session.at_turn(lambda: session.expect_head(guard.expected_head))
            foretold = await asyncio.to_thread(lambda: step().foretell())
            return {"head": session.head, **foretold}

        async def plan() -> tuple[FilesStep, Json]:
            return await asyncio.to_thread(step), {"head": session.head}

        return await self._carried_out(guard, plan)

    async def _carried_out(self, guard: Mutation, plan: Callable[[], Awaitable[tuple[FilesStep, Json]]]) -> Json:
        """Put files back at the request's turn, as it plans, and note the request with it; `plan` gives the result's
        other members, too."""
        session = self.session
        reads = session.access == "readOnly"  # the owner's notes are not ours to write

        async def work(transaction: Transaction) -> None:
            transaction.admit(session.head)
            step, result = await plan()
            transaction.begin()

            def restore() -> None:
                try:
                    step.prepare()
                    lines = transaction.record({**result, **step.result()}, step.events(session.head))
                    if not reads:
                        session.state.note({FOLLOWED: {"token": step.token}}, lines)
                    failpoint("files.noted")
                    step.done = reads
                finally:
                    step.settle()

            await to_its_end(asyncio.to_thread(restore))

        try:
            return await session.at_its_turn(guard, work, by_reader=reads)
        except RestoreCancelledError:
            raise asyncio.CancelledError from None

    async def recover(self) -> None:
        session, tree = self.session, self.content()
        if tree is None:
            return
        try:
            session.notices += await asyncio.to_thread(tree.recover, partial(session.state.followed, FOLLOWED))
        except (TimeleapError, OSError) as error:
            message = f"the files could not be looked at: {error}"
            session.notices.append({"kind": "filesNotRecovered", "message": message})

    async def _taken(self, cause: Cause, control: WorkControl, *, checkpoint_uid: str | None = None) -> TreeSnapshot:
        """A snapshot that is taken now; listeners are told."""
        made = await asyncio.to_thread(self._tree().snapshot, control, checkpoint_uid=checkpoint_uid)
        self.session.emit(taken(made, self.session.head, cause))
        self._shrink_soon()
        return made

    # What is too much

    def _shrink_soon(self) -> None:
        if self._shrinking is None or self._shrinking.done():
            self._shrinking = asyncio.get_running_loop().create_task(self._shrink())

    async def _shrink(self) -> None:
        """Remove the oldest snapshots if there are too many; it is looked at again after the next one."""
        try:
            if (excess := await asyncio.to_thread(self._tree().over_budget)) is None:
                return

            async def on_turn(_: LogState) -> None:
                # At the session's turn: no snapshot is under way whose checkpoint is not written yet.
                await asyncio.to_thread(excess.shrink, await self._live())

            await self.session.engine.run(on_turn)
            await asyncio.to_thread(excess.sweep)
        except (TimeleapError, OSError) as error:
            _logger.info("the snapshots that are too much are still there: %s", error)

    async def _live(self) -> set[int]:
        """The numbers of the snapshots that checkpoints of the log refer to."""
        engine, found = self.session.engine, set[int]()
        for ordinal in range(engine.state.checkpoints):
            checkpoint = past.read_checkpoint(engine, engine.line_of_checkpoint(ordinal))
            snapshot = snapshot_of(checkpoint.kept.get(MEMBER))
            if snapshot is not None:
                found.add(int(snapshot[1:].partition("-")[0]))
            if ordinal % 100 == 99:
                await asyncio.sleep(0)
        return found

    async def wait_for_background(self) -> None:
        if self._shrinking is not None:
            await asyncio.wait([self._shrinking])

    def step(self, request: RewriteScope) -> FilesStep:
        """The files' half of a request that has yet to be aimed."""
        return FilesStep(self.session, self.tree_of, request)

    def _tree(self) -> WorkingTree:
        tree = self.content()
        if tree is None:
            raise not_kept()
        return tree


class FilesOfChange(FilesStep):
    """The files' half of a change: its checkpoints get a snapshot, and where that is asked for the files go back too."""

    def __init__(self, snapshots: FileSnapshots, request: RewriteScope, cause: Cause) -> None:
        super().__init__(snapshots.session, snapshots.tree_of, request)
        self._snapshots, self._cause = snapshots, cause

    def intend(self, change: Change) -> None:
        """Let the files go back with the log, if that is asked for."""
        if change.rewrite is not None and self._request.restore != "conversation":
            self.aim(target_of(change.rewrite))

    async def join(self, change: Change) -> Change:
        """The change, its checkpoints with a snapshot: of what is there now, or the one that is gone back to."""
        if change.made:  # all of one append share one
            taken = await self._snapshots.checkpoint_files(change.made[0].uid, self._cause, self._request.control)
            return _with_files(change, taken)
        rewrite, request, snapshots = change.rewrite, self._request, self._snapshots
        if rewrite is not None and rewrite.made is not None and snapshots.settings.mode != "off":
            there = snapshot_of(rewrite.kept_there.get(MEMBER))
            if request.restore == "both" and there is not None:
                files: Json = {"snapshot": there, "changed": 0, "skipped": 0, "ms": 0}
            else:
                files = await snapshots.checkpoint_files(rewrite.made.uid, self._cause, request.control)
            change = _with_files_of_rewrite(change, files)
        self.intend(change)
        return change


def taken(made: TreeSnapshot, head: str, cause: Cause) -> Event:
    """Event about a snapshot, for listeners."""
    members = {
        "snapshot": made.snapshot,
        "createdAt": made.created_at,
        **set_members(checkpointUid=made.checkpoint_uid, label=made.label),
        "changed": made.changed,
        "skipped": made.skipped_count,
    }
    return Event("filesTaken", head, members, TAKEN, cause)


def _with_files(change: Change, files: Json) -> Change:
    """The change, its checkpoints with what they say of the files at them."""
    made = [_marked(checkpoint, files) for checkpoint in change.made]
    result = change.result
    if result is not None and "checkpoint" in result:
        result = {**result, "checkpoint": made[0].wire()}
    return replace(change, records=_marked_records(change.records, files), made=made, result=result)


def _with_files_of_rewrite(change: Change, files: Json) -> Change:
    """The change, the checkpoint that its new log gets with what it says of the files at it."""
    rewrite = change.rewrite
    assert rewrite is not None
    assert rewrite.made is not None
    replacement = replace(rewrite.replacement, records=_marked_records(rewrite.replacement.records, files))
    return replace(change, rewrite=replace(rewrite, replacement=replacement, made=_marked(rewrite.made, files)))


def _marked(checkpoint: Checkpoint, files: Json) -> Checkpoint:
    return replace(checkpoint, kept={**checkpoint.kept, MEMBER: files})


def _marked_records(records: Sequence[NewRecord], files: Json) -> list[NewRecord]:
    return [with_member(record, MARK, files) if record.kind is RecordKind.CHECKPOINT else record for record in records]
