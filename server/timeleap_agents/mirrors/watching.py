"""Following one folder of an agent's program: each file that changes is mirrored, newest first.

What changes is told by the operating system where it can be (`folder_events`). Else the files that were changed a short
time ago are looked at again and again, and the whole folder now and then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from timeleap.errors import SessionLockedError
from timeleap_agents.mirrors.folder_events import FolderEvents
from timeleap_agents.mirrors.folders import FileFacts, FolderNotes, FoundFiles, facts_of, look, may_be_session

POLL_SECONDS: Final = 0.1
"""Seconds between looks at files that were changed a short time ago, where changes are not told."""
SCAN_SECONDS: Final = 1.0
"""Seconds between looks at the whole folder, where changes are not told or another process has mirrors open."""
TOLD_SCAN_SECONDS: Final = 10.0
"""Seconds between looks at folders whose changes are told: the system leaves some out when there are too many."""
SCAN_SHARE: Final = 4
"""A look at the whole folder is followed by so many times the time it took without one."""
IDLE_SHARE: Final = 4000
"""Times the processor's time of such a look that pass before the next one, where changes are told and there are none."""
LONGEST_SECONDS: Final = 300.0
"""Between two looks at the whole folder, at most."""
RETRY_SECONDS: Final = 30.0
"""Before the system is asked again to tell of changes that it did not want to tell."""
AT_ONCE: Final = 3
"""Files that are mirrored at the same time: while one waits for the disk, the next is read."""
ACTIVE_SECONDS: Final = 300.0
MAX_ACTIVE: Final = 50
SAVE_SECONDS: Final = 30.0

_logger = logging.getLogger(__name__)


class FolderWatch:
    """Mirrors the files of a folder as they change.

    Args:
        kind: The agent's program.
        folder: Where it keeps its sessions; it need not be there yet.
        notes: Which of them are mirrored.
        catch_up: Mirrors one file; says whether it is one that is wanted.
        gone: Called with the path of a file that is not there any more.

    Attributes:
        started: Set after the first look, when it is known how changes are noticed.
        files: What is there, by path.
        mirrored: What is mirrored, as it was then.
        failures: Why files are not mirrored.
        problems: What could not be read, in words.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        notes: FolderNotes,
        catch_up: Callable[[str], Awaitable[bool]],
        gone: Callable[[str], None],
    ) -> None:
        self.kind, self.folder = kind, folder
        self.started = asyncio.Event()
        self.files: dict[str, FileFacts] = {}
        self.mirrored: dict[str, FileFacts] = {}
        self.problems: list[str] = []
        self.failures: dict[str, str] = {}
        self._notes, self._catch_up, self._gone = notes, catch_up, gone
        self._due: dict[str, FileFacts] = {}
        self._seen: dict[str, FileFacts] = {}  # as they were when they were mirrored, or left out, last
        self._elsewhere: set[str] = set()  # whose mirrors another process has open
        self._events = FolderEvents()
        self._ask_again = 0.0  # when the system may be asked to tell of changes
        self._busy: set[str] = set()  # being mirrored
        self._wanted = asyncio.Event()
        self._ended = False
        self._saving = asyncio.Lock()
        self._saved: dict[str, FileFacts] = {}
        self._saved_at = 0.0

    @property
    def method(self) -> Literal["notifications", "polling"]:
        """How changes are noticed."""
        return "notifications" if self._events.folders else "polling"

    @property
    def pending(self) -> int | None:
        """Files that are yet to be looked at; None before it is known which there are."""
        return len(self._due.keys() | self._busy) if self.started.is_set() else None

    async def run(self) -> None:
        """Follow it until cancelled."""
        self.mirrored = await asyncio.to_thread(self._notes.read)
        self._seen, self._saved = dict(self.mirrored), dict(self.mirrored)
        mirroring = [asyncio.create_task(self._mirror()) for _ in range(AT_ONCE)]
        try:
            await self._look_on()
        finally:
            self._ended = True
            self._events.close()
            for task in mirroring:
                task.cancel()
            await asyncio.wait(mirroring)

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        scanned = least = next_scan = rest = 0.0
        while True:
            begun = loop.time()
            if begun >= next_scan:
                again, work = await self._scan()
                self.started.set()
                least = SCAN_SHARE * (loop.time() - begun)
                rest = min(LONGEST_SECONDS, IDLE_SHARE * work)
                if again:
                    continue
                scanned = loop.time()
                next_scan = scanned + max(TOLD_SCAN_SECONDS, least, rest)
            elif self._events.folders:
                found, others = await asyncio.to_thread(self._changed, self._events.taken())
                self._take(found)
                if others:
                    next_scan = scanned + least
            else:
                self._take(await asyncio.to_thread(self._active))
            if self._elsewhere or not self._events.folders:
                next_scan = min(next_scan, scanned + max(SCAN_SECONDS, least))
            if self._events.folders:
                # Not `wait_for`: before Python 3.12 it swallows a cancellation that comes together with news.
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(next_scan):
                        await self._events.news.wait()
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def _scan(self) -> tuple[bool, float]:
        """Look at the whole folder; says whether to look again, as changes are told from now on, and what it took in seconds
        of the processor."""
        found, work = await asyncio.to_thread(_looked, self.kind, self.folder)
        while self._elsewhere:
            self._seen.pop(self._elsewhere.pop(), None)
        self._take(found.files)
        self.problems = found.problems
        known = {**self.mirrored, **self.files}
        for path in known.keys() - found.files.keys():
            if path.startswith(tuple(f"{database}{os.sep}" for database in found.unread)):
                found.files[path] = known[path]
        self.files = found.files
        for path in known.keys() - found.files.keys():
            for noted in (self.mirrored, self._seen, self._due, self.failures):
                noted.pop(path, None)
            self._gone(path)
        now = time.monotonic()
        if found.folders == self._events.folders or now < self._ask_again:
            return False, work
        told = await asyncio.to_thread(self._events.follow, found.folders)
        self._ask_again = now if told else now + RETRY_SECONDS
        return told, work

    def _changed(self, paths: set[str]) -> tuple[dict[str, FileFacts], bool]:
        """Files of which a change was told, as they are now; and whether there is more, that only a look at the whole
        folder can tell. Blocking."""
        found: dict[str, FileFacts] = {}
        others = False
        for path in paths:
            facts = facts_of(path) if path in self.files else None
            if facts is not None:
                found[path] = facts
            elif path in self.files or may_be_session(self.kind, path):
                others = True
        return found, others

    def _active(self) -> dict[str, FileFacts]:
        """The files that were changed a short time ago, as they are now. Blocking."""
        since = time.time_ns() - int(ACTIVE_SECONDS * 1e9)
        recent = [(facts.changed, path) for path, facts in self.files.items() if facts.changed > since]
        now = ((path, facts_of(path)) for _, path in sorted(recent, reverse=True)[:MAX_ACTIVE])
        return {path: facts for path, facts in now if facts is not None}

    def _take(self, found: dict[str, FileFacts]) -> None:
        for path, facts in found.items():
            known = self._due.get(path) or self._seen.get(path)
            if facts != known:
                self._due[path] = facts
                self._wanted.set()
        self.files.update(found)

    async def _mirror(self) -> None:
        while not self._ended:  # a change of a log that has begun puts a cancellation aside
            path = max(self._due.keys() - self._busy, key=lambda path: self._due[path].changed, default=None)
            if path is None:
                self._wanted.clear()
                if not self._busy:
                    await self._save()
                await self._wanted.wait()
                continue
            facts = self._seen[path] = self._due.pop(path)
            self._busy.add(path)
            try:
                if await self._catch_up(path):
                    self.mirrored[path] = facts
                self.failures.pop(path, None)
            except SessionLockedError:  # another process follows it, and may end
                self._elsewhere.add(path)
                self._events.news.set()
            except Exception as error:
                if path not in self.failures:
                    _logger.info("%s is not mirrored: %s", path, error)
                self.failures[path] = str(error)
            finally:
                self._busy.discard(path)
                self._wanted.set()
            if time.monotonic() - self._saved_at > SAVE_SECONDS:
                await self._save()

    async def _save(self) -> None:
        """Keep what is mirrored; without it the next start reads all files once more."""
        async with self._saving:
            self._saved_at, mirrored = time.monotonic(), dict(self.mirrored)
            if mirrored != self._saved:
                with suppress(OSError):
                    await asyncio.to_thread(self._notes.write, mirrored)
                    self._saved = mirrored


def _looked(kind: str, folder: Path) -> tuple[FoundFiles, float]:
    """Look at a folder; returns the seconds of the processor that this took, too. Blocking."""
    begun = time.thread_time()
    return look(kind, folder), time.thread_time() - begun
