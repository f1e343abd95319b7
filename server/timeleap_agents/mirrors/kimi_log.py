"""A session of kimi-cli as it grows. Its log has the form of ours; where it goes back, the log is set aside beside it and
written anew, so a step is known by all that stands before it."""

from __future__ import annotations

import hashlib
import json
import uuid
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from timeleap import clock
from timeleap.errors import InvalidInputError, TimeleapError
from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap.storage.durable import OpenFile
from timeleap.storage.reader import timeline_names
from timeleap.storage.record import TL_KEY
from timeleap_agents.mirrors.claude_files import SUBAGENTS
from timeleap_agents.mirrors.formats.conversion import JsonLine, RecordWriter, sound, workspace_of
from timeleap_agents.mirrors.formats.said_by import words_of_person
from timeleap_agents.mirrors.growing_file import (
    MAX_BRANCHES,
    Conversation,
    Earlier,
    FileReplacedError,
    GrowingFile,
    ResumableSession,
    version_of,
)
from timeleap_agents.mirrors.id_numbers import IdNumbers
from timeleap_agents.mirrors.steps import PlacedStep, Step, Steps, StepTable

TESTED: Final = (1, 10)
"""The newest form of kimi-cli's session directories that these tests have read, which kimi-cli 1.52.0 writes. The logs
themselves name no version; `wire.jsonl` beside them has that of the protocol, which changes with the program."""
ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
STEPS: Final = ROLES | {"_system_prompt", "_usage"}
PICTURES: Final = ("image_url", "audio_url", "video_url")
"""Types of parts that are a prompt without words."""
MAX_NOTES: Final = 4 << 20  # bytes
COMPACTED: Final = "<system>Previous context has been compacted."
"""How the first text of a message begins whose others are the summary of a compaction."""


class KimiLog(Conversation):
    """The conversation in one session directory; its file is the live log, its version that of the form of the directory."""

    writer = "kimi-cli with the protocol"
    tested = TESTED
    by_offset = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._id = path.parent.name
        self._steps = _LogSteps(path, self.file.left_out)
        self._wire = WireTimes(path.with_name("wire.jsonl"))

    def read(self) -> None:
        super().read()
        self._read_notes()

    def read_start(self) -> None:
        self._read_notes()

    def _take(self, line: JsonLine, record: Json) -> None:
        self._steps.take(line, record)

    def begins_with(self, end: int, fingerprint: str) -> bool:
        # By the key of a step it is known that all before it is the same.
        del end, fingerprint
        return True

    def steps(self) -> Sequence[Step]:
        return self._steps.shown() if self._steps.spoken else []

    def earlier(self, since: int = 0) -> list[Earlier]:
        del since
        found = []
        for name in reversed(timeline_names(self.file.path)[:MAX_BRANCHES]):
            steps, file = _LogSteps(name.path, LossTally()), GrowingFile(name.path)
            for line in file.added():
                if line.record is not None:
                    steps.take(line, line.record)
                file.forget_fresh()
            if steps.spoken:
                found.append(Earlier(steps.shown()))
        return found

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        numbers: Counter[str] = Counter()
        for step, record in self._records(steps):
            self._write(record, log, numbers)
            yield step

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        made, answered = set[str](), set[str]()
        for _, record in self._records(steps):
            calls = record.get("tool_calls")
            calls = calls if isinstance(calls, list) else []
            made |= {str(call.get("id")) for call in calls if isinstance(call, dict)}
            answered.add(str(record.get("tool_call_id")))
        return made - answered

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        if self.file.path.parent.parent.name == SUBAGENTS:
            raise InvalidInputError.of("sessionId", "mirrors a sub-agent's session, in which kimi-cli does not go on")
        if self.workspace is None:
            raise InvalidInputError.of(
                "sessionId", "mirrors a session whose folder is not in kimi.json, so kimi-cli would not find it again"
            )
        session_id = str(uuid.uuid4())
        path = self.file.path.parents[1] / session_id / self.file.path.name
        return ResumableSession(path, self._lines_up_to(steps[-1]), ("kimi", "--session", session_id))

    def _lines_up_to(self, last: Step) -> Iterator[Json]:
        for line in GrowingFile(self.file.path).added():
            if line.offset > last.offset:
                return
            if line.record is not None:
                yield line.record

    def _records(self, steps: Sequence[Step]) -> Iterator[tuple[Step, Json]]:
        for path, part in groupby(steps, key=lambda step: getattr(step, "file", self.file.path)):
            file = self.file if path == self.file.path else GrowingFile(path)
            yield from file.records(list(part))

    def _write(self, record: Json, log: RecordWriter, numbers: Counter[str]) -> None:
        role = record.get("role")
        if role == "_system_prompt":
            log.system_prompt(str(record.get("content")))
        elif role == "_usage":
            log.usage(record.get("token_count"))
        elif role in ROLES:
            message = {name: value for name, value in _sound(record).items() if name != TL_KEY}
            if role == "user" and (words := words_in(message.get("content"))) is not None:
                log.checkpoint(message, self._wire.time_of(words, numbers[words]), words)
                numbers[words] += 1
            log.message(message)

    def _read_notes(self) -> None:
        """Read the notes in the log's folder: a title, the version; and which folder the directory's name stands for."""
        directory = self.file.path.parent
        self.first_prompt = self.first_prompt or self._steps.first_prompt
        losses = self.file.left_out
        losses.put("results", "results go with no call of the conversation", len(self._steps.orphans))
        self._read_times()
        title = _document(directory / "state.json").get("custom_title")
        self.title = sound(title) if isinstance(title, str) and title.strip() else None
        if self.version == (0,):
            self.version = version_of(_first_line(directory / "wire.jsonl").get("protocol_version"))
        if self.workspace is None:
            self.workspace = _folder_of(directory.parent)

    def _read_times(self) -> None:
        """The times are in the journal of events beside the log; else they are the file's own."""
        self._wire.read()
        self.created_at, self.updated_at = self._wire.first, self._wire.last
        if self.updated_at is None:
            with suppress(OSError):
                self.created_at = self.updated_at = clock.iso(self.file.path.stat().st_mtime)


class WireTimes:
    """When prompts were made, in the journal of events that kimi-cli keeps beside a log.

    Attributes:
        first: ISO-8601 UTC, of its first event; `last`: of its last.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self.first: str | None = None
        self.last: str | None = None
        self._file = GrowingFile(self._path)
        self._times: dict[str, list[str]] = {}

    def read(self) -> None:
        """Take in what was added; nothing of a journal that is not there. Blocking."""
        for _ in range(2):
            with suppress(TimeleapError):
                try:
                    self._read_added()
                except FileReplacedError:
                    self._begin()
                else:
                    return

    def _read_added(self) -> None:
        for line in self._file.added():
            self._take(line.record or {})
            self._file.forget_fresh()

    def time_of(self, words: str, number: int) -> str | None:
        """The time of the prompt of these words which `number` others of the same words stand before."""
        times = self._times.get(_key_of(words))
        return None if times is None else times[min(number, len(times) - 1)]

    def _take(self, record: Json) -> None:
        when, message = record.get("timestamp"), record.get("message")
        if not isinstance(when, (int, float)) or isinstance(when, bool) or not isinstance(message, dict):
            return
        try:
            time = clock.iso(when)
        except (ValueError, OverflowError, OSError):
            return
        self.first, self.last = min(self.first or time, time), max(self.last or time, time)
        payload = message.get("payload")
        if message.get("type") in ("TurnBegin", "SteerInput") and isinstance(payload, dict):
            words = words_in(payload.get("user_input"))
            if words is not None:
                self._times.setdefault(_key_of(words), []).append(time)


def _key_of(words: str) -> str:
    text = " ".join(words.split()).encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


class _LogSteps:
    """The steps of one log.

    Attributes:
        spoken: Some of them are messages.
        first_prompt: How the first prompt begins.
        orphans: Places of the results that go with no call before them.
    """

    def __init__(self, path: Path, left_out: LossTally) -> None:
        self._made = StepTable(PlacedStep)
        self.spoken = False
        self.first_prompt: str | None = None
        self.orphans: set[int] = set()
        self._calls = IdNumbers()
        self._path, self._left_out = path, left_out
        self._before = hashlib.blake2b(digest_size=16)

    def take(self, line: JsonLine, record: Json) -> None:
        """Add the step that a line is, if it is one."""
        role = record.get("role")
        if not isinstance(role, str) or role not in STEPS:
            if not isinstance(role, str) or not role.startswith("_"):
                self._left_out.add("records", "records are of no known role")
            return
        try:
            text = json.dumps(record)
        except RecursionError:
            self._left_out.add("messages", "messages are nested too deeply")
            return
        self.spoken = self.spoken or role in ROLES
        self._before.update(text.encode())
        key = self._before.hexdigest()
        place = self._made.add(PlacedStep(key, line.offset, line.length, None, self._path))
        self._note(place, role, record)

    def _note(self, place: int, role: str, record: Json) -> None:
        calls = record.get("tool_calls")
        for call in calls if role == "assistant" and isinstance(calls, list) else []:
            if isinstance(call, dict):
                self._calls.number(f".{call.get('id')}")
        if role == "tool" and not self._calls.find(f".{record.get('tool_call_id')}"):
            self.orphans.add(place)
        if role == "user" and self.first_prompt is None:
            words = words_in(record.get("content"))
            self.first_prompt = first_words({"content": sound(words)}) if words else None

    def shown(self) -> Steps:
        """The steps in their order, without orphans."""
        return Steps(self._made, array("I", (at for at in range(len(self._made)) if at not in self.orphans)))


def _folder_of(sessions: Path) -> str | None:
    """The folder whose sessions are in a directory: its name is the MD5 of the folder's path."""
    known = _document(sessions.parents[1] / "kimi.json").get("work_dirs")
    for work_dir in known if isinstance(known, list) else []:
        path = work_dir.get("path") if isinstance(work_dir, dict) else None
        if isinstance(path, str):
            name = hashlib.md5(path.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
            if name == sessions.name:  # of another machine's folder it begins with the name of that
                return workspace_of(path)
    return None


def _sound(record: Json) -> Json:
    """A record without halves of surrogate pairs."""
    try:
        msgspec.json.encode(record)
    except UnicodeEncodeError:
        sounded: Json = json.loads(sound(json.dumps(record, ensure_ascii=False)))
        return sounded
    return record


def words_in(content: Any) -> str | None:
    """The words that a person typed in the content of a message, empty where it is a picture; None where the program
    said all of it."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    parts = [part for part in parts if isinstance(part, dict)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    if texts and texts[0].startswith(COMPACTED):
        return None
    words = words_of_person(texts)
    return "" if words is None and any(part.get("type") in PICTURES for part in parts) else words


def _document(path: Path) -> Json:
    return _object(_bytes(path, MAX_NOTES))


def _first_line(path: Path) -> Json:
    return _object(_bytes(path, 4096, whole=False).split(b"\n", 1)[0])


def _bytes(path: Path, most: int, *, whole: bool = True) -> bytes:
    """Read an ordinary file; empty if it is too long, or cannot be read."""
    with suppress(OSError):
        file = OpenFile(path)
        try:
            if not whole or file.status().size <= most:
                return file.pread(0, most)
        finally:
            file.close()
    return b""


def _object(text: bytes) -> Json:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
