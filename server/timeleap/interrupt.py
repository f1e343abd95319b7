"""Ctrl-C at a command: exit code 130 without a traceback, from the first moment to the last.

A `KeyboardInterrupt` can be raised at any instruction, also inside the imports of a starting command, where nothing can
catch it, and at the interpreter's end. So a command begins and ends with a handler that ends the process at once, and
lets the exception be raised only while it does its work, where it is caught and the server behind it is ended in order.
"""

from __future__ import annotations

# `signal` itself imports enum, during which it is not yet quiet.
import _signal as signal  # type: ignore[import-not-found]

from timeleap_command import EXIT_CODE, end, quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["EXIT_CODE", "Raising", "quiet"]


class Raising:
    """A context in which Ctrl-C raises `KeyboardInterrupt` again, if `quiet` had it end the process."""

    _ours = False

    def __enter__(self) -> None:
        self._ours = signal.getsignal(signal.SIGINT) is end
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()

    def over(self) -> None:
        """End the process at Ctrl-C again. Who catches the exception repeats it: it may have cut the exit short."""
        if self._ours:
            signal.signal(signal.SIGINT, end)
