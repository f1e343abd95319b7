"""Files that go back with the log: the half of a rewrite that is not in the log.

Order: the files first, under an intent that carries a token; then the log's own step, whose note in `timeleap.json` has
that token; then the intent goes. So whenever a process dies the next opening can tell from the note whether the log has
gone, and the files follow it: forward, or back to what they were.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict

from msgspec import Struct

from timeleap import clock
from timeleap.errors import FilesUnavailableError, SnapshotNotFoundError, TimeleapError
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.session_state import StateManager
from timeleap.sessions.shapes import FILES_RESTORED, Event
from timeleap.sessions.working_tree import OnConflict, PendingRestore, Restore, TreeControl, TreeTarget, WorkingTree
from timeleap.storage.durable import failpoint, status

if TYPE_CHECKING:
    from timeleap.sessions.rewrite_plan import RewritePlan

Json = dict[str, Any]
_logger = logging.getLogger(__name__)


class WithFiles(TypedDict, total=False):
    """Arguments of the methods that can take the files along; see `RestoreRequest`."""

    restore: Restore
    on_conflict: OnConflict
    control: TreeControl


class RestoreRequest(Struct, frozen=True):
    """What a request wants of the files.

    Attributes:
        restore: Whether they go back with the log, alone, or not at all.
        on_conflict: What is done with paths that somebody else has changed.
        control: Where to report, and when to stop.
    """

    restore: Restore = "conversation"
    on_conflict: OnConflict = "refuse"
    control: TreeControl = TreeControl()


LOG_ALONE: Final = RestoreRequest()


class RestoreCancelledError(Exception):
    """The client took its request back while files were being put back: they are as they were."""


class SessionWithFiles(Protocol):
    """What the files' half needs of its session."""

    path: Path
    meta: Meta
    state: StateManager

    def working_tree(self) -> WorkingTree | None:
        """The files of its workspace; None where none are kept."""


class FilesStep:
    """The files' half of one request: begun, then settled as the log's half went.

    Attributes:
        token: By which the log's half is known.
        before: The snapshot of what was there, once it is begun.
        done: It is to stay, whatever the session's notes say.
    """

    def __init__(
        self, tree: WorkingTree, target: TreeTarget, session: SessionWithFiles, request: RestoreRequest
    ) -> None:
        self.token = f"{session.meta.uid}.{clock.new_uid(16)}"
        self.before: str | None = None
        self.done = False
        self._tree, self._target, self._session, self._request = tree, target, session, request
        self._pending: PendingRestore | None = None

    def foretell(self) -> Json:
        """Members of the result of a dry run. Blocking."""
        return self._tree.foretell(self._target, self._request.on_conflict, self._log_changed_at(), self._control)

    def begin(self) -> None:
        """Put the files back. Blocking.

        Raises:
            RestoreCancelledError: Nobody wants it any more; the files are as they were.
            TimeleapError: The files are as they were.
        """
        self._tree.recover(self._session.state.files_followed)  # what an earlier request could not settle
        conflict, changed = self._request.on_conflict, self._log_changed_at()
        try:
            self._pending = self._tree.begin_restore(self._target, conflict, self.token, changed, self._control)
        except Exception as error:
            if self._control.cancelled():
                raise RestoreCancelledError from error
            raise
        self.before = self._pending.before
        failpoint("files.before_log")

    def settle(self) -> None:
        """Let the files follow the log: they stay if it has gone its way, and become what they were if not. Blocking;
        what fails is tried again at the next restore, and at the next opening."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            if self.done or self._session.state.files_followed(self.token):
                failpoint("files.followed")
                pending.commit()
            else:
                pending.roll_back()
        except (TimeleapError, OSError):
            _logger.exception("a restore of files is not settled yet: %s", self.token)

    def result(self) -> Json:
        """Members of the request's result."""
        return self._pending.result if self._pending is not None else {}

    def events(self, head: str) -> list[Event]:
        """What listeners are told of the files."""
        many = self._pending.events if self._pending is not None else ()
        return [Event("filesRestored", head, members, FILES_RESTORED) for members in many]

    @property
    def _control(self) -> TreeControl:
        return self._request.control

    def _log_changed_at(self) -> int:
        there = status(self._session.path / LOG_NAME)
        return there.modified_ns if there is not None else 0


def files_step(session: SessionWithFiles, planned: RewritePlan, request: RestoreRequest) -> FilesStep:
    """The files' half of a planned rewrite.

    Raises:
        FilesUnavailableError: The session keeps no files.
        SnapshotNotFoundError: No snapshot belongs to where the log goes back to.
    """
    tree = session.working_tree()
    if tree is None:
        raise not_kept()
    if planned.snapshot is None:
        raise SnapshotNotFoundError(
            'no snapshot of the files belongs to that state; go back with restore "conversation", or choose a checkpoint'
            " that has one"
        )
    return FilesStep(tree, TreeTarget(planned.snapshot), session, request)


def not_kept() -> FilesUnavailableError:
    """The session keeps no files."""
    return FilesUnavailableError(
        'this session keeps no snapshots of files: open it with files {"mode": "checkpoint"}', reason="notConfigured"
    )
