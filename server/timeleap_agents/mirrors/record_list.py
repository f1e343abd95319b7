"""The records that a mirror is made of: messages, checkpoints, and marks of how far the program's file was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap import clock
from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.sessions.documents.companion_forms import marks_of
from timeleap.sessions.past import first_words, preview_of, read_checkpoint
from timeleap.sessions.shapes import NOTHING_KEPT, Checkpoint, set_members
from timeleap.storage.log_values import LogState, NewRecord, RecordKind
from timeleap.storage.reader import LogReader
from timeleap.storage.record import checkpoint_record, opaque_record
from timeleap_agents.mirrors.formats.conversion import RecordWriter

MARK_ROLE: Final = "_mirror"
ENTRIES_AT_ONCE: Final = 1000


class PendingSnapshot(Struct, frozen=True):
    """A snapshot that belongs to the next checkpoint, if that is of a prompt `not_before` this time (ISO-8601 UTC)."""

    files: Json
    not_before: str


class FormerCheckpoints:
    """Checkpoints of prompts that a log is about to lose, and that get them back where it says these prompts again."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str | None, str | None], Checkpoint] = {}

    def note(self, log: LogReader, start: int) -> None:
        """Take in the checkpoints from a line on. Blocking."""
        self._made = {}
        for first in range(start, log.state.lines, ENTRIES_AT_ONCE):
            for entry in log.entries(first, first + ENTRIES_AT_ONCE):
                if entry.kind is RecordKind.CHECKPOINT:
                    made = read_checkpoint(log, entry.line)
                    self._made[made.id, made.label, made.created_at] = made

    def take(self, number: int, label: str | None, created_at: str) -> Checkpoint | None:
        """The checkpoint that the prompt had, where it keeps its number."""
        return self._made.pop((number, label, created_at), None)


class RecordList(RecordWriter):
    """Records for the end of a log at `state`, with the checkpoints that are among them."""

    def __init__(self, left_out: LossTally, state: LogState, former: FormerCheckpoints | None = None) -> None:
        super().__init__(left_out)
        self.records: list[NewRecord] = []
        self.made: list[Checkpoint] = []
        self._state = state
        self._former = former or FormerCheckpoints()
        self._checkpoints = state.next_checkpoint_id

    def checkpoint(self, message: Mapping[str, Any], time: str | None, words: str | None = None) -> None:
        number = self._checkpoints
        label = first_words(message if words is None else {"content": words})
        created_at, at = time or clock.now_iso(), self._state.messages + self.messages
        former = self._former.take(number, label, created_at)
        uid = f"c{number}-{clock.new_uid(12)}" if former is None else former.uid
        kept = NOTHING_KEPT if former is None else former.kept
        self._add(checkpoint_record(number, set_members(u=uid, l=label, t=created_at, **marks_of(kept))))
        preview, tokens = preview_of(message), self._state.token_count
        self.made.append(Checkpoint(number, uid, label, created_at, at, tokens, preview, kept))
        self._checkpoints += 1

    def mark(self, steps: int, key: str, **more: Any) -> None:
        """Say which step of the conversation stands before."""
        self._add(_mark(steps, key, **more))

    def mark_before(self, number: int, steps: int, key: str, chain: str) -> None:
        """Say it before the record `number`."""
        self.records.insert(number, _mark(steps, key, chain=chain))
        self.lines += 1

    def take_snapshot(self, waiting: PendingSnapshot) -> bool:
        """Give the snapshot to the first checkpoint that it can belong to; says whether there is one."""
        for number, made in enumerate(self.made):
            if (made.created_at or "") >= waiting.not_before:
                places = [place for place, record in enumerate(self.records) if record.kind is RecordKind.CHECKPOINT]
                kept = {"files": waiting.files}
                marks = set_members(u=made.uid, l=made.label, t=made.created_at, **marks_of(kept))
                self.records[places[number]] = checkpoint_record(made.id, marks)
                self.made[number] = replace(made, kept=kept)
                return True
        return False

    def _add(self, record: NewRecord) -> None:
        self.records.append(record)
        self.lines += 1


def _mark(steps: int, key: str, **more: Any) -> NewRecord:
    return opaque_record({"role": MARK_ROLE, "content": "", "steps": steps, "key": key, **more})
