"""A session of Codex as it grows: the lines and items of its import, a message for each.

An import joins what the model says between two other things to one message. Here it is shown as soon as it is written.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from timeleap.errors import InvalidInputError
from timeleap.mirrors.formats.codex import ItemWriter, LineChange, Rollout, RolloutFacts, change_of, prompt_of
from timeleap.mirrors.formats.conversion import Json, JsonLine, LossTally, RecordWriter
from timeleap.mirrors.growing_file import (
    MAX_BRANCHES,
    Conversation,
    Earlier,
    GrowingFile,
    ResumableSession,
    Step,
    version_of,
)
from timeleap.storage.engine import TimelineReason

TESTED: Final = (0, 169, 0)
"""The newest version of Codex whose files these tests have read."""
TURN_ENDS: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})


class CodexLog(Conversation):
    """The conversation in one file. What goes of it goes from its end, so a step is known by its place in the file: the
    offset of its line, and which item of that line it is. The program keeps titles elsewhere."""

    writer = "codex"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._rollout = _RolloutSteps(self.file.left_out)

    def _take(self, line: JsonLine, record: Json) -> None:
        self._rollout.take_line(line, record)
        facts = self._rollout.facts
        self.version, self.workspace, self._id = version_of(facts.version), facts.workspace, facts.session_id

    def steps(self) -> list[Step]:
        return list(self._rollout.made) if self._rollout.spoken else []

    def earlier(self, since: int = 0) -> list[Earlier]:
        found = [steps for steps in self._rollout.earlier if any(step.offset >= since for step in steps)]
        return list(map(Earlier, found))

    def write(self, steps: list[Step], log: RecordWriter) -> Iterator[Step]:
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
        calls = [(item, str(item.get("call_id") or item.get("id"))) for item in self._items(steps)]
        made = {call for item, call in calls if str(item.get("type")).endswith("_call")}
        return made - {call for item, call in calls if str(item.get("type")).endswith("_call_output")}

    def continuation(self, steps: list[Step]) -> ResumableSession:
        # All lines up to the last step, whatever they took back: that is how the program gets there, too.
        if self._rollout.facts.version is None:
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


class _RolloutSteps(Rollout[int]):
    """The steps of a file. A `Point` is a number of steps.

    Attributes:
        made: They, in their order.
        earlier: What they were before they were summed up or taken back, oldest first.
    """

    def __init__(self, left_out: LossTally) -> None:
        super().__init__(left_out)
        self.made: list[Step] = []
        self.earlier: list[list[Step]] = []
        self._line = JsonLine(0, 0, None)
        self._item = 0

    @property
    def spoken(self) -> bool:
        """Some stand behind the system prompt."""
        return len(self.made) > (self._begin or 0)

    def take_line(self, line: JsonLine, record: Json) -> None:
        self._line, self._item = line, 0
        self.take(record)

    def _here(self) -> int:
        return len(self.made)

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
        self.made.append(Step(f"{self._line.offset}.{self._item}", self._line.offset, self._line.length, self._time))
        self._item += 1

    def _go_back(self, reason: TimelineReason, point: int | None) -> None:
        del reason
        self.earlier = [*self.earlier, list(self.made)][-MAX_BRANCHES:]
        del self.made[point or 0 :]


def _item_of(step: Step) -> int:
    """Which item of its line a step is."""
    return int(step.key.partition(".")[2])
