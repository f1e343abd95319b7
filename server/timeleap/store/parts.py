"""Parts that a process gives its store: files of workspaces, approvals, a store that several machines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from timeleap.sessions.working_tree import SessionFiles
from timeleap.store.approvals_port import NoApprovals, StoreApprovals
from timeleap.store.files_port import FindSnapshots, nothing_kept

if TYPE_CHECKING:
    from timeleap.sessions.transaction import SessionTransactions
    from timeleap.store.backing import SharedStore
    from timeleap.store.home import Home


def no_approvals(_home: Home) -> StoreApprovals:
    """Make the approvals of a process without the feature."""
    return NoApprovals()


class StoreParts(Struct, frozen=True):
    """Parts of one process; each default stands for a part that is not there.

    Attributes:
        files: Makes what keeps the files of one session.
        snapshots: Finds the snapshots of all sessions.
        shared: The database that has the sessions, if the home has not.
        approvals: Makes the approvals of the sessions in a home.
    """

    files: Callable[[SessionTransactions], SessionFiles] = SessionFiles
    snapshots: FindSnapshots = nothing_kept
    shared: SharedStore | None = None
    approvals: Callable[[Home], StoreApprovals] = no_approvals
