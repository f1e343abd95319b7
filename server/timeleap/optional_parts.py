"""Loading what an installation may lack: features, and the packages beside the server's own."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def part(name: str) -> Any:
    """Load a module by its whole name; None where this installation does not have its package."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        # What the module itself lacks is a fault, and no part that was left out.
        if error.name is None or not name.startswith(error.name):
            raise
        return None
