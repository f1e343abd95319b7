"""The watch over the process of a client, which `initialize` may name: the server ends soon after it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from timeleap.storage.durable import failpoint

log = logging.getLogger(__name__)

WATCH_INTERVAL = 1.0
"""Seconds between two looks at the client's process."""


async def watch_over(process_id: int, finish: Callable[[], None]) -> None:
    """Call `finish` when the process that started us is no more: its end of our input may live on in a child of its."""
    import psutil

    try:
        process = psutil.Process(process_id)  # knows its start time: a successor under the same id is another one
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            failpoint("watch.look")
            await asyncio.sleep(WATCH_INTERVAL)
    except psutil.NoSuchProcess:
        pass
    except psutil.Error as error:
        log.warning("cannot watch the client's process: %s", type(error).__qualname__)
        return
    log.warning("the client's process %d is gone: finishing", process_id)
    finish()


def is_alive(process_id: int) -> bool:
    """True if a process is seen here. One that is not may be of another machine or container, whose numbers say nothing
    here, or hidden from us: the end of the input says when it is gone."""
    if sys.platform == "linux":
        try:
            state = Path(f"/proc/{process_id}/stat").read_bytes().rpartition(b") ")[2][:1]
        except OSError:
            return False
        return state not in (b"Z", b"X")
    import psutil

    return psutil.pid_exists(process_id)
