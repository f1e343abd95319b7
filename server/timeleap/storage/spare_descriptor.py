"""A descriptor that a server keeps for the time when there are no more, and lends to what only looks for a moment.

What reads an open session has its files open; but a look into its directory needs one descriptor more.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class SpareDescriptor:
    """A descriptor that is open onto nothing."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._descriptor = -1

    def take(self) -> None:
        """Open it, unless it is open; without one left, a later call tries again."""
        with self._turn:
            self._open()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Free it for a block, one block at a time, and take it back."""
        with self._turn:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
            try:
                yield
            finally:
                self._open()

    def _open(self) -> None:
        if self._descriptor < 0:
            with suppress(OSError):
                self._descriptor = os.open(os.devnull, os.O_RDONLY)


SPARE = SpareDescriptor()
"""The spare descriptor of this process."""


def ran_out(error: OSError) -> bool:
    """Return True if an operation failed for want of descriptors, of this process or of the system."""
    return error.errno in (errno.EMFILE, errno.ENFILE)
