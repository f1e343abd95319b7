"""Ctrl-C at a command: exit code 130 without a traceback, from the first moment to the last; and being asked to end.

A `KeyboardInterrupt` can be raised at any instruction, also inside the imports of a starting command, where nothing can
catch it, and at the interpreter's end. So a command begins and ends with a handler that ends the process at once, and
lets the exception be raised only while it does its work, where it is caught and the server behind it is ended in order.
While it does its work, SIGTERM and the end of its terminal are an exception, too, with the same end: the server, which
may be a part of this process, finishes what it accepted; then the signal does what it does to every program.
"""

from __future__ import annotations

# `signal` itself imports enum, during which it is not yet quiet.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

EXIT_CODE = 130
"""128 and the number of SIGINT, as shells report it."""
_REQUESTS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def end(*_: object) -> None:
    """The handler: end the process at once."""
    os._exit(EXIT_CODE)


def quiet() -> None:
    """End the process at once from now on; where Ctrl-C is ignored (a background job) or taken already, do nothing."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler or getattr(handler, "__module__", None) == "timeleap_command":
        signal.signal(signal.SIGINT, end)


def wrote(text: str) -> bool:
    """Write to the standard output; False if it takes nothing."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        return False
    return True


class _ExitAtOnce:
    """The end of the process without its teardown: taking hundreds of modules apart, to no use, takes a fifth of the time
    of a command. All that has to be done at the end has been done by then."""

    code: int | None = None

    def __call__(self) -> None:
        if self.code is None:
            return  # an exception, which is shown as ever
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            return  # closed, or full: the interpreter says so, and has an exit code of its own for it
        os._exit(self.code)


def at_end(command: Callable[[], int]) -> int:
    """Run `command`, with whose exit code this process ends, as soon as all exit handlers have run."""
    import atexit

    ending = _ExitAtOnce()
    if not atexit._ncallbacks():  # the first one registered runs last; who was there before wants to be run, too
        atexit.register(ending)
    code = ending.code = command()
    return code


class AskedToEndError(BaseException):
    """The process got a signal by which it has to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def repeat(self) -> None:
        """End by the signal, as if nothing had held it up."""
        signal.signal(self.number, signal.SIG_DFL)
        os.kill(os.getpid(), self.number)


def _ask(number: int, _frame: object) -> None:
    for each in _REQUESTS:  # whoever asks twice does not want to wait
        if signal.getsignal(each) is _ask:
            signal.signal(each, signal.SIG_DFL)
    raise AskedToEndError(number)


class Raising:
    """A context in which Ctrl-C raises `KeyboardInterrupt` again, if `quiet` had it end the process, and requests to
    end are raised as `AskedToEndError`."""

    _ours = False

    def __enter__(self) -> None:
        self._ours = signal.getsignal(signal.SIGINT) is end
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in _REQUESTS:
                if signal.getsignal(number) is signal.SIG_DFL:  # not if it is ignored: nohup
                    signal.signal(number, _ask)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over()

    def over(self) -> None:
        """End the process at Ctrl-C again. Who catches the exception repeats it: it may have cut the exit short."""
        if self._ours:
            signal.signal(signal.SIGINT, end)
            for number in _REQUESTS:
                if signal.getsignal(number) is _ask:
                    signal.signal(number, signal.SIG_DFL)
