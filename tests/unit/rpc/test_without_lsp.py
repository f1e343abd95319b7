"""pygls is imported without `lsprotocol.types`, and nobody else in the process notices."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    """Run `code` in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pygls_is_imported_without_the_real_module() -> None:
    code = "import sys, timeleap.rpc.protocol; print([n for n in sys.modules if n.startswith(('pygls', 'lsprotocol'))])"
    assert run(code) == "[]"


def test_afterwards_the_real_module_is_imported_as_ever() -> None:
    code = "import timeleap.rpc.protocol; from lsprotocol import types; print(types.Position(1, 2))"
    assert run(code) == "1:2"
    code = "import timeleap.rpc.protocol; import lsprotocol.types as t; print(t.Position(1, 2))"
    assert run(code) == "1:2"


def test_afterwards_pygls_is_imported_with_the_real_module() -> None:
    code = """
import timeleap.rpc.protocol
from lsprotocol import types
from pygls import capabilities, exceptions
from pygls.lsp.server import LanguageServer
from pygls.protocol import json_rpc, language_server
print(LanguageServer("a", "1").protocol.fm.builtin_features.keys() >= {types.INITIALIZE, types.SHUTDOWN, types.EXIT})
print(exceptions.ResponseError is json_rpc.ResponseError is types.ResponseError, json_rpc.CANCEL_REQUEST)
print(capabilities.types is language_server.types is types)
"""
    assert run(code).splitlines() == ["True", "True $/cancelRequest", "True"]


def test_ours_and_another_pygls_do_not_meet() -> None:
    code = """
from timeleap.rpc.protocol import EdgeProtocol
from pygls.lsp.server import LanguageServer
from pygls.protocol.json_rpc import JsonRPCProtocol
print("theirs" if issubclass(EdgeProtocol, JsonRPCProtocol) else "ours")
"""
    assert run(code) == "ours"


def test_a_placeholder_cannot_be_used_by_mistake() -> None:
    code = """
from timeleap.rpc.protocol import without_lsp
with without_lsp():
    from lsprotocol.types import Position
    from lsprotocol import types
print(types.Position.Inner.__name__)
try:
    Position(1, 2)
except TypeError as error:
    print(error)
"""
    assert run(code).startswith("Inner\nPosition is a placeholder")


def test_the_real_module_is_left_alone_where_it_is_loaded() -> None:
    code = """
import lsprotocol.types as before
import timeleap.rpc.protocol
import lsprotocol.types as after, pygls.protocol.json_rpc as rpc
print(before is after, rpc.ResponseError is before.ResponseError, rpc.JsonRPCProtocol in timeleap.rpc.protocol.EdgeProtocol.__mro__)
"""
    assert run(code) == "True True True"
