"""Summarisers behind one interface: the client, an endpoint and the built-in summariser.

A conversation too long for one is folded: the first part is summarised; the notes on it take its place before the next
part, as they would after a compaction; and so on to the end. So a summariser needs no other instructions for a part
than for the whole.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

from timeleap import message_text
from timeleap.errors import ClientRequestError, CompactionFailedError
from timeleap.features.compaction.prepare import SUMMARISER_SYSTEM_PROMPT, call_texts, prompt_message, summary_message
from timeleap.features.compaction.sizes import text_length
from timeleap_protocol.limits import DEFAULT_SUMMARIZER_TIMEOUT

if TYPE_CHECKING:
    from timeleap.call import Call

Record = Mapping[str, Any]
Name = Literal["caller", "client", "server", "builtin"]
"""Author of a summary; `caller`: it was handed in."""

BYTES_PER_TOKEN = 3
"""Bytes of UTF-8 in a token, on the safe side: English has about four, code three, Chinese three (a character)."""

SHARE_OF_WINDOW = 0.6
"""The part of a window that a prompt may fill; the answer and the error of the estimate need the rest."""

_FRAME = 80  # bytes around a message in a prompt
_LEAST = 2_000  # bytes of messages that a part has to have room for


def cost(prompt: Record) -> int:
    """Tokens of a prompt, estimated on the safe side."""
    return sum(len(text.encode(errors="replace")) for text in message_text.texts(prompt)) // BYTES_PER_TOKEN


def fits(prompt: Record, window: int | None) -> bool:
    """True if a prompt leaves enough of a window of so many tokens (None: of unknown size) for its answer."""
    return window is None or cost(prompt) <= window * SHARE_OF_WINDOW


class Fold:
    """The parts of a conversation, one after the other, for a summariser that can take `window` tokens."""

    def __init__(self, messages: Sequence[Record], custom_instruction: str, window: int) -> None:
        self._left = deque(messages)
        self._instruction = custom_instruction
        empty = len(message_text.texts(prompt_message([], custom_instruction))[-1].encode(errors="replace"))
        self._room = int(window * SHARE_OF_WINDOW) * BYTES_PER_TOKEN - empty
        self._size = sum(map(_size, messages))

    @property
    def done(self) -> int:
        """Percent of the conversation that was taken."""
        return 100 - 100 * sum(map(_size, self._left)) // max(1, self._size)

    def next_prompt(self, notes: str) -> dict[str, Any] | None:
        """The prompt of the next part, behind the summary of the parts before it; None when all is taken.

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
    return [*message_text.texts(message), *call_texts(message)]


def _halves(message: Record) -> list[Record]:
    """A message as two of its role, as text."""
    text = "\n".join(_shown(message))
    middle = len(text) // 2
    return [{"role": message.get("role"), "content": half} for half in (text[:middle], text[middle:])]


Hear = Callable[[int], None]
"""Told how many characters of an answer have come."""

NEXT_STEP = 'se the summarizer "builtin", or hand in a summary. Nothing was changed.'
_ENDS = 16  # tokens that may stand around a text
_SMALLEST_WINDOW = 1_000  # tokens; what is too long for less than this will not fit in parts either


class Answer(Struct, frozen=True):
    """A summary as a summariser gave it, not empty, and its tokens as the model counted them; None: not known."""

    text: str
    tokens: int | None = None

    def __post_init__(self) -> None:
        # No token is less than a byte: what counts more has counted thoughts as well.
        if self.tokens is not None and self.tokens > len(self.text.encode(errors="replace")) + _ENDS:
            force_setattr(self, "tokens", None)


class TooLongPromptError(Exception):
    """The summariser says that the prompt is too long for it."""


class TooLongAnswerError(Exception):
    """The summariser gave back more than it got."""


class Summarizer(Protocol):
    """Makes summaries of conversations; its window is in tokens, None where that is not known."""

    name: Name
    window: int | None

    async def summarize(self, prompt: Record, hear: Hear) -> Answer:
        """Answer a prompt (see `compaction.prompt_message`).

        Raises:
            CompactionFailedError: There is no usable answer.
            TooLongPromptError: The prompt is too long for it.
            TooLongAnswerError: The answer is longer than the prompt.
        """
        ...


class ClientSummarizer:
    """Asks the client, which has a model of its own that takes `window` tokens, where that is known. The instruction
    stands in the prompt, too; `settings` are `Config.summarizer`."""

    name: Name = "client"

    def __init__(
        self,
        call: Call,
        session_id: str,
        custom_instruction: str | None,
        settings: Mapping[str, Any],
        window: int | None,
    ) -> None:
        self.window = window
        self._client = call.client
        self._params = {"sessionId": session_id, "systemPrompt": SUMMARISER_SYSTEM_PROMPT}
        self._instruction = {} if custom_instruction is None else {"customInstruction": custom_instruction}
        self._timeout = float(settings.get("timeout", DEFAULT_SUMMARIZER_TIMEOUT))

    async def summarize(self, prompt: Record, hear: Hear) -> Answer:
        params = {**self._params, "prompt": prompt, **self._instruction}
        try:
            said = await self._client.request("context/summarize", params, timeout=self._timeout)
        except ClientRequestError as error:
            lasting = {"retryable": False} if error.data.get("reason") == "gone" else {}
            raise failed(f"the client made no summary: {error}", self.name, **error.data, **lasting) from error
        summary = said.get("summary") if isinstance(said, Mapping) else None
        if not isinstance(summary, str):
            raise failed("the client's answer to context/summarize has no text member summary", self.name)
        if not summary.strip():
            raise failed("the client's summary is empty", self.name)
        hear(len(summary))
        if len(summary) > text_length(prompt):
            raise TooLongAnswerError
        usage = said.get("usage")
        output = usage.get("output") if isinstance(usage, Mapping) else None
        return Answer(summary, output if type(output) is int and output > 0 else None)


class Builtin:
    """Asks nobody. It reads the messages themselves, not the prompt: see `summarised`."""

    name: Name = "builtin"


def failed(what: str, summarizer: str, **data: Any) -> CompactionFailedError:
    """The error of a summariser: what went wrong, and what to do now."""
    again = "U" if data.get("retryable") is False else "Try again, u"
    return CompactionFailedError(f"{what}. {again}{NEXT_STEP}", summarizer=summarizer, **data)


async def summarised(
    summarizer: Summarizer | Builtin, messages: Sequence[Record], custom_instruction: str, call: Call
) -> Answer:
    """A summary of `messages`, whole or, where they are too many for the summariser, in parts.

    Raises:
        CompactionFailedError: There is no usable summary.
        TooLongAnswerError: It is longer than what it is to stand for.
    """
    if isinstance(summarizer, Builtin):
        from timeleap.features.compaction.summary import summarise

        call.say("summarising")
        return Answer(await asyncio.to_thread(summarise, messages, custom_instruction))
    whole = prompt_message(messages, custom_instruction)
    window = summarizer.window
    while True:
        try:
            if fits(whole, window):
                call.say(f"the summariser ({summarizer.name}) reads {cost(whole)} tokens")
                return await summarizer.summarize(whole, _telling(call, ""))
            assert window is not None
            return await _folded(summarizer, Fold(messages, custom_instruction, window), call)
        except TooLongPromptError:
            window = min(window or cost(whole), cost(whole)) * 2 // 3
            if window < _SMALLEST_WINDOW:
                what = "the conversation is too long for the summariser, also in parts"
                raise failed(what, summarizer.name, retryable=False) from None
            call.say("too long for the summariser: in parts then")


async def _folded(summarizer: Summarizer, fold: Fold, call: Call) -> Answer:
    answer: Answer | None = None
    for number in itertools.count(1):
        percent = fold.done
        prompt = fold.next_prompt(answer.text if answer else "")
        if prompt is None:
            break
        if call.progress is not None:
            call.progress(f"the summariser ({summarizer.name}) reads part {number}", percent)
        answer = await summarizer.summarize(prompt, _telling(call, f"part {number}: "))
    assert answer is not None
    return answer


def _telling(call: Call, what: str) -> Hear:
    return lambda characters: call.say(f"{what}{characters} characters of the summary have come")
