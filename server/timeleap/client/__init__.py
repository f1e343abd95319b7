"""The Python client library, which is the package `timeleap_client`, under the name that programs import it by."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import timeleap_client
from timeleap_client import __all__ as __all__

if TYPE_CHECKING:
    from importlib.abc import Loader

    from timeleap_client import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(timeleap_client, name)


class _SubmoduleAliases:
    """Imports `timeleap.client.errors` as `timeleap_client.errors`: a second copy would have other classes."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, cast("Loader", self)) if name.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(spec.name.replace(__name__, timeleap_client.__name__, 1))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__spec__
        assert alias is not None
        module.__spec__ = alias.loader_state  # the import system has put the alias there


sys.meta_path.append(_SubmoduleAliases())
