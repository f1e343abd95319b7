"""The files of one session's workspace: snapshots of them, and restores, which a session's changes take along.

All methods block and are called in threads. What goes wrong is a `TimeleapError`, and then no file was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from timeleap.call import WorkControl
from timeleap.json_value import Json
from timeleap.sessions.companion import OnConflict
from timeleap.sessions.documents.meta import Meta


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
        self, control: WorkControl, *, label: str | None = None, checkpoint_uid: str | None = None
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

    def foretell(self, target: TreeTarget, on_conflict: OnConflict, log_changed_at: int, control: WorkControl) -> Json:
        """Members of the result of a dry run of `begin_restore`; conflicts are listed, never raised."""
        ...

    def begin_restore(
        self, target: TreeTarget, on_conflict: OnConflict, token: str, log_changed_at: int, control: WorkControl
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


TreeOf = Callable[[Path, Meta], WorkingTree | None]
"""The files of the session in a directory, as its `timeleap.json` says; None where none are kept."""
