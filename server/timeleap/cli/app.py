"""The command line as a whole: `timeleap --help`."""

from __future__ import annotations

import importlib
import io
import itertools
import os
import sys
from collections.abc import Sequence

from timeleap.cli.arguments import NotPlainError, read
from timeleap.cli.command import FAILED, MISUSED, Home, Machine, run_command
from timeleap.cli.formatting import safe
from timeleap.cli.installed_parts import PACKAGES, missing
from timeleap.cli.parameters import Commands
from timeleap.cli.terminal import Exit, Terminal, forget_output
from timeleap.optional_parts import part

TYPE_CHECKING = False  # see `timeleap/__init__.py`
if TYPE_CHECKING:
    import typer

_MODULES = {
    "demo": ("demo",),
    "inspect": ("state", "sessions", "log", "show", "tail", "search", "at", "diff"),
    "create": ("new", "append", "checkpoint", "fork"),
    "describing": (*("yolo", "title", "system-prompt", "tokens", "usage", "auto-approve", "subagents"),),
    "deciding": ("approvals", "approve", "reject", "afk"),
    "revert": ("revert", "undo", "redo", "restore", "compact", "clear", "pins", "dmail"),
    "workspace": ("workspace",),
    "workspace_files": ("files",),
    "carrying": ("export", "import"),
    "maintain": (
        *("archive", "unarchive", "audit", "verify", "repair", "trash"),
        *("storage", "prune", "redact"),
    ),
    "settings": ("config",),
    "store_commands": ("store",),
    "timeleap_agents.hooks.commands": ("agents", "hook"),
    "calling": ("call", "schema", "serve", "mcp"),
}
"""The commands of each module, here or elsewhere, in the order of the overview."""


def modules(command: str | None = None) -> list[Commands]:
    """The modules that `command` needs, so that a person does not wait for all the others; else all that are installed.

    Raises:
        ModuleNotFoundError: The package of `command` is not installed.
    """
    places = {name if "." in name else f"timeleap.cli.{name}": commands for name, commands in _MODULES.items()}
    needed = [place for place, commands in places.items() if command in commands]
    if needed:
        return [importlib.import_module(place).app for place in needed]
    return [module.app for module in map(part, places) if module is not None]


def application(command: str | None = None) -> typer.Typer:
    """The command line as far as `command` needs it, else whole, as the library has it."""
    from timeleap.cli import typer_app

    return typer_app.application(modules(command))


def main(command: str | None = None) -> int:
    """Run the command of `sys.argv`, `command` where that is known; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows, or LANG=C: what a message holds must never end a command.
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _run(command)
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


def _run(command: str | None) -> int:
    try:
        return _run_plain(command, sys.argv[1:])
    except NotPlainError:
        return _run_any(application(command))


def _run_plain(command: str | None, arguments: Sequence[str]) -> int:
    """Run a plain command line without the library; returns the exit code.

    Raises:
        NotPlainError: It is none; nothing was done.
    """
    if "_TIMELEAP_COMPLETE" in os.environ or not any(command in commands for commands in _MODULES.values()):
        raise NotPlainError
    call = read(arguments, modules(command)[0], Home, Machine)
    try:
        run_command(call.command, call.taken, Terminal(call.home, call.machine), call.values)
    except Exit as end:
        return end.exit_code
    except Exception as error:
        return _aborted(error)
    return 0


def _aborted(error: Exception) -> int:
    """The exit code of a command whose question nobody answered, which is said; other errors are raised again."""
    from typer import Abort, rich_utils

    if not isinstance(error, Abort | EOFError):
        raise error
    if isinstance(error, EOFError):
        sys.stderr.write("\n")
    rich_utils.rich_abort_error()
    return FAILED


def _run_any(app: typer.Typer) -> int:
    try:
        if "--json" in itertools.takewhile(lambda word: word != "--", sys.argv[1:]):
            sys.exit(_for_machines(app))
        sys.exit(_for_people(app))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _for_people(app: typer.Typer) -> int | None:
    """Run the command line; the parser's own errors, which repeat what was typed, are made safe for a terminal."""
    from typer import Abort

    try:
        code: int | None = app(prog_name="timeleap", standalone_mode=False)
    except Abort as error:
        return _aborted(error)
    except Exception as error:
        from typer import rich_utils

        # The classes of the parser's errors are at another place in each version of typer.
        message = getattr(error, "message", None)
        if not isinstance(message, str) or not hasattr(error, "format_message"):
            raise
        error.message = safe(message)  # type: ignore[attr-defined]
        rich_utils.rich_format_error(error)  # type: ignore[arg-type]
        return getattr(error, "exit_code", MISUSED)
    return code


def _for_machines(app: typer.Typer) -> int | None:
    """Run the command line, the parser's own errors told in JSON; returns the exit code."""
    from typer import Abort

    try:
        code: int | None = app(prog_name="timeleap", standalone_mode=False)
    except Abort:
        return FAILED
    except Exception as error:
        # The classes of the parser's errors are at another place in each version of typer.
        formatted = getattr(error, "format_message", None)
        if formatted is None:
            raise
        message = str(formatted())
        Terminal(None, machine=True).fail([message], {"kind": "usage", "message": message})
        return getattr(error, "exit_code", MISUSED)
    return code
