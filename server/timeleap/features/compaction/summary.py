"""The built-in summariser: needs no model and no network, and quotes rather than rephrases.

It reads the messages from the newest to the oldest, collects what stands out under the six sections a summary has,
and fills them as far as the length allows, the newest first. What an earlier compaction wrote is carried on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from timeleap import message_text
from timeleap.features.compaction import fact_patterns
from timeleap.features.compaction.codestate import CodeState
from timeleap.features.compaction.prepare import (
    SECTIONS,
    call_text,
    call_texts,
    clip,
    fill,
    quoted,
)
from timeleap.features.compaction.sizes import text_length
from timeleap.message_text import is_summary, is_system_text
from timeleap.summaries.outcome import MAX_LINE, is_error, is_success, is_terminal_prompt

Record = Mapping[str, Any]

MIN_TOKENS = 600
SHARE = 0.25
"""A summary may have `SHARE` of the tokens it replaces, or `MIN_TOKENS` if that is more."""

SCANNED_CHARS = 4 * 1024 * 1024
"""Characters of a very long past that are read closely, the newest ones; before them, the user's words and old summaries."""

_READ_OF_USER = 8_000  # characters; what users paste beyond that is seldom a demand
_MAX_ITEMS = 400  # found in one section; more than any length allows to show
_SHORT_REQUEST = 1_000  # characters of a message in which every demand counts as strict
_SHORT_ITEM = 160  # characters that an item may always have
_TASK = "Asked for at the start: "
_DEMAND = "User: "
_PLACE = "Working directory: "
_REPEATED = 3  # outputs that end alike, from which their ends say nothing
_DIRECTORY = re.compile(
    r"(?:(?:current|working) directory|\bcwd|\bpwd)[`'\"]?\s*(?:is|:|=)\s*[`'\"]?(/[^\s`'\")\]]+)", re.IGNORECASE
)
_ANNOUNCED = re.compile(r"^(?:now,? )?(?:let's|let me|we will|we'll|i will|i'll|i am going to|first,? )", re.IGNORECASE)
_DATA = re.compile(r"(\S{24})\S{60,}(\S{8})")  # in a command; nobody reads it
_LABEL = re.compile(r"^\(?([A-Z][\w ]{2,24}):\s")


def summarise(messages: Sequence[Record], custom_instruction: str = "") -> str:
    """Summarise a conversation by extraction. What shares words with the instruction comes first.

    Returns:
        The six sections; never empty, never longer than the text it replaces (if that has any), and at most the
        greater of a quarter of its tokens and `MIN_TOKENS`.
    """
    size = sum(text_length(message) + sum(map(len, call_texts(message))) for message in messages)
    limit = max(MIN_TOKENS, int(size // message_text.CHARS_PER_TOKEN * SHARE)) * message_text.CHARS_PER_TOKEN
    limit = min(size, limit) if size else limit
    collector = _Collector(_words(custom_instruction), limit, _labels(messages))
    opening = _opening(messages)
    read = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        read += text_length(message)
        collector.take(message, closely=read <= SCANNED_CHARS, opening=index < opening)
    return fill(collector.sections(), limit)


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"\w{3,}", text.lower()))


def _opening(messages: Sequence[Record]) -> int:
    """Number of messages before the first answer; 0 if that part was compacted away."""
    answers = ("assistant", "tool")
    before = next((index for index, message in enumerate(messages) if message.get("role") in answers), len(messages))
    return 0 if any(map(is_summary, messages[:before])) else before


def _labels(messages: Sequence[Record]) -> frozenset[str]:
    """Line beginnings that occur in many outputs (`Current directory: ...`): they say nothing of a single output."""
    found: Counter[str] = Counter()
    for message in messages[-200:]:
        if message.get("role") != "assistant":
            ends = [text[-1000:] for text in message_text.texts(message)]
            found.update(
                {match[1] for text in ends for line in fact_patterns.lines(text) if (match := _LABEL.match(line))}
            )
    return frozenset(label for label, times in found.items() if times >= _REPEATED)


class _Items:
    """The items found for a section, newest first, without duplicates."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._seen: set[str] = set()
        self._ranks: tuple[list[str], list[str], list[str]] = ([], [], [])

    def add(self, text: str, *, limit: int, rank: int = 1, key: str = "") -> None:
        """Take in an item, of at most `limit` characters.

        Args:
            rank: 0 comes first; what shares words with the user's instruction has it anyway.
            key: What tells it from others; by default its words.
        """
        key = key or " ".join(sorted(_words(text))) or text
        if key in self._seen or len(self._seen) >= _MAX_ITEMS:
            return
        self._seen.add(key)
        self._ranks[0 if self._wanted & _words(text) else rank].append(quoted(clip(text, limit)))

    def all(self) -> list[str]:
        """The items, those to keep first coming first."""
        return [item for rank in self._ranks for item in rank]


class _Collector:
    """Takes messages from the newest to the oldest and keeps what belongs to a section."""

    def __init__(self, wanted: frozenset[str], limit: int, labels: frozenset[str]) -> None:
        self._items = {name: _Items(wanted) for name in SECTIONS}
        self._limit = limit
        self._item_limit = min(MAX_LINE, max(_SHORT_ITEM, limit // 20))
        self._labels = labels
        self._code = CodeState()
        self._newest_request = ""
        self._task = ""  # the oldest; of several before the first answer the last, which is about what to do
        self._opened = False
        self._preamble: list[str] = []  # the others of them
        self._last_word = ""
        self._reaction = ""  # what the agent said after the message in hand
        self._succeeded = False  # something went well after the message in hand
        self._results: dict[str, str] = {}  # by tool call: what came of it
        self._result = ""  # what came after the message in hand, for agents that call tools in their text
        self._directory = ""

    def take(self, message: Record, *, closely: bool, opening: bool) -> None:
        """Look at the message before all those taken so far: at all of it if `closely`, else only at what a user
        demands. If `opening`, nobody had answered yet."""
        if is_summary(message):
            self._carry_on("\n".join(message_text.texts(message)[1:]))
            return
        text = "\n".join(text for text in message_text.texts(message) if not is_system_text(text))
        if message.get("role") == "user" and text.strip():
            self._user(text, opening=opening, printed=not opening and self._is_output(text))
        if not closely:
            return
        if message.get("role") == "assistant":
            self._assistant(text, message)
        else:
            self._output(text, message)
        self._code.text(text, by_agent=message.get("role") == "assistant")

    def sections(self) -> dict[str, list[str]]:
        found = {name: items.all() for name, items in self._items.items()}
        found["current_focus"] = [*map(quoted, self._focus()), *found["current_focus"]]
        found["code_state"] = [*self._code.items(self._directory), *found["code_state"]]
        if len(self._directory) > 1:
            short = f"{self._directory}/"
            found = {name: [item.replace(short, "") for item in items] for name, items in found.items()}
        if self._directory:
            found["environment"].insert(0, quoted(f"{_PLACE}{self._directory}"))
        return found

    def _focus(self) -> Iterator[str]:
        # Together they fit into this section's share; the task at hand must never fall victim to its own length.
        if self._last_word:
            yield f"Last said by the agent: {clip(self._last_word, min(600, self._limit // 20))}"
        if self._task:
            yield f"{_TASK}{clip(self._task, min(1600, self._limit // 8), head=0.85)}"
        if self._newest_request not in ("", self._task):
            yield f"Last said by the user: {clip(self._newest_request, min(600, self._limit // 16))}"
        if self._preamble:
            yield f"Said before that: {clip(' '.join(reversed(self._preamble)), min(600, self._limit // 16))}"

    def _is_output(self, text: str) -> bool:
        """True if a user message is the output of a command: agents without tools get it so."""
        ends = list(fact_patterns.lines(text[-1000:]))[-4:]
        return any(map(self._is_framing, ends))

    def _is_framing(self, line: str) -> bool:
        """True if a line was added by a terminal around the output."""
        match = _LABEL.match(line)
        return is_terminal_prompt(line) or (match is not None and match[1] in self._labels)

    def _add(self, name: str, text: str, *, rank: int = 1, key: str = "") -> None:
        self._items[name].add(text, limit=self._item_limit, rank=rank, key=key)

    def _carry_on(self, old: str) -> None:
        sections = {name: fact_patterns.parted(old, name)[1] for name in SECTIONS}
        if not any(sections.values()):
            for sentence in fact_patterns.sentences(old):
                self._add("important_context", sentence)
        for name, found in sections.items():
            body = found[0].removeprefix("\n").removesuffix("\n") if found else ""
            if name == "code_state":
                body = self._code.carry_on(body)
            for line in reversed(body.splitlines()):  # what mattered most stands last there
                item = line.removeprefix("- ").strip()
                if item.startswith(_TASK):
                    self._task = item.removeprefix(_TASK)
                elif item.startswith(_PLACE):
                    self._directory = self._directory or item.removeprefix(_PLACE)
                elif item and item != "none" and not item.startswith("Last said by"):
                    strict = item.startswith(_DEMAND) and fact_patterns.is_strong(item)
                    self._items[name].add(item, limit=MAX_LINE * 4, rank=0 if strict else 1)

    def _user(self, text: str, *, opening: bool, printed: bool) -> None:
        said = "\n".join(line for line in fact_patterns.lines(text) if not self._is_framing(line)) or text
        if opening and self._opened:
            self._preamble.append(said)
        else:
            self._task = said
        self._opened = opening
        if not printed:
            self._newest_request = self._newest_request or said
        for sentence in reversed(list(fact_patterns.sentences(text[:_READ_OF_USER]))):
            if (
                not fact_patterns.is_demand(sentence)
                or fact_patterns.is_numbered(sentence)
                or self._is_framing(sentence)
            ):
                continue
            # What a program printed is seldom a demand of the user's; of long instructions the strict ones come first.
            strong = fact_patterns.is_strong(sentence) or len(text) <= _SHORT_REQUEST
            rank = 0 if strong and not printed else 2
            if not (printed and is_error(sentence)):
                self._add("important_context", f"{_DEMAND}{fact_patterns.bare_demand(sentence)}", rank=rank)

    def _assistant(self, text: str, message: Record) -> None:
        calls = message.get("tool_calls")
        called = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
        said = list(fact_patterns.sentences(_prose(text)))
        asked = "; ".join(filter(None, map(call_text, called)))
        self._last_word = self._last_word or " ".join(said[:4]) or asked
        for call in reversed(called):
            result = self._results.pop(str(call.get("id")), "")
            self._ran(call_text(call), result)
            self._code.call(call)
        blocks = list(fact_patterns.code_blocks(text))
        for before, block in reversed(blocks):
            if (
                fact_patterns.edited(block) is not None
                or not fact_patterns.is_code(block)
                or not fact_patterns.paths(before)
            ):
                self._ran(block, self._result)
        self._result = ""
        for sentence in reversed(said):
            if fact_patterns.is_to_do(sentence):
                self._add("active_issues", f"To do: {sentence}")
            elif fact_patterns.is_done(sentence):
                self._add("completed_tasks", sentence)
            elif fact_patterns.is_decision(sentence):
                self._add("important_context", sentence)
            elif not _ANNOUNCED.match(sentence):
                self._add("important_context", sentence, rank=2)
        self._reaction = clip(said[0], 140) if said else self._reaction

    def _ran(self, command: str, result: str) -> None:
        if not command:
            return
        came_of_it = f" -> {result}" if result else ""
        shown = clip(_DATA.sub(r"\1[...]\2", command), 160)
        self._items["completed_tasks"].add(
            f"Ran {shown}{came_of_it}", limit=300, key=f"ran {' '.join(command.split())}"
        )

    def _output(self, text: str, message: Record) -> None:
        found = list(fact_patterns.lines(text))
        telling = [line for line in found if not self._is_framing(line)]
        reaction = f" -> {self._reaction}" if self._reaction else ""
        outcome = " (later runs reported success)" if self._succeeded else ""
        for line in reversed(found):
            if not self._directory and (directory := _DIRECTORY.search(line)):
                self._directory = directory[1].rstrip(".,;")
            elif is_error(line) and not line.endswith((" error:", " errors:")):
                self._add("active_issues", f"{line}{reaction}{outcome}", key=line)
                reaction = ""  # once a message, at its last error
            elif fact_patterns.is_setup(line) and not _DIRECTORY.search(line) and not fact_patterns.is_demand(line):
                self._add("environment", line)
        self._succeeded = self._succeeded or any(is_success(line) for line in found)
        gist = _gist(telling)
        self._result = gist
        if isinstance(answer := message.get("tool_call_id"), str):
            self._results[answer] = gist


def _prose(text: str) -> str:
    """The text of an agent without its code blocks and thinking marks."""
    plain = fact_patterns.parted(text, "command", " ")[0].replace("<think>", " ")
    return "\n".join(plain.split("```")[::2])


def _gist(lines: Sequence[str]) -> str:
    """The line of an output that says most: how it ended, or how it begins."""
    plain = [line for line in lines if not fact_patterns.is_numbered(line) and not line.startswith(("[", "("))]
    ended = [line for line in plain[-3:] if is_success(line) or is_error(line)]
    chosen = ended[-1:] or (plain[:1] if len(plain) == len(lines) else [])
    return clip(_DATA.sub(r"\1[...]\2", chosen[0]), 100, head=0.9) if chosen else ""
