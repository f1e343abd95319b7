"""What is measured of Claude Code and its SDK, in a process that has the SDK (`make agents` installs it).

Takes a JSON request a line, whose `do` names a function of here; answers with a line: the seconds of each case, in rounds.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.claude_folder import write_claude_session
from claude_agent_sdk import ClaudeSDKClient, InMemorySessionStore
from tests.agents.claude_code import ClaudeCode, turn
from tests.agents.model import Model
from tests.agents.person import Person

from timeleap.adapters.claude import ClaudeSessionStore
from timeleap.client import AsyncTimeleap

Seconds = dict[str, list[float]]

KEY: Final = {"project_key": "-project", "session_id": "00000000-0000-4000-8000-000000000000"}
BATCH: Final = 20
SAID: Final = "Something long that is of no use. " * 6_000
FILES: Final = 2_000


async def fill(folder: str, messages: int) -> int:
    """Write a session of so many messages as its file, and into a store; returns the bytes of the file."""
    path = Path(folder, "session.jsonl")
    write_claude_session(path, messages)
    entries = _entries(path)
    async with AsyncTimeleap(home=Path(folder, "home")) as client:
        store = ClaudeSessionStore(client)
        for start in range(0, len(entries), 500):
            await store.append(KEY, entries[start : start + 500])
    return path.stat().st_size


async def read(folder: str) -> float:
    """Read the session's file, `json.loads` for each line."""
    started = time.perf_counter()
    entries = _entries(Path(folder, "session.jsonl"))
    taken = time.perf_counter() - started
    assert entries
    return taken


async def load(folder: str) -> float:
    """Load the session from the store."""
    async with AsyncTimeleap(home=Path(folder, "home")) as client:
        started = time.perf_counter()
        entries = await ClaudeSessionStore(client).load(KEY)
        taken = time.perf_counter() - started
    assert entries == _entries(Path(folder, "session.jsonl"))
    return taken


async def append(folder: str, rounds: int) -> Seconds:
    """Append a batch to either store, in turn."""
    write_claude_session(path := Path(folder, "batches.jsonl"), BATCH * (rounds + 1))
    entries = _entries(path)
    async with AsyncTimeleap(home=Path(folder, "appended")) as client:
        stores = {"timeleap": ClaudeSessionStore(client), "memory": InMemorySessionStore()}

        def adding(store: Any) -> Callable[[int], Awaitable[object]]:
            return lambda number: store.append(KEY, entries[number * BATCH : (number + 1) * BATCH])

        return await _rounds({name: adding(store) for name, store in stores.items()}, rounds)


async def resume(folder: str, rounds: int) -> Seconds:
    """Start Claude Code on a session of about a megabyte, and ask it something, with either store."""
    _use_all_cores()
    with _model() as model:
        async with AsyncTimeleap(home=Path(folder, "resumed")) as client:
            stores = {"timeleap": ClaudeSessionStore(client), "memory": InMemorySessionStore()}
            programs = {name: ClaudeCode(Path(folder, name), model, store) for name, store in stores.items()}
            sessions = {name: await _long_session(program) for name, program in programs.items()}

            def resuming(name: str) -> Callable[[int], Awaitable[object]]:
                return lambda number: programs[name].ask(f"{name}{number}", resume=sessions[name])

            return await _rounds({name: resuming(name) for name in stores}, rounds)


async def turns(folder: str, rounds: int, pace: float) -> Seconds:
    """A turn with two calls of a shell, of a person with hooks and of one without."""
    _use_all_cores()
    with _model() as model:
        model.pace = pace
        async with _person(Path(folder, "hooks"), model) as hooks, _person(Path(folder, "none"), model) as none:
            return await _rounds({"hooks": _turn(model, "hooks", hooks), "none": _turn(model, "none", none)}, rounds)


def _turn(model: Model, name: str, client: ClaudeSDKClient) -> Callable[[int], Awaitable[object]]:
    def ask(number: int) -> Awaitable[object]:
        commands = (f"echo {number} > changed{number % 10}.txt", "cat kept.txt")
        model.calls[f"{name}{number}"] = [("Bash", {"command": command}) for command in commands]
        return turn(client, f"{name}{number}")

    return ask


@asynccontextmanager
async def _person(folder: Path, model: Model) -> Any:
    folder.mkdir()
    files = {
        "kept.txt": "same\n",
        **{f"src/{number % 40}/{number}.py": f"print({number})\n" for number in range(FILES)},
    }
    person = Person(folder, model, files)
    if folder.name == "hooks":
        person.cli.run("agents", "install", "claude-code", "--yes")
    try:
        async with ClaudeSDKClient(person.options()) as client:
            yield client
        log = person.cli.home / "hooks" / "hook.log"
        assert not log.exists() or not log.read_text(), log.read_text()
    finally:
        person.close()


async def _long_session(program: ClaudeCode) -> str:
    """A session of the program with a megabyte of what was said; returns its id."""
    async with ClaudeSDKClient(program.options()) as client:
        session = await turn(client, "first")
        for _ in range(5):
            await client.query(SAID)
            async for _message in client.receive_response():
                pass
        return session


async def _rounds(cases: dict[str, Callable[[int], Awaitable[object]]], rounds: int) -> Seconds:
    """The seconds of each case in each round; the first round is not counted."""
    taken: Seconds = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            started = time.perf_counter()
            await case(number)
            taken[name].append(time.perf_counter() - started)
    return {name: seconds[1:] for name, seconds in taken.items()}


@contextmanager
def _model() -> Iterator[Model]:
    model = Model()
    try:
        yield model
    finally:
        model.close()


def _use_all_cores() -> None:
    """A person's machine has others for what goes on beside the agent, such as the snapshot that a hook asked for."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def _entries(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    """Answer requests until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what is printed by what runs here is no answer
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(asyncio.run(globals()[request.pop("do")](**request))), file=answers, flush=True)


if __name__ == "__main__":
    main()
