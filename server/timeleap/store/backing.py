"""Where the sessions of a home are kept: a port of the store. `HomeBacking` keeps them in the home itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from timeleap.sessions.shapes import Owner
from timeleap.storage.log_values import LogState
from timeleap.store.store_requests import OwnFiles

if TYPE_CHECKING:
    from timeleap.sessions.participants import OtherProcesses
    from timeleap.sessions.session import Session
    from timeleap.sessions.shapes import Cause, Mutation
    from timeleap.store.home import Trashed
    from timeleap.store.purging import PurgeOutcome, PurgeRequest, TrashParts


class Purge(Protocol):
    """Removes sessions in the trash for good."""

    def plan(self, request: PurgeRequest) -> list[Trashed]:
        """Return the sessions that a request selects, newest first, with sizes. Blocking.

        Raises:
            SessionNotFoundError: There is nothing of that id in the trash.
        """
        ...

    async def carry_out(self, request: PurgeRequest, guard: Mutation, noted: Mapping[str, Any] | None) -> PurgeOutcome:
        """Remove what a request selects; `noted` is what it noted before it was cut short. Raises as `Trash.purge`."""
        ...

    async def finish(self) -> None:
        """Finish what a crash cut short of a purge, or of a deletion."""


class LogFacts(Struct, frozen=True):
    """Facts about a session's log that a list shows: where it is, its counts, what is damaged, and who writes to it."""

    path: Path | str
    state: LogState
    damaged: str | None = None
    owner: Owner | None = None


class SessionBacking(Protocol):
    """Keeps sessions, of which the home has the directories, or copies. Sessions in the trash have their names there as
    ids. All but what only looks may raise StorageFailureError, and all but coroutines may block.

    Attributes:
        copies: The home has copies: a file that changes in one is kept by the function of `trashed`.
        own: Files of the store itself.
        open_engine: Opens a log, always to be written to (`JsonlEngine.open`); None: as the store of files does.
    """

    copies: bool

    @property
    def own(self) -> OwnFiles: ...

    @property
    def open_engine(self) -> Callable[..., Awaitable[Any]] | None: ...

    # What is here

    def holds(self, session_id: str) -> bool:
        """Return whether a session is kept that need not be in the home yet."""
        ...

    def fetch(self, session_id: str) -> None:
        """Bring the home's directory of one session up to date."""

    def fetch_all(self) -> None:
        """Bring what lists show of all sessions up to date."""

    def opening(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """Surround the opening, or the making, of a session."""
        ...

    def facts(self, name: str, path: Path, *, made_with_log: bool, in_trash: bool) -> LogFacts:
        """Return what a list shows of a log; what is damaged is said, never raised."""
        ...

    def location(self, session_id: str, path: Path) -> str:
        """Return where a session is said to lie."""
        ...

    def files(self, name: str, path: Path) -> AbstractContextManager[Path]:
        """Give the directory of a session's files for a block. Raises SessionNotFoundError."""
        ...

    def trashed(self, name: str) -> AbstractAsyncContextManager[tuple[Path, Callable[[], None]]]:
        """Give the directory of a session in the trash for a block, and what keeps a change of it.

        Raises:
            SessionNotFoundError: There is none of that name.
        """
        ...

    def sizes(self) -> Mapping[str, Sequence[tuple[str, int]]] | None:
        """Return by id what is stored of each session, with its bytes; None: the home's files."""
        ...

    # Open sessions

    def others(self, session_id: str) -> OtherProcesses | None:
        """Return the other processes that write to an open session; None: there are none."""
        ...

    def reading(self, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Wrap the work of a request that may be answered from an older state."""
        ...

    async def catch_up(self, session: Session) -> None:
        """Bring an open session up to date where the request under way may be answered from an older state."""

    # Changes

    def publish(self, built: Path, session_id: str) -> None:
        """Keep a session that was built aside. Raises SessionExistsError."""

    async def withdraw(self, session_id: str) -> None:
        """Take back a session that was just made, and that its maker cannot open, unless others have it."""

    def alone(self, path: Path) -> AbstractAsyncContextManager[None]:
        """Exclude other processes from a session while it is moved. Raises SessionLockedError."""
        ...

    def to_trash(self, session_id: str, name: str, cause: Cause) -> None:
        """Move a session to the trash, where it is called `name`."""

    def from_trash(self, session_id: str, name: str, cause: Cause) -> None:
        """Move what is called `name` in the trash back to its place. Raises SessionExistsError."""

    def purge(self, parts: TrashParts) -> Purge:
        """Make what removes sessions for good."""
        ...

    def close(self) -> None:
        """End it: the store is closed."""
