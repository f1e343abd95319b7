"""A session of kimi-cli as it grows. Its log has the form of ours; where it goes back, the log is set aside beside it and
written anew, so a step is known by all that stands before it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from timeleap.errors import InvalidInputError
from timeleap.mirrors.formats.conversion import Json, JsonLine, LossTally, RecordWriter, sound, workspace_of
from timeleap.mirrors.growing_file import (
    MAX_BRANCHES,
    Conversation,
    Earlier,
    GrowingFile,
    PlacedStep,
    ResumableSession,
    Step,
    version_of,
)
from timeleap.storage.durable import OpenFile
from timeleap.storage.reader import timeline_names
from timeleap.storage.record import TL_KEY

TESTED: Final = (1, 10)
"""The newest form of kimi-cli's session directories that these tests have read, which kimi-cli 1.52.0 writes. The logs
themselves name no version; `wire.jsonl` beside them has that of the protocol, which changes with the program."""
ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
STEPS: Final = ROLES | {"_system_prompt", "_usage"}
NO_PROMPTS: Final = ("<system>", "<system-reminder>", "<notification ")
"""How texts begin that the program says in the person's name."""
MAX_NOTES: Final = 4 << 20  # bytes


class KimiLog(Conversation):
    """The conversation in one session directory; its file is the live log, its version that of the form of the directory."""

    writer = "kimi-cli with the protocol"
    tested = TESTED
    by_offset = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._id = path.parent.name
        self._steps = _LogSteps(path, self.file.left_out)

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

    def steps(self) -> list[Step]:
        return list(self._steps.made) if self._steps.spoken else []

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
                found.append(Earlier(steps.made))
        return found

    def write(self, steps: list[Step], log: RecordWriter) -> Iterator[Step]:
        for step, record in self._records(steps):
            self._write(record, log)
            yield step

    def open_calls(self, steps: list[Step]) -> set[str]:
        made, answered = set[str](), set[str]()
        for _, record in self._records(steps):
            calls = record.get("tool_calls")
            calls = calls if isinstance(calls, list) else []
            made |= {str(call.get("id")) for call in calls if isinstance(call, dict)}
            answered.add(str(record.get("tool_call_id")))
        return made - answered

    def continuation(self, steps: list[Step]) -> ResumableSession:
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

    def _records(self, steps: list[Step]) -> Iterator[tuple[Step, Json]]:
        for path, part in groupby(steps, key=lambda step: getattr(step, "file", self.file.path)):
            file = self.file if path == self.file.path else GrowingFile(path)
            yield from file.records(list(part))

    def _write(self, record: Json, log: RecordWriter) -> None:
        role = record.get("role")
        if role == "_system_prompt":
            log.system_prompt(str(record.get("content")))
        elif role == "_usage":
            log.usage(record.get("token_count"))
        elif role in ROLES:
            message = {name: value for name, value in _sound(record).items() if name != TL_KEY}
            if role == "user" and not _text_of(message.get("content")).startswith(NO_PROMPTS):
                log.checkpoint(message, None)
            log.message(message)

    def _read_notes(self) -> None:
        """What stands beside the log: a title, the version; and which folder the directory's name stands for."""
        directory = self.file.path.parent
        title = _document(directory / "state.json").get("custom_title")
        self.title = sound(title) if isinstance(title, str) and title.strip() else None
        if self.version == (0,):
            self.version = version_of(_first_line(directory / "wire.jsonl").get("protocol_version"))
        if self.workspace is None:
            self.workspace = _folder_of(directory.parent)


class _LogSteps:
    """The steps of one log.

    Attributes:
        made: They, in their order.
        spoken: Some of them are messages.
    """

    def __init__(self, path: Path, left_out: LossTally) -> None:
        self.made: list[Step] = []
        self.spoken = False
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
        self.made.append(PlacedStep(self._before.hexdigest(), line.offset, line.length, None, self._path))


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


def _text_of(content: Any) -> str:
    """The first text of a message."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return next((text.lstrip() for text in texts if isinstance(text, str)), "")


def _document(path: Path) -> Json:
    return _object(_bytes(path, MAX_NOTES))


def _first_line(path: Path) -> Json:
    return _object(_bytes(path, 4096, whole=False).split(b"\n", 1)[0])


def _bytes(path: Path, most: int, *, whole: bool = True) -> bytes:
    """What is in an ordinary file; nothing of one that is too long, or cannot be read."""
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
