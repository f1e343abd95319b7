"""Threads in which files are synced while their content is being worked on. A forked process begins its own: a fork has
none of the threads of the process that it is a copy of."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class _Threads:
    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self.pool = ThreadPoolExecutor(thread_name_prefix="timeleap sync")


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.begin_anew)


def begin(sync: Callable[[], None]) -> Future[None]:
    """Run `sync` in a thread; the result says when it is done."""
    return _threads.pool.submit(sync)
