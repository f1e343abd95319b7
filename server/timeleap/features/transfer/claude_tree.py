"""The tree that a session file of Claude Code is: which of its records make the conversation, and which a branch of it.

Each record names its parent. The conversation ends at the last record; what was said before "redo from here" is a branch.
A compaction begins a new root that names what it summed up. Calls of several tools at once make side branches of their
results, which belong to the conversation all the same. Sidechains are what sub-agents did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

from timeleap.features.transfer.jsonlines import Json, JsonLine, time_of


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
