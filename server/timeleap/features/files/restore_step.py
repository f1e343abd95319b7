"""Files that go back with the log: the half of a rewrite that is not in the log.

Order: the files first, under an intent that carries a token; then the log's own step, whose note in `timeleap.json` has
that token; then the intent goes. So whenever a process dies the next opening can tell from the note whether the log has
gone, and the files follow it: forward, or back to what they were.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from timeleap import clock
from timeleap.call import WorkControl
from timeleap.errors import SnapshotNotFoundError, TimeleapError
from timeleap.features.files.kept_form import FOLLOWED, MEMBER, snapshot_of
from timeleap.features.files.tree_port import PendingRestore, TreeOf, TreeTarget, WorkingTree
from timeleap.json_value import Json
from timeleap.sessions.companion import RestoreCancelledError, RewriteScope, not_kept
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.past import read_checkpoint
from timeleap.sessions.shapes import Event
from timeleap.storage.durable import failpoint, status

if TYPE_CHECKING:
    from timeleap.sessions.kernel.change import LogRewrite
    from timeleap.sessions.transaction import SessionTransactions
    from timeleap.storage.log_values import LogState
    from timeleap.storage.reader import LogReader

RESTORED: Final = "files/didRestore"
_logger = logging.getLogger(__name__)


class FilesStep:
    """The files' half of one request: begun, then settled as the log's half went.

    Attributes:
        token: By which the log's half is known; None as long as there is nothing that the files go back to.
        before: The snapshot of what was there, once it is begun.
        done: It is to stay, whatever the session's notes say.
    """

    key, followed = MEMBER, FOLLOWED
    token: str | None = None
    before: str | None = None
    done = False
    _pending: PendingRestore | None = None
    _tree: WorkingTree
    _target: TreeTarget

    def __init__(self, session: SessionTransactions, tree_of: TreeOf, request: RewriteScope) -> None:
        self._session, self._tree_of, self._request = session, tree_of, request

    def aim(self, target: TreeTarget | None) -> None:
        """Let the files go back to a target.

        Raises:
            FilesUnavailableError: The session keeps no files.
            SnapshotNotFoundError: There is no target.
        """
        tree = self._tree_of(self._session.path, self._session.meta)
        if tree is None:
            raise not_kept()
        if target is None:
            raise SnapshotNotFoundError(
                "no snapshot of the files belongs to that state; go back with restore "
                '"conversation", or choose a checkpoint that has one'
            )
        self._tree, self._target, self._pending = tree, target, None
        self.token, self.before = f"{self._session.meta.uid}.{clock.new_uid(16)}", None

    def foretell(self) -> Json:
        """Members of the result of a dry run. Blocking."""
        return self._tree.foretell(self._target, self._request.on_conflict, self._log_changed_at(), self._control)

    def prepare(self) -> None:
        """Put the files back. Blocking.

        Raises:
            RestoreCancelledError: Nobody wants it any more; the files are as they were.
            TimeleapError: The files are as they were.
        """
        if self.token is None:
            return
        self._tree.recover(partial(self._session.state.followed, FOLLOWED))  # what an earlier request could not settle
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
            if self.done or self._session.state.followed(FOLLOWED, self.token or ""):
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
        """Events about the files, for listeners."""
        many = self._pending.events if self._pending is not None else ()
        return [Event("filesRestored", head, members, RESTORED) for members in many]

    @property
    def _control(self) -> WorkControl:
        return self._request.control

    def _log_changed_at(self) -> int:
        there = status(self._session.path / LOG_NAME)
        return there.modified_ns if there is not None else 0


def target_of(rewrite: LogRewrite) -> TreeTarget | None:
    """The snapshot that belongs to where a rewrite goes back to, if one does."""
    snapshot = snapshot_of(rewrite.kept_there.get(MEMBER))
    if snapshot is None and rewrite.message_index is not None:
        snapshot = _newest_before(rewrite.source, rewrite.kept)
    return None if snapshot is None else TreeTarget(snapshot)


def _newest_before(log: LogReader, state: LogState) -> str | None:
    """The newest snapshot among the checkpoints that a log has at a state; None if none has one."""
    for ordinal in range(state.checkpoints - 1, -1, -1):
        checkpoint = read_checkpoint(log, log.line_of_checkpoint(ordinal), messages=0)
        snapshot = snapshot_of(checkpoint.kept.get(MEMBER))
        if snapshot is not None:
            return snapshot
    return None
