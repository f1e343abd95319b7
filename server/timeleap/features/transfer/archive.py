"""The native form: one ZIP archive with a session's very bytes, and a manifest in front that says what they must be.

::

    manifest.json       {"format": "timeleap-session", "version": 1, "exportedAt", "session": {...}, "members": [...]}
    context.jsonl       the live log
    context_3.jsonl     timelines, oldest first, under their names
    state.json          title, sub-agents and what the original keeps there; no approvals
    timeleap.json       workspace, pins, facts of the timelines, ...; no seals, no request ids
    snapshots.json      in an archive with files, which is of version 2: what snapshots there are
    snapshots_1.pack    and their content, a pack of git for each folder

`members` lists all others with `name`, `bytes` and `sha256`. Names are from a closed set and have no directories. No
archive unpacks to more than `MAX_RATIO` times its own size: what deflate would shrink further is stored. The session's
files are read twice, since checksums come first.

Reading, an archive is validated, and refused or accepted as a whole. What is refused before anything is unpacked: names
that are not from the closed set (so no directory, no absolute path and no `..`), two members of one name, links and
other things that are no files, encryption and methods but deflate, more members, larger documents or more bytes than
there may be, a list of members that differs from the manifest's. While it is unpacked: more or fewer bytes than
declared, and bytes of another checksum.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import shutil
import stat
import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

from msgspec import Struct
from msgspec.structs import asdict

from timeleap import clock
from timeleap.errors import CorruptedError, InvalidInputError, StorageFailureError, TimeleapError, TooLargeError
from timeleap.features.transfer.exhibit import Exhibit
from timeleap.features.transfer.sanitize import Arrival, Origin
from timeleap.sessions.documents import json_files as files
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME, STATE_NAME, classify
from timeleap.storage.durable import OpenFile, Readable, create_exclusive, storage_errors, sync_directory
from timeleap.version import __version__

MANIFEST: Final = "manifest.json"
FORMAT: Final = "timeleap-session"
VERSION: Final = 1
VERSION_WITH_FILES: Final = 2
"""Version of archives with snapshots of files, which earlier releases refuse; the others are written as they always were."""

MAX_RATIO: Final = 200
MAX_MEMBERS: Final = 20_000
MAX_DOCUMENT: Final = 16 << 20
"""Bytes of a JSON document in an archive."""
MAX_DIRECTORY: Final = 8 << 20
"""Bytes of the archive's table of contents; a longer one has more members than there may be."""
ALWAYS_DEFLATED: Final = 16 << 10
"""Bytes up to which a member is deflated however well that works: what a ZIP archive says of it weighs more than
1/`MAX_RATIO` of them."""
SPARE: Final = 64 << 20
"""Bytes that an import leaves free on the disk."""

_PACKED_AT_ONCE: Final = 1 << 18
_UNPACKED_AT_ONCE: Final = 1 << 17
_FIRST_TIME: Final = datetime(1980, 1, 1, tzinfo=UTC).timestamp()
_LAST_TIME: Final = datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC).timestamp()
_REGULAR_FILE: Final = (stat.S_IFREG | 0o600) << 16
_ENCRYPTED: Final = 1
_UNREADABLE = (
    *(BadZipFile, LargeZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, IndexError, OverflowError),
)


class Listed(Struct, frozen=True):
    """The manifest's entry for a member."""

    name: str
    bytes: int
    sha256: str


def _is_file(name: str) -> bool:
    """True for a member that is unpacked into a file; the others are only read."""
    return classify(name)[0].kind in ("log", "timeline", "snapshots")


class _Member(Struct, frozen=True):
    """Something to be packed; `blocks` are read twice, and may be fewer than `size` says."""

    name: str
    size: int
    blocks: Callable[[], Iterator[bytes]]


def write_archive(exhibit: Exhibit) -> Iterator[bytes]:
    """The archive, piece by piece; some of them empty, while nothing is ready to be written yet.

    Raises:
        StorageFailureError: A file cannot be read, is gone, or has changed under the reader's eyes: try again.
        TooLargeError: There are more timelines than an archive may have.
    """
    timelines = [_file(exhibit.directory / strand.file) for strand in exhibit.timelines]
    members = [_live(exhibit), *timelines, _document(STATE_NAME, exhibit.state), _document(META_NAME, exhibit.notes)]
    members += map(_file, exhibit.snapshots)
    if len(members) >= MAX_MEMBERS:
        message = f"the session has {len(exhibit.timelines)} timelines: prune it first (session/prune)"
        raise TooLargeError(message, limit="members", maximum=MAX_MEMBERS)
    listed: list[Listed] = []
    shrink: list[bool] = []
    for member in members:
        sha256, deflate = hashlib.sha256(), zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -15)
        size = deflated = 0
        for block in member.blocks():
            size += len(block)
            sha256.update(block)
            deflated += len(deflate.compress(block))
            yield b""
        listed.append(Listed(member.name, size, sha256.hexdigest()))
        shrink.append(size <= ALWAYS_DEFLATED or size <= MAX_RATIO * (deflated + len(deflate.flush())))
    sink = _Sink()
    with ZipFile(cast("Any", sink), "w") as target:
        yield from _pack(target, sink, _manifest(exhibit, listed), deflated=True)
        for member, said, small in zip(members, listed, shrink, strict=True):
            packed = yield from _pack(target, sink, member, deflated=small)
            if (said.sha256, said.bytes) != (packed, member.size):
                message = f"{member.name} changed while it was exported; export the session again"
                raise StorageFailureError(message, path=member.name, errno="ESTALE")
    yield sink.taken()


def _pack(target: ZipFile, sink: _Sink, member: _Member, *, deflated: bool) -> Generator[bytes, None, str]:
    """Pack a member; returns its checksum."""
    # A clock may be before or after all that the format knows.
    stamp = datetime.fromtimestamp(min(max(clock.now(), _FIRST_TIME), _LAST_TIME), UTC)
    info = ZipInfo(member.name, (stamp.year, stamp.month, stamp.day, stamp.hour, stamp.minute, stamp.second))
    info.compress_type = ZIP_DEFLATED if deflated else ZIP_STORED
    info.external_attr = _REGULAR_FILE
    sha256 = hashlib.sha256()
    with target.open(info, "w", force_zip64=member.size >= 1 << 30) as entry:
        for block in member.blocks():
            entry.write(block)
            sha256.update(block)
            yield sink.taken()
    yield sink.taken()
    return sha256.hexdigest()


class _Sink:
    """Buffer that a ZIP archive is written to, from front to end, until its bytes are taken."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def write(self, data: bytes) -> int:
        self._buffer += data
        return len(data)

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        """The bytes written since the last call."""
        data, self._buffer = bytes(self._buffer), bytearray()
        return data


def _live(exhibit: Exhibit) -> _Member:
    log = exhibit.live.log
    return _Member(LOG_NAME, log.state.length, lambda: _blocks(log, log.state.length))


def _file(path: Path) -> _Member:
    def opened() -> OpenFile:
        with storage_errors(f"read {path.name}", path):
            return OpenFile(path)

    size = opened().status().size
    return _Member(path.name, size, lambda: _blocks(opened(), size))


def _blocks(file: Readable, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a file; fewer if it has become shorter."""
    at = 0
    while at < size and (block := file.pread(at, min(_PACKED_AT_ONCE, size - at))):
        at += len(block)
        yield block


def _document(name: str, members: Any) -> _Member:
    return _text(name, files.encode_document(dict(members)))


def _text(name: str, text: bytes) -> _Member:
    return _Member(name, len(text), lambda: iter([text]))


def _manifest(exhibit: Exhibit, listed: list[Listed]) -> _Member:
    said = {
        "format": FORMAT,
        "version": VERSION_WITH_FILES if exhibit.snapshots else VERSION,
        "exportedAt": clock.now_iso(),
        "exportedBy": f"timeleap {__version__}",
        "session": {
            "sessionId": exhibit.session_id,
            "uid": exhibit.uid,
            "title": exhibit.title,
            "createdAt": exhibit.created_at,
            "updatedAt": exhibit.updated_at,
            "messageCount": exhibit.live.log.state.messages,
            "timelineCount": len(exhibit.timelines),
        },
        "members": [asdict(member) for member in listed],
    }
    return _text(MANIFEST, json.dumps(said, indent=2, ensure_ascii=False).encode("utf-8", "replace"))


def unpack(source: OpenFile, directory: Path) -> Generator[tuple[int, int], None, Arrival]:
    """Write the logs of an archive into an empty directory, and return the rest. Pauses with the bytes done and in all.

    Raises:
        CorruptedError: The archive is damaged or not what it says; `member` says where.
        InvalidInputError: It is no archive of a session, or of a version that is not known.
        TooLargeError: It would unpack to more than an archive may, or than there is room for.
        StorageFailureError: It could not be read, or a log could not be written.
    """
    try:
        with ZipFile(cast("IO[bytes]", _Source(source))) as zipped:
            infos = _contents(zipped)
            _check_room(infos, source.status().size, directory)
            manifest = _read_manifest(zipped, infos[0])
            listed = _listed(manifest, infos[1:])
            _refuse_files_of_old(manifest, listed)
            total = sum(member.bytes for member in listed)
            documents: dict[str, dict[str, Any]] = {}
            done = lines = 0
            for info, member in zip(infos[1:], listed, strict=True):
                text, count = yield from _unpack(zipped, info, member, directory, before=done, total=total)
                done += member.bytes
                if member.name == LOG_NAME:
                    lines = count
                elif not _is_file(member.name):
                    documents[member.name] = _object(text, member.name)
        sync_directory(directory)
    except TimeleapError:
        raise
    except _UNREADABLE as error:
        raise _damaged("", f"cannot be read: {error}"[:200]) from error
    session = manifest.get("session")
    said: dict[str, Any] = session if isinstance(session, dict) else {}
    session_id, uid = (
        value[:200] if isinstance(value := said.get(name), str) else None for name in ("sessionId", "uid")
    )
    return Arrival(
        notes=documents.get(META_NAME, {}),
        state=documents.get(STATE_NAME, {}),
        lines=lines,
        origin=Origin("native", session_id, uid),
    )


class _Source(io.RawIOBase):
    """A file as `zipfile` wants it; never reads more at once than an honest archive needs."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__()
        self._file = file
        self._size = file.status().size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at < 0 and whence == io.SEEK_END:
            raise OSError(errno.EINVAL, "the file is shorter")  # then `zipfile` says that it is none of its own
        if at < 0:
            raise ValueError("it points to before its beginning")
        self._at = at
        return at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > MAX_DIRECTORY:
            raise _too_large("its table of contents is too long", "members", MAX_MEMBERS)
        data = self._file.pread(self._at, wanted)
        self._at += len(data)
        return data


def _contents(zipped: ZipFile) -> list[ZipInfo]:
    """The members, the manifest first; all of them such as may be there."""
    infos = zipped.infolist()
    if len(infos) > MAX_MEMBERS:
        raise _too_large(f"it has {len(infos)} members", "members", MAX_MEMBERS)
    if not any(info.filename == MANIFEST for info in infos):
        raise InvalidInputError(
            f"the archive has no {MANIFEST}: it is not an exported session",
            errors=[{"loc": ["path"], "msg": "is not an exported session", "type": "path"}],
        )
    seen: set[str] = set()
    for info in infos:
        name = info.orig_filename
        if name in seen:
            raise _damaged(name, "is there twice")
        seen.add(name)
        if not (name == MANIFEST or classify(name)[0].exported) or info.filename != name:
            raise _damaged(name, "is no name that a session's archive may have")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise _damaged(name, "is no ordinary file")
        if info.flag_bits & _ENCRYPTED:
            raise _damaged(name, "is encrypted; export the session again")
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _damaged(name, "is compressed in a way that no export uses")
        if name.endswith(".json") and info.file_size > MAX_DOCUMENT:
            raise _too_large(f"{name} has {info.file_size} bytes", "document", MAX_DOCUMENT)
    if LOG_NAME not in seen:
        raise _damaged(LOG_NAME, "is missing")
    return sorted(infos, key=lambda info: info.filename != MANIFEST)


def _check_room(infos: list[ZipInfo], size: int, directory: Path) -> None:
    total = sum(info.file_size for info in infos)
    if total > MAX_RATIO * size:
        text = f"it says that it unpacks to {total} bytes, more than {MAX_RATIO} times its size"
        raise _too_large(text, "bytes", MAX_RATIO * size)
    total += sum(info.file_size for info in infos if info.filename.endswith(".pack"))  # copied when it is looked at
    free = shutil.disk_usage(directory).free
    if total + SPARE > free:
        message = f"there is no room for the session: it needs {total} bytes, and {free} are free"
        raise StorageFailureError(message, path=str(directory), errno="ENOSPC")


def _read_manifest(zipped: ZipFile, info: ZipInfo) -> dict[str, Any]:
    with zipped.open(info) as entry:
        manifest = _object(entry.read(MAX_DOCUMENT), MANIFEST)
    if manifest.get("format") != FORMAT:
        raise _damaged(MANIFEST, "is not that of a session")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise _damaged(MANIFEST, "does not say its version")
    if version > VERSION_WITH_FILES:
        known = VERSION_WITH_FILES
        message = f"the archive is of version {version}, and this release reads up to {known}: use a newer one"
        raise InvalidInputError(message, errors=[{"loc": ["path"], "msg": "is of a newer version", "type": "path"}])
    return manifest


def _listed(manifest: dict[str, Any], infos: list[ZipInfo]) -> list[Listed]:
    """The manifest's entries for the other members, in their order."""
    many = manifest.get("members")
    said: dict[str, Listed] = {}
    for entry in many if isinstance(many, list) else []:
        match entry:
            case {"name": str(name), "bytes": int(size), "sha256": str(sha256)} if name not in said:
                said[name] = Listed(name, size, sha256)
            case _:
                raise _damaged(MANIFEST, "does not say what its members are")
    present = {info.filename for info in infos}
    if odd := sorted(present ^ said.keys()):
        raise _damaged(odd[0], "is missing" if odd[0] in said else "is not in the manifest")
    return [said[info.filename] for info in infos]


def _refuse_files_of_old(manifest: dict[str, Any], listed: list[Listed]) -> None:
    for member in listed if manifest["version"] < VERSION_WITH_FILES else ():
        if classify(member.name)[0].kind == "snapshots":
            raise _damaged(member.name, "is no member of an archive of this version")


def _unpack(
    zipped: ZipFile, info: ZipInfo, said: Listed, directory: Path, *, before: int = 0, total: int = 0
) -> Generator[tuple[int, int], None, tuple[bytes, int]]:
    """Unpack one member: a log into a file; what else there is, is returned. And the number of lines.

    Args:
        zipped: The archive.
        info: The member there.
        said: The same in the manifest.
        directory: Where logs go.
        before: Bytes done before it, of `total`.
    """
    target = create_exclusive(directory / said.name) if _is_file(said.name) else None
    text, sha256, done, lines, last = b"", hashlib.sha256(), 0, 0, b""
    try:
        with zipped.open(info) as entry:
            while block := entry.read(_UNPACKED_AT_ONCE):
                if done + len(block) > said.bytes:
                    raise _damaged(said.name, "is longer than it says")
                sha256.update(block)
                if target is None:
                    text += block
                else:
                    target.pwrite(block, done)
                lines += block.count(b"\n")
                done, last = done + len(block), block[-1:]
                yield before + done, total
        if target is not None:
            target.sync()
    except TimeleapError:
        raise
    except _UNREADABLE as error:
        raise _damaged(said.name, f"cannot be unpacked: {error}"[:200]) from error
    finally:
        if target is not None:
            target.close()
    if done != said.bytes:
        raise _damaged(said.name, "is shorter than it says")
    if sha256.hexdigest() != said.sha256:
        raise _damaged(said.name, "is not what was exported: its checksum differs")
    return text, lines + (last not in (b"", b"\n"))


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(name, f"is not JSON: {error}"[:200]) from error
    if not isinstance(found, dict):
        raise _damaged(name, "is not a JSON object")
    return found


def _damaged(member: str, why: str) -> CorruptedError:
    shown = repr(member[:80]) if member else "it"
    message = f"the archive cannot be imported: {shown} {why}; nothing was imported. Export the session once more"
    return CorruptedError(message, member=member[:200])


def _too_large(why: str, limit: str, maximum: int) -> TooLargeError:
    return TooLargeError(f"the archive is refused: {why}; nothing was imported", limit=limit, maximum=maximum)
