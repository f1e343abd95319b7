"""Random histories of Claude Code: a file as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path
from typing import Any

from tests.support.agent_file import PICTURE
from tests.support.claude_file import ClaudeFile

Said = tuple[str, str]


class History:
    """A session that grows by random steps.

    Attributes:
        file: The file.
        log: What is sent on resume: who, and the text, or the id of a call or of a result.
        unsent: What the program does not send again: prompts that stand in the queue alone, calls without results.
        machine: What the program says in the person's name.
        ends: At each turn's end: the last record, and how long the log was.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = ClaudeFile(folder, name=f"00000000-0000-4000-8000-{seed:012d}")
        self.file.passes = True  # by times the program joins what hangs on nothing
        self.log: list[Said] = []
        self.unsent: set[str] = set()
        self.machine: set[str] = set()
        self.ends: list[tuple[str | None, int]] = [(None, 0)]
        self.alone: set[str | None] = set()  # summaries, which a log may end with, without the answer that was kept
        self.first: str | None = None
        self._number = 0

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def grow(self, steps: int) -> History:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [
            self.turn, self.parallel, self.steered, self.compacts, self.rewinds, self.works_aside, self.notes,
            self.shows_picture, self.is_interrupted, self.runs_command, self.edits_elsewhere, self.loses_parent,
            self.sums_up_from, self.begins_anew, self.fails, self.leaves_open, self.says_again,
        ]  # fmt: skip
        weights = [4, 4, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 0.5, 0.3, 1, 1, 1]
        for step in self.random.choices(kinds, weights, k=steps):
            step()
        self.random.choice([self.turn, self.turn, self.ends_earlier])()
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
        self.alone.add(self.file.last)

    def shows_picture(self) -> None:
        """A prompt with a pasted picture, which stands before the words."""
        text = self._name("question")
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        content = [{"type": "image", "source": source}, {"type": "text", "text": text}]
        self.file.write(self.file.record("user", message={"role": "user", "content": content}))
        self.log.append(("user", text))
        self.answers()

    def edits_elsewhere(self) -> None:
        """A prompt behind what an editor tells."""
        text, seen = self._name("question"), "<ide_opened_file>The user opened a.py.</ide_opened_file>"
        content = [{"type": "text", "text": seen}, {"type": "text", "text": text}]
        self.file.write(self.file.record("user", message={"role": "user", "content": content}))
        self.machine.add(seen)
        self.log.append(("user", f"{seen}{text}"))
        self.answers()

    def is_interrupted(self) -> None:
        """A turn that the person breaks off while a tool waits for its leave."""
        self.prompt()
        call, text = self._name("call").replace(" ", "_"), "[Request interrupted by user for tool use]"
        self.file.calls(call)
        refusal = {"type": "tool_result", "tool_use_id": call, "is_error": True, "content": "The user said no."}
        self.file.write(self.file.record("user", message={"role": "user", "content": [refusal]}))
        self.file.write(self.file.record("user", message={"role": "user", "content": [{"type": "text", "text": text}]}))
        self.log += [("call", call), ("result", call), ("user", text)]
        self.machine.add(text)
        self.ends.append((self.file.last, len(self.log)))

    def runs_command(self) -> None:
        """A command of the person's shell, with its output."""
        for tag in ("bash-input", "bash-stdout"):
            text = f"<{tag}>{self._name('ran')}</{tag}>"
            self.file.asks(text)
            self.log.append(("user", text))
            self.machine.add(text)

    def loses_parent(self) -> None:
        """A turn whose parent was never written."""
        self.file.last = str(uuid.UUID(int=self.random.getrandbits(128)))
        self.turn()

    def sums_up_from(self) -> None:
        """All from a prompt on is summed up; what was before it stays in front of the summary."""
        ids, length = self._ids_to(self.random.choice(self.ends[1:]) if self.ends[1:] else None)
        if not ids:
            return
        summary, last = self._name("summary"), self.file.last
        boundary = self.file.record("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=last)
        facts = {"preservedMessages": {"anchorUuid": boundary["uuid"], "uuids": ids}}
        boundary["compactMetadata"] = {**facts, "summarizeMetadata": {"direction": "from"}}
        said = self.file.record("user", message={"role": "user", "content": summary}, isCompactSummary=True)
        self.file.write(boundary, said)
        del self.log[length:]
        self.log.append(("user", summary))
        self.ends = [(self.file.last, len(self.log))]

    def _ids_to(self, end: tuple[str | None, int] | None) -> tuple[list[str], int]:
        """The records of the chain up to the end of a turn, where no batch of calls hangs aside of it."""
        records = {record["uuid"]: record for record in self.file.whole_records() if "uuid" in record}
        found: list[str] = []
        uuid = end[0] if end else None
        while uuid is not None and uuid in records and uuid not in found:
            record = records[uuid]
            if record.get("subtype") == "compact_boundary" or _is_of_call(record):
                return [], 0
            found.append(uuid)
            uuid = record["parentUuid"]
        return (found[::-1], end[1]) if end and uuid is None else ([], 0)

    def begins_anew(self) -> None:
        """A new root, as `/clear` wrote it in earlier versions."""
        self.file.last = None
        self.log, self.ends = [], [(None, 0)]
        self.turn()

    def fails(self) -> None:
        """A notice of an error, which is sent like an answer."""
        self.prompt()
        text = self._name("answer")
        self.file.says(text, isApiErrorMessage=True)
        self.log.append(("assistant", text))
        if self.random.random() < 0.5:  # a message that only the screen has
            self.file.says(self._name("shown"), isVirtual=True)
        self.ends.append((self.file.last, len(self.log)))

    def leaves_open(self) -> None:
        """A call that is never answered, and a result of a call that nobody made."""
        self.prompt()
        call = self._name("call").replace(" ", "_")
        self.file.calls(call)
        self.log.append(("call", call))
        self.unsent.add(call)
        if self.random.random() < 0.5:
            self.file.gets(f"{call}_of_nobody", "result of nothing")
        self.answers()

    def says_again(self) -> None:
        """An answer that is written once more under its id, with other words: these count, in the first one's place."""
        self.turn()
        text, before = self._name("answer"), self.file.whole_records()[-1]
        message = {**before["message"], "content": [{"type": "text", "text": text}]}
        self.file.write({**before, "message": message})
        self.log[-1] = ("assistant", text)

    def ends_earlier(self) -> None:
        """The program notes at last that an earlier turn is the end."""
        last, length = self.random.choice(self.ends)
        if last is not None:
            write_state(self.file, {"type": "last-prompt", "leafUuid": last, "explicit": True})
            del self.log[1 if last in self.alone else length :]

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
            written = {record["uuid"]: record for record in self.file.whole_records() if "message" in record}
            if written:
                self.file.write(self.random.choice([*written.values()]))


def _is_of_call(record: dict[str, Any]) -> bool:
    content = record.get("message", {}).get("content")
    return isinstance(content, list) and any(block["type"] in ("tool_use", "tool_result") for block in content)


def write_state(file: ClaudeFile, record: dict[str, Any]) -> None:
    """Write a record that stands in no chain."""
    file.write_bytes(json.dumps(record).encode() + b"\n")
