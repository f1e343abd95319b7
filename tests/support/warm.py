"""What the fork server imports, once: everything a server ever imports, so that one forked off it has nothing left to do."""

from __future__ import annotations

import gc
import importlib
import pkgutil
from contextlib import suppress

import timeleap
import timeleap_agents
import timeleap_lsp
import timeleap_postgresql
import timeleap_protocol
from timeleap_protocol.errors import InvalidParamsError
from timeleap_protocol.methods import REQUESTS

_NOT_FOR_SERVERS = (
    "timeleap.adapters",
    "timeleap.cli",
    "timeleap.client",
    "timeleap.__main__",
    "timeleap_agents.adapters",
    "timeleap_agents.mcp",
    "timeleap_protocol.generate",
)
_STARTS_SERVERS = ("timeleap.__main__", "timeleap.cli.serve")
_IMPORTED_LATE = ("fcntl", "kingfisher_sdk", "openai", "psutil", "psycopg", "re2", "tomllib", "uvloop", "watchfiles")
_OF_TESTS = ("pytest", "tests.support.forked")
"""What a forked process needs to be told what to do, and what programs of tests' own import."""


def _import_all() -> None:
    for package in (timeleap, timeleap_agents, timeleap_lsp, timeleap_postgresql, timeleap_protocol):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_NOT_FOR_SERVERS):
                importlib.import_module(module.name)
    for name in (*_STARTS_SERVERS, *_OF_TESTS):
        importlib.import_module(name)
    for name in _IMPORTED_LATE:
        with suppress(ImportError):  # of another platform, or an extra
            importlib.import_module(name)


def _make_structs() -> None:
    """What params are read into is made when they are first read; of `shutdown` and the like there is nothing to be read."""
    for method in REQUESTS.values():
        with suppress(InvalidParamsError, AttributeError):
            method.read_params({})


try:
    _import_all()
    _make_structs()
except ImportError as error:
    # The fork server would pass over it without a word, and each server would import everything by itself.
    raise RuntimeError(f"a fork server cannot be made ready: {error}") from error
gc.freeze()
