"""Parts that a process gives its store: companions of sessions, approvals, where its sessions are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from timeleap.sessions.companion import Companion
from timeleap.store.approvals_port import NoApprovals, StoreApprovals
from timeleap.store.companions_port import FindCompanions, nothing_kept
from timeleap.store.home_backing import HomeBacking

if TYPE_CHECKING:
    from timeleap.sessions.transaction import SessionTransactions
    from timeleap.store.backing import SessionBacking
    from timeleap.store.home import Home


def no_approvals(_home: Home) -> StoreApprovals:
    """Make the approvals of a process without the feature."""
    return NoApprovals()


class StoreParts(Struct, frozen=True):
    """Parts of one process; each default stands for a part that is not there.

    Attributes:
        companion: Makes what goes along with the log of one session.
        companions: Finds those of all sessions.
        backing: Makes what keeps the sessions.
        home: The store's directory; None: the configured one.
        approvals: Makes the approvals of the sessions in a home.
    """

    companion: Callable[[SessionTransactions], Companion] = Companion
    companions: FindCompanions = nothing_kept
    backing: Callable[[Home], SessionBacking] = HomeBacking
    home: Path | None = None
    approvals: Callable[[Home], StoreApprovals] = no_approvals
