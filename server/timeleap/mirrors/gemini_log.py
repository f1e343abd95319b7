"""A session of Gemini CLI as it grows: lines that add a message, say one once more, take some back, or replace all.

A message is said once more when its tools have run, and all are when a session is gone on with, in another form. So a step
is a part of a message: its text, a call, the result of a call; each is known by what stays of it.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.mirrors.formats.conversion import (
    Json,
    JsonLine,
    RecordWriter,
    content_of,
    image_part,
    sound,
    text_part,
    think_part,
    time_of,
    tool_call,
    workspace_of,
)
from timeleap.mirrors.growing_file import MAX_BRANCHES, Conversation, Earlier, ResumableSession, Step
from timeleap.storage.durable import OpenFile

TESTED: Final = (0, 61, 0)
"""The newest version of Gemini CLI whose files these tests have read. The files name none."""
CONTEXTS: Final = ("<session_context>", "<hook_context>")
"""How texts begin that the program says in the person's name."""
CONTEXT: Final = "context"
MAX_ID: Final = 200  # characters
MAX_PATH: Final = 1 << 16

Said = Literal["text", "call", "result"]


class PartStep(Step, frozen=True):
    """A part of a message.

    Attributes:
        index: Of the message among those that its line replaces all with; -1: the line is the message.
        part: Which part it is.
        call: The id of the call.
    """

    index: int
    part: Said
    call: str


class GeminiLog(Conversation):
    """The conversation in one file."""

    writer = "gemini"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._facts: Json = {}
        self._said: dict[tuple[str, str], list[PartStep]] = {}  # by the id of a message and its type
        self._earlier: list[list[Step]] = []

    def read(self) -> None:
        super().read()
        self._find_workspace()

    def read_start(self) -> None:
        self._find_workspace()

    def steps(self) -> list[Step]:
        steps = self._steps()
        return steps if any(step.call != CONTEXT for step in _parts(steps)) else []

    def earlier(self, since: int = 0) -> list[Earlier]:
        now = [step.key for step in self._steps()]
        left = [steps for steps in self._earlier if [step.key for step in steps] != now[: len(steps)]]
        return [Earlier(steps) for steps in left if any(step.offset >= since for step in steps)]

    def write(self, steps: list[Step], log: RecordWriter) -> Iterator[Step]:
        for step, message in self._messages(steps):
            self._write(step, message, log)
            yield step

    def open_calls(self, steps: list[Step]) -> set[str]:
        found = {part: {step.call for step in _parts(steps) if step.part == part} for part in ("call", "result")}
        return found["call"] - found["result"]

    def continuation(self, steps: list[Step]) -> ResumableSession:
        if not isinstance(self._facts.get("projectHash"), str):
            raise InvalidInputError.of("sessionId", "mirrors a file that does not say of which project it is")
        session_id = str(uuid.uuid4())
        name = f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{session_id[:8]}.jsonl"
        records = self._lines_of(steps, session_id)
        return ResumableSession(self.file.path.with_name(name), records, ("gemini", "--resume", session_id))

    def _lines_of(self, steps: list[Step], session_id: str) -> Iterator[Json]:
        """Those of the new session: its facts, then each message once. Blocking."""
        now = clock.now_iso()
        yield {
            "sessionId": session_id,
            "projectHash": self._facts["projectHash"],
            "startTime": now,
            "lastUpdated": now,
            "kind": "main",
        }
        calls = {step.call for step in _parts(steps) if step.part == "call"}
        places, ids = set[tuple[int, int]](), set[str]()
        for step, message in self._messages(steps):
            if (step.offset, step.index) not in places and message:
                places.add((step.offset, step.index))
                again = {} if message["id"] not in ids else {"id": str(uuid.uuid4())}  # a result may have its call's id
                ids.add(message["id"])
                yield {**_with_calls(message, calls), **again}

    # Reading

    def _take(self, line: JsonLine, record: Json) -> None:
        changed = record.get("$set")
        if isinstance(record.get("$rewindTo"), str):
            self._leave()
            ids = [message_id for message_id, _ in self._said]
            kept = ids.index(record["$rewindTo"]) if record["$rewindTo"] in ids else 0
            self._said = dict(islice(self._said.items(), kept))
        elif isinstance(record.get("id"), str):
            self._take_message(line, -1, record)
        elif isinstance(changed, dict):
            self._take_facts(line, changed)
        elif isinstance(record.get("sessionId"), str):
            self._take_facts(line, record)
        else:
            self.file.left_out.add("records", "records are of no known kind")

    def _take_facts(self, line: JsonLine, facts: Json) -> None:
        messages = facts.get("messages")
        self._facts |= {name: facts[name] for name in ("sessionId", "projectHash") if name in facts}
        found = self._facts.get("sessionId")
        self._id = sound(found) if isinstance(found, str) else None
        if isinstance(title := facts.get("summary"), str) and title.strip():
            self.title = sound(title)
        if isinstance(messages, list):
            self._leave()
            self._said = {}
            for index, message in enumerate(messages):
                if isinstance(message, dict) and isinstance(message.get("id"), str):
                    self._take_message(line, index, message)

    def _take_message(self, line: JsonLine, index: int, message: Json) -> None:
        kind = message.get("type")
        if kind not in ("user", "gemini"):
            return  # what the program shows, and does not send
        made: list[PartStep] = []

        def add(key: str, part: Said, call: str) -> None:
            made.append(PartStep(key, line.offset, line.length, time_of(message.get("timestamp")), index, part, call))

        contents = _contents(message)
        if (text := _text_of(contents)) or any(map(_image_of, contents)):
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
            is_context = kind == "user" and text.lstrip().startswith(CONTEXTS)
            add(f"{sound(message['id'][:MAX_ID])}.{digest}", "text", CONTEXT if is_context else "")
        for call in _calls(message):
            add(f"call.{call['id']}", "call", call["id"])
        for response in _responses(contents):
            add(f"result.{response['id']}", "result", response["id"])
        self._said[message["id"], kind] = made

    def _leave(self) -> None:
        if steps := self._steps():
            self._earlier = [*self._earlier, steps][-MAX_BRANCHES:]

    def _steps(self) -> list[Step]:
        """All there are; what is said twice counts where it is said first."""
        found: dict[str, Step] = {}
        for step in (step for steps in self._said.values() for step in steps):
            found.setdefault(step.key, step)
        return list(found.values())

    def _find_workspace(self) -> None:
        if self.workspace is None:
            try:
                file = OpenFile(self.file.path.parents[1] / ".project_root")
            except OSError:
                return
            try:
                self.workspace = workspace_of(file.pread(0, MAX_PATH).decode("utf-8", "replace").strip())
            finally:
                file.close()

    # Writing

    def _messages(self, steps: list[Step]) -> Iterator[tuple[PartStep, Json]]:
        """Steps with their messages; empty where the line is another one by now. Blocking."""
        for step, record in self.file.records(steps):
            assert isinstance(step, PartStep)
            message: Any = record
            if step.index >= 0:
                messages = (record.get("$set") or record).get("messages") or []
                message = messages[step.index] if step.index < len(messages) else {}
            yield step, message

    def _write(self, step: PartStep, message: Json, log: RecordWriter) -> None:
        contents = _contents(message)
        if step.part == "text":
            parts = [text_part(_text_of([each])) for each in contents if _text_of([each])]
            parts += [image_part(url) for each in contents if (url := _image_of(each))]
            if message.get("type") == "gemini":
                log.answer([*_thoughts(message), *parts], [])
            else:
                said = {"role": "user", "content": content_of(parts)}
                if not _text_of(contents).lstrip().startswith(CONTEXTS):
                    log.checkpoint(said, step.time)
                log.message(said)
        elif step.part == "call":
            calls = _calls(message)
            for number, call in enumerate(calls):
                if call["id"] == step.call:
                    thoughts = _thoughts(message) if number == 0 and not _text_of(contents) else []
                    log.answer(
                        thoughts, [tool_call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))]
                    )
        else:
            for response in (each for each in _responses(contents) if each["id"] == step.call):
                log.message({"role": "tool", "content": response["text"], "tool_call_id": step.call})
        tokens = message.get("tokens")
        if step.part != "result" and isinstance(tokens, dict):
            log.usage(tokens.get("total"))


def _parts(steps: list[Step]) -> Iterator[PartStep]:
    return (step for step in steps if isinstance(step, PartStep))


def _contents(message: Json) -> list[Json]:
    """The content of a message as parts: it may be a text, a part, or several."""
    content = message.get("content")
    many = content if isinstance(content, list) else [content]
    parts = ({"text": part} if isinstance(part, str) else part for part in many)
    return [part for part in parts if isinstance(part, dict)]


def _text_of(contents: list[Json]) -> str:
    return "".join(part["text"] for part in contents if isinstance(part.get("text"), str) and not part.get("thought"))


def _image_of(part: Json) -> str | None:
    data = part.get("inlineData")
    if not isinstance(data, dict) or not isinstance(data.get("data"), str):
        return None
    return f"data:{data.get('mimeType')};base64,{data['data']}"


def _thoughts(message: Json) -> list[Json]:
    thoughts = message.get("thoughts")
    found = [each for each in thoughts if isinstance(each, dict)] if isinstance(thoughts, list) else []
    return [think_part(f"{each.get('subject')}: {each.get('description')}") for each in found]


def _calls(message: Json) -> list[Json]:
    """The calls that a message makes, as `{id, name, args}`."""
    noted = message.get("toolCalls")
    found = [*(noted if isinstance(noted, list) else []), *(part.get("functionCall") for part in _contents(message))]
    calls = [each for each in found if isinstance(each, dict) and _is_id(each.get("id"))]
    return list(
        {
            sound(each["id"]): {"id": sound(each["id"]), "name": each.get("name"), "args": each.get("args")}
            for each in calls
        }.values()
    )


def _responses(contents: list[Json]) -> list[Json]:
    """The results of calls, as `{id, text}`."""
    found = [part.get("functionResponse") for part in contents]
    return [
        {"id": sound(each["id"]), "text": _result(each.get("response"))}
        for each in found
        if isinstance(each, dict) and _is_id(each.get("id"))
    ]


def _result(response: Any) -> str:
    if isinstance(response, dict):
        for name in ("output", "error"):
            if isinstance(response.get(name), str):
                return sound(response[name])
    return sound(json.dumps(response, ensure_ascii=False))


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ID


def _with_calls(message: Json, calls: set[str]) -> Json:
    """A message without the calls that are not among these."""
    noted, content = message.get("toolCalls"), message.get("content")
    made = dict(message)
    if isinstance(noted, list):
        made["toolCalls"] = [each for each in noted if isinstance(each, dict) and each.get("id") in calls]
    if isinstance(content, list):
        made["content"] = [each for each in content if not _is_other_call(each, calls)]
    return made


def _is_other_call(part: Any, calls: set[str]) -> bool:
    call = part.get("functionCall") if isinstance(part, dict) else None
    return isinstance(call, dict) and call.get("id") not in calls
