"""The `timeleap` command's way in: sees to Ctrl-C before anything else is imported.

A module of its own beside the package, because a console script that names a module inside it loads the whole way there
first, and a Ctrl-C meanwhile is a traceback. For the same reason nothing is imported here but what Python has loaded
already. Importing this changes nothing; `main` does.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports enum, during which it is not yet quiet
import os

EXIT_CODE = 130
"""128 and the number of SIGINT, as shells report it."""


def end(*_: object) -> None:
    """The handler: end the process at once."""
    os._exit(EXIT_CODE)


def quiet() -> None:
    """End the process at once from now on; where Ctrl-C is ignored (a background job) or taken already, do nothing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def main() -> int:
    """Run the command of `sys.argv`; returns the exit code."""
    quiet()
    from timeleap.__main__ import main as command

    return command()
