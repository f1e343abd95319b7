"""A session of Gemini CLI as it grows: lines that add a message, say one once more, take some back, or replace all.

A message is said once more when its tools have run, and all are when a session is gone on with, in another form. So a step
is a part of a message: its text, a call, the result of a call; each is known by what stays of it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap_agents.mirrors import gemini_files
from timeleap_agents.mirrors.formats.conversion import (
    JsonLine,
    RecordWriter,
    content_of,
    image_part,
    sound,
    text_part,
    think_part,
    time_of,
    tool_call,
)
from timeleap_agents.mirrors.formats.said_by import words_of_person
from timeleap_agents.mirrors.gemini_messages import MessageTree, PartStep, Said
from timeleap_agents.mirrors.growing_file import (
    Conversation,
    Earlier,
    ResumableSession,
)
from timeleap_agents.mirrors.steps import Step

TESTED: Final = (0, 61, 0)
"""The newest version of Gemini CLI whose files these tests have read. The files name none."""
COMMAND: Final = re.compile(r"\s*(?:/[a-z][\w:-]*(?:\s|$)|\?\s*$)")
"""Commands to the program, which it does not send."""
CONTEXT: Final = "context"
MAX_ID: Final = 200  # characters


class GeminiLog(Conversation):
    """The conversation in one file."""

    writer = "gemini"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._facts: Json = {}
        self._messages = MessageTree()

    @classmethod
    def present_of(cls, paths: Sequence[Path]) -> Path:
        # A session of the earlier form goes on in lines, which begin with all of it.
        return max(paths, key=lambda path: (path.suffix == ".jsonl", path.stat().st_size))

    def read(self) -> None:
        super().read()
        self._find_workspace()
        self.file.left_out.put("results", "results go with no call of the session", self._messages.orphans)

    def read_start(self) -> None:
        self._find_workspace()

    def steps(self) -> Sequence[Step]:
        steps = self._messages.steps()
        return steps if any(step.call != CONTEXT for step in _parts(steps)) else []

    def earlier(self, since: int = 0) -> list[Earlier]:
        known, found = [self._messages.keys(self._messages.steps())], []
        for steps in self._messages.earlier():
            keys = self._messages.keys(steps)
            if any(step.offset >= since for step in steps) and not any(keys == each[: len(keys)] for each in known):
                known.append(keys)
                found.append(Earlier(steps))
        return found

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        for step, message in self._found(steps):
            self._write(step, message, log)
            yield step

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        found = {part: {step.call for step in _parts(steps) if step.part == part} for part in ("call", "result")}
        return found["call"] - found["result"]

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        if not isinstance(self._facts.get("projectHash"), str):
            raise InvalidInputError.of("sessionId", "mirrors a file that does not say of which project it is")
        session_id = str(uuid.uuid4())
        name = f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime())}-{session_id[:8]}.jsonl"
        records = self._lines_of(steps, session_id)
        folder = self.file.path.parent
        folder = folder.parent if folder.parent.name == gemini_files.CHATS else folder
        return ResumableSession(folder / name, records, ("gemini", "--resume", session_id))

    def _lines_of(self, steps: Sequence[Step], session_id: str) -> Iterator[Json]:
        """Lines of the new session: its facts, then each message once. Blocking."""
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
        for step, message in self._found(steps):
            if (step.offset, step.index) not in places and message:
                places.add((step.offset, step.index))
                again = {} if message["id"] not in ids else {"id": str(uuid.uuid4())}  # a result may have its call's id
                ids.add(message["id"])
                yield {**_with_calls(message, calls), **again}

    # Reading

    def _take(self, line: JsonLine, record: Json) -> None:
        changed = record.get("$set")
        self._note_time(record.get("timestamp"))
        if isinstance(record.get("$rewindTo"), str):
            self._messages.rewind(record["$rewindTo"])
        elif isinstance(record.get("id"), str):
            self._take_message(line, -1, record)
        elif isinstance(changed, dict):
            self._take_facts(line, changed)
        elif isinstance(record.get("sessionId"), str):
            self._take_facts(line, record)
        else:
            self.file.left_out.add("records", "records are of no known kind")

    def _note_time(self, value: object) -> None:
        when = time_of(value)
        if when is not None:
            self.created_at = min(self.created_at or when, when)
            self.updated_at = max(self.updated_at or when, when)

    def _take_facts(self, line: JsonLine, facts: Json) -> None:
        messages = facts.get("messages")
        self._facts |= {name: facts[name] for name in ("sessionId", "projectHash") if name in facts}
        self._note_time(facts.get("startTime"))
        self._note_time(facts.get("lastUpdated"))
        found = self._facts.get("sessionId")
        self._id = sound(found) if isinstance(found, str) else None
        if isinstance(title := facts.get("summary"), str) and title.strip():
            self.title = sound(title)
        if isinstance(messages, list):
            self._messages.leave()
            self._messages.go_to(-1)
            for index, message in enumerate(messages):
                if isinstance(message, dict) and isinstance(message.get("id"), str):
                    self._note_time(message.get("timestamp"))
                    self._take_message(line, index, message)

    def _take_message(self, line: JsonLine, index: int, message: Json) -> None:
        kind = message.get("type")
        if kind not in ("user", "gemini"):
            return  # what the program shows, and does not send
        made: list[PartStep] = []

        def add(key: str, part: Said, call: str) -> None:
            made.append(PartStep(key, line.offset, line.length, time_of(message.get("timestamp")), index, part, call))

        contents = _contents(message)
        text = _text_of(contents)
        if text or any(map(_image_of, contents)):
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
            words = words_in(message) if kind == "user" else ""
            add(f"{sound(message['id'][:MAX_ID])}.{digest}", "text", CONTEXT if words is None else "")
            if words:
                self.first_prompt = self.first_prompt or first_words({"content": sound(words)})
        calls = _calls(message)
        for call in calls:
            add(f"call.{call['id']}", "call", call["id"])
        responses = _responses(message)
        for response in responses:
            add(f"result.{response['id']}", "result", response["id"])
        self._messages.put(message["id"], str(kind), made, text)

    def _find_workspace(self) -> None:
        if self.workspace is None:
            self.workspace = self.began_in = gemini_files.workspace_at(self.file.path, self._facts)

    # Writing

    def _found(self, steps: Sequence[Step]) -> Iterator[tuple[PartStep, Json]]:
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
                if (words := words_in(message)) is not None:
                    log.checkpoint(said, step.time, sound(words))
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
            for response in [each for each in _responses(message) if each["id"] == step.call][:1]:
                log.message({"role": "tool", "content": response["text"], "tool_call_id": step.call})
        tokens = message.get("tokens")
        if step.part != "result" and isinstance(tokens, dict):
            log.usage(tokens.get("total"))


def _parts(steps: Iterable[Step]) -> Iterator[PartStep]:
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


def _responses(message: Json) -> list[Json]:
    """The results of calls, as `{id, text}`, in the content or beside the calls that they are of."""
    found: list[Any] = [part.get("functionResponse") for part in _contents(message)]
    noted = message.get("toolCalls")
    for call in noted if isinstance(noted, list) else []:
        result = call.get("result") if isinstance(call, dict) else None
        parts = result if isinstance(result, list) else [result]
        given = [part.get("functionResponse") for part in parts if isinstance(part, dict)]
        if any(isinstance(each, dict) for each in given):
            found += [{"id": call.get("id"), **each} for each in given if isinstance(each, dict)]
        elif result:
            found.append(
                {"id": call.get("id"), "response": {"output": result if isinstance(result, str) else _texts(parts)}}
            )
    return [
        {"id": sound(each["id"]), "text": _result(each.get("response"))}
        for each in found
        if isinstance(each, dict) and _is_id(each.get("id"))
    ]


def _texts(parts: list[Any]) -> str:
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, (str, dict))]
    return "".join(text for text in texts if isinstance(text, str)) or json.dumps(parts, ensure_ascii=False)


def words_in(message: Json) -> str | None:
    """The words that a person typed in a message of the role `user`, empty where it is a picture; None where the
    program said all of it, or where it is a command to the program."""
    contents = _contents(message)
    shown = _text_of(_contents({"content": message.get("displayContent")}))
    if shown.strip() and words_of_person([_text_of(contents)]) is not None:
        words: str | None = shown
    else:
        words = words_of_person([part["text"] for part in contents if isinstance(part.get("text"), str)])
    if words is None:
        return "" if any(map(_image_of, contents)) and not _text_of(contents).strip() else None
    return None if COMMAND.match(words) else words


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
