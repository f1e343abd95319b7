"""The engines that the conformance suite runs against. Adding an engine is one line in `ENGINES`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.support.memory_engine import MemoryEngine
from tests.support.postgresql import shared_cluster

from timeleap.storage.engine import LogEngine
from timeleap.storage.jsonl import JsonlEngine
from timeleap_postgresql.database import Database
from timeleap_postgresql.session_copies import publish
from timeleap_postgresql.shared_log import open_copy

Opener = Callable[[Path], Awaitable[LogEngine]]


async def memory(_: Path) -> LogEngine:
    return MemoryEngine()


async def jsonl(folder: Path) -> LogEngine:
    return await JsonlEngine.open(folder / "context.jsonl")


async def jsonl_os(folder: Path) -> LogEngine:
    return await JsonlEngine.open(folder / "context.jsonl", durability="os")


async def jsonl_per_write(folder: Path) -> LogEngine:
    return await JsonlEngine.open(folder / "context.jsonl", lock="per-write")


async def postgresql(folder: Path) -> LogEngine:
    database = Database(shared_cluster().new_database())
    (folder / "context.jsonl").touch()
    copy = publish(database, "s", folder)
    return await open_copy(folder / "context.jsonl", copy, closed=database.close)


ENGINES: dict[str, Opener] = {
    "memory": memory,
    "jsonl": jsonl,
    "jsonl, durability os": jsonl_os,
    "jsonl, lock per write": jsonl_per_write,
    "postgresql": postgresql,
}
