"""Scan a session's directory for text to redact, and redact files that no process has open.

Each file is rewritten in one step. Nothing is noted of the redacted text, not even that a redaction is being
done: one cut short by a crash is requested again, finds the rest, and finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from zlib import crc32

from timeleap.errors import StorageFailureError
from timeleap.features.redaction.jsonedit import each_text, is_json
from timeleap.features.redaction.redact_sidecar_files import (
    forgetting,
    read_whole,
    redacted_bytes,
    redacted_file,
    redacted_meta,
)
from timeleap.features.redaction.redactor import MAX_NESTING, RedactedText, Redactor
from timeleap.sessions import files, session_files, undo
from timeleap.sessions.checkpoints import read_checkpoint
from timeleap.sessions.meta import decode
from timeleap.sessions.requests import RequestFile
from timeleap.sessions.session_files import LOG_NAME, META_NAME, REQUESTS_NAME
from timeleap.storage.durable import atomic_write, status
from timeleap.storage.engine import Edit, Entry, RecordFlag, RecordKind
from timeleap.storage.load import load
from timeleap.storage.rewrite import raw_lines, revise_closed

Json = dict[str, Any]
Kind = Literal["log", "timeline", "quarantine", "other"]
Told = Callable[[int], None]
"""Told how many bytes were looked at."""

MAX_PLACES: Final = 100
_TELL_EVERY: Final = 256


@dataclass(frozen=True, slots=True)
class Match:
    """A record that holds it; `index` is that of the message, None where it is none."""

    line: int
    index: int | None
    occurrences: int


@dataclass(slots=True)
class FileMatches:
    """Matches in one file.

    Attributes:
        path: The file.
        name: Its name in a report: relative to the session's directory, without the text to redact.
        trash: The name of the session's directory in the trash; None where it is not there.
        linked: The file has another name besides.
    """

    path: Path
    name: str
    kind: Kind
    trash: str | None = None
    linked: bool = False
    records: int = 0
    occurrences: int = 0
    kept: int = 0
    split: int = 0
    places: list[Match] = field(default_factory=list)

    def add(self, line: int, index: int | None, done: RedactedText) -> None:
        """Count what was found in one line."""
        self.kept += done.kept
        self.split += done.split
        if done.occurrences:
            self.records += 1
            self.occurrences += done.occurrences
            if len(self.places) < MAX_PLACES:
                self.places.append(Match(line, index, done.occurrences))


@dataclass(slots=True)
class LogFind:
    """Matches in a log, and the edits to make.

    Attributes:
        lines: Those that hold it, and whether they are records (else they are damaged).
        blank: Those whose request's fingerprint was made of what goes.
        uids: Checkpoints of the original program behind the first of those lines: their uids were made of the bytes
            before them, and are written down before these change.
    """

    find: FileMatches
    timeline_id: str | None
    lines: dict[int, bool] = field(default_factory=dict)
    blank: set[int] = field(default_factory=set)
    uids: dict[int, str] = field(default_factory=dict)

    def edit(self, redactor: Redactor) -> Edit:
        """The edit of each line."""

        def change(number: int, line: bytes) -> bytes | None:
            if (uid := self.uids.get(number)) is not None:
                record = line.rstrip()
                return record[:-1] + f',"_tl":{{"u":"{uid}"}}}}'.encode() + line[len(record) :]
            is_record = self.lines.get(number, number in self.blank)
            if is_record:
                blank = ("_tl", "h") if number in self.blank else None
                return redactor.record(line.decode(), blank).text.encode()
            return redacted_bytes(redactor, line)[0] if number in self.lines else None

        return change


@dataclass(slots=True)
class ScanResult:
    """Matches in a session's directory: in its logs, the live one first, and in other files."""

    directory: Path
    logs: list[LogFind] = field(default_factory=list)
    others: list[FileMatches] = field(default_factory=list)

    @property
    def finds(self) -> list[FileMatches]:
        """All files in which anything was found."""
        every = [*(log.find for log in self.logs), *self.others]
        return [find for find in every if find.occurrences or find.kept]


def look_at(directory: Path, redactor: Redactor, trash: str | None = None, told: Told = lambda _: None) -> ScanResult:
    """Look at every file of a session's directory.

    Raises:
        StorageFailureError: One cannot be read.
    """
    survey = ScanResult(directory)
    for file in session_files.list_files(directory):
        path = directory / file.name
        there = status(path)
        if file.rule.redaction in ("none", "remove") or there is None:
            continue
        kind: Kind = file.kind if file.kind in ("log", "timeline", "quarantine") else "other"
        find = FileMatches(path, redactor.text(file.name).text, kind, trash, there.names > 1)
        try:
            if file.rule.redaction == "records":
                survey.logs.append(_look_at_log(find, redactor, told))
            else:
                _look_at_file(find, redactor)
                told(file.bytes)
                survey.others.append(find)
        except FileNotFoundError:
            continue  # it went meanwhile
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, f"look into {file.name}", path) from error
    survey.logs.sort(key=lambda log: log.timeline_id is not None)
    return survey


def carry_out(survey: ScanResult, redactor: Redactor) -> None:
    """Redact the files of a session that nobody has open.

    Raises:
        StorageFailureError: Some of it may be done; it can be asked for again.
    """
    for log in survey.logs:
        if log.lines:
            revise_closed(log.find.path, log.edit(redactor))
    carry_out_in_sidecar_files(survey, redactor)
    RequestFile(survey.directory).rewrite(forgetting(redactor))
    if found := _has_members(survey.directory / META_NAME):
        members = redacted_meta(found, redactor)[0]
        if isinstance(journal := members.get("journal"), dict):
            # Whether it came true was to be seen by the fingerprint of a timeline that may have changed.
            timeline = f"{journal.get('timelineId')}.jsonl"
            true = "timelineId" not in journal or any(log.find.path.name == timeline for log in survey.logs)
            members["journal"] = {"requests": journal.get("requests", [])} if true else None
        if undo.MEMBER in members:
            following = undo.next_of(members[undo.MEMBER])
            done = following is not None and (survey.directory / f"{following['timelineId']}.jsonl").exists()
            stacks = undo.read(following.get("stacks") if following is not None and done else members[undo.MEMBER])
            members[undo.MEMBER] = stacks.without_redo().members()
        files.write_document(
            survey.directory / META_NAME, {key: value for key, value in members.items() if value is not None}
        )


def carry_out_in_sidecar_files(survey: ScanResult, redactor: Redactor) -> None:
    """Redact the files beside the logs, but for those with a form of their own; remove what a killed process left.

    Hold the session's lock.
    """
    session_files.remove_leftovers(survey.directory)
    for find in survey.others:
        if find.occurrences and not _has_members(find.path) and find.path.name != REQUESTS_NAME:
            _write_redacted(find.path, redactor)
    # Those too that were kept aside since: a damaged file was when what counts of it was written.
    for file in session_files.list_files(survey.directory):
        if file.kind == "damaged":
            _write_redacted(survey.directory / file.name, redactor)


def _write_redacted(path: Path, redactor: Redactor) -> None:
    try:
        after, _, before = redacted_file(path, redactor)
        if after != before:
            atomic_write(path, after)
    except FileNotFoundError:
        return
    except StorageFailureError:
        raise
    except OSError as error:
        raise StorageFailureError.of(error, f"redact {redactor.text(path.name).text}", path) from error


def every_text(directory: Path) -> Iterator[str]:
    """Every text in the files of a session, for those who look for what they do not know.

    Raises:
        StorageFailureError: One cannot be read.
    """
    for piece, is_log in _pieces(directory):
        text = piece.decode("utf-8", "replace")
        if not is_log:
            yield text
        for line in text.split("\n"):
            if is_json(line):
                yield from each_text(line, MAX_NESTING)
            elif is_log:
                yield line


def is_in(directory: Path, redactor: Redactor) -> bool:
    """True if any file of a session holds the text. Raises StorageFailureError."""
    return any(
        redactor.needle.may_be_in(piece) and redacted_bytes(redactor, piece)[1].occurrences
        for piece, _ in _pieces(directory)
    )


def _pieces(directory: Path) -> Iterator[tuple[bytes, bool]]:
    """The files of a session: logs line by line, others whole; and whether it is a log's."""
    for file in session_files.list_files(directory):
        path = directory / file.name
        try:
            if file.rule.redaction == "records":
                yield from ((line, True) for _, line in raw_lines(load(path, writable=False).log))
            elif file.rule.redaction != "none":
                yield read_whole(path), False
        except FileNotFoundError:
            continue  # it went meanwhile
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, f"look into {path.name}", path) from error


def _look_at_log(find: FileMatches, redactor: Redactor, told: Told) -> LogFind:
    path = find.path
    foreign = path.name.startswith(f"{LOG_NAME}.")
    found = LogFind(find, None if path.name == LOG_NAME else path.name if foreign else path.stem)
    log = load(path, writable=False).log
    request, seen = -1, 0  # the line whose request wrote this one, too
    for number, (entry, line) in enumerate(raw_lines(log)):
        seen += len(line) + 1
        if number % _TELL_EVERY == 0:
            told(seen)
            seen = 0
        flags = RecordFlag(0) if entry is None else entry.flags
        if flags & RecordFlag.REQUEST:
            request = number
        elif not flags & RecordFlag.BATCH_TAIL:
            request = -1
        done = _look_at_line(found, number, entry, line, redactor)
        if done.occurrences and request >= 0:
            found.blank.add(request)
        if found.lines and not done.occurrences and entry is not None and _has_derived_uid(entry):
            found.uids[number] = read_checkpoint(log, number).uid
    told(seen)
    return found


def _has_derived_uid(entry: Entry) -> bool:
    """True for a checkpoint of the original program."""
    return entry.kind == RecordKind.CHECKPOINT and not entry.flags & RecordFlag.HAS_TL


def _look_at_line(found: LogFind, number: int, entry: Entry | None, line: bytes, redactor: Redactor) -> RedactedText:
    """Note what is to be done about one line; says what was found in it."""
    holds = redactor.needle.may_be_in(line)
    if entry is None or entry.kind == RecordKind.DAMAGED or not _sound(line, entry):
        done = redacted_bytes(redactor, line)[1] if holds else RedactedText("")
        found.find.add(number, None, done)
        if done.occurrences:
            found.lines[number] = False
        return done
    index = entry.state.messages - 1 if entry.kind == RecordKind.MESSAGE else None
    in_parts = index is not None and line.count(b'"type"') > 1
    done = redactor.record(line.decode()) if holds or in_parts else RedactedText("")
    found.find.add(number, index, done)
    if done.occurrences:
        found.lines[number] = True
    return done


def _sound(line: bytes, entry: Entry) -> bool:
    return crc32(line + b"\n" if len(line) < entry.length else line) == entry.crc


def _look_at_file(find: FileMatches, redactor: Redactor) -> None:
    if members := _has_members(find.path):
        find.add(0, None, redacted_meta(members, redactor)[1])
        return
    after, done, before = redacted_file(find.path, redactor)
    find.add(0, None, done)
    pairs = zip(before.split(b"\n"), after.split(b"\n"), strict=False)
    find.records = max(find.records, sum(line != other for line, other in pairs))


def _members(path: Path) -> Json:
    found = files.read_document(path)
    return decode(found.members).members if found.members else {}


def _has_members(path: Path) -> Json:
    """The members of a `timeleap.json` that can be used; it has a form of its own."""
    return _members(path) if path.name == META_NAME else {}
