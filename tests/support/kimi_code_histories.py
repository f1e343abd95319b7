"""Random histories of kimi-code: a journal as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.agent_file import PICTURE_URL
from tests.support.kimi_code_file import KimiCodeFile
from tests.support.said import said as pairs_of


class Said(NamedTuple):
    """A message that is sent: who, and the text, or the id of a call or of a result.

    Attributes:
        line: Of its record.
        anchor: The prompt's id, where an undo counts it.
        owner: Of a reminder: the prompt it belongs to.
        kept: A compaction keeps it.
    """

    who: str
    text: str
    line: int
    anchor: str = ""
    owner: str = ""
    kept: bool = False


def by_line(said: Said) -> int:
    return said.line


class History:
    """A session that grows by random steps.

    Attributes:
        file: The file.
        log: What is sent on resume.
        first: The first prompt.
    """

    def __init__(self, home: Path, seed: int, workspace: str = "/shop") -> None:
        self.random = random.Random(seed)
        self.file = KimiCodeFile(home, workspace, session=f"session_00000000-0000-4000-8000-{seed:012d}")
        self.log: list[Said] = []
        self.first: str | None = None
        self._number = 0
        self._floor = 0  # what stands before was summed up
        self._undone: list[Said] = []
        self._branches: list[tuple[int, str]] = [(1, "main")]

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def grow(self, steps: int) -> History:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [
            self.turn, self.parallel, self.steered, self.compacts, self.compacts_as_before, self.undoes, self.switches,
            self.undoes_too_much, self.clears, self.notes, self.reminds, self.breaks_off, self.shows_picture,
        ]  # fmt: skip
        weights = [5, 5, 2, 1, 1, 2, 2, 1, 0.5, 2, 2, 1, 1]
        for step in self.random.choices(kinds, weights=weights, k=steps):
            step()
        self.turn()
        return self

    def prompt(self, **origin: Any) -> str:
        text = self._name("question")
        self.first = self.first or text
        prompt = self.file.asks(text, **origin)
        self.log.append(Said("user", text, self.file.lines, anchor="" if origin else prompt, kept=True))
        return prompt

    def turn(self) -> None:
        prompt = self.prompt()
        if self.random.random() < 0.3:
            text = self._name("reminder")
            line = self.file.reminds(text, ownerPromptId=prompt)
            self.log.append(Said("reminder", text, line, owner=prompt))
        self.answers()

    def shows_picture(self) -> None:
        """A prompt with a pasted picture, which stands before the words."""
        text = self._name("question")
        self.first = self.first or text
        prompt = f"msg_{self._number}"
        picture = {"type": "image_url", "imageUrl": {"url": PICTURE_URL}}
        self.file.said("user", text, {"kind": "user"}, id=prompt, content=[picture, {"type": "text", "text": text}])
        self.log.append(Said("user", text, self.file.lines, anchor=prompt, kept=True))
        self.answers()

    def answers(self) -> None:
        text = self._name("answer")
        self.file.says(text)
        self.log.append(Said("assistant", text, self.file.lines))

    def parallel(self) -> None:
        """Calls of one step; the results come in any order, and are sent in that of the calls."""
        self.prompt()
        step = self.file.begins()
        if self.random.random() < 0.4:
            text = self._name("answer")
            self.file.piece(step, text)
            self.log.append(Said("assistant", text, self.file.lines))
        calls = [self._name("call").replace(" ", "_") for _ in range(self.random.randint(1, 4))]
        for call in calls:
            self.file.calls(step, call)
            self.log.append(Said("call", call, self.file.lines))
        for call in self.random.sample(calls, len(calls)):
            self.file.gets(call, f"result of {call}")
        if self.random.random() < 0.2:
            self.file.gets(self.random.choice([*calls, "call_nobody"]), "result of nothing")
        self.log += [Said("result", call, self.file.lines) for call in calls]
        if self.random.random() < 0.8:
            self.file.ends(step, "tool_use")
        self.answers()

    def steered(self) -> None:
        """A prompt that was typed while the program worked."""
        self.prompt()
        step, call = self.file.begins(), self._name("call").replace(" ", "_")
        self.file.calls(step, call)
        self.file.gets(call, f"result of {call}")
        self.file.ends(step, "tool_use")
        self.log += [Said("call", call, self.file.lines), Said("result", call, self.file.lines)]
        self.prompt(inTurn=True)
        self.answers()

    def breaks_off(self) -> None:
        """A turn that was interrupted in a step without words."""
        self.prompt()
        self.file.ends(self.file.begins(), "interrupted")

    def reminds(self) -> None:
        text = self._name("reminder")
        self.log.append(Said("reminder", text, self.file.reminds(text)))

    def compacts(self) -> None:
        summary = self._name("summary")
        kept = [said for said in self.log if said.kept]
        self.file.record(
            "context.apply_compaction", summary=summary, contextSummary=f"so far: {summary}",
            compactedCount=len(self.log), keptUserMessageCount=len(kept), tokensBefore=1, tokensAfter=1,
        )  # fmt: skip
        self.log = [*kept, Said("user", f"so far: {summary}", self.file.lines)]
        self._floor, self._undone = len(self.log), []

    def compacts_as_before(self) -> None:
        """As earlier versions noted it."""
        summary = self._name("summary")
        self.file.record("context.apply_compaction", summary=summary, compactedCount=10_000)
        self.log = [Said("user", summary, self.file.lines)]
        self._floor, self._undone = len(self.log), []

    def clears(self) -> None:
        self.file.record("context.clear")
        self.log, self._floor, self._undone = [], 0, []

    def _anchors(self) -> list[int]:
        return [at for at in range(self._floor, len(self.log)) if self.log[at].anchor]

    def _cut(self, count: int) -> int | None:
        """The place in the log before the last so many prompts."""
        anchors = self._anchors()
        return anchors[-count] if len(anchors) >= count else None

    def undoes(self) -> None:
        count = self.random.randint(1, 2)
        self.file.record("context.undo", count=count)
        if (at := self._cut(count)) is not None:
            self._undone += [said for said in self.log[at:] if said.who == "reminder"]
            del self.log[at:]

    def undoes_too_much(self) -> None:
        """More than there is: nothing happens."""
        self.file.record("context.undo", count=1000)

    def switches(self) -> None:
        """An undo of 2.1: a new branch."""
        count = self.random.randint(1, 2)
        if (at := self._cut(count)) is None:
            return
        base = self.log[at].line - 1
        held = next(branch for line, branch in reversed(self._branches) if line <= base)
        branch = f"b{len(self._branches)}"
        line = self.file.lines + 1
        self.file.record(
            "agent.switched", branch=branch, reason="undo", base={"branch": held, "line": base}, turns=count,
            legacyUndoLine=line + 1,
        )  # fmt: skip
        self.file.record("context.undo", count=count)
        self.file.record("context.undone", turns=count, fromTurnId=0)
        self._branches.append((line + 1, branch))
        prompts = {said.anchor for said in self.log[:at]}
        # An undo that lies behind it counts no more, so the reminders that it took away are there again.
        again = [said for said in (*self.log[at:], *self._undone) if said.who == "reminder" and said.line > base]
        self.log[at:] = sorted((each for each in again if not each.owner or each.owner in prompts), key=by_line)

    def notes(self) -> None:
        """Records that are no messages, and lines that are none."""
        kind = self.random.randrange(6)
        if kind == 0:
            self.file.record("dream", x=1)
        elif kind == 1:
            self.file.write_bytes(b"\n")
        elif kind == 2:
            self.file.write_bytes(b"[1]\n")
            self.file.lines += 1
        elif kind == 3:
            self.file.record("usage.record", model="fake", usage={"output": 3}, usageScope="turn")
        elif kind == 4:
            message = {"role": "user", "content": [{"type": "text", "text": "of another"}], "toolCalls": []}
            self.file.record("context.append_message", agentId="agent-7", message=message)
        else:
            self.file.said("tool", "result of nothing", toolCallId="call_nobody")


def said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """List the pairs of messages as the model has them: of what the program says in the person's name, its first line."""
    return [
        ("reminder", text.splitlines()[1]) if who == "user" and text.startswith("<system-reminder>") else (who, text)
        for who, text in pairs_of(messages)
    ]
