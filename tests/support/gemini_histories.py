"""Random histories of Gemini CLI: a file as that program writes it, and the log that its next resume would send."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.support.agent_file import PICTURE
from tests.support.gemini_file import GeminiFile, message
from tests.support.said import said as pairs_of

Said = tuple[str, str]


class GeminiHistory:
    """A session that grows by random steps.

    Attributes:
        file: The file.
        kept: The messages as they are now: the record, and what of it is sent.
        left: What was sent before each rewind and compression.
    """

    def __init__(self, folder: Path, seed: int, workspace: str = "/shop") -> None:
        self.random = random.Random(seed)
        self.file = GeminiFile(folder, workspace)
        self.kept: list[tuple[dict[str, Any], list[Said]]] = []
        self.left: list[list[Said]] = []
        self.first: str | None = None
        self._number = 0

    @property
    def log(self) -> list[Said]:
        """Pairs that are sent on resume: who, and the text, or the id of a call or of a result."""
        return [each for _, said in self.kept for each in said]

    def grow(self, steps: int) -> GeminiHistory:
        """Do some random steps, the first of which is a turn."""
        self.turn()
        kinds = [
            self.turn, self.calls, self.rewinds, self.is_resumed, self.compresses, self.notes, self.shows_picture,
            self.is_told, self.is_cancelled, self.empties,
        ]  # fmt: skip
        for step in self.random.choices(kinds, weights=[4, 4, 2, 1, 1, 3, 1, 1, 1, 0.3], k=steps):
            step()
        self.turn()
        return self

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind} {self._number}"

    def _add(self, record: dict[str, Any], said: list[Said]) -> None:
        self.kept.append((record, said))
        self.file.write(record, {"$set": {"lastUpdated": record["timestamp"]}})

    def turn(self) -> None:
        self.prompt()
        text = self._name("answer")
        self._add(message("gemini", text, tokens={"total": 14}), [("assistant", text)])

    def prompt(self) -> None:
        text = self._name("question")
        self.first = self.first or text
        self._add(message("user", [{"text": text}]), [("user", text)])

    def calls(self) -> None:
        """Calls of one answer, noted again when their tools have run; the results follow in a message, too."""
        self.prompt()
        text = self.random.choice(["", self._name("answer")])
        words: list[Said] = [("assistant", text)] if text else []
        record = message("gemini", text, thoughts=[], tokens={"total": 14})
        self.file.write(record)
        calls = [self._name("call").replace(" ", "_") for _ in range(self.random.randint(1, 3))]
        responses = [
            {"functionResponse": {"id": call, "name": "ls", "response": {"output": f"result of {call}"}}}
            for call in calls
        ]
        noted = [
            {"id": call, "name": "ls", "args": {}, "status": "success", "result": [response]}
            for call, response in zip(calls, responses, strict=True)
        ]
        made: list[Said] = [("call", call) for call in calls]
        self._add({**record, "toolCalls": noted}, [*words, *made, *(("result", call) for call in calls)])
        if self.random.random() < 0.7:
            self._add(message("user", responses), [])
        text = self._name("answer")
        self._add(message("gemini", text), [("assistant", text)])

    def shows_picture(self) -> None:
        """A prompt with a pasted picture, which stands before the words."""
        text = self._name("question")
        self.first = self.first or text
        picture = {"inlineData": {"mimeType": "image/png", "data": PICTURE}}
        self._add(message("user", [picture, {"text": text}]), [("user", text)])
        text = self._name("answer")
        self._add(message("gemini", text), [("assistant", text)])

    def is_told(self) -> None:
        """A text of a hook, in the person's name."""
        self._add(message("user", [{"text": f"<hook_context>{self._name('told')}</hook_context>"}]), [])

    def is_cancelled(self) -> None:
        """A call that the person broke off, whose result says so."""
        self.prompt()
        call = self._name("call").replace(" ", "_")
        response = {"functionResponse": {"id": call, "name": "ls", "response": {"error": "[Operation Cancelled]"}}}
        noted = {"id": call, "name": "ls", "args": {}, "status": "cancelled", "result": [response]}
        self._add(message("gemini", "", toolCalls=[noted]), [("call", call), ("result", call)])
        self.file.write(message("info", "Request cancelled."))

    def empties(self) -> None:
        """All messages are taken away, as by a session that another program of the same kind loads."""
        self.left.append(self.log)
        self.file.write({"$set": {"messages": []}})
        self.kept = []

    def rewinds(self) -> None:
        """A prompt and all that follows it is taken back."""
        prompts = [number for number, (_, said) in enumerate(self.kept) if said and said[0][0] == "user"]
        if prompts:
            self.left.append(self.log)
            place = self.random.choice(prompts[-3:])
            self.file.write({"$rewindTo": self.kept[place][0]["id"]})
            del self.kept[place:]

    def is_resumed(self) -> None:
        """All messages are written once more, in the form in which they are sent."""
        again = []
        for number, (record, said) in enumerate(self.kept):
            parts = [{"text": record["content"]}] if isinstance(record["content"], str) else list(record["content"])
            parts = [part for part in parts if part.get("text") != ""]
            for call in record.get("toolCalls", []) if isinstance(record["content"], str) else []:
                parts.append({"functionCall": {"id": call["id"], "name": "ls", "args": {}}})
            self.kept[number] = ({**record, "content": parts}, said)
            again.append(self.kept[number][0])
        self.file.write({"$set": {"sessionId": self.file.session_id}}, {"$set": {"messages": again}})

    def compresses(self) -> None:
        """A summary takes the place of what was said."""
        self.left.append(self.log)
        summary, answer = f"question summary {self._name('of')}", self._name("answer")
        records = [message("user", [{"text": summary}]), message("gemini", [{"text": answer}])]
        self.kept = [(records[0], [("user", summary)]), (records[1], [("assistant", answer)])]
        self.file.write({"$set": {"messages": records}})

    def notes(self) -> None:
        """Records that are no messages, and what damage leaves."""
        kind = self.random.randrange(5)
        if kind == 0:
            self.file.write(message("info", "Request cancelled."))
        elif kind == 1:
            self.file.write({"$set": {"directories": ["/more"]}})
        elif kind == 2:
            self.file.write_bytes(b'{"id": "x", "type": "user", "content\n')
        elif kind == 3:
            self.file.write_bytes(b"\0" * 100 + b"\n\n[1]\n")
        elif self.kept:  # a record that is written a second time
            self.file.write(self.random.choice(self.kept)[0])


def is_ours(text: str) -> bool:
    """True of texts that histories are made of."""
    return text.split(" ")[0] in ("question", "answer")


def contents_of(request: list[dict[str, Any]]) -> list[Said]:
    """Read a request of the program in the form of `GeminiHistory.log`; a result that it repeats counts once."""
    found: list[Said] = []
    for content in request:
        who = "assistant" if content["role"] == "model" else "user"
        for part in content["parts"]:
            if "functionCall" in part:
                found.append(("call", part["functionCall"]["id"]))
            elif "functionResponse" in part:
                result = ("result", part["functionResponse"]["id"])
                found += [result] if result not in found else []
            elif is_ours(part.get("text", "")):
                found.append((who, part["text"]))
    return found


def said(messages: list[dict[str, Any]]) -> list[Said]:
    """Messages of a log in the form of `GeminiHistory.log`."""
    return pairs_of(messages, is_ours)


def register(home: Path, workspace: str) -> None:
    """Tell the program that the folder `shop` of its own is that of a workspace."""
    (home / "projects.json").write_text(json.dumps({"projects": {workspace: "shop"}}))
