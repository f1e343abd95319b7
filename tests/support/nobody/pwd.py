"""A user database in which nobody is; on PYTHONPATH it stands for the system's (`tests/wire/test_containers.py`)."""

from __future__ import annotations


def getpwuid(uid: int) -> object:
    raise KeyError(uid)


def getpwnam(name: str) -> object:
    raise KeyError(name)
