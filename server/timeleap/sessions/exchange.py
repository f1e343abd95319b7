"""Tool exchanges at the end of a log: is there a call that waits for its result, and where would the log be sound?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from timeleap.sessions.outcomes import Exchange
from timeleap.sessions.tool_pairs import answered, called
from timeleap.storage.engine import LogReader, Role
from timeleap.storage.record import decode_json

_FARTHEST: Final = 1000  # messages that are looked at: no exchange is longer


def open_exchange(log: LogReader, messages: int) -> Exchange | None:
    """The tool exchange that the first `messages` messages of a log end in the middle of, if they do.

    Raises:
        CorruptedError: A message there is not what was written.
    """
    results: set[str] = set()
    for index in range(messages - 1, max(-1, messages - 1 - _FARTHEST), -1):
        line = log.line_of_message(index)
        record = _record(log, line)
        if log.entries(line, line + 1)[0].role is Role.ASSISTANT:
            missing = [call_id for call_id in _calls(record) if call_id not in results]
            return Exchange(index, tuple(missing)) if missing else None
        results |= answered(record)
    return None


def healed(log: LogReader, exchange: Exchange) -> Exchange:
    """The exchange with the index of the first message that has to go, so that what stays can be sent to a model."""
    index = exchange.index
    while (earlier := open_exchange(log, index)) is not None:
        index = earlier.index
    return replace(exchange, index=index, healed=True)


def _record(log: LogReader, line: int) -> dict[str, Any]:
    found = decode_json(log.read(line, line + 1)[0])
    return found if isinstance(found, dict) else {}


def _calls(record: dict[str, Any]) -> list[str]:
    """The ids of the calls, in their order."""
    known = called(record)
    return list(dict.fromkeys(call["id"] for call in record.get("tool_calls") or () if _id(call) in known))


def _id(call: object) -> str | None:
    found = call.get("id") if isinstance(call, dict) else None
    return found if isinstance(found, str) else None
