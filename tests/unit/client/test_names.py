"""`timeleap.client` is the package `timeleap_client` under another name, module by module."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import timeleap.client
import timeleap_client


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
