"""Random histories of Claude Code: a file as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.support.claude_file import ClaudeFile

Said = tuple[str, str]


class History:
    """A session that grows by random steps.

    Attributes:
        file: The file.
        log: What is sent on resume: who, and the text, or the id of a call or of a result.
        unsent: Prompts that stand in the queue alone, which the program does not send again.
        ends: At each turn's end: the last record, and how long the log was.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = ClaudeFile(folder, name=f"00000000-0000-4000-8000-{seed:012d}")
        self.log: list[Said] = []
        self.unsent: set[str] = set()
        self.ends: list[tuple[str | None, int]] = [(None, 0)]
        self.first: str | None = None
        self._number = 0

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def grow(self, steps: int) -> History:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [self.turn, self.parallel, self.steered, self.compacts, self.rewinds, self.works_aside, self.notes]
        for step in self.random.choices(kinds, weights=[4, 4, 2, 1, 2, 1, 2], k=steps):
            step()
        self.turn()
        return self

    def prompt(self) -> None:
        text = self._name("question")
        self.first = self.first or text
        self.file.asks(text)
        self.log.append(("user", text))

    def turn(self) -> None:
        self.prompt()
        self.answers()

    def answers(self) -> None:
        text = self._name("answer")
        self.file.says(text)
        self.log.append(("assistant", text))
        self.ends.append((self.file.last, len(self.log)))

    def parallel(self) -> None:
        """Calls of one answer, each in a record of its own, with the results hanging on any of them."""
        self.prompt()
        asked, answer = self.file.last, self._name("msg")
        calls = [self._name("call").replace(" ", "_") for _ in range(self.random.randint(1, 4))]
        beside = self.random.random() < 0.3
        records: dict[str, str] = {}
        waiting: list[str] = []
        self.ends_of_calls: list[str] = []
        results: list[str] = []
        last_call = asked
        for call in calls:
            block = {"type": "tool_use", "id": call, "name": "Bash", "input": {}}
            message = {"role": "assistant", "id": answer, "content": [block]}
            parent = asked if beside else last_call
            records[call] = last_call = self.file.write(
                self.file.record("assistant", message=message, parentUuid=parent)
            )
            waiting.append(call)
            if self.random.random() < 0.4:  # a result comes before the next call is written
                results.append(waiting.pop(self.random.randrange(len(waiting))))
                self._result(results[-1], records[results[-1]])
        while waiting:
            results.append(waiting.pop(self.random.randrange(len(waiting))))
            self._result(results[-1], records[results[-1]])
        self.log += [("call", call) for call in calls] + [("result", call) for call in results]
        self.file.last = self.random.choice(self.ends_of_calls)
        self.answers()

    def _result(self, call: str, parent: str) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": f"result of {call}"}
        content = {"role": "user", "content": [block]}
        self.ends_of_calls.append(self.file.write(self.file.record("user", message=content, parentUuid=parent)))

    def steered(self) -> None:
        """A prompt that was typed while the program worked, in the chain or in the queue's operations alone."""
        self.prompt()
        call, text = self._name("call").replace(" ", "_"), self._name("steer")
        self.file.calls(call)
        queue = {"type": "queue-operation", "sessionId": self.file.session_id, "content": text}
        write_state(self.file, {**queue, "operation": "enqueue"})
        self.file.gets(call, f"result of {call}")
        write_state(self.file, {**queue, "operation": "remove", "reason": "absorbed_mid_turn"})
        if self.random.random() < 0.7:
            attachment = {"type": "queued_command", "commandMode": "prompt", "prompt": text}
            self.file.write(self.file.record("attachment", attachment=attachment))
        else:
            self.unsent.add(text)
        self.log += [("call", call), ("result", call), ("user", text)]
        self.answers()

    def compacts(self) -> None:
        """Its own compaction, which may keep the last answer."""
        self.turn()
        kept, text = self.file.last, self.log[-1]
        summary = self._name("summary")
        keeps = self.random.random() < 0.5
        boundary = self.file.record("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=kept)
        said = self.file.record("user", message={"role": "user", "content": summary}, isCompactSummary=True)
        if keeps:
            boundary["compactMetadata"] = {"preservedMessages": {"anchorUuid": said["uuid"], "uuids": [kept]}}
        self.file.write(boundary, said)
        self.log = [("user", summary), *([text] if keeps else [])]
        self.ends = [(self.file.last, len(self.log))]

    def rewinds(self) -> None:
        """Going back to the end of an earlier turn, and on from there."""
        last, length = self.random.choice(self.ends)
        self.ends = self.ends[: self.ends.index((last, length)) + 1]
        self.file.last = last
        del self.log[length:]
        self.prompt()
        write_state(self.file, {"type": "last-prompt", "leafUuid": "0" * 36, "explicit": True})
        self.answers()

    def works_aside(self) -> None:
        """A sub-agent, in the file itself as in earlier versions."""
        last = self.file.last
        self.file.asks(self._name("aside"), parentUuid=None, isSidechain=True)
        self.file.says(self._name("aside"), isSidechain=True)
        self.file.last = last

    def notes(self) -> None:
        """Records that are no messages: some in the chain, some not; and what damage leaves."""
        kind = self.random.randrange(5)
        if kind == 0:
            self.file.write(self.file.record("system", subtype="turn_duration"))
        elif kind == 1:
            write_state(self.file, {"type": "dream", "x": 1})
        elif kind == 2:
            self.file.write_bytes(b'{"type": "user", "mess\n')
        elif kind == 3:
            self.file.write_bytes(b"\0" * 100 + b"\n\n[1]\n")
        else:  # a record that is written a second time
            lines = self.file.path.read_bytes().splitlines(keepends=True)
            again = self.random.choice([line for line in lines if b'"message"' in line])
            self.file.write_bytes(again)


def write_state(file: ClaudeFile, record: dict[str, Any]) -> None:
    """Write a record that stands in no chain."""
    file.write_bytes(json.dumps(record).encode() + b"\n")
