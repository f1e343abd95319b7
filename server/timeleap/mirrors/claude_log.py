"""A session of Claude Code as it grows: the same nodes, tree and records as its import, a message for each line.

An import joins the lines of one answer to one message. Here a line is shown as soon as it is written, so each is a message.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from timeleap.mirrors.formats.claude_code import EntrySurvey, EntryWriter, Node, Tree, node_of
from timeleap.mirrors.formats.conversion import Json, JsonLine, RecordWriter
from timeleap.mirrors.growing_file import MAX_BRANCHES, Conversation, ResumableSession, Step, version_of

TESTED: Final = (2, 1, 330)
"""The newest version of Claude Code whose files these tests have read."""
TITLES: Final = frozenset({"custom-title", "ai-title", "summary"})


class ClaudeLog(Conversation):
    """The conversation in one file."""

    writer = "claude-code"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._survey = EntrySurvey(self.file.left_out)
        self._main: list[Node] = []
        self._last: str | None = None  # the node that the next one follows if nobody went back
        self._added: list[Node] = []  # by the reading that goes on
        self._tree: Tree | None = None
        self._straight = False

    def read(self) -> None:
        self._straight, self._added = bool(self._main), []
        super().read()
        if self._straight:
            self._main += [node for node in self._added if node.speaks]
        elif self._added or self._tree is None:
            self._tree = Tree(self._survey.main_nodes())
            self._main = self._tree.main()

    def _take(self, line: JsonLine, record: Json) -> None:
        survey = self._survey
        survey.take(record)
        self.title, self.workspace, self._id = survey.title, survey.workspace, survey.session_id
        self.version = max(self.version, version_of(record.get("version")))
        node = node_of(line, survey.number)
        if node is None:
            return
        survey.nodes.append(node)
        if node.sidechain:
            return
        self._straight = self._straight and node.parent is not None and node.parent == self._last
        self._last = node.uuid
        self._added.append(node)

    def steps(self) -> list[Step]:
        return list(map(_step, self._main))

    def earlier(self) -> list[list[Step]]:
        found = list(islice(self._tree.others(), MAX_BRANCHES)) if self._tree is not None else []
        return [list(map(_step, nodes)) for nodes, _ in sorted(found, key=lambda branch: branch[0][-1].order)]

    def open_calls(self, steps: list[Step]) -> set[str]:
        nodes = self._by_uuid()
        made = {call for step in steps for call in nodes[step.key].calls}
        return made - {call for step in steps for call in nodes[step.key].results}

    def continuation(self, steps: list[Step]) -> ResumableSession:
        session_id = str(uuid.uuid4())
        records = ({**record, "sessionId": session_id} for record in self._branch(steps))
        path = self.file.path.with_name(f"{session_id}.jsonl")
        return ResumableSession(path, records, ("claude", "--resume", session_id))

    def _branch(self, steps: list[Step]) -> Iterator[Json]:
        """The records that steps stand on, in the file's order: they themselves, those between them, and titles. Blocking."""
        nodes, kept = self._by_uuid(), set[str]()
        for step in steps:
            key: str | None = step.key
            while key is not None and key not in kept and key in nodes:
                kept.add(key)
                key = nodes[key].parent
        whole = ClaudeLog(self.file.path)
        for line in whole.file.added():
            record = line.record or {}
            if record.get("uuid") in kept or record.get("type") in TITLES:
                yield record

    def _by_uuid(self) -> dict[str, Node]:
        return {node.uuid: node for node in reversed(self._survey.nodes)}

    def write(self, steps: list[Step], log: RecordWriter) -> Iterator[Step]:
        writer = EntryWriter(log, self.file.left_out)
        for step, record in self.file.records(steps):
            writer.take(record, step.time)
            writer.flush()
            yield step


def _step(node: Node) -> Step:
    return Step(node.uuid, node.offset, node.length, node.time)
