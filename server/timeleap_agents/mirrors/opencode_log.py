"""A session of opencode as it grows: one reader for mirrors, imports, and what is gone on with."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors import opencode_database, opencode_export
from timeleap_agents.mirrors.formats.conversion import (
    JsonLine,
    RecordWriter,
    content_of,
    object_in,
    sound,
    text_part,
    think_part,
    tool_call,
    workspace_of,
)
from timeleap_agents.mirrors.formats.kimi_code import time_of
from timeleap_agents.mirrors.formats.opencode import (
    RowMessage,
    RowPart,
    RowStep,
    bounded,
    message_of,
    part_of,
    result_of,
    shown_to_model,
    words_in,
)
from timeleap_agents.mirrors.growing_file import (
    MAX_BRANCHES,
    Conversation,
    Earlier,
    GrowingFile,
    ResumableSession,
    version_of,
)
from timeleap_agents.mirrors.opencode_messages import MessageStates, MessageTable, Run
from timeleap_agents.mirrors.scratch import Scratch
from timeleap_agents.mirrors.steps import Step, Steps
from timeleap_agents.mirrors.vault.kept_rows import FOLDER, TAKE_IN

TESTED: Final = (1, 18, 33)
"""The newest version of opencode whose databases these tests have read."""
_DEFAULT_TITLE: Final = re.compile(r"(?:New|Child) session - \d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
_EVENTS: Final = """
    SELECT seq, type, data FROM event WHERE aggregate_id = ? AND seq >= ? AND type IN (
        'session.created.1', 'message.updated.1', 'message.part.updated.1', 'message.removed.1', 'message.part.removed.1')
    ORDER BY seq"""
_THERE: Final = {"message": "SELECT 1 FROM message WHERE id = ?", "part": "SELECT 1 FROM part WHERE id = ?"}
_FRESH_MS: Final = 5000
"""For how long after a change of a part there may have been a further one at the same time, in milliseconds."""


SAID_AT_ONCE: Final = 200
"""Steps whose parts are read at one moment."""


class _BeforeRemoval(Struct, frozen=True):
    """The messages before some were deleted, as events tell of them.

    Attributes:
        run: Their numbers.
        first: The place of the first in their order.
    """

    run: memoryview
    first: tuple[int, str] | None


class SessionRows(GrowingFile):
    """A session in a database, in the place of a file; `end` is behind the last event that was read."""

    @property
    def fingerprint(self) -> str:
        return "events"


class OpencodeLog(Conversation):
    """The conversation of one session."""

    writer = "opencode"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: GrowingFile = SessionRows(path)
        place = opencode_database.split(path)
        if place is None:
            raise InvalidInputError.of("path", "names no session of opencode: that is its database, and `/ses_...`")
        self._database, self._id = place
        self._states = MessageStates()
        self._rows = MessageTable(self._states)
        self._told = MessageTable(self._states)  # as the events say it
        self._revert: Any = None
        self._cut: tuple[tuple[int, str], int] | None = None  # a message, and what a revert leaves of it
        self._complete = False  # the events begin with the session
        self._is_told_in_part = False  # events are damaged
        self._removing = False
        self._removed: list[_BeforeRemoval] = []
        self._info: Json = {}

    @classmethod
    def present_of(cls, paths: Sequence[Path]) -> Path:
        return max(paths, key=_changes_of)

    # Reading

    def read(self) -> None:
        opencode_database.reading(self._database, self._read)

    def read_start(self) -> None:
        opencode_database.reading(self._database, self._read_facts)

    def _take(self, line: JsonLine, record: Json) -> None:
        raise NotImplementedError  # there are no lines

    def _read(self, connection: sqlite3.Connection) -> None:
        self._read_facts(connection)
        tables = opencode_database.tables(connection)
        later = int("session_v2" in tables)
        self.file.left_out.put(
            "later", "later form of sessions, that of opencode 2, in the database is not read", later
        )
        if "event" in tables:
            self._read_events(connection)
        else:
            self.file.end = 1
        self._read_rows(connection)

    def _read_facts(self, connection: sqlite3.Connection) -> None:
        cursor = connection.execute("SELECT * FROM session WHERE id = ?", (self._id,))
        row = cursor.fetchone()
        if row is None:
            message = f"there is no session {self._id} in {self._database}"
            raise StorageFailureError(message, path=str(self.file.path), errno="ENOENT")
        self._info = dict(zip([column[0] for column in cursor.description], row, strict=True))
        self.version = version_of(self._info.get("version"))
        title = self._info.get("title")
        self.title = sound(title.strip()) if isinstance(title, str) and not _DEFAULT_TITLE.fullmatch(title) else None
        self.workspace = workspace_of(self._info.get("directory"))
        self.began_in = self.began_in or self.workspace
        self._revert = object_in(self._info.get("revert"))
        self.created_at = time_of(self._info.get("time_created"))
        self.updated_at = time_of(self._info.get("time_updated"))

    def _read_events(self, connection: sqlite3.Connection) -> None:
        last = self.file.end - 1
        for seq, kind, text in connection.execute(_EVENTS, (self._id, self.file.end)):
            data, last = object_in(text), max(last, int(seq))
            if data is None:
                self.file.left_out.add("events", "events cannot be read")
                self._is_told_in_part = True
            elif kind == "session.created.1":
                self._complete = True
            else:
                self._take_event(kind, data, int(seq))
        row = connection.execute("SELECT max(seq) FROM event WHERE aggregate_id = ?", (self._id,)).fetchone()
        self.file.end = max(last, row[0] if type(row[0]) is int else 0) + 1

    def _take_event(self, kind: str, data: Json, seq: int) -> None:
        removes = kind in ("message.removed.1", "message.part.removed.1")
        if removes and not self._removing:
            self._removed = [*self._removed, self._all_told()][-MAX_BRANCHES:]
        self._removing = removes
        info, part = data.get("info"), data.get("part")
        message_id = sound(str(data.get("messageID")))
        if kind == "message.removed.1":
            self._told.remove(message_id)
        elif removes:
            self._told.remove_part(message_id, sound(str(data.get("partID"))))
        elif kind == "message.updated.1" and isinstance(info, dict) and isinstance(info.get("id"), str):
            made = message_of(info["id"], info)
            if made is not None:
                self._told.put(made)
        elif kind == "message.part.updated.1" and isinstance(part, dict) and isinstance(part.get("id"), str):
            message_id, told = sound(str(part.get("messageID"))), part_of(part["id"], part, seq)
            if self._told.changed(message_id) is None:  # the event that made it is damaged
                self._told.put(RowMessage(message_id, "", bounded(data.get("time")), finished=True))
            self._told.put_part(message_id, told)
            self._rows.doubt(message_id, told.id)

    def _all_told(self) -> _BeforeRemoval:
        return _BeforeRemoval(Scratch().aside(self._told.run()), self._told.first())

    def _read_rows(self, connection: sqlite3.Connection) -> None:
        """Take in the messages as they are now. A part that the events describe as it is says by which of them."""
        fresh = int(time.time() * 1000) - _FRESH_MS
        damaged, latest = self._read_messages(connection, fresh)
        lost, changed = self._read_parts(connection, fresh)
        latest = max(latest, changed)
        self.updated_at = max(self.updated_at or "", time_of(latest) or "") or None
        losses = self.file.left_out
        losses.put("rows", "rows of the database cannot be read", damaged + lost)
        failed = sum(1 for _ in self._states.dropped(self._rows.run()))
        losses.put("failed", "answers ended in an error: opencode does not send them again", failed)
        if self.first_prompt is None:
            self._find_first_prompt(connection)

    def _read_messages(self, connection: sqlite3.Connection, fresh: int) -> tuple[int, int]:
        """Take in the messages that may have changed; returns how many cannot be read, and when the last one changed."""
        damaged = latest = seen = 0
        query = "SELECT id, time_created, time_updated FROM message WHERE session_id = ?"
        for message_id, created, updated in connection.execute(query, (self._id,)):
            name, changed = str(message_id), bounded(updated)
            latest, seen = max(latest, changed), seen + 1
            if changed < fresh and self._rows.changed(name) == changed:
                continue
            data = _data_of(connection, "SELECT data FROM message WHERE id = ?", name)
            made = None if data is None else message_of(name, data)
            if made is None:
                damaged, changed = damaged + 1, -1
                made = self._as_told(name)
            if type(created) is int:
                made = replace(made, created=bounded(created))
            self._rows.put(made, changed)
        if self._rows.count() != seen:
            for name in [name for name in self._rows.ids() if not _is_in(connection, "message", name)]:
                self._rows.remove(name)
        return damaged, latest

    def _read_parts(self, connection: sqlite3.Connection, fresh: int) -> tuple[int, int]:
        """Take in the parts that may have changed; returns how many cannot be read, and when the last one changed."""
        damaged = latest = seen = 0
        query = "SELECT id, message_id, time_updated FROM part WHERE session_id = ?"
        for part_id, message_id, updated in connection.execute(query, (self._id,)):
            name, message, changed = str(part_id), str(message_id), bounded(updated)
            known = self._rows.part_changed(message, name)
            if known is None or known != changed or changed >= fresh:
                part = self._read_part(connection, message, name)
                if part is None:
                    damaged += 1
                    continue
                self._rows.put_part(message, part, changed)
            latest, seen = max(latest, changed), seen + 1
        if self._rows.count_parts() != seen:
            for message, name in [row for row in self._rows.part_ids() if not _is_in(connection, "part", row[1])]:
                self._rows.remove_part(message, name)
        return damaged, latest

    def _as_told(self, message_id: str) -> RowMessage:
        """A message whose row is damaged: as the events say it, or else by nobody yet."""
        told = self._told.get(message_id)
        return RowMessage(message_id, "", 0, finished=True) if told is None else replace(told, finished=True)

    def _read_part(self, connection: sqlite3.Connection, message_id: str, part_id: str) -> RowPart | None:
        """The part of a row; of a damaged row what the events say, else None, as of one without a message."""
        if self._rows.changed(message_id) is None:
            return None
        told = self._told.part(message_id, part_id)
        data = _data_of(connection, "SELECT data FROM part WHERE id = ?", part_id)
        if data is None:
            return told
        part = part_of(part_id, data)
        return told if told is not None and told.digest == part.digest else part

    def _find_first_prompt(self, connection: sqlite3.Connection) -> None:
        found: list[tuple[int, str]] = []
        for run in (*(before.run for before in self._removed), self._rows.run()):
            for number in self._states.first_prompts(run):
                (step,) = map(self._states.table.step, self._states.steps_of(number))
                words = words_in([self._data(connection, *part) for part in step.parts])
                if words:
                    found.append((self._states.created(number), words))
                    break
        if found:
            self.first_prompt = first_words({"content": sound(min(found)[1])})

    # The conversation

    def begins_with(self, end: int, fingerprint: str) -> bool:
        # Events are only ever added, and by the key of a step it is known what it says.
        return 0 <= end <= self.file.end and fingerprint == self.file.fingerprint

    def steps(self) -> Sequence[Step]:
        return Steps(self._states.table, self._now())

    def _now(self) -> Run[int]:
        """The places of the steps of the conversation as it is now."""
        run = self._states.without_begun_compaction(self._before_revert())
        return self._states.steps(self._states.since_compaction(run))

    def _before_revert(self) -> Run[int]:
        """The messages without those that a revert takes back; the program deletes them at the next prompt."""
        named = self._revert.get("messageID") if isinstance(self._revert, dict) else None
        every = self._rows.run()
        if not isinstance(named, str):
            return every
        named, number = sound(named), self._rows.number(sound(named))
        if number is None:  # it is being deleted, and those behind it are to follow
            return self._rows.run_before(named)
        at, part = every.index(number), self._revert.get("partID")
        if not isinstance(part, str) or self._rows.part(named, sound(part)) is None:
            return every[:at]
        if self._cut is None or self._cut[0] != (number, part):
            first = self._rows.get(named)
            assert first is not None
            every_part = self._rows.parts(named)
            kept = [each for each in every_part if each.id < sound(part)]
            cut = replace(first.with_author(every_part), failed=False, aborted=False, tokens=0)
            self._cut = (number, part), self._states.add(cut, kept)
        return every[:at] + array("i", [self._cut[1]])

    def earlier(self, since: int = 0) -> list[Earlier]:
        states, room = self._states, Scratch()
        now, kept = states.keys(self._now()), dict[bytes, Earlier]()
        for places, reason in self._conversations_before():
            keys = states.keys(places)
            if not keys or keys == now[: len(keys)] or not states.reaches(places, since):
                continue
            digest = hashlib.blake2b(keys, digest_size=16).digest()
            if digest not in kept and len(kept) == MAX_BRANCHES:
                break
            kept.pop(digest, None)  # of those that say the same the oldest one counts
            kept[digest] = Earlier(Steps(states.table, room.aside(places)), reason)
        return list(kept.values())[::-1]

    def _conversations_before(self) -> Iterator[tuple[Run[int], TimelineReason]]:
        """Conversations before each removal, compaction, revert and dropped message, newest first, some of them more than
        once."""
        states, every = self._states, self._rows.run()
        removed = [self._whole(before) for before in self._removed]
        if self._is_told_in_part and any(self._rows.changed(name) is None for name in self._told.ids()):
            removed.append(self._whole(self._all_told()))  # no event says when these went
        met: set[int] = set()
        for run in (every, *reversed(removed)):
            for at in states.dropped(run):
                if run[at] not in met:
                    met.add(run[at])
                    before = states.steps(states.since_compaction(run[:at]))
                    yield before + states.steps(run[at : at + 1], with_dropped=True), "import"
        named = self._revert.get("messageID") if isinstance(self._revert, dict) else None
        if isinstance(named, str) and self._rows.number(sound(named)) is not None:  # else it is being deleted
            yield states.steps(states.since_compaction(every)), "import"
        yield from self._summed_up(every)
        for run in reversed(removed):
            yield states.steps(states.since_compaction(run)), "import"
            yield from self._summed_up(run)

    def _summed_up(self, run: Run[int]) -> Iterator[tuple[Run[int], TimelineReason]]:
        """The conversations before each compaction of some messages, newest first."""
        for at in reversed(self._states.compactions(run)):
            yield self._states.steps(self._states.since_compaction(run[:at])), "compact"

    def _whole(self, before: _BeforeRemoval) -> Run[int]:
        """With what was said before the events begin."""
        run = array("i", before.run)
        if self._complete or before.first is None:
            return run
        return self._rows.run_until(before.first) + run

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        found: set[str] = set()
        for step in steps:
            if isinstance(step, RowStep) and step.said == "call":
                found.add(step.parts[0][0])
            elif isinstance(step, RowStep) and step.said == "result":
                found.discard(step.parts[0][0])
        return found

    # Writing

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        for step, parts in self._said(steps):
            try:
                self._write(step, parts, log)
            except RecursionError:
                self.file.left_out.add("messages", "messages are nested too deeply")
            yield step

    def _said(self, steps: Sequence[Step]) -> Iterator[tuple[RowStep, list[Json]]]:
        """Steps with the parts they are made of, as they are now where no event says it. Blocking."""
        for start in range(0, len(steps), SAID_AT_ONCE):
            some = [step for step in steps[start : start + SAID_AT_ONCE] if isinstance(step, RowStep)]

            def read(connection: sqlite3.Connection, some: list[RowStep] = some) -> list[list[Json]]:
                return [[self._data(connection, *part) for part in step.parts] for step in some]

            yield from zip(some, opencode_database.reading(self._database, read), strict=True)

    def _data(self, connection: sqlite3.Connection, part_id: str, seq: int) -> Json:
        """The data of a part; empty where it is gone."""
        if seq >= 0:
            query = "SELECT data FROM event WHERE aggregate_id = ? AND seq = ?"
            found = _data_of(connection, query, self.session_id, seq)
            if found is not None and isinstance(part := found.get("part"), dict):
                return part
        return _data_of(connection, "SELECT data FROM part WHERE id = ?", part_id) or {}

    def _write(self, step: RowStep, parts: list[Json], log: RecordWriter) -> None:
        part = parts[0] if parts else {}
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        if step.said == "user":
            self._write_prompt(step, parts, log)
        elif step.said == "text":
            log.answer([text_part(str(part.get("text") or ""))], [])
        elif step.said == "think":
            log.answer([think_part(str(part.get("text") or ""))], [])
        elif step.said == "call":
            given = json.dumps(state.get("input") or {}, ensure_ascii=False)
            log.answer([], [tool_call(step.call, part.get("tool"), given)])
        else:
            text, pictures = result_of(state)
            content = content_of([text_part(text), *pictures])
            log.message({"role": "tool", "content": content, "tool_call_id": sound(step.call)})
        log.usage(step.tokens)

    def _write_prompt(self, step: RowStep, parts: list[Json], log: RecordWriter) -> None:
        sent = [made for part in parts if (made := shown_to_model(part)) is not None]
        said = {"role": "user", "content": content_of(sent)}
        words = words_in(parts)
        if words is not None:
            log.checkpoint(said, step.time, sound(words))
        log.message(said)

    # Going on

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        kept = {name for step in steps if isinstance(step, RowStep) for name, _ in step.parts}
        session_id = opencode_export.new_session_id()
        path = self._database.parent / FOLDER / f"{session_id}.json"
        document = opencode_database.reading(
            self._database, lambda connection: self._document(connection, session_id, kept)
        )
        command = ("sh", "-c", TAKE_IN, str(path), session_id)
        return ResumableSession(path, iter([document]), command, shown=self._database / session_id)

    def _document(self, connection: sqlite3.Connection, session_id: str, kept: set[str]) -> Json:
        """The session as the program exports one, with ids of its own. Blocking."""
        sent: list[opencode_export.Sent] = []
        for name, parts in self._parts_left():
            if any(part.id in kept for part in parts):
                told = _data_of(connection, "SELECT data FROM message WHERE id = ?", name) or {}
                shown = [part.id for part in parts if part.id in kept or part.kind.startswith("step-")]
                data = [(part_id, self._data(connection, part_id, -1)) for part_id in shown]
                sent.append(opencode_export.Sent(name, told, data))
        return {
            "info": opencode_export.info(self._info, session_id),
            "messages": opencode_export.messages(sent, session_id),
        }

    def _parts_left(self) -> Iterator[tuple[str, list[RowPart]]]:
        """The ids of all messages in their order, with the parts that a revert leaves of each."""
        taken_back = self._revert if isinstance(self._revert, dict) else {}
        for name in self._rows.ids():
            until = str(taken_back.get("partID") or "") if name == taken_back.get("messageID") else ""
            yield name, [part for part in self._rows.parts(name) if not until or part.id < until]


def _changes_of(path: Path) -> tuple[int, int]:
    """How often, and when last, a session was changed."""
    row = opencode_database.session(path)
    return (0, 0) if row is None else (row.size, row.changed)


def _data_of(connection: sqlite3.Connection, query: str, *values: str | int) -> Json | None:
    """The object in the column that a query names; None where there is none that can be read."""
    row = connection.execute(query, values).fetchone()
    return None if row is None else object_in(row[0])


def _is_in(connection: sqlite3.Connection, table: str, name: str) -> bool:
    """True of a row that is there."""
    return connection.execute(_THERE[table], (name,)).fetchone() is not None
