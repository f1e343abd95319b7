"""The `timeleap` command's way in: sees to Ctrl-C before anything else is imported.

A module of its own beside the package, because a console script that names a module inside it loads the whole way there
first, and a Ctrl-C meanwhile is a traceback. For the same reason nothing is imported here but what Python has loaded
already. Importing this changes nothing; `main` does. `timeleap.cli.interrupt` takes over from it.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports enum, during which it is not yet quiet
import os


def main() -> int:
    """Run the command of `sys.argv`; returns the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, or taken
        signal.signal(signal.SIGINT, _end)
    from timeleap.__main__ import main as command
    from timeleap.cli.interrupt import at_end

    return at_end(command)


def _end(*_: object) -> None:
    os._exit(130)  # `timeleap.cli.interrupt.EXIT_CODE`
