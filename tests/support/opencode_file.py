"""A session of opencode, in a database as that program writes it: rows that are changed in place, and a journal of events."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

BEGUN = 1_795_946_589_000
"""Milliseconds since 1970 of the session's beginning; each change is a second after the one before."""
TABLES = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL,
  directory text NOT NULL, title text NOT NULL, version text NOT NULL, revert text, time_created integer NOT NULL,
  time_updated integer NOT NULL, time_compacting integer, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL,
  data text NOT NULL);
CREATE TABLE migration (id text PRIMARY KEY, time_completed integer NOT NULL);
"""


class OpencodeFile:
    """Attributes:
    database: The file.
    path: What names the session.
    workspace: The path of the folder that the session is about.
    """

    def __init__(
        self, folder: Path, workspace: str = "/shop", name: str = "ses_1", parent: str | None = None,
        *, events: bool = True,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.workspace, self.session_id, self.events = folder, workspace, name, events
        self.database = folder / "opencode.db"
        self.path = (self.database / parent if parent else self.database) / name
        self.begun = BEGUN
        is_new = not self.database.exists()
        self.connection = sqlite3.connect(self.database, isolation_level=None)
        self.connection.execute("PRAGMA synchronous = OFF")
        if is_new:
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.executescript(TABLES)
        self._ids = self._seq = 0
        title = "New session - 2026-11-29T10:03:09.000Z"
        values = (name, "global", parent, "quiet-planet", workspace, title, "1.18.33", BEGUN, BEGUN)
        columns = "id, project_id, parent_id, slug, directory, title, version, time_created, time_updated"
        self.connection.execute(f"INSERT INTO session ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        self.event("session.created.1", info={"id": name})

    def close(self) -> None:
        """End as the program does: its last change is put in order, and nothing stands beside the database."""
        self.connection.close()

    @property
    def now(self) -> int:
        return self.begun + 1000 * self._ids

    def _id(self, kind: str) -> str:
        self._ids += 1
        return f"{kind}_{self._ids:012x}AAAAAAAAAAAA{self.session_id[4:6]:0>2}"

    def event(self, kind: str, **data: Any) -> None:
        if self.events:
            row = (f"evt_{self.session_id}_{self._seq}", self.session_id, self._seq, kind, json.dumps(data))
            self.connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
            self.connection.execute(
                "INSERT OR REPLACE INTO event_sequence VALUES (?, ?, NULL)", (self.session_id, self._seq)
            )
            self._seq += 1

    def changes(self, **columns: Any) -> None:
        """Change the session's own row."""
        for name, value in columns.items():
            self.connection.execute(f"UPDATE session SET {name} = ? WHERE id = ?", (value, self.session_id))
        self.connection.execute("UPDATE session SET time_updated = ? WHERE id = ?", (self.now, self.session_id))
        self.event("session.updated.1", info={"id": self.session_id})

    def message(self, role: str, message_id: str | None = None, **data: Any) -> str:
        """Add a message, or change one."""
        name = message_id or self._id("msg")
        told = {"role": role, "time": {"created": self.now}, **data}
        created = told["time"]["created"]
        row = (name, self.session_id, created, self.now, json.dumps(told))
        self.connection.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", row)
        self.event("message.updated.1", info={"id": name, "sessionID": self.session_id, **told})
        return name

    def part(self, message: str, kind: str, part_id: str | None = None, **data: Any) -> str:
        """Add a part, or change one."""
        name = part_id or self._id("prt")
        told = {"type": kind, **data}
        row = (name, message, self.session_id, self.now, self.now, json.dumps(told))
        self.connection.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        place = {"id": name, "messageID": message, "sessionID": self.session_id}
        self.event("message.part.updated.1", part={**told, **place}, time=self.now)
        return name

    def asks(self, text: str, **part: Any) -> str:
        prompt = self.message("user")
        self.part(prompt, "text", text=text, **part)
        return prompt

    def begins(self, prompt: str, **data: Any) -> str:
        """An answer; returns its id."""
        answer = self.message("assistant", parentID=prompt, tokens={"input": 0, "output": 0}, **data)
        self.part(answer, "step-start")
        return answer

    def ends(self, answer: str, prompt: str, finish: str = "stop", **data: Any) -> None:
        self.part(answer, "step-finish", reason=finish)
        (text,) = self.connection.execute("SELECT data FROM message WHERE id = ?", (answer,)).fetchone()
        times = {**json.loads(text)["time"], "completed": self.now}
        tokens = {"input": 11, "output": 3, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        self.message("assistant", answer, parentID=prompt, finish=finish, tokens=tokens, **data, time=times)

    def writes(self, answer: str, text: str) -> None:
        """A text, of which the row is there before its words are."""
        part = self.part(answer, "text", text="", time={"start": self.now})
        self.part(answer, "text", part, text=text, time={"start": self.now, "end": self.now})

    def calls(self, answer: str, call: str) -> str:
        part = self.part(answer, "tool", callID=call, tool="bash", state={"status": "pending", "input": {}, "raw": ""})
        state = {"status": "running", "input": {"command": "ls"}, "time": {"start": self.now}}
        return self.part(answer, "tool", part, callID=call, tool="bash", state=state)

    def gets(self, answer: str, part: str, call: str, text: str, status: str = "completed") -> None:
        said = {"output": text} if status == "completed" else {"error": text}
        times = {"start": self.now, "end": self.now}
        state = {"status": status, "input": {"command": "ls"}, "time": times, "metadata": {}, "title": "", **said}
        self.part(answer, "tool", part, callID=call, tool="bash", state=state)

    def says(self, prompt: str, text: str, **data: Any) -> str:
        answer = self.begins(prompt, **data)
        self.writes(answer, text)
        self.ends(answer, prompt, **data)
        return answer

    def turn(self, number: int) -> str:
        prompt = self.asks(f"question {number}")
        self.says(prompt, f"answer {number}")
        self.changes()
        return prompt

    def reverts(self, prompt: str | None) -> None:
        """Take back a prompt and what follows; None: no more."""
        self.changes(revert=None if prompt is None else json.dumps({"messageID": prompt, "snapshot": "x"}))

    def cleans(self) -> None:
        """Delete what was taken back, as at the next prompt."""
        (text,) = self.connection.execute("SELECT revert FROM session WHERE id = ?", (self.session_id,)).fetchone()
        if text is None:
            return
        rows = self.connection.execute(
            "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id", (self.session_id,)
        )
        names = [name for (name,) in rows]
        for name in names[names.index(json.loads(text)["messageID"]) :]:
            self.connection.execute("DELETE FROM part WHERE message_id = ?", (name,))
            self.connection.execute("DELETE FROM message WHERE id = ?", (name,))
            self.event("message.removed.1", sessionID=self.session_id, messageID=name)
        self.changes(revert=None)

    def compacts(self, summary: str, tail: str | None = None) -> None:
        question = self.message("user")
        kept = {} if tail is None else {"tail_start_id": tail}
        self.part(question, "compaction", auto=False, **kept)
        self.says(question, summary, summary=True, mode="compaction")
