"""A person's own Claude Code with Timeleap's hooks: what a shell did to the files in a turn is brought back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage
from tests.agents.model import Model
from tests.support.cli import Cli

pytestmark = pytest.mark.long  # runs the program
FILES = {"kept.txt": "same\n", "changed.txt": "one\n", "src/gone.txt": "here\n"}


class Person:
    """Somebody with Claude Code, a project, and Timeleap's command line."""

    def __init__(self, folder: Path, model: Model) -> None:
        self.project = folder / "project"
        self.config = folder / "config"
        self.config.mkdir()
        for name, text in FILES.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text)
        environment = {"HOME": str(folder), "CLAUDE_CONFIG_DIR": str(self.config)}
        self.cli = Cli(folder / "home", environment)
        self._model = model

    async def ask(self, *questions: str) -> None:
        """One run of Claude Code as it is started by hand: its settings are the person's own."""
        environment = {
            **self.cli.environment(),
            **self._model.environment(),
        }
        options = ClaudeAgentOptions(
            cwd=self.project, env=environment, setting_sources=["user"], model="fake", allowed_tools=["Bash"]
        )
        async with ClaudeSDKClient(options) as client:
            for question in questions:
                await client.query(f"question {question}")
                results = [message async for message in client.receive_response() if isinstance(message, ResultMessage)]
                assert not results[-1].is_error, results

    def files(self) -> dict[str, str]:
        """The files of the project."""
        paths = [path for path in sorted(self.project.rglob("*")) if path.is_file()]
        return {path.relative_to(self.project).as_posix(): path.read_text() for path in paths}

    def session(self) -> dict[str, Any]:
        """The only session that Timeleap lists in the project."""
        (session,) = self.cli.run("sessions", "--json").lines()
        return dict(session)


@pytest.fixture
def person(tmp_path: Path, model: Model) -> Iterator[Person]:
    person = Person(tmp_path, model)
    yield person
    if (record := person.cli.home / "hooks" / "host.json").exists():
        with suppress(ProcessLookupError):
            os.kill(json.loads(record.read_bytes())["pid"], signal.SIGTERM)


async def test_what_a_shell_changed_deleted_and_added_in_a_turn_is_all_brought_back(
    person: Person, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(person.project)
    person.cli.run("agents", "install", "claude-code", "--yes")
    model.calls["one"] = [("Bash", {"command": "echo two > changed.txt; rm -r src; echo new > added.txt; exit 3"})]
    await person.ask("one", "two")
    assert person.files() == {"kept.txt": "same\n", "changed.txt": "two\n", "added.txt": "new\n"}
    assert model.texts() == ["question one", "answer one", "question two"]
    session = person.session()["sessionId"]
    assert "question one" in person.cli.run("log", session).out
    changes = person.cli.run("files", "diff", session, "question one").out
    assert all(name in changes for name in ("changed.txt", "src/gone.txt", "added.txt"))
    person.cli.run("files", "restore", session, "question one", "--yes")
    assert person.files() == FILES
    assert (person.cli.home / "hooks" / "hook.log").read_text() == ""


async def test_an_agent_goes_on_as_ever_where_hooks_cannot_do_anything(person: Person, model: Model) -> None:
    person.cli.run("agents", "install", "claude-code", "--yes")
    for path in sorted(person.cli.home.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    person.cli.home.rmdir()
    person.cli.home.write_text("no folder")
    model.calls["one"] = [("Bash", {"command": "echo two > changed.txt"})]
    await person.ask("one", "two")
    assert model.texts() == ["question one", "answer one", "question two"]
    assert person.files()["changed.txt"] == "two\n"
