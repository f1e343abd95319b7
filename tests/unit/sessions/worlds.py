"""What the tests of the sessions layer share: a store that can be restarted, a session's events, short requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.forked import run_program
from tests.support.plain_shapes import PLAIN

from timeleap.features.approvals.store_approvals import in_files
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Cause, Event, Mutation, Retention
from timeleap.store.store import SessionStore

Json = dict[str, Any]

USER = {"role": "user", "content": "Where is the file?"}
ANSWER = {"role": "assistant", "content": "In the drawer."}


class World:
    """One user: a home, a key, and the store as the present process sees it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.home = folder / "home"
        self.key_file = folder / "config" / "approval.key"
        self.options: dict[str, Any] = {"shapes": PLAIN, **options}
        self.store = self._store()

    def _store(self) -> SessionStore:
        return SessionStore(self.home, approvals=in_files(self.key_file), **self.options)

    async def restart(self) -> SessionStore:
        await self.close()
        self.store = self._store()
        return self.store

    async def close(self) -> None:
        await self.store.aclose()

    async def session(self, session_id: str = "s1", **options: Any) -> Session:
        return (await self.store.open(session_id, **options)).session

    async def reopened(self, session_id: str = "s1", **options: Any) -> Session:
        await self.restart()
        return await self.session(session_id, **options)

    def path(self, session_id: str = "s1") -> Path:
        return self.home / "sessions" / session_id

    def json(self, name: str, session_id: str = "s1") -> Json:
        return json.loads((self.path(session_id) / name).read_text())

    def put_json(self, name: str, document: Json, session_id: str = "s1") -> None:
        (self.path(session_id) / name).write_text(json.dumps(document))

    def tree(self) -> dict[str, bytes]:
        """Every file of the home but locks, with its bytes."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and not path.is_symlink() and not path.name.endswith(".lock")
        }


def asked(request_id: str, method: str = "context/appendMessage", fingerprint: str = "f", **options: Any) -> Mutation:
    """The guard of a request with an id."""
    cause = Cause(request_id, "tester")
    return Mutation(request_id=request_id, method=method, fingerprint=fingerprint, cause=cause, **options)


def heard(session: Session) -> list[Event]:
    """A list that grows with the session's events."""
    found: list[Event] = []
    session.listen(found.append)
    return found


def kinds(found: list[Event]) -> list[str]:
    return [event.kind for event in found]


def texts(session: Session) -> list[str]:
    """The contents of all messages."""
    engine = session.engine
    records = (json.loads(line) for line in engine.read(0, engine.state.lines))
    return [record["content"] for record in records if not record["role"].startswith("_")]


def records(session: Session) -> list[Json]:
    """All records, without our marks."""
    engine = session.engine
    found = [json.loads(line) for line in engine.read(0, engine.state.lines)]
    return [{key: value for key, value in record.items() if key != "_tl"} for record in found]


def run_child(program: str, *arguments: str, failpoints: str = "", key_file: Path | None = None) -> int:
    """Run `program` in a process of its own; returns how it ended (-9: killed by a failpoint)."""
    environment = {"TIMELEAP_FAILPOINTS": failpoints}
    if key_file is not None:
        environment["TIMELEAP_KEY_FILE"] = str(key_file)
    ended = run_program(program, *arguments, timeout=180, **environment)
    if ended.code not in (0, -9):
        raise AssertionError(ended.err)
    return ended.code


def small_retention(timelines: int, size: int = 1 << 40) -> Retention:
    return Retention(timelines, size)
