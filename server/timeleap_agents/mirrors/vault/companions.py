"""Files beside the one that is mirrored, which its program needs to go on in a session: its state, logs that were set aside,
pictures, and the other files of a Codex thread. Each has generations of its own, in a row of numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from timeleap.storage.durable import FileStatus, status
from timeleap_agents.mirrors.folders import AGENTS
from timeleap_agents.mirrors.packed_files import unpacked_path
from timeleap_agents.mirrors.vault.kept_file import KeptFile
from timeleap_agents.mirrors.vault.notes import ROWS, Generation, read_all, row_of

KIMI: Final = ("state.json", "metadata.json", "meta.json", "wire.jsonl")
"""Names of files that kimi-cli keeps beside a log, in one form of its folders or another."""
ASIDE: Final = "context_*.jsonl"


def companions_of(kind: str, path: Path, others: Collection[Path] = ()) -> list[Path]:
    """The files beside the one at `path` that a program needs with it. `others`: further files that the session was read
    from. Blocking."""
    found = [other for other in others if other != path]
    if kind == "kimi":
        found += [*(path.with_name(name) for name in KIMI), *_in(path.parent, ASIDE)]
    elif kind == "kimi-code" and path.parent.parent.name == AGENTS:
        found += [path.parents[2] / "state.json", *_in(path.parent / "blobs", "*")]
    elif kind == "claude-code":
        found += _in(path.with_suffix("") / "tool-results", "*")
    return found


def _in(folder: Path, pattern: str) -> list[Path]:
    with suppress(OSError):
        return sorted(islice(folder.glob(pattern), ROWS))
    return []


class Companions:
    """The files beside one, as they are kept in the directory of its mirror. All methods block.

    Args:
        directory: Of the mirror.
        durable: As of `KeptFile`.
    """

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self._directory, self._durable = directory, durable
        self._rows: dict[str, KeptFile] | None = None  # by the name of the file
        self._seen: dict[Path, FileStatus] = {}  # as they were when they were kept last

    def keep(self, paths: Collection[Path]) -> bool:
        """Keep what these files say by now; says whether something waits to be compressed. Raises as `KeptFile.keep`."""
        waits = False
        for path in paths:
            there = status(path)
            if there is None or there == self._seen.get(path):
                continue
            kept = self._row_for(unpacked_path(path).name)
            # What a redaction took out would come back with a file that was written anew.
            if kept is not None and not kept.brings_back(path):
                waits = kept.keep(path) or waits
            self._seen[path] = there
        return waits

    def end(self) -> bool:
        """End all of them; says whether something waits to be compressed."""
        self._seen = {}
        ended = [kept.end("gone") for kept in self._known().values()]
        return any(ended)

    def pack(self, stopped: Callable[[], bool]) -> None:
        """Compress what has ended. Raises as `KeptFile.pack`."""
        for kept in list(self._known().values()):
            kept.pack(stopped)

    def _known(self) -> dict[str, KeptFile]:
        if self._rows is None:
            self._rows = {}
            for each in newest(self._directory):
                row = row_of(each.number)
                self._rows[Path(each.path).name] = KeptFile(self._directory, durable=self._durable, row=row)
        return self._rows

    def _row_for(self, name: str) -> KeptFile | None:
        """The generations of a file; None where there are no numbers left for it."""
        known = self._known()
        if name not in known:
            row = 1 + max((kept.row for kept in known.values()), default=0)
            if row >= ROWS:
                return None
            known[name] = KeptFile(self._directory, durable=self._durable, row=row)
        return known[name]


def newest(directory: Path) -> list[Generation]:
    """The newest generation of each file beside the mirrored one. Blocking."""
    last = {row_of(each.number): each for each in read_all(directory)}
    return [each for row, each in last.items() if row and each.path]
