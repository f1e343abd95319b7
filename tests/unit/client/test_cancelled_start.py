"""A start that is given up, at whatever step it is: it ends, and leaves no process and no complaint behind."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading

import pytest

from timeleap_client.loop import LoopThread
from timeleap_client.process import Launch, ServerProcess

PATIENCE = 20.0
SILENT = Launch(command=(sys.executable, "-c", "import sys; sys.stdin.read()"))


async def start_and_kill() -> None:
    process = await ServerProcess.start(SILENT)
    killing = asyncio.create_task(process.kill())
    while not killing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(killing)


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_after_some_steps_of_the_loop(steps: int) -> None:
    start = asyncio.create_task(start_and_kill())
    for _ in range(steps):
        await asyncio.sleep(0)
    start.cancel()
    start.cancel()
    done, _ = await asyncio.wait({start}, timeout=PATIENCE)
    assert done


@pytest.mark.parametrize("steps", range(12))
def test_the_loop_is_closed_while_it_starts(steps: int) -> None:
    """As Ctrl-C in a blocking call does it."""
    loop = LoopThread()
    cancelled = threading.Event()

    async def start() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(cancel, task, steps)
        await start_and_kill()

    def cancel(task: asyncio.Task[None], left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(cancel, task, left - 1)
        else:
            task.cancel()
            cancelled.set()

    loop.submit(start())
    assert cancelled.wait(PATIENCE)
    closing = threading.Thread(target=loop.close, daemon=True)
    closing.start()
    closing.join(PATIENCE)
    assert not closing.is_alive()
