"""Named crash points, inert unless a test switches them on.

`failpoint("replace.after_link")` stands at each durable step. Tests set `TIMELEAP_FAILPOINTS` in the environment of a
child process (`name=action`, several separated by `;`), or call `arm()`. Actions: `kill` (SIGKILL to ourselves),
`sleep:SECONDS`, `hold:PATH` (makes that file and waits until somebody removes it), `raise:ERRNO` (an `OSError`, such as
`raise:ENOSPC`). `name@3=kill` acts at the third passing only, `name@3+=kill` from the third on. (The idea is that of
etcd's gofail and bbolt's failpoints.)
"""

from __future__ import annotations

import errno
import os
import time

from msgspec import Struct

ENVIRONMENT = "TIMELEAP_FAILPOINTS"


class _Armed(Struct):
    action: str
    first: int = 1
    onwards: bool = True
    passed: int = 0

    def due(self) -> bool:
        self.passed += 1
        return self.passed >= self.first if self.onwards else self.passed == self.first


_armed: dict[str, _Armed] = {}


def arm(specification: str) -> None:
    """Switch failpoints on, `name[@N[+]]=action[;...]`; what was armed before is forgotten."""
    _armed.clear()
    for item in filter(None, (part.strip() for part in specification.split(";"))):
        name, _, action = item.partition("=")
        name, _, count = name.partition("@")
        onwards = not count or count.endswith("+")
        _armed[name] = _Armed(action, int(count.rstrip("+") or 1), onwards)


def disarm() -> None:
    """Switch all failpoints off."""
    _armed.clear()


def stalling() -> bool:
    """True if something is armed that waits: a slow disk, which must hold up nobody but who waits for it."""
    return any(armed.action.startswith(("sleep", "hold")) for armed in _armed.values())


def failpoint(name: str) -> None:
    """Do what was armed for `name`; nothing (one dictionary look-up) otherwise."""
    if _armed:
        _act(name)


def _act(name: str) -> None:
    armed = _armed.get(name)
    if armed is None or not armed.due():
        return
    action, _, argument = armed.action.partition(":")
    if action == "kill":
        os.kill(os.getpid(), 9)
        time.sleep(60)
    elif action == "sleep":
        time.sleep(float(argument))
    elif action == "hold":
        with open(argument, "xb"):
            pass
        while os.path.exists(argument):  # noqa: PTH110 - a path is not worth loading what has objects for it
            time.sleep(0.005)
    elif action == "raise":
        code = getattr(errno, argument)
        raise OSError(code, os.strerror(code))
    else:
        raise ValueError(f"unknown failpoint action {armed.action!r} for {name!r}")


if os.environ.get(ENVIRONMENT):
    arm(os.environ[ENVIRONMENT])
