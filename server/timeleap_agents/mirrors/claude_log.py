"""A session of Claude Code as it grows: one reader for mirrors, imports, and what is gone on with.

Each record of the conversation is a message of its own, so that a line is shown as soon as it is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from timeleap.json_value import Json
from timeleap_agents.mirrors.formats.claude_chain import Chain, ChainEntry, Node
from timeleap_agents.mirrors.formats.claude_code import TITLES, EntrySurvey, EntryWriter
from timeleap_agents.mirrors.formats.conversion import JsonLine, JsonLines, LossTally, RecordWriter, opened
from timeleap_agents.mirrors.growing_file import MAX_BRANCHES, Conversation, Earlier, ResumableSession, Step, version_of

TESTED: Final = (2, 1, 330)
"""The newest version of Claude Code whose files these tests have read."""


class ClaudeStep(Step, frozen=True):
    """Attributes:
    left: Ids of results in it that go with no call of the conversation.
    """

    left: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Tells it, and which of its results are shown."""
        return f"{self.key} {sorted(self.left)}" if self.left else self.key


class ClaudeLog(Conversation):
    """The conversation in one file."""

    writer = "claude-code"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._survey = EntrySurvey(self.file.left_out)
        self._entries: list[ChainEntry] = []
        self._chain: Chain | None = None
        self._tail: str | None = None  # the id of the last record that the conversation leads through
        self._answer: str | None = None  # the id of the answer that it ends with
        self._answers: set[str] = set()
        self._waiting: set[str] = set()  # calls of that answer which have no result yet
        self._adjacent = False  # the last message is of an answer
        self._ids: set[str] = set()
        self._queued: list[Node] = []
        self._straight = False

    def read(self) -> None:
        self._straight = self._tail is not None
        super().read()
        if self._survey.queued() != self._queued:
            self._straight = False
        if not self._straight:
            self._link()
        self._count()

    def _take(self, line: JsonLine, record: Json) -> None:
        survey = self._survey
        before = survey.leaf
        node = survey.take(line, record)
        self.version = max(self.version, version_of(record.get("version")))
        self.title, self.first_prompt = survey.title, survey.first_prompt
        self.workspace, self.began_in, self._id = survey.workspace, survey.began_in, survey.session_id
        self.created_at, self.updated_at = survey.created_at, survey.updated_at
        if survey.leaf is not before:
            self._straight = False
        if node is None:
            return
        earlier = survey.repeated(node)
        if earlier is not None:
            former = self.file.peek(earlier.offset, earlier.length)
            if all(former.get(name) == record.get(name) for name in ("message", "attachment", "content")):
                survey.forget(node, earlier)  # a session that was resumed repeats records
                return
            if not _texts(record).startswith(_texts(former)):
                node = survey.mark_rewriting()
        self._straight = self._straight and self._follows(node)
        self._ids.add(node.uuid)

    def _follows(self, node: Node) -> bool:
        """Take in a record that goes on where the conversation ends; says whether it is one."""
        if node.sidechain and not self._survey.of_subagent:
            return True
        is_next = node.parent == self._tail and node.uuid not in self._ids and not node.boundary and not node.rewrites
        if not is_next or self._survey.leaf is not None:
            return False
        if node.speaks:
            if node.kind == "answer":
                goes_on = node.answer is None or node.answer not in self._answers or node.answer == self._answer
            elif node.kind == "result":
                goes_on = bool(node.results) and set(node.results) <= self._waiting
            else:
                goes_on = not node.results
            if not goes_on:
                return False
            self._end_with(node)
        self._tail = node.uuid
        self._entries.append(ChainEntry(node))
        return True

    def _end_with(self, node: Node) -> None:
        """Know what the conversation ends with."""
        if node.kind == "answer":
            if not self._adjacent:
                self._waiting = set()
            self._answer, self._waiting = node.answer, self._waiting | set(node.calls)
            if node.answer is not None:
                self._answers.add(node.answer)
        else:
            self._waiting = self._waiting - set(node.results)
            self._answer = None
        self._adjacent = node.kind == "answer"

    def _link(self) -> None:
        survey = self._survey
        self._queued = survey.queued()
        self._chain = chain = Chain(survey.main_nodes(), self._queued, survey.leaf)
        self._entries = chain.main()
        self._answer, self._waiting, self._adjacent, self._tail = None, set(), False, chain.tail
        self._answers = {node.answer for node in survey.nodes if node.answer is not None}
        for entry in self._entries:
            if entry.node.speaks:
                self._end_with(entry.node)

    def _count(self) -> None:
        """Say what is in no conversation."""
        losses = self.file.left_out
        losses.put("sidechains", "messages of sub-agents stand in sidechains", self._survey.aside())
        losses.put("queue", "prompts were typed while the program worked, and not heard yet", self._survey.unheard())
        if self._chain is not None:
            losses.put("results", "results go with no call of the conversation", self._chain.orphans)

    def steps(self) -> list[Step]:
        return [_step(entry) for entry in self._entries if entry.node.speaks]

    def earlier(self, since: int = 0) -> list[Earlier]:
        if self._chain is None or (since and self._straight):
            return []
        now = self.steps()
        found: list[Earlier] = []
        for branch in islice(self._chain.others(since), MAX_BRANCHES):
            steps = [_step(entry) for entry in branch.entries if entry.node.speaks]
            known = steps == now[: len(steps)] or any(steps == each.steps[: len(steps)] for each in found)
            if steps and not known:
                found.append(Earlier(steps, "compact" if branch.compacted else "import"))
        if left := self._chain.unread():
            self.file.left_out.put("branches", "older branches of the conversation", left)
        return sorted(found, key=lambda each: max(step.offset for step in each.steps))

    def open_calls(self, steps: list[Step]) -> set[str]:
        """Return the open calls of the answer that these steps end with: the program itself drops a call that it went
        on without."""
        keys = {step.key for step in steps}
        waiting: set[str] = set()
        for entry in self._entries:
            node = entry.node
            if not node.speaks or _key(node) not in keys:
                continue
            if node.kind == "answer":
                waiting |= set(node.calls)
            elif node.kind == "result":
                waiting -= set(node.results)
            else:
                waiting = set()
        return waiting

    def continuation(self, steps: list[Step]) -> ResumableSession:
        session_id = str(uuid.uuid4())
        path = self.file.path.with_name(f"{session_id}.jsonl")
        healed: list[str] = []
        kept = self._up_to(steps[-1])
        if self._chain is not None and self._chain.orphans:
            healed.append(f"{self._chain.orphans} results of calls that are not in the conversation are left out")
        if (moved := _moved(kept)) > 0:
            healed.append(f"{moved} records stand behind others now, calls before their results")
        return ResumableSession(
            path, self._written(kept, session_id), ("claude", "--resume", session_id), tuple(healed)
        )

    def _up_to(self, last: Step) -> list[ChainEntry]:
        """The records of the conversation up to a step, notes between them included."""
        for number, entry in enumerate(self._entries, 1):
            if entry.node.speaks and _key(entry.node) == last.key:
                return self._entries[:number]
        return self._entries

    def _written(self, entries: list[ChainEntry], session_id: str) -> Iterator[Json]:
        """The records of a new session: titles, then these, each behind the one before it. Blocking."""
        for line in ClaudeLog(self.file.path).file.added():
            record = line.record or {}
            if record.get("type") in TITLES:
                yield {**record, "sessionId": session_id}
        parent: str | None = None
        file = opened(self.file.path)
        try:
            lines = JsonLines(file, LossTally())
            for entry in entries:
                record = lines.at(entry.node.offset, entry.node.length)
                if not record:
                    continue
                made = _in_chain(record, entry)
                made |= {"parentUuid": parent, "sessionId": session_id, "uuid": made.get("uuid") or str(uuid.uuid4())}
                parent = made["uuid"]
                yield made
        finally:
            file.close()

    def write(self, steps: list[Step], log: RecordWriter) -> Iterator[Step]:
        writer = EntryWriter(log, self.file.left_out)
        for step, record in self.file.records(steps):
            writer.take(record, step.time, step.left if isinstance(step, ClaudeStep) else frozenset())
            yield step


def _step(entry: ChainEntry) -> Step:
    node = entry.node
    return ClaudeStep(_key(node), node.offset, node.length, node.time, entry.left)


def _key(node: Node) -> str:
    return node.uuid if node.first < 0 else f"{node.uuid}@{node.offset}"


def _moved(entries: list[ChainEntry]) -> int:
    """Number of records that the file has in another order than the conversation."""
    offsets = [entry.node.offset for entry in entries]
    return sum(offset < max(offsets[:number], default=-1) for number, offset in enumerate(offsets))


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


def _in_chain(record: Json, entry: ChainEntry) -> Json:
    """A record as one of a plain chain."""
    made = dict(record)
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
    if entry.left and isinstance(message, dict) and isinstance(message.get("content"), list):
        kept = [each for each in message["content"] if not _is_left(each, entry.left)]
        made["message"] = {**message, "content": kept}
    return made


def _is_left(block: Any, left: frozenset[str]) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result" and block.get("tool_use_id") in left
