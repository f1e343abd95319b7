"""Programs that the command starts, and packages that an installation may lack."""

from __future__ import annotations

import sys
from typing import Any

from timeleap.optional_parts import part

FAILED = 1
PROGRAMS = {"serve": "timeleap.cli.serve", "mcp": "timeleap_agents.mcp.stdio_server"}
"""Modules of commands that programs start: their `main` takes the arguments without the command's name."""
HOOK = "timeleap_agents.hooks.hook"
"""The module of `timeleap hook`, which is started at each turn of an agent."""
PACKAGES = ("timeleap_agents", "timeleap_lsp", "timeleap_postgresql")
"""Packages beside the server's own, which it does without where they are not installed."""


def program(name: str) -> Any:
    """Load the module of a command that programs start; ends the process where its package is not installed."""
    found = part(name)
    if found is None:
        sys.stderr.write(f"error: {missing(name)}\n")
        sys.exit(FAILED)
    return found


def missing(name: str) -> str:
    """The error message for a module, or a package, that is not installed."""
    return f"this installation does not do this: its package {name.partition('.')[0]} is missing"
