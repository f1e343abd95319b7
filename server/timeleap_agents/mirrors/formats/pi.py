"""The entries of a session file of pi, which make a tree: the one that is active, what of it is sent to the model, and
what was left.

Each entry names the one before it. The last of the file is the end of the active branch. A compaction stands for what was
before it but what it keeps; an edit puts another content in the place of an earlier one, or none.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from timeleap.json_value import Json
from timeleap.storage.log_values import TimelineReason
from timeleap_agents.mirrors.formats.conversion import image_part, parts_in, text_part, think_part
from timeleap_agents.mirrors.id_numbers import CallNotes, IdNumbers, NumberLists
from timeleap_agents.mirrors.scratch import STAGE, Column, Scratch
from timeleap_agents.mirrors.steps import PackedList, Step, Steps

SUMMARY: Final = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>"
)
BRANCH_SUMMARY: Final = (
    "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n{}</summary>"
)
_STATE: Final = frozenset({"model_change", "thinking_level_change", "usage", "custom", "label", "session_info"})
"""Types of entries that are known and no part of what was said."""
_FAILED: Final = frozenset({"error", "aborted"})
_SENT: Final = frozenset({"user", "assistant", "toolResult", "system", "custom", "hookMessage", "bashExecution"})


KINDS: Final = ("message", "summary", "edit", "other")
_FAILED_MARK: Final = 1
_OMITS: Final = 2
_OF_SYSTEM: Final = 4


class PiEntry(Struct, array_like=True):
    """An entry of the tree.

    Attributes:
        kind: `message`, `summary` of a compaction, `edit`, or `other`.
        role: Of a message. `failed`: the program does not send it again.
        kept: Of a compaction: the id of the first entry that it keeps. Of an edit: the id of the one it changes.
        omits: An edit that leaves the other out.
        calls, result: Ids of the calls that a message makes, and of the one that it answers.
    """

    id: str
    offset: int
    length: int
    time: str | None
    kind: str = "other"
    role: str = ""
    failed: bool = False
    kept: str = ""
    omits: bool = False
    calls: tuple[str, ...] = ()
    result: str = ""


class EntryStep(Step, frozen=True):
    """Attributes:
    edit: Offset of the edit that says what stands in the entry, and its length; -1: none.
    calls: Ids of the calls that it makes; `result`: of the one that it answers.
    """

    edit: int = -1
    edit_length: int = 0
    calls: tuple[str, ...] = ()
    result: str = ""


class EntryTree:
    """All entries, in their order; of a million there are a few numbers each. As steps they are known by their places, with
    what an edit puts into them by a negative number.

    Attributes:
        scratch: Where numbers about the entries are put aside.
        left: Ends of the branches that were left, and the reasons.
        lost: Numbers of the calls of results that go with no call of the branch that was shown last.
        lost_edits: Places of edits that change no entry of a branch that was shown.
    """

    def __init__(self) -> None:
        self.left: list[tuple[int, TimelineReason]] = []
        self.lost: list[int] = []
        self.lost_edits: set[int] = set()
        self._all_calls = CallNotes()
        self._written = PackedList(PiEntry)  # those that are written twice included
        scratch = self.scratch = Scratch()
        self._ids, self._call_ids = IdNumbers(scratch), IdNumbers(scratch)
        self._place_of = Column(scratch, "I")  # by the number of an id, from 1
        self._place_of.append(0)
        # By place: what was written there last, and facts of it.
        self._parent, self._offset = Column(scratch, "i"), Column(scratch, "Q")
        self._entry, self._id, self._kept, self._result = (Column(scratch, "I") for _ in range(4))
        self._kinds, self._marks = bytearray(), bytearray()
        self._calls = NumberLists(scratch)  # by the number of what was written
        self._edited: list[tuple[int, int]] = []
        self._codes: dict[tuple[int, int], int] = {}

    @property
    def head(self) -> int:
        """The end of the active branch; -1 where there is none."""
        return len(self._entry) - 1

    @property
    def failed(self) -> list[int]:
        """The places of entries that the program does not send again."""
        return [place for place, marks in enumerate(self._marks) if marks & _FAILED_MARK]

    def number(self, entry_id: str) -> int:
        """The number of an id."""
        return self._ids.number(entry_id)

    def add(self, entry: PiEntry, parent: object, kept: int) -> None:
        """Put an entry at the end, behind its `parent`: an id, or None where a conversation begins. A parent that was
        never written is the one that precedes in the file, as a circle's is. `kept`: the number of the id that it names."""
        number, head = self._ids.number(entry.id), self.head
        self._place_of.extend([0] * (len(self._ids) + 1 - len(self._place_of)))
        if self._place_of[number]:
            # The last says what is in it, the first where it stands.
            if entry.kind != "other":
                self._set(self._place_of[number] - 1, entry, kept)
            return
        before = -1 if parent is None else self._named(parent, head)
        if head >= 0 and (before != head or entry.kind == "edit"):
            self.left.append((head, "import"))
        elif entry.kind == "summary":
            self.left.append((head, "compact"))
        self._place_of[number] = head + 2
        self._id.append(number)
        self._parent.append(before)
        if head % STAGE == 0:
            self.scratch.let_go()
        for column in (self._entry, self._offset, self._kept, self._result, self._kinds, self._marks):
            column.append(0)
        self._set(head + 1, entry, kept)

    def _named(self, parent: object, head: int) -> int:
        place = self._place_of[self._ids.find(parent)] if isinstance(parent, str) else 0
        return place - 1 if place else head

    def _set(self, place: int, entry: PiEntry, kept: int) -> None:
        self._entry[place], self._offset[place], self._kept[place] = self._written.add(entry), entry.offset, kept
        self._calls.append(map(self._call_ids.number, entry.calls))
        self._result[place] = self._call_ids.number(entry.result)
        for call in map(self._call_ids.number, entry.calls):
            self._all_calls.make(call)
        if entry.result:
            self._all_calls.answer(self._result[place])
        if entry.kind == "edit" and not entry.omits:
            self.lost_edits.add(place)
        self._kinds[place] = KINDS.index(entry.kind)
        marks = _FAILED_MARK * entry.failed + _OMITS * entry.omits + _OF_SYSTEM * (entry.role == "system")
        self._marks[place] = marks

    def shown(self, head: int, *, failed: bool = False) -> Steps:
        """List the entries that are sent of the branch that ends at `head`. `failed`: with an answer at its end that failed."""
        way = array("i", self._way(head))
        way.reverse()
        chosen = self._since_compaction(way)
        edits = {self._kept[at]: at for at in chosen if self._kind(at) == "edit"}
        codes = array("i")
        calls = bytearray(len(self._call_ids) + 1)
        self.lost = []
        for number, at in enumerate(chosen):
            edit = edits.get(self._id[at], -1)
            is_old_summary = self._kind(at) == "summary" and number > 0
            is_dropped = self._marks[at] & _FAILED_MARK and not (failed and at == head)
            if self._kind(at) not in ("message", "summary") or is_old_summary or is_dropped:
                continue
            if edit >= 0 and self._marks[edit] & _OMITS:
                continue
            if self._result[at] and not calls[self._result[at]]:
                self.lost.append(self._result[at])
                continue
            for call in self._calls.of(self._entry[at]):
                calls[call] = True
            codes.append(at if edit < 0 else self._code(at, edit))
        return Steps(self, codes)

    def orphans(self) -> int:
        """Number of results that go with no call: of the branch that was shown last, or, elsewhere, of any."""
        return len(self.lost) + self._all_calls.alone_but(self.lost)

    def speaks(self, steps: Steps) -> bool:
        """True if some of the steps are no system prompts."""
        return any(not self._marks[self._place(code)] & _OF_SYSTEM for code in steps.places)

    def reaches(self, steps: Steps, since: int) -> bool:
        """True if some of the steps are of lines at or behind this offset."""
        return any(self._offset[self._place(code)] >= since for code in steps.places)

    def step(self, place: int) -> EntryStep:
        """The step that a number stands for."""
        entry = self._written[self._entry[self._place(place)]]
        key, edited = f"{entry.id}.{entry.offset}", (-1, 0)
        if place < 0:
            edit = self._written[self._entry[self._edited[-place - 1][1]]]
            key, edited = f"{key}.{edit.offset}", (edit.offset, edit.length)
        return EntryStep(key, entry.offset, entry.length, entry.time, *edited, entry.calls, entry.result)

    def _kind(self, place: int) -> str:
        return KINDS[self._kinds[place]]

    def _place(self, code: int) -> int:
        return code if code >= 0 else self._edited[-code - 1][0]

    def _code(self, place: int, edit: int) -> int:
        """The number of an entry with what an edit puts into it."""
        self.lost_edits.discard(edit)
        code = self._codes.get((place, edit))
        if code is None:
            self._edited.append((place, edit))
            code = self._codes[place, edit] = -len(self._edited)
        return code

    def _since_compaction(self, way: array[int]) -> array[int]:
        """The places of a branch that count: behind the last compaction, with what that keeps."""
        last = next((at for at in reversed(range(len(way))) if self._kind(way[at]) == "summary"), -1)
        if last < 0:
            return way
        kept = self._kept[way[last]]
        first = next((number for number in range(last) if kept and self._id[way[number]] == kept), last)
        between = array("i", (at for at in way[first:last] if not self._marks[at] & _OF_SYSTEM))
        return way[last : last + 1] + between + way[last + 1 :]

    def _way(self, place: int) -> Iterator[int]:
        """The places from an entry back to where its conversation begins. Parents precede, so it has an end."""
        while place >= 0:
            yield place
            place = self._parent[place]


def entry_of(record: Json, entry_id: str, offset: int, length: int, time: str | None) -> PiEntry | None:
    """An entry without its parent; None for what is none that is known."""
    kind = record.get("type")
    made = PiEntry(entry_id, offset, length, time)
    if kind == "message":
        return _message(made, record.get("message"))
    if kind == "custom_message":
        made.kind, made.role = "message", "custom"
    elif kind == "branch_summary":
        made.kind, made.role = ("message", "summary") if record.get("summary") else ("other", "")
    elif kind == "compaction":
        made.kind, made.kept = "summary", str(record.get("firstKeptEntryId") or "")
    elif kind == "context_edit":
        made.kind, made.kept = "edit", str(record.get("targetId") or "")
        made.omits = not isinstance(record.get("replacement"), dict)
    elif not isinstance(kind, str) or kind not in _STATE:
        return None
    return made


def _message(made: PiEntry, message: Any) -> PiEntry | None:
    if not isinstance(message, dict) or str(message.get("role")) not in _SENT:
        return None
    made.kind, made.role = "message", str(message["role"])
    made.failed = made.role == "assistant" and str(message.get("stopReason")) in _FAILED
    made.failed = made.failed or (made.role == "bashExecution" and message.get("excludeFromContext") is True)
    if made.role == "assistant":
        made.calls = tuple(str(part.get("id")) for part in parts_in(message.get("content")) if is_call(part))
    elif made.role == "toolResult":
        made.result = str(message.get("toolCallId"))
    return made


def is_call(part: Json) -> bool:
    """True of a part that calls a tool."""
    return part.get("type") == "toolCall"


def shown_part(part: Json) -> Json | None:
    """A part as a message of ours holds it; None where it has no form here."""
    kind = part.get("type")
    if kind == "text":
        return text_part(str(part.get("text") or ""))
    if kind == "thinking":
        signature = part.get("thinkingSignature") if part.get("redacted") is True else None
        return think_part(str(part.get("thinking") or ""), signature)
    if kind == "image" and isinstance(part.get("data"), str):
        return image_part(f"data:{part.get('mimeType')};base64,{part['data']}")
    return None


def prompt_in(message: Json) -> str:
    """The text of a system message: its content, and the sections that it sets."""
    sections = message.get("sections")
    texts = [str(part.get("text") or "") for part in parts_in(message.get("content"))]
    texts += [text for text in (sections.values() if isinstance(sections, dict) else ()) if isinstance(text, str)]
    return "\n\n".join(text for text in texts if text)


def command_in(message: Json) -> str:
    """The text by which the model is told of a command that the person ran."""
    output, exit_code = message.get("output"), message.get("exitCode")
    said = f"```\n{output}\n```" if output else "(no output)"
    text = f"Ran `{message.get('command')}`\n{said}"
    if message.get("cancelled") is True:
        return f"{text}\n\n(command cancelled)"
    return f"{text}\n\nCommand exited with code {exit_code}" if type(exit_code) is int and exit_code else text
