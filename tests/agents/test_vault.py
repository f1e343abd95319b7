"""Claude Code and Codex themselves, as released, go on in files that were unlinked, cut, rewritten and replaced, and given back."""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.agents.codex import Codex, needs_codex
from tests.agents.model import Model
from tests.agents.test_claude_mirror import ClaudeCode
from tests.agents.window import until

from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # twenty runs of the program each
TIMES = 20


class Program(Protocol):
    """A program of an agent, in one folder."""

    async def ask(self, *questions: str, resume: str | None = None) -> None:
        """One run of the program with these turns."""


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    other.replace(path)


LOSSES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "rewritten": lambda path: path.write_bytes(path.read_bytes()[::-1]),
    "replaced": replace,
}


async def go_on_after_losses(
    client: RawTimeleap, model: Model, kind: str, program: Program, folder: Path, session_of: Callable[[Path], str]
) -> None:
    """Twenty times: the file is lost in some way, given back, and the program goes on with all that was said."""
    await client.call("bridge/watch", {"kind": kind, "path": str(folder)})
    await program.ask("zero")
    (path,) = folder.rglob("*.jsonl")

    async def kept() -> list[dict[str, Any]]:
        sessions = (await client.call("session/list", {"source": {"kind": kind}}))["sessions"]
        if not sessions:  # the first look at the folder is not over
            return []
        (session,) = sessions
        found = await client.call("bridge/listKept", {"sessionId": session["sessionId"]})
        return [{**each, "sessionId": session["sessionId"]} for each in found["generations"]]

    expected = ["question zero", "answer zero"]
    for number, (why, lose) in zip(range(TIMES), itertools.cycle(LOSSES.items()), strict=False):
        data = path.read_bytes()
        await until(partial(_is_kept, kept, data))
        (before, *_) = await kept()
        lose(path)
        await until(partial(_has_ended, kept, before, why))
        if path.exists():
            path.rename(path.with_name(f"{number}.bad"))
        wanted = {"sessionId": before["sessionId"], "generation": before["generation"]}
        given = await client.call("bridge/restoreFile", wanted)
        assert (given["path"], path.read_bytes()) == (str(path), data)
        assert given["resume"]["args"][-1] == session_of(path)
        await program.ask(f"{why}{number}", resume=given["resume"]["args"][-1])
        expected.append(f"question {why}{number}")
        said = [text for text in model.texts() if text.startswith(("question ", "answer "))]
        assert said == expected
        expected.append(f"answer {why}{number}")


async def _is_kept(kept: Callable[[], Awaitable[list[dict[str, Any]]]], data: bytes) -> bool:
    generations = await kept()
    return bool(generations) and generations[0]["sha256"] == hashlib.sha256(data).hexdigest()


async def _has_ended(kept: Callable[[], Awaitable[list[dict[str, Any]]]], before: dict[str, Any], why: str) -> bool:
    return [why] == [each.get("ended") for each in await kept() if each["generation"] == before["generation"]]


async def test_claude_code_goes_on_in_files_that_are_given_back(
    client: RawTimeleap, model: Model, tmp_path: Path
) -> None:
    program = ClaudeCode(tmp_path / "folder", model)
    program.sessions.mkdir(parents=True)
    await go_on_after_losses(client, model, "claude-code", program, program.sessions, lambda path: path.stem)


async def test_what_claude_codes_own_clean_up_deletes_is_foretold_kept_and_given_back(
    client: RawTimeleap, model: Model, tmp_path: Path
) -> None:
    program = ClaudeCode(tmp_path / "folder", model)
    program.sessions.mkdir(parents=True)
    (program.sessions.parent / "settings.json").write_text('{"cleanupPeriodDays": 7}')
    await client.call("bridge/watch", {"kind": "claude-code", "path": str(program.sessions)})
    await program.ask("zero")
    (path,) = program.sessions.rglob("*.jsonl")
    os.utime(path, (time.time() - 60 * 86_400,) * 2)
    data = path.read_bytes()

    async def listed() -> list[dict[str, Any]]:
        sessions = (await client.call("session/list", {"source": {"kind": "claude-code"}}))["sessions"]
        return [each for each in sessions if each["source"]["path"] == str(path)]

    async def is_kept() -> bool:
        return bool(found := await listed()) and found[0]["source"].get("kept", {}).get("bytes") == len(data)

    await until(is_kept)
    (session,) = await listed()
    assert session["source"]["kept"]["goesAt"] < datetime.now(UTC).isoformat(), "it is due"

    async def is_gone() -> bool:
        return not path.exists()

    await program.ask("other", sources=["user"], meanwhile=lambda: until(is_gone))
    assert (await listed())[0]["source"]["kept"]["fileGone"] is True
    given = await client.call("bridge/restoreFile", {"sessionId": session["sessionId"]})
    assert path.read_bytes() == data
    await program.ask("again", resume=given["resume"]["args"][-1])
    assert model.texts() == ["question zero", "answer zero", "question again"]


@needs_codex
async def test_codex_goes_on_in_files_that_are_given_back(client: RawTimeleap, model: Model, tmp_path: Path) -> None:
    program = Codex(tmp_path / "folder", model)
    sessions = program.home / "sessions"
    sessions.mkdir()
    await go_on_after_losses(client, model, "codex", program, sessions, lambda path: path.stem[-36:])
