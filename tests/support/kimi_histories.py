"""Random histories of kimi-cli: a log as that program writes it, with those that it set aside, and what its next resume sends."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.agent_file import PICTURE_URL
from tests.support.kimi_file import KimiFile

Said = tuple[str, str]
COMPACTED = "<system>Previous context has been compacted. Here is the compaction output:</system>"


class KimiHistory:
    """A session that grows by random steps.

    Attributes:
        file: The live log.
        log: What is sent on resume: who, and the text, or the id of a call or of a result.
        left: What was sent before each step back and compaction.
    """

    def __init__(self, share: Path, seed: int, workspace: str = "/shop") -> None:
        self.random = random.Random(seed)
        share.mkdir(parents=True, exist_ok=True)
        self.file = KimiFile(share, workspace)
        self.log: list[Said] = []
        self.left: list[list[Said]] = []
        self.first: str | None = None
        self._turns: list[tuple[int, int]] = []  # the checkpoint before each turn, and how long the log was
        self._number = 0

    def grow(self, steps: int) -> KimiHistory:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [
            self.turn, self.calls, self.steered, self.goes_back, self.compacts, self.clears, self.notes,
            self.shows_picture, self.is_told,
        ]  # fmt: skip
        for step in self.random.choices(kinds, weights=[4, 4, 2, 2, 1, 0.5, 3, 1, 1], k=steps):
            step()
        self.turn()
        return self

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def prompt(self) -> None:
        text = self._name("question")
        self.first = self.first or text
        self._turns.append((self.file.next_checkpoint, len(self.log)))
        self.file.asks(self.random.choice([text, [{"type": "text", "text": text}]]))
        self.log.append(("user", text))

    def answers(self) -> None:
        text = self._name("answer")
        self.file.checkpoint()
        self.file.says(text)
        self.log.append(("assistant", text))

    def turn(self) -> None:
        self.prompt()
        self.answers()

    def calls(self) -> None:
        self.prompt()
        calls = [self._name("call").replace(" ", "_") for _ in range(self.random.randint(1, 3))]
        for call in calls:
            self.file.calls(call)
            self.log.append(("call", call))
        for call in self.random.sample(calls, len(calls)):
            self.file.gets(call, f"result of {call}")
            self.log.append(("result", call))
        self.answers()

    def steered(self) -> None:
        """A prompt that was typed while the program worked."""
        self.prompt()
        call, text = self._name("call").replace(" ", "_"), self._name("question")
        self.file.calls(call)
        self.file.gets(call, f"result of {call}")
        self.file.write({"role": "user", "content": text})
        self.log += [("call", call), ("result", call), ("user", text)]
        self.answers()

    def shows_picture(self) -> None:
        """A prompt with a pasted picture, which stands before the words."""
        text = self._name("question")
        self.first = self.first or text
        self._turns.append((self.file.next_checkpoint, len(self.log)))
        self.file.asks([{"type": "image_url", "image_url": {"url": PICTURE_URL}}, {"type": "text", "text": text}])
        self.log.append(("user", text))
        self.answers()

    def is_told(self) -> None:
        """A notice of a task, and an answer to it."""
        text = f'<notification id="{self._name("told")}" category="task">\nx\n</notification>'
        self.file.checkpoint()
        self.file.write({"role": "user", "content": [{"type": "text", "text": text}]})
        self.log.append(("user", text))
        self.answers()

    def clears(self) -> None:
        """The log is set aside, and nothing begins a new one."""
        self.left.append(list(self.log))
        self.file.begins_anew()
        self.log, self._turns = [], []

    def goes_back(self) -> None:
        """To before an earlier turn; the log is set aside."""
        if self._turns:
            self.left.append(list(self.log))
            place = self.random.randrange(len(self._turns))
            checkpoint, length = self._turns[place]
            self.file.goes_back(checkpoint)
            del self.log[length:], self._turns[place:]

    def compacts(self) -> None:
        """The log is set aside, and a summary begins a new one."""
        self.left.append(list(self.log))
        summary = self._name("summary")
        self.file.begins_anew()
        texts = [COMPACTED, summary]
        self.file.write({"role": "user", "content": [{"type": "text", "text": text} for text in texts]})
        self.log, self._turns = [("user", "".join(texts))], []

    def notes(self) -> None:
        """Records that are no messages, and what damage leaves."""
        lines = [
            b'{"role": "_usage", "token_count": 5}\n',
            b'{"role": "user", "cont\n',
            b"\0" * 50 + b"\n\n[1]\n",
            b'{"x": 1}\n',
        ]
        self.file.write_bytes(self.random.choice(lines))
