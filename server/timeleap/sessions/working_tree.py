"""The files of a session's workspace, as a session sees them: a port, which a feature fills (or nobody does)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from msgspec import Struct

from timeleap.errors import FilesUnavailableError, StorageFailureError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions.shapes import Cause, Mutation, set_members

if TYPE_CHECKING:
    from timeleap.sessions.kernel.change import Decide
    from timeleap.sessions.participants import Participant

_logger = logging.getLogger(__name__)

Restore = Literal["conversation", "files", "both"]
"""Parts that a change of the log takes along."""
OnConflict = Literal["refuse", "keep", "overwrite"]
"""Treatment of a path that somebody else has changed."""


class TreeControl(Struct, frozen=True):
    """How long work on files is followed, and stopped.

    Attributes:
        progress: Takes what is being done, how many paths are done, and of how many.
        cancelled: True once nobody wants it any more.
    """

    progress: Callable[[str, int, int | None], None] = lambda _text, _done, _total: None
    cancelled: Callable[[], bool] = lambda: False


NO_CONTROL: Final = TreeControl()


class WithFiles(TypedDict, total=False):
    """Arguments of the methods that can take the files along; see `RestoreRequest`."""

    restore: Restore
    on_conflict: OnConflict
    control: TreeControl


class RestoreRequest(Struct, frozen=True):
    """Restore of files that a request asks for.

    Attributes:
        restore: Parts that go back: the log, the files, or both.
        on_conflict: Treatment of paths that somebody else has changed.
        control: Where to report, and when to stop.
    """

    restore: Restore = "conversation"
    on_conflict: OnConflict = "refuse"
    control: TreeControl = NO_CONTROL


class RestoreCancelledError(Exception):
    """The client took its request back while files were being put back: they are as they were."""


class SessionFiles:
    """The files of one session's workspace, as the session asks for them: here none are kept, a feature keeps some."""

    def __init__(self, _session: object) -> None:
        """A feature's needs its session."""

    def working_tree(self) -> Any:
        """The files, for features; None where none are kept."""
        return None

    def wire(self) -> Json | None:
        """`FilesState` of the contract, as of the last `look`; None where this process knows nothing of files."""
        return None

    async def look(self) -> Json | None:
        """Count the snapshots and what they take, for `wire`, and return that."""
        return self.wire()

    async def keep(self, changes: Mapping[str, Any] | None) -> None:
        """Take over the settings that an opening gives; None leaves them, and so does a reader."""

    async def take(self, label: str | None, guard: Mutation, control: TreeControl) -> Json:
        """Take a snapshot at the request's turn."""
        raise not_kept()

    def for_checkpoint(self, files: bool | None, cause: Cause, control: TreeControl) -> Participant | None:
        """The part that the files take in the append of a checkpoint; `files`: on or off, None as the settings say."""
        return None

    def for_messages(self, messages: Iterable[Mapping[str, Any]], cause: Cause) -> Participant | None:
        """The part that the files take in the append of messages; None: none."""
        return None

    async def appended(self, messages: Iterable[Mapping[str, Any]], cause: Cause) -> None:
        """Do what follows once messages are appended."""

    def for_rewrite(self, request: RestoreRequest, cause: Cause) -> Participant | None:
        """The part that the files take in a rewrite; None: none."""
        if request.restore != "conversation":
            raise not_kept()
        return None

    async def restore_alone(self, guard: Mutation, decide: Decide, request: RestoreRequest) -> Json:
        """Put back only the files that belong to where a rewrite would go back to. The log stays, the request is known."""
        raise not_kept()

    async def recover(self) -> None:
        """At open by the owner: settle a restore that a crash cut short; what cannot be settled is a warning."""

    async def wait_for_background(self) -> None:
        """Return when nothing is under way in the background."""


def not_kept() -> FilesUnavailableError:
    """The session keeps no files."""
    return FilesUnavailableError(
        'this session keeps no snapshots of files: open it with files {"mode": "checkpoint"}', reason="notConfigured"
    )


def problem_of(error: Exception) -> Json:
    """`FilesProblem` of the contract."""
    if isinstance(error, OSError) and not isinstance(error, TimeleapError):
        error = StorageFailureError.of(error, "use the files")
    if isinstance(error, TimeleapError):
        return {"kind": error.kind, "message": error.message, **set_members(reason=error.data.get("reason"))}
    _logger.error("a snapshot of files failed", exc_info=error)
    return {"kind": "internalError", "message": "the snapshot failed by a fault of the server; its log has the details"}
