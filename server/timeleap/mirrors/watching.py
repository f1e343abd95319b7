"""Following one folder of an agent's program: each file that changes is mirrored, newest first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from timeleap.errors import SessionLockedError
from timeleap.mirrors.folders import FileFacts, FolderNotes, facts_of, look

POLL_SECONDS: Final = 0.1
"""Between looks at files that were changed a short time ago."""
SCAN_SECONDS: Final = 1.0
"""Between looks at the whole folder."""
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
        self.method: Literal["notifications", "polling"] = "polling"
        self.files: dict[str, FileFacts] = {}
        self.mirrored: dict[str, FileFacts] = {}
        self.problems: list[str] = []
        self.failures: dict[str, str] = {}
        self._notes, self._catch_up, self._gone = notes, catch_up, gone
        self._due: dict[str, FileFacts] = {}
        self._seen: dict[str, FileFacts] = {}  # as they were when they were mirrored, or left out, last
        self._elsewhere: set[str] = set()  # whose mirrors another process has open
        self._wanted = asyncio.Event()
        self._saved_at = 0.0

    async def run(self) -> None:
        """Follow it until cancelled."""
        self.mirrored = await asyncio.to_thread(self._notes.read)
        self._seen = dict(self.mirrored)
        mirroring = asyncio.create_task(self._mirror())
        try:
            await self._look_on()
        finally:
            mirroring.cancel()
            await asyncio.wait([mirroring])

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        next_scan = 0.0
        while True:
            if loop.time() >= next_scan:
                found = await asyncio.to_thread(look, self.kind, self.folder)
                while self._elsewhere:
                    self._seen.pop(self._elsewhere.pop(), None)
                self._take(found.files)
                self.problems = found.problems
                for path in self.files.keys() - found.files.keys():
                    for known in (self.mirrored, self._seen, self._due, self.failures):
                        known.pop(path, None)
                    self._gone(path)
                self.files = found.files
                next_scan = loop.time() + max(SCAN_SECONDS, len(found.files) / 5000)
            else:
                self._take(await asyncio.to_thread(self._active))
            await asyncio.sleep(POLL_SECONDS)

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
        while True:
            while not self._due:
                self._wanted.clear()
                await self._save()
                await self._wanted.wait()
            path = max(self._due, key=lambda path: self._due[path].changed)
            facts = self._seen[path] = self._due.pop(path)
            try:
                if await self._catch_up(path):
                    self.mirrored[path] = facts
                self.failures.pop(path, None)
            except SessionLockedError:  # another process follows it, and may end
                self._elsewhere.add(path)
            except Exception as error:
                if path not in self.failures:
                    _logger.info("%s is not mirrored: %s", path, error)
                self.failures[path] = str(error)
            if time.monotonic() - self._saved_at > SAVE_SECONDS:
                await self._save()

    async def _save(self) -> None:
        """Keep what is mirrored; without it the next start reads all files once more."""
        self._saved_at = time.monotonic()
        with suppress(OSError):
            await asyncio.to_thread(self._notes.write, dict(self.mirrored))
