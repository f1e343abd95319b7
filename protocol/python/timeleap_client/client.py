"""The asynchronous client, typed from the protocol's method table, and its sessions with the everyday verbs."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, TypeVar, Union, overload

from timeleap_client import _models as models
from timeleap_client._methods_async import AsyncMethods
from timeleap_client.approvals import ApprovalHandler, ApprovalHandling
from timeleap_client.connection import OnProgress, Params, given
from timeleap_client.errors import ClientClosedError
from timeleap_client.notifications import Notification, Subscription
from timeleap_client.raw import RawTimeleap

Message = str | Params
"""Text of the user, or a message as the log has it."""
Place: TypeAlias = Union[int, str, "models.shapes.Checkpoint"]
"""A checkpoint: its id, its uid or itself."""
FilesPlace: TypeAlias = Union[str, "models.shapes.Checkpoint"]
"""A state of the files: a snapshot's id, or a checkpoint that has one."""
Restore = Literal["conversation", "files", "both"]
OnConflict = Literal["refuse", "keep", "overwrite"]
M = TypeVar("M", bound="models.base.WireModel")
H = TypeVar("H", bound="models.shapes.Head")
R = TypeVar("R", bound="models.base.WireModel | models.base.WireRoot[Any]")


class AsyncTimeleap(RawTimeleap, AsyncMethods):
    """A client that starts its own server and keeps it running; see `RawTimeleap` for its arguments and its promises.

    Every method of the protocol is a method here (`session_open`, `context_revert_to` ...), typed from the method
    table; `session()` gives a session with the everyday verbs.

        async with AsyncTimeleap(home="store") as client, client.session("first") as session:
            await session.append("hello")
    """

    @overload
    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        result: None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Any: ...

    @overload
    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        result: type[R],
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> R: ...

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        result: type[R] | None = None,
        *,
        within: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> R | Any:
        """Send a request of any method and wait for its result.

        Args:
            method: Wire name, such as `context/revertTo`.
            params: In wire names.
            result: The model to put the result in; None leaves it as the JSON value it is.
            within: Seconds to wait since the last sign of work; None takes the client's `timeout`.
            on_progress: Told how far a long request is: the `value` of each `$/progress`.

        Raises:
            TimeleapRpcError, RequestTimeoutError, ConnectionLostError, ClientClosedError: As in `RawTimeleap.call`.
        """
        value = await super().call(method, params, within=within, on_progress=on_progress)
        return value if result is None else result.from_wire(value)

    def session(self, session_id: str | None = None, **params: Any) -> AsyncSession:
        """A session that is opened by `async with` (or `open`) and closed at its end.

        Args:
            session_id: Created if there is none of that id; generated if None.
            **params: Further params of `session/open`, in wire names.
        """
        identity = {} if session_id is None else {"sessionId": session_id}
        return AsyncSession(self, {**identity, **params})


class AsyncSession:
    """A session of a client; made by `AsyncTimeleap.session`, opened and closed by `async with`.

    Every verb that changes something takes the log as it is. To change only what you have seen, call
    `session.at(session.head)` and use its verbs: they fail with `contentModified` if somebody else was faster.
    """

    def __init__(self, client: AsyncTimeleap, opening: Params, expected_head: str | None = None) -> None:
        self._client = client
        self._opening = opening
        self._expected_head = expected_head
        self._state: models.shapes.SessionState | None = None
        self.head = ""
        """The head after our last change (others may have moved it since)."""

    # life

    async def open(self) -> Self:
        """Open it; see `session/open`."""
        self._state = await self._client.call("session/open", self._opening, models.shapes.SessionState)
        self.head = self._state.head
        return self

    async def close(self) -> None:
        """Close it. Idempotent."""
        if self._state is not None:
            session_id, self._state = self.id, None
            await self._client.call("session/close", {"sessionId": session_id})

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def id(self) -> str:
        """The session id."""
        return self.opened.session_id

    @property
    def opened(self) -> models.shapes.SessionState:
        """The state at the time it was opened."""
        if self._state is None:
            raise ClientClosedError("the session is not open: use `with` (`async with`), or call `open` first")
        return self._state

    def at(self, head: str) -> AsyncSession:
        """The same open session, whose changes only take effect while `head` is the present one."""
        pinned = AsyncSession(self._client, self._opening, head)
        pinned._state = self.opened
        pinned.head = head
        return pinned

    # the conversation

    async def append(self, *messages: Message, role: str = "user") -> models.context.AppendMessageResult:
        """Append messages as one step: all or none.

        Args:
            *messages: Messages; a string becomes one of `role`.
            role: For strings.
        """
        records = [_message(message, role) for message in messages]
        return await self._change("context/appendMessage", models.context.AppendMessageResult, messages=records)

    async def update_token_count(self, token_count: int) -> models.context.UpdateTokenCountResult:
        """Record the input tokens the model reported."""
        return await self._change(
            "context/updateTokenCount", models.context.UpdateTokenCountResult, tokenCount=token_count
        )

    async def set_system_prompt(self, text: str) -> str:
        """Set the system prompt; returns the new head."""
        return (await self._change("context/setSystemPrompt", models.session.HeadResult, systemPrompt=text)).head

    async def history(self, *, timeline_id: str | None = None, page: int = 1000) -> list[Params]:
        """All messages, oldest first, in memory. For long sessions iterate `messages` instead."""
        return [entry.message async for entry in self.messages(timeline_id=timeline_id, page=page)]

    async def messages(
        self, *, timeline_id: str | None = None, page: int = 1000
    ) -> AsyncIterator[models.shapes.HistoryMessage]:
        """The messages with their indexes, oldest first, fetched by pages of `page`."""
        async for result in self._pages(
            "context/getHistory", models.context.GetHistoryResult, timelineId=timeline_id, limit=page
        ):
            for message in result.messages:
                yield message

    async def state(self) -> models.shapes.SessionState:
        """Everything about the session but its messages."""
        return await self._client.call("session/getState", {"sessionId": self.id}, models.shapes.SessionState)

    # time travel

    async def checkpoint(
        self, label: str | None = None, *, add_user_message: bool | None = None, files: bool | None = None
    ) -> models.shapes.Checkpoint:
        """Write a checkpoint; `files` says whether the files are saved with it, which the session's settings say else."""
        result = await self._change(
            "context/checkpoint",
            models.context.CheckpointResult,
            label=label,
            addUserMessage=add_user_message,
            files=files,
        )
        return result.checkpoint

    async def checkpoints(self, *, timeline_id: str | None = None) -> list[models.shapes.Checkpoint]:
        """All checkpoints, oldest first."""
        pages = self._pages(
            "context/listCheckpoints", models.context.ListCheckpointsResult, timelineId=timeline_id, order="asc"
        )
        return [checkpoint async for page in pages for checkpoint in page.checkpoints]

    async def timelines(self) -> list[models.shapes.Timeline]:
        """All timelines, newest first."""
        pages = self._pages("context/listTimelines", models.context.ListTimelinesResult)
        return [timeline async for page in pages for timeline in page.timelines]

    async def revert_to(
        self,
        checkpoint: Place,
        *,
        restore: Restore | None = None,
        on_conflict: OnConflict | None = None,
        dry_run: bool | None = None,
    ) -> models.context.RewriteResult:
        """Remove a checkpoint and all after it; what goes becomes a timeline.

        Args:
            checkpoint: Where to.
            restore: Whether the conversation (the default), the files of its folder, or both go back.
            on_conflict: What to do where a file was changed by somebody else since; `refuse` is the default.
            dry_run: Say what would happen, and change nothing.
        """
        return await self._rewrite("context/revertTo", restore, on_conflict, **_place(checkpoint), dryRun=dry_run)

    async def restore(
        self,
        timeline_id: str,
        *,
        restore: Restore | None = None,
        on_conflict: OnConflict | None = None,
        dry_run: bool | None = None,
    ) -> models.context.RewriteResult:
        """Make a timeline the live log again; the present log becomes a timeline. Files as in `revert_to`."""
        place = {"timelineId": timeline_id}
        return await self._rewrite("context/restoreTimeline", restore, on_conflict, **place, dryRun=dry_run)

    async def revert_to_message(
        self, index: int, *, heal: bool | None = None, dry_run: bool | None = None
    ) -> models.context.RewriteResult:
        """Remove the message `index` and all after it; what goes becomes a timeline."""
        return await self._rewrite("context/revertTo", None, None, messageIndex=index, heal=heal, dryRun=dry_run)

    async def undo(
        self,
        steps: int = 1,
        *,
        restore: Restore | None = None,
        on_conflict: OnConflict | None = None,
        dry_run: bool | None = None,
    ) -> models.context.UndoResult:
        """Undo the last revert, clear, compaction, restore or D-Mail; or the last `steps` of them, as one step.

        Files as in `revert_to`.

        Raises:
            NothingToUndoError: There are fewer.
        """
        return await self._step("context/undo", steps, restore, on_conflict, dry_run)

    async def redo(
        self,
        steps: int = 1,
        *,
        restore: Restore | None = None,
        on_conflict: OnConflict | None = None,
        dry_run: bool | None = None,
    ) -> models.context.UndoResult:
        """Do again what was undone last, as long as nothing else has changed the log since.

        Raises:
            NothingToUndoError: There are fewer steps.
        """
        return await self._step("context/redo", steps, restore, on_conflict, dry_run)

    async def clear(
        self, *, keep_system_prompt: bool | None = None, dry_run: bool | None = None
    ) -> models.context.RewriteResult:
        """Empty the log; what was in it becomes a timeline."""
        return await self._change(
            "context/clear", models.context.RewriteResult, keepSystemPrompt=keep_system_prompt, dryRun=dry_run
        )

    async def compact(
        self,
        *,
        max_preserved_messages: int | None = None,
        custom_instruction: str | None = None,
        summarizer: str | None = None,
        summary: str | None = None,
        dry_run: bool | None = None,
    ) -> models.compaction.CompactResult:
        """Put a summary in the place of the older messages; the log before it becomes a timeline."""
        return await self._change(
            "context/compact",
            models.compaction.CompactResult,
            maxPreservedMessages=max_preserved_messages,
            customInstruction=custom_instruction,
            summarizer=summarizer,
            summary=summary,
            dryRun=dry_run,
        )

    async def send_dmail(self, checkpoint: Place, message: str, *, to: str | None = None) -> models.shapes.PendingDMail:
        """Leave a note to the self of a checkpoint, of this session or of the one with the id `to`."""
        place = _place(checkpoint)
        result = await self._change(
            "context/sendDMail", models.context.SendDMailResult, **place, message=message, toSessionId=to
        )
        assert result.pending_dmail is not None
        return result.pending_dmail

    async def send_note(self, to: str, message: str) -> models.context.DMailArrival:
        """Leave a note at the end of another session, for it to read next."""
        result = await self._change(
            "context/sendDMail", models.context.SendDMailResult, message=message, toSessionId=to
        )
        assert result.to is not None
        return result.to

    async def deliver_dmail(
        self, *, heal: bool | None = None, dry_run: bool | None = None
    ) -> models.context.DeliverDMailResult:
        """Revert to the checkpoint of the pending D-Mail and put the note there, as one step."""
        return await self._change("context/deliverDMail", models.context.DeliverDMailResult, heal=heal, dryRun=dry_run)

    async def cancel_dmail(self) -> str:
        """Drop the pending D-Mail; returns the head."""
        return (await self._change("context/cancelDMail", models.session.HeadResult)).head

    async def fork(
        self, checkpoint: Place | None = None, *, session_id: str | None = None, title: str | None = None
    ) -> AsyncSession:
        """Copy the history, whole or up to and including a checkpoint, into a new session, which comes open."""
        place = {} if checkpoint is None else _place(checkpoint)
        params = given({"sessionId": self.id, **place, "newSessionId": session_id, "title": title})
        state = await self._client.call("session/fork", params, models.shapes.SessionState)
        forked = AsyncSession(self._client, {"sessionId": state.session_id})
        forked._state = state
        forked.head = state.head
        return forked

    # files

    async def snapshot_files(self, label: str | None = None) -> models.files.FilesSnapshotResult:
        """Save the files as they are now, without a checkpoint."""
        return await self._change("files/snapshot", models.files.FilesSnapshotResult, label=label)

    async def file_snapshots(self) -> list[models.files.FilesSnapshot]:
        """All snapshots of the files, newest first."""
        pages = self._pages("files/list", models.files.FilesListResult)
        return [snapshot async for page in pages for snapshot in page.snapshots]

    async def diff_files(
        self, before: FilesPlace, after: FilesPlace | None = None, *, path: str | None = None
    ) -> list[models.files.FileChange]:
        """How the files differ between two states; None is what is on the disk now.

        Args:
            before: A snapshot's id, or a checkpoint that has one.
            after: The same.
            path: Only this file, or what is below this folder.
        """
        sides = {"from": _files_point(before), "to": _files_point(after)}
        pages = self._pages("files/diff", models.files.FilesDiffResult, **sides, path=path)
        return [change async for page in pages for change in page.changes]

    async def read_file(self, snapshot: str, path: str) -> bytes:
        """A file as a snapshot has it; of a link where it points to."""
        content = b""
        while True:
            place = {"snapshot": snapshot, "path": path, "offset": len(content)}
            part = await self._ask("files/read", models.files.FilesReadResult, **place)
            content += base64.b64decode(part.content)
            if len(content) >= part.bytes or not part.content:
                return content

    async def restore_files(
        self,
        to: FilesPlace,
        paths: Sequence[str] | None = None,
        *,
        on_conflict: OnConflict | None = None,
        dry_run: bool | None = None,
    ) -> models.files.FilesRestoreResult:
        """Put files back as a snapshot has them; the conversation stays. What was there is the snapshot `files.before`.

        Args:
            to: A snapshot's id, or a checkpoint that has one.
            paths: Only these; a folder means all below it. None: everything.
            on_conflict: As in `revert_to`.
            dry_run: Say what would happen, and change nothing.
        """
        wanted = {"to": _files_point(to), "paths": paths, "onConflict": on_conflict}
        return await self._change("files/restore", models.files.FilesRestoreResult, **wanted, dryRun=dry_run)

    # approvals, sub-agents, names

    async def set_yolo(self, yolo: bool) -> models.shapes.Approval:
        """Switch the approval of everything on or off."""
        return (await self._change("session/setYolo", models.session.ApprovalResult, yolo=yolo)).approval

    async def set_auto_approve(self, action: str, enabled: bool) -> models.shapes.Approval:
        """Switch the approval of one action on or off."""
        result = await self._change(
            "session/setAutoApprove", models.session.ApprovalResult, action=action, enabled=enabled
        )
        return result.approval

    async def is_approved(self, action: str) -> bool:
        """Whether an action may run without asking the user."""
        return (await self._ask("session/isApproved", models.session.IsApprovedResult, action=action)).approved

    async def set_afk(self, afk: bool) -> models.shapes.Approval:
        """Say that nobody is there to approve anything, or that somebody is: what needs a person is then rejected at once."""
        return (await self._change("session/setAfk", models.session.ApprovalResult, afk=afk)).approval

    async def request_approval(
        self,
        action: str,
        *,
        description: str | None = None,
        detail: Params | None = None,
        tool_call_id: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        request_id: str | None = None,
    ) -> models.approval.ApprovalDecision:
        """Ask for an approval and wait until a window of the session decides; `reject` is a result like any other.

        Args:
            action: What kind of thing is to be done; automatic approvals go by it.
            description: What exactly, for a person.
            detail: The same for a window that can show more, up to 64 KiB as JSON.
            tool_call_id: The tool call that waits for it.
            timeout: Seconds to wait; 600 unless given.
            request_id: Asking again under it joins the request that waits, or gets its decision.

        Raises:
            TimeleapRpcError: `approvalTimeout`: nobody decided in time; `overloaded`: too much waits already.
        """
        return await self._ask(
            "approval/request",
            models.approval.ApprovalDecision,
            action=action,
            description=description,
            detail=detail,
            toolCallId=tool_call_id,
            timeout=timeout,
            requestId=request_id,
        )

    async def approvals(self) -> list[models.approval.ApprovalRequest]:
        """The requests for approvals that wait for a decision, oldest first."""
        return (await self._ask("approval/list", models.approval.ApprovalListResult)).approvals

    async def respond_approval(
        self, approval_id: str, decision: models.approval.Decision, reason: str | None = None
    ) -> None:
        """Decide a request for an approval.

        Raises:
            TimeleapRpcError: `approvalNotPending`: it was decided, taken back, or never asked for.
        """
        params = {"approvalId": approval_id, "decision": decision, "reason": reason}
        await self._ask("approval/respond", models.session.EmptyResult, **params)

    def on_approval(self, handler: ApprovalHandler) -> Callable[[], None]:
        """Have `handler` decide requests for approvals, those that wait already included; returns what stops it.

        Args:
            handler: A function or a coroutine function: from a request to a decision (`approve`, `approveForSession`,
                `reject`), to a decision and a reason, or to None, which leaves it to other windows.
        """
        return ApprovalHandling(handler, self.on, self.approvals, self.respond_approval).stop

    async def put_subagent(self, name: str, system_prompt: str) -> list[models.shapes.Subagent]:
        """Define or replace a sub-agent; returns all of them."""
        result = await self._change(
            "session/putSubagent", models.session.SubagentsResult, name=name, systemPrompt=system_prompt
        )
        return result.dynamic_subagents

    async def remove_subagent(self, name: str) -> list[models.shapes.Subagent]:
        """Remove a sub-agent; returns those that are left."""
        return (
            await self._change("session/removeSubagent", models.session.SubagentsResult, name=name)
        ).dynamic_subagents

    async def set_title(self, title: str) -> str:
        """Name the session; returns the head."""
        return (await self._change("session/setTitle", models.session.HeadResult, title=title)).head

    async def set_workspace(self, workspace: str | None) -> str:
        """Say which folder (URI) the session is about, or None for none; returns the head."""
        params = given({"sessionId": self.id, "expectedHead": self._expected_head}) | {"workspace": workspace}
        return self._noted(await self._client.call("session/setWorkspace", params, models.session.HeadResult)).head

    async def archive(self) -> str:
        """Leave it out of lists; returns the head."""
        return (await self._change("session/archive", models.session.HeadResult)).head

    async def unarchive(self) -> str:
        """Put it back into lists; returns the head."""
        return (await self._change("session/unarchive", models.session.HeadResult)).head

    async def reload(self) -> models.shapes.SessionState:
        """Take over what is on disk after `externallyModified`."""
        state = await self._ask("session/reload", models.shapes.SessionState)
        self.head = state.head
        return state

    # listening

    def notifications(self, *methods: str) -> Subscription:
        """An asynchronous iterator over the notifications about this session from now on."""
        return self._client.notifications(*methods, session_id=self.id)

    def on(self, callback: Callable[[Notification], object], *methods: str) -> Callable[[], None]:
        """Call `callback` with each notification about this session; returns what stops it."""
        return self._client.on(callback, *methods, session_id=self.id)

    # requests

    async def _ask(self, method: str, result_type: type[M], **params: Any) -> M:
        return await self._client.call(method, given({"sessionId": self.id, **params}), result_type)

    async def _change(self, method: str, result_type: type[H], **params: Any) -> H:
        return self._noted(await self._ask(method, result_type, **params, expectedHead=self._expected_head))

    def _noted(self, result: H) -> H:
        self.head = result.head
        if self._expected_head is not None:
            self._expected_head = result.head
        return result

    async def _rewrite(
        self, method: str, restore: Restore | None, on_conflict: OnConflict | None, **params: Any
    ) -> models.context.RewriteResult:
        files = {"restore": restore, "onConflict": on_conflict}
        return await self._change(method, models.context.RewriteResult, **params, **files)

    async def _step(
        self, method: str, steps: int, restore: Restore | None, on_conflict: OnConflict | None, dry_run: bool | None
    ) -> models.context.UndoResult:
        wanted = {"steps": steps, "restore": restore, "onConflict": on_conflict, "dryRun": dry_run}
        return await self._change(method, models.context.UndoResult, **wanted)

    async def _pages(self, method: str, result_type: type[M], **params: Any) -> AsyncIterator[M]:
        """All pages of a list."""
        cursor: str | None = None
        while True:
            page = await self._ask(method, result_type, **params, cursor=cursor)
            yield page
            cursor = getattr(page, "next_cursor", None)
            if cursor is None:
                return


def _message(message: Message, role: str) -> Params:
    return {"role": role, "content": message} if isinstance(message, str) else message


def _place(checkpoint: Place) -> Params:
    if isinstance(checkpoint, int):
        return {"checkpointId": checkpoint}
    return {"checkpointUid": checkpoint if isinstance(checkpoint, str) else checkpoint.uid}


def _files_point(place: FilesPlace | None) -> Params:
    if place is None:
        return {}
    return {"snapshot": place} if isinstance(place, str) else {"checkpointUid": place.uid}
