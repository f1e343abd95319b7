"""A session of Codex as it grows: one reader for mirrors, imports, and what is gone on with. Each item is a message.

A thread may have several files: where it went back, it goes on in a further one, and a fork begins with a part of
another thread's. What the file that is read begins with is read first, then the file itself.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Final, NamedTuple

from timeleap import clock
from timeleap.errors import InvalidInputError, TimeleapError
from timeleap.features.transfer_losses import LossTally
from timeleap.json_value import Json
from timeleap.sessions.past import first_words
from timeleap_agents.mirrors import codex_files
from timeleap_agents.mirrors.codex_thread import ItemStep, Kind, Thread
from timeleap_agents.mirrors.formats.codex import (
    ItemWriter,
    LineChange,
    call_of,
    change_of,
    counts_as_prompt,
    is_aborted,
    prompt_of,
    result_of,
    said_in,
    words_in,
)
from timeleap_agents.mirrors.formats.conversion import JsonLine, RecordWriter, folder_of, sound, time_of, workspace_of
from timeleap_agents.mirrors.growing_file import (
    Conversation,
    Earlier,
    GrowingFile,
    ResumableSession,
    version_of,
)
from timeleap_agents.mirrors.id_numbers import IdNumbers
from timeleap_agents.mirrors.steps import Step

TESTED: Final = (0, 169, 0)
"""The newest version of Codex whose files these tests have read."""
TURN_ENDS: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})
MAX_BASES: Final = 64
"""Files that one begins with, one behind the other."""
_OF_COPIES: Final = frozenset({"id", "status", "metadata", "internal_chat_message_metadata_passthrough"})
_OF_OTHERS: Final = frozenset({"history_base", "forked_from_id", "forked_from_ordinal_exclusive", "parent_thread_id"})
"""Facts that bind a session to other files."""


class _Base(NamedTuple):
    """A file, and how much of it another one begins with: up to a number of bytes, and of lines as they are numbered."""

    path: Path
    bytes: object
    lines: object

    def has(self, line: JsonLine, record: Json) -> bool:
        """True for a line that the other file begins with."""
        if type(self.bytes) is int:
            return line.offset < self.bytes
        number = record.get("ordinal")
        return type(self.lines) is not int or type(number) is not int or number < self.lines


class CodexLog(Conversation):
    """The conversation of a thread, as one file of it says it."""

    writer = "codex"
    tested = TESTED

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._thread = Thread()
        self._files = {path: self.file}
        self._facts: Json | None = None
        self._bases: list[_Base] = []
        self._begun = False
        self._events: array[int] | None = array("i")  # what events say, as long as nothing else says it
        self._answered = False  # there are answers among them
        self._heard: tuple[str, bytes] | None = None  # the last of them: the kind of event, and its words
        # Of words, by their number: how often events say them more than items.
        self._words, self._said = IdNumbers(), array("i", [0])
        self._unheard = {"user": 0, "assistant": 0}
        self._copied: set[bytes] | None = None  # digests of the items of the thread that a sub-agent works for
        self._copies = 0

    @classmethod
    def files_of(cls, path: Path) -> list[Path]:
        return codex_files.segments_of(path)

    @classmethod
    def present_of(cls, paths: Sequence[Path]) -> Path:
        return codex_files.present_of(paths)

    def read(self) -> None:
        super().read()
        if self.session_id:
            found = codex_files.title_of(self.file.path, self.session_id)
            self.title = sound(found) if found and found.strip() else None
        losses = self.file.left_out
        lost = self._thread.orphans() + self._thread.homeless()
        losses.put("results", "results go with no call of the conversation", lost)
        for role, said in (("user", "prompts"), ("assistant", "answers")):
            alone = 0 if self._events is not None else self._unheard[role]
            losses.put("events", f"{said} stand in events alone", alone)
        losses.put("copied", "items repeat the session that a sub-agent works for", self._copies)

    # Reading

    def _take(self, line: JsonLine, record: Json) -> None:
        if not self._begun:
            self._begun = True
            self._read_bases(record)
        self._take_line(self.file.path, line, record)

    def _take_line(self, path: Path, line: JsonLine, record: Json) -> None:
        when = time_of(record.get("timestamp"))
        change = change_of(record, self.file.left_out)
        if path == self.file.path or self._is_own(path):
            self._note_place(when, change)
        if change is None:
            return
        make = _StepMaker(path, self._name_of(path), line, when)
        if change.facts is not None:
            self._take_facts(path, change.facts, make)
        if not self._is_copy(change):
            self._change(change, make, line.offset if path == self.file.path else -1)

    def _note_place(self, when: str | None, change: LineChange | None) -> None:
        """Note when and where a line was written."""
        if when is not None:
            self.created_at = min(self.created_at or when, when)
            self.updated_at = max(self.updated_at or when, when)
        if change is not None and (change.facts is None or self._facts is None):
            workspace = workspace_of(change.folder)
            if workspace is not None:
                self.began_in, self.workspace = self.began_in or workspace, workspace

    def _take_facts(self, path: Path, facts: Json, make: _StepMaker) -> None:
        if prompt_of(facts) and self._thread.system is None and self._thread.is_empty:
            self._thread.system = make.step("other")
        if path != self.file.path:
            return
        if self._facts is None:
            self._facts = facts
            self._id = sound(str(facts.get("id"))[:200])
            self.version = version_of(facts.get("cli_version"))
            began = time_of(facts.get("timestamp"))
            if began is not None:
                self.created_at = min(self.created_at or began, began)
                self.updated_at = self.updated_at or began
        elif (parent := codex_files.parent_in(self._facts)) is not None and facts.get("id") == parent:
            self._copied = self._items_of(parent)

    def _change(self, change: LineChange, make: _StepMaker, offset: int) -> None:
        if change.goes == "revert":
            self._thread.roll_back(change.turns, offset)
        elif change.goes == "compact":
            steps = tuple(make.item(item) for item in change.items)
            if change.keeps:
                self._thread.compact(None, steps[0] if steps else None, offset)
            else:
                self._thread.compact(steps, None, offset)
                self._note_words(change.items, are_copies=True)
        else:
            for item in change.items:
                self._thread.add(make.item(item))
            self._note_words(change.items)
        if change.tokens is not None:
            self._thread.add(make.step("tokens"))
        for item in change.heard:
            self._take_event(item, change.event, make)

    def _note_words(self, items: tuple[Json, ...], *, are_copies: bool = False) -> None:
        """Note what items say; `are_copies`: most of them have said it before."""
        for item in items:
            if (words := said_in(item)) is None:
                continue
            role = str(item["role"])
            if not are_copies or self._is_unheard(role, words):
                self._count(role, words, -1)
            if role == "user":
                self.first_prompt = self.first_prompt or first_words({"content": sound(words)})
            self._events = None

    def _take_event(self, item: Json, event: str, make: _StepMaker) -> None:
        before, self._heard = self._heard, (event, _fingerprint(item))
        if before is not None and before[0] != event and before[1] == self._heard[1]:
            return  # the same words in two kinds of events
        words, said = words_in(item), said_in(item)
        if said is not None:
            self._count(str(item["role"]), said, 1)
        if self._events is None:
            return
        self._events.append(self._thread.note(make.step("event")))
        self._answered = self._answered or item.get("role") == "assistant"
        if words:
            self.first_prompt = self.first_prompt or first_words({"content": sound(words)})

    def _number(self, role: str, words: str) -> int:
        """The number of what a person, or the program, says."""
        number = self._words.number(f"{role}.{''.join(words.split())}")
        if number == len(self._said):
            self._said.append(0)
        return number

    def _is_unheard(self, role: str, words: str) -> bool:
        """True of words that stand in events alone, so far."""
        return self._said[self._number(role, words)] > 0

    def _count(self, role: str, words: str, change: int) -> None:
        number = self._number(role, words)
        before = max(0, self._said[number])
        self._said[number] += change
        self._unheard[role] += max(0, self._said[number]) - before

    # Other files of the thread, and of those it comes from

    def _is_own(self, path: Path) -> bool:
        own, other = codex_files.named(self.file.path), codex_files.named(path)
        return own is not None and other is not None and own.thread == other.thread

    def _name_of(self, path: Path) -> str:
        """Which file of the thread it is, in the keys of steps; empty for the first."""
        name = codex_files.named(path)
        if name is None or (name.segment is None and self._is_own(path)):
            return ""
        return f"{name.segment or name.thread}:"

    def _read_bases(self, first: Json) -> None:
        """Take in what the file begins with."""
        own, bases = [self.file.path], []
        record = first
        for _ in range(MAX_BASES):
            payload = record.get("payload")
            base = payload.get("history_base") if isinstance(payload, dict) else None
            if not isinstance(base, dict) or not isinstance(name := base.get("thread_id"), str):
                break
            found = [path for path in codex_files.files_of(self.file.path, name) if path not in own]
            if not found:
                text = f"parts of the conversation are in a file that is not there, of the thread {sound(name[:50])}"
                self.file.left_out.add("base", text)
                break
            path = codex_files.present_of(found)
            bases.append(_Base(path, base.get("end_byte_offset"), base.get("end_ordinal_exclusive")))
            own.append(path)
            record = _first_record(path)
        self._bases = bases[::-1]
        self.parts = own
        for base in self._bases:
            self._read_base(base)

    def _read_base(self, base: _Base) -> None:
        file = self._files[base.path] = GrowingFile(base.path)
        cut: int | None = None
        try:
            for line in file.added():
                record = line.record
                if record is not None:
                    if cut is None and not base.has(line, record):
                        cut = self._thread.head
                        if not self._is_own(base.path):
                            return
                    self._take_line(base.path, line, record)
        except TimeleapError as error:
            self.file.left_out.add("base", f"parts of the conversation are in a file that cannot be read: {error}")
        finally:
            file.forget_fresh()
            if cut is not None:
                self._thread.go_to(cut, 0)

    # The copy of the parent's history that sub-agents of earlier versions have

    def _items_of(self, thread: str) -> set[bytes] | None:
        """Digests of all items of a thread; None where there is no file of it."""
        digests: set[bytes] = set()
        for path in codex_files.files_of(self.file.path, thread):
            if path != self.file.path:
                for line in GrowingFile(path).added():
                    change = change_of(line.record or {}, LossTally()) or LineChange()
                    digests |= {_fingerprint(item) for item in (*change.items, *change.heard)}
        return digests or None

    def _is_copy(self, change: LineChange) -> bool:
        if self._copied is None:
            return False
        items = (*change.items, *change.heard)
        if all(_fingerprint(item) in self._copied for item in items):
            self._copies += len(change.items)
            return True
        self._copied = None
        return False

    # The conversation

    def steps(self) -> Sequence[Step]:
        if self._events is not None and self._answered:
            return self._thread.with_system(self._events)
        return self._thread.steps() if self._thread.speaks else []

    def earlier(self, since: int = 0) -> list[Earlier]:
        return [Earlier(steps, reason) for steps, reason in self._thread.earlier(since)]

    def write(self, steps: Sequence[Step], log: RecordWriter) -> Iterator[Step]:
        items = ItemWriter(log, self.file.left_out)
        for step, change in self._changes(steps):
            if step.kind == "tokens":
                log.usage(change.tokens)
            elif step == self._thread.system:
                log.system_prompt(prompt_of(change.facts or {}) or "")
            else:
                said = change.heard if step.kind == "event" else change.items
                if step.item < len(said):
                    items.take(said[step.item], step.time)
            yield step

    def open_calls(self, steps: Sequence[Step]) -> set[str]:
        found = {kind: {step.call for step in _items(steps) if step.kind == kind} for kind in ("call", "result")}
        return found["call"] - found["result"]

    def _changes(self, steps: Sequence[Step]) -> Iterator[tuple[ItemStep, LineChange]]:
        """Find the change that the line of each step makes; each line is read once. Blocking."""
        for path, of_file in groupby(_items(steps), key=lambda step: step.file):
            lines = [list(line) for _, line in groupby(of_file, key=lambda step: step.offset)]
            records = self._files[path].records([line[0] for line in lines])
            for line, (_, record) in zip(lines, records, strict=True):
                change = change_of(record, LossTally()) or LineChange()
                for step in line:
                    yield step, change

    # Going on

    def continuation(self, steps: Sequence[Step]) -> ResumableSession:
        if self._facts is not None and self._facts.get("cli_version") is None:
            raise InvalidInputError.of("sessionId", "mirrors a file of a form that Codex does not go on in any more")
        session_id = str(uuid.uuid4())
        name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S')}-{session_id}.jsonl"
        healed = []
        if self._facts is None:
            healed.append("the line with the facts of the session, which is not in the file, is written")
        if lost := self._thread.orphans():
            healed.append(f"{lost} results of calls that are not in the conversation are left out")
        kept = list(_items(steps))
        flat = bool(lost) or self._copies > 0 or self._thread.moved or kept[-1].kind == "event"
        written = self._items_alone(kept) if flat else self._lines_up_to(kept[-1])
        folder = self.file.path.parent
        if folder.name == codex_files.ARCHIVE:
            folder = folder.parent / codex_files.SESSIONS / time.strftime("%Y/%m/%d")
        path = folder / name
        return ResumableSession(
            path, self._numbered(written, session_id), ("codex", "resume", session_id), tuple(healed)
        )

    def _numbered(self, records: Iterator[Json], session_id: str) -> Iterator[Json]:
        """The lines of a new session: its facts, then these, numbered where the program numbers them."""
        facts = {name: value for name, value in (self._facts or {}).items() if name not in _OF_OTHERS}
        if isinstance(facts.get("source"), dict):
            facts |= {"source": "cli", "thread_source": "user"}
        now = self.created_at or clock.now_iso()
        if not facts:
            version = ".".join(map(str, TESTED))
            facts = {
                "timestamp": now,
                "cwd": folder_of(self.workspace),
                "originator": "timeleap",
                "cli_version": version,
            }
        meta = {
            "timestamp": now,
            "type": "session_meta",
            "payload": {**facts, "id": session_id, "session_id": session_id},
        }
        numbered = facts.get("history_mode") is not None
        for number, record in enumerate(chain([meta], records)):
            yield {**record, "ordinal": number} if numbered else record

    def _items_alone(self, steps: list[ItemStep]) -> Iterator[Json]:
        """The items of these steps, each on a line of its own. Blocking."""
        for step, change in self._changes([*steps]):
            said = change.heard if step.kind == "event" else change.items
            if step.kind == "tokens" or step == self._thread.system or step.item >= len(said):
                continue
            item = said[step.item]
            if item.get("type") == "summary":
                item = _said("user", str(item.get("text")), "input_text")
            elif step.kind == "event":
                kind = "output_text" if item.get("role") == "assistant" else "input_text"
                item = _said(str(item.get("role")), "\n".join(part.get("text", "") for part in item["content"]), kind)
            yield {"timestamp": step.time or self.updated_at, "type": "response_item", "payload": item}

    def _lines_up_to(self, last: ItemStep) -> Iterator[Json]:
        """The lines up to a step, whatever they took back, and what ends its turn. Blocking."""
        lines = self._lines()
        for path, line, record in lines:
            if (path, line.offset) == (last.file, last.offset):
                yield _up_to_item(record, last.item)
                break
            yield record
        behind: list[Json] = []
        for _, _, record in lines:
            change = change_of(record, LossTally()) or LineChange()
            if change.items or change.goes is not None:
                return
            behind.append(record)
            payload = record.get("payload")
            if isinstance(payload, dict) and payload.get("type") in TURN_ENDS:
                yield from behind
                return

    def _lines(self) -> Iterator[tuple[Path, JsonLine, Json]]:
        """All lines that the conversation was made of, with their files, but those with facts of a session."""
        for base in [*self._bases, _Base(self.file.path, None, None)]:
            for line in GrowingFile(base.path).added():
                record = line.record
                if record is None:
                    continue
                if not base.has(line, record):
                    break
                if record.get("type") != "session_meta":
                    yield base.path, line, record


class _StepMaker:
    """Makes the steps of a line."""

    def __init__(self, path: Path, name: str, line: JsonLine, when: str | None) -> None:
        self._path, self._name, self._line, self._time = path, name, line, when
        self._made = 0
        self._items = 0

    def step(self, kind: Kind, item: int = 0, call: str = "") -> ItemStep:
        number, self._made = self._made, self._made + 1
        key = f"{self._name}{self._line.offset}.{number}"
        return ItemStep(key, self._line.offset, self._line.length, self._time, self._path, item, kind, call)

    def item(self, item: Json) -> ItemStep:
        """The step of the next item of the line."""
        number, self._items = self._items, self._items + 1
        if (call := call_of(item)) is not None:
            return self.step("call", number, call)
        if (result := result_of(item)) is not None:
            return self.step("result", number, result)
        if counts_as_prompt(item):
            return self.step("prompt", number)
        return self.step("aborted" if is_aborted(item) else "other", number)


def _items(steps: Sequence[Step]) -> Iterator[ItemStep]:
    return (step for step in steps if isinstance(step, ItemStep))


def _first_record(path: Path) -> Json:
    """The record on the first line of a file that has one; empty where it cannot be read."""
    with suppress(TimeleapError):
        for line in GrowingFile(path).added():
            if line.record is not None:
                return line.record
    return {}


def _up_to_item(record: Json, item: int) -> Json:
    """A line without the items of a compaction behind one of them."""
    payload = record.get("payload")
    if record.get("type") != "compacted" or not isinstance(payload, dict):
        return record
    history = payload.get("replacement_history")
    if not isinstance(history, list):
        return record
    kept = [each for each in history if isinstance(each, dict)][: item + 1]
    return {**record, "payload": {**payload, "replacement_history": kept}}


def _fingerprint(item: Json) -> bytes:
    """A digest of an item, apart from members that a copy of it may not have."""
    said = {name: value for name, value in item.items() if name not in _OF_COPIES}
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=12).digest()


def _said(role: str, text: str, kind: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
