"""Looking for a text in every file of a session's directory, and redacting the files that no process has open.

Each file is rewritten in one step. Nothing is noted of the redacted text, not even that a redaction is being
done: one cut short by a crash is requested again, finds the rest, and finishes.

Files with a form of their own keep it. Of the requests that were made nothing is left in which a guess could be tried:
neither fingerprints of their params, nor heads of the log as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from zlib import crc32

from msgspec import Struct, field

from timeleap.errors import NotSupportedByStoreError, StorageFailureError
from timeleap.features.redaction.redactor import MAX_NESTING, RedactedText, Redactor, Token, each_text, is_json
from timeleap.json_value import Json
from timeleap.optional_parts import part
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents import session_files, undo_member
from timeleap.sessions.documents.meta import REQUESTS_REDACTED, decode
from timeleap.sessions.documents.request_file import HIGHEST, RequestFile
from timeleap.sessions.documents.session_files import AUDIT_NAME, LOG_NAME, META_NAME, REQUESTS_NAME, STATE_NAME
from timeleap.sessions.past import read_checkpoint
from timeleap.storage.durable import atomic_write, remove_file, status, storage_errors
from timeleap.storage.load import load
from timeleap.storage.log_values import RecordFlag, RecordKind
from timeleap.storage.scrub import raw_lines, revise_closed

Kind = Literal["log", "timeline", "quarantine", "other"]
Told = Callable[[int], None]
"""Told how many bytes were looked at."""

MAX_FILE: Final = 1 << 30
MAX_PLACES: Final = 100
_TELL_EVERY: Final = 256

_FINGERPRINT: Final = re.compile(rb'("_tl":\{(?:[^{}"]|"[^"\\]*")*?"h":")[0-9a-f]{16}(?=")')
"""A request's fingerprint, in records that are damaged or in quarantine."""
_KEPT_FINGERPRINT: Final = re.compile(rb'("(?:h|head)"\s*:\s*")[^"\\]*(?=")')
"""A request's fingerprint or head in a damaged file of ours that was kept aside."""
_META_FIXED: Final = frozenset(
    (
        *("version", "uid", "createdAt", "epoch", "rotation", "autoCheckpoint", "inheritedLines", "parent", "undo"),
        "requestsOf",
    )
)
_OWN_FIELD: Final = re.compile(r'"field":"\w+"')
"""In an entry of the audit whose field has a name of ours: behind a colon stands what an action is called."""
_IDENTITY: Final = frozenset(("checkpointUid", "fromSessionId", "h", "m", "timelineId", "chain", "reason", "createdAt"))
_SEAL_FIXED: Final = frozenset(("mac", "changedAt"))
"""Members of a seal that stay as they are: its cover does not change with the name of the client that asked for it."""


class Match(Struct, frozen=True):
    """A record that holds it; `index` is that of the message, None where it is none."""

    line: int
    index: int | None
    occurrences: int


class FileMatches(Struct):
    """Matches in one file, and the edits to make if it is a log.

    Attributes:
        path: The file.
        name: Its name in a report: relative to the session's directory, without the text to redact.
        trash: The name of the session's directory in the trash; None where it is not there.
        linked: The file has another name besides.
        lines: Of a log, the lines that hold it, and whether they are records (else they are damaged).
        blank: The lines whose request's fingerprint was made of what goes.
        uids: Checkpoints of the original program behind the first of `lines`: their uids were made of the bytes
            before them, and are written down before these change.
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
    lines: dict[int, bool] = field(default_factory=dict)
    blank: set[int] = field(default_factory=set)
    uids: dict[int, str] = field(default_factory=dict)

    def add(self, line: int, index: int | None, done: RedactedText) -> None:
        self.kept += done.kept
        self.split += done.split
        if done.occurrences:
            self.records += 1
            self.occurrences += done.occurrences
            if len(self.places) < MAX_PLACES:
                self.places.append(Match(line, index, done.occurrences))

    @property
    def timeline_id(self) -> str | None:
        """Timeline id of a log."""
        if self.path.name == LOG_NAME:
            return None
        return self.path.name if self.path.name.startswith(f"{LOG_NAME}.") else self.path.stem

    def edited(self, redactor: Redactor, number: int, line: bytes) -> bytes | None:
        """A line of the log as it is to be; None where it stays (see `engine.Edit`)."""
        if (uid := self.uids.get(number)) is not None:
            record = line.rstrip()
            return record[:-1] + f',"_tl":{{"u":"{uid}"}}}}'.encode() + line[len(record) :]
        if self.lines.get(number, number in self.blank):
            blank = ("_tl", "h") if number in self.blank else None
            return redactor.record(line.decode(), blank).text.encode()
        return redacted_bytes(redactor, line)[0] if number in self.lines else None


class ScanResult(Struct):
    """Matches in a session's directory: in its logs, the live one first, and in other files."""

    directory: Path
    logs: list[FileMatches] = field(default_factory=list)
    others: list[FileMatches] = field(default_factory=list)

    @property
    def finds(self) -> list[FileMatches]:
        """All files in which anything was found."""
        return [find for find in (*self.logs, *self.others) if find.occurrences or find.kept]


def look_at(directory: Path, redactor: Redactor, trash: str | None = None, told: Told = lambda _: None) -> ScanResult:
    """Look at every file of a session's directory.

    Raises:
        StorageFailureError: One cannot be read.
    """
    scan = ScanResult(directory)
    for file in session_files.list_files(directory):
        path = directory / file.name
        there = status(path)
        if file.rule.redaction in ("none", "remove") or there is None:
            continue
        kind: Kind = file.kind if file.kind in ("log", "timeline", "quarantine") else "other"
        find = FileMatches(path, redactor.clean(file.name), kind, trash, there.names > 1)
        with storage_errors(f"look into {file.name}", path), suppress(FileNotFoundError):  # it may go meanwhile
            if file.rule.redaction == "records":
                _look_at_log(find, redactor, told)
                scan.logs.append(find)
            elif file.rule.redaction == "kept":
                _look_at_kept(find, redactor, told)
                scan.others.append(find)
            else:
                _look_at_file(find, redactor)
                told(file.bytes)
                scan.others.append(find)
    scan.logs.sort(key=lambda log: log.timeline_id is not None)
    return scan


def _look_at_log(find: FileMatches, redactor: Redactor, told: Told) -> None:
    log = load(find.path, writable=False).log
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
        index, is_record = None, False
        if entry is not None and entry.kind != RecordKind.DAMAGED:
            is_record = crc32(line + b"\n" if len(line) < entry.length else line) == entry.crc
            index = entry.state.messages - 1 if is_record and entry.kind == RecordKind.MESSAGE else None
        done = RedactedText("")
        if redactor.needle.may_be_in(line) or (index is not None and line.count(b'"type"') > 1):  # split over parts
            done = redactor.record(line.decode()) if is_record else redacted_bytes(redactor, line)[1]
        find.add(number, index, done)
        if done.occurrences:
            find.lines[number] = is_record
            if request >= 0:
                find.blank.add(request)
        elif find.lines and entry is not None and entry.kind == RecordKind.CHECKPOINT and not flags & RecordFlag.HAS_TL:
            find.uids[number] = read_checkpoint(log, number).uid
    told(seen)


def _look_at_kept(find: FileMatches, redactor: Redactor, told: Told) -> None:
    for number, line in enumerate(_kept_files().lines_of(find.path)):
        if redactor.needle.may_be_in(line):
            find.add(number, None, redacted_bytes(redactor, line)[1])
        told(len(line))


def _look_at_file(find: FileMatches, redactor: Redactor) -> None:
    if members := _meta_members(find.path):
        find.add(0, None, redacted_meta(members, redactor)[1])
        return
    after, done, before = _redacted_file(find.path, redactor)
    find.add(0, None, done)
    pairs = zip(before.split(b"\n"), after.split(b"\n"), strict=False)
    find.records = max(find.records, sum(line != other for line, other in pairs))


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
        with storage_errors(f"look into {path.name}", path), suppress(FileNotFoundError):  # it may go meanwhile
            if file.rule.redaction == "records":
                yield from ((line, True) for _, line in raw_lines(load(path, writable=False).log))
            elif file.rule.redaction == "kept":
                yield from ((line, True) for line in _kept_files().lines_of(path))
            elif file.rule.redaction != "none":
                yield read_whole(path), False


def redact_closed(scan: ScanResult, redactor: Redactor) -> None:
    """Redact the files of a session that nobody has open; hold its lock.

    Raises:
        StorageFailureError: Some of it may be done; it can be asked for again.
    """
    for log in scan.logs:
        if log.lines:
            revise_closed(log.path, partial(log.edited, redactor))
    redact_sidecar_files(scan, redactor)
    RequestFile(scan.directory).rewrite(lambda request: forget_request(redactor, request))
    if found := _meta_members(scan.directory / META_NAME):
        members = redacted_meta(found, redactor)[0]
        if isinstance(journal := members.get("journal"), dict):
            # Whether it came true was to be seen by the fingerprint of a timeline that may have changed.
            timeline = f"{journal.get('timelineId')}.jsonl"
            true = "timelineId" not in journal or any(log.path.name == timeline for log in scan.logs)
            members["journal"] = {"requests": journal.get("requests", [])} if true else None
        if undo_member.MEMBER in members:
            following = undo_member.next_of(members[undo_member.MEMBER])
            done = following is not None and (scan.directory / f"{following['timelineId']}.jsonl").exists()
            stacks = undo_member.read(
                following.get("stacks") if following is not None and done else members[undo_member.MEMBER]
            )
            members[undo_member.MEMBER] = stacks.without_redo().members()
        files.write_document(
            scan.directory / META_NAME, {key: value for key, value in members.items() if value is not None}
        )


def redact_sidecar_files(scan: ScanResult, redactor: Redactor) -> None:
    """Redact the files beside the logs, but for those with a form of their own; remove what a killed process left.

    Hold the session's lock.
    """
    session_files.remove_leftovers(scan.directory)
    for find in scan.others:
        if session_files.classify(find.path.name)[0].redaction == "kept":
            if find.occurrences:
                _kept_files().rewrite(find.path, partial(_clean_line, redactor))
        elif find.occurrences and not _meta_members(find.path) and find.path.name != REQUESTS_NAME:
            _rewrite(find.path, redactor)
    # Those too that were kept aside since: a damaged file was when what counts of it was written.
    for file in session_files.list_files(scan.directory):
        if file.kind == "damaged":
            _rewrite(scan.directory / file.name, redactor)
        elif file.kind == "snapshots":
            remove_file(scan.directory / file.name)


def _clean_line(redactor: Redactor, line: bytes) -> bytes:
    return redacted_bytes(redactor, line)[0] if redactor.needle.may_be_in(line) else line


def _rewrite(path: Path, redactor: Redactor) -> None:
    with storage_errors(f"redact {redactor.clean(path.name)}", path), suppress(FileNotFoundError):
        after, _, before = _redacted_file(path, redactor)
        if after != before:
            atomic_write(path, after)


def _redacted_file(path: Path, redactor: Redactor) -> tuple[bytes, RedactedText, bytes]:
    """A file redacted, the text redacted in it, and its present content."""
    before = read_whole(path)
    if session_files.classify(path.name)[0].kind == "damaged":
        after, done = redacted_bytes(redactor, before)
        return _KEPT_FINGERPRINT.sub(rb"\1", after), done, before
    if not redactor.needle.may_be_in(before):
        return before, RedactedText(""), before
    if path.name == STATE_NAME and is_json(text := before.decode("utf-8", "surrogateescape")):
        done = redactor.json(text, lambda token: token.key or not token.string)
    elif path.name in (REQUESTS_NAME, AUDIT_NAME):
        done = RedactedText("")
        lines: list[str] = []
        for line in before.decode("utf-8", "surrogateescape").split("\n"):
            form = _audit_form if _OWN_FIELD.search(line) else _request_form
            redacted = redactor.json(line, form) if is_json(line) else redactor.text(line)
            lines.append(redacted.text)
            done.occurrences += redacted.occurrences
            done.kept += redacted.kept
        done.text = "\n".join(lines)
    else:
        return *redacted_bytes(redactor, before), before
    return done.text.encode("utf-8", "surrogateescape"), done, before


def still_held(path: Path, redactor: Redactor) -> bool:
    """True if another program's file holds it, or cannot be looked at and may; False if it is not there. Blocking."""
    try:
        return any(holds(redactor, line) for line in _kept_files().lines_of_file(path))
    except FileNotFoundError:
        return False
    except (NotSupportedByStoreError, OSError):
        return True


def _kept_files() -> Any:
    """The module that reads and rewrites what is kept of other programs' files.

    Raises:
        NotSupportedByStoreError: Its package is not installed.
    """
    found = part("timeleap_agents.mirrors.vault.redacted_copies")
    if found is None:
        message = "the session keeps another program's file, which this installation cannot look into: its package timeleap_agents is missing"
        raise NotSupportedByStoreError(message)
    return found


def holds(redactor: Redactor, data: bytes) -> bool:
    """True if what is no file of ours holds it."""
    return redactor.needle.may_be_in(data) and redacted_bytes(redactor, data)[1].occurrences > 0


def redacted_bytes(redactor: Redactor, data: bytes) -> tuple[bytes, RedactedText]:
    """Redact bytes that are no file or record of ours, or not any more."""
    done = redactor.text(data.decode("utf-8", "surrogateescape"))
    after = done.text.encode("utf-8", "surrogateescape")
    return _FINGERPRINT.sub(rb"\1", after) if done.occurrences else after, done


def read_whole(path: Path) -> bytes:
    try:
        return files.read_bytes(path, MAX_FILE)
    except ValueError as error:
        what = f"cannot redact {path.name}: it is {error}"
        raise StorageFailureError(what, path=str(path), errno="EFBIG", retryable=False) from None


def _meta_members(path: Path) -> Json:
    """The members of a `timeleap.json` that can be used: it has a form of its own. Empty for any other file."""
    found = files.read_document(path).members if path.name == META_NAME else {}
    return decode(found).members if found else {}


def redacted_meta(members: Mapping[str, Any], redactor: Redactor) -> tuple[Json, RedactedText]:
    """The members of `timeleap.json` without it, and without the fingerprints of requests."""
    done = redactor.json(files.encode_document(dict(members)).decode(), _meta_form)
    after: Json = json.loads(done.text)
    after[REQUESTS_REDACTED] = HIGHEST  # all there are: who next looks at them notes the number of the newest
    if "path" in (after.get("source") or {}):
        after["mirrored"] = {**(after.get("mirrored") or {}), "redacted": True}
    if isinstance(after.get("createdBy"), dict):
        after["createdBy"]["h"] = ""
    if isinstance(after.get("journal"), dict):
        after["journal"]["requests"] = [
            forget_request(redactor, request) if isinstance(request, dict) else request
            for request in after["journal"].get("requests", [])
        ]
    return after, done


def forget_request(redactor: Redactor, request: Mapping[str, Any]) -> Json:
    """A stored request in which nothing is left to compare a guess with, neither the fingerprint of its params nor
    the heads around it, which are the log's."""
    after: Json = json.loads(redactor.json(json.dumps(dict(request)), _request_form).text)
    after["h"] = ""
    if isinstance(after.get("v"), dict) and "head" in after["v"]:
        after["v"]["head"] = ""
    after.pop("b", None)
    after.pop("n", None)  # what listeners were told is not told again
    return after


def _meta_form(token: Token) -> bool:
    path = token.path
    if token.key or not token.string or path[0] in _META_FIXED:
        return True
    if path[0] == "seals":
        return path[-1] in _SEAL_FIXED
    return path[-1] in _IDENTITY and "extra" not in path and "v" not in path


def _request_form(token: Token) -> bool:
    return token.key or not token.string or token.path in (("h",), ("m",), ("time",))


def _audit_form(token: Token) -> bool:
    return _request_form(token) or token.path == ("field",)
