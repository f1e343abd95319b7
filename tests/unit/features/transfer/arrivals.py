"""Importing a file without a store: what it leaves in the directory of the new session."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timeleap.features.transfer.importing import take_in
from timeleap.sessions.transaction import NOBODY

Json = dict[str, Any]


@dataclass(frozen=True)
class Arrived:
    """A session that was imported into `directory`."""

    directory: Path

    def records(self, name: str = "context.jsonl") -> list[Json]:
        """The records of a log, without our marks."""
        lines = (self.directory / name).read_bytes().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k != "_tl"} for line in lines]

    def messages(self, name: str = "context.jsonl") -> list[Json]:
        """The messages of a log."""
        return [one for one in self.records(name) if not one["role"].startswith("_")]

    def marks(self) -> list[Json]:
        """Our marks of the live log's checkpoints."""
        records = (json.loads(line) for line in (self.directory / "context.jsonl").read_bytes().splitlines())
        return [one["_tl"] for one in records if one["role"] == "_checkpoint"]

    @property
    def notes(self) -> Json:
        """Its `timeleap.json`."""
        found: Json = json.loads((self.directory / "timeleap.json").read_text())
        return found

    @property
    def state(self) -> Json:
        """Its `state.json`."""
        found: Json = json.loads((self.directory / "state.json").read_text())
        return found

    @property
    def losses(self) -> dict[str, str]:
        """By kind: what was lost."""
        return {one["kind"]: one["message"] for one in self.notes["importedFrom"]["losses"]}

    @property
    def timelines(self) -> dict[str, str]:
        """By file: why it was set aside."""
        return {f"{name}.jsonl": one["reason"] for name, one in self.notes.get("timelines", {}).items()}


def arrived(folder: Path, *records: Any, name: str | None = None) -> Arrived:
    """Import a file of these lines (texts as they are)."""
    source, directory = folder / "source.jsonl", folder / "session"
    lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    directory.mkdir()
    for done, total in take_in(source, name, directory, NOBODY):
        assert 0 <= done <= total
    return Arrived(directory)
