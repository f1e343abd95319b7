"""Random histories of opencode: a session as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.opencode_file import OpencodeFile
from tests.support.said import Said


class OpencodeHistory:
    """A session that grows by random steps.

    Attributes:
        log: What is sent on resume; `ever`: what was said at all.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = OpencodeFile(folder, name=f"ses_{seed}")
        self.log: list[Said] = []
        self.ever: list[Said] = []
        self._prompts: list[tuple[str, int]] = []  # with the length of the log before each
        self._kept: list[Said] | None = None  # the log without a revert
        self._number = 0

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def _add(self, *said: Said) -> None:
        self.log += said
        self.ever += said

    def grow(self, steps: int) -> OpencodeHistory:
        self.turn()
        kinds = [self.turn, self.parallel, self.reverts, self.unreverts, self.compacts, self.fails, self.sub_tasks]
        for step in self.random.choices(kinds, [4, 4, 2, 1, 1, 1, 1], k=steps):
            step()
        return self

    def prompt(self) -> str:
        self.file.cleans()
        if self._kept is not None:
            self._prompts = [each for each in self._prompts if each[1] < len(self.log)]
            self._kept = None
        text = self._name("question")
        prompt = self.file.asks(text)
        self._prompts.append((prompt, len(self.log)))
        self._add(("user", text))
        if self.random.random() < 0.2:
            text = self._name("read")
            self.file.part(prompt, "text", text=text, synthetic=True)
            self._add(("user", text))
        return prompt

    def turn(self) -> None:
        prompt, text = self.prompt(), self._name("answer")
        self.file.says(prompt, text)
        self._add(("assistant", text))

    def parallel(self) -> None:
        """Calls of one answer; the results come in any order, and are sent in that of the calls."""
        prompt = self.prompt()
        answer = self.file.begins(prompt)
        if self.random.random() < 0.5:
            text = self._name("answer")
            self.file.writes(answer, text)
            self._add(("assistant", text))
        calls = [self._name("call").replace(" ", "_") for _ in range(self.random.randint(1, 4))]
        parts = {call: self.file.calls(answer, call) for call in calls}
        for call in self.random.sample(calls, len(calls)):
            status = self.random.choice(["completed", "completed", "error"])
            self.file.gets(answer, parts[call], call, f"result of {call}", status)
        self.file.ends(answer, prompt, "tool-calls")
        self._add(*(("call", call) for call in calls), *(("result", call) for call in calls))
        text = self._name("answer")
        self.file.says(prompt, text)
        self._add(("assistant", text))

    def fails(self) -> None:
        """An answer that ends in an error is not sent again."""
        prompt, text = self.prompt(), self._name("half")
        self.file.says(prompt, text, error={"name": "APIError", "data": {}})
        self.ever.append(("assistant", text))

    def sub_tasks(self) -> None:
        """A session of a sub-agent, which is none of this one."""
        name = f"ses_{self.file.session_id[4:]}_{self._name('sub').split()[1]}"
        OpencodeFile(self.file.folder, name=name, parent=self.file.session_id).close()

    def reverts(self) -> None:
        if not self._prompts:
            return
        whole = self._kept or list(self.log)
        prompt, length = self.random.choice(self._prompts)
        self.file.reverts(prompt)
        self._kept, self.log = whole, whole[:length]

    def unreverts(self) -> None:
        self.file.reverts(None)
        if self._kept is not None:
            self.log, self._kept = self._kept, None

    def compacts(self) -> None:
        self.turn()
        keeps = self.random.random() < 0.5
        (prompt, length), text = self._prompts[-1], self._name("summary")
        kept = self.log[length:] if keeps else []
        self.file.compacts(text, prompt if keeps else None)
        self.log = []
        self._add(("user", "What did we do so far?"), ("assistant", text))
        self.log += kept
        self._prompts = []
