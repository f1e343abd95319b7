"""What every agent under test has in common: turns of steps, and undo."""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.torture.fake_model import Call, FakeModel
from tests.torture.tree import plain_environment

TOOLS = Path(__file__).resolve().parents[2] / ".tools" / "agents"
DONE = "step-is-done"
"""What each shell command prints at its end, so that the result tells whether it got there."""

PATIENCE = 120.0
"""Seconds for one turn, one undo or one start."""


@dataclass(frozen=True)
class Shell:
    """A command, run by the agent's shell tool in the session's folder."""

    command: str


@dataclass(frozen=True)
class Write:
    """A whole file, by the agent's own tool for that."""

    path: str
    content: str


@dataclass(frozen=True)
class Edit:
    """A piece of a file replaced, by the agent's own tool for that."""

    path: str
    old: str
    new: str


Step = Shell | Write | Edit


@dataclass(frozen=True)
class Outcome:
    """How an undo ended, by the agent's own word."""

    done: bool
    said: str = ""


class TurnFailedError(Exception):
    """A turn did not do what was planned: nothing can be said of the undo."""


class Conversation(ABC):
    """One session of an agent in one folder.

    Attributes:
        folder: The folder.
        prompts: By what the agent calls the beginning of each turn, oldest first; failed ones that it kept, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prompts: list[str] = []

    @abstractmethod
    def turn(self, *steps: Step) -> None:
        """The user asks, the agent does these steps.

        Raises:
            TurnFailedError: A step did not do what it should.
        """

    @abstractmethod
    def undo(self, turns: int = 1) -> Outcome:
        """The files go back to before the last turn, or the last few."""

    @abstractmethod
    def redo(self) -> Outcome:
        """The last undo is taken back."""

    def undo_keeping(self) -> Outcome:
        """The user answers a refusal: go back, but keep what I changed. Agents that never ask cannot be answered."""
        return Outcome(False, "there is no such answer")


class AskedConversation(Conversation):
    """One whose agent is given a prompt, and does what a model says.

    Attributes:
        names: What the agent calls its tools and their arguments.
    """

    names: ClassVar[dict[str, str]]

    def __init__(self, folder: Path, model: FakeModel) -> None:
        super().__init__(folder)
        self._model = model

    def turn(self, *steps: Step) -> None:
        number, prompt = self._model.plan(expanded(steps, self.folder, self.names))
        if (error := self.ask(prompt)) is not None:
            raise TurnFailedError(error)
        check_turn(steps, self.folder, self._model.results[number])

    @abstractmethod
    def ask(self, prompt: str) -> str | None:
        """Have the agent answer a prompt; returns what went wrong, if anything did."""


class Agent(ABC):
    """A program with the data of one user.

    Attributes:
        name: As the table calls it.
        how: What is run, as the document shows it.
        home: Where it keeps its data.
        user: The home folder of its user, apart from that.
    """

    name: ClassVar[str]
    how: ClassVar[str]

    def __init__(self, home: Path, user: Path, model: FakeModel, prefix: Sequence[str] = ()) -> None:
        """Prepare it.

        Args:
            home: Where it is to keep its data.
            user: The home folder of a user who has nothing else.
            model: What it talks to.
            prefix: What its programs are started with.
        """
        self.home, self.user, self.model, self.prefix = home, user, model, prefix
        for folder in (home, user):
            folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """The installed one."""

    @abstractmethod
    def open(self, folder: Path) -> Conversation:
        """A new conversation there."""

    @abstractmethod
    def kill(self) -> None:
        """kill -9 of all that belongs to it; the next call of a conversation starts it again."""

    @abstractmethod
    def close(self) -> None:
        """End it."""

    @abstractmethod
    def stored(self) -> int:
        """Bytes that its snapshots take on disk, as `du` counts them."""

    def environment(self) -> dict[str, str]:
        """Nothing of the environment the tests run in."""
        return plain_environment(self.user)


def expanded(steps: Sequence[Step], folder: Path, names: dict[str, str]) -> list[list[Call]]:
    """The calls of a turn in an agent's own names: edits that follow one another are made at once, a command alone.

    A file that is there is read before it is changed, as the agents want it.
    """
    reads: list[Call] = []
    answers: list[list[Call]] = []
    seen: set[str] = set()
    together = False
    for step in steps:
        if isinstance(step, Shell):
            command = f"{step.command}\necho {DONE}"
            answers.append([Call(names["shell"], {"command": command, "description": "Do a planned step"})])
            together = False
            continue
        path = str(folder / step.path)
        if step.path not in seen and os.path.exists(path):
            reads.append(Call(names["read"], {names["path"]: path}))
        if isinstance(step, Write):
            call = Call(names["write"], {names["path"]: path, "content": step.content})
        else:
            call = Call(names["edit"], {names["path"]: path, names["old"]: step.old, names["new"]: step.new})
        if together and step.path not in seen:
            answers[-1].append(call)
        else:
            answers.append([call])
        seen.add(step.path)
        together = True
    return [reads, *answers] if reads else answers


def carry_out(steps: Sequence[Step], folder: Path, environment: dict[str, str]) -> None:
    """Do the steps of a turn, for what has no tools of its own.

    Raises:
        TurnFailedError: A command failed.
    """
    for step in steps:
        if isinstance(step, Shell):
            command = ["bash", "-c", step.command]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
            if done.returncode:
                raise TurnFailedError(f"{step.command}: {done.stderr.decode(errors='replace')}")
            continue
        path = folder / step.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(step, Write):
            path.write_text(step.content, newline="")
            continue
        before = path.read_bytes()
        if step.old.encode() not in before:
            raise TurnFailedError(f"{step.path} has no {step.old!r}")
        path.write_bytes(before.replace(step.old.encode(), step.new.encode(), 1))


def check_turn(steps: Sequence[Step], folder: Path, results: Sequence[str]) -> None:
    """Fail if a step did not do what it should: the agent refused it, or the harness is wrong."""
    told = [text for text in results if DONE in text]
    shells = [step for step in steps if isinstance(step, Shell)]
    if len(told) < len(shells):
        raise TurnFailedError(f"{len(shells) - len(told)} of {len(shells)} commands failed: {results}")
    last = {step.path: step for step in steps if not isinstance(step, Shell)}
    for path, step in last.items():
        if shells and steps.index(step) < steps.index(shells[-1]):
            continue  # a command after it may have changed the file again
        text = (folder / path).read_bytes().decode(errors="replace")
        if not (text == step.content if isinstance(step, Write) else step.new in text):
            raise TurnFailedError(f"{path} is {text[:200]!r} after {step}: {results}")


def used_space(*folders: Path) -> int:
    """Bytes of blocks below these folders."""
    there = [str(folder) for folder in folders if folder.exists()]
    if not there:
        return 0
    told = subprocess.run(["du", "-sc", "-B1", *there], capture_output=True, text=True, check=True).stdout
    return int(told.splitlines()[-1].split()[0])
