"""The stand-in for `lsprotocol.types` agrees with the real module, and pygls asks for nothing it does not have."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import attrs
import pytest
from lsprotocol import types as real_types

from timeleap.rpc import lsptypes


def run(code: str) -> str:
    """Run `code` in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", lsptypes.CONSTANTS)
def test_constants(name: str) -> None:
    assert getattr(real_types, name) == lsptypes.CONSTANTS[name]


@pytest.mark.parametrize("likeness", [lsptypes.PositionEncodingKind, lsptypes.TextDocumentSyncKind])
def test_enumerations(likeness: type) -> None:
    real = getattr(real_types, likeness.__name__)
    assert {m.name: m.value for m in likeness} == {m.name: m.value for m in real}  # type: ignore[attr-defined]


def test_response_error() -> None:
    names = [field.name for field in fields(lsptypes.ResponseError)]
    assert names == [field.name for field in attrs.fields(real_types.ResponseError)]


@pytest.mark.parametrize("name", sorted(lsptypes.ANNOTATIONS | lsptypes.TABLES))
def test_named_things_exist(name: str) -> None:
    assert hasattr(real_types, name)


def test_pygls_is_imported_without_the_real_module() -> None:
    assert run("import sys, timeleap.rpc.protocol; print('lsprotocol.types' in sys.modules)") == "False"


def test_every_name_is_needed() -> None:
    """The tables are what pygls asks for: no more, so that the next release shows what it added."""
    code = """
import timeleap.rpc.lsptypes as lsptypes
asked = set()
original = lsptypes.StandIn.__getattr__
def note(self, name):
    asked.add(name)
    return original(self, name)
lsptypes.StandIn.__getattr__ = note
import timeleap.rpc.protocol
known = set(lsptypes.CONSTANTS) | lsptypes.ANNOTATIONS | lsptypes.TABLES
print(sorted(known - asked), sorted(name for name in asked - known if not name.startswith("__")))
"""
    assert run(code) == "[] []"


def test_afterwards_the_real_module_is_imported_as_ever() -> None:
    code = "import timeleap.rpc.protocol; from lsprotocol import types; print(types.Position(1, 2))"
    assert run(code) == "1:2"
    code = "import timeleap.rpc.protocol; import lsprotocol.types as t; print(t.Position(1, 2))"
    assert run(code) == "1:2"


def test_any_other_name_is_passed_on_to_the_real_module() -> None:
    code = """
from timeleap.rpc.lsptypes import standing_in
with standing_in():
    from lsprotocol import types
    print(type(types).__name__, types.SymbolKind.File.value, types.Hover.__name__)
"""
    assert run(code) == "StandIn 1 Hover"


def test_tables_are_those_of_the_real_module() -> None:
    code = """
from timeleap.rpc.lsptypes import standing_in
with standing_in():
    from lsprotocol.types import METHOD_TO_TYPES
from lsprotocol import types
print(METHOD_TO_TYPES["shutdown"] == types.METHOD_TO_TYPES["shutdown"], len(METHOD_TO_TYPES) == len(types.METHOD_TO_TYPES),
      set(METHOD_TO_TYPES) == set(types.METHOD_TO_TYPES))
"""
    assert run(code) == "True True True"


def test_a_placeholder_cannot_be_used_by_mistake() -> None:
    code = """
from timeleap.rpc.lsptypes import standing_in
with standing_in():
    from lsprotocol.types import Position
try:
    Position(1, 2)
except TypeError as error:
    print(error)
"""
    assert "placeholder" in run(code)


def test_the_real_module_is_left_alone_where_it_is_loaded() -> None:
    code = """
import lsprotocol.types as before
import timeleap.rpc.protocol
import lsprotocol.types as after, pygls.protocol.json_rpc as rpc
print(before is after, rpc.ResponseError is before.ResponseError)
"""
    assert run(code) == "True True"
