from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from timeleap_agents.hooks import host
from timeleap_agents.hooks.host import MAX_CONNECTIONS, MAX_LINE, MAX_SESSIONS, HookHost
from timeleap_client import RawTimeleap, StartFailedError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks are refused there")


class Client:
    """Stands where the client with its server is."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.failure: Exception | None = None

    async def start(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def call(self, method: str, params: dict[str, Any], *, within: float) -> dict[str, Any]:
        assert (method, within > 0) == ("bridge/catchUp", True)
        if self.failure is not None:
            raise self.failure
        self.events.append(params)
        return {"sessionId": "s"}

    async def aclose(self) -> None: ...


class Running:
    """A process for hooks, in this one."""

    def __init__(self, home: Path, client: Client, idle: float = 600.0) -> None:
        (home / "hooks").mkdir(parents=True)
        self.host = HookHost(home, idle, cast("RawTimeleap", client))
        self._record = home / "hooks" / "host.json"
        self.task = asyncio.ensure_future(self.host.run())
        self._writers: list[asyncio.StreamWriter] = []

    async def close(self) -> None:
        await self.hang_up()
        self.task.cancel()
        await asyncio.wait({self.task})

    async def hang_up(self) -> None:
        """Close all connections, and see the other side do so."""
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()
        while self.host._connections:
            await asyncio.sleep(0)
        self._writers.clear()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while not self._record.exists() and not self.task.done():
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_unix_connection(json.loads(self._record.read_bytes())["address"])
        self._writers.append(writer)
        return reader, writer

    async def tell(self, **members: Any) -> list[dict[str, Any]]:
        """Tell of an event as a hook does; returns the answers."""
        reader, writer = await self.connect()
        event = {"token": json.loads(self._record.read_bytes())["token"], **members}
        writer.write(json.dumps(event).encode() + b"\n")
        answers: list[dict[str, Any]] = []
        with suppress(ConnectionResetError):  # it hung up with what we said unread
            async for line in reader:
                answers.append(json.loads(line))  # noqa: PERF401  (what came before a reset counts)
        return answers


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
async def running(tmp_path: Path, client: Client) -> AsyncIterator[Running]:
    running = Running(tmp_path / "home", client)
    yield running
    await running.close()


async def test_a_first_prompt_may_take_longer_and_is_done_when_it_is_answered(running: Running, client: Client) -> None:
    prompt = {"event": "prompt", "path": "/c/s.jsonl"}
    assert await running.tell(**prompt) == [{"wait": 10.0}, {"done": True}]
    assert client.events == [prompt]
    assert await running.tell(**prompt) == [{"wait": 0.0}, {"done": True}]
    assert await running.tell(event="prompt", path="/c/other.jsonl") == [{"wait": 10.0}, {"done": True}]


async def test_a_server_that_refuses_is_no_reason_to_leave_a_hook_waiting(running: Running, client: Client) -> None:
    await running.connect()
    client.failure = StartFailedError("no")
    assert (await running.tell(event="prompt", path="/c/s.jsonl"))[-1] == {"done": True}


async def test_without_the_token_nothing_is_done(running: Running, client: Client) -> None:
    for event in ({"token": "wrong", "event": "prompt"}, {"token": None}):
        assert await running.tell(**event) == []
    reader, writer = await running.connect()
    writer.write(b"[]\n")
    assert await reader.read() == b""
    assert client.events == []


async def test_a_line_that_is_too_long_ends_the_connection(running: Running, client: Client) -> None:
    assert await running.tell(event="prompt", path="/c/s.jsonl", cwd="x" * (MAX_LINE // 2))
    assert await running.tell(event="prompt", path="/c/s.jsonl", cwd="x" * MAX_LINE) == []
    assert len(client.events) == 1


async def test_there_are_only_so_many_connections(running: Running) -> None:
    for _ in range(MAX_CONNECTIONS):
        await running.connect()
    assert await running.tell(event="prompt", path="/c/s.jsonl") == []
    await running.hang_up()
    assert await running.tell(event="prompt", path="/c/s.jsonl")


async def test_what_was_not_heard_of_for_longest_is_forgotten(running: Running) -> None:
    await running.tell(event="prompt", path="/c/first.jsonl")
    for number in range(MAX_SESSIONS):
        running.host._session(f"/c/{number}.jsonl")
    assert len(running.host._sessions) == MAX_SESSIONS
    assert await running.tell(event="prompt", path="/c/first.jsonl") == [{"wait": 10.0}, {"done": True}]


async def test_a_server_that_does_not_start_ends_the_process(tmp_path: Path, client: Client) -> None:
    client.failure = StartFailedError("no such program")
    running = Running(tmp_path / "home", client)
    with pytest.raises(StartFailedError):
        await running.task
    assert not (tmp_path / "home" / "hooks" / "host.json").exists()


async def test_nothing_that_waits_is_lost_at_the_end(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "JOINED_SECONDS", 600.0)
    running = Running(tmp_path / "home", client)
    await running.tell(event="tool", path="/c/s.jsonl", toolName="Bash")
    assert client.events == []
    await running.close()
    assert [event["toolName"] for event in client.events] == ["Bash"]
