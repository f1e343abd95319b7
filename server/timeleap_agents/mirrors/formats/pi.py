"""The entries of a session file of pi, which make a tree: the one that is active, what of it is sent to the model, and
what was left.

Each entry names the one before it. The last of the file is the end of the active branch. A compaction stands for what was
before it but what it keeps; an edit puts another content in the place of an earlier one, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from timeleap.json_value import Json
from timeleap.storage.engine import TimelineReason
from timeleap_agents.mirrors.formats.conversion import image_part, text_part, think_part

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


class PiEntry(Struct):
    """An entry of the tree.

    Attributes:
        parent: The place of the one before it; -1: it begins a conversation.
        kind: `message`, `summary` of a compaction, `edit`, or `other`.
        role: Of a message. `failed`: the program does not send it again.
        kept: Of a compaction: the id of the first entry that it keeps. Of an edit: the id of the one it changes.
        omits: An edit that leaves the other out.
        calls, result: Ids of the calls that a message makes, and of the one that it answers.
    """

    id: str
    parent: int
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


class ShownEntry(Struct, frozen=True):
    """An entry as it is shown. `edit`: the place of the one that says what stands in it."""

    entry: PiEntry
    edit: int = -1


class EntryTree(Struct):
    """All entries, in their order.

    Attributes:
        left: Ends of the branches that were left, and the reasons.
        orphans: Results that go with no call of the active branch.
    """

    entries: list[PiEntry] = field(default_factory=list)
    left: list[tuple[int, TimelineReason]] = field(default_factory=list)
    orphans: int = 0
    _places: dict[str, int] = field(default_factory=dict)

    @property
    def head(self) -> int:
        """The end of the active branch; -1 where there is none."""
        return len(self.entries) - 1

    def add(self, entry: PiEntry, parent: object) -> None:
        """Put an entry at the end, behind its `parent`: an id, or None where a conversation begins. A parent that was
        never written is the one that precedes in the file, as a circle's is."""
        head = self.head
        if entry.id in self._places:
            self._again(entry)
            return
        entry.parent = -1 if parent is None else self._places.get(parent, head) if isinstance(parent, str) else head
        if head >= 0 and (entry.parent != head or entry.kind == "edit"):
            self.left.append((head, "import"))
        elif entry.kind == "summary":
            self.left.append((head, "compact"))
        self._places[entry.id] = len(self.entries)
        self.entries.append(entry)

    def _again(self, entry: PiEntry) -> None:
        """Take an entry that is written twice: the last says what is in it, the first where it stands."""
        place = self._places[entry.id]
        if entry.kind != "other":
            entry.parent = self.entries[place].parent
            self.entries[place] = entry

    def shown(self, head: int, *, failed: bool = False) -> list[ShownEntry]:
        """List the entries that are sent of the branch that ends at `head`. `failed`: with an answer at its end that failed."""
        way = list(self._way(head))
        way.reverse()
        chosen = self._since_compaction(way)
        edits = {self.entries[at].kept: at for at in chosen if self.entries[at].kind == "edit"}
        found: list[ShownEntry] = []
        calls = set[str]()
        self.orphans = 0
        for number, at in enumerate(chosen):
            entry = self.entries[at]
            edit = edits.get(entry.id, -1)
            is_old_summary = entry.kind == "summary" and number > 0
            is_dropped = entry.failed and not (failed and at == head)
            if entry.kind not in ("message", "summary") or is_old_summary or is_dropped:
                continue
            if edit >= 0 and self.entries[edit].omits:
                continue
            if entry.result and entry.result not in calls:
                self.orphans += 1
                continue
            calls.update(entry.calls)
            found.append(ShownEntry(entry, edit))
        return found

    def _since_compaction(self, way: list[int]) -> list[int]:
        """The places of a branch that count: behind the last compaction, with what that keeps."""
        summaries = [number for number, at in enumerate(way) if self.entries[at].kind == "summary"]
        if not summaries:
            return way
        last = summaries[-1]
        kept = self.entries[way[last]].kept
        first = next((number for number in range(last) if self.entries[way[number]].id == kept), last)
        between = [at for at in way[first:last] if self.entries[at].role != "system"]
        return [way[last], *between, *way[last + 1 :]]

    def _way(self, place: int) -> Iterator[int]:
        """The places from an entry back to where its conversation begins. Parents precede, so it has an end."""
        while place >= 0:
            yield place
            place = self.entries[place].parent


def entry_of(record: Json, entry_id: str, offset: int, length: int, time: str | None) -> PiEntry | None:
    """An entry without its parent; None for what is none that is known."""
    kind = record.get("type")
    made = PiEntry(entry_id, -1, offset, length, time)
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


def parts_in(content: Any) -> list[Json]:
    """The parts of a content, which may be a text alone."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


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
