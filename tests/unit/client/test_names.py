"""`timeleap.client` is the package `timeleap_client` under another name, module by module."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import typing

import pytest

import timeleap.client
import timeleap_client
from timeleap_client import AsyncSession, AsyncTimeleap, SyncSession, SyncTimeleap, _models
from timeleap_client._methods_async import AsyncMethods


@pytest.mark.parametrize("name", timeleap_client.__all__)
def test_every_public_name_is_the_same_object(name: str):
    assert getattr(timeleap.client, name) is getattr(timeleap_client, name)


@pytest.mark.parametrize("name", ["errors", "raw", "sync"])
def test_a_submodule_is_the_same_module(name: str):
    alias = importlib.import_module(f"timeleap.client.{name}")
    module = importlib.import_module(f"timeleap_client.{name}")
    assert alias is module
    assert module.__name__ == f"timeleap_client.{name}"
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__


def test_what_is_not_there_is_refused():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("timeleap.client.nothing")
    with pytest.raises(AttributeError):
        timeleap.client.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", ["timeleap.client", "timeleap_client"])
def test_importing_the_package_loads_no_model(package: str):
    code = f"import sys, {package}; sys.exit('pydantic' in sys.modules or 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_a_client_loads_no_model_before_one_is_made():
    code = (
        "import sys\n"
        "from timeleap.client import AsyncSession, AsyncTimeleap, SyncTimeleap\n"
        "assert not {'pydantic', 'msgspec', 'timeleap_protocol.methods'} & sys.modules.keys()\n"
        "AsyncTimeleap(); SyncTimeleap()\n"
        "assert 'pydantic' not in sys.modules\n"
        "from timeleap_client import _models\n"
        "assert _models.shapes.SessionState.__name__ == 'SessionState'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_modules_of_models_are_those_that_exist():
    assert all(getattr(_models, name).__name__ == f"timeleap_protocol.{name}" for name in _models.__all__)
    with pytest.raises(AttributeError):
        _models.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("kind", [AsyncMethods, AsyncTimeleap, AsyncSession, SyncTimeleap, SyncSession])
def test_every_annotation_can_be_resolved(kind: type):
    for name, value in inspect.getmembers(kind, inspect.isfunction):
        if value.__module__.startswith("timeleap_client") and not name.startswith("_"):
            typing.get_type_hints(value)
