"""A session as a test sees it: the wire on one side, its directory on the other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.server import DATABASES, Message, Pending, Server


def user(text: str) -> Message:
    """A message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """A message of the assistant."""
    return {"role": "assistant", "content": text}


@dataclass
class Session:
    """An open session on one connection."""

    server: Server
    state: Message

    @classmethod
    def open(cls, server: Server, session_id: str | None = None, **params: Any) -> Session:
        """Open it (a new one where no id is given)."""
        identity = {} if session_id is None else {"sessionId": session_id}
        return cls(server, server.call("session/open", **identity, **params))

    @property
    def id(self) -> str:
        """The session id."""
        return str(self.state["sessionId"])

    @property
    def path(self) -> Path:
        """The session's directory; of a session in a database that of the server's working copy."""
        if str(self.state["path"]).startswith("postgresql://"):
            return next((self.server.home / "copies").glob(f"*-{self.server.process.pid}-*/sessions/{self.id}"))
        return Path(self.state["path"])

    @property
    def log(self) -> Path:
        """The live log."""
        return self.path / "context.jsonl"

    def log_bytes(self, name: str = "context.jsonl") -> bytes:
        """The stored bytes of the live log, or of a timeline. (The working copy of a database may have a part only.)"""
        if (url := DATABASES.get(self.server.home)) is not None:
            from tests.support.postgresql import stored_log

            return stored_log(url, self.id, name)
        return (self.path / name).read_bytes()

    def file_bytes(self, name: str) -> bytes:
        """The stored bytes of one of the small files beside the log; empty where there is none."""
        if (url := DATABASES.get(self.server.home)) is not None:
            from tests.support.postgresql import stored_document

            return stored_document(url, self.id, name) or b""
        return (self.path / name).read_bytes() if (self.path / name).exists() else b""

    def put_file(self, name: str, body: bytes | None) -> None:
        """Write one of the small files behind the back of all servers, or (None) remove it."""
        if (url := DATABASES.get(self.server.home)) is not None:
            from tests.support.postgresql import edit_document

            edit_document(url, self.id, name, body)
        elif body is None:
            (self.path / name).unlink(missing_ok=True)
        else:
            (self.path / name).write_bytes(body)

    def put_log(self, data: bytes) -> None:
        """Write the live log behind the back of all servers."""
        if (url := DATABASES.get(self.server.home)) is not None:
            from tests.support.postgresql import edit_log

            edit_log(url, self.id, data)
        else:
            self.log.write_bytes(data)

    def call(self, method: str, /, **params: Any) -> Any:
        """The result of a request on this session."""
        return self.server.call(method, sessionId=self.id, **params)

    def refuse(self, method: str, /, **params: Any) -> Message:
        """The error of a request on this session."""
        return self.server.refuse(method, sessionId=self.id, **params)

    def start(self, method: str, /, **params: Any) -> Pending:
        """Send a request on this session and do not wait."""
        return self.server.start(method, sessionId=self.id, **params)

    def append(self, *messages: Message, **params: Any) -> Message:
        """Append messages as one step."""
        return dict(self.call("context/appendMessage", messages=list(messages), **params))

    def say(self, *texts: str) -> None:
        """Append messages of the user, one by one."""
        for text in texts:
            self.call("context/appendMessage", message=user(text))

    def checkpoint(self, **params: Any) -> Message:
        """Write a checkpoint and return it."""
        return dict(self.call("context/checkpoint", **params)["checkpoint"])

    def get_state(self) -> Message:
        """The present SessionState."""
        return dict(self.call("session/getState"))

    @property
    def head(self) -> str:
        """The present head."""
        return str(self.get_state()["head"])

    def history(self, **params: Any) -> list[Message]:
        """The whole history, by pages."""
        timeline = {name: value for name, value in params.items() if name == "timelineId"}
        page = self.call("context/getHistory", limit=1000, **params)
        entries = list(page["messages"])
        while "nextCursor" in page:
            page = self.call("context/getHistory", limit=1000, cursor=page["nextCursor"], **timeline)
            entries += page["messages"]
        return [entry["message"] for entry in entries]

    def texts(self, **params: Any) -> list[str]:
        """The string contents of the history."""
        return [message["content"] for message in self.history(**params)]

    def records(self, **params: Any) -> list[Message]:
        """All records of the log, as the wire tells them."""
        page = self.call("context/getRecords", limit=1000, **params)
        records = list(page["records"])
        while "next" in page:
            page = self.call("context/getRecords", limit=1000, **{**params, "from": page["next"]})
            records += page["records"]
        return [entry["record"] for entry in records]

    def lines(self) -> list[Message]:
        """All records of the log, as its file has them."""
        return [json.loads(line) for line in self.log_bytes().split(b"\n") if line.strip()]

    def timelines(self) -> list[Message]:
        """The timelines, newest first."""
        return list(self.call("context/listTimelines")["timelines"])

    def reopen(self, server: Server, **params: Any) -> Session:
        """The same session on another connection."""
        return Session.open(server, self.id, **params)
