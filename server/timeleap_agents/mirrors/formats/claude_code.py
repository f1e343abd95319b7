"""A session file of Claude Code (`~/.claude/projects/*/*.jsonl`): what each record is, and its messages.

How the records hang together, and which of them are the conversation, is told by `claude_chain`.
"""

from __future__ import annotations

import itertools
import json
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap_agents.mirrors.formats.claude_chain import QueuedPrompt
from timeleap_agents.mirrors.formats.claude_nodes import Kept, Kind, LeafNote, Node, NodeTable
from timeleap_agents.mirrors.formats.conversion import (
    JsonLine,
    RecordWriter,
    content_of,
    image_part,
    lose_part,
    sound,
    text_part,
    think_part,
    time_of,
    tool_call,
    workspace_of,
)
from timeleap_agents.mirrors.formats.said_by import words_of_person
from timeleap_agents.mirrors.scratch import Column

IN_TREE: Final = frozenset({"user", "assistant", "attachment", "system", "progress"})
STATE: Final = frozenset(
    {
        "agent-color", "agent-name", "agent-setting", "api-request", "api-request-blob", "api-request-resumed",
        "api-request-shape", "artifact-autoreact-ledger", "artifact-comment-monitor", "atis-latch",
        "attribution-snapshot", "bridge-session", "content-replacement", "continued-in", "cost-state",
        "data-flow-incomplete", "data-flow-records", "derived-from", "dev-mods", "ended-by-model",
        "file-history-delta", "file-history-snapshot", "fork-context-ref", "frame-link", "history-suppression",
        "hybrid-organization", "isolation-latch", "last-prompt", "memory-mode", "mode", "observer-ref",
        "permission-mode", "pr-link", "queue-operation", "relocated", "repl-mode", "resume-head-vouch",
        "session-owner", "tag", "tools-used", "worktree-state",
    }
)  # fmt: skip
"""Kinds of records that are known and no part of what was said."""
TITLES: Final[Mapping[str, str]] = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Kinds of records that name a title, and the member that has it; the first goes before the others."""
_BY_PERSON: Final = frozenset({"human", "user", "person", "composer", "voice-call"})
"""Kinds of origins of what a person said; a `peer` is another session."""
_TYPED: Final = frozenset({"typed", "sdk"})


def node_of(line: JsonLine, order: int) -> Node | None:
    """The node a line is; None where it stands in no tree."""
    record = line.record or {}
    kind, uuid = record.get("type"), record.get("uuid")
    in_tree = isinstance(kind, str) and kind in IN_TREE
    if not in_tree and not (isinstance(uuid, str) and "parentUuid" in record):
        return None
    parent, follows, answer = record.get("parentUuid"), record.get("logicalParentUuid"), _message(record).get("id")
    blocks = _blocks_of(record)
    meaning, usable = _meaning(record, blocks)
    boundary = kind == "system" and record.get("subtype") == "compact_boundary"
    return Node(
        order=order,
        uuid=uuid if isinstance(uuid, str) and uuid else f"@{line.offset}",
        parent=parent if isinstance(parent, str) else "",
        root=parent is None and "parentUuid" in record,
        kind=meaning,
        usable=usable,
        offset=line.offset,
        length=line.length,
        time=time_of(record.get("timestamp")),
        sidechain=record.get("isSidechain") is True,
        midway=kind == "attachment",
        answer=answer if isinstance(answer, str) and answer and meaning == "answer" else None,
        calls=tuple(_ids(blocks, "tool_use", "id")) if meaning == "answer" else (),
        results=tuple(_ids(blocks, "tool_result", "tool_use_id")) if kind == "user" else (),
        boundary=boundary or (record.get("isCompactSummary") is True and parent is None),
        follows=follows if isinstance(follows, str) else None,
        kept=_kept(record) if boundary else None,
    )


def _meaning(record: Json, blocks: list[Json]) -> tuple[Kind, bool]:
    """Return a record's kind in the conversation, and whether it can be read as that."""
    kind, message = record.get("type"), record.get("message")
    if kind == "assistant":
        usable = isinstance(message, dict) and _has_words(blocks) and record.get("isVirtual") is not True
        return "answer", usable
    if kind == "user":
        usable = isinstance(message, dict) and _has_words(blocks) and record.get("isVirtual") is not True
        if blocks and all(block.get("type") == "tool_result" for block in blocks):
            return "result", usable
        return ("said" if words_in(record) is None else "prompt"), usable
    if kind == "attachment" and _queued(record) is not None:
        return ("said" if words_in(record) is None else "prompt"), True
    if kind == "system" and record.get("subtype") == "local_command":
        return "said", isinstance(record.get("content"), str)
    return ("progress" if kind == "progress" else "note"), False


def words_in(record: Json) -> str | None:
    """The words that a person typed in a record, empty where it is a picture; None where the program said all of it.
    The marks of the record tell it; where it has none, the beginning of its text."""
    queued = _queued(record) if record.get("type") == "attachment" else None
    origin = (queued or record).get("origin") or record.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    blocks = _blocks_of(record)
    texts = [str(block.get("text")) for block in blocks if block.get("type") == "text"]
    others = [block for block in blocks if block.get("type") not in ("text", "tool_result")]
    if record.get("type") == "system" or any(
        record.get(mark) is True for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
    ):
        return None
    if queued is not None and queued.get("commandMode", "prompt") != "prompt":
        return None
    source = record.get("promptSource")
    if source == "system" or (isinstance(kind, str) and kind not in _BY_PERSON):
        return None
    words = words_of_person(texts)
    if words is None and (source in _TYPED or isinstance(kind, str)):
        words = "\n".join(texts)
    return "" if words is None and others else words


def _queued(record: Json) -> Json | None:
    """Return the text that was typed, or told, while the program worked; None for an attachment of another kind."""
    attachment = record.get("attachment")
    is_queued = isinstance(attachment, dict) and attachment.get("type") == "queued_command"
    return attachment if is_queued else None


def _message(record: Json) -> Json:
    message = record.get("message")
    return message if isinstance(message, dict) else {}


def _blocks_of(record: Json) -> list[Json]:
    """The blocks of what a record says."""
    kind = record.get("type")
    if kind == "attachment":
        return _blocks((_queued(record) or {}).get("prompt"))
    return _blocks(record.get("content") if kind in ("system", "queue-operation") else _message(record).get("content"))


def _has_words(blocks: list[Json]) -> bool:
    """False for what is empty or blank, which the program does not send."""
    return any(block.get("type") != "text" or str(block.get("text") or "").strip() for block in blocks)


def _kept(record: Json) -> Kept | None:
    """Which records a compaction keeps."""
    facts = record.get("compactMetadata")
    facts = facts if isinstance(facts, dict) else record
    listed, segment = facts.get("preservedMessages"), facts.get("preservedSegment")
    if isinstance(listed, dict) and isinstance(listed.get("anchorUuid"), str):
        uuids = listed.get("uuids")
        if isinstance(uuids, list) and uuids and all(isinstance(uuid, str) for uuid in uuids):
            return Kept(listed["anchorUuid"], tuple(dict.fromkeys(uuids)))
    if isinstance(segment, dict) and all(
        isinstance(segment.get(f"{name}Uuid"), str) for name in ("head", "anchor", "tail")
    ):
        return Kept(segment["anchorUuid"], (segment["tailUuid"],), segment["headUuid"])
    return None


def _ids(blocks: list[Json], kind: str, member: str) -> Iterator[str]:
    for block in blocks:
        value: Any = block.get(member)
        if block.get("type") == kind and isinstance(value, str):
            yield value


WORDS_COMPARED: Final = 1000  # characters


class _Queued(Struct):
    """A prompt in the program's queue. `heard` is the order of the record by which it left the queue for the model."""

    row: int
    order: int
    words: str
    lines: list[str]
    heard: int = -1
    gone: bool = False

    def stands_in(self, lines: list[str]) -> bool:
        """True if its lines are among these, one behind the other."""
        size = len(self.lines)
        return any(lines[at : at + size] == self.lines for at in range(len(lines) - size + 1))


class EntrySurvey:
    """Facts in the records apart from the conversation.

    Attributes:
        nodes: Records of the tree, in the file's order, and prompts in the queue.
        leaf: The program's last note of where the conversation ends.
        workspace: URI of the folder that the last record names which names one; `began_in`: of the first.
        first_prompt: How the first prompt of the file begins.
        withdrawn: Number of prompts that were taken out of the queue again.
    """

    def __init__(self, left_out: LossTally) -> None:
        self._left_out = left_out
        self._titles: dict[str, str] = {}
        self.first_prompt: str | None = None
        self._queue: list[_Queued] = []
        self.withdrawn = 0
        self._last_heard: deque[str] = deque(maxlen=8)  # words of the last prompts in records of their own
        self._answered = -1  # order of the last answer
        self._asked = -1  # of the last prompt in a record of its own
        self._spoken = {False: 0, True: 0}  # number of messages, in sidechains and not
        self.number = 0
        self.nodes = NodeTable()
        # By the number of an id: the row of the last message that can be read, from 1.
        self._known = Column(self.nodes.scratch, "I")
        self.leaf: LeafNote | None = None
        self.session_id: str | None = None
        self.workspace: str | None = None
        self.began_in: str | None = None
        self.created_at: str | None = None
        self.updated_at: str | None = None

    @property
    def title(self) -> str | None:
        """The title that the user gave, else the program's."""
        return next((self._titles[kind] for kind in TITLES if self._titles.get(kind)), None)

    def take(self, line: JsonLine, record: Json) -> Node | None:
        """Take in a line; returns the node it is, if it is one."""
        self.number += 1
        kind = str(record.get("type"))
        if self.session_id is None and isinstance(session_id := record.get("sessionId"), str):
            self.session_id = session_id[:200]
        if (workspace := workspace_of(record.get("cwd"))) is not None:
            self.began_in, self.workspace = self.began_in or workspace, workspace
        if (time := time_of(record.get("timestamp"))) is not None:
            self.created_at, self.updated_at = min(self.created_at or time, time), max(self.updated_at or time, time)
        node = node_of(line, self.number)
        if record.get("isVirtual") is True and kind in ("user", "assistant"):
            self._left_out.add("virtual", "messages were for the screen alone: the program does not send them")
        if node is not None:
            if kind not in IN_TREE:
                self._left_out.add("records", f"records of the type {kind[:40]} are none of the conversation")
            self.nodes.add(node)
            self._spoken[node.sidechain] += node.speaks
            self._note(node, record)
        elif kind in TITLES and isinstance(title := record.get(TITLES[kind]), str):
            self._titles[kind] = title.strip()
        elif kind == "last-prompt" and "leafUuid" in record:
            self._take_leaf(record)
        elif kind == "queue-operation":
            self._take_operation(line, record)
        elif kind not in STATE:
            self._left_out.add("records", f"records of the type {kind[:40]} are none of the conversation")
        return node

    def _note(self, node: Node, record: Json) -> None:
        if node.sidechain:
            return
        if node.kind == "answer":
            self._answered = node.order
        elif node.kind in ("prompt", "said") and node.usable:
            words = words_in(record)
            if node.kind == "prompt":
                self._asked = node.order
                self.first_prompt = self.first_prompt or first_words({"content": sound(words or "")})
            text = words or "\n".join(str(block.get("text")) for block in _blocks_of(record))
            self._find_queued(text, may_say_more=record.get("type") == "attachment")

    def repeated(self, node: Node) -> int | None:
        """The row of the message that the node read last says once more under its id, if it is one that was read before;
        now this one is known."""
        if not node.speaks:
            return None
        row = len(self.nodes) - 1
        number = self.nodes.uuid[row]
        self._known.extend(itertools.repeat(0, number + 1 - len(self._known)))
        before, self._known[number] = self._known[number], row + 1
        return before - 1 if before else None

    def forget(self, node: Node, before: int) -> None:
        """Leave out the node read last, which says again what one before it says."""
        self._known[self.nodes.uuid[before]] = before + 1
        self._spoken[node.sidechain] -= 1
        self.nodes.drop_last()

    def _take_leaf(self, record: Json) -> None:
        uuid, explicit = record["leafUuid"], record.get("explicit") is True or record.get("rewound") is True
        if isinstance(uuid, str) and uuid:
            again = self.leaf is not None and self.leaf.explicit and self.leaf.uuid == uuid
            self.leaf = LeafNote(self.number, uuid, explicit or again)
        elif uuid is None and explicit:
            self.leaf = LeafNote(self.number, None, True)

    # The queue

    def _take_operation(self, line: JsonLine, record: Json) -> None:
        operation = record.get("operation")
        words = "\n".join(str(block.get("text")) for block in _blocks_of(record) if block.get("type") == "text").strip()
        if operation == "enqueue":
            if words:
                self._enqueue(line, record, words)
            return
        same = " ".join(words.split())
        is_heard = operation == "dequeue" or record.get("reason") == "absorbed_mid_turn"
        if same and is_heard and not self._is_known(same):
            self._enqueue(line, record, words)  # the record by which it came into the queue was damaged
        for each in self._leaving(operation, same):
            if is_heard:
                each.heard = self.number
            else:
                each.gone = True
                self.withdrawn += 1

    def _is_known(self, words: str) -> bool:
        """True of words that are, or were, in the queue, or were said in one of the last records."""
        return words[:WORDS_COMPARED] in self._last_heard or any(each.words == words for each in self._queue)

    def _leaving(self, operation: object, words: str) -> list[_Queued]:
        """The prompts that an operation takes out of the queue."""
        waiting = [each for each in self._queue if each.heard < 0 and not each.gone]
        if operation == "popAll":
            return waiting
        if operation not in ("dequeue", "remove"):
            return []
        return [each for each in waiting if not words or each.words == words][:1]

    def _enqueue(self, line: JsonLine, record: Json, words: str) -> None:
        kind: Kind = "said" if words_of_person([words]) is None else "prompt"
        time = time_of(record.get("timestamp"))
        node = Node(self.number, f"@{line.offset}", "", False, kind, True, line.offset, line.length, time, queued=True)
        self._queue.append(_Queued(self.nodes.add(node), self.number, " ".join(words.split()), words.splitlines()))

    def _find_queued(self, text: str, *, may_say_more: bool) -> None:
        """Take out of the queue what stands in a record of its own: the same words, one of several prompts in it, or,
        if it `may_say_more`, words in what the program says around them."""
        said, lines = " ".join(text.split()), text.splitlines()
        self._last_heard.append(said[:WORDS_COMPARED])
        waiting = [each for each in self._queue if not each.gone]
        found = next((each for each in waiting if each.words == said), None)
        found = found or next((each for each in waiting if each.stands_in(lines)), None)
        if found is None and may_say_more:
            found = next((each for each in waiting if f" {each.words} " in f" {said} "), None)
        if found is not None:
            found.gone = True

    def queued(self) -> list[QueuedPrompt]:
        """The prompts that the model has heard, and that stand in the queue's operations alone: behind where it heard
        them."""
        found = []
        for each in self._queue:
            if not each.gone and each.heard >= 0 and max(self._answered, self._asked) > each.heard:
                found.append(QueuedPrompt(each.row, each.heard))
            elif not each.gone and each.heard < 0 and self._asked > each.order:
                found.append(QueuedPrompt(each.row, each.order))
        return found

    def unheard(self) -> int:
        """Number of prompts that still wait in the queue."""
        return sum(not each.gone for each in self._queue) - len(self.queued())

    def main_rows(self) -> array[int]:
        """Rows of the nodes of the session itself; in the file of a sub-agent all are."""
        return self.nodes.rows(sidechains=self.of_subagent)

    @property
    def of_subagent(self) -> bool:
        """All messages are those of a sub-agent."""
        return self._spoken[False] == 0

    def aside(self) -> int:
        """Number of messages of sub-agents in the file of a session."""
        return 0 if self.of_subagent else self._spoken[True]


_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class EntryWriter:
    """From records to messages, one for each record: what the model says is shown as soon as a line of it is
    written."""

    def __init__(self, log: RecordWriter, left_out: LossTally) -> None:
        self._log = log
        self._left_out = left_out

    def take(self, record: Json, time: str | None, left: frozenset[str] = frozenset()) -> None:
        """Write a record; `left`: ids of its results that go with no call."""
        try:
            if record.get("type") == "assistant":
                self._assistant(_message(record))
            else:
                self._said(record, time, left)
        except RecursionError:
            self._left_out.add("messages", "messages are nested too deeply")

    def _assistant(self, message: Json) -> None:
        parts: list[Json] = []
        calls: list[Json] = []
        for block in _blocks(message.get("content")):
            kind = block.get("type")
            if kind == "text":
                if str(block.get("text") or "").strip():
                    parts.append(text_part(str(block.get("text"))))
            elif kind == "thinking":
                parts.append(think_part(str(block.get("thinking")), block.get("signature")))
            elif kind == "redacted_thinking":
                parts.append(think_part("", block.get("data")))
            elif kind == "tool_use":
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                calls.append(tool_call(block.get("id"), block.get("name"), arguments))
            else:
                lose_part(self._left_out, kind)
        if not parts and not calls:
            return
        self._log.answer(parts, calls)
        usage = message.get("usage")
        if isinstance(usage, dict):
            self._log.usage(sum(value for name in _INPUT if type(value := usage.get(name)) is int))

    def _said(self, record: Json, time: str | None, left: frozenset[str]) -> None:
        parts: list[Json] = []
        for block in _blocks_of(record):
            if block.get("type") == "tool_result":
                call = block.get("tool_use_id")
                if not isinstance(call, str) or call in left:  # counted where it is known to be so
                    continue
                content = content_of(self._shown(block.get("content")))
                self._log.message({"role": "tool", "content": content, "tool_call_id": sound(call)})
            else:
                parts += self._shown([block])
        if not parts:
            return
        said = {"role": "user", "content": content_of(parts)}
        if record.get("type") == "queue-operation":
            words = words_of_person([str(part.get("text")) for part in parts])
        else:
            words = words_in(record)
        if words is not None:
            self._log.checkpoint(said, time, sound(words))
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
                lose_part(self._left_out, block.get("type"))
        return found


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
