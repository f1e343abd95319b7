"""The demo of docs/agents.md: recorded while the real Claude Code works, and drawn as the page's picture.

With `DRAW=1` the picture is written instead of compared.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from docs.picture import WIDTH, drawing
from tests.agents.model import Model
from tests.agents.person import Person
from tests.support.holding import wait_until

from timeleap.cli import inspect, session_tables

pytestmark = pytest.mark.long  # runs the program
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "agents.svg"
FILES = {
    "shares.py": "def share(total, guests):\n    return total / guests\n",
    "notes.txt": "Ask Ada about the guests.\n",
}
WRITE = "Write a test for share()."
TIDY = "Tidy up the folder."
LINES = 14
"""Lines that are shown of a command."""
STORY = {
    WRITE: ("echo 'assert share(90, 3) == 30' > test_shares.py", "test_shares.py is there."),
    TIDY: (
        "rm notes.txt test_shares.py; sed -i 's/total/t/g' shares.py; echo '*.pyc' > .gitignore",
        "All is tidy now.",
    ),
}
"""By what the person asks: the command that Claude Code runs in a shell, and its answer."""
MESSAGES = 4 * len(STORY)
"""A prompt, a call, its result and an answer."""


async def test_a_person_undoes_what_a_shell_of_claude_code_did(
    tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(tmp_path, model, FILES, columns=WIDTH)
    monkeypatch.chdir(person.project)
    # Columns are as wide as what stands in them, which depends on how long this took and on the number of a process.
    monkeypatch.setattr(session_tables, "ago", lambda _: "20 seconds ago")
    monkeypatch.setattr(session_tables, "process", lambda _: "process 4711, opened 20 seconds ago")
    monkeypatch.setattr(inspect, "process", lambda _: "process 4711, opened 20 seconds ago")
    model.calls = {asked: [("Bash", {"command": command})] for asked, (command, _) in STORY.items()}
    model.answers = {asked: answer for asked, (_, answer) in STORY.items()}
    shown: list[tuple[str, str]] = []

    def type_in(*arguments: str) -> None:
        typed = " ".join(f"'{each}'" if " " in each else each for each in arguments)
        lines = person.cli.terminal(*arguments).out.splitlines()
        rest = [f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else []
        shown.append((f"$ timeleap {typed}", "\n".join([*lines[:LINES], *rest])))

    try:
        type_in("agents", "install", "claude-code", "--yes")
        await person.ask(WRITE, TIDY)
        for asked, (command, answer) in STORY.items():
            shown.append((f"> {asked}", f"● Bash({command})\n● {answer}"))
        wait_until(lambda: person.session()["messageCount"] == MESSAGES)  # hooks do not hold the agent up
        session = person.session()["sessionId"]
        type_in("sessions")
        type_in("log", session)
        type_in("files", "diff", session, TIDY)
        type_in("files", "restore", session, TIDY, "--yes")
        type_in("agents", "resume", session, TIDY)
    finally:
        person.close()
    assert person.files() == {**FILES, "test_shares.py": "assert share(90, 3) == 30\n"}
    picture = drawing([(_masked(typed, session, tmp_path), _masked(told, session, tmp_path)) for typed, told in shown])
    if "DRAW" in os.environ:
        PICTURE.write_text(picture, "utf-8")
    assert PICTURE.read_text("utf-8") == picture, "docs/agents.svg shows something else; DRAW=1 draws it"


def _masked(text: str, session: str, folder: Path) -> str:
    """The text with an id, a path, a process and a command that are the same in each run, on each machine."""
    text = text.replace(str(folder), "~").replace(session, "claude-code-52d0f6a1c07b93e48a15c2fd")
    text = text.replace(f"{sys.executable} -P -m timeleap --home ~/home", "timeleap")
    text = re.sub(r"\b\d\.\d KB", "2.4 KB", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "0b6f1c52-93de-4a1e-8d07-5ac2b1f4e690", text)
    # Its number depends on whether the snapshot after a tool and that of the turn's end were joined.
    return re.sub(r"\bf\d+-[0-9a-f]{12}\b", "f3-3f9c02ab71de", text)
