"""Every error Timeleap raises on purpose, in one tree.

Each class has a `kind` (the wire's stable `data.kind`), says whether the same request may succeed later
(`retryable`), and carries what a program needs in `data`. The second bases are those of the original program's
errors, so that code written for it catches them unchanged. How they look on the wire is decided in one function,
`timeleap.rpc.errors.to_wire`.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar, Final


class TimeleapError(Exception):
    """The root of all errors raised on purpose.

    `message` says in words what was wrong, and what to do; `data` are members of `error.data`, by their wire names.
    """

    kind: ClassVar[str] = "internalError"
    retryable: bool = False

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return self.message


class InvalidInputError(TimeleapError, ValueError):
    """A value handed in cannot be used. `errors` is a list of `{loc, msg, type}`."""

    kind = "invalidParams"

    @classmethod
    def of(cls, name: str, why: str, *, between: str = ": ") -> InvalidInputError:
        """Refuse the param `name`; `why` completes the sentence "`name` ..."."""
        return cls(f"{name}{between}{why}", errors=[{"loc": [name], "msg": why, "type": name}])


class InvalidSessionIdError(InvalidInputError):
    kind = "invalidSessionId"


class TooLargeError(InvalidInputError):
    """A message is over the limits of size or nesting."""

    kind = "tooLarge"


class SessionNotFoundError(TimeleapError, LookupError):
    kind = "sessionNotFound"


class SessionNotOpenError(TimeleapError):
    """The session exists, but this connection has not opened it."""

    kind = "sessionNotOpen"


class SessionExistsError(TimeleapError):
    kind = "sessionExists"


class CheckpointNotFoundError(TimeleapError, ValueError):
    kind = "checkpointNotFound"


class TimelineNotFoundError(TimeleapError, LookupError):
    kind = "timelineNotFound"


class SessionLockedError(TimeleapError, RuntimeError):
    """Another process writes to the session; `owner` is `{pid, host, since}` where known."""

    kind = "sessionLocked"
    retryable = True


class NotSupportedByStoreError(TimeleapError):
    kind = "notSupportedByStore"


class ReadOnlyError(TimeleapError):
    """The session was opened to look at, not to change."""

    kind = "readOnly"


class HeadConflictError(TimeleapError):
    """The log has changed since `expectedHead`; `head` is the present one."""

    kind = "contentModified"
    retryable = True


class ExternallyModifiedError(TimeleapError):
    """A program that does not take our lock changed the log; reload to take over its state."""

    kind = "externallyModified"


class CorruptedError(TimeleapError):
    """Stored data is damaged; `path` and, where known, `offset` say where."""

    kind = "corrupted"


LASTING: Final = frozenset(
    (
        "EACCES", "EEXIST", "EINVAL", "EISDIR", "ELOOP",
        "ENAMETOOLONG", "ENODEV", "ENOENT", "ENOSYS", "ENOTDIR", "ENOTEMPTY",
        "ENOTSUP", "ENXIO", "EOPNOTSUPP", "EPERM", "EROFS", "EXDEV",
    )
)  # fmt: skip
"""Refusals of the operating system that stay until somebody changes something: waiting does not help."""


class StorageFailureError(TimeleapError, OSError):
    """The operating system refused (disk full, no permission, ...); `path` and `errno` (its symbolic name) say what.

    `unchanged`: it is known that nothing was changed, and the same may succeed at once.
    """

    kind = "storageFailure"
    retryable = True
    unchanged = False

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message, **data)
        if data.get("errno") in LASTING:
            self.retryable = False

    @classmethod
    def of(cls, error: OSError, action: str, path: object = None) -> StorageFailureError:
        """Wrap `error`; `action` completes the sentence "cannot ..."."""
        where = str(path if path is not None else error.filename or "")
        name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")
        why = error.strerror or str(error)
        return cls(f"cannot {action}: {why}", path=where, errno=name)


class RotationUnavailableError(StorageFailureError, RuntimeError):
    """There is no name under which the log could be set aside; nothing was changed."""


class AlreadyRestoredError(TimeleapError, RuntimeError):
    """`restore` works once an object: a second one would double the history."""


class CompactionFailedError(TimeleapError):
    """No usable summary; the log is unchanged."""

    kind = "compactionFailed"
    retryable = True


class DMailPendingError(TimeleapError):
    kind = "dmailPending"


class NoPendingDMailError(TimeleapError):
    kind = "noPendingDMail"


class UndoUnavailableError(TimeleapError):
    """Fewer steps can be undone than were asked for; `canUndo` and `canRedo` say how many."""

    kind = "nothingToUndo"


class RedoUnavailableError(TimeleapError):
    """Fewer steps can be redone than were asked for; `canUndo` and `canRedo` say how many."""

    kind = "nothingToRedo"


class OverloadedError(TimeleapError):
    """There is more of something than can be held; it may succeed later."""

    kind = "overloaded"
    retryable = True


class FilesUnavailableError(TimeleapError):
    """The workspace's files cannot be kept; `reason` is `noGit`, `notConfigured`, `rootMissing` or `rootUnsafe`."""

    kind = "filesUnavailable"


class FilesConflictError(TimeleapError):
    """Files were changed by somebody else since; `paths` are the first of them, `more` how many are not listed."""

    kind = "filesConflict"


class FilesIncompleteError(TimeleapError):
    """Files are neither as before nor as they should be; `before` and `target` are the snapshots of both states,
    `paths` the first of the files that are neither, `more` how many are not listed."""

    kind = "filesIncomplete"


class FilesTooLargeError(TimeleapError):
    """The workspace has more than a snapshot may hold; `files`, `limit`: how many there are and may be."""

    kind = "filesTooLarge"


class FilesBusyError(TimeleapError):
    """Another process takes or restores a snapshot of the same folder."""

    kind = "filesBusy"
    retryable = True


class SnapshotNotFoundError(TimeleapError, LookupError):
    kind = "snapshotNotFound"


class ApprovalNotPendingError(TimeleapError, LookupError):
    """No request for an approval of that id waits for a decision."""

    kind = "approvalNotPending"


class ApprovalTimeoutError(TimeleapError):
    """Nobody decided in time; a repeat asks again."""

    kind = "approvalTimeout"
    retryable = True


class ClientRequestError(TimeleapError):
    """The client did not answer a request of ours: `reason` is `refused`, `timeout` or `gone`."""

    retryable = True


class CancelledError(TimeleapError):
    """The request was cancelled before anything was written."""

    kind = "cancelled"
