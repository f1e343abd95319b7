"""Beginning a new log with the first lines of another one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from timeleap.errors import SessionExistsError
from timeleap.storage import durable
from timeleap.storage.engine import LogState
from timeleap.storage.index import index_path
from timeleap.storage.reader import StoredLog
from timeleap.storage.rewrite import Draft, copy_prefix, wrapped


def fork_log(source: StoredLog, keep_lines: int, target: Path) -> LogState:
    """Make the log `target` of the first lines of another log, damaged ones left out. Blocking, durable, one step.

    Args:
        source: The log to copy from: a timeline's reader, or `JsonlEngine.view`.
        keep_lines: How many of its lines.
        target: The new log's name in an existing directory.

    Returns:
        The state of the new log.

    Raises:
        CorruptedError: A line of the source is not what was written.
        SessionExistsError: There is a log of that name.
        StorageFailureError: The operating system refused.
    """
    try:
        draft = Draft.for_log(target)
    except OSError as error:
        raise wrapped(error, target) from error
    try:
        copy_prefix(draft, source, keep_lines)
        draft.finish()
        if durable.status(target) is not None:
            raise SessionExistsError(f"there is a log at {target.name} already")
        draft.file.close()
        _put_in_place(draft, target)
    except OSError as error:
        draft.discard()
        raise wrapped(error, target) from error
    except BaseException:
        draft.discard()
        raise
    return draft.log.state


def _put_in_place(draft: Draft, target: Path) -> None:
    """Give the draft its name; where that cannot be made durable, it is taken away again."""
    try:
        durable.replace_file(draft.index.path, index_path(target))
        durable.replace_file(draft.file.path, target)
        durable.sync_directory(target.parent)
    except OSError:
        with suppress(OSError):
            durable.remove_file(target)
            durable.remove_file(index_path(target))
        raise
