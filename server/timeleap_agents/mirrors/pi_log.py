"""A session of pi as it grows: one reader for mirrors, imports, and what is gone on with."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from timeleap import clock
from timeleap.errors import InvalidInputError
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.conversion import (
    JsonLine,
    RecordWriter,
    content_of,
    folder_of,
    parts_in,
    shown_parts,
    sound,
    time_of,
    tool_call,
    workspace_of,
)
from timeleap_agents.mirrors.formats.pi import (
    BRANCH_SUMMARY,
    SUMMARY,
    EntryStep,
    EntryTree,
    PiEntry,
    command_in,
    entry_of,
    is_call,
    prompt_in,
    shown_part,
)
from timeleap_agents.mirrors.formats.said_by import words_of_person
from timeleap_agents.mirrors.growing_file import (
    MAX_BRANCHES,
    Conversation,
    Earlier,
    ResumableSession,
)
from timeleap_agents.mirrors.scratch import Column
from timeleap_agents.mirrors.steps import Step, Steps

TESTED: Final = (3,)
"""The newest form of pi's session files that these tests have read, which pi 1.6.0 writes."""


class PiLog(Conversation):
    """The conversation in one file; its version is that of the form of the file."""

    writer = "pi with the session format"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._id = id_in_name(path)
        self._tree = EntryTree()
        self._records = 0  # with the header, as the first form counts them
        self._by_number = Column(self._tree.scratch, "I")  # numbers of the entries' ids; 0: there is none
        self._by_number.append(0)

    def read(self) -> None:
        super().read()
        self._tree.shown(self._tree.head)
        losses = self.file.left_out
        losses.put("results", "results go with no call of the conversation", self._tree.orphans())
        text = "answers that failed and commands that were kept from the model: pi does not send them"
        losses.put("failed", text, len(self._tree.failed))

    def _take(self, line: JsonLine, record: Json) -> None:
        self._records += 1
        when = time_of(record.get("timestamp"))
        if when is not None:
            self.created_at, self.updated_at = min(self.created_at or when, when), max(self.updated_at or when, when)
        if record.get("type") == "session":
            self._by_number.append(0)
            self._take_header(record)
            return
        entry_id = str(record.get("id") or f"at {line.offset}")
        self._by_number.append(self._tree.number(entry_id))
        entry = entry_of(record, entry_id, line.offset, line.length, when)
        if entry is None:
            kind = str(record.get("type"))[:40]
            self.file.left_out.add("records", f"records of the type {kind} are none of the conversation")
            return
        number = record.get("firstKeptEntryIndex")
        kept = self._by_number[number + 1] if type(number) is int and 0 <= number < self._records else 0
        self._take_title(entry, record)
        # Files of the first form name neither ids nor parents.
        self._tree.add(
            entry, record.get("parentId") if "parentId" in record else entry_id, kept or self._tree.number(entry.kept)
        )

    def _take_title(self, entry: PiEntry, record: Json) -> None:
        if record.get("type") == "session_info":
            name = record.get("name")
            self.title = sound(name.strip()) if isinstance(name, str) and name.strip() else None
        elif entry.role == "user" and self.first_prompt is None:
            words = words_in(record["message"])
            self.first_prompt = (first_words({"content": sound(words)}) or None) if words else None

    def _take_header(self, record: Json) -> None:
        if self._records > 1 and self.workspace is not None:
            return
        version = record.get("version", 1)
        self.version = max(self.version, (version,) if type(version) is int and 0 < version < 1 << 31 else (0,))
        if isinstance(record.get("id"), str) and record["id"]:
            self._id = self._id or sound(record["id"])
        found = workspace_of(record.get("cwd"))
        self.workspace = found or self.workspace
        self.began_in = self.began_in or found

    # The conversation

    def steps(self) -> Sequence[Step]:
        return self._steps(self._tree.head)

    def _steps(self, head: int, *, failed: bool = False) -> Steps:
        shown = self._tree.shown(head, failed=failed)
        return shown if self._tree.speaks(shown) else shown[:0]

    def earlier(self, since: int = 0) -> list[Earlier]:
        left: list[tuple[int, TimelineReason, bool]] = [(head, reason, False) for head, reason in self._tree.left]
        failed_ends: list[tuple[int, TimelineReason, bool]] = [(head, "import", True) for head in self._tree.failed]
        known = [self._steps(self._tree.head)]
        found: list[Earlier] = []
        for head, reason, failed in sorted(left + failed_ends, reverse=True):
            if len(found) == MAX_BRANCHES:
                break
            steps = self._steps(head, failed=failed)
            is_new = self._tree.reaches(steps, since)
            if is_new and not any(steps == each[: len(steps)] for each in known):
                known.append(steps)
                found.append(Earlier(steps, reason))
        changed = "edits are of entries that are not in the conversation"
        self.file.left_out.put("edits", changed, len(self._tree.lost_edits))
        return found[::-1]

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        entries = [step for step in steps if isinstance(step, EntryStep)]
        made = {call for step in entries for call in step.calls}
        return {sound(call) for call in made - {step.result for step in entries}}

    # Writing

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        prompted = False
        for step, record in self._edited(steps):
            try:
                prompted = self._write(step, record, log, prompted=prompted) or prompted
            except RecursionError:
                self.file.left_out.add("messages", "messages are nested too deeply")
            yield step

    def _edited(self, steps: Sequence[Step]) -> Iterator[tuple[Step, Json]]:
        """The records of steps, with the content that an edit put into them. Blocking."""
        for step, record in self.file.records(steps):
            assert isinstance(step, EntryStep)
            yield step, record if step.edit < 0 else self._changed(record, self.file.peek(step.edit, step.edit_length))

    def _changed(self, record: Json, edit: Json) -> Json:
        replacement, message = edit.get("replacement"), record.get("message")
        content = {"content": replacement.get("content") if isinstance(replacement, dict) else None}
        return {**record, "message": {**message, **content}} if isinstance(message, dict) else {**record, **content}

    def _write(self, step: Step, record: Json, log: RecordWriter, *, prompted: bool) -> bool:
        """Write an entry; says whether it was a system prompt."""
        kind, message = record.get("type"), record.get("message")
        message = message if isinstance(message, dict) else {}
        role = message.get("role")
        if kind == "compaction":
            _say(log, SUMMARY.format(record.get("summary")))
        elif kind == "branch_summary":
            _say(log, BRANCH_SUMMARY.format(record.get("summary")))
        elif kind == "custom_message" or role in ("custom", "hookMessage"):
            content = record.get("content") if kind == "custom_message" else message.get("content")
            log.message({"role": "user", "content": content_of(self._parts(content))})
        elif role == "bashExecution":
            _say(log, command_in(message))
        elif role == "system":
            return self._write_prompt(message, log, prompted=prompted)
        elif role == "user":
            said = {"role": "user", "content": content_of(self._parts(message.get("content")))}
            if (words := words_in(message)) is not None:
                log.checkpoint(said, step.time, sound(words))
            log.message(said)
        elif role == "toolResult":
            content = content_of(self._parts(message.get("content")))
            log.message({"role": "tool", "content": content, "tool_call_id": sound(str(message.get("toolCallId")))})
        elif role == "assistant":
            self._write_answer(message, log)
        return False

    def _write_prompt(self, message: Json, log: RecordWriter, *, prompted: bool) -> bool:
        """The first system message is the system prompt; a later one changes it."""
        text = prompt_in(message)
        if text and prompted:
            log.message({"role": "system", "content": sound(text)})
        elif text:
            log.system_prompt(text)
        return bool(text)

    def _write_answer(self, message: Json, log: RecordWriter) -> None:
        every = parts_in(message.get("content"))
        calls = [
            tool_call(part.get("id"), part.get("name"), json.dumps(part.get("arguments") or {}, ensure_ascii=False))
            for part in every
            if is_call(part)
        ]
        log.answer(self._parts([part for part in every if not is_call(part)]), calls)
        usage = message.get("usage")
        if isinstance(usage, dict):
            log.usage(usage.get("totalTokens"))

    def _parts(self, content: Any) -> list[Json]:
        return shown_parts(content, shown_part, self.file.left_out)

    # Going on

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        if self.workspace is None:
            raise InvalidInputError.of("sessionId", "mirrors a file that does not say of which folder it is")
        session_id, now = str(uuid.uuid4()), clock.now_iso()
        path = self.file.path.with_name(f"{now.replace(':', '-').replace('.', '-')}_{session_id}.jsonl")
        header = {
            "type": "session",
            "version": TESTED[0],
            "id": session_id,
            "timestamp": now,
            "cwd": folder_of(self.workspace),
            "parentSession": os.fsdecode(self.file.path),
        }
        return ResumableSession(path, self._lines_of(header, steps), ("pi", "--session", str(path)))

    def _lines_of(self, header: Json, steps: Sequence[Step]) -> Iterator[Json]:
        """The header, then the entries one behind the other, in the order of the file, in which a compaction stands
        behind what it keeps. Blocking."""
        yield header
        before: str | None = None
        first: str | None = None
        for step, record in self._edited(sorted(steps, key=attrgetter("offset"))):
            del step
            made = {**record, "id": str(record.get("id") or uuid.uuid4().hex[:8]), "parentId": before}
            made.setdefault("timestamp", header["timestamp"])
            if record.get("type") == "compaction":
                made.pop("firstKeptEntryIndex", None)
                made["firstKeptEntryId"] = first or made["id"]
            before = made["id"]
            first = first or before
            yield made


def id_in_name(path: Path) -> str | None:
    """The id of the session, which stands in its file's name behind the time of its beginning."""
    return path.stem.partition("_")[2] or None


def words_in(message: Json) -> str | None:
    """The words of a message that a person typed; empty of one that is pictures alone; None where the program said it."""
    parts = parts_in(message.get("content"))
    words = words_of_person([str(part.get("text") or "") for part in parts if part.get("type") == "text"])
    return "" if words is None and any(part.get("type") == "image" for part in parts) else words


def _say(log: RecordWriter, text: str) -> None:
    """Write what the program says in the person's name."""
    log.message({"role": "user", "content": sound(text)})
