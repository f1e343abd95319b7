"""Subscribers to a session's changes, and their notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timeleap.attach.notified import REQUESTED, RESOLVED, NotifiedApprovals
from timeleap.service import views
from timeleap.sessions import events, shapes

if TYPE_CHECKING:
    from timeleap.call import Client
    from timeleap.service.config import Budget
    from timeleap.service.views import Json, Views
    from timeleap.sessions.session import Session


class Subscribers:
    """The connections that have one session open.

    It listens to the session and passes each event on, in order, before the reply to the request that caused it.

    Args:
        deleted: Called when it was said that the session, which is only read here, was deleted.
    """

    def __init__(self, session: Session, budget: Budget, views: Views, deleted: Callable[[], None]) -> None:
        self._session = session
        self._deleted = deleted
        self._budget = budget
        self._views = views
        self._clients: list[Client] = []
        self._notified: dict[int, NotifiedApprovals] = {}
        self._over = budget.should_compact(session.engine.state.token_count_with_pending)
        self._stop: Callable[[], None] = session.listen(self._hear)

    def join(self, client: Client, notified: NotifiedApprovals | None = None) -> None:
        """Subscribe `client`; `notified` are the requests for approvals that it knows."""
        self._clients.append(client)
        self._notified[id(client)] = notified or NotifiedApprovals()

    def leave(self, client: Client) -> None:
        """Unsubscribe `client`."""
        self._notified.pop(id(client), None)
        self._clients = [each for each in self._clients if each is not client]

    @property
    def empty(self) -> bool:
        """True if there are no subscribers."""
        return not self._clients

    def close(self) -> None:
        """Stop listening to the session."""
        self._stop()

    def tell(self, method: str, params: Json) -> None:
        """Send one notification to all."""
        for client in self._clients:
            client.notify(method, params)

    def _tell_of_approval(self, event: events.ApprovalRequested | events.ApprovalResolved) -> None:
        """Notify the clients that subscribe to approvals; a request only those that do not know it yet."""
        session_id = self._session.session_id
        for client in self._clients:
            notified = self._notified[id(client)]
            if not client.wants_approvals:
                continue
            if isinstance(event, events.ApprovalResolved):
                if notified.ends(event.approval_id):
                    client.notify(RESOLVED, {"sessionId": session_id, **views.approval_end(event)})
            elif notified.is_new(event.request.approval_id):
                client.notify(REQUESTED, {"sessionId": session_id, "approval": views.approval_request(event.request)})

    def _hear(self, event: events.Event) -> None:
        if isinstance(event, events.ApprovalRequested | events.ApprovalResolved):
            self._tell_of_approval(event)
            return
        method, params = self._notification(event)
        self.tell(method, params)
        if method == shapes.CONTEXT:
            self._watch_budget()
        if isinstance(event, events.Deleted) and self._session.deleted:
            self._deleted()

    def _notification(self, event: events.Event) -> tuple[str, Json]:
        session_id = self._session.session_id
        if isinstance(event, events.Recovered):
            return "session/didRecover", recovered(session_id, event)
        if isinstance(event, events.Warned):
            return "session/warning", {"sessionId": session_id, "kind": event.kind, "message": event.message}
        method, _, members = self._views.notification(event)
        cause = shapes.set_members(requestId=event.cause.request_id, client=event.cause.client)
        return method, {"sessionId": session_id, "head": event.head, "kind": event.kind, "cause": cause, **members}

    def _watch_budget(self) -> None:
        """Suggest compaction once per crossing of the trigger."""
        tokens = self._session.engine.state.token_count_with_pending
        over = self._budget.should_compact(tokens)
        if over and not self._over:
            suggestion = {"sessionId": self._session.session_id, "tokenCountWithPending": tokens, **self._budget.wire()}
            self.tell("context/compactionSuggested", suggestion)
        self._over = over


def tell_recovery(client: Client, session: Session) -> None:
    """Report what opening repaired, to the client for whom the session was opened."""
    recovery = session.engine.recovery
    if recovery.quarantined or recovery.cut_bytes:
        event = events.Recovered(head=session.head, quarantined=recovery.quarantined, cut_bytes=recovery.cut_bytes)
        client.notify("session/didRecover", recovered(session.session_id, event))


def recovered(session_id: str, event: events.Recovered) -> Json:
    """`session/didRecover` of the contract."""
    return {
        "sessionId": session_id,
        "quarantined": [views.quarantined(cut) for cut in event.quarantined],
        "cutBytes": event.cut_bytes,
    }
