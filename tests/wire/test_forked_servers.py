"""What most servers of the tests are forked off is ready: else each of them imports everything by itself, unnoticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import forked

import timeleap

if not forked.possible():
    pytest.skip("this platform cannot fork", allow_module_level=True)

STARTED = "import sys, timeleap.cli.serve; print(*sys.modules)"


def test_what_a_start_imports_is_there_before_the_fork() -> None:
    imported = subprocess.run([sys.executable, "-c", STARTED], stdout=subprocess.PIPE, text=True, check=True)
    needed = {name for name in imported.stdout.split() if name.startswith(("timeleap", "msgspec", "pygls", "asyncio"))}
    assert "timeleap.service.service" in needed
    assert not needed - forked.ready_modules()


@pytest.mark.parametrize("room", ["attach", "features", "rpc", "service", "sessions", "storage"])
def test_so_is_what_requests_import(room: str) -> None:
    folder = Path(timeleap.__file__).parent
    modules = {
        ".".join(("timeleap", *path.relative_to(folder).with_suffix("").parts))
        for path in (folder / room).rglob("*.py")
        if path.stem != "__init__"
    }
    assert modules
    assert not modules - forked.ready_modules()
