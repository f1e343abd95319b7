"""The approvals of all sessions of a store: a port, which the feature of approvals fills, and the stand-in without it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from timeleap.sessions.participants import ApprovalRequests, NothingApproved, NothingAsked, StandingApprovals

if TYPE_CHECKING:
    from timeleap.sessions.documents.meta import Meta
    from timeleap.sessions.documents.statefile import StateFile
    from timeleap.sessions.transaction import SessionTransactions


class StoreApprovals(Protocol):
    """Approvals of all sessions of a store; each method but the first two notes a move that was made or is begun.

    Raises:
        StorageFailureError: A move could not be noted; it must not be made.
    """

    def standing(self, session_id: str, meta: Meta, state: StateFile, *, trusted: bool) -> StandingApprovals:
        """Approvals of one session; of one that is not `trusted`, since it lies outside of the store, all are off."""
        ...

    def requests(self, transactions: SessionTransactions) -> ApprovalRequests:
        """Questions of one session."""
        ...

    def begin_delete(self, session_id: str, trash_name: str, uid: str) -> None:
        """A session is about to be moved to the trash, under a name."""

    def finish_deletes(self) -> None:
        """Settle announcements that a crash left."""

    def retire(self, session_id: str, trash_name: str = "", uid: str = "") -> None:
        """The session that had this id is not there any more."""

    def revive(self, session_id: str, trash_name: str) -> None:
        """A session came back from the trash."""

    def forget(self, trash_names: Collection[str]) -> None:
        """Sessions in the trash were removed for good."""


class NoApprovals:
    """Approvals of a store where the feature is not installed."""

    def standing(self, session_id: str, meta: Meta, state: StateFile, *, trusted: bool) -> StandingApprovals:
        return NothingApproved()

    def requests(self, transactions: SessionTransactions) -> ApprovalRequests:
        return NothingAsked()

    def begin_delete(self, session_id: str, trash_name: str, uid: str) -> None:
        """Nothing is kept of sessions."""

    def finish_deletes(self) -> None:
        """Nothing is kept of sessions."""

    def retire(self, session_id: str, trash_name: str = "", uid: str = "") -> None:
        """Nothing is kept of sessions."""

    def revive(self, session_id: str, trash_name: str) -> None:
        """Nothing is kept of sessions."""

    def forget(self, trash_names: Collection[str]) -> None:
        """Nothing is kept of sessions."""
