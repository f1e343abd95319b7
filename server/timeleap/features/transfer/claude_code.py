"""Reading a session file of Claude Code (`~/.claude/projects/*/*.jsonl`): its conversation, its branches as timelines.

The file is a tree: each record names its parent. The conversation ends at the last record; what was said before "redo from
here" is a branch. A compaction begins a new root that names what it summed up. Calls of several tools at once make side
branches of their results, which belong to the conversation all the same. Sidechains are what sub-agents did.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final, cast

from timeleap.features.transfer.importing import nothing_of, opened
from timeleap.features.transfer.jsonlines import Json, JsonLine, JsonLines, time_of, workspace_of
from timeleap.features.transfer.log_writer import (
    MAX_TIMELINES,
    Drafts,
    LogWriter,
    content_of,
    image_part,
    sound,
    text_part,
    think_part,
    tool_call,
)
from timeleap.features.transfer.losses import LossTally
from timeleap.features.transfer.sanitize import Arrival, Origin
from timeleap.sessions.creation import Traits


@dataclass(frozen=True, slots=True)
class Node:
    """A record that stands in the tree, as far as that matters.

    Attributes:
        order: Its place in the file.
        follows: Of a compaction's root: the record the summed-up conversation ended with.
        speaks: It is a message.
        calls: Ids of the tool calls it makes.
        results: Ids of the calls it answers, if it does nothing else.
    """

    order: int
    uuid: str
    parent: str | None
    follows: str | None
    offset: int
    length: int
    sidechain: bool
    speaks: bool
    time: str | None
    calls: frozenset[str]
    results: frozenset[str]


@dataclass(frozen=True, slots=True)
class Branch:
    """A conversation in the tree.

    Attributes:
        nodes: Its messages, in order.
        compacted: It was summed up, and goes on in another one.
    """

    nodes: tuple[Node, ...]
    compacted: bool = False

    @property
    def time(self) -> str | None:
        """Of its last message."""
        return self.nodes[-1].time if self.nodes else None


def node_of(line: JsonLine, order: int) -> Node | None:
    """The node a line is; None where it stands in no tree."""
    record = line.record or {}
    uuid, parent, follows = record.get("uuid"), record.get("parentUuid"), record.get("logicalParentUuid")
    if not isinstance(uuid, str):
        return None
    message = record.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    many = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    results = frozenset(_ids(many, "tool_result", "tool_use_id"))
    return Node(
        order=order,
        uuid=uuid,
        parent=parent if isinstance(parent, str) else None,
        follows=follows if isinstance(follows, str) and not isinstance(parent, str) else None,
        offset=line.offset,
        length=line.length,
        sidechain=record.get("isSidechain") is True,
        speaks=record.get("type") in ("user", "assistant") and isinstance(message, dict),
        time=time_of(record.get("timestamp")),
        calls=frozenset(_ids(many, "tool_use", "id")),
        results=results if many and all(block.get("type") == "tool_result" for block in many) else frozenset(),
    )


@dataclass(frozen=True, slots=True)
class Branches:
    """The conversation of a tree, and its other branches.

    Attributes:
        main: The conversation.
        others: The newest of the others, in the order in which they ended.
        left: Number of further branches, which are not in `others`.
    """

    main: Branch
    others: tuple[Branch, ...]
    left: int


def branches(nodes: Iterable[Node], most: int) -> Generator[None, None, Branches]:
    """The conversation, and at most `most` others. Pauses between two of them: a tree may have a million branches."""
    tree = _Tree(_in_a_row(list(nodes)))
    last = tree.last()
    if last is None:
        return Branches(Branch(()), (), 0)
    main = tree.branch(last)
    others: list[Branch] = []
    for branch in islice(tree.others(last), most):
        others.append(branch)
        yield
    others.sort(key=lambda branch: branch.nodes[-1].order)
    return Branches(main, tuple(others), tree.unused())


def _in_a_row(nodes: list[Node]) -> list[Node]:
    """The nodes of a file in which none names a parent, each behind the one before it."""
    if len(nodes) < 2 or any(node.parent is not None or node.follows is not None for node in nodes):
        return nodes
    return [nodes[0], *(replace(node, parent=before.uuid) for before, node in pairwise(nodes))]


class _Tree:
    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[str, Node] = {}
        for node in nodes:
            self._nodes.setdefault(node.uuid, node)  # a session that was resumed repeats records
        self._spoken = sorted((node for node in self._nodes.values() if node.speaks), key=lambda node: node.order)
        self._parents = {node.parent for node in self._spoken}
        self._answers: dict[str | None, list[Node]] = {}
        for node in self._spoken:
            if node.results:
                self._answers.setdefault(node.parent, []).append(node)
        self._used: set[str] = set()

    def last(self) -> Node | None:
        """The message the conversation ends with."""
        return self._spoken[-1] if self._spoken else None

    def branch(self, leaf: Node, *, compacted: bool = False) -> Branch:
        """The conversation that ends with `leaf`, and the results of its calls that stand aside."""
        path = list(self._up(leaf))[::-1]
        self._used |= {node.uuid for node in path}
        placed = [(node.order, node) for node in path]
        for number in range(1, len(placed)):  # whatever the file's order, a message comes behind its parent
            placed[number] = (max(placed[number][0], placed[number - 1][0]), placed[number][1])
        placed += [(node.order, node) for node in self._results_aside(path)]
        placed.sort(key=lambda pair: pair[0])
        return Branch(tuple(node for _, node in placed if node.speaks), compacted)

    def others(self, leaf: Node) -> Iterator[Branch]:
        """All but the one that ends with `leaf`."""
        yield from self._summed_up(leaf)
        for end in self._abandoned():
            branch = self.branch(end)
            if branch.nodes:
                yield branch

    def unused(self) -> int:
        """Number of branches that were not read."""
        return sum(1 for _ in self._abandoned())

    def _summed_up(self, leaf: Node) -> Iterator[Branch]:
        """The conversations that were compacted on the way to `leaf`, last first."""
        seen: set[str] = set()
        root = self._root(leaf)
        while root.follows is not None and root.uuid not in seen:
            seen.add(root.uuid)
            end = self._nodes.get(root.follows) or self._spoken_before(root)
            if end is None:
                return
            branch = self.branch(end, compacted=True)
            if branch.nodes:
                yield branch
            root = self._root(end)

    def _abandoned(self) -> Iterator[Node]:
        """The ends of branches nothing else has led through, last first."""
        for leaf in reversed(self._spoken):
            if leaf.uuid not in self._used and leaf.uuid not in self._parents:
                yield leaf

    def _up(self, leaf: Node) -> Iterator[Node]:
        seen: set[str] = set()
        node: Node | None = leaf
        while node is not None and node.uuid not in seen:
            seen.add(node.uuid)
            yield node
            node = self._nodes.get(node.parent) if node.parent is not None else None

    def _root(self, leaf: Node) -> Node:
        *_, root = self._up(leaf)
        return root

    def _spoken_before(self, root: Node) -> Node | None:
        number = bisect_left(self._spoken, root.order, key=lambda node: node.order)
        return self._spoken[number - 1] if number else None

    def _results_aside(self, path: list[Node]) -> list[Node]:
        on_it = {node.uuid for node in path}
        waiting = {call for node in path for call in node.calls}
        waiting -= {result for node in path for result in node.results}
        found: list[Node] = []
        for parent in path:
            for node in self._answers.get(parent.uuid, []):
                if node.results <= waiting and node.uuid not in on_it:
                    found.append(node)
                    waiting -= node.results
        self._used |= {node.uuid for node in found}
        return found


def _ids(blocks: list[Json], kind: str, member: str) -> Iterator[str]:
    for block in blocks:
        value: Any = block.get(member)
        if block.get("type") == kind and isinstance(value, str):
            yield value


_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def read_session(path: Path, directory: Path) -> Generator[tuple[int, int], None, Arrival]:
    """See `importing.Work`. Raises InvalidInputError, TooLargeError, StorageFailureError."""
    left_out = LossTally()
    file = opened(path)
    try:
        lines = JsonLines(file, left_out)
        survey = _Survey(left_out)
        for line in lines:
            if line.record is not None:
                survey.take(line.record)
                if (node := node_of(line, survey.number)) is not None:
                    survey.nodes.append(node)
            yield line.offset // 2, lines.size
        if not survey.nodes and survey.title is None:
            raise nothing_of("claude-code")
        tree = yield from _paused(branches(survey.main_nodes(), MAX_TIMELINES), (lines.size // 2, lines.size))
        if tree.left:
            left_out.add("branches", "older branches of the conversation", tree.left)
        drafts = Drafts(directory, left_out)
        for branch in tree.others:
            aside = drafts.timeline("compact" if branch.compacted else "import", branch.time)
            if aside is not None:
                yield from _write(LogWriter(aside, LossTally()), branch, lines, LossTally())
        live = drafts.live()
        yield from _write(live, tree.main, lines, left_out)
    finally:
        file.close()
    return Arrival(
        traits=Traits(title=survey.title, workspace=survey.workspace),
        created_at=survey.created_at,
        timelines=drafts.timelines,
        lines=live.lines,
        origin=Origin("claude-code", survey.session_id, losses=tuple(left_out.losses())),
    )


def _paused(work: Generator[None, None, Branches], far: tuple[int, int]) -> Generator[tuple[int, int], None, Branches]:
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return cast("Branches", stop.value)
        yield far


class _Survey:
    """Facts in the records apart from the conversation."""

    def __init__(self, left_out: LossTally) -> None:
        self._left_out = left_out
        self._titles: dict[str, str] = {}
        self.number = 0
        self.nodes: list[Node] = []
        self.session_id: str | None = None
        self.workspace: str | None = None
        self.created_at: str | None = None

    @property
    def title(self) -> str | None:
        """The title that the user gave, else the program's."""
        return next(
            (self._titles[kind] for kind in ("custom-title", "ai-title", "summary") if kind in self._titles), None
        )

    def take(self, record: Json) -> None:
        """One more record."""
        self.number += 1
        kind = str(record.get("type"))
        self.session_id = self.session_id or _text(record.get("sessionId"))
        self.workspace = self.workspace or workspace_of(record.get("cwd"))
        self.created_at = self.created_at or time_of(record.get("timestamp"))
        title = record.get("customTitle") or record.get("aiTitle") or record.get("summary")
        if kind in ("custom-title", "ai-title", "summary") and isinstance(title, str):
            self._titles[kind] = title
        elif kind not in ("user", "assistant"):
            self._left_out.add("records", f"records of the type {kind[:40]} are none of the conversation")

    def main_nodes(self) -> list[Node]:
        """Those of the session itself; in the file of a sub-agent all are."""
        main = [node for node in self.nodes if not node.sidechain]
        if not any(node.speaks for node in main):
            return self.nodes
        aside = sum(node.sidechain and node.speaks for node in self.nodes)
        if aside:
            self._left_out.add("sidechains", "messages of sub-agents stand in sidechains", aside)
        return main


def _write(draft: LogWriter, branch: Branch, lines: JsonLines, left_out: LossTally) -> Iterator[tuple[int, int]]:
    """Write the log of a conversation."""
    writer = _Writer(draft, left_out)
    for number, node in enumerate(branch.nodes):
        writer.take(lines.at(node.offset, node.length), node.time)
        yield (lines.size + lines.size * number // len(branch.nodes)) // 2, lines.size
    writer.finish()


class _Writer:
    """From records to messages; the records of one answer become one message."""

    def __init__(self, draft: LogWriter, left_out: LossTally) -> None:
        self._draft = draft
        self._left_out = left_out
        self._answer: Any = None  # id of the answer that is being put together
        self._parts: list[Json] = []
        self._calls: list[Json] = []
        self._tokens = 0

    def take(self, record: Json, time: str | None) -> None:
        """One more record."""
        message = record.get("message")
        if not isinstance(message, dict):
            return
        try:
            if record.get("type") == "assistant":
                self._assistant(record, message)
            else:
                self._flush()
                self._user(record, message, time)
        except RecursionError:
            self._left_out.add("messages", "messages are nested too deeply")

    def finish(self) -> None:
        """No more come."""
        self._flush()
        self._draft.finish()

    def _assistant(self, record: Json, message: Json) -> None:
        if record.get("isApiErrorMessage") is True:
            self._left_out.add("errors", "notes of the program about failed requests")
            return
        if message.get("id") != self._answer or self._answer is None:
            self._flush()
            self._answer = message.get("id")
        for block in _blocks(message.get("content")):
            kind = block.get("type")
            if kind == "text":
                self._parts.append(text_part(str(block.get("text"))))
            elif kind == "thinking":
                self._parts.append(think_part(str(block.get("thinking")), block.get("signature")))
            elif kind == "redacted_thinking":
                self._parts.append(think_part("", block.get("data")))
            elif kind == "tool_use":
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                self._calls.append(tool_call(block.get("id"), block.get("name"), arguments))
            else:
                self._unknown(kind)
        usage = message.get("usage")
        if isinstance(usage, dict):
            self._tokens = sum(value for name in _INPUT if type(value := usage.get(name)) is int)

    def _user(self, record: Json, message: Json, time: str | None) -> None:
        parts: list[Json] = []
        for block in _blocks(message.get("content")):
            if block.get("type") == "tool_result":
                content = content_of(self._shown(block.get("content")))
                call = sound(str(block.get("tool_use_id")))
                self._draft.message({"role": "tool", "content": content, "tool_call_id": call})
            else:
                parts += self._shown([block])
        if not parts:
            return
        said = {"role": "user", "content": content_of(parts)}
        if record.get("isMeta") is not True and record.get("isCompactSummary") is not True:
            self._draft.checkpoint(said, time)
        self._draft.message(said)

    def _shown(self, content: Any) -> list[Json]:
        """Blocks as parts of a message."""
        found: list[Json] = []
        for block in _blocks(content):
            source = block.get("source")
            if block.get("type") == "text":
                found.append(text_part(str(block.get("text"))))
            elif block.get("type") == "image" and isinstance(source, Mapping) and (url := _url(source)):
                found.append(image_part(url))
            else:
                self._unknown(block.get("type"))
        return found

    def _unknown(self, kind: object) -> None:
        self._left_out.add("parts", f"parts of the type {str(kind)[:40]} have no place in a message")

    def _flush(self) -> None:
        if self._parts or self._calls:
            calls = {"tool_calls": self._calls} if self._calls else {}
            self._draft.message({"role": "assistant", "content": content_of(self._parts), **calls})
            self._draft.usage(self._tokens)
        self._answer, self._parts, self._calls, self._tokens = None, [], [], 0


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _url(source: Mapping[str, Any]) -> str | None:
    if isinstance(source.get("url"), str):
        return str(source["url"])
    if isinstance(source.get("data"), str):
        return f"data:{source.get('media_type')};base64,{source['data']}"
    return None


def _text(value: object) -> str | None:
    return value[:200] if isinstance(value, str) else None
