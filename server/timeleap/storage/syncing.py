"""Threads in which files are synced while their content is being worked on. A forked process begins its own: a fork has
none of the threads of the process that it is a copy of."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor


class _Threads:
    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        self.pool = ThreadPoolExecutor(thread_name_prefix="timeleap sync")


threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.start_over)
