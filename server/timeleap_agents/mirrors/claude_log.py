"""A session of Claude Code as it grows: one reader for mirrors, imports, and what is gone on with.

Each record of the conversation is a message of its own, so that a line is shown as soon as it is written.
"""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap_agents.mirrors import claude_files
from timeleap_agents.mirrors.formats.claude_chain import Chain, QueuedPrompt
from timeleap_agents.mirrors.formats.claude_code import TITLES, EntrySurvey, EntryWriter, node_of
from timeleap_agents.mirrors.formats.claude_nodes import ClaudeStep, Node
from timeleap_agents.mirrors.formats.conversion import JsonLine, JsonLines, RecordWriter, opened
from timeleap_agents.mirrors.growing_file import MAX_BRANCHES, Conversation, Earlier, ResumableSession, version_of
from timeleap_agents.mirrors.steps import Step, Steps

TESTED: Final = (2, 1, 330)
"""The newest version of Claude Code whose files these tests have read."""


class ClaudeLog(Conversation):
    """The conversation in one file."""

    writer = "claude-code"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._survey = EntrySurvey(self.file.left_out)
        self._nodes = self._survey.nodes
        self._codes = array("i")  # of the records of the conversation
        self._said = array("i")  # of those that are messages
        self._chain: Chain | None = None
        self._tail = 0  # the number of the id of the last record that the conversation leads through
        self._answer = 0  # of the answer that it ends with
        self._waiting: set[int] = set()  # calls of that answer which have no result yet
        self._adjacent = False  # the last message is of an answer
        self._queued: list[QueuedPrompt] = []
        self._straight = False

    def read(self) -> None:
        self._straight = self._tail > 0
        super().read()
        if self._survey.queued() != self._queued:
            self._straight = False
        if not self._straight:
            self._link()
        self._count()

    def _take(self, line: JsonLine, record: Json) -> None:
        survey, nodes = self._survey, self._nodes
        before, ids, answers = survey.leaf, len(nodes.ids), len(nodes.answer_ids)
        node = survey.take(line, record)
        self.version = max(self.version, version_of(record.get("version")))
        self.title, self.first_prompt = survey.title, survey.first_prompt
        self.workspace, self.began_in, self._id = survey.workspace, survey.began_in, survey.session_id
        self.created_at, self.updated_at = survey.created_at, survey.updated_at
        if survey.leaf is not before:
            self._straight = False
        if node is None:
            return
        earlier, row = survey.repeated(node), len(nodes) - 1
        if earlier is not None:
            former = self.file.peek(nodes.offset[earlier], nodes.length[earlier])
            if all(former.get(name) == record.get(name) for name in ("message", "attachment", "content")):
                survey.forget(node, earlier)  # a session that was resumed repeats records
                return
            if not _texts(record).startswith(_texts(former)):
                nodes.mark_rewriting(row)
        is_new, begins_answer = nodes.uuid[row] > ids, nodes.answer[row] > answers
        self._straight = self._straight and self._follows(node, row, is_new=is_new, begins_answer=begins_answer)

    def _follows(self, node: Node, row: int, *, is_new: bool, begins_answer: bool) -> bool:
        """Take in a record that goes on where the conversation ends; says whether it is one.

        Args:
            node: The record.
            row: Of it.
            is_new: No record before it has named its id.
            begins_answer: None before it has named the id of its answer.
        """
        if node.sidechain and not self._survey.of_subagent:
            return True
        if self._nodes.parent[row] != self._tail or not is_new or node.boundary or self._survey.leaf is not None:
            return False
        if node.speaks:
            if node.kind == "answer":
                goes_on = node.answer is None or begins_answer or self._nodes.answer[row] == self._answer
            elif node.kind == "result":
                goes_on = bool(node.results) and set(self._nodes.results.of(row)) <= self._waiting
            else:
                goes_on = not node.results
            if not goes_on:
                return False
            self._end_with(row)
            self._said.append(row)
        self._tail = self._nodes.uuid[row]
        self._codes.append(row)
        return True

    def _end_with(self, row: int) -> None:
        """Know what the conversation ends with."""
        nodes = self._nodes
        if nodes.kind(row) == "answer":
            if not self._adjacent:
                self._waiting = set()
            self._answer = nodes.answer[row]
            self._waiting.update(nodes.calls.of(row))
            self._adjacent = True
        else:
            self._waiting.difference_update(nodes.results.of(row))
            self._answer, self._adjacent = 0, False

    def _link(self) -> None:
        survey = self._survey
        self._queued = survey.queued()
        self._chain = chain = Chain(self._nodes, survey.main_rows(), self._queued, survey.leaf)
        self._codes = chain.main()
        self._said = self._spoken(self._codes)
        self._answer, self._waiting, self._adjacent, self._tail = 0, set(), False, chain.tail
        for code in self._said:
            self._end_with(self._nodes.row_of(code))

    def _spoken(self, codes: array[int]) -> array[int]:
        """Leave out of some records those that are no messages."""
        return array("i", (code for code in codes if self._nodes.speaks(self._nodes.row_of(code))))

    def _count(self) -> None:
        """Say what is in no conversation."""
        losses = self.file.left_out
        losses.put("sidechains", "messages of sub-agents stand in sidechains", self._survey.aside())
        losses.put("queue", "prompts were typed while the program worked, and not heard yet", self._survey.unheard())
        losses.put("queue", "prompts were taken back before they were heard", self._survey.withdrawn)
        if self._chain is not None:
            lost = self._chain.orphans + self._chain.homeless
            losses.put("results", "results go with no call of the conversation", lost)

    def steps(self) -> Steps:
        return Steps(self._nodes, self._said[:])

    def earlier(self, since: int = 0) -> list[Earlier]:
        if self._chain is None or (since and self._straight):
            return []
        now = self.steps()
        found: list[tuple[int, Earlier]] = []
        for branch in islice(self._chain.others(since), MAX_BRANCHES):
            steps = Steps(self._nodes, self._spoken(branch.codes))
            known = steps == now[: len(steps)] or any(steps == each.steps[: len(steps)] for _, each in found)
            if len(steps) and not known:
                last = max(self._nodes.offset[self._nodes.row_of(code)] for code in steps.places)
                found.append((last, Earlier(steps, "compact" if branch.compacted else "import")))
        if left := self._chain.unread():
            self.file.left_out.put("branches", "older branches of the conversation", left)
        return [each for _, each in sorted(found, key=itemgetter(0))]

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        """Return the open calls of the answer that these steps end with: the program itself drops a call that it went
        on without."""
        nodes = self._nodes
        waiting: dict[int, int] = {}  # by call: the row of the record that makes it
        for code in self._places_of(steps):
            row = nodes.row_of(code)
            if nodes.kind(row) == "answer":
                waiting |= dict.fromkeys(nodes.calls.of(row), row)
            elif nodes.kind(row) == "result":
                for call in nodes.results.of(row):
                    waiting.pop(call, None)
            else:
                waiting = {}
        names: set[str] = set()
        for row in set(waiting.values()):
            offset, length = nodes.offset[row], nodes.length[row]
            node = node_of(JsonLine(offset, length, self.file.peek(offset, length)), 0)
            calls = () if node is None else node.calls
            names |= {name for name in calls if nodes.call_ids.find(name) in waiting}
        return names

    def _places_of(self, steps: Sequence[Step]) -> Iterable[int]:
        """The codes of some steps of the conversation."""
        if isinstance(steps, Steps) and steps.source is self._nodes:
            return steps.places
        keys = {step.key for step in steps}
        return (code for code, step in zip(self._said, self.steps(), strict=True) if step.key in keys)

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        session_id = str(uuid.uuid4())
        above = claude_files.session_above(self.file.path)
        path = (above or self.file.path).with_name(f"{session_id}.jsonl")  # the program finds it nowhere deeper
        healed: list[str] = []
        kept = self._up_to(steps[-1])
        if self._chain is not None and self._chain.orphans:
            healed.append(f"{self._chain.orphans} results of calls that are not in the conversation are left out")
        if (moved := self._moved(kept)) > 0:
            healed.append(f"{moved} records stand behind others now, calls before their results")
        return ResumableSession(
            path, self._written(kept, session_id), ("claude", "--resume", session_id), tuple(healed)
        )

    def _up_to(self, last: Step) -> array[int]:
        """The records of the conversation up to a step, notes between them included."""
        for number, code in enumerate(self._codes, 1):
            if self._nodes.offset[self._nodes.row_of(code)] == last.offset:
                return self._codes[:number]
        return self._codes

    def _moved(self, codes: array[int]) -> int:
        """Number of records that the file has in another order than the conversation."""
        moved, highest = 0, -1
        for code in codes:
            offset = self._nodes.offset[self._nodes.row_of(code)]
            moved += offset < highest
            highest = max(highest, offset)
        return moved

    def _written(self, codes: array[int], session_id: str) -> Iterator[Json]:
        """The records of a new session: titles, then these, each behind the one before it. Blocking."""
        for line in ClaudeLog(self.file.path).file.added():
            record = line.record or {}
            if record.get("type") in TITLES:
                yield {**record, "sessionId": session_id}
        parent: str | None = None
        file = opened(self.file.path)
        try:
            lines = JsonLines(file, LossTally())
            for code in codes:
                row = self._nodes.row_of(code)
                record = lines.at(self._nodes.offset[row], self._nodes.length[row])
                if not record:
                    continue
                made = _in_chain(record, self._nodes.left_of(code))
                made |= {"parentUuid": parent, "sessionId": session_id, "uuid": made.get("uuid") or str(uuid.uuid4())}
                parent = made["uuid"]
                yield made
        finally:
            file.close()

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        writer = EntryWriter(log, self.file.left_out)
        for step, record in self.file.records(steps):
            writer.take(record, step.time, step.left if isinstance(step, ClaudeStep) else frozenset())
            yield step


def _texts(record: Json) -> str:
    """All that a record says, for comparing."""
    return "\n".join(_strings(record.get("message") or record.get("attachment")))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in ("usage", "id", "model", "stop_reason", "type", "role"):
                yield from _strings(each)


def _in_chain(record: Json, left: frozenset[str]) -> Json:
    """A record as one of a plain chain."""
    made = {name: value for name, value in record.items() if name != "agentId"}
    if "isSidechain" in record:
        made["isSidechain"] = False  # the program sends nothing of sub-agents
    if record.get("type") == "queue-operation":
        blocks = record.get("content")
        return {
            "type": "user", "isSidechain": False, "message": {"role": "user", "content": blocks},
            **{name: record[name] for name in ("timestamp", "cwd", "version") if name in record},
        }  # fmt: skip
    if isinstance(facts := record.get("compactMetadata"), dict):
        moves = ("preservedMessages", "preservedSegment")
        made["compactMetadata"] = {name: value for name, value in facts.items() if name not in moves}
    message = record.get("message")
    if left and isinstance(message, dict) and isinstance(message.get("content"), list):
        kept = [each for each in message["content"] if not _is_left(each, left)]
        made["message"] = {**message, "content": kept}
    return made


def _is_left(block: Any, left: frozenset[str]) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result" and block.get("tool_use_id") in left
