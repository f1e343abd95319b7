"""A person's own Claude Code with Timeleap's hooks: what a shell did to the files in a turn is brought back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.model import Model
from tests.agents.person import FILES, Person

pytestmark = pytest.mark.long  # runs the program


@pytest.fixture
def person(tmp_path: Path, model: Model) -> Iterator[Person]:
    person = Person(tmp_path, model)
    yield person
    person.close()


async def test_what_a_shell_changed_deleted_and_added_in_a_turn_is_all_brought_back(
    person: Person, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(person.project)
    person.cli.run("agents", "install", "claude-code", "--yes")
    model.calls["one"] = [("Bash", {"command": "echo two > changed.txt; rm -r src; echo new > added.txt; exit 3"})]
    await person.ask("question one", "question two")
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
    await person.ask("question one", "question two")
    assert model.texts() == ["question one", "answer one", "question two"]
    assert person.files()["changed.txt"] == "two\n"
