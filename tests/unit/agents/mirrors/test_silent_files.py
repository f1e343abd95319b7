"""Files in which nothing is said, of which there may be very many, leave nothing behind in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.claude_file import ClaudeFile

from timeleap.errors import TimeleapError
from timeleap.features.approvals.seal import ENVIRONMENT
from timeleap.service import config
from timeleap.service.service import Service
from timeleap_agents.mirrors.bridge import Bridge, bridge_of

KIND = "claude-code"
NOTE = json.dumps({"type": "summary", "summary": "a note", "leafUuid": "00000000-0000-4000-8000-000000000000"})


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "key"))
    made = Service(config.load(tmp_path / "home", environ={}))
    yield made
    for task in made.background.values():
        task.cancel()
    await made.store.aclose()


def held(bridge: Bridge) -> int:
    """How many mirrors are in memory."""
    return len(bridge._mirrors)


@pytest.mark.parametrize("content", ["", f"{NOTE}\n", "no record\n"])
async def test_a_file_that_says_nothing_leaves_nothing_in_memory(
    service: Service, tmp_path: Path, content: str
) -> None:
    bridge, file = bridge_of(service), ClaudeFile(tmp_path / "projects")
    file.turn(1)
    await bridge.catch_up(bridge.mirror(KIND, file.path))
    below = file.path.with_suffix("") / "subagents"
    below.mkdir(parents=True)
    paths = [below / f"agent-{number}.jsonl" for number in range(20)]
    for path in paths:
        path.write_text(content)
        assert not (await bridge.catch_up(bridge.mirror(KIND, path))).changed
    assert held(bridge) == 1
    paths[0].write_text(content + file.path.read_text())
    assert (await bridge.catch_up(bridge.mirror(KIND, paths[0]))).created
    assert held(bridge) == 2


async def test_a_file_that_cannot_be_read_leaves_nothing_in_memory(service: Service, tmp_path: Path) -> None:
    bridge, path = bridge_of(service), tmp_path / "projects" / "-shop" / "00000000-0000-4000-8000-000000000000.jsonl"
    path.mkdir(parents=True)
    with pytest.raises((TimeleapError, OSError)):
        await bridge.catch_up(bridge.mirror(KIND, path))
    assert held(bridge) == 0


async def test_a_file_that_is_asked_for_twice_at_once_is_one_mirror(service: Service, tmp_path: Path) -> None:
    bridge, file = bridge_of(service), ClaudeFile(tmp_path / "projects")
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text("")
    mirrors = [bridge.mirror(KIND, file.path) for _ in range(2)]
    assert mirrors[0] is mirrors[1]
    silent = asyncio.gather(*(bridge.catch_up(mirror) for mirror in mirrors))
    await asyncio.sleep(0)
    file.turn(1)
    await silent
    await bridge.catch_up(bridge.mirror(KIND, file.path))
    assert held(bridge) == 1
