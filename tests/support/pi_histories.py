"""Random histories of pi: a file as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.support.pi_file import PiFile
from tests.support.said import Said

SUMMARY = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>"
)
BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>"


class PiHistory:
    """A session that grows by random steps.

    Attributes:
        file: The file.
        kept: What is sent: the id of the entry, and what it says.
        left: What was sent before each step back, compaction and edit.
    """

    def __init__(self, folder: Path, seed: int, workspace: str = "/shop") -> None:
        self.random = random.Random(seed)
        self.file = PiFile(folder, workspace, name=f"00000000-0000-4000-8000-{seed:012d}")
        self.kept: list[tuple[str, list[Said]]] = []
        self.left: list[list[Said]] = []
        self.first: str | None = None
        self._ends: list[tuple[str | None, int]] = [(None, 0)]
        self._number = 0

    @property
    def log(self) -> list[Said]:
        """Pairs that are sent on resume: who, and the text, or the id of a call or of a result."""
        return [each for _, said in self.kept for each in said]

    def grow(self, steps: int) -> PiHistory:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [
            self.turn, self.parallel, self.steered, self.goes_back, self.compacts, self.edits, self.fails, self.runs,
            self.notes,
        ]  # fmt: skip
        for step in self.random.choices(kinds, weights=[4, 4, 2, 2, 1, 1, 1, 1, 3], k=steps):
            step()
        self.turn()
        return self

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def _keep(self, entry: str, *said: Said) -> None:
        self.kept.append((entry, list(said)))

    def prompt(self, kind: str = "question") -> None:
        text = self._name(kind)
        self.first = self.first or text
        self._keep(self.file.asks(text), ("user", text))

    def answers(self) -> None:
        text = self._name("answer")
        self._keep(self.file.says(text), ("assistant", text))
        self._ends.append((self.file.last, len(self.kept)))

    def turn(self) -> None:
        self.prompt()
        self.answers()

    def parallel(self) -> None:
        """Calls of one answer, and their results in another order."""
        self.prompt()
        self._calls(self.random.randint(1, 4))
        self.answers()

    def _calls(self, number: int) -> None:
        calls = [self._name("call").replace(" ", "_") for _ in range(number)]
        self._keep(self.file.calls(*calls), *(("call", call) for call in calls))
        for call in self.random.sample(calls, number):
            self._keep(self.file.gets(call, f"result of {call}"), ("result", call))

    def steered(self) -> None:
        """A prompt that was typed while the program worked."""
        self.prompt()
        self._calls(1)
        self.prompt("steer")
        self.answers()

    def goes_back(self) -> None:
        """Going on from the end of an earlier turn, or from the beginning; some with a summary of what was left."""
        self.left.append(self.log)
        last, length = self.random.choice(self._ends)
        self._ends = self._ends[: self._ends.index((last, length)) + 1]
        left, self.file.last = self.file.last, last
        del self.kept[length:]
        if self.random.random() < 0.4:
            text = self._name("branch")
            entry = self.file.entry("branch_summary", fromId=left, summary=text)
            self._keep(entry, ("user", BRANCH.format(text)))
        self.turn()

    def compacts(self) -> None:
        """Its own compaction, which keeps the last messages, or none."""
        self.turn()
        self.left.append(self.log)
        text = self._name("summary")
        number = self.random.choice([0, 1, 2])
        kept = self.kept[len(self.kept) - number :]
        more = {"firstKeptEntryId": kept[0][0] if kept else "none", "tokensBefore": 5}
        entry = self.file.entry("compaction", summary=text, **more)
        self.kept = [(entry, [("user", SUMMARY.format(text))]), *kept]
        self._ends = [(self.file.last, len(self.kept))]

    def edits(self) -> None:
        """An edit of an earlier message: another content, or none."""
        texts = [at for at, (_, said) in enumerate(self.kept) if len(said) == 1 and said[0][0] == "assistant"]
        if not texts:
            return
        self.left.append(self.log)
        at = self.random.choice(texts)
        entry = self.kept[at][0]
        if self.random.random() < 0.5:
            self.file.entry("context_edit", targetId=entry, replacement=None)
            self.kept[at] = (entry, [])
        else:
            text = self._name("edited")
            self.file.entry("context_edit", targetId=entry, replacement={"content": text})
            self.kept[at] = (entry, [("assistant", text)])
        self._ends = [(self.file.last, len(self.kept))]

    def fails(self) -> None:
        """An answer that failed is not sent again."""
        self.prompt()
        text = self._name("half")
        self.file.answers({"type": "text", "text": text}, stop=self.random.choice(["error", "aborted"]))
        self.left.append([*self.log, ("assistant", text)])
        self.answers()

    def runs(self) -> None:
        """A command that the person ran, and a message of an extension."""
        number = self._name("ran")
        command: dict[str, Any] = {"command": number, "output": "out", "exitCode": 0, "cancelled": False}
        entry = self.file.entry(
            "message", message={"role": "bashExecution", "truncated": False, "timestamp": 1, **command}
        )
        self._keep(entry, ("user", f"Ran `{number}`\n```\nout\n```"))
        text = self._name("extension")
        self._keep(self.file.entry("custom_message", customType="x", content=text, display=True), ("user", text))

    def notes(self) -> None:
        """Entries that are no messages."""
        kind = self.random.randrange(5)
        if kind == 0:
            self.file.entry("model_change", provider="fake", modelId="fake")
        elif kind == 1:
            self.file.entry("session_info", name=None)
        elif kind == 2:
            self.file.entry("custom", customType="x", data={"a": 1})
        elif kind == 3:
            self.file.entry("label", targetId=self.file.last, label="x")
        else:
            self.file.entry("usage", kind="cache_warm", usage={"input": 1}, provider="fake", model="fake")
