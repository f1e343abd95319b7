"""A session file of Codex (`rollout-*.jsonl`): what a line does to the conversation, and the messages its items are.

Lines are `{timestamp, type, payload}`; of `response_item`s the conversation is made, `compacted` puts another one in
its place, of events only token counts and rollbacks matter, and words where there are no items. Older files have the
items themselves on their lines, behind a first line with `id` and `instructions`. The oldest (`rollout-*.json`) are one
document, `{session, items}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct

from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.conversion import (
    RecordWriter,
    content_of,
    image_part,
    lose_part,
    sound,
    text_part,
    think_part,
    tool_call,
)
from timeleap_agents.mirrors.formats.said_by import words_of_person

SUMMARY: Final = "summary"
"""The type of an item that is no item of the program's: what a compaction of the older form says."""

_ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_STATE: Final = frozenset({"turn_context", "world_state", "token_usage_record"})
"""Types of lines that are known and no part of what was said."""
_SPEAKERS: Final = {"user_message": "user", "agent_message": "assistant"}
_SPOKEN: Final = {"UserMessage": "user", "AgentMessage": "assistant"}
_PICTURE: Final = re.compile(r"\s*</?image\b[^>]*>\s*")
"""The text that stands before and behind a pasted picture."""
_SEALED: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Types of summaries that only the model's provider can read."""


class LineChange(Struct, frozen=True):
    """A change of the conversation by a line: what `goes` is taken away, then the rest is added.

    Attributes:
        facts: Of the session, at its beginning.
        goes: `compact`: all that was said; `revert`: the last `turns` turns.
        items: What is said, as items of the model's interface.
        keeps: A compaction keeps the prompts, and `items` is a summary.
        heard: What an event says, as such items; `event`: of what type it is.
        tokens: How many the conversation has.
        folder: Where the program works.
    """

    facts: Json | None = None
    goes: TimelineReason | None = None
    turns: int = 0
    items: tuple[Json, ...] = ()
    keeps: bool = False
    heard: tuple[Json, ...] = ()
    event: str = ""
    tokens: object = None
    folder: object = None


def change_of(record: Json, left_out: LossTally) -> LineChange | None:
    """The change that a line makes; None where it makes none."""
    kind, payload = record.get("type"), record.get("payload")
    if not isinstance(payload, dict):
        return _bare_change(record, left_out)
    if kind == "session_meta":
        return LineChange(facts=payload, folder=payload.get("cwd"))
    if kind == "response_item":
        return LineChange(items=(_with_type(payload),))
    if kind == "compacted":
        return _compaction(payload)
    if kind == "event_msg":
        return _event_change(payload)
    if kind == "turn_context":
        return LineChange(folder=payload.get("cwd"))
    if str(kind) not in _STATE:
        left_out.add("records", f"records of the type {str(kind)[:40]} are not known")
    return None


def _bare_change(record: Json, left_out: LossTally) -> LineChange | None:
    """The change by a line of the older form, or by the document that the oldest is."""
    session = record.get("session")
    if isinstance(session, dict):
        items = record.get("items")
        found = items if isinstance(items, list) else []
        whole = [item for item in found if isinstance(item, dict)]
        known = [item for item in whole if "type" in item]
        if len(whole) < len(found):
            left_out.add("items", "items are no JSON objects", len(found) - len(whole))
        if len(known) < len(whole):
            left_out.add("records", "records are of no known kind", len(whole) - len(known))
        return LineChange(facts=session, items=tuple(known), folder=session.get("cwd"))
    if "type" in record:
        return LineChange(items=(record,))
    if "id" in record and "timestamp" in record:
        return LineChange(facts=record, folder=record.get("cwd"))
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
    if isinstance(kind, str) and kind in _SPEAKERS:
        return _heard(kind, _SPEAKERS[kind], payload.get("message"), payload.get("images"))
    item = payload.get("item")
    role = _SPOKEN.get(str(item.get("type"))) if isinstance(item, dict) else None
    if kind == "item_completed" and isinstance(item, dict) and role is not None:
        return _heard(kind, role, "\n".join(_texts(item.get("content"))), None)
    return None


def _heard(event: str, role: str, text: object, images: object) -> LineChange | None:
    parts: list[Json] = [{"type": "text", "text": text}] if isinstance(text, str) and text.strip() else []
    parts += [{"type": "input_image", "image_url": image} for image in (images if isinstance(images, list) else [])]
    if not parts:
        return None
    return LineChange(heard=({"type": "message", "role": role, "content": parts},), event=event)


def _compaction(payload: Json) -> LineChange:
    replacement = payload.get("replacement_history")
    if isinstance(replacement, list):
        return LineChange(
            goes="compact", items=tuple(_with_type(item) for item in replacement if isinstance(item, dict))
        )
    text = str(payload.get("message") or "")
    return LineChange(goes="compact", items=({"type": SUMMARY, "text": text},) if text else (), keeps=True)


def _with_type(item: Json) -> Json:
    """An item with its type, which messages in rewritten files lack."""
    return item if "type" in item or "role" not in item else {"type": "message", **item}


def words_in(item: Json) -> str | None:
    """The words that a person typed in an item, empty where it is a picture; None where it is no prompt. The marks of
    the item tell it; where it has none, the beginning of its text."""
    if item.get("type") != "message" or item.get("role") != "user":
        return None
    content = item.get("content")
    parts: list[Any] = content if isinstance(content, list) else [{"type": "input_text", "text": content}]
    authored = [
        (author, part)
        for author, part in zip_longest(_authors(item)[: len(parts)], parts)
        if isinstance(part, Mapping) and author != "harness"
    ]
    texts = [(author, text) for author, part in authored if (text := _typed(part)) is not None]
    words = words_of_person([text for _, text in texts])
    if words is None:
        typed = [text for author, text in texts if author == "user"]
        words = "\n".join(typed) if typed else None
    if words is None and any(part.get("type") == "input_image" for _, part in authored):
        return ""
    return words


def said_in(item: Json) -> str | None:
    """The words that a person or the model says in an item; None where it is no prompt and no answer."""
    if item.get("type") != "message" or item.get("role") != "assistant":
        return words_in(item)
    content = item.get("content")
    return content if isinstance(content, str) else "".join(_texts(content))


def counts_as_prompt(item: Json) -> bool:
    """True for a message that Codex counts as one of the person's when it rolls back or sums up: any of the role `user`
    but those with a part that is one of its own elements, whoever typed the rest."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    content = item.get("content")
    return not any(map(_is_own, [content] if isinstance(content, str) else _texts(content)))


def _is_own(text: str) -> bool:
    text = text.strip()
    begins, ends = text[:LONGEST_TAG].lower(), text[-LONGEST_TAG:].lower()
    return any(begins.startswith(beginning) and ends.endswith(end) for beginning, end in _OWN)


_OWN: Final = (
    ("another language model started to solve this p", ""),
    ("# agents.md instructions", "</instructions>"),
    ("<codex_internal_context source=", "</codex_internal_context>"),
    *(
        (f"<{tag}>", f"</{tag}>")
        for tag in (
            "environment_context", "recommended_plugins", "agent_message_board_notification", "skill", "turn_aborted",
            "subagent_notification", "user_shell_command",
        )
    ),
)  # fmt: skip
"""Beginnings and ends of the texts that Codex 0.169.0 takes for its own."""
LONGEST_TAG: Final = 50  # characters


def _typed(part: Mapping[str, Any]) -> str | None:
    """The text of a part; None for what stands around a picture."""
    text = part.get("text")
    return text if isinstance(text, str) and not _PICTURE.fullmatch(text) else None


def _authors(item: Json) -> list[object]:
    """Authors of the parts, as the program has noted them: `user`, `harness` or another."""
    marks = item.get("internal_chat_message_metadata_passthrough")
    noted = marks.get("content_item_metadata") if isinstance(marks, dict) else None
    found: list[object] = []
    for each in noted if isinstance(noted, list) else []:
        provenance = each.get("provenance") if isinstance(each, dict) else None
        found.append(provenance.get("type") if isinstance(provenance, dict) else None)
    return found


def is_aborted(item: Json) -> bool:
    """True for the note that a turn was interrupted."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return any(text.lstrip().startswith("<turn_aborted>") for text in _texts(item.get("content")))


def call_of(item: Json) -> str | None:
    """The id of the call that an item makes; None where it makes none."""
    kind = str(item.get("type"))
    return _call_id(item) if kind.endswith("_call") and (kind in _CALLS or "call_id" in item) else None


def result_of(item: Json) -> str | None:
    """The id of the call that an item answers; None where it answers none."""
    kind = str(item.get("type"))
    return sound(str(item.get("call_id"))) if kind.endswith("_output") and "call_id" in item else None


_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})


def prompt_of(facts: Json) -> str | None:
    """The system prompt."""
    base = facts.get("base_instructions")
    prompt = base.get("text") if isinstance(base, dict) else facts.get("instructions")
    return prompt if isinstance(prompt, str) and prompt else None


class ItemWriter:
    """From items to messages, one for each."""

    def __init__(self, log: RecordWriter, left_out: LossTally) -> None:
        self._log = log
        self._left_out = left_out
        self._readers: dict[str, Callable[[Json, str | None], None]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function_call,
            "custom_tool_call": self._custom_call,
            "local_shell_call": self._shell_call,
            SUMMARY: self._summary,
        }

    def take(self, item: Json, time: str | None) -> None:
        """Write an item of this time (ISO-8601 UTC)."""
        kind = str(item.get("type"))
        read = self._readers.get(kind)
        try:
            if read is not None:
                read(item, time)
            elif result_of(item) is not None:
                self._output(item)
            elif call_of(item) is not None:
                self._other_call(item, kind)
            elif kind in _SEALED:
                self._log.answer([think_part("", item.get("encrypted_content"))], [])
            elif kind != "ghost_snapshot":
                self._left_out.add("items", f"items of the type {kind[:40]} have no place in a session")
        except RecursionError:
            self._left_out.add("items", "items are nested too deeply")

    def _message(self, item: Json, time: str | None) -> None:
        role = _ROLES.get(str(item.get("role")))
        if role is None:
            self._left_out.add("items", "messages have a role that is not known")
            return
        parts = self._content(item.get("content"))
        if role == "assistant":
            self._log.answer(parts, [])
            return
        message = {"role": role, "content": content_of(parts)}
        if (words := words_in(item)) is not None:
            self._log.checkpoint(message, time, sound(words))
        self._log.message(message)

    def _summary(self, item: Json, time: str | None) -> None:
        del time
        self._log.message({"role": "user", "content": sound(str(item.get("text") or ""))})

    def _reasoning(self, item: Json, time: str | None) -> None:
        del time
        texts = [*_texts(item.get("summary")), *_texts(item.get("content"))]
        self._log.answer([think_part("\n\n".join(texts), item.get("encrypted_content"))], [])

    def _function_call(self, item: Json, time: str | None) -> None:
        del time
        arguments = item.get("arguments")
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self._log.answer([], [tool_call(_call_id(item), item.get("name"), shown)])

    def _custom_call(self, item: Json, time: str | None) -> None:
        del time
        self._log.answer([], [tool_call(_call_id(item), item.get("name"), json.dumps({"input": item.get("input")}))])

    def _shell_call(self, item: Json, time: str | None) -> None:
        del time
        self._log.answer([], [tool_call(_call_id(item), "local_shell", json.dumps(item.get("action")))])

    def _other_call(self, item: Json, kind: str) -> None:
        """A call of a tool that is not known: its name, and all that it says."""
        given = item.get("arguments")
        if not isinstance(given, str):
            given = json.dumps({name: value for name, value in item.items() if name not in ("type", "id", "call_id")})
        self._log.answer([], [tool_call(_call_id(item), item.get("name") or kind.removesuffix("_call"), given)])

    def _output(self, item: Json) -> None:
        output = item.get("output")
        if isinstance(output, dict):
            output = output.get("content")
        if output is None:
            output = item.get("tools")
            output = None if output is None else json.dumps(output)
        parts = [text_part(output)] if isinstance(output, str) else self._content(output)
        self._log.message({"role": "tool", "content": content_of(parts), "tool_call_id": result_of(item)})

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
                lose_part(self._left_out, kind)
        return found


def _call_id(item: Json) -> str:
    """The id by which results refer to a call."""
    return sound(str(item.get("call_id") or item.get("id")))


def _texts(content: Any) -> list[str]:
    return [
        part["text"]
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    ]
