"""The native form: one ZIP archive with a session's very bytes, and a manifest in front that says what they must be.

::

    manifest.json       {"format": "timeleap-session", "version": 1, "exportedAt", "session": {...}, "members": [...]}
    context.jsonl       the live log
    context_3.jsonl     timelines, oldest first, under their names
    state.json          title, sub-agents and what the original keeps there; no approvals
    timeleap.json       workspace, pins, facts of the timelines, ...; no seals, no request ids

`members` lists all others with `name`, `bytes` and `sha256`. Names are from a closed set and have no directories. No
archive unpacks to more than `MAX_RATIO` times its own size: what deflate would shrink further is stored.

The session's files are read twice, since checksums come first. Reading an archive is `unpacking`.
"""

from __future__ import annotations

import hashlib
import json
import stat
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from timeleap import clock
from timeleap.errors import StorageFailureError, TooLargeError
from timeleap.features.transfer.exhibit import Exhibit, Strand
from timeleap.sessions import files
from timeleap.sessions.session_files import classify
from timeleap.storage.durable import OpenFile, Readable
from timeleap.storage.reader import StoredLog
from timeleap.version import __version__

MANIFEST: Final = "manifest.json"
FORMAT: Final = "timeleap-session"
VERSION: Final = 1

MAX_RATIO: Final = 200
MAX_MEMBERS: Final = 20_000
MAX_DOCUMENT: Final = 16 << 20
"""Bytes of a JSON document in an archive."""

STATE: Final = "state.json"
NOTES: Final = "timeleap.json"
LIVE: Final = "context.jsonl"


@dataclass(frozen=True, slots=True)
class Listed:
    """The manifest's entry for a member."""

    name: str
    bytes: int
    sha256: str

    def document(self) -> dict[str, Any]:
        """As it stands in the manifest."""
        return {"name": self.name, "bytes": self.bytes, "sha256": self.sha256}


def is_log(name: str) -> bool:
    """True if a member of that name is a log."""
    return name == LIVE or is_timeline(name)


def is_timeline(name: str) -> bool:
    """True if a member of that name is a timeline."""
    return classify(name)[0].kind == "timeline"


def is_member(name: str) -> bool:
    """True if an archive may have a member of that name."""
    return name == MANIFEST or classify(name)[0].exported


BLOCK: Final = 1 << 18
ALWAYS_DEFLATED: Final = 16 << 10
"""Bytes up to which a member is deflated however well that works: what a ZIP archive says of it weighs more than
1/`MAX_RATIO` of them."""

_REGULAR_FILE: Final = (stat.S_IFREG | 0o600) << 16


@dataclass(frozen=True, slots=True)
class _Member:
    """Something to be packed: the first `size` bytes of a file, opened whenever they are read."""

    name: str
    size: int
    opened: Callable[[], Readable | None]

    def blocks(self) -> Iterator[bytes]:
        """Its bytes; fewer if the file has become shorter."""
        source = self.opened()
        at = 0
        while source is not None and at < self.size and (block := source.pread(at, min(BLOCK, self.size - at))):
            at += len(block)
            yield block


@dataclass(frozen=True, slots=True)
class _Document:
    """A document, to be read like a file."""

    text: bytes

    def pread(self, offset: int, size: int) -> bytes:
        return self.text[offset : offset + size]


def write_archive(exhibit: Exhibit) -> Iterator[bytes]:
    """The archive, piece by piece; some of them empty, while nothing is ready to be written yet.

    Raises:
        StorageFailureError: A file cannot be read, is gone, or has changed under the reader's eyes: try again.
        TooLargeError: There are more timelines than an archive may have.
    """
    members = [*_logs(exhibit), _document(STATE, exhibit.state), _document(NOTES, exhibit.notes)]
    if len(members) >= MAX_MEMBERS:
        message = f"the session has {len(exhibit.timelines)} timelines: prune it first (session/prune)"
        raise TooLargeError(message, limit="members", maximum=MAX_MEMBERS)
    listed: list[Listed] = []
    shrink: list[bool] = []
    for member in members:
        seen = _Look()
        for block in member.blocks():
            seen.take(block)
            yield b""
        listed.append(Listed(member.name, seen.bytes, seen.sha256))
        shrink.append(seen.worth_deflating)
    sink = _Sink()
    with ZipFile(cast("Any", sink), "w") as target:
        members.insert(0, _manifest(exhibit, listed))
        for member, deflated in zip(members, [True, *shrink], strict=True):
            yield from _pack(target, sink, member, deflated)
        for member, said in zip(members[1:], listed, strict=True):
            _check(member, said, sink.hashes[member.name])
    yield sink.taken()


def _pack(target: ZipFile, sink: _Sink, member: _Member, deflated: bool) -> Iterator[bytes]:
    info = ZipInfo(member.name, datetime.fromtimestamp(clock.now(), UTC).timetuple()[:6])
    info.compress_type = ZIP_DEFLATED if deflated else ZIP_STORED
    info.external_attr = _REGULAR_FILE
    sha256 = hashlib.sha256()
    with target.open(info, "w", force_zip64=member.size >= 1 << 30) as entry:
        for block in member.blocks():
            entry.write(block)
            sha256.update(block)
            yield sink.taken()
    sink.hashes[member.name] = sha256.hexdigest()
    yield sink.taken()


def _check(member: _Member, said: Listed, sha256: str) -> None:
    if said.sha256 != sha256 or said.bytes != member.size:
        message = f"{member.name} changed while it was exported; export the session again"
        raise StorageFailureError(message, path=member.name, errno="ESTALE")


class _Look:
    """Size, hash and compressed size of a member, computed before it is packed."""

    def __init__(self) -> None:
        self.bytes = 0
        self._hash = hashlib.sha256()
        self._deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -15)
        self._deflated = 0

    def take(self, block: bytes) -> None:
        """The next bytes."""
        self.bytes += len(block)
        self._hash.update(block)
        self._deflated += len(self._deflate.compress(block))

    @property
    def sha256(self) -> str:
        """Of all bytes."""
        return self._hash.hexdigest()

    @property
    def worth_deflating(self) -> bool:
        """True if the member, deflated, stays within the compression ratio that archives may have."""
        deflated = self._deflated + len(self._deflate.copy().flush())
        return self.bytes <= ALWAYS_DEFLATED or self.bytes <= MAX_RATIO * deflated


class _Sink:
    """Buffer that a ZIP archive is written to, from front to end, until its bytes are taken."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.hashes: dict[str, str] = {}

    def write(self, data: bytes) -> int:
        """Append to the buffer."""
        self._buffer += data
        return len(data)

    def flush(self) -> None:
        """Nothing to do."""

    def taken(self) -> bytes:
        """The bytes written since the last call."""
        data, self._buffer = bytes(self._buffer), bytearray()
        return data


def _logs(exhibit: Exhibit) -> Iterator[_Member]:
    live = cast("StoredLog", exhibit.live.log)
    yield _Member(LIVE, exhibit.live.bytes, lambda: live.file)
    for strand in exhibit.timelines:
        yield _timeline(exhibit, strand)


def _timeline(exhibit: Exhibit, strand: Strand) -> _Member:
    path = exhibit.directory / strand.file

    def opened() -> OpenFile:
        try:
            return OpenFile(path)
        except OSError as error:
            raise StorageFailureError.of(error, f"read the timeline {strand.timeline_id}", path) from error

    return _Member(strand.file, opened().status().size, opened)


def _document(name: str, members: Any) -> _Member:
    text = files.encode_document(dict(members))
    return _Member(name, len(text), lambda: _Document(text))


def _manifest(exhibit: Exhibit, listed: list[Listed]) -> _Member:
    said = {
        "format": FORMAT,
        "version": VERSION,
        "exportedAt": clock.now_iso(),
        "exportedBy": f"timeleap {__version__}",
        "session": {
            "sessionId": exhibit.session_id,
            "uid": exhibit.uid,
            "title": exhibit.title,
            "createdAt": exhibit.created_at,
            "updatedAt": exhibit.updated_at,
            "messageCount": exhibit.live.message_count,
            "timelineCount": len(exhibit.timelines),
        },
        "members": [member.document() for member in listed],
    }
    text = json.dumps(said, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    return _Member(MANIFEST, len(text), lambda: _Document(text))
