"""The files of a session's workspace, as a session sees them: a port, which a feature fills (or nobody does).

All methods block and are called in threads. What goes wrong is a `TimeleapError`, and then no file was changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

from msgspec import Struct

from timeleap.errors import FilesUnavailableError, StorageFailureError, TimeleapError
from timeleap.json_value import Json
from timeleap.sessions.documents.meta import Meta
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


class TreeSnapshot(Struct, frozen=True):
    """A snapshot that was taken.

    Attributes:
        created_at: ISO-8601 UTC.
        changed: Paths that differ from the snapshot before it.
        skipped: `SkippedFile`s of the contract, the first of them; `skipped_count`: how many there are.
        ms: How long it took, in milliseconds.
    """

    snapshot: str
    created_at: str
    changed: int
    skipped: Sequence[Json]
    skipped_count: int
    ms: int
    label: str | None = None
    checkpoint_uid: str | None = None

    def result(self) -> Json:
        """Members of the result of `files/snapshot`."""
        more = self.skipped_count - len(self.skipped)
        members = {"snapshot": self.snapshot, "changed": self.changed, "skipped": list(self.skipped)}
        return {**members, "moreSkipped": more} if more else members


class TreeTarget(Struct, frozen=True):
    """The state that files go back to.

    Attributes:
        snapshot: Its id.
        paths: Only these, and what is below them, as the bytes of their names; None: everything.
        root: URI of the root they are below; None: of all, or of the only one.
    """

    snapshot: str
    paths: tuple[bytes, ...] | None = None
    root: str | None = None


class PendingRestore(Protocol):
    """Files that were put back while the log is about to follow: an intent on disk says so until it is settled."""

    @property
    def before(self) -> str:
        """The snapshot of what was there."""
        ...

    @property
    def result(self) -> Json:
        """Members of the request's result."""
        ...

    @property
    def events(self) -> Sequence[Json]:
        """Members of the notifications `files/didRestore`, one for each root that changed."""
        ...

    def commit(self) -> None:
        """The log has followed: the intent goes."""

    def roll_back(self) -> None:
        """It has not: the files become what they were, then the intent goes."""


class SnapshotsOverBudget(Protocol):
    """Snapshots beyond the budget of a session's roots, which can go."""

    def shrink(self, live: Collection[int]) -> None:
        """Remove the oldest snapshots beyond the budget: none of the numbers `live`, which the session's checkpoints
        refer to, and never the newest. Quick: what they took goes with `sweep`."""

    def sweep(self) -> None:
        """Remove from the disk what no snapshot refers to, where there is too much. May take long."""


class WorkingTree(Protocol):
    """The files of one session."""

    def snapshot(
        self, control: TreeControl, *, label: str | None = None, checkpoint_uid: str | None = None
    ) -> TreeSnapshot:
        """Keep the files as they are now; what cannot be taken in is skipped, and said."""
        ...

    def state(self) -> Json:
        """How many snapshots there are, and what they take: members `snapshots` and `bytes` of `FilesState`."""
        ...

    def changed(self, before: str, after: str | None) -> list[tuple[str, str]]:
        """How each path differs between two snapshots, the second the newest where None: kind (as `FileChange` of the
        contract has it) and path, as it may leave the process."""
        ...

    def foretell(self, target: TreeTarget, on_conflict: OnConflict, log_changed_at: int, control: TreeControl) -> Json:
        """Members of the result of a dry run of `begin_restore`; conflicts are listed, never raised."""
        ...

    def begin_restore(
        self, target: TreeTarget, on_conflict: OnConflict, token: str, log_changed_at: int, control: TreeControl
    ) -> PendingRestore:
        """Put the files back as the snapshot `target` has them, under an intent that carries `token`.

        Args:
            target: The snapshot, and what of it.
            on_conflict: What to do with paths that somebody else has changed.
            token: By this it is asked after a crash whether the log has followed.
            log_changed_at: When the log was last written to, in nanoseconds since 1970: what changed later was not
                done by a tool whose result stands in the log.
            control: Where to report, and when to stop.
        """
        ...

    def over_budget(self) -> SnapshotsOverBudget | None:
        """None unless there are more snapshots, of all sessions, or more bytes of them than a root may have."""
        ...

    def recover(self, happened: Callable[[str], bool]) -> list[Json]:
        """Settle an intent that a crash left: forward where the log has followed its token, else back. Returns
        warnings (`kind`, `message`) of what could not be settled."""
        ...


NO_CONTROL: Final = TreeControl()
TreeOf = Callable[[Path, Meta], WorkingTree | None]
"""The files of the session in a directory, as its `timeleap.json` says; None where none are kept."""


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

    def working_tree(self) -> WorkingTree | None:
        """The files; None where none are kept."""
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
