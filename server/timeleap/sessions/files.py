"""Small JSON files beside a log: read with suspicion, written whole, moved aside when damaged.

Whatever lies in a session's directory may have been put there by anybody: a link, a FIFO that blocks for ever, a
gigabyte of brackets. Reading never follows, never waits, never raises for what it finds; it says what is wrong.
"""

from __future__ import annotations

import errno
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeleap import clock
from timeleap.errors import StorageFailureError, TooLargeError
from timeleap.storage.durable import (
    OpenFile,
    atomic_write,
    is_regular,
    link_exclusive,
    list_directory,
    remove_file,
    replace_file,
    status,
    sync_directory,
)
from timeleap.storage.lock import FileLock

MAX_BYTES = 16 << 20
"""A larger file is not one of ours."""
MAX_MEMBER_BYTES = 4 << 20
"""A larger member could make a file that nobody would read any more."""
MAX_KEPT_ASIDE = 10
"""Of a file that is damaged again and again so many damaged ones are kept, the newest."""
LOCK_SECONDS = 5.0
"""How long to wait for another process that changes a small file; it takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object read from a file.

    Attributes:
        members: The object; empty where the file is missing or unusable.
        problem: Why the file cannot be used, in words; None in good order.
        present: Whether there is a file (or something else) of that name.
    """

    members: dict[str, Any]
    problem: str | None = None
    present: bool = True


def read_document(path: Path) -> Document:
    """Read the JSON object in `path`."""
    try:
        members = _loads(read_bytes(path).decode("utf-8"))
    except FileNotFoundError:
        return Document({}, present=False)
    except OSError as error:
        return Document({}, f"{path.name} cannot be read: {error.strerror or error}")
    except RecursionError:
        return Document({}, f"{path.name} is nested too deeply")
    except ValueError as error:
        return Document({}, f"{path.name} is not JSON: {error}")
    if not isinstance(members, dict):
        return Document({}, f"{path.name} is not a JSON object")
    return Document(members)


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise
    except ValueError:
        # An integer of thousands of digits is not worth the whole document: it becomes a number that no model takes.
        return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 100 else math.inf)


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of an ordinary file of at most `limit` bytes.

    Raises:
        OSError: It cannot be read, or is no ordinary file.
        ValueError: It is larger.
    """
    file = OpenFile(path)
    try:
        size = file.status().size
        if size > limit:
            raise ValueError(f"larger than {limit} bytes")
        return file.pread(0, size)
    finally:
        file.close()


def encode_document(members: dict[str, Any]) -> bytes:
    """The bytes of a JSON object, in the original program's layout."""
    try:
        return json.dumps(members, indent=2, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate that somebody wrote as an escape goes back as one
        return json.dumps(members, indent=2).encode("ascii")


def check_size(changes: Mapping[str, Any]) -> None:
    """Refuse what would make a file too large to be read again.

    Raises:
        TooLargeError: A member is.
    """
    for name, value in changes.items():
        size = len(encode_document({name: value}))
        if size > MAX_MEMBER_BYTES:
            raise TooLargeError(
                f"{name} may have {MAX_MEMBER_BYTES} bytes as JSON, not {size}: nothing was changed",
                limit="maxStateBytes",
                maximum=MAX_MEMBER_BYTES,
            )


def write_document(path: Path, members: dict[str, Any]) -> None:
    """Put a JSON object in the place of `path`, atomically and durably, readable by the user only.

    Raises:
        StorageFailureError: The old file is unchanged.
        TooLargeError: It would be too large to be read again; the old file is unchanged.
    """
    data = encode_document(members)
    if len(data) > MAX_BYTES:
        raise TooLargeError(
            f"{path.name} may have {MAX_BYTES} bytes, not {len(data)}: nothing was changed",
            limit="maxStateBytes",
            maximum=MAX_BYTES,
        )
    try:
        atomic_write(path, data)
    except StorageFailureError:
        raise
    except OSError as error:
        raise StorageFailureError.of(error, f"write {path.name}", path) from error


def move_aside(path: Path) -> Path:
    """Give a damaged file, which is about to be replaced, a name under which it is kept, and return that.

    Raises:
        StorageFailureError: It could not be moved.
    """
    aside = path.with_name(f"{path.stem}.damaged-{int(clock.now())}-{clock.new_uid(4)}{path.suffix}")
    try:
        # A second name, where there can be one: a crash before the new file is written then leaves the old one in place.
        if not (is_regular(path) and link_exclusive(path, aside)):
            replace_file(path, aside)
        sync_directory(path.parent)
    except StorageFailureError:
        raise
    except OSError as error:
        raise StorageFailureError.of(error, f"move the damaged {path.name} aside", path) from error
    with suppress(OSError):  # the next one tries again
        others = [name for name in _kept_aside(path) if name != aside.name]
        for name in others[MAX_KEPT_ASIDE - 1 :]:
            remove_file(path.with_name(name))
    return aside


def _kept_aside(path: Path) -> list[str]:
    """The damaged files that were kept of a file, newest first."""
    form = re.compile(rf"{re.escape(path.stem)}\.damaged-([0-9]{{9,12}})-[0-9a-f]{{4}}{re.escape(path.suffix)}")
    found = [
        (int(match[1]), there.modified_ns, name)
        for name in list_directory(path.parent)
        if (match := form.fullmatch(name)) and (there := status(path.with_name(name)))
    ]
    return [name for _, _, name in sorted(found, reverse=True)]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` for a moment, waiting for its present holder.

    Raises:
        OSError: It cannot be made, or another process does not let go of it.
    """
    lock = FileLock(path)
    deadline = time.monotonic() + LOCK_SECONDS
    while not lock.try_acquire():
        if time.monotonic() > deadline:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock", str(path))
        time.sleep(0.005)
    try:
        yield
    finally:
        lock.release()
