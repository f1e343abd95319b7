"""What a model asks for again and again does not grow the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from timeleap_agents.mcp import change_tools, methods, opened_sessions, tool_results
from timeleap_agents.mcp.change_tools import FilesRestore
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.secret_masks import SecretMask
from timeleap_agents.mcp.tool_results import MAX_RESULT_BYTES, Cursors, ToolFailureError, ToolResult
from timeleap_client import RawTimeleap, TimeleapRpcError

LONG = "word " * 10_000


def sessions_of(tmp_path: Path, *allowed: str) -> OpenedSessions:
    called = methods.callable_with(frozenset(allowed))
    return OpenedSessions(lambda: RawTimeleap(home=tmp_path), called, None, tmp_path, SecretMask(tmp_path))


def cursor_in(text: str) -> str:
    return text.rpartition('"cursor": "')[2].partition('"')[0]


async def test_the_oldest_cursor_is_forgotten() -> None:
    cursors = Cursors()
    names = [cursor_in(cursors.cut("diff", ToolResult(LONG))) for _ in range(tool_results.MAX_CURSORS + 1)]
    assert (await cursors.following("diff", names[1])).text
    with pytest.raises(ToolFailureError, match="without a cursor"):
        await cursors.following("diff", names[0])


def test_what_is_too_large_to_be_kept_is_dropped_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_results, "MAX_KEPT_BYTES", 20_000)
    told = Cursors().cut("diff", ToolResult(LONG))
    assert "Only the first" in told
    assert len(told) < 21_000


def test_no_answer_is_larger_than_32_kib_and_none_cuts_a_character() -> None:
    for text in ("\U0001f600" * 20_000, "x" * 100_000, "line\n" * 20_000):
        told = Cursors().cut("diff", ToolResult(text, ["s" * 64] * 20))
        assert len(told.encode()) <= MAX_RESULT_BYTES
        assert "\ufffd" not in told


async def test_only_so_many_sessions_are_open_and_names_of_none_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_sessions, "MAX_OPEN", 2)
    async with RawTimeleap(home=tmp_path) as client:
        for number in range(5):
            await client.call("session/open", {"sessionId": f"s{number}"})
        sessions = sessions_of(tmp_path)
        for number in (*range(5), *range(5)):
            async with sessions.reading(f"s{number}"):
                await sessions.call(methods.HISTORY, sessionId=f"s{number}")
        for number in range(5):
            with pytest.raises(TimeleapRpcError, match="no session"):
                async with sessions.reading(f"none{number}"):
                    pass
        assert [len(sessions._open), len(sessions._used), len(sessions._turns)] == [2, 0, 2]
        await sessions.close()


async def test_the_oldest_dry_run_is_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(change_tools, "MAX_DRY_RUNS", 2)
    restore, sessions = FilesRestore(), sessions_of(tmp_path)
    counts = dict.fromkeys(("added", "modified", "deleted", "kept", "conflicts"), 0)
    plan: dict[str, Any] = {"files": {**counts, "after": "f1-000000000000"}}
    for number in range(5):
        await restore._say(sessions, "shop", plan, f"digest {number}")
    assert list(restore._foretold.values()) == ["digest 3", "digest 4"]
