"""A session of Codex as it grows: the lines and items of its import, a message for each.

An import joins what the model says between two other things to one message. Here it is shown as soon as it is written.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Final

from timeleap.errors import InvalidInputError
from timeleap.features.transfer.codex import ItemWriter, LineChange, Rollout, RolloutFacts, change_of, prompt_of
from timeleap.features.transfer.conversion import Json, JsonLine, RecordWriter
from timeleap.features.transfer.formats import LossTally
from timeleap.mirrors.growing_file import LINES_OF_START, MAX_BRANCHES, GrowingFile, ResumableSession, Step, version_of
from timeleap.storage.engine import TimelineReason

TESTED: Final = (0, 169, 0)
"""The newest version of Codex whose files these tests have read."""
TURN_ENDS: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})


class CodexLog(Rollout[int]):
    """The conversation in one file. What goes of it goes from its end, so a step is known by its place in the file: the
    offset of its line, and which item of that line it is. A `Point` is a number of steps.

    Attributes:
        file: The file.
        title: None: the program keeps titles elsewhere.
    """

    writer = "codex"
    tested = TESTED
    title: str | None = None

    def __init__(self, path: Path) -> None:
        self.file = GrowingFile(path)
        super().__init__(self.file.left_out)
        self._steps: list[Step] = []
        self._earlier: list[list[Step]] = []
        self._line = JsonLine(0, 0, None)
        self._item = 0

    @property
    def version(self) -> tuple[int, ...]:
        """Of the program that began the file."""
        return version_of(self.facts.version)

    @property
    def workspace(self) -> str | None:
        """URI of the folder it is about."""
        return self.facts.workspace

    @property
    def session_id(self) -> str:
        """The program's own id of it."""
        return self.facts.session_id or self.file.path.stem

    def read(self) -> None:
        """Take in what was added. Blocking. Raises as `GrowingFile.added`."""
        for line in self.file.added():
            self._take_line(line)

    def read_start(self) -> None:
        """Take in its first lines, as far as its folder is told. Blocking. Raises as `GrowingFile.added`."""
        for line in islice(self.file.added(), LINES_OF_START):
            self._take_line(line)
            if self.workspace is not None:
                return

    def begins_with(self, end: int, fingerprint: str) -> bool:
        """True if its first `end` bytes have this fingerprint. Blocking."""
        return self.file.begins_with(end, fingerprint)

    def steps(self) -> list[Step]:
        """The conversation as it is now; none where nothing is said yet."""
        return list(self._steps) if len(self._steps) > (self._begin or 0) else []

    def earlier(self) -> list[list[Step]]:
        """What it was before it was summed up or taken back, oldest first."""
        return self._earlier

    def write(self, steps: list[Step], log: RecordWriter) -> Iterator[Step]:
        """Write the records of steps; yields each when its records are there. Blocking."""
        items = ItemWriter(log, self.file.left_out)
        for step, change, number in self._changes(steps):
            if number < len(change.items):
                items.take(change.items[number], step.time)
                items.flush()
            elif change.facts is not None and (prompt := prompt_of(change.facts)):
                log.system_prompt(prompt)
            else:
                log.usage(change.tokens)
            yield step

    def open_calls(self, steps: list[Step]) -> set[str]:
        """Ids of tool calls that are made in these steps and not answered. Blocking."""
        calls = [(item, str(item.get("call_id") or item.get("id"))) for item in self._items(steps)]
        made = {call for item, call in calls if str(item.get("type")).endswith("_call")}
        return made - {call for item, call in calls if str(item.get("type")).endswith("_call_output")}

    def continuation(self, steps: list[Step]) -> ResumableSession:
        """A session that begins with these steps, in a file beside this one: a `Point` is reached by all lines before it,
        whatever they took back.

        Raises:
            InvalidInputError: The program does not read this file any more.
        """
        if self.facts.version is None:
            raise InvalidInputError.of("sessionId", "mirrors a file of a form that Codex does not go on in any more")
        session_id = str(uuid.uuid4())
        name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S')}-{session_id}.jsonl"
        records = self._lines_up_to(steps[-1], session_id)
        return ResumableSession(self.file.path.with_name(name), records, ("codex", "resume", session_id))

    def _lines_up_to(self, last: Step, session_id: str) -> Iterator[Json]:
        """Those of the new session up to a step, and what ends its turn. Blocking."""
        behind: list[Json] = []
        facts = RolloutFacts()
        for line in GrowingFile(self.file.path).added():
            change = change_of(line.record or {}, LossTally()) or LineChange()
            record, payload = line.record or {}, (line.record or {}).get("payload")
            if line.offset > last.offset:
                if change.items or change.goes is not None or change.facts is not None:
                    return
                behind.append(record)
                if isinstance(payload, dict) and payload.get("type") in TURN_ENDS:
                    yield from behind
                    return
            elif change.facts is not None and facts.take(change.facts, None):
                yield {**record, "payload": {**change.facts, "id": session_id, "session_id": session_id}}
            elif line.offset == last.offset and (kept := _item_of(last) + 1) < len(change.items):
                yield {**record, "payload": {**record["payload"], "replacement_history": list(change.items[:kept])}}
            elif record:
                yield record

    def _changes(self, steps: list[Step]) -> Iterator[tuple[Step, LineChange, int]]:
        """What the line of each step does, and which item of that the step is; each line is read once. Blocking."""
        lines = [list(line) for _, line in groupby(steps, key=lambda step: step.offset)]
        for line, (_, record) in zip(lines, self.file.records([line[0] for line in lines]), strict=True):
            change = change_of(record, LossTally()) or LineChange()
            for step in line:
                yield step, change, _item_of(step)

    def _items(self, steps: list[Step]) -> Iterator[Json]:
        for _, change, number in self._changes(steps):
            yield from change.items[number : number + 1]

    def _take_line(self, line: JsonLine) -> None:
        if line.record is not None:
            self._line, self._item = line, 0
            self.take(line.record)

    def _here(self) -> int:
        return len(self._steps)

    def _add_prompt(self, prompt: str | None) -> None:
        if prompt is not None:
            self._add_step()

    def _add_item(self, item: Json) -> None:
        del item
        self._add_step()

    def _add_tokens(self, tokens: object) -> None:
        if tokens is not None:
            self._add_step()

    def _add_step(self) -> None:
        self._steps.append(Step(f"{self._line.offset}.{self._item}", self._line.offset, self._line.length, self._time))
        self._item += 1

    def _go_back(self, reason: TimelineReason, point: int | None) -> None:
        del reason
        self._earlier = [*self._earlier, list(self._steps)][-MAX_BRANCHES:]
        del self._steps[point or 0 :]


def _item_of(step: Step) -> int:
    """Which item of its line a step is."""
    return int(step.key.partition(".")[2])
