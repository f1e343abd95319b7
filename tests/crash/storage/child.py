"""A process that works on a log and says how far it is, until it is killed. `python -m tests.crash.storage.child LOG OP...`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.crash.storage.workloads import ANEW, OPERATIONS

from timeleap.storage.jsonl import JsonlEngine


async def work(log: Path, names: list[str]) -> None:
    engine = await JsonlEngine.open(log)
    print("open", flush=True)
    for name in names:
        print("start", flush=True)
        await (OPERATIONS | ANEW)[name](engine)
        print("ack", flush=True)
    await engine.aclose()


def main() -> None:
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2:]))


if __name__ == "__main__":
    main()
