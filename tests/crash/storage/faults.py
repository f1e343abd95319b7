"""System calls that fail: the N-th that the storage layer makes, once or from then on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.crash.storage.system import stand_in_for_os
from tests.support import figures

CHANGING = (
    "open", "write", "pwrite", "copy_file_range", "ftruncate", "fdatasync", "fsync", "replace", "link", "unlink",
)  # fmt: skip
READING = ("pread", "fstat", "lstat", "lseek", "listdir")


class FaultyOs:
    """Stands in for the `os` of the storage layer.

    Args:
        code: The error.
        first: Which call of those that count fails, from 1; 0 = none.
        onwards: All later ones too.
        calls: The names that count.
        short: A failing write takes half of its data first.
    """

    def __init__(
        self, code: int, first: int, *, onwards: bool, calls: tuple[str, ...] = CHANGING, short: bool = False
    ) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self._code, self._first, self._onwards, self._short = code, first, onwards, short
        for name in calls:
            setattr(self, name, self._failing(name))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @property
    def supports_follow_symlinks(self) -> set[Any]:
        return {*os.supports_follow_symlinks, self.link}

    def begin(self, first: int) -> None:
        """Count from here."""
        self.passed, self._first = 0, first

    def heal(self) -> None:
        """Nothing fails any more."""
        self._first = 0

    def _failing(self, name: str) -> Any:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            self.passed += 1
            due = self._first and (self.passed >= self._first if self._onwards else self.passed == self._first)
            if not due:
                return real(*args, **options)
            self.failed.append(name)
            if self._short and name in ("write", "pwrite") and len(args[1]) > 1:
                return real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
            raise OSError(self._code, os.strerror(self._code))

        return call


@contextmanager
def faults(
    code: int = errno.EIO,
    first: int = 0,
    *,
    onwards: bool = False,
    calls: tuple[str, ...] = CHANGING,
    short: bool = False,
) -> Iterator[FaultyOs]:
    """Let calls fail for the length of the block."""
    with pytest.MonkeyPatch.context() as patch:
        faulty = FaultyOs(code, first, onwards=onwards, calls=calls, short=short)
        stand_in_for_os(patch, faulty)
        yield faulty
        figures.count(failed_calls=len(faulty.failed))
