"""The companions of a store's sessions, as the store sees them: a port, which a feature fills (or nobody does)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from timeleap.store.home import Home


class StoreCompanions(Protocol):
    """The companions of all sessions of a store. Features ask for more of them."""

    def forget(self, home: Home, directory: Path) -> bool:
        """Remove what is kept for a session of `home` that is about to be removed and lies in a directory; False where
        it cannot be told what is its own, and some may stay. What it raises lets the session stay, too."""
        ...


FindCompanions = Callable[[], StoreCompanions | None]
"""The companions of all sessions; None where this process knows nothing of them."""


def nothing_kept() -> None:
    """Find no companions: this process knows nothing of them."""
