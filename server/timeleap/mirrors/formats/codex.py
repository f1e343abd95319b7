"""A session file of Codex (`rollout-*.jsonl`) as it is at its end: what it compacted or rolled back becomes timelines.

Lines are `{timestamp, type, payload}`; of `response_item`s the conversation is made, `compacted` puts another one in
its place, of events only token counts and rollbacks matter. Older files have the items themselves on their lines,
behind a first line with `id` and `instructions`. The oldest (`rollout-*.json`) are one document, `{session, items}`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from timeleap.message_text import NOT_SAID_BY_THE_USER
from timeleap.mirrors.formats.conversion import (
    Json,
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
from timeleap.storage.engine import TimelineReason

SUMMARY: Final = "summary"
"""The type of an item that is no item of the program's: what a compaction of the older form says."""

_ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


Point = TypeVar("Point")


class LineChange(Struct, frozen=True):
    """What a line does to the conversation: what `goes` is taken away, then the rest is added.

    Attributes:
        facts: Of the session, at its beginning.
        goes: `compact`: all that was said; `revert`: the last `turns` turns.
        items: What is said, as items of the model's interface.
        tokens: How many the conversation has.
    """

    facts: Json | None = None
    goes: TimelineReason | None = None
    turns: int = 0
    items: tuple[Json, ...] = ()
    tokens: object = None


def change_of(record: Json, left_out: LossTally) -> LineChange | None:
    """What a line does; None where that is nothing."""
    kind, payload = record.get("type"), record.get("payload")
    if not isinstance(payload, dict):
        return _bare_change(record, left_out)
    if kind == "session_meta":
        return LineChange(facts=payload)
    if kind == "response_item":
        return LineChange(items=(payload,))
    if kind == "compacted":
        return LineChange(goes="compact", items=_summed_up(payload))
    if kind == "event_msg":
        return _event_change(payload)
    if kind != "turn_context":
        left_out.add("records", f"records of the type {str(kind)[:40]} are not known")
    return None


def _bare_change(record: Json, left_out: LossTally) -> LineChange | None:
    """The same for a line of the older form."""
    if "type" in record:
        return LineChange(items=(record,))
    if "id" in record and "timestamp" in record:
        return LineChange(facts=record)
    if record.get("record_type") != "state":
        left_out.add("records", "records are of no known kind")
    return None


def _event_change(payload: Json) -> LineChange | None:
    kind, turns = payload.get("type"), payload.get("num_turns")
    if kind == "token_count":
        info = payload.get("info")
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        return LineChange(tokens=last.get("total_tokens")) if isinstance(last, dict) else None
    if kind == "thread_rolled_back" and type(turns) is int and turns > 0:
        return LineChange(goes="revert", turns=turns)
    return None


def _summed_up(payload: Json) -> tuple[Json, ...]:
    replacement = payload.get("replacement_history")
    if isinstance(replacement, list):
        return tuple(item for item in replacement if isinstance(item, dict))
    return ({"type": SUMMARY, "text": str(payload.get("message") or "")},)


def begins_turn(item: Json) -> bool:
    """True for a prompt of the person."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    content = item.get("content")
    first = content[0] if isinstance(content, list) and content else content
    text = first.get("text") if isinstance(first, Mapping) else first
    return not (isinstance(text, str) and text.lstrip().startswith(NOT_SAID_BY_THE_USER))


class RolloutFacts:
    """What the first line says of the session. A fork repeats what it was forked from, which says nothing of itself."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.workspace: str | None = None
        self.created_at: str | None = None
        self.version: object = None

    def take(self, facts: Json, time: str | None) -> bool:
        """Note them; false if there were some already."""
        if self.session_id is not None:
            return False
        self.session_id = str(facts.get("id"))[:200]
        self.created_at = time_of(facts.get("timestamp")) or time
        self.workspace = workspace_of(facts.get("cwd"))
        self.version = facts.get("cli_version")
        return True


def prompt_of(facts: Json) -> str | None:
    """The system prompt."""
    base = facts.get("base_instructions")
    prompt = base.get("text") if isinstance(base, dict) else facts.get("instructions")
    return prompt if isinstance(prompt, str) and prompt else None


class Rollout(ABC, Generic[Point]):
    """The conversation as the lines taken so far define it. What becomes of it is up to a subclass, whose `Point` is a place
    in it to come back to.

    Attributes:
        facts: What the first line says of the session.
    """

    def __init__(self, left_out: LossTally) -> None:
        self.facts = RolloutFacts()
        self._left_out = left_out
        self._time: str | None = None
        self._begin: Point | None = None  # behind the system prompt
        self._turns: list[Point] = []

    def take(self, record: Json) -> None:
        self._time = time_of(record.get("timestamp")) or self._time
        change = change_of(record, self._left_out)
        if change is None:
            return
        if change.facts is not None and self.facts.take(change.facts, self._time):
            self._add_prompt(prompt_of(change.facts))
            self._begin = self._here()
        if change.goes == "compact":
            self._go_back("compact", self._begin)
            self._turns = []
        elif change.goes == "revert" and self._turns:
            self._go_back("revert", self._turns[-change.turns :][0])
            del self._turns[-change.turns :]
        for item in change.items:
            if begins_turn(item):
                self._turns.append(self._here())
            self._add_item(item)
        if change.goes is not None or change.tokens is not None:
            self._add_tokens(change.tokens)

    @abstractmethod
    def _here(self) -> Point: ...
    @abstractmethod
    def _add_prompt(self, prompt: str | None) -> None: ...
    @abstractmethod
    def _add_item(self, item: Json) -> None: ...
    @abstractmethod
    def _add_tokens(self, tokens: object) -> None: ...
    @abstractmethod
    def _go_back(self, reason: TimelineReason, point: Point | None) -> None:
        """None: to where nothing is said."""


class ItemWriter:
    """From items to messages; those of one answer become one message."""

    def __init__(self, log: RecordWriter, left_out: LossTally) -> None:
        self._log = log
        self._left_out = left_out
        self._parts: list[Json] = []
        self._calls: list[Json] = []
        self._time: str | None = None
        self._readers: dict[str, Callable[[Json], None]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function_call,
            "custom_tool_call": self._custom_call,
            "local_shell_call": self._shell_call,
            "function_call_output": self._output,
            "custom_tool_call_output": self._output,
            SUMMARY: self._summary,
        }

    def take(self, item: Json, time: str | None) -> None:
        kind, self._time = str(item.get("type")), time
        read = self._readers.get(kind)
        try:
            if read is not None:
                read(item)
            elif kind != "ghost_snapshot":
                self._left_out.add("items", f"items of the type {kind[:40]} have no place in a session")
        except RecursionError:
            self._left_out.add("items", "items are nested too deeply")

    def flush(self) -> None:
        """Write the assistant's answer, now that something else follows."""
        self._log.answer(self._parts, self._calls)
        self._parts, self._calls = [], []

    def _message(self, item: Json) -> None:
        role = _ROLES.get(str(item.get("role")))
        if role is None:
            self._left_out.add("items", "messages have a role that is not known")
            return
        parts = self._content(item.get("content"))
        if role == "assistant":
            self._parts += parts
            return
        self.flush()
        message = {"role": role, "content": content_of(parts)}
        if begins_turn(item):
            self._log.checkpoint(message, self._time)
        self._log.message(message)

    def _summary(self, item: Json) -> None:
        self.flush()
        self._log.message({"role": "user", "content": sound(str(item.get("text") or ""))})

    def _reasoning(self, item: Json) -> None:
        texts = [*_texts(item.get("summary")), *_texts(item.get("content"))]
        self._parts.append(think_part("\n\n".join(texts), item.get("encrypted_content")))

    def _function_call(self, item: Json) -> None:
        arguments = item.get("arguments")
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self._calls.append(tool_call(_call_id(item), item.get("name"), shown))

    def _custom_call(self, item: Json) -> None:
        self._calls.append(tool_call(_call_id(item), item.get("name"), json.dumps({"input": item.get("input")})))

    def _shell_call(self, item: Json) -> None:
        self._calls.append(tool_call(_call_id(item), "local_shell", json.dumps(item.get("action"))))

    def _output(self, item: Json) -> None:
        self.flush()
        output = item.get("output")
        if isinstance(output, dict):
            output = output.get("content")
        parts = [text_part(output)] if isinstance(output, str) else self._content(output)
        self._log.message({"role": "tool", "content": content_of(parts), "tool_call_id": str(item.get("call_id"))})

    def _content(self, content: Any) -> list[Json]:
        if isinstance(content, str):
            return [text_part(content)]
        found: list[Json] = []
        for part in content if isinstance(content, list) else []:
            kind = str(part.get("type")) if isinstance(part, Mapping) else ""
            if kind in _TEXTS and isinstance(part.get("text"), str):
                found.append(text_part(part["text"]))
            elif kind == "input_image" and isinstance(part.get("image_url"), str):
                found.append(image_part(part["image_url"]))
            else:
                self._left_out.add("parts", f"parts of the type {kind[:40]} have no place in a message")
        return found


def _call_id(item: Json) -> Any:
    """The id by which results refer to a call."""
    return item.get("call_id") or item.get("id")


def _texts(content: Any) -> list[str]:
    return [
        part["text"]
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    ]
