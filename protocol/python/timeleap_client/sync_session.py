"""One session with its everyday verbs, for callers that block; each verb is that of `AsyncSession`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Self

from timeleap_client.approvals import Verdict
from timeleap_client.loop import LoopThread
from timeleap_client.notifications import Notification
from timeleap_client.session import AsyncSession, Message, Params, Place
from timeleap_protocol.approval import ApprovalDecision, ApprovalRequest, Decision
from timeleap_protocol.compaction import CompactResult
from timeleap_protocol.context import (
    AppendMessageResult,
    DeliverDMailResult,
    DMailArrival,
    RewriteResult,
    UndoResult,
    UpdateTokenCountResult,
)
from timeleap_protocol.shapes import (
    Approval,
    Checkpoint,
    HistoryMessage,
    PendingDMail,
    SessionState,
    Subagent,
    Timeline,
)

if TYPE_CHECKING:
    from timeleap_client.sync import SyncNotifications, SyncTimeleap


class SyncSession:
    """A session of a blocking client; made by `SyncTimeleap.session`, opened and closed by `with`."""

    def __init__(self, client: SyncTimeleap, session: AsyncSession, loop: LoopThread) -> None:
        self._client = client
        self._session = session
        self._loop = loop

    def open(self) -> Self:
        """Open it; see `session/open`."""
        self._loop.run(self._session.open())
        return self

    def close(self) -> None:
        """Close it. Idempotent."""
        self._loop.run(self._session.close())

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def id(self) -> str:
        """The session id."""
        return self._session.id

    @property
    def head(self) -> str:
        """The head after our last change (others may have moved it since)."""
        return self._session.head

    @property
    def opened(self) -> SessionState:
        """The state at the time it was opened."""
        return self._session.opened

    def at(self, head: str) -> SyncSession:
        """The same open session, whose changes only take effect while `head` is the present one."""
        return SyncSession(self._client, self._session.at(head), self._loop)

    def append(self, *messages: Message, role: str = "user") -> AppendMessageResult:
        """Append messages as one step: all or none."""
        return self._loop.run(self._session.append(*messages, role=role))

    def update_token_count(self, token_count: int) -> UpdateTokenCountResult:
        """Record the input tokens the model reported."""
        return self._loop.run(self._session.update_token_count(token_count))

    def set_system_prompt(self, text: str) -> str:
        """Set the system prompt; returns the new head."""
        return self._loop.run(self._session.set_system_prompt(text))

    def history(self, *, timeline_id: str | None = None, page: int = 1000) -> list[Params]:
        """All messages, oldest first, in memory. For long sessions iterate `messages` instead."""
        return self._loop.run(self._session.history(timeline_id=timeline_id, page=page))

    def state(self) -> SessionState:
        """Everything about the session but its messages."""
        return self._loop.run(self._session.state())

    def checkpoint(self, label: str | None = None, *, add_user_message: bool | None = None) -> Checkpoint:
        """Write a checkpoint."""
        return self._loop.run(self._session.checkpoint(label, add_user_message=add_user_message))

    def checkpoints(self, *, timeline_id: str | None = None) -> list[Checkpoint]:
        """All checkpoints, oldest first."""
        return self._loop.run(self._session.checkpoints(timeline_id=timeline_id))

    def timelines(self) -> list[Timeline]:
        """All timelines, newest first."""
        return self._loop.run(self._session.timelines())

    def revert_to(self, checkpoint: Place, *, dry_run: bool | None = None) -> RewriteResult:
        """Remove a checkpoint and all after it; what goes becomes a timeline."""
        return self._loop.run(self._session.revert_to(checkpoint, dry_run=dry_run))

    def restore(self, timeline_id: str, *, dry_run: bool | None = None) -> RewriteResult:
        """Make a timeline the live log again; the present log becomes a timeline."""
        return self._loop.run(self._session.restore(timeline_id, dry_run=dry_run))

    def revert_to_message(self, index: int, *, heal: bool | None = None, dry_run: bool | None = None) -> RewriteResult:
        """Remove the message `index` and all after it; what goes becomes a timeline."""
        return self._loop.run(self._session.revert_to_message(index, heal=heal, dry_run=dry_run))

    def undo(self, steps: int = 1, *, dry_run: bool | None = None) -> UndoResult:
        """Undo the last revert, clear, compaction, restore or D-Mail; or the last `steps` of them, as one step."""
        return self._loop.run(self._session.undo(steps, dry_run=dry_run))

    def redo(self, steps: int = 1, *, dry_run: bool | None = None) -> UndoResult:
        """Do again what was undone last, as long as nothing else has changed the log since."""
        return self._loop.run(self._session.redo(steps, dry_run=dry_run))

    def clear(self, *, keep_system_prompt: bool | None = None, dry_run: bool | None = None) -> RewriteResult:
        """Empty the log; what was in it becomes a timeline."""
        return self._loop.run(self._session.clear(keep_system_prompt=keep_system_prompt, dry_run=dry_run))

    def compact(
        self,
        *,
        max_preserved_messages: int | None = None,
        custom_instruction: str | None = None,
        summarizer: str | None = None,
        summary: str | None = None,
        dry_run: bool | None = None,
    ) -> CompactResult:
        """Put a summary in the place of the older messages; the log before it becomes a timeline."""
        return self._loop.run(
            self._session.compact(
                max_preserved_messages=max_preserved_messages,
                custom_instruction=custom_instruction,
                summarizer=summarizer,
                summary=summary,
                dry_run=dry_run,
            )
        )

    def send_dmail(self, checkpoint: Place, message: str, *, to: str | None = None) -> PendingDMail:
        """Leave a note to the self of a checkpoint, of this session or of the one with the id `to`."""
        return self._loop.run(self._session.send_dmail(checkpoint, message, to=to))

    def send_note(self, to: str, message: str) -> DMailArrival:
        """Leave a note at the end of another session, for it to read next."""
        return self._loop.run(self._session.send_note(to, message))

    def deliver_dmail(self, *, heal: bool | None = None, dry_run: bool | None = None) -> DeliverDMailResult:
        """Revert to the checkpoint of the pending D-Mail and put the note there, as one step."""
        return self._loop.run(self._session.deliver_dmail(heal=heal, dry_run=dry_run))

    def cancel_dmail(self) -> str:
        """Drop the pending D-Mail; returns the head."""
        return self._loop.run(self._session.cancel_dmail())

    def set_yolo(self, yolo: bool) -> Approval:
        """Switch the approval of everything on or off."""
        return self._loop.run(self._session.set_yolo(yolo))

    def set_auto_approve(self, action: str, enabled: bool) -> Approval:
        """Switch the approval of one action on or off."""
        return self._loop.run(self._session.set_auto_approve(action, enabled))

    def is_approved(self, action: str) -> bool:
        """Whether an action may run without asking the user."""
        return self._loop.run(self._session.is_approved(action))

    def set_afk(self, afk: bool) -> Approval:
        """Say that nobody is there to approve anything, or that somebody is: what needs a person is then rejected at once."""
        return self._loop.run(self._session.set_afk(afk))

    def request_approval(
        self,
        action: str,
        *,
        description: str | None = None,
        detail: Params | None = None,
        tool_call_id: str | None = None,
        timeout: float | None = None,
        request_id: str | None = None,
    ) -> ApprovalDecision:
        """Ask for an approval and wait until a window of the session decides; `reject` is a result like any other."""
        return self._loop.run(
            self._session.request_approval(
                action,
                description=description,
                detail=detail,
                tool_call_id=tool_call_id,
                timeout=timeout,
                request_id=request_id,
            )
        )

    def approvals(self) -> list[ApprovalRequest]:
        """The requests for approvals that wait for a decision, oldest first."""
        return self._loop.run(self._session.approvals())

    def respond_approval(self, approval_id: str, decision: Decision, reason: str | None = None) -> None:
        """Decide a request for an approval."""
        self._loop.run(self._session.respond_approval(approval_id, decision, reason))

    def on_approval(self, handler: Callable[[ApprovalRequest], Verdict]) -> Callable[[], None]:
        """Have `handler`, called in a thread of its own, decide requests for approvals; returns what stops it."""

        async def threaded(approval: ApprovalRequest) -> Verdict:
            return await asyncio.to_thread(handler, approval)

        async def begin() -> Callable[[], None]:
            return self._session.on_approval(threaded)

        stop = self._loop.run(begin())

        async def end() -> None:
            stop()

        return lambda: self._loop.run(end())

    def put_subagent(self, name: str, system_prompt: str) -> list[Subagent]:
        """Define or replace a sub-agent; returns all of them."""
        return self._loop.run(self._session.put_subagent(name, system_prompt))

    def remove_subagent(self, name: str) -> list[Subagent]:
        """Remove a sub-agent; returns those that are left."""
        return self._loop.run(self._session.remove_subagent(name))

    def set_title(self, title: str) -> str:
        """Name the session; returns the head."""
        return self._loop.run(self._session.set_title(title))

    def set_workspace(self, workspace: str | None) -> str:
        """Say which folder (URI) the session is about, or None for none; returns the head."""
        return self._loop.run(self._session.set_workspace(workspace))

    def archive(self) -> str:
        """Leave it out of lists; returns the head."""
        return self._loop.run(self._session.archive())

    def unarchive(self) -> str:
        """Put it back into lists; returns the head."""
        return self._loop.run(self._session.unarchive())

    def reload(self) -> SessionState:
        """Take over what is on disk after `externallyModified`."""
        return self._loop.run(self._session.reload())

    def messages(self, *, timeline_id: str | None = None, page: int = 1000) -> Iterator[HistoryMessage]:
        """The messages with their indexes, oldest first, fetched by pages of `page`."""
        messages = self._session.messages(timeline_id=timeline_id, page=page)
        while (message := self._loop.run(_next(messages))) is not None:
            yield message

    def fork(
        self, checkpoint: Place | None = None, *, session_id: str | None = None, title: str | None = None
    ) -> SyncSession:
        """Copy the history, whole or up to and including a checkpoint, into a new session, which comes open."""
        forked = self._loop.run(self._session.fork(checkpoint, session_id=session_id, title=title))
        return SyncSession(self._client, forked, self._loop)

    def notifications(self, *methods: str) -> SyncNotifications:
        """A blocking iterator over the notifications about this session from now on."""
        return self._client.notifications(*methods, session_id=self.id)

    def on(self, callback: Callable[[Notification], object], *methods: str) -> Callable[[], None]:
        """Call `callback` with each notification about this session; returns what stops it."""
        return self._client.on(callback, *methods, session_id=self.id)


async def _next(messages: AsyncIterator[HistoryMessage]) -> HistoryMessage | None:
    return await anext(messages, None)
