"""A folder, an agent in it, a user beside it: what the cases of undo are written with."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.torture.agent import PATIENCE, Agent, Conversation, Outcome, Step
from tests.torture.tree import Tree, git

Files = Mapping[str, str | bytes]
START: Files = {
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "bees\n",
    "src/main.py": "print('hello')\n",
    "src/util.py": "def double(x):\n    return x + x\n",
    "docs/read me.md": "# Read me\n\nSome words.\n",
}


class Scene:
    """One case, played with one agent.

    Attributes:
        folder: Where the agent works.
        outside: A place it has no business in.
        problems: What was not as it should be, in sentences.
        notes: Figures for the table.
    """

    def __init__(self, place: Path, make: Callable[[Path, Path], Agent], *, home: str = "home") -> None:
        self.place = place
        self.folder = place / "project"
        self.outside = place / "outside"
        for folder in (self.folder, self.outside):
            folder.mkdir(parents=True)
        self.agent = make(place / home, place / "user")
        self.without: set[str] = set()
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._conversation: Conversation | None = None
        self._before_undo: Tree | None = None

    @property
    def conversation(self) -> Conversation:
        """The first one, in the folder."""
        if self._conversation is None:
            self._conversation = self.agent.open(self.folder)
        return self._conversation

    # the folder

    def files(self, files: Files = START) -> None:
        """Write files."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def repository(self, files: Files = START, *, ignore: str = "") -> None:
        """Write files into a repository of the user's, and commit them."""
        git(self.folder, "init", "-q", "-b", "main")
        self.files(files)
        if ignore:
            (self.folder / ".gitignore").write_text(ignore)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "start")

    def look(self, folder: Path | None = None) -> Tree:
        """What is there."""
        return Tree.of(folder or self.folder, without=self.without)

    def later(self) -> None:
        """The user does something now: in another tick of the file system's clock than all that was."""
        probe = self.place / "tick"
        probe.touch()
        then = probe.stat().st_mtime_ns
        while probe.stat().st_mtime_ns == then:
            probe.touch()

    # the agent

    def turn(self, *steps: Step, by: Conversation | None = None) -> None:
        """A turn of the agent."""
        (by or self.conversation).turn(*steps)
        self.later()

    def undo(self, turns: int = 1, *, by: Conversation | None = None, answer_keep: bool = False) -> Outcome:
        """Go back; with `answer_keep` the user tells an agent that asks to keep what is not the agent's."""
        conversation = by or self.conversation
        self._before_undo = self.look()
        outcome = conversation.undo(turns)
        if not outcome.done and answer_keep:
            if self._before_undo.differences(self.look(), self._before_undo):
                self.problems.append("it refused, and changed something all the same")
            outcome = conversation.undo_keeping()
        return outcome

    def redo(self, *, by: Conversation | None = None) -> Outcome:
        """Take the undo back."""
        self._before_undo = self.look()
        return (by or self.conversation).redo()

    def killed_during(self, action: Callable[[], object], moment: Callable[[], bool]) -> None:
        """Start something and kill the agent at a moment (or at its end, if that comes first)."""
        thread = threading.Thread(target=action, daemon=True)
        thread.start()
        while thread.is_alive() and not moment():
            pass
        self.agent.kill()
        thread.join(PATIENCE)

    # the judgement

    def expect(
        self, wanted: Tree, what: str = "after undo", outcome: Outcome | None = None, *, since: Tree | None = None
    ) -> None:
        """The folder must be this now; repositories and untouched files must be as before the undo, or `since` then."""
        found = wanted.differences(self.look(), since or self._before_undo or wanted)
        if found:
            told = "" if outcome is None or outcome.done else f" (it said: {outcome.said[:160]})"
            self.problems.append(f"{what}: {', '.join(found)}{told}")

    def expect_or_refusal(self, outcome: Outcome, wanted: Tree, what: str) -> None:
        """Either done and right, or refused and nothing changed."""
        if outcome.done:
            self.expect(wanted, what, outcome)
        elif self._before_undo is not None:
            self.expect(self._before_undo, f"{what}, which was refused", outcome)

    def must(self, condition: bool, problem: str) -> None:
        """Note a problem unless the condition holds."""
        if not condition:
            self.problems.append(problem)


def write_keeping_time(path: Path, content: bytes) -> None:
    """Write without the time telling of it."""
    found = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
