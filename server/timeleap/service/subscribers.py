"""Subscribers to a session's changes, and their notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timeleap.attach.notified import NotifiedApprovals
from timeleap.sessions.shapes import APPROVAL_REQUESTED, APPROVAL_RESOLVED, CONTEXT, Budget, Event
from timeleap.sessions.warnings import recovered

if TYPE_CHECKING:
    from timeleap.call import Client
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Json


class Subscribers:
    """The connections that have one session open.

    It listens to the session and passes each event on, in order, before the reply to the request that caused it.

    Args:
        deleted: Called when it was said that the session, which is only read here, was deleted.
    """

    def __init__(self, session: Session, budget: Budget, deleted: Callable[[], None]) -> None:
        self._session = session
        self._deleted = deleted
        self._budget = budget
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

    def _hear(self, event: Event) -> None:
        params = event.params(self._session.session_id)
        if event.method not in (APPROVAL_REQUESTED, APPROVAL_RESOLVED):
            self.tell(event.method, params)
            if event.method == CONTEXT:
                self._watch_budget()
            if event.kind == "deleted" and self._session.deleted:
                self._deleted()
            return
        for client in self._clients:  # those that subscribe to approvals, of what they do not know yet
            notified = self._notified[id(client)]
            if client.wants_approvals and notified.adds(event.method, params):
                client.notify(event.method, params)

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
    if (event := recovered(session.engine)) is not None:
        client.notify(event.method, event.params(session.session_id))
