"""What a shell of kimi-code, opencode and pi, as released, did in a turn is brought back by way of their hooks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agents.kimi_code import KimiCode, needs_kimi_code
from tests.agents.model import Model
from tests.agents.opencode import Opencode, needs_opencode
from tests.agents.pi import Pi, needs_pi
from tests.support.cli import Cli
from tests.support.holding import wait_until

pytestmark = pytest.mark.long  # several runs of the programs

FILES = {"kept.txt": "same\n", "changed.txt": "one\n", "src/gone.txt": "here\n"}
SHELL = {"command": "echo two > changed.txt; rm -r src; echo new > added.txt", "description": "tidies up"}


def fill(folder: Path) -> None:
    """Write `FILES`."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def files_in(folder: Path) -> dict[str, str]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def bring_back(cli: Cli, folder: Path) -> None:
    """Undo by hand, from the command line, what `SHELL` did in the turn of the question one."""
    assert files_in(folder) == {"kept.txt": "same\n", "changed.txt": "two\n", "added.txt": "new\n"}
    (session,) = [found["sessionId"] for found in cli.run("sessions", "--json").lines()]
    wait_until(lambda: "question one" in cli.run("log", session).out)  # hooks do not hold the agent up
    changes = cli.run("files", "diff", session, "question one").out
    assert all(name in changes for name in ("changed.txt", "src/gone.txt", "added.txt"))
    cli.run("files", "restore", session, "question one", "--yes")
    assert files_in(folder) == FILES
    assert (cli.home / "hooks" / "hook.log").read_text() == ""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    folder = tmp_path / "folder"
    own = {"HOME": str(folder), "KIMI_CODE_HOME": str(folder / ".kimi-code"), "XDG_CONFIG_HOME": str(folder / "config")}
    own["PI_CODING_AGENT_DIR"] = str(folder / "pi")
    cli = Cli(tmp_path / "home", own)
    yield cli
    if (record := cli.home / "hooks" / "host.json").exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads(record.read_bytes())["pid"], signal.SIGTERM)


@needs_kimi_code
async def test_kimi_codes_turn_is_undone(
    cli: Cli, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = KimiCode(tmp_path / "folder", model, cli.environment())
    before = (program.home / "config.toml").read_bytes()
    fill(program.project)
    monkeypatch.chdir(program.project)
    cli.run("agents", "install", "kimi-code", "--yes")
    model.calls["one"] = [("Bash", SHELL)]
    await program.ask("one")
    bring_back(cli, program.project)
    cli.run("agents", "uninstall", "kimi-code", "--yes")
    assert (program.home / "config.toml").read_bytes() == before


@needs_opencode
async def test_opencodes_turn_is_undone(
    cli: Cli, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Opencode(tmp_path / "folder", model, cli.environment())
    fill(program.project)
    monkeypatch.chdir(program.project)
    cli.run("agents", "install", "opencode", "--yes")
    model.calls["one"] = [("bash", SHELL)]
    program.serve()
    try:
        session = program.call("/session", {})["id"]
        await asyncio.to_thread(program.ask, session, "one")
        bring_back(cli, program.project)
    finally:
        program.close()
    cli.run("agents", "uninstall", "opencode", "--yes")
    assert not (program.settings / "plugin").exists()


@needs_pi
async def test_pis_turn_is_undone(cli: Cli, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Pi(tmp_path / "folder", model, cli.environment())
    fill(program.project)
    monkeypatch.chdir(program.project)
    cli.run("agents", "install", "pi", "--yes")
    model.calls["one"] = [("bash", {"command": SHELL["command"]})]
    await program.ask("one")
    bring_back(cli, program.project)
    cli.run("agents", "uninstall", "pi", "--yes")
    assert not (program.home / "extensions").exists()
