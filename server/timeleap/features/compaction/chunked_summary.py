"""Folding: a conversation too long for a summariser, summarised in parts.

The first part is summarised; the notes on it take its place before the next part, as they would after a compaction;
and so on to the end. So a summariser needs no other instructions for a part than for the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from timeleap import tokens
from timeleap.errors import CompactionFailedError
from timeleap.features.compaction.prepare import call_texts, prompt_message, summary_message

Record = Mapping[str, Any]

BYTES_PER_TOKEN = 3
"""Of UTF-8, on the safe side: English has about four, code three, Chinese three (a character)."""

SHARE_OF_WINDOW = 0.6
"""The part of a window that a prompt may fill; the answer and the error of the estimate need the rest."""

_FRAME = 80  # bytes around a message in a prompt
_LEAST = 2_000  # bytes of messages that a part has to have room for


def cost(prompt: Record) -> int:
    """Tokens of a prompt, estimated on the safe side."""
    return sum(len(text.encode(errors="replace")) for text in tokens.texts(prompt)) // BYTES_PER_TOKEN


def fits(prompt: Record, window: int | None) -> bool:
    """True if a prompt leaves enough of a window of so many tokens (None: of unknown size) for its answer."""
    return window is None or cost(prompt) <= window * SHARE_OF_WINDOW


class Fold:
    """The parts of a conversation, one after the other.

    Args:
        messages: The conversation, in its JSON form.
        custom_instruction: An instruction of the user's; empty for none.
        window: Tokens the summariser can take.
    """

    def __init__(self, messages: Sequence[Record], custom_instruction: str, window: int) -> None:
        self._left = deque(messages)
        self._instruction = custom_instruction
        empty = len(tokens.texts(prompt_message([], custom_instruction))[-1].encode(errors="replace"))
        self._room = int(window * SHARE_OF_WINDOW) * BYTES_PER_TOKEN - empty
        self._size = sum(map(_size, messages))

    @property
    def done(self) -> int:
        """Percent of the conversation that was taken."""
        return 100 - 100 * sum(map(_size, self._left)) // max(1, self._size)

    def next_prompt(self, notes: str) -> dict[str, Any] | None:
        """The prompt of the next part; None when all is taken.

        Args:
            notes: The summary of the parts before it; empty for the first.

        Raises:
            CompactionFailedError: The window has no room for the notes and anything else.
        """
        if not self._left:
            return None
        before = [summary_message(notes)] if notes else []
        room = self._room - sum(map(_size, before))
        if room < _LEAST:
            raise CompactionFailedError(
                "the conversation does not fit into the summariser's window, not even in parts: "
                "give it a larger window, or hand in a summary. Nothing was changed.",
                retryable=False,
            )
        return prompt_message([*before, *self._take(room)], self._instruction)

    def _take(self, room: int) -> list[Record]:
        taken: list[Record] = []
        while self._left and (size := _size(self._left[0])) <= room:
            taken.append(self._left.popleft())
            room -= size
        if not taken:
            self._left.extendleft(reversed(_halves(self._left.popleft())))
            return self._take(room)
        return taken


def _size(message: Record) -> int:
    return _FRAME + sum(len(text.encode(errors="replace")) + 1 for text in _shown(message))


def _shown(message: Record) -> list[str]:
    return [*tokens.texts(message), *call_texts(message)]


def _halves(message: Record) -> list[Record]:
    """A message as two of its role, as text."""
    text = "\n".join(_shown(message))
    middle = len(text) // 2
    return [{"role": message.get("role"), "content": half} for half in (text[:middle], text[middle:])]
