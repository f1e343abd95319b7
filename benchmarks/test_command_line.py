"""What does a command cost, and the import of the client, beside a bare pygls server that starts?

As installed programs they have their bytecode: the first round writes it, of all cases, so that a checkout that must not
have any is measured the same.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.conftest import Judge
from benchmarks.measure import interleaved
from benchmarks.server import BARE_PYGLS, Server

pytestmark = pytest.mark.bench

COMMAND = str(Path(sys.executable).parent / "timeleap")
NOTHING = (sys.executable, "-c", "pass")


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "bytecode"))
    monkeypatch.setenv("TIMELEAP_HOME", str(tmp_path / "store"))
    monkeypatch.setenv("TIMELEAP_KEY_FILE", str(tmp_path / "key"))


def run(*command: str) -> Callable[[], None]:
    """What runs a command to its end."""

    def ran() -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    return ran


def start_pygls() -> None:
    """Start a bare pygls server and wait for its first reply."""
    server = Server(BARE_PYGLS)
    server.request("initialize", {"capabilities": {}, "processId": None, "rootUri": None})
    server.kill()


@pytest.mark.rows("14", "15")
def test_a_command_and_the_import_of_the_client(judge: Judge) -> None:
    run(COMMAND, "new", "s")()
    measured = interleaved(
        "One process each",
        {
            "bare pygls": start_pygls,
            "append": run(COMMAND, "append", "s", "text"),
            "import": run(sys.executable, "-c", "from timeleap.client import SyncTimeleap"),
        },
        rounds=15,
    )
    judge("14", measured["append"], measured["bare pygls"])
    judge("15", measured["import"], measured["bare pygls"])


@pytest.mark.rows("15-version")
def test_the_version(judge: Judge) -> None:
    measured = interleaved(
        "One process each", {"nothing": run(*NOTHING), "version": run(COMMAND, "--version")}, rounds=15
    )
    judge("15-version", measured["version"], measured["nothing"])
