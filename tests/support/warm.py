"""What the fork server imports, once: everything a server ever imports, so that one forked off it has nothing left to do."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import timeleap
import timeleap_protocol

_NOT_FOR_SERVERS = ("timeleap.cli", "timeleap.client", "timeleap.__main__", "timeleap_protocol.generate")

for package in (timeleap, timeleap_protocol):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda _name: None):
        if not module.name.startswith(_NOT_FOR_SERVERS):
            importlib.import_module(module.name)
gc.freeze()
