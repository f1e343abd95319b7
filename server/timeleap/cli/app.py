"""The `timeleap` command, from its arguments to its exit code."""

from __future__ import annotations

import io
import itertools
import os
import sys
from collections.abc import Sequence

from timeleap.cli.arguments import HelpAsked, MisuseError, read
from timeleap.cli.command import FAILED, MISUSED, run_command
from timeleap.cli.command_table import load
from timeleap.cli.completion import answer
from timeleap.cli.help import suggestion, tell, way_out
from timeleap.cli.installed_parts import PACKAGES, missing
from timeleap.cli.terminal import Exit, Terminal, forget_output


def main() -> int:
    """Run the command of `sys.argv`; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows, or LANG=C: what a message holds must never end a command.
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        return 0
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        message = missing(package)
        Terminal(None, machine="--json" in sys.argv).fail([message], {"kind": "notSupported", "message": message})
        return FAILED
    except OSError as error:  # of help, and of a command's last lines: a full disk
        forget_output()
        sys.stderr.write(f"error: the output cannot be written: {error.strerror}\n")
        return FAILED
    return code


def _run(arguments: Sequence[str]) -> int:
    if "_TIMELEAP_COMPLETE" in os.environ:
        return answer(os.environ)
    try:
        meant = read(arguments, load)
        if isinstance(meant, HelpAsked):
            return tell(meant)
        run_command(meant.command, meant.taken, Terminal(meant.home, meant.machine), meant.values)
    except MisuseError as error:
        return _refuse(error, machine="--json" in itertools.takewhile(lambda word: word != "--", arguments))
    except Exit as end:
        return end.exit_code
    return 0


def _refuse(error: MisuseError, *, machine: bool) -> int:
    message = "; ".join(filter(None, (str(error), suggestion(error))))
    Terminal(None, machine).fail([message, *way_out(error)], {"kind": "usage", "message": message})
    return MISUSED
