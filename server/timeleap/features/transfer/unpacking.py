"""Reading the native form (see `archive`): an archive is validated, and refused or accepted as a whole.

What is refused before anything is unpacked: names that are not from the closed set (so no directory, no absolute path
and no `..`), two members of one name, links and other things that are no files, encryption and methods but deflate,
more members, larger documents or more bytes than there may be, a list of members that differs from the manifest's.
While it is unpacked: more or fewer bytes than declared, and bytes of another checksum.
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
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

from timeleap.errors import CorruptedError, InvalidInputError, StorageFailureError, TimeleapError, TooLargeError
from timeleap.features.transfer import archive
from timeleap.features.transfer.archive import LIVE, MANIFEST, Listed
from timeleap.storage.durable import OpenFile, create_exclusive, sync_directory

BLOCK: Final = 1 << 17
MAX_DIRECTORY: Final = 8 << 20
"""Bytes of the archive's table of contents; a longer one has more members than there may be."""
SPARE: Final = 64 << 20
"""Bytes that an import leaves free on the disk."""

_ENCRYPTED: Final = 1
_UNREADABLE = (
    *(BadZipFile, LargeZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, IndexError, OverflowError),
)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The data of an archive apart from the logs.

    Attributes:
        lines: Of the live log.
    """

    session_id: str | None
    uid: str | None
    state: dict[str, Any]
    notes: dict[str, Any]
    lines: int


def unpack(source: OpenFile, directory: Path) -> Generator[tuple[int, int], None, Unpacked]:
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
            manifest = _manifest(zipped, infos[0])
            listed = _listed(manifest, infos[1:])
            total = sum(member.bytes for member in listed)
            documents: dict[str, dict[str, Any]] = {}
            done = lines = 0
            for info, member in zip(infos[1:], listed, strict=True):
                unpacking = _unpack(zipped, info, member, directory)
                written = yield from _counted(unpacking, done, total)
                done += member.bytes
                if member.name == LIVE:
                    lines = written.lines
                elif not archive.is_log(member.name):
                    documents[member.name] = _object(written.text, member.name)
        sync_directory(directory)
    except TimeleapError:
        raise
    except _UNREADABLE as error:
        raise _damaged("", f"cannot be read: {error}"[:200]) from error
    session = manifest.get("session")
    said: dict[str, Any] = session if isinstance(session, dict) else {}
    return Unpacked(
        session_id=_text(said.get("sessionId")),
        uid=_text(said.get("uid")),
        state=documents.get(archive.STATE, {}),
        notes=documents.get(archive.NOTES, {}),
        lines=lines,
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
            raise OSError(
                errno.EINVAL, "the file is shorter"
            )  # what `zipfile` waits for, to say that it is none of its own
        if at < 0:
            raise ValueError("it points to before its beginning")
        self._at = at
        return at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > MAX_DIRECTORY:
            raise _too_large("its table of contents is too long", "members", archive.MAX_MEMBERS)
        data = self._file.pread(self._at, wanted)
        self._at += len(data)
        return data


def _contents(zipped: ZipFile) -> list[ZipInfo]:
    """The members, the manifest first; all of them such as may be there."""
    infos = zipped.infolist()
    if len(infos) > archive.MAX_MEMBERS:
        raise _too_large(f"it has {len(infos)} members", "members", archive.MAX_MEMBERS)
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
        if not archive.is_member(name) or info.filename != name:
            raise _damaged(name, "is no name that a session's archive may have")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise _damaged(name, "is no ordinary file")
        if info.flag_bits & _ENCRYPTED:
            raise _damaged(name, "is encrypted; export the session again")
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _damaged(name, "is compressed in a way that no export uses")
        if not archive.is_log(name) and info.file_size > archive.MAX_DOCUMENT:
            raise _too_large(f"{name} has {info.file_size} bytes", "document", archive.MAX_DOCUMENT)
    if LIVE not in seen:
        raise _damaged(LIVE, "is missing")
    return sorted(infos, key=lambda info: info.filename != MANIFEST)


def _check_room(infos: list[ZipInfo], size: int, directory: Path) -> None:
    total = sum(info.file_size for info in infos)
    if total > archive.MAX_RATIO * size:
        text = f"it says that it unpacks to {total} bytes, more than {archive.MAX_RATIO} times its size"
        raise _too_large(text, "bytes", archive.MAX_RATIO * size)
    free = shutil.disk_usage(directory).free
    if total + SPARE > free:
        message = f"there is no room for the session: it needs {total} bytes, and {free} are free"
        raise StorageFailureError(message, path=str(directory), errno="ENOSPC")


def _manifest(zipped: ZipFile, info: ZipInfo) -> dict[str, Any]:
    with zipped.open(info) as entry:
        manifest = _object(entry.read(archive.MAX_DOCUMENT), MANIFEST)
    if manifest.get("format") != archive.FORMAT:
        raise _damaged(MANIFEST, "is not that of a session")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise _damaged(MANIFEST, "does not say its version")
    if version > archive.VERSION:
        message = (
            f"the archive is of version {version}, and this release reads up to {archive.VERSION}: use a newer one"
        )
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


@dataclass(slots=True)
class _Written:
    """An unpacked member: a log is written to a file and its lines are counted; a document stays in memory."""

    lines: int = 0
    text: bytes = b""


def _unpack(zipped: ZipFile, info: ZipInfo, said: Listed, directory: Path) -> Generator[int, None, _Written]:
    """Unpack one member, pausing with the number of bytes done."""
    target = create_exclusive(directory / said.name) if archive.is_log(said.name) else None
    written, sha256, done, last = _Written(), hashlib.sha256(), 0, b""
    try:
        with zipped.open(info) as entry:
            while block := entry.read(BLOCK):
                if done + len(block) > said.bytes:
                    raise _damaged(said.name, "is longer than it says")
                sha256.update(block)
                if target is None:
                    written.text += block
                else:
                    target.pwrite(block, done)
                written.lines += block.count(b"\n")
                done, last = done + len(block), block[-1:]
                yield done
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
    written.lines += last not in (b"", b"\n")
    return written


def _counted(
    work: Generator[int, None, _Written], before: int, total: int
) -> Generator[tuple[int, int], None, _Written]:
    try:
        while True:
            done = next(work)
            yield before + done, total
    except StopIteration as stop:
        return cast("_Written", stop.value)
    finally:
        work.close()


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


def _text(value: object) -> str | None:
    return value[:200] if isinstance(value, str) else None
