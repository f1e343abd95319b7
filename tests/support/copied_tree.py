"""The files of a workspace, kept as plain copies: a small `WorkingTree` for tests of what sessions do with one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from timeleap import clock
from timeleap.call import WorkControl
from timeleap.errors import FilesConflictError, SnapshotNotFoundError
from timeleap.features.files.tree_port import TreeSnapshot, TreeTarget
from timeleap.sessions.companion import OnConflict
from timeleap.storage.durable import failpoint

Json = dict[str, Any]
Content = dict[str, bytes]


def content(folder: Path) -> Content:
    """All files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def put(folder: Path, files: Content) -> None:
    """Make these all the files below a folder."""
    for name in content(folder).keys() - files.keys():
        (folder / name).unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _number(snapshot: str) -> int:
    return int(snapshot[1:].partition("-")[0])


class CopiedTree:
    """A folder, and the snapshots of it as folders below another one. Both are on disk: who opens them again goes on."""

    def __init__(self, root: Path, kept: Path) -> None:
        self.root, self.kept = root, kept
        self._intent = kept / "intent.json"
        root.mkdir(exist_ok=True)
        kept.mkdir(exist_ok=True)

    def keep(self) -> str:
        name = f"f{len(list(self.kept.glob('f*'))) + 1}-{'0' * 12}"
        shutil.copytree(self.root, self.kept / name)
        return name

    def snapshot(
        self, control: WorkControl, *, label: str | None = None, checkpoint_uid: str | None = None
    ) -> TreeSnapshot:
        before = self._newest_content()
        name = self.keep()
        changed = sum(before.get(path) != data for path, data in self._newest_content().items())
        return TreeSnapshot(name, clock.now_iso(), changed, (), 0, 0, label, checkpoint_uid)

    def newest(self) -> str | None:
        return max((path.name for path in self.kept.glob("f*")), key=_number, default=None)

    def over_budget(self) -> None:
        """Nothing is ever too much."""

    def state(self) -> Json:
        return {"snapshots": len(list(self.kept.glob("f*"))), "bytes": 0}

    def _newest_content(self) -> Content:
        name = self.newest()
        return content(self.kept / name) if name is not None else {}

    def foretell(self, target: TreeTarget, on_conflict: OnConflict, log_changed_at: int, control: WorkControl) -> Json:
        return {"files": self._plan(target.snapshot, "overwrite", log_changed_at)[1]}

    def begin_restore(
        self, target: TreeTarget, on_conflict: OnConflict, token: str, log_changed_at: int, control: WorkControl
    ) -> Pending:
        assert not self._intent.exists(), "an earlier restore is not settled"
        files, counts = self._plan(target.snapshot, on_conflict, log_changed_at)
        before = self.keep()
        self._intent.write_text(json.dumps({"token": token, "before": before}))
        failpoint("files.written")
        put(self.root, files)
        if control.cancelled():
            self._put_back(before)
            raise InterruptedError
        after = self.keep()
        result = {"files": {"before": before, "after": after, **counts}}
        return Pending(before, result, [{"paths": sorted(files)}], self._intent.unlink, lambda: self._put_back(before))

    def recover(self, happened: Callable[[str], bool]) -> list[Json]:
        if self._intent.exists():
            intent = json.loads(self._intent.read_text())
            if happened(intent["token"]):
                self._intent.unlink()
            else:
                self._put_back(intent["before"])
        return []

    def _put_back(self, before: str) -> None:
        put(self.root, content(self.kept / before))
        # What is there now is not what the snapshot after it says: else it would look like somebody else's change.
        shutil.rmtree(self.kept / f"f{_number(before) + 1}-{'0' * 12}", ignore_errors=True)
        self._intent.unlink()

    def _plan(self, target: str, on_conflict: OnConflict, log_changed_at: int) -> tuple[Content, Json]:
        if not (self.kept / target).is_dir():
            raise SnapshotNotFoundError(f"there is no snapshot {target}")
        now, then, newest = content(self.root), content(self.kept / target), self._newest_content()
        conflicts = [
            name
            for name, data in now.items()
            if data not in (then.get(name), newest.get(name)) and (self.root / name).stat().st_ctime_ns > log_changed_at
        ]
        if conflicts and on_conflict == "refuse":
            raise FilesConflictError("changed by somebody else", paths=conflicts, more=0)
        kept = {name: now[name] for name in conflicts} if on_conflict == "keep" else {}
        return {**then, **kept}, {
            "added": len(then.keys() - now.keys()),
            "modified": sum(now.get(name, data) != data for name, data in then.items()),
            "deleted": len(now.keys() - then.keys() - kept.keys()),
            "kept": len(kept),
            "conflicts": len(conflicts),
        }


class Pending(Struct, frozen=True):
    """A restore that is to be settled."""

    before: str
    result: Json
    events: Sequence[Json]
    commit: Callable[[], None]
    roll_back: Callable[[], None]
