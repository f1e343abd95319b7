"""Approvals of a store whose sessions are files: a key beside the store seals them (see `timeleap.features.approvals.seal`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from timeleap.features.approvals.requests import AskedApprovals
from timeleap.features.approvals.seal import KeyRing, Register
from timeleap.features.approvals.standing import SealedApprovals
from timeleap.sessions.documents.meta import Meta

if TYPE_CHECKING:
    from timeleap.sessions.documents.statefile import StateFile
    from timeleap.sessions.participants import ApprovalRequests
    from timeleap.sessions.transaction import SessionTransactions
    from timeleap.store.home import Home


class ApprovalsInFiles:
    """Approvals of all sessions in a home directory (`timeleap.store.approvals_port.StoreApprovals`).

    Args:
        home: Home directory of the store.
        key_file: The key that seals approvals; None for `TIMELEAP_KEY_FILE`, or the platform's place.
    """

    def __init__(self, home: Home, key_file: Path | None = None) -> None:
        self._home = home
        self._keys = KeyRing(key_file, home.path)

    def standing(self, session_id: str, meta: Meta, state: StateFile, *, trusted: bool) -> SealedApprovals:
        return SealedApprovals(
            session_id, meta, state, self._keys, trusted, store=self._home.real_path, in_trash=self._in_trash
        )

    def requests(self, transactions: SessionTransactions) -> ApprovalRequests:
        return AskedApprovals(transactions)

    def begin_delete(self, session_id: str, trash_name: str, uid: str) -> None:
        self._keys.change(Register.announce, (self._home.real_path, session_id), trash_name, uid)

    def finish_deletes(self) -> None:
        self._keys.change(Register.finish_deletes, self._home.real_path)

    def retire(self, session_id: str, trash_name: str = "", uid: str = "") -> None:
        self._keys.change(Register.retire, (self._home.real_path, session_id), trash_name, uid)

    def revive(self, session_id: str, trash_name: str) -> None:
        self._keys.change(Register.revive, (self._home.real_path, session_id), trash_name)

    def forget(self, trash_names: Collection[str]) -> None:
        self._keys.change(Register.forget, trash_names)

    def _in_trash(self, uid: str) -> bool:
        return any(Meta(trash, "readOnly").uid == uid for _, _, trash in self._home.trashed())


def in_files(key_file: Path | None = None) -> Callable[[Home], ApprovalsInFiles]:
    """Make the approvals of a store when its home directory is known."""
    return lambda home: ApprovalsInFiles(home, key_file)
