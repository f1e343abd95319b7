"""The model calls that a program's session file tells of, each with what tells it from all others, and its tokens.

A program copies records into the file of a fork or a resumed session, with their ids: a call that stands in several files
is one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from timeleap.mirrors.formats.conversion import Json, JsonLines, LossTally, document, opened


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
    """Read the calls of a session file, each once, as its last record tells it. Blocking.

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
    found: dict[tuple[str, ...], ModelCall] = {}
    for record in _records(path):
        call = _READERS[kind](record)
        if call is not None:
            found[call.key] = call
    return list(found.values())


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


def _count(counts: Json, name: str) -> int:
    """A count of tokens; 0 for what is none."""
    value = counts.get(name)
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


_READERS: Final[dict[str, Callable[[Json], ModelCall | None]]] = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini": _gemini,
}
