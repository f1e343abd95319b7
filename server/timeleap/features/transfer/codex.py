"""Reading a session file of Codex (`rollout-*.jsonl`) as it is at its end: what it compacted or rolled back becomes timelines.

Lines are `{timestamp, type, payload}`; of `response_item`s the conversation is made, `compacted` puts another one in
its place, of events only token counts and rollbacks matter. Older files have the items themselves on their lines,
behind a first line with `id` and `instructions`. The oldest (`rollout-*.json`) are one document, `{session, items}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from timeleap.features.transfer.conversion import (
    Drafts,
    Json,
    JsonLines,
    LogWriter,
    Mark,
    content_of,
    document,
    image_part,
    text_part,
    think_part,
    time_of,
    tool_call,
    workspace_of,
)
from timeleap.features.transfer.formats import LossTally
from timeleap.features.transfer.importing import nothing_of, opened
from timeleap.features.transfer.sanitize import Arrival, Origin
from timeleap.sessions.creation import Traits
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import TimelineReason

NOT_SAID_BY_THE_USER: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md instructions",
)
"""What messages begin with that the program put into the user's mouth: no turn begins with them."""

_ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


def read_session(path: Path, directory: Path) -> Generator[tuple[int, int], None, Arrival]:
    left_out = LossTally()
    file = opened(path)
    try:
        lines = JsonLines(file, left_out)
        drafts = Drafts(directory, left_out)
        rollout = _Rollout(drafts, left_out)
        for at, record in _records(file, lines, left_out):
            if record is not None:
                try:
                    rollout.take(record)
                except RecursionError:
                    left_out.add("items", "items are nested too deeply")
            yield at, lines.size
    finally:
        file.close()
    live = rollout.finished()
    if live.lines == 0 and rollout.session_id is None:
        raise nothing_of("codex")
    return Arrival(
        traits=Traits(workspace=rollout.workspace),
        created_at=rollout.created_at,
        timelines=drafts.timelines,
        lines=live.lines,
        origin=Origin("codex", rollout.session_id, losses=tuple(left_out.losses())),
    )


def _records(file: OpenFile, lines: JsonLines, left_out: LossTally) -> Iterator[tuple[int, Json | None]]:
    """The record of each line with its offset; of a document, the records that a newer file would have on its lines."""
    whole = document(file)
    if whole is None:
        yield from ((line.offset, line.record) for line in lines)
        return
    items = whole.get("items")
    every = [whole["session"], *(items if isinstance(items, list) else [])]
    for number, item in enumerate(every):
        if not isinstance(item, dict):
            left_out.add("items", "items are no JSON objects")
        else:
            yield lines.size * number // len(every), item


class _Rollout:
    """The session as the lines read so far define it."""

    def __init__(self, drafts: Drafts, left_out: LossTally) -> None:
        self._drafts = drafts
        self._left_out = left_out
        self._live = drafts.live()
        self._turns: list[Mark] = []
        self._begin: Mark | None = None  # behind the system prompt
        self._parts: list[Json] = []
        self._calls: list[Json] = []
        self._time: str | None = None
        self.session_id: str | None = None
        self.workspace: str | None = None
        self.created_at: str | None = None
        self._readers: dict[str, Callable[[Json], None]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function_call,
            "custom_tool_call": self._custom_call,
            "local_shell_call": self._shell_call,
            "function_call_output": self._output,
            "custom_tool_call_output": self._output,
        }

    def take(self, record: Json) -> None:
        kind, payload = record.get("type"), record.get("payload")
        self._time = time_of(record.get("timestamp")) or self._time
        if not isinstance(payload, dict):
            self._bare(record)
        elif kind == "session_meta":
            self._meta(payload)
        elif kind == "response_item":
            self._item(payload)
        elif kind == "compacted":
            self._compacted(payload)
        elif kind == "event_msg":
            self._event(payload)
        elif kind != "turn_context":
            self._left_out.add("records", f"records of the type {str(kind)[:40]} are not known")

    def finished(self) -> LogWriter:
        """The live log, written to its end."""
        self._flush()
        self._live.finish()
        return self._live

    def _bare(self, record: Json) -> None:
        """A line of the older form."""
        if "type" in record:
            self._item(record)
        elif "id" in record and "timestamp" in record:
            self._meta(record)
        elif record.get("record_type") != "state":
            self._left_out.add("records", "records are of no known kind")

    def _meta(self, payload: Json) -> None:
        if self.session_id is not None:
            return  # a fork repeats what it was forked from
        self.session_id = str(payload.get("id"))[:200]
        self.created_at = time_of(payload.get("timestamp")) or self._time
        self.workspace = workspace_of(payload.get("cwd"))
        base = payload.get("base_instructions")
        prompt = base.get("text") if isinstance(base, dict) else payload.get("instructions")
        if isinstance(prompt, str) and prompt:
            self._live.system_prompt(prompt)
        self._begin = self._live.mark()

    def _item(self, item: Json) -> None:
        kind = str(item.get("type"))
        read = self._readers.get(kind)
        if read is not None:
            read(item)
        elif kind != "ghost_snapshot":
            self._left_out.add("items", f"items of the type {kind[:40]} have no place in a session")

    def _event(self, payload: Json) -> None:
        kind = payload.get("type")
        if kind == "token_count":
            info = payload.get("info")
            last = info.get("last_token_usage") if isinstance(info, dict) else None
            if isinstance(last, dict):
                self._flush()
                self._live.usage(last.get("total_tokens"))
        elif kind == "thread_rolled_back":
            self._rolled_back(payload.get("num_turns"))

    # The conversation

    def _message(self, item: Json) -> None:
        role = _ROLES.get(str(item.get("role")))
        if role is None:
            self._left_out.add("items", "messages have a role that is not known")
            return
        parts = self._content(item.get("content"))
        if role == "assistant":
            self._parts += parts
            return
        self._flush()
        message = {"role": role, "content": content_of(parts)}
        begins = parts[0].get("text", "") if parts else ""
        if role == "user" and not str(begins).lstrip().startswith(NOT_SAID_BY_THE_USER):
            self._turns.append(self._live.mark())
            self._live.checkpoint(message, self._time)
        self._live.message(message)

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
        self._flush()
        output = item.get("output")
        if isinstance(output, dict):
            output = output.get("content")
        parts = [text_part(output)] if isinstance(output, str) else self._content(output)
        self._live.message({"role": "tool", "content": content_of(parts), "tool_call_id": str(item.get("call_id"))})

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

    def _flush(self) -> None:
        """Write the assistant's answer, now that something else follows."""
        self._live.answer(self._parts, self._calls)
        self._parts, self._calls = [], []

    # What puts another conversation in its place

    def _compacted(self, payload: Json) -> None:
        self._set_aside("compact")
        self._live.cut(self._begin or Mark(0, 0, 0, 0))
        self._turns = []
        replacement = payload.get("replacement_history")
        if isinstance(replacement, list):
            for item in replacement:
                if isinstance(item, dict):
                    self._item(item)
            self._flush()
            return
        summary = payload.get("message")
        self._live.message({"role": "user", "content": content_of([text_part(str(summary or ""))])})

    def _rolled_back(self, turns: Any) -> None:
        if type(turns) is not int or turns < 1 or not self._turns:
            return
        self._set_aside("revert")
        going = self._turns[-turns:]
        self._live.cut(going[0])
        del self._turns[-turns:]

    def _set_aside(self, reason: TimelineReason) -> None:
        self._flush()
        path = self._drafts.timeline(reason, self._time)
        if path is not None:
            self._live.copy_to(path)


def _call_id(item: Json) -> Any:
    """The id by which results refer to a call."""
    return item.get("call_id") or item.get("id")


def _texts(content: Any) -> list[str]:
    return [
        part["text"]
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    ]
