"""`timeleap`, also as `python -m timeleap`; what programs start, and wait for, loads no command line."""

from __future__ import annotations

import gc
import os
import sys

from timeleap.cli import interrupt
from timeleap.cli.installed_parts import HOOK, PROGRAMS, program
from timeleap.version import __version__

TYPE_CHECKING = False  # see `timeleap/__init__.py`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GLOBAL_OPTIONS_WITH_VALUE = frozenset({"--home", "--log-level", "--log-file", "--durability"})
"""Options that may stand before the command and take the next argument as their value."""


def main() -> int:
    """Run the command of `sys.argv`; returns the exit code."""
    interrupt.quiet()
    occupy_standard_descriptors()
    arguments = sys.argv[1:]
    # The command line answers it in every other place, and says why the output takes nothing.
    if arguments == ["--version"] and interrupt.wrote(f"timeleap {__version__}\n"):
        return 0
    position = command_position(arguments)
    if position is not None and (module := PROGRAMS.get(arguments[position])) is not None:
        # What is imported stays: looking for garbage in it, which serving takes up again, costs a tenth of the start.
        gc.disable()
        code: int = program(module).main(arguments[:position] + arguments[position + 1 :])
        interrupt.quiet()  # the event loop's own handler is gone with it
        return code
    name = None if position is None else arguments[position]
    if name == "hook" and "--help" not in arguments:
        hook: Callable[[Sequence[str]], int] = program(HOOK).main
        return hook(arguments)
    from timeleap.cli.app import main as command_line

    return command_line()


def occupy_standard_descriptors() -> None:
    """Put the null device in the place of standard streams that are closed: else the next file to be opened, or the next
    socket, gets the number, and what a library or a child process prints goes there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # it was closed when Python began
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False))


def command_position(arguments: Sequence[str]) -> int | None:
    """Where the command stands among the arguments: the first one that is neither an option nor an option's value."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] in GLOBAL_OPTIONS_WITH_VALUE else 1
    return position if position < len(arguments) else None


if __name__ == "__main__":
    sys.exit(interrupt.at_end(main))
