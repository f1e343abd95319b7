"""Entries of a Claude Code transcript as records of a log, and back; and what the adapter has to know of an entry.

An entry of a person or the model is a message, so that windows show it; what the message does not say stands beside it
in the member `claude`. Every other entry is an opaque record. An entry that is too large for one record is cut into
several, which count only together.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

from timeleap.json_value import Json
from timeleap_agents.adapters.json_values import as_text, first_line, is_plain, readable, value_of

_log = logging.getLogger(__name__)

MEMBER: Final = "claude"
"""Member of a message with its entry: `entry`, the entry without its text; or `text`, the whole entry as JSON text. `content` says where the
entry's content is: `message` (the record's own), `result` (that is the result of the only tool) or `text` (that is the
text of the block number `block`)."""
OPAQUE: Final = "_claude"
PART: Final = "_claude-part"
MAX_RECORD_CHARACTERS: Final = 4 * 1024 * 1024
"""Limit on the JSON text of an entry in one record: escaped, and in UTF-8, it is well below the largest message."""
_NO_PROMPT: Final = ("<local-command-", "[Request interrupted")
"""How texts begin that the program writes in the person's name."""


def items_of(entry: Any) -> list[tuple[Json, int]]:
    """The entry as items of `context/appendMessage`, each with about as many characters as it has as JSON.

    Raises:
        ValueError: It cannot be kept: it is nested too deeply.
    """
    text, plain = as_text(entry)
    if len(text) > MAX_RECORD_CHARACTERS:
        return list(_parts(text))
    message = entry.get("message") if isinstance(entry, dict) and is_message(entry) else None
    if message is None:
        kept = {"entry": entry} if plain else {"text": text}
        return [({"record": {"role": OPAQUE, "content": "", **kept}}, len(text))]
    if not plain:
        shown = readable(_shown(message["content"]))
        return [({"role": entry["type"], "content": shown, MEMBER: {"text": text}}, 2 * len(text))]
    return [(_message(entry, message), 2 * len(text))]


def entries_of(records: Iterable[Json]) -> Iterator[Any]:
    """The entries that records keep; records of others are passed over, and so are parts of which some are missing.

    The entries are made of what the records hold, which are of no use after that.
    """
    parts: dict[str, list[str]] = {}
    for record in records:
        if record.get("role") == PART:
            texts = parts.setdefault(str(record.get("of")), [])
            if record.get("number") == 0:
                texts.clear()
            texts.append(str(record.get("text")))
            if len(texts) != record.get("count"):
                continue
            record = {"role": OPAQUE, "text": "".join(parts.pop(str(record.get("of"))))}  # noqa: PLW2901  (now whole)
        if (found := _entry(record)) is not None:
            yield found[0]


def uuid_of(record: Json) -> str | None:
    """The uuid of the entry that a record completes; None where it completes none, or one without uuid."""
    if record.get("role") == PART:
        count = record.get("count")
        uuid = record.get("uuid") if isinstance(count, int) and record.get("number") == count - 1 else None
        return uuid if isinstance(uuid, str) else None
    kept = record if record.get("role") == OPAQUE else record.get(MEMBER)
    if not isinstance(kept, dict):
        return None
    # Not made whole, since the record is still of use.
    entry = (_entry(record) or (None,))[0] if "text" in kept else kept.get("entry")
    uuid = entry.get("uuid") if isinstance(entry, dict) else None
    return uuid if isinstance(uuid, str) else None


def _entry(record: Json) -> tuple[Any] | None:
    """The entry of a record; None where it keeps none, or something that we never wrote."""
    kept = record if record.get("role") == OPAQUE else record.get(MEMBER)
    if not isinstance(kept, dict):
        return None
    try:
        if "text" in kept:
            return (value_of(kept["text"]),)
        return (kept["entry"] if kept is record else _rebuilt(record, kept),)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        _log.warning("a record of a transcript is passed over: it is not as it was written (%r)", error)
        return None


def is_message(entry: Json) -> bool:
    """True if the entry says something of the person or the model that a window can show."""
    message = entry.get("message")
    return (
        entry.get("type") in ("user", "assistant")
        and isinstance(message, dict)
        and message.get("role") == entry["type"]
        and _is_content(message.get("content"))
    )


def prompt_of(entry: Any) -> str | None:
    """The text a person asked for; None for everything else, results of tools and what the program says included."""
    if not isinstance(entry, dict) or entry.get("type") != "user" or not is_message(entry):
        return None
    if any(entry.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary")):
        return None
    content = entry["message"]["content"]
    blocks = [] if isinstance(content, str) else content
    if any(block.get("type") == "tool_result" for block in blocks):
        return None
    text = readable(_shown(content))
    return None if text.startswith(_NO_PROMPT) else text


def label_of(entry: Any) -> str | None:
    """Label of the checkpoint before the entry, or None if it gets no checkpoint."""
    if isinstance(entry, dict) and entry.get("subtype") == "compact_boundary":
        return "compacted"
    prompt = prompt_of(entry)
    return None if prompt is None else first_line(prompt) or "(no text)"


def title_of(entry: Any) -> str | None:
    """The name that an entry gives the conversation."""
    if not isinstance(entry, dict):
        return None
    title = entry.get("customTitle") or entry.get("aiTitle")
    return first_line(readable(title)) if isinstance(title, str) else None


def tokens_of(entries: Sequence[Any]) -> int | None:
    """The tokens of the context as the last answer of the model among them reports; None if none does."""
    for entry in reversed(entries):
        if not isinstance(entry, dict) or entry.get("type") != "assistant" or entry.get("isSidechain"):
            continue
        message = entry.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(usage, dict) or message.get("model") == "<synthetic>":
            continue
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        counts = [usage.get(name) for name in names]
        return sum(count for count in counts if type(count) is int and 0 <= count < 2**40)
    return None


def parent_of(entry: Any) -> str | None:
    """The uuid of the entry that this one continues."""
    parent = entry.get("parentUuid") if isinstance(entry, dict) else None
    return parent if isinstance(parent, str) else None


def _message(entry: Json, message: Json) -> Json:
    role, content = entry["type"], message["content"]
    rest = {**entry, "message": {name: value for name, value in message.items() if name != "content"}}
    if isinstance(content, str) or all(_is_plain_text(block) for block in content):
        return {"role": role, "content": content, MEMBER: {"entry": rest, "content": "message"}}
    only = content[0] if len(content) == 1 else {}
    if only.get("type") == "tool_result" and isinstance(only.get("tool_use_id"), str):
        said = {"role": "tool", "tool_call_id": only["tool_use_id"]}
        if isinstance(only.get("content"), str):
            rest["message"]["content"] = [{name: value for name, value in only.items() if name != "content"}]
            return {**said, "content": only["content"], MEMBER: {"entry": rest, "content": "result"}}
        return {**said, "content": _shown(only.get("content", "")), MEMBER: {"entry": entry}}
    calls = [_call(block) for block in content if _is_call(block)]
    thoughts = [
        {"type": "think", "think": block["thinking"]}
        for block in content
        if block.get("type") == "thinking" and isinstance(block.get("thinking"), str)
    ]
    called = {"tool_calls": calls} if calls else {}
    texts = [number for number, block in enumerate(content) if isinstance(block.get("text"), str)]
    if len(texts) == 1 and not thoughts:
        (number,) = texts
        block = {name: value for name, value in content[number].items() if name != "text"}
        rest["message"]["content"] = [*content[:number], block, *content[number + 1 :]]
        where = {"content": "text", "block": number}
        return {"role": role, "content": content[number]["text"], **called, MEMBER: {"entry": rest, **where}}
    parts = [*thoughts, {"type": "text", "text": _shown(content)}] if thoughts else _shown(content)
    return {"role": role, "content": parts, **called, MEMBER: {"entry": entry}}


def _rebuilt(record: Json, kept: Json) -> Json:
    """The entry, made whole in its place: a copy of each of many would take as long as reading them."""
    entry: Json = kept["entry"]
    where = kept.get("content")
    if where == "message":
        entry["message"]["content"] = record["content"]
    elif where == "result":
        entry["message"]["content"][0]["content"] = record["content"]
    elif where == "text":
        entry["message"]["content"][kept["block"]]["text"] = record["content"]
    return entry


def _parts(text: str) -> Iterator[tuple[Json, int]]:
    entry = json.loads(text)
    uuid = entry.get("uuid") if isinstance(entry, dict) else None
    starts = range(0, len(text), MAX_RECORD_CHARACTERS)
    for number, start in enumerate(starts):
        piece = text[start : start + MAX_RECORD_CHARACTERS]
        named = {"uuid": uuid} if isinstance(uuid, str) and is_plain(uuid) else {}
        part = {"of": f"{crc32(text.encode()):08x}-{len(text)}", "number": number, "count": len(starts), **named}
        yield {"record": {"role": PART, "content": "", **part, "text": piece}}, len(piece)


def _is_content(content: Any) -> bool:
    return isinstance(content, str) or (isinstance(content, list) and all(isinstance(block, dict) for block in content))


def _is_plain_text(block: Json) -> bool:
    return block.keys() == {"type", "text"} and block["type"] == "text" and isinstance(block["text"], str)


def _is_call(block: Json) -> bool:
    return block.get("type") == "tool_use" and isinstance(block.get("id"), str) and isinstance(block.get("name"), str)


def _call(block: Json) -> Json:
    function = {"name": block["name"], "arguments": json.dumps(block.get("input"), ensure_ascii=False)}
    return {"type": "function", "id": block["id"], "function": function}


def _shown(content: Any) -> str:
    """The text of a content as a window shows it."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return "\n".join(texts)
