"""A file that is mirrored while its program writes it ends as the mirror of the whole file: messages, checkpoints, timelines.

A look falls between any two records, and in the middle of each.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.claude_histories import History as ClaudeHistory
from tests.support.codex_histories import CodexHistory
from tests.support.gemini_histories import GeminiHistory
from tests.support.kimi_code_histories import History as KimiCodeHistory
from tests.support.kimi_file import KimiFile
from tests.support.kimi_histories import KimiHistory
from tests.support.opencode_file import OpencodeFile

from timeleap.features.approvals.seal import ENVIRONMENT
from timeleap.service import config
from timeleap.service.service import Service
from timeleap.storage.reader import LogReader
from timeleap_agents.mirrors.mirror import Mirror
from timeleap_agents.mirrors.record_list import MARK_ROLE

Shown = list[dict[str, Any]]


def records(log: LogReader) -> Shown:
    """Messages of a log, apart from marks and ids."""
    found = []
    for line in range(log.state.lines):
        record = json.loads(log.read(line, line + 1)[0])
        marks = record.pop("_tl", None) or {}
        if record.get("role") not in (MARK_ROLE, "_usage"):
            found.append({**record, "label": marks.get("l")})
    return found


def kept_apart(timelines: list[Shown], live: Shown) -> set[str]:
    """The timelines that neither the log begins with nor another timeline."""
    said = [json.dumps(each)[:-1] for each in timelines]
    others = [*said, json.dumps(live)[:-1]]
    return {each for each in said if not any(other != each and other.startswith(each) for other in others)}


Written = tuple[Path, Iterator[None]]
"""Session's name and its writing: each step is a moment at which somebody may look."""


def in_pieces(path: Path) -> Written:
    """A file that was written, written once more by halves of its lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()

    def written() -> Iterator[None]:
        with path.open("ab", buffering=0) as file:
            for line in lines:
                for part in (line[: len(line) // 2], line[len(line) // 2 :]):
                    file.write(part)
                    yield

    return path, written()


def claude(folder: Path, seed: int) -> Written:
    return in_pieces(ClaudeHistory(folder / "projects", seed).grow(8).file.path)


def codex(folder: Path, seed: int) -> Written:
    return in_pieces(CodexHistory(folder / "sessions", seed).grow(8).file.path)


def gemini(folder: Path, seed: int) -> Written:
    return in_pieces(GeminiHistory(folder, seed).grow(8).file.path)


def kimi_code(folder: Path, seed: int) -> Written:
    return in_pieces(KimiCodeHistory(folder, seed).grow(8).file.path)


def kimi(folder: Path, seed: int) -> Written:
    """A log with those that were set aside, by the states of its folder."""
    history = KimiHistory(folder, seed)
    file, states = history.file, list[dict[str, bytes]]()

    class Noted(KimiFile):
        def note(self) -> None:
            states.append({each.name: each.read_bytes() for each in self.path.parent.glob("context*.jsonl")})

        def write_bytes(self, data: bytes) -> None:
            super().write_bytes(data)
            self.note()

        def goes_back(self, checkpoint: int) -> None:
            super().goes_back(checkpoint)
            self.note()

        def _set_aside(self) -> Path:
            aside = super()._set_aside()
            self.note()
            return aside

    file.__class__ = Noted
    history.grow(8)
    for each in file.path.parent.glob("context*.jsonl"):
        each.unlink()

    def written() -> Iterator[None]:
        live, before = file.path, dict[str, bytes]()
        for state in states:
            for name in state.keys() - before.keys() - {live.name}:
                live.rename(live.with_name(name))
            data, known = state.get(live.name, b""), before.get(live.name, b"")
            if live.name in state and not data.startswith(known):
                known = b""
                live.unlink()
            if live.name in state:
                with live.open("ab") as out:
                    out.write(data[len(known) :])
            before = state
            yield

    return file.path, written()


def opencode(folder: Path, seed: int) -> Written:
    """A session in a database, event by event: the program changes rows together with the event that tells of it."""
    statements, chance = list[str](), random.Random(seed)
    file = OpencodeFile(folder / "first")
    file.connection.set_trace_callback(statements.append)
    turns = [file.turn(1)]
    for number in range(2, 8):
        prompt = file.asks(f"question {number}")
        kind = chance.randrange(5)
        if kind == 0:
            answer = file.begins(prompt)
            calls = [file.calls(answer, f"call_{number}_{each}") for each in range(2)]
            for each, part in enumerate(calls):
                file.gets(answer, part, f"call_{number}_{each}", f"result {number} {each}")
            last = file.calls(answer, f"call_{number}_late")  # it comes when the others are answered
            file.gets(answer, last, f"call_{number}_late", "late")
            file.writes(answer, f"answer {number}")
            file.ends(answer, prompt)
        elif kind == 1:
            file.says(prompt, f"answer {number}")
            file.reverts(chance.choice(turns))
            file.cleans()
            turns = [file.turn(100 + number)]
        elif kind == 2:
            file.says(prompt, f"answer {number}")
            file.compacts(f"summary {number}")
        else:
            file.says(prompt, f"answer {number}")
            turns.append(prompt)
    file.turn(9)
    file.close()
    path = OpencodeFile(folder / "second").path

    def written() -> Iterator[None]:
        connection = sqlite3.connect(path.parent, isolation_level=None)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement)
            if "event_sequence" in statement:
                connection.execute("COMMIT")
                yield
                connection.execute("BEGIN")
        connection.execute("COMMIT")
        connection.close()

    return path, written()


KINDS: dict[str, Callable[[Path, int], Written]] = {
    "claude-code": claude, "codex": codex, "gemini": gemini, "kimi": kimi, "kimi-code": kimi_code, "opencode": opencode,
}  # fmt: skip


class Look:
    """A mirror that is looked at again and again."""

    def __init__(self, service: Service, kind: str, path: Path, session_id: str) -> None:
        self._service, self._name = service, (kind, path, session_id)
        self._mirror = Mirror(service, *self._name)

    async def __call__(self, *, anew: bool = False) -> None:
        """Look; `anew`: as a process that has just begun."""
        if anew:
            await self._mirror.close()
            self._mirror = Mirror(self._service, *self._name)
        await self._mirror.catch_up()

    def shown(self) -> tuple[Shown, set[str]]:
        """The log, and the timelines apart from it."""
        session = self._mirror.session
        assert session is not None
        live = records(session.engine)
        timelines = [records(session.engine.timeline(each.timeline_id)) for each in session.engine.timelines()]
        return live, kept_apart(timelines, live)


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "key"))
    made = Service(config.load(tmp_path / "home", environ={"TIMELEAP_DURABILITY": "os"}))
    yield made
    for task in made.background.values():
        task.cancel()
    await made.store.aclose()


async def check(service: Service, folder: Path, kind: str, seed: int, *, begins_anew: float) -> None:
    path, written = KINDS[kind](folder / f"{kind}-{seed}", seed)
    grown, chance = Look(service, kind, path, f"grown-{seed}"), random.Random(seed)
    for _ in written:
        await grown(anew=chance.random() < begins_anew)
    whole = Look(service, kind, path, f"whole-{seed}")
    await whole()
    live, timelines = grown.shown()
    assert live == whole.shown()[0], (kind, seed)
    assert timelines == whole.shown()[1], (kind, seed)


@pytest.mark.parametrize("kind", KINDS)
async def test_looks_between_records_leave_what_one_look_shows(service: Service, tmp_path: Path, kind: str) -> None:
    await check(service, tmp_path, kind, 3, begins_anew=0.05)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_looks_in_many_histories_leave_what_one_look_shows(service: Service, tmp_path: Path, kind: str) -> None:
    for seed in range(100, 120):
        await check(service, tmp_path, kind, seed, begins_anew=0.2)
