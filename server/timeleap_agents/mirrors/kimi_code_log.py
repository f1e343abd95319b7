"""A session of kimi-code as it grows: one reader for mirrors, imports, and what is gone on with.

Each piece of an answer is a message of its own, so that a line is shown as soon as it is written.
"""

from __future__ import annotations

import base64
import json
import os
import re
import time
import uuid
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap.storage.durable import OpenFile
from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.conversion import (
    JsonLine,
    RecordWriter,
    content_of,
    parts_in,
    shown_parts,
    sound,
    text_part,
    tool_call,
    workspace_of,
)
from timeleap_agents.mirrors.formats.kimi_code import (
    MAIN,
    JournalEntry,
    entry_of,
    is_state,
    shown,
    time_of,
    words_in,
)
from timeleap_agents.mirrors.formats.kimi_code_context import (
    REASONS,
    TAKES_AWAY,
    Branches,
    JournalContext,
)
from timeleap_agents.mirrors.growing_file import (
    MAX_BRANCHES,
    Conversation,
    Earlier,
    ResumableSession,
    version_of,
)
from timeleap_agents.mirrors.id_numbers import IdNumbers
from timeleap_agents.mirrors.kimi_code_messages import Journal, PieceStep
from timeleap_agents.mirrors.scratch import Scratch
from timeleap_agents.mirrors.steps import Step, Steps

TESTED: Final = (1, 5)
"""The newest form of kimi-code's journals that these tests have read, which kimi-code 2.1.0 writes."""
HELD_SECONDS: Final = 600.0
"""How long after it a result waits for those of calls before it; the model hears them in the order of the calls."""
MAX_NOTES: Final = 4 << 20  # bytes
MAX_PICTURE: Final = 16 << 20  # bytes
SESSION: Final = re.compile(r"session_[0-9a-f-]{36}")
_BLOB: Final = re.compile(r"blobref:([^;]+);([0-9a-f]{1,128})")
_USAGE: Final = ("inputOther", "inputCacheRead", "inputCacheCreation", "output")


class KimiCodeLog(Conversation):
    """The conversation of one agent: its file is the journal, its version that of the form of the journal."""

    writer = "kimi-code with the journal's form"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._agent = path.parent.name if path.parent.parent.name == "agents" else None
        self._id = path.parents[2].name if self._agent is not None else None
        self._lines = 0
        self._journal = Journal()
        self._context = JournalContext(self._journal)
        self._paired: set[int] = set()  # lines of undos that switches have done already
        self._earlier: list[tuple[Steps, TimelineReason]] = []
        self._aside = 0  # records of other agents
        self._unsaid: set[str] = set()  # ids of prompts of turns that no message has
        self._said = IdNumbers()  # of those that one has

    def read(self) -> None:
        for line in self._journal.scratch.stages(self.file.added()):
            if line.record is not None:
                self._take(line, line.record)
            elif line.length > 0:
                self._lines += 1
        self._read_notes()
        losses = self.file.left_out
        orphans = self._context.orphans
        lost = len(orphans) + self._journal.homeless(orphans)
        losses.put("results", "results go with no call of the conversation", lost)
        losses.put("prompts", "prompts stand in notes of turns alone", len(self._unsaid))
        losses.put("agents", "records are of another agent", self._aside)

    def read_start(self) -> None:
        self._read_notes()

    def _take(self, line: JsonLine, record: Json) -> None:
        self._lines += 1
        when = time_of(record.get("time", record.get("created_at")))
        if when is not None:
            self.created_at, self.updated_at = min(self.created_at or when, when), max(self.updated_at or when, when)
        if record.get("type") == "metadata":
            self.version = max(self.version, version_of(record.get("protocol_version")))
        agent = record.get("agentId")
        if isinstance(agent, str):
            self._agent = self._agent or agent
            if agent != self._agent:
                self._aside += str(record.get("type")).startswith("context.")
                return
        entry = entry_of(line, record, self._lines)
        self._note_prompt(entry, record)
        if entry is not None:
            self._apply(entry, record)
        elif record.get("type") == "profile.bind":
            if self._journal.prompt is None and isinstance(record.get("systemPrompt"), str) and record["systemPrompt"]:
                self._journal.prompt = PieceStep(f"{line.offset}", line.offset, line.length, when, "profile")
        else:
            self._leave_out(record)

    def _note_prompt(self, entry: JournalEntry | None, record: Json) -> None:
        """Note a turn's prompt, and the message that says it, whichever stands first."""
        prompt = record.get("promptId")
        if entry is not None and entry.kept and entry.id:
            self._said.number(entry.id)
            self._unsaid.discard(entry.id)
        elif record.get("type") in ("turn.prompt", "turn.steer") and isinstance(prompt, str):
            origin = record.get("origin")
            if isinstance(origin, dict) and origin.get("kind") == "user" and not self._said.find(prompt):
                self._unsaid.add(prompt)

    def _leave_out(self, record: Json) -> None:
        """Note a record that is neither of the conversation nor state."""
        if is_state(record):
            return
        kind = str(record.get("type"))
        if kind.startswith("context."):
            self.file.left_out.add("records", "records of the conversation cannot be read")
        else:
            self.file.left_out.add("records", f"records of the type {kind[:40]} are none of the conversation")

    def _apply(self, entry: JournalEntry, record: Json) -> None:
        if entry.prompt and self.first_prompt is None:
            words = words_in(record["message"]) or ""
            self.first_prompt = first_words({"content": sound(words)}) or None
        place = self._journal.add(entry)
        if entry.kind in TAKES_AWAY:
            before = self._steps(held=False)
            if entry.kind == "switch":
                self._paired.add(entry.paired)
                self._context = JournalContext(self._journal, begun=self._context.begun)
                for each in Branches(self._journal.entries).active():
                    self._context.take(each, self._text_of)
            elif entry.kind != "undo" or entry.line not in self._paired:  # else it says again what a switch did
                self._context.take(place, self._text_of)
            if before and self._steps(held=False)[: len(before)] != before:
                steps = Steps(self._journal, Scratch().aside(array("i", before.places)))
                self._earlier.append((steps, REASONS.get(entry.kind, "import")))
                del self._earlier[:-MAX_BRANCHES]
        else:
            self._context.take(place, self._text_of)

    def _text_of(self, entry: JournalEntry) -> str:
        message = self.file.peek(entry.offset, entry.length).get("message")
        return _joined(message.get("content")) if isinstance(message, dict) else ""

    # The conversation

    def steps(self) -> Steps:
        held = self._context.holds and self._is_recent()
        self.file.left_out.put("held", "results wait for that of a call before them", int(held))
        steps = self._steps(held=held)
        return self._journal.with_prompt(steps.places) if len(steps) else steps

    def _steps(self, *, held: bool) -> Steps:
        return Steps(self._journal, array("i", self._context.shown(held=held)))

    def _is_recent(self) -> bool:
        return (self.updated_at or "") > clock.iso(time.time() - HELD_SECONDS)

    def earlier(self, since: int = 0) -> list[Earlier]:
        now = self._steps(held=False)
        found: list[Earlier] = []
        for steps, reason in self._earlier:
            is_new = self._journal.reaches(steps.places, since)
            if is_new and steps != now[: len(steps)]:
                found.append(Earlier(self._journal.with_prompt(steps.places), reason))
        return found

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        made, answered = set[str](), set[str]()
        for entry in self._entries_of(steps):
            if entry.kind == "call":
                made.add(entry.call)
            elif entry.kind == "result" or entry.role == "tool":
                answered.add(entry.call)
            else:
                made |= set(entry.calls)
        return made - answered

    def _entries_of(self, steps: Sequence[Step]) -> Iterator[JournalEntry]:
        offsets = self._journal.offsets
        for step in steps:
            place = bisect_left(offsets, step.offset)
            if place < len(offsets) and offsets[place] == step.offset:
                yield self._journal.entries[place]

    # Writing

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        for step, record in self.file.records(steps):
            assert isinstance(step, PieceStep)
            try:
                self._write(step, record, log)
            except RecursionError:
                self.file.left_out.add("messages", "messages are nested too deeply")
            yield step

    def _write(self, step: PieceStep, record: Json, log: RecordWriter) -> None:
        event, message = record.get("event"), record.get("message")
        if step.kind == "profile":
            log.system_prompt(str(record.get("systemPrompt")))
        elif step.kind == "compaction":
            log.message({"role": "user", "content": sound(_summary_in(record))})
        elif step.kind == "message" and isinstance(message, dict):
            self._write_message(step, message, log)
        elif isinstance(event, dict):
            self._write_event(step.kind, event, log)

    def _write_message(self, step: PieceStep, message: Json, log: RecordWriter) -> None:
        parts = self._parts(message.get("content"))
        if step.stop >= 0:
            others = [part for part in parts if part["type"] != "text"]
            text = _joined(message.get("content"))[step.start : step.stop]
            parts = [text_part(text)] if not others or text else others
        role = message.get("role")
        if role == "assistant":
            called = message.get("toolCalls")
            calls = [call for call in called if isinstance(call, dict)] if isinstance(called, list) else []
            log.answer(parts, [tool_call(call.get("id"), call.get("name"), _arguments(call)) for call in calls])
            return
        said: Json = {"role": role, "content": content_of(parts)}
        if role == "tool":
            said["tool_call_id"] = sound(str(message.get("toolCallId")))
        words = words_in(message) if role == "user" else None
        if words is not None:
            log.checkpoint(said, step.time, sound(words))
        log.message(said)

    def _write_event(self, kind: str, event: Json, log: RecordWriter) -> None:
        if kind == "part":
            log.answer(self._parts([event.get("part")]), [])
        elif kind == "call":
            given = json.dumps(event.get("args", {}), ensure_ascii=False)
            log.answer([], [tool_call(event.get("toolCallId"), event.get("name"), given)])
        elif kind == "result":
            result = event.get("result")
            output = result.get("output") if isinstance(result, dict) else result
            parts = self._parts(output)
            log.message(
                {
                    "role": "tool",
                    "content": content_of(parts),
                    "tool_call_id": sound(str(event.get("toolCallId"))),
                }
            )
        elif kind == "end" and isinstance(usage := event.get("usage"), dict):
            log.usage(sum(value for name in _USAGE if type(value := usage.get(name)) is int))

    def _parts(self, content: Any) -> list[Json]:
        return shown_parts(content, partial(shown, picture=self._picture), self.file.left_out)

    def _picture(self, url: str) -> str | None:
        """The data of a picture that is kept beside the journal; None where it is not there any more."""
        reference = _BLOB.fullmatch(url)
        if reference is None:
            return None if url.startswith("blobref:") else url
        data = _bytes(self.file.path.parent / "blobs" / reference[2], MAX_PICTURE)
        return f"data:{reference[1]};base64,{base64.b64encode(data).decode()}" if data else None

    # Beside the journal

    def _read_notes(self) -> None:
        """Take in the title and the folder, which stand beside the agents of a session."""
        if self.file.path.parent.parent.name != "agents":
            return
        session = self.file.path.parents[2]
        state = _document(session / "state.json")
        found = workspace_of(state.get("cwd")) or _workspace_of_folder(session.parent)
        if found is not None:
            self.began_in, self.workspace = self.began_in or found, found
        title = state.get("title")
        if self._agent == MAIN and isinstance(title, str) and title.strip():
            self.title = sound(title.strip())

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        session = self.file.path.parents[2]
        if self._agent != MAIN or SESSION.fullmatch(session.name) is None:
            raise InvalidInputError.of(
                "sessionId", "mirrors a journal that is not in a session's own folder, so kimi-code would not find it"
            )
        session_id = f"session_{uuid.uuid4()}"
        path = session.with_name(session_id) / "agents" / MAIN / self.file.path.name
        state = self._state_of(session, path, session_id)
        healed = []
        if self._context.orphans:
            healed.append(
                f"{len(self._context.orphans)} results of calls that are not in the conversation are left out"
            )
        return ResumableSession(
            path,
            self._records_of(steps),
            ("kimi", "-r", session_id),
            tuple(healed),
            {session.with_name(session_id) / "state.json": json.dumps(state).encode()},
        )

    def _state_of(self, session: Path, path: Path, session_id: str) -> Json:
        now = int(time.time() * 1000)
        old = _document(session / "state.json")
        agents = {MAIN: {"homedir": os.fsdecode(path.parent), "type": "main"}}
        kept: Json = {
            name: old[name] for name in ("version", "cwd", "title", "titleKind", "isCustomTitle") if name in old
        }
        return {
            "version": 2,
            "archived": False,
            "custom": {},
            "isCustomTitle": False,
            **kept,
            "id": session_id,
            "createdAt": now,
            "updatedAt": now,
            "agents": agents,
        }

    def _records_of(self, steps: Sequence[Step]) -> Iterator[Json]:
        """The journal of a new session: what the old one says of itself before its first message, then messages as they
        are. Blocking."""
        yield from self._records_before_messages()
        open_step: str | None = None
        for step, record in self.file.records(steps):
            assert isinstance(step, PieceStep)
            kind, event = step.kind, record.get("event")
            if kind == "profile" or not record:
                continue
            belongs = str(event.get("stepUuid")) if isinstance(event, dict) and kind in ("part", "call") else None
            if belongs is not None and belongs != open_step:
                yield _loop_event({"type": "step.begin", "uuid": belongs, "turnId": "0", "step": 1}, record)
                open_step = belongs
            if kind == "end" and open_step is None:
                continue
            if kind == "compaction":
                yield _as_message(_summary_in(record), {"kind": "compaction_summary"}, record)
            elif kind == "message" and step.stop >= 0:
                yield _shown_part(step, record)
            else:
                yield record
            if kind in ("end", "message", "compaction"):
                open_step = None

    def _records_before_messages(self) -> Iterator[Json]:
        """Records in which a journal describes itself, before its first message. Blocking."""
        first = self._journal.offsets[0] if len(self._journal.offsets) else self.file.end
        for line in KimiCodeLog(self.file.path).file.added():
            if line.offset >= first:
                break
            if line.record is not None and str(line.record.get("type")).startswith(
                ("metadata", "runtime.", "profile.", "permission.")
            ):
                yield line.record


def _loop_event(event: Json, origin_record: Json) -> Json:
    kept: Json = {name: origin_record[name] for name in ("agentId", "time") if name in origin_record}
    return {"type": "context.append_loop_event", **kept, "event": event}


def _shown_part(step: PieceStep, record: Json) -> Json:
    """The record of a message, with no more of its text than a step shows."""
    message = record["message"]
    text = _joined(message.get("content"))[step.start : step.stop]
    return {**record, "message": {**message, "content": [{"type": "text", "text": text}]}}


def _as_message(text: str, origin: Json, origin_record: Json) -> Json:
    kept: Json = {name: origin_record[name] for name in ("agentId", "time") if name in origin_record}
    message = {"role": "user", "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": origin}
    return {"type": "context.append_message", **kept, "message": message}


def _joined(content: Any) -> str:
    return "".join(str(part.get("text") or "") for part in parts_in(content) if part.get("type") == "text")


def _summary_in(record: Json) -> str:
    for text in (record.get("contextSummary"), record.get("summary")):
        if isinstance(text, str):
            return text
        if isinstance(text, dict):
            return _joined(text.get("content"))
    return ""


def _arguments(call: Json) -> str:
    given = call.get("arguments")
    return given if isinstance(given, str) else json.dumps(given)


def _workspace_of_folder(folder: Path) -> str | None:
    """The folder whose sessions are in a directory, as the program's own list says."""
    known = _document(folder.parents[1] / "workspaces.json").get("workspaces")
    found = known.get(folder.name) if isinstance(known, dict) else None
    return workspace_of(found.get("root")) if isinstance(found, dict) else None


def _document(path: Path) -> Json:
    try:
        found = json.loads(_bytes(path, MAX_NOTES))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _bytes(path: Path, most: int) -> bytes:
    """The content of an ordinary file; nothing of one that is too long, or cannot be read."""
    with suppress(OSError):
        file = OpenFile(path)
        try:
            if file.status().size <= most:
                return file.pread(0, most)
        finally:
            file.close()
    return b""
