"""The companion of a session's log, such as the files that it works on: a port, which a feature fills (or nobody does)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct

from timeleap.call import NO_CONTROL, WorkControl
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


class ScopeArguments(TypedDict, total=False):
    """Arguments of the methods that can take a companion along; see `RewriteScope`."""

    restore: Restore
    on_conflict: OnConflict
    control: WorkControl


class RewriteScope(Struct, frozen=True):
    """Scope of a change that goes back to an earlier state.

    Attributes:
        restore: Parts that go back: the log, its companion (`files`), or both.
        on_conflict: Treatment of paths that somebody else has changed.
        control: Where to report, and when to stop.
    """

    restore: Restore = "conversation"
    on_conflict: OnConflict = "refuse"
    control: WorkControl = NO_CONTROL


class RestoreCancelledError(Exception):
    """The client took its request back while the companion went back: it is as it was."""


class Companion:
    """A companion of one session's log, as the session asks for it: here nothing is kept, a feature keeps files."""

    def __init__(self, _session: object) -> None:
        """A feature's needs its session."""

    def content(self) -> Any:
        """Return what is kept, for features; None: nothing."""
        return None

    def wire(self) -> Json:
        """Return members of `SessionState` of the contract, as of the last `look`."""
        return {}

    async def look(self) -> Json:
        """Look at what is kept, for `wire`, and return that."""
        return self.wire()

    async def keep(self, changes: Mapping[str, Any] | None) -> None:
        """Take over the settings that an opening gives; None leaves them, and so does a reader."""

    async def take(self, label: str | None, guard: Mutation, control: WorkControl) -> Json:
        """Keep the present state at the request's turn."""
        raise not_kept()

    def for_checkpoint(self, wanted: bool | None, cause: Cause, control: WorkControl) -> Participant | None:
        """Return the part in the append of a checkpoint; `wanted`: on or off, None as the settings say."""
        return None

    def for_messages(self, messages: Iterable[Mapping[str, Any]], cause: Cause) -> Participant | None:
        """Return the part in the append of messages; None: none."""
        return None

    async def appended(self, messages: Iterable[Mapping[str, Any]], cause: Cause) -> None:
        """Do what follows once messages are appended."""

    def for_rewrite(self, scope: RewriteScope, cause: Cause) -> Participant | None:
        """Return the part in a rewrite; None: none."""
        if scope.restore != "conversation":
            raise not_kept()
        return None

    async def restore_alone(self, guard: Mutation, decide: Decide, scope: RewriteScope) -> Json:
        """Put back only what belongs to where a rewrite would go back to. The log stays, the request is known."""
        raise not_kept()

    async def recover(self) -> None:
        """At open by the owner: settle what a crash cut short; what cannot be settled is a warning."""

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
