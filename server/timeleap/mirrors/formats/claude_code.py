"""A session file of Claude Code (`~/.claude/projects/*/*.jsonl`): its conversation, its branches as timelines.

The file is a tree: each record names its parent. The conversation ends at the last record; what was said before "redo
from here" is a branch. A compaction begins a new root that names what it summed up. Calls of several tools at once make
side branches of their results, which belong to the conversation all the same. Sidechains are what sub-agents did.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.mirrors.formats.conversion import (
    Json,
    JsonLine,
    LossTally,
    RecordWriter,
    content_of,
    image_part,
    sound,
    text_part,
    think_part,
    time_of,
    tool_call,
    workspace_of,
)


class Node(Struct, frozen=True):
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


def _in_a_row(nodes: list[Node]) -> list[Node]:
    """The nodes of a file in which none names a parent, each behind the one before it."""
    if len(nodes) < 2 or any(node.parent is not None or node.follows is not None for node in nodes):
        return nodes
    return [nodes[0], *(replace(node, parent=before.uuid) for before, node in pairwise(nodes))]


class Tree:
    def __init__(self, nodes: list[Node]) -> None:
        self._nodes: dict[str, Node] = {}
        for node in _in_a_row(nodes):
            self._nodes.setdefault(node.uuid, node)  # a session that was resumed repeats records
        self._spoken = sorted((node for node in self._nodes.values() if node.speaks), key=lambda node: node.order)
        self._parents = {node.parent for node in self._spoken}
        self._answers: dict[str | None, list[Node]] = {}
        for node in self._spoken:
            if node.results:
                self._answers.setdefault(node.parent, []).append(node)
        self._used: set[str] = set()

    def main(self) -> list[Node]:
        """The messages of the conversation."""
        return self._branch(self._leaf()) if self._spoken else []

    def _leaf(self) -> Node:
        """The last message; where that is a result which stands aside, as others are yet to come, the last call."""
        leaf = self._spoken[-1]
        call = next((node for node in reversed(self._spoken) if not node.results), leaf)
        if call is leaf or any(node is call for node in self._up(leaf)):
            return leaf
        path = list(self._up(call))
        aside = any(node.uuid == leaf.parent for node in path) and leaf.results <= {
            made for node in path for made in node.calls
        }
        return call if aside else leaf

    def others(self) -> Iterator[tuple[list[Node], bool]]:
        """Those of the other branches, which are not empty, and whether they were summed up and go on in another one;
        to be asked for after `main`."""
        for end in self._summed_up():
            if branch := self._branch(end):
                yield branch, True
        for end in self._abandoned():
            if branch := self._branch(end):
                yield branch, False

    def unused(self) -> int:
        """Number of branches that were not read."""
        return sum(1 for _ in self._abandoned())

    def _branch(self, leaf: Node) -> list[Node]:
        """The conversation that ends with `leaf`, and the results of its calls that stand aside."""
        path = list(self._up(leaf))[::-1]
        self._used |= {node.uuid for node in path}
        placed = [(node.order, node) for node in path]
        for number in range(1, len(placed)):  # whatever the file's order, a message comes behind its parent
            placed[number] = (max(placed[number][0], placed[number - 1][0]), placed[number][1])
        placed += [(node.order, node) for node in self._results_aside(path)]
        placed.sort(key=lambda pair: pair[0])
        return [node for _, node in placed if node.speaks]

    def _summed_up(self) -> Iterator[Node]:
        """The ends of the conversations that were compacted on the way to the present one, last first."""
        seen: set[str] = set()
        end = self._spoken[-1] if self._spoken else None
        while end is not None:
            *_, root = self._up(end)
            if root.follows is None or root.uuid in seen:
                return
            seen.add(root.uuid)
            end = self._nodes.get(root.follows)
            if end is None and (number := bisect_left(self._spoken, root.order, key=lambda node: node.order)):
                end = self._spoken[number - 1]
            if end is not None:
                yield end

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


class EntrySurvey:
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
        self.number += 1
        kind = str(record.get("type"))
        if self.session_id is None and isinstance(session_id := record.get("sessionId"), str):
            self.session_id = session_id[:200]
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


class EntryWriter:
    """From records to messages; the records of one answer become one message."""

    def __init__(self, log: RecordWriter, left_out: LossTally) -> None:
        self._log = log
        self._left_out = left_out
        self._answer: Any = None  # id of the answer that is being put together
        self._parts: list[Json] = []
        self._calls: list[Json] = []
        self._tokens = 0

    def take(self, record: Json, time: str | None) -> None:
        message = record.get("message")
        if not isinstance(message, dict):
            return
        try:
            if record.get("type") == "assistant":
                self._assistant(record, message)
            else:
                self.flush()
                self._user(record, message, time)
        except RecursionError:
            self._left_out.add("messages", "messages are nested too deeply")

    def _assistant(self, record: Json, message: Json) -> None:
        if record.get("isApiErrorMessage") is True:
            self._left_out.add("errors", "notes of the program about failed requests")
            return
        if message.get("id") != self._answer or self._answer is None:
            self.flush()
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
                self._log.message({"role": "tool", "content": content, "tool_call_id": call})
            else:
                parts += self._shown([block])
        if not parts:
            return
        said = {"role": "user", "content": content_of(parts)}
        if record.get("isMeta") is not True and record.get("isCompactSummary") is not True:
            self._log.checkpoint(said, time)
        self._log.message(said)

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

    def flush(self) -> None:
        if self._parts or self._calls:
            self._log.answer(self._parts, self._calls)
            self._log.usage(self._tokens)
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
