"""The model calls that a program's session file tells of, each with what tells it from all others, and its tokens.

A program copies records into the file of a fork or a resumed session, with their ids: a call that stands in several files
is one call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import TimeleapError
from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap_agents.mirrors import codex_files, opencode_database
from timeleap_agents.mirrors.formats.conversion import JsonLines, document, object_in, opened

JOURNAL: Final = "wire.jsonl"
"""Beside a log of kimi-cli: its events, which say what each call took."""

MOST_ABOVE: Final = 64
"""Threads of Codex that one comes from, one behind the other."""


class ModelCall(Struct, frozen=True):
    """A call of a model.

    Attributes:
        key: Tells it from all other calls, in whichever file it stands.
        input: Tokens of what was sent that no cache had; `cache_read` and `cache_write`: those that one had or got.
        output: Tokens of the answer, thoughts included.
        total: Of all of these; what was counted, where that is all that is known.
    """

    key: tuple[str, ...]
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    total: int = 0


def calls_in_file(kind: str, path: Path) -> list[ModelCall] | None:
    """Read the calls of a session file, each once, as the record tells it that has most of it. Blocking.

    Args:
        kind: Of the program.
        path: The file.

    Returns:
        None for a program whose files name no calls.

    Raises:
        InvalidInputError: There is no such file, or it is no ordinary one.
        StorageFailureError: It cannot be read.
    """
    if kind not in _READERS:
        return None
    records: Iterable[Json]
    if kind == "opencode":
        records = _messages_of_opencode(path)
    elif kind == "codex":
        return _calls_of_thread(path)
    else:
        records = _records(path.with_name(JOURNAL) if kind == "kimi" else path)
    found: dict[tuple[str, ...], ModelCall] = {}
    for record in records:
        call = _READERS[kind](record)
        if call is not None:
            found[call.key] = fuller(found.get(call.key), call)
    return list(found.values())


def fuller(known: ModelCall | None, call: ModelCall) -> ModelCall:
    """Choose the one of two records of a call that has more of it: a copy may have been made before it was over."""
    return call if known is None or call.total >= known.total else known


def _calls_of_thread(path: Path) -> list[ModelCall]:
    """The calls in all files of a thread of Codex. Counts alone do not tell a call from one of another thread; threads
    that one was forked from may have the same calls."""
    found: dict[tuple[str, ...], ModelCall] = {}
    threads = [codex_files.thread_key(path) or str(path)]
    for each in codex_files.segments_of(path):
        with suppress(*(() if each == path else (TimeleapError, OSError))):
            for record in _records(each):
                threads += _thread_named(record)
                call = _codex(record)
                if call is not None:
                    found[call.key] = call
    # A copy of another thread's records begins with what that one says of itself.
    first = _first_thread(path, threads[0]) or threads[-1]
    return [replace(call, key=(*call.key, first)) for call in found.values()]


def _thread_named(record: Json) -> list[str]:
    payload = record.get("payload")
    named = payload.get("id") if record.get("type") == "session_meta" and isinstance(payload, dict) else None
    return [named] if isinstance(named, str) else []


def _first_thread(path: Path, thread: str) -> str | None:
    """The thread that one comes from in the end, by forks and sub-agents; None for one that comes from no other."""
    facts, found = codex_files.first_facts(path), None
    for _ in range(MOST_ABOVE):
        forked = facts.get("forked_from_id")
        above = forked if isinstance(forked, str) and forked else codex_files.parent_in(facts)
        if above is None or above == thread:
            break
        found = thread = above
        files = codex_files.files_of(path, above)
        facts = codex_files.first_facts(files[0]) if files else {}
    return found


def _records(path: Path) -> Iterator[Json]:
    file = opened(path)
    try:
        whole = document(file)
        if whole is not None:
            messages = whole.get("messages")
            yield from (each for each in (messages if isinstance(messages, list) else []) if isinstance(each, dict))
            return
        yield from (line.record for line in JsonLines(file, LossTally()) if line.record is not None)
    finally:
        file.close()


def _messages_of_opencode(path: Path) -> list[Json]:
    """The messages of a session, those that the program has deleted with it, each as it was last. Raises as
    `opencode_database.reading`, and FileNotFoundError."""
    place = opencode_database.split(path)
    if place is None:
        raise FileNotFoundError(path)

    def read(connection: sqlite3.Connection) -> list[Json]:
        query = "SELECT data FROM event WHERE aggregate_id = ? AND type = 'message.updated.1' ORDER BY seq"
        events = connection.execute(query, (place[1],)) if "event" in opencode_database.tables(connection) else ()
        found: dict[str, Json] = {}
        for (text,) in events:
            info = (object_in(text) or {}).get("info")
            if isinstance(info, dict):
                found[str(info.get("id"))] = info
        for name, text in connection.execute("SELECT id, data FROM message WHERE session_id = ?", (place[1],)):
            found[str(name)] = object_in(text) or found.get(str(name), {})
        return list(found.values())

    return opencode_database.reading(place[0], read)


def _claude(record: Json) -> ModelCall | None:
    message = record.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if record.get("type") != "assistant" or not isinstance(message, dict) or not isinstance(usage, dict):
        return None
    name = message.get("id") or record.get("uuid")
    if not isinstance(name, str):
        return None
    sent, output = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    read, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    return ModelCall(("claude-code", name), sent, read, written, output, sent + read + written + output)


def _codex(record: Json) -> ModelCall | None:
    payload = record.get("payload")
    info = payload.get("info") if isinstance(payload, dict) and payload.get("type") == "token_count" else None
    if not isinstance(info, dict):
        return None
    last, so_far = info.get("last_token_usage"), info.get("total_token_usage")
    if not isinstance(last, dict) or not isinstance(so_far, dict):
        return None
    cached, output = _count(last, "cached_input_tokens"), _count(last, "output_tokens")
    sent = max(_count(last, "input_tokens") - cached, 0)
    # The same count is told again with each limit of rate; what is so far, in and out, tells one call from the next.
    key = ("codex", *(str(_count(so_far, name)) for name in ("input_tokens", "cached_input_tokens", "output_tokens")))
    return ModelCall((*key, str(sent), str(output)), sent, cached, 0, output, sent + cached + output)


def _gemini(record: Json) -> ModelCall | None:
    tokens, name = record.get("tokens"), record.get("id")
    if not isinstance(tokens, dict) or not isinstance(name, str):
        return None
    cached = _count(tokens, "cached")
    sent = max(_count(tokens, "input") - cached, 0)
    output = _count(tokens, "output") + _count(tokens, "thoughts")
    total = _count(tokens, "total") or sent + cached + output
    return ModelCall(("gemini", name), sent, cached, 0, output, total)


def _kimi(record: Json) -> ModelCall | None:
    message = record.get("message")
    payload = message.get("payload") if isinstance(message, dict) and message.get("type") == "StatusUpdate" else None
    usage = payload.get("token_usage") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or not isinstance(usage, dict):
        return None
    name = payload.get("message_id")
    # Where it names no message, a copy has the time of it.
    key = ("kimi", name) if isinstance(name, str) else ("kimi", str(record.get("timestamp")), str(usage))
    names = ("input_other", "input_cache_read", "input_cache_creation", "output")
    sent, read, written, output = (_count(usage, each) for each in names)
    return ModelCall(key, sent, read, written, output, sent + read + written + output)


def _kimi_code(record: Json) -> ModelCall | None:
    event = record.get("event")
    usage = event.get("usage") if isinstance(event, dict) and event.get("type") == "step.end" else None
    if not isinstance(event, dict) or not isinstance(usage, dict):
        return None
    names = ("inputOther", "inputCacheRead", "inputCacheCreation", "output")
    sent, read, written, output = (_count(usage, each) for each in names)
    key = ("kimi-code", str(event.get("uuid")))
    return ModelCall(key, sent, read, written, output, sent + read + written + output)


def _opencode(message: Json) -> ModelCall | None:
    tokens, times = message.get("tokens"), message.get("time")
    if message.get("role") != "assistant" or not isinstance(tokens, dict) or not isinstance(times, dict):
        return None
    told = tokens.get("cache")
    cache: Json = told if isinstance(told, dict) else {}
    sent, read, written = _count(tokens, "input"), _count(cache, "read"), _count(cache, "write")
    output = _count(tokens, "output") + _count(tokens, "reasoning")
    # A fork gives its copies new ids, and leaves their times.
    key = ("opencode", str(times.get("created")), str(times.get("completed")), str(sent), str(read), str(output))
    return ModelCall(key, sent, read, written, output, sent + read + written + output)


def _pi(record: Json) -> ModelCall | None:
    message = record.get("message")
    told = message if isinstance(message, dict) and "usage" in message else record
    usage = told.get("usage")
    if not isinstance(usage, dict):
        return None
    names = ("input", "cacheRead", "cacheWrite", "output")
    sent, read, written, output = (_count(usage, each) for each in names)
    key = ("pi", str(record.get("id")), str(record.get("timestamp")), str(told.get("timestamp")))
    return ModelCall(key, sent, read, written, output, sent + read + written + output)


def _count(counts: Json, name: str) -> int:
    """A count of tokens; 0 for what is none."""
    value = counts.get(name)
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


_READERS: Final[dict[str, Callable[[Json], ModelCall | None]]] = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "kimi": _kimi,
    "kimi-code": _kimi_code,
    "opencode": _opencode,
    "pi": _pi,
}
