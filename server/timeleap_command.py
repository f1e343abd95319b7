"""The `timeleap` command's way in: sees to Ctrl-C before anything else is imported.

A module of its own beside the package, because a console script that names a module inside it loads the whole way there
first, and a Ctrl-C meanwhile is a traceback. For the same reason nothing is imported here but what Python has loaded
already. Importing this changes nothing; `main` does.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports enum, during which it is not yet quiet
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_CODE = 130
"""128 and the number of SIGINT, as shells report it."""


def end(*_: object) -> None:
    """The handler: end the process at once."""
    os._exit(EXIT_CODE)


def quiet() -> None:
    """End the process at once from now on; where Ctrl-C is ignored (a background job) or taken already, do nothing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


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


def main() -> int:
    """Run the command of `sys.argv`; returns the exit code."""
    quiet()
    from timeleap.__main__ import main as command

    return at_end(command)


def at_end(command: "Callable[[], int]") -> int:
    """Run `command`, with whose exit code this process ends, as soon as all exit handlers have run."""
    import atexit

    ending = _ExitAtOnce()
    if not atexit._ncallbacks():  # the first one registered runs last; who was there before wants to be run, too
        atexit.register(ending)
    code = ending.code = command()
    return code
