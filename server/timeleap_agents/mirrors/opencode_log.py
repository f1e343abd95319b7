"""A session of opencode as it grows: one reader for mirrors, imports, and what is gone on with."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap_agents.mirrors import opencode_database
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
    before_revert,
    compactions,
    message_of,
    part_of,
    result_of,
    shown_to_model,
    since_compaction,
    steps_of,
    without_begun_compaction,
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
from timeleap_agents.mirrors.steps import Step
from timeleap_agents.mirrors.vault.kept_rows import FOLDER, TAKE_IN

TESTED: Final = (1, 18, 33)
"""The newest version of opencode whose databases these tests have read."""
_DEFAULT_TITLE: Final = re.compile(r"(?:New|Child) session - \d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
_ID: Final = re.compile(r"(msg|prt)_([0-9a-f]{12})[A-Za-z0-9]*")
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_EVENTS: Final = """
    SELECT seq, type, data FROM event WHERE aggregate_id = ? AND seq >= ? AND type IN (
        'session.created.1', 'message.updated.1', 'message.part.updated.1', 'message.removed.1', 'message.part.removed.1')
    ORDER BY seq"""
_FRESH_MS: Final = 5000
"""For how long after a change of a part there may have been a further one at the same time, in milliseconds."""


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
        self._rows: dict[str, RowMessage] = {}
        self._parts: dict[str, tuple[int, RowPart]] = {}  # when each was changed last, and what it says
        self._revert: Any = None
        self._told: dict[str, RowMessage] = {}  # as the events say it
        self._complete = False  # the events begin with the session
        self._is_told_in_part = False  # events are damaged
        self._removing = False
        self._removed: list[list[RowMessage]] = []  # what there was before messages were deleted
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
        if "event" in opencode_database.tables(connection):
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
        if removes:
            self._remove(data, is_message=kind == "message.removed.1")
            return
        info, part = data.get("info"), data.get("part")
        if kind == "message.updated.1" and isinstance(info, dict) and isinstance(info.get("id"), str):
            made = message_of(info["id"], info, seq)
            if made is not None:
                known = self._told.get(made.id)
                made.parts = known.parts if known is not None else {}
                self._told[made.id] = made
        elif kind == "message.part.updated.1" and isinstance(part, dict) and isinstance(part.get("id"), str):
            self._told_message(part.get("messageID"), data.get("time")).parts[part["id"]] = part_of(
                part["id"], part, seq
            )

    def _all_told(self) -> list[RowMessage]:
        told = [made for message in self._told.values() if (made := message.with_author()) is not None]
        return sorted((replace(message, parts=dict(message.parts)) for message in told), key=_order)

    def _told_message(self, message_id: Any, when: Any) -> RowMessage:
        """The message of a part; one by nobody yet where the event that made it is damaged."""
        name = str(message_id)
        if name not in self._told:
            self._told[name] = RowMessage(name, "", when if type(when) is int else 0, finished=True)
        return self._told[name]

    def _remove(self, data: Json, *, is_message: bool) -> None:
        """Take away a message, or a part of one."""
        message = self._told.get(str(data.get("messageID")))
        if is_message:
            self._told.pop(str(data.get("messageID")), None)
        elif message is not None:
            message.parts.pop(str(data.get("partID")), None)

    def _read_rows(self, connection: sqlite3.Connection) -> None:
        """Take in the messages as they are now. A part that the events describe as it is says by which of them."""
        rows: dict[str, RowMessage] = {}
        damaged, latest = 0, 0
        query = "SELECT id, time_created, time_updated, data FROM message WHERE session_id = ?"
        for message_id, created, updated, text in connection.execute(query, (self._id,)):
            data = object_in(text)
            made = None if data is None else message_of(str(message_id), data)
            if made is None:
                damaged += 1
                made = self._as_told(str(message_id))
            made.created = created if type(created) is int else made.created
            rows[made.id] = made
            latest = max(latest, updated if type(updated) is int else 0)
        lost, changed = self._read_parts(connection, rows)
        damaged, latest = damaged + lost, max(latest, changed)
        known = [made for message in rows.values() if (made := message.with_author()) is not None]
        self._rows = {message.id: message for message in sorted(known, key=_order)}
        self.updated_at = max(self.updated_at or "", time_of(latest) or "") or None
        self._count(damaged)
        if self.first_prompt is None:
            self._find_first_prompt(connection)

    def _read_parts(self, connection: sqlite3.Connection, rows: dict[str, RowMessage]) -> tuple[int, int]:
        """Put the parts into their messages; returns how many cannot be read, and when the last one changed."""
        parts: dict[str, tuple[int, RowPart]] = {}
        damaged, latest = 0, 0
        query = "SELECT id, message_id, time_updated FROM part WHERE session_id = ?"
        for part_id, message_id, updated in connection.execute(query, (self._id,)).fetchall():
            message, changed = rows.get(message_id), updated if type(updated) is int else 0
            part = None if message is None else self._read_part(connection, str(part_id), message.id, changed)
            if message is None or part is None:
                damaged += 1
                continue
            message.parts[part.id] = part
            parts[part.id] = changed, part
            latest = max(latest, changed)
        self._parts = parts
        return damaged, latest

    def _as_told(self, message_id: str) -> RowMessage:
        """A message whose row is damaged, without its parts: as the events say it, or else by nobody yet."""
        told = self._told.get(message_id)
        return RowMessage(message_id, "", 0, finished=True) if told is None else replace(told, parts={}, finished=True)

    def _read_part(self, connection: sqlite3.Connection, part_id: str, message_id: str, changed: int) -> RowPart | None:
        """The part of a row, read again if it may have changed; of a damaged row what the events say, else None."""
        message = self._told.get(message_id)
        told = message.parts.get(part_id) if message is not None else None
        when, known = self._parts.get(part_id, (-1, None))
        is_old = when == changed < int(time.time() * 1000) - _FRESH_MS
        if known is not None and is_old and (told is None or told.seq <= known.seq):
            return known
        row = connection.execute("SELECT data FROM part WHERE id = ?", (part_id,)).fetchone()
        data = object_in(row[0]) if row is not None else None
        if data is None:
            return told
        part = part_of(part_id, data)
        return told if told is not None and told.digest == part.digest else part

    def _count(self, damaged: int) -> None:
        losses = self.file.left_out
        losses.put("rows", "rows of the database cannot be read", damaged)
        failed = sum(message.dropped and bool(_words(message)) for message in self._rows.values())
        losses.put("failed", "answers ended in an error: opencode does not send them again", failed)

    def _find_first_prompt(self, connection: sqlite3.Connection) -> None:
        every = {message.id: message for known in self._removed for message in known} | self._rows
        for message in sorted(every.values(), key=_order):
            if message.role == "user" and message.parts:
                parts = [self._data(connection, part.id, part.seq) for part in message.sorted()]
                words = words_in(parts)
                if words:
                    self.first_prompt = first_words({"content": sound(words)})
                    return

    # The conversation

    def begins_with(self, end: int, fingerprint: str) -> bool:
        # Events are only ever added, and by the key of a step it is known what it says.
        return 0 <= end <= self.file.end and fingerprint == self.file.fingerprint

    def steps(self) -> Sequence[Step]:
        messages = before_revert(list(self._rows.values()), self._revert)
        return steps_of(since_compaction(without_begun_compaction(messages)))

    def earlier(self, since: int = 0) -> list[Earlier]:
        now = [step.key for step in self.steps()]
        kept: list[Earlier] = []
        for each in self._conversations_before():
            keys = [step.key for step in each.steps]
            is_new = any(step.offset >= since for step in each.steps)
            if keys and is_new and keys != now[: len(keys)] and all(keys != _keys(other) for other in kept):
                kept.append(each)
        return kept[-MAX_BRANCHES:]

    def _conversations_before(self) -> list[Earlier]:
        """Conversations before each removal, compaction, revert and dropped message, some of them more than once."""
        every = list(self._rows.values())
        removed = self._removed
        if self._is_told_in_part and self._told.keys() - self._rows.keys():  # no event says when these went
            removed = [*removed, self._all_told()]
        states = [*map(self._whole, removed), every]
        found: list[Earlier] = []
        for known in states[:-1]:
            found += _summed_up(known)
            found.append(Earlier(steps_of(since_compaction(known))))
        found += _summed_up(every)
        if self._revert is not None and self._revert.get("messageID") in self._rows:  # else it is being deleted
            found.append(Earlier(steps_of(since_compaction(every))))
        for messages in states:
            for number, message in enumerate(messages):
                if message.dropped and _words(message):
                    before = steps_of(since_compaction(messages[:number]))
                    found.append(Earlier([*before, *steps_of([message], dropped=True)]))
        return found

    def _whole(self, before: list[RowMessage]) -> list[RowMessage]:
        """With what was said before the events begin."""
        if self._complete or not before:
            return before
        first = min(message.order for message in before)
        return [*(message for message in self._rows.values() if message.order < first), *before]

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        rows = [step for step in steps if isinstance(step, RowStep)]
        made = {step.parts[0][0] for step in rows if step.said == "call"}
        return made - {step.parts[0][0] for step in rows if step.said == "result"}

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
        wanted = [step for step in steps if isinstance(step, RowStep)]
        for start in range(0, len(wanted), 200):
            some = wanted[start : start + 200]

            def read(connection: sqlite3.Connection, some: list[RowStep] = some) -> list[list[Json]]:
                return [[self._data(connection, *part) for part in step.parts] for step in some]

            yield from zip(some, opencode_database.reading(self._database, read), strict=True)

    def _data(self, connection: sqlite3.Connection, part_id: str, seq: int) -> Json:
        """The data of a part; empty where it is gone."""
        if seq >= 0:
            query = "SELECT data FROM event WHERE aggregate_id = ? AND seq = ?"
            row = connection.execute(query, (self._id, seq)).fetchone()
            found = object_in(row[0]) if row is not None else None
            if found is not None and isinstance(part := found.get("part"), dict):
                return part
        row = connection.execute("SELECT data FROM part WHERE id = ?", (part_id,)).fetchone()
        return (object_in(row[0]) if row is not None else None) or {}

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
        session_id = f"ses_{_hex_of_now()}{_letters()}"
        path = self._database.parent / FOLDER / f"{session_id}.json"
        document = opencode_database.reading(
            self._database, lambda connection: self._document(connection, session_id, kept)
        )
        command = ("sh", "-c", TAKE_IN, str(path), session_id)
        return ResumableSession(path, iter([document]), command, shown=self._database / session_id)

    def _document(self, connection: sqlite3.Connection, session_id: str, kept: set[str]) -> Json:
        """The session as the program exports one, with ids of its own. Blocking."""
        messages = []
        sent = since_compaction(before_revert(list(self._rows.values()), self._revert))
        sent = [message for message in sent if any(name in kept for name in message.parts)]
        new = {message.id: _renamed(message.id, "msg") for message in sent}
        for message in sent:
            row = connection.execute("SELECT data FROM message WHERE id = ?", (message.id,)).fetchone()
            info = {**((object_in(row[0]) if row else None) or {}), "id": new[message.id], "sessionID": session_id}
            if info.get("parentID") in new:
                info["parentID"] = new[info["parentID"]]
            parts = []
            for part in message.sorted():
                if part.id in kept or part.kind.startswith("step-"):
                    place = {"id": _renamed(part.id, "prt"), "messageID": new[message.id], "sessionID": session_id}
                    data = self._data(connection, part.id, -1)
                    if data.get("tail_start_id") in new:
                        data["tail_start_id"] = new[data["tail_start_id"]]
                    parts.append({**data, **place})
            messages.append({"info": info, "parts": parts})
        now = int(time.time() * 1000)
        info = {
            "id": session_id,
            "slug": str(self._info.get("slug") or session_id),
            "version": str(self._info["version"]),
            "projectID": str(self._info["project_id"]),
            "directory": str(self._info["directory"]),
            "title": str(self._info["title"]),
            "time": {"created": now, "updated": now},
        }
        return {"info": info, "messages": messages}


def _changes_of(path: Path) -> tuple[int, int]:
    """How often, and when last, a session was changed."""
    row = opencode_database.session(path)
    return (0, 0) if row is None else (row.size, row.changed)


def _summed_up(messages: list[RowMessage]) -> list[Earlier]:
    """The conversations before each compaction of some messages."""
    return [Earlier(steps_of(since_compaction(messages[:at])), "compact") for at in compactions(messages)]


def _keys(earlier: Earlier) -> list[str]:
    return [step.key for step in earlier.steps]


def _order(message: RowMessage) -> tuple[int, str]:
    return message.order


def _words(message: RowMessage) -> bool:
    return bool(steps_of([message], dropped=True))


def _renamed(name: str, kind: str) -> str:
    """A new id that stands in the order of the old one."""
    known = _ID.fullmatch(name)
    return f"{kind}_{known[2] if known is not None else _hex_of_now()}{_letters()}"


def _hex_of_now() -> str:
    return f"{(int(time.time() * 1000) << 12) & ((1 << 48) - 1):012x}"


def _letters() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(14))
