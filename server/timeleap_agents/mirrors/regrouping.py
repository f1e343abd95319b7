"""Comparison of a log with what takes its place, in another order: a file that is read while its program writes says
some of it before the rest has a place. A call of an answer may be written behind the result of another one; a text may be
there in part."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from timeleap.call import to_its_end
from timeleap.errors import TimeleapError
from timeleap.sessions.past import referred_to
from timeleap.storage.log_values import LogState
from timeleap.storage.reader import LogReader
from timeleap.storage.record import decode_json
from timeleap_agents.mirrors.comparing import messages_in, messages_of
from timeleap_agents.mirrors.growing_file import (
    Conversation,
)
from timeleap_agents.mirrors.steps import Step

if TYPE_CHECKING:
    from timeleap.sessions.session import Session

_logger = logging.getLogger(__name__)
MOST_COMPARED: Final = 16 << 20
"""Bytes of a log, or of a file, beyond which no order of one turn is looked for."""


def keeps_all(log: LogReader, start: int, conversation: Conversation, steps: Sequence[Step]) -> bool:
    """True if each message of a log from the line `start` on is, whole or grown, among those that steps are. Blocking."""
    begun = log.entries(start, start + 1)[0].offset
    if log.state.length - begun > MOST_COMPARED or sum(step.length for step in steps) > MOST_COMPARED:
        return False
    missing = Counter(messages_in(log, start, log.state.lines))
    others: list[bytes] = []
    for message in messages_of(conversation, steps):
        if missing[message] > 0:
            missing[message] -= 1
        else:
            others.append(message)
    return all(_grew_into_one(message, others) for message in missing.elements())


def _grew_into_one(message: bytes, others: list[bytes]) -> bool:
    """True if one of the other messages says this one and more; that one is used up."""
    for number, other in enumerate(others):
        if _goes_on(decode_json(message), decode_json(other)):
            del others[number]
            return True
    return False


def _goes_on(message: Any, other: Any) -> bool:
    """True if the other message begins with all of this one."""
    if not isinstance(message, dict) or not isinstance(other, dict):
        return False
    if any(other.get(name) != value for name, value in message.items() if name not in ("content", "tool_calls")):
        return False
    calls, more = message.get("tool_calls") or [], other.get("tool_calls") or []
    text, longer = _text(message.get("content")), _text(other.get("content"))
    return more[: len(calls)] == calls and text is not None and longer is not None and longer.startswith(text)


def _text(content: Any) -> str | None:
    """A content that is words alone; None for another one."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    texts: list[str] = []
    for part in parts:
        text = part.get("think", part.get("text")) if isinstance(part, dict) else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts)


async def remove_timeline(session: Session, timeline_id: str) -> None:
    """Remove a timeline all of which the log says, unless a fork was made from it meanwhile."""
    engine, transactions = session.engine, session.transactions

    def remove() -> None:
        present = engine.timelines()
        kept = referred_to(present, transactions.fork_points(), engine)
        going = [each for each in present if each.timeline_id == timeline_id and timeline_id not in kept]
        transactions.state.remove_timelines(going)

    async def on_turn(_: LogState) -> None:
        await asyncio.to_thread(remove)

    try:
        await to_its_end(engine.run(on_turn))
    except (TimeleapError, OSError) as error:
        _logger.info("a timeline that says nothing more than the log stays: %s", error)
