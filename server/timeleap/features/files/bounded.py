"""Reads small files that anybody may have put there: without waiting for a pipe, and never more than a limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

LARGEST: Final = 1 << 20
"""Bytes of a file of settings or patterns; git itself reads such files whole, whatever they are."""

_OPEN: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class UnfitFileError(Exception):
    """The file is no regular one, is too long, or cannot be read."""


def read_bounded(path: Path | str, *, limit: int = LARGEST, follow: bool = True) -> bytes | None:
    """The content of a file; None where there is none. `follow`: also where a link leads to it.

    Raises:
        UnfitFileError: It is something else, is longer than `limit` bytes, or cannot be read.
    """
    try:
        file = os.open(path, _OPEN | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnfitFileError(str(path)) from error
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            raise UnfitFileError(str(path))
        content = bytearray()
        while block := os.read(file, limit + 1 - len(content)):
            content += block
            if len(content) > limit:
                raise UnfitFileError(str(path))
        return bytes(content)
    except OSError as error:
        raise UnfitFileError(str(path)) from error
    finally:
        os.close(file)


def is_fit(path: Path, *, limit: int | None = LARGEST) -> bool:
    """True for nothing, and for a regular file of at most `limit` bytes (None: of any length), also behind a link."""
    try:
        facts = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and (limit is None or facts.st_size <= limit)
