"""A session of Claude Code as it grows: the same nodes, tree and records as its import, a message for each line.

An import joins the lines of one answer to one message. Here a line is shown as soon as it is written, so each is a message.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from timeleap.features.transfer.claude_code import EntrySurvey, EntryWriter, Node, Tree, node_of
from timeleap.features.transfer.conversion import Json, RecordWriter
from timeleap.mirrors.growing_file import LINES_OF_START, MAX_BRANCHES, GrowingFile, ResumableSession, Step, version_of

TESTED: Final = (2, 1, 330)
"""The newest version of Claude Code whose files these tests have read."""
TITLES: Final = frozenset({"custom-title", "ai-title", "summary"})


class ClaudeLog:
    """The conversation in one file.

    Attributes:
        file: The file.
        version: The newest version of the program that wrote to it.
    """

    writer = "claude-code"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        self.file = GrowingFile(path)
        self.version: tuple[int, ...] = (0,)
        self._survey = EntrySurvey(self.file.left_out)
        self._main: list[Node] = []
        self._last: str | None = None  # the node that the next one follows if nobody went back
        self._tree: Tree | None = None

    @property
    def title(self) -> str | None:
        """What the program calls the session."""
        return self._survey.title

    @property
    def workspace(self) -> str | None:
        """URI of the folder it is about."""
        return self._survey.workspace

    @property
    def session_id(self) -> str:
        """The program's own id of it."""
        return self._survey.session_id or self.file.path.stem

    def read(self) -> None:
        """Take in what was added. Blocking. Raises as `GrowingFile.added`."""
        straight = bool(self._main)
        added: list[Node] = []
        for line in self.file.added():
            if line.record is None:
                continue
            self._survey.take(line.record)
            self.version = max(self.version, version_of(line.record.get("version")))
            node = node_of(line, self._survey.number)
            if node is None:
                continue
            self._survey.nodes.append(node)
            if node.sidechain:
                continue
            straight = straight and node.parent is not None and node.parent == self._last
            self._last = node.uuid
            added.append(node)
        if straight:
            self._main += [node for node in added if node.speaks]
        elif added or self._tree is None:
            self._tree = Tree(self._survey.main_nodes())
            self._main = self._tree.main()

    def read_start(self) -> None:
        """Take in its first lines, as far as its folder is told. Blocking. Raises as `GrowingFile.added`."""
        for line in islice(self.file.added(), LINES_OF_START):
            self._survey.take(line.record or {})
            if self.workspace is not None:
                return

    def begins_with(self, end: int, fingerprint: str) -> bool:
        """True if its first `end` bytes have this fingerprint. Blocking."""
        return self.file.begins_with(end, fingerprint)

    def steps(self) -> list[Step]:
        """The conversation as it is now."""
        return list(map(_step, self._main))

    def earlier(self) -> list[list[Step]]:
        """Branches that were left, oldest first; to be asked for after the first reading."""
        found = list(islice(self._tree.others(), MAX_BRANCHES)) if self._tree is not None else []
        return [list(map(_step, nodes)) for nodes, _ in sorted(found, key=lambda branch: branch[0][-1].order)]

    def open_calls(self, steps: list[Step]) -> set[str]:
        """Ids of tool calls that are made in these steps and not answered."""
        nodes = self._by_uuid()
        made = {call for step in steps for call in nodes[step.key].calls}
        return made - {call for step in steps for call in nodes[step.key].results}

    def continuation(self, steps: list[Step]) -> ResumableSession:
        """A session that begins with these steps."""
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
        """Write the records of steps; yields each when its records are there. Blocking."""
        writer = EntryWriter(log, self.file.left_out)
        for step, record in self.file.records(steps):
            writer.take(record, step.time)
            writer.flush()
            yield step


def _step(node: Node) -> Step:
    return Step(node.uuid, node.offset, node.length, node.time)
