"""Ctrl-C at a command: exit code 130 without a traceback, from the first moment to the last.

A `KeyboardInterrupt` can be raised at any instruction, also inside the imports of a starting command, where nothing can
catch it, and at the interpreter's end. So a command begins and ends with a handler that ends the process at once, and
lets the exception be raised only while it does its work, where it is caught and the server behind it is ended in order.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports enum, during which it is not yet quiet
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

EXIT_CODE = 130
"""128 and the number of SIGINT, as shells report it."""


def _end(*_: object) -> None:
    os._exit(EXIT_CODE)


def quiet() -> None:
    """End the process at once from now on; where Ctrl-C is ignored (a background job) or taken already, do nothing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


class Raising:
    """A context in which Ctrl-C raises `KeyboardInterrupt` again, if `quiet` had it end the process."""

    def __enter__(self) -> None:
        self._ours = signal.getsignal(signal.SIGINT) is _end
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, _end)
