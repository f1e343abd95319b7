"""Answering the requests for approvals of a session, as a program's handler decides."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, Union

from timeleap_client import _models as models
from timeleap_client.errors import TimeleapClientError, TimeleapRpcError
from timeleap_client.notifications import RECONNECTED, Notification

_log = logging.getLogger(__name__)

REQUESTED, RESOLVED = "approval/didRequest", "approval/didResolve"

Verdict: TypeAlias = Union["models.approval.Decision", tuple["models.approval.Decision", str], None]
"""A decision, one with a reason, or None: somebody else is to decide."""
ApprovalHandler: TypeAlias = Callable[["models.approval.ApprovalRequest"], Union[Verdict, Awaitable[Verdict]]]  # noqa: UP007
"""Decides a request; where it awaits, it is cancelled once the request needs no decision any more."""


class ApprovalHandling:
    """Calls a handler with each request of a session once, those that wait already included, until `stop`.

    Args:
        handler: Decides.
        on: Listens to notifications about the session, as `AsyncSession.on` does.
        pending: Lists the requests that wait.
        respond: Sends a decision.
    """

    def __init__(
        self,
        handler: ApprovalHandler,
        on: Callable[..., Callable[[], None]],
        pending: Callable[[], Awaitable[list[models.approval.ApprovalRequest]]],
        respond: Callable[[str, models.approval.Decision, str | None], Awaitable[None]],
    ) -> None:
        self._handler = handler
        self._pending = pending
        self._respond = respond
        self._deciding: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._stop = on(self._hear, REQUESTED, RESOLVED, RECONNECTED)
        self._look()

    def stop(self) -> None:
        """Decide nothing more; what is being decided is left to others."""
        self._stop()
        for task in [*self._deciding.values(), *([self._looking] if self._looking else [])]:
            task.cancel()

    def _hear(self, notification: Notification) -> None:
        if notification.method == RECONNECTED:
            self._look()
        elif notification.method == REQUESTED:
            self._take(models.approval.ApprovalRequest.from_wire(notification.params["approval"]))
        elif (task := self._deciding.pop(str(notification.params.get("approvalId")), None)) is not None:
            task.cancel()

    def _look(self) -> None:
        self._looking = asyncio.create_task(self._take_pending(), name="timeleap-client-approvals")

    async def _take_pending(self) -> None:
        try:
            for approval in await self._pending():
                self._take(approval)
        except TimeleapClientError as error:
            _log.warning("the requests for approvals that wait are not known: %s", error)

    def _take(self, approval: models.approval.ApprovalRequest) -> None:
        if approval.approval_id not in self._deciding:  # it stays there until it is resolved
            task = asyncio.create_task(self._decide(approval), name="timeleap-client-approval")
            self._deciding[approval.approval_id] = task

    async def _decide(self, approval: models.approval.ApprovalRequest) -> None:
        try:
            made: Any = self._handler(approval)
            verdict: Verdict = await made if inspect.isawaitable(made) else made
            if verdict is None:
                return
            decision, reason = verdict if isinstance(verdict, tuple) else (verdict, None)
            await self._respond(approval.approval_id, decision, reason)
        except TimeleapRpcError as error:
            if error.kind != "approvalNotPending":  # else somebody else was faster
                _log.warning("a decision about an approval was refused: %s", error)
        except Exception:
            _log.exception("a handler of approvals failed")
