"""Gemini CLI itself, as released: its sessions are shown live, it goes on where a mirror was cut, and what a shell of its did
is brought back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agents.gemini import Gemini, needs_gemini
from tests.agents.model import Model
from tests.agents.window import Window, until
from tests.support.cli import Cli
from tests.support.holding import wait_until

from timeleap_client import RawTimeleap

pytestmark = [pytest.mark.long, needs_gemini]  # several runs of the program each
FILES = {"kept.txt": "same\n", "changed.txt": "one\n", "src/gone.txt": "here\n"}
TWO_TURNS = ["question one", "answer one", "question two", "answer two"]


def said(texts: list[object]) -> list[object]:
    """What the person and the model said; the program says more in their names."""
    return [text for text in texts if isinstance(text, str) and text.startswith(("question ", "answer "))]


async def test_it_is_shown_live_and_goes_on_where_its_mirror_was_cut(
    client: RawTimeleap, window: Window, model: Model, tmp_path: Path
) -> None:
    program = Gemini(tmp_path / "folder", model)
    model.calls["one"] = [("run_shell_command", {"command": "echo two > changed.txt"})]
    await client.call("bridge/watch", {"kind": "gemini", "path": str(program.home / "tmp")})
    await program.ask("one")
    await program.ask("two", resume="latest")

    async def are_whole() -> bool:
        found = [said(await window.texts(session["sessionId"])) for session in await window.sessions("gemini")]
        return TWO_TURNS in found

    await until(are_whole)
    mirror, *_ = [each["sessionId"] for each in await window.sessions("gemini")]
    assert (await window.sessions("gemini"))[0]["workspace"] == program.project.as_uri()
    checkpoints = await window.checkpoints(mirror)
    assert list(checkpoints) == ["question one", "question two"]

    adopted = await window.call("bridge/adopt", mirror, at=checkpoints["question two"])
    command, arguments = adopted["resume"]["command"], adopted["resume"]["args"]
    assert (command, arguments[0], adopted["resume"]["cwd"]) == ("gemini", "--resume", str(program.project))
    await program.ask("three", resume=arguments[1])
    assert model.texts() == ["question one", "answer one", "question three"]
    assert said(await window.texts(mirror)) == TWO_TURNS


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path / "home", {"HOME": str(tmp_path / "folder")})
    yield cli
    if (record := cli.home / "hooks" / "host.json").exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads(record.read_bytes())["pid"], signal.SIGTERM)


def files(project: Path) -> dict[str, str]:
    paths = [path for path in sorted(project.rglob("*")) if path.is_file()]
    return {path.relative_to(project).as_posix(): path.read_text() for path in paths}


async def test_what_a_shell_changed_deleted_and_added_in_a_turn_is_all_brought_back(
    cli: Cli, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Gemini(tmp_path / "folder", model, cli.environment())
    before = (program.home / "settings.json").read_bytes()
    for name, text in FILES.items():
        (program.project / name).parent.mkdir(exist_ok=True)
        (program.project / name).write_text(text)
    monkeypatch.chdir(program.project)
    cli.run("agents", "install", "gemini", "--yes")
    shell = {"command": "echo two > changed.txt; rm -r src; echo new > added.txt; exit 3"}
    model.calls["one"] = [("run_shell_command", shell)]
    await program.ask("one")
    assert files(program.project) == {"kept.txt": "same\n", "changed.txt": "two\n", "added.txt": "new\n"}
    (session,) = [found["sessionId"] for found in cli.run("sessions", "--json").lines()]
    wait_until(lambda: "question one" in cli.run("log", session).out)  # hooks do not hold the agent up
    changes = cli.run("files", "diff", session, "question one").out
    assert all(name in changes for name in ("changed.txt", "src/gone.txt", "added.txt"))
    cli.run("files", "restore", session, "question one", "--yes")
    assert files(program.project) == FILES
    assert (cli.home / "hooks" / "hook.log").read_text() == ""
    cli.run("agents", "uninstall", "gemini", "--yes")
    assert (program.home / "settings.json").read_bytes() == before
