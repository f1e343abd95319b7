"""What most servers of the tests are forked off is ready: else each of them imports everything by itself, unnoticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import forked, ready

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


def test_a_command_that_is_ready_has_its_own_streams_arguments_environment_and_exit_code(tmp_path: Path) -> None:
    version = subprocess.run([*ready.command(), "--version"], stdout=subprocess.PIPE, text=True, check=True)
    assert version.stdout == f"timeleap {timeleap.__version__}\n"
    environment = {**os.environ, "TIMELEAP_HOME": str(tmp_path / "home"), "TIMELEAP_KEY_FILE": str(tmp_path / "key")}
    served = subprocess.run(
        [*ready.command(), "serve"],
        input=b'{"jsonrpc":"2.0","method":"exit"}\n',
        capture_output=True,
        env=environment,
        check=False,
    )
    assert served.returncode == 1
    wrong = subprocess.run([*ready.command(), "serve", "--none"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "--none" in wrong.stderr


def test_what_it_started_ends_when_the_command_is_killed(tmp_path: Path) -> None:
    command = [*ready.command(), "serve", "--home", str(tmp_path / "home")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.kill()
        assert process.stdout.read() == b""  # its end: nobody holds the stream any more
