"""Snapshots as files that an archive carries: written by an export, and taken in by an import.

::

    snapshots.json      {"settings": {...}, "roots": [{"folder", "pack"?, "snapshots": [{"number", "tree", ...}]}]}
    snapshots_1.pack    git's pack of the first root's trees, files and details; nothing else, and nothing too much

An import puts them into the new session's directory, where they wait until the session is opened first: then they become
snapshots of its folders, and go. Whatever stands in them is a stranger's: it is judged before the import counts, and
once more where it is taken in.
"""

from __future__ import annotations

import json
import secrets
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import CancelledError, CorruptedError, FilesUnavailableError, InvalidInputError, TooLargeError
from timeleap.features.files import kept_form
from timeleap.features.files.compare import StoredObject, TreeJudge, UnfitError, stored_objects
from timeleap.features.files.git import PACKING, GitError
from timeleap.features.files.records import BUDGET, Control, FilesConfig
from timeleap.features.files.repository import Commit, Details, Repository
from timeleap.features.files.roots import FOLDER, Root, find_root
from timeleap.features.files.seed import own_everything
from timeleap.json_value import Json
from timeleap.sessions.documents.json_files import BAD, Problems, items, model, number, text, whole
from timeleap.storage.durable import (
    OpenFile,
    atomic_write,
    failpoint,
    is_regular,
    remove_file,
    replace_file,
    storage_errors,
)
from timeleap_protocol.folder_uri import folder_of
from timeleap_protocol.limits import MAX_FILE_ROOTS

SNAPSHOTS_NAME: Final = "snapshots.json"
MAX_DOCUMENT: Final = 16 << 20
MAX_SNAPSHOTS: Final = BUDGET.snapshots
MAX_NUMBER: Final = 99_999_999
"""Highest number of an imported snapshot: the session's own follow, and their numbers have nine digits at most."""
LATEST: Final = 1 << 37
"""Seconds since 1970: later than this is no time of a snapshot."""
_OID: Final = text("[0-9a-f]{40}")
_SNAPSHOT: Final = model(
    {
        "number": whole(1, MAX_NUMBER),
        "tree": _OID,
        "details": _OID,
        "createdAt": number,
        "label": text(),
        "checkpointUid": text(most=200),
        "changed": whole(),
        "ms": whole(),
    },
    required=("number", "tree", "details", "createdAt", "changed", "ms"),
)
_DOCUMENT: Final = model(
    {
        "settings": kept_form.CHECK,
        "roots": items(
            model(
                {"folder": text(most=4096), "pack": text(most=40), "snapshots": items(_SNAPSHOT, MAX_SNAPSHOTS)},
                required=("folder", "snapshots"),
            ),
            MAX_FILE_ROOTS,
        ),
    },
    required=("settings", "roots"),
)
MAX_OBJECTS: Final = 1_000_000
MAX_OBJECT: Final = 256 << 20
MAX_CONTENT: Final = 16 << 30
"""Bytes of one object, and of all objects of a pack, unpacked: a delta of a few bytes can stand for gigabytes."""
MAX_DELTAS: Final = 50
"""Deltas that one object is made by; as many as an export makes."""
_HEADER: Final = 12
_TRAILER: Final = 20
_BLOCK: Final = 1 << 16
_FIRST: Final = 1 << 12
_PLAIN: Final = {2: "tree", 3: "blob"}
_DELTA: Final = 6  # with its base's distance; `pack-objects --delta-base-offset` writes no others
_PACK: Final = (
    *("pack-objects", "-q", "--threads=1", "--no-reuse-delta", "--no-reuse-object"),
    *("--delta-base-offset", "--window=10", "--depth=50"),
)
"""Makes the same bytes of the same objects, however they are stored."""


def snapshots_pack(root: int) -> str:
    """The name of the pack of the `root`-th root, from 1 on."""
    return f"snapshots_{root}.pack"


# Export


def write_document(directory: Path, settings: Json, roots: Sequence[Json]) -> None:
    """Write `snapshots.json` of an export."""
    members = {"settings": _carried(settings), "roots": list(roots)}
    with storage_errors("write the snapshots", directory):
        atomic_write(directory / SNAPSHOTS_NAME, json.dumps(members, sort_keys=True, indent=1).encode("ascii"))


def _carried(settings: Json) -> Json:
    """The settings that mean the same elsewhere: not the folders, nor what is saved though the folder's owner ignores it."""
    return {name: settings[name] for name in ("mode", "exclude", "maxFileBytes", "maxFiles") if name in settings}


def write_pack(repository: Repository, session_uid: str, pack: Path, control: Control) -> tuple[list[Json], list[str]]:
    """Write a pack of all that a session's snapshots need; returns their records, newest first, and what is left out.

    Raises:
        GitError: Something cannot be read.
    """
    own_everything(repository)  # borrowed objects can go at any time
    every = repository.snapshots(session_uid)
    listed = [repository.read_commit(commit.oid) for commit in every[:MAX_SNAPSHOTS]]
    objects = stored_objects(repository.git, control)
    fit, left = list[Commit](), list[str]()
    with repository.git.blobs() as reader:
        judge = TreeJudge(reader, objects)
        for commit in listed:
            try:
                judge.judge(commit.tree, commit.details)
            except UnfitError as error:
                left.append(f"snapshot {commit.snapshot_id} is left out: it {error}")
            else:
                fit.append(commit)
        if left:  # what only the others need must not come along
            judge = TreeJudge(reader, objects)
            for commit in fit:
                judge.judge(commit.tree, commit.details)
    if fit:
        _pack(repository, judge.needed, pack, control)
    if others := len(every) - len(listed):
        left.append(f"the {others} oldest snapshots are left out: a folder may have {MAX_SNAPSHOTS}")
    return [_record(commit) for commit in fit], left


def _pack(repository: Repository, needed: dict[str, bytes], pack: Path, control: Control) -> None:
    asked = b"".join(oid.encode("ascii") + b" " + name.replace(b"\n", b"?") + b"\n" for oid, name in needed.items())
    base = pack.with_suffix("")
    name = repository.git.run(*_PACK, str(base), stdin=asked, control=control, deadline=PACKING).decode("ascii").strip()
    replace_file(base.with_name(f"{base.name}-{name}.pack"), pack)
    for other in pack.parent.glob(f"{base.name}-{name}.*"):
        remove_file(other)


def _record(commit: Commit) -> Json:
    record: Json = {
        "number": commit.number,
        "tree": commit.tree,
        "details": commit.details,
        "createdAt": commit.created_at,
        "changed": commit.changed,
        "ms": commit.ms,
    }
    record |= {"label": commit.label} if commit.label is not None else {}
    return record | ({"checkpointUid": commit.checkpoint_uid} if commit.checkpoint_uid is not None else {})


# Import


def read_document(directory: Path) -> Json:
    """The content of `snapshots.json`, all of it of its form.

    Raises:
        CorruptedError: It is not.
    """
    path = directory / SNAPSHOTS_NAME
    problems = Problems()
    if not is_regular(path):
        raise _unfit(directory, SNAPSHOTS_NAME, "is missing")
    with storage_errors("read the snapshots", path), path.open("rb") as file:
        content = file.read(MAX_DOCUMENT + 1)
    try:
        document = _DOCUMENT(json.loads(content[:MAX_DOCUMENT]), "", problems)
    except (ValueError, RecursionError):
        raise _unfit(directory, SNAPSHOTS_NAME, "is not JSON") from None
    if document is BAD or problems:
        raise _unfit(directory, SNAPSHOTS_NAME, problems.text)
    try:
        kept_form.refuse_bad({**document["settings"], "roots": ()})
    except InvalidInputError as error:
        raise _unfit(directory, SNAPSHOTS_NAME, error.message) from error
    for at, root in enumerate(document["roots"], 1):
        numbers = [record["number"] for record in root["snapshots"]]
        if root.get("pack") != (snapshots_pack(at) if numbers else None) or len(set(numbers)) < len(numbers):
            raise _unfit(directory, SNAPSHOTS_NAME, f"names a wrong pack of root {at}, or a snapshot of it twice")
        if not all(0 <= record["createdAt"] < LATEST for record in root["snapshots"]):
            raise _unfit(directory, SNAPSHOTS_NAME, f"has a snapshot of root {at} from no time")
    found: Json = document
    return found


def check(home: Path, directory: Path, folders: Sequence[str], control: Control) -> Json:
    """Judge the snapshots in the directory of a session that is being imported, whose files belong to `folders` (URIs).
    Changes nothing; returns the session's member `files`.

    Raises:
        CorruptedError: They are not such as an export writes.
        TooLargeError: A folder would have more snapshots than it may.
        InvalidInputError, FilesUnavailableError: The folders cannot be those of the session.
    """
    document = read_document(directory)
    if len(document["roots"]) != len(folders):
        names = ", ".join(root["folder"][:100] for root in document["roots"])
        message = f"name as many folders as the archive has, in their order: {len(document['roots'])} ({names})"
        raise InvalidInputError.of("folders", message)
    keys = set[str]()
    for at, (uri, root) in enumerate(zip(folders, document["roots"], strict=True), 1):
        folder = folder_of(uri)
        if folder is None:
            raise InvalidInputError.of("folders", f"{uri[:200]} is not the URI of a folder here")
        found = find_root(home, folder)
        if found.key in keys:
            raise InvalidInputError.of("folders", f"{uri[:200]} is named twice")
        keys.add(found.key)
        if root["snapshots"]:
            with _quarantined(directory, directory / snapshots_pack(at), root["snapshots"], control) as arrived:
                failpoint("files.bundle_judged")
                if found.repository.is_dir():
                    arrived.missing(Repository(found, FilesConfig()), "")
    return {**_carried(document["settings"]), "roots": list(folders)}


def take_pack(repository: Repository, session_uid: str, pack: Path, records: Sequence[Json], control: Control) -> None:
    """Make the snapshots of a pack snapshots of a session; those that it has stay. The lock is held. Raises as `check`."""
    known = repository.numbers(session_uid)
    wanted = [record for record in records if record["number"] not in known]
    if not wanted:
        return
    with _quarantined(repository.path, pack, records, control) as arrived:
        if missing := arrived.missing(repository, session_uid):
            target = str(repository.path / "objects" / "pack" / "pack")
            asked = "\n".join(missing).encode("ascii") + b"\n"
            command = ("pack-objects", "-q", "--window=0", target)
            arrived.repository.git.run(*command, stdin=asked, control=control, deadline=PACKING)
        failpoint("files.bundle_unpacked")
        commits = [
            repository.write_commit(
                record["tree"],
                repository.store_details(arrived.details[record["number"]]),
                session_uid=session_uid,
                number=record["number"],
                label=record.get("label"),
                checkpoint_uid=record.get("checkpointUid"),
                changed=record["changed"],
                ms=record["ms"],
                created_at=record["createdAt"],
            )
            for record in wanted
        ]
    repository.publish_all(session_uid, commits)


def remove(directory: Path, document: Json) -> None:
    """Remove what was taken in; the document goes last, since it says what else there is."""
    failpoint("files.bundle_taken")
    for at, _ in enumerate(document["roots"], 1):
        with suppress(FileNotFoundError):
            remove_file(directory / snapshots_pack(at))
    with suppress(FileNotFoundError):
        remove_file(directory / SNAPSHOTS_NAME)


class _Arrived(Struct, frozen=True):
    """A pack that was judged, in a repository of its own, and the details of its snapshots by their numbers."""

    repository: Repository
    objects: dict[str, StoredObject]
    details: dict[int, Details]
    bytes: int

    def missing(self, target: Repository, session_uid: str) -> list[str]:
        """Snapshots that are in the pack and not in `target`.

        Raises:
            TooLargeError: There is no room for the snapshots beside those of other sessions, which none may push out.
        """
        others = sum(commit.session_uid != session_uid for commit in target.snapshots())
        missing = list(self.objects.keys() - stored_objects(target.git).keys())
        advice = "name another folder, or none: then the session is imported without its files"
        if others + len(self.details) > BUDGET.snapshots:
            message = f"the folder has {others} snapshots, and {len(self.details)} would be imported; {advice}"
            raise TooLargeError(message, limit="snapshots", maximum=BUDGET.snapshots)
        if missing and target.size() + self.bytes > BUDGET.bytes:
            message = f"the snapshots of the folder would have more than {BUDGET.bytes} bytes; {advice}"
            raise TooLargeError(message, limit="bytes", maximum=BUDGET.bytes)
        return sorted(missing)


@contextmanager
def _quarantined(place: Path, pack: Path, records: Sequence[Json], control: Control) -> Iterator[_Arrived]:
    """A pack, judged in a repository below `place` that is gone afterwards.

    Raises:
        CorruptedError: The pack or a snapshot is not such as an export writes.
    """
    work = place / f"work-{secrets.token_hex(8)}"
    try:
        yield _judged(work, pack, records, control)
    except UnfitError as error:
        raise _unfit(pack.parent, pack.name, str(error)) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _judged(work: Path, pack: Path, records: Sequence[Json], control: Control) -> _Arrived:
    if not is_regular(pack):
        raise UnfitError("is missing")
    repository = Repository(Root(work / FOLDER / "arrived", work, "arrived"), FilesConfig())
    copied = repository.path / "objects" / "pack" / f"pack-{'0' * 40}.pack"
    with storage_errors("look at the snapshots", pack):
        shutil.copyfile(pack, copied, follow_symlinks=False)
    judge_pack(copied, control)
    try:
        repository.git.run("index-pack", "--threads=1", str(copied), control=control, deadline=PACKING)
        objects = stored_objects(repository.git, control)
    except GitError as error:
        said = error.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise UnfitError(f"cannot be read: {''.join(said)[:200]}") from error
    with repository.git.blobs() as reader:
        judge = TreeJudge(reader, objects)
        details = {record["number"]: judge.judge(record["tree"], record["details"]) for record in records}
    if judge.needed.keys() != objects.keys():
        raise UnfitError("has more in it than its snapshots need")
    harmless = {number: _without_rights(each) for number, each in details.items()}
    return _Arrived(repository, objects, harmless, copied.stat().st_size)


def _without_rights(details: Details) -> Details:
    """The details without what would let others run a stranger's file as its owner."""
    plain, executable, folder = details.usual
    return replace(
        details,
        usual=(plain & 0o777, executable & 0o777, folder & 0o3777),
        modes={path: mode & 0o777 for path, mode in details.modes.items()},
        folders={path: mode & 0o3777 for path, mode in details.folders.items()},
    )


def refuse_other_folders(document: Json, count: int) -> None:
    """Refuse to take snapshots in while the session has another number of folders.

    Raises:
        FilesUnavailableError: It has.
    """
    if len(document["roots"]) != count:
        message = f"the imported snapshots are of {len(document['roots'])} folders: name as many in files.roots"
        raise FilesUnavailableError(message, reason="notConfigured")


def _unfit(directory: Path, name: str, why: str) -> CorruptedError:
    message = f"the snapshots of the archive cannot be imported: {name} {why}; import it without its files"
    return CorruptedError(message, path=str(directory / name), member=name)


# Packs of a stranger, judged by their bytes before git reads them


class _Deltas(Struct, frozen=True):
    """How an object is made: so many deltas, one on the other, on an object of a kind."""

    kind: str
    depth: int = 0


def judge_pack(path: Path, control: Control) -> None:
    """Refuse a pack that holds anything but trees and blobs, or that unpacks to more than it may.

    Raises:
        UnfitError: It does.
        CancelledError: `control` says so.
    """
    file = OpenFile(path)
    try:
        size = file.status().size
        start = file.pread(0, _HEADER)
        count = int.from_bytes(start[8:], "big")
        if start[:8] != b"PACK\0\0\0\2" or size < _HEADER + _TRAILER:
            raise UnfitError("is no pack of git")
        if count > MAX_OBJECTS:
            raise UnfitError(f"has {count} objects, more than {MAX_OBJECTS}")
        known: dict[int, _Deltas] = {}
        at, total = _HEADER, 0
        for number in range(count):
            if number % 1000 == 0 and control.cancelled():
                raise CancelledError("cancelled while the files were checked; nothing was imported")
            made, unpacked, end = _judge_object(file, at, known)
            total += unpacked
            if unpacked > MAX_OBJECT or total > MAX_CONTENT:
                raise UnfitError(f"unpacks to more than {MAX_OBJECT} bytes an object, or {MAX_CONTENT} in all")
            known[at], at = made, end
        if at + _TRAILER != size:
            raise UnfitError("has more in it than its objects")
    finally:
        file.close()


def _judge_object(file: OpenFile, at: int, known: dict[int, _Deltas]) -> tuple[_Deltas, int, int]:
    """How the object at a place is made, its bytes, and where it ends."""
    head = file.pread(at, _FIRST)
    numbers = iter(head)
    try:
        first = next(numbers)
        kind, size, used = first >> 4 & 7, first & 15, 1
        if first & 128:
            more, length = _number(numbers)
            size, used = size | more << 4, used + length
        made = _Deltas(_PLAIN.get(kind, ""))
        if kind == _DELTA:
            distance, length = _distance(numbers)
            used += length
            base = known.get(at - distance)
            if base is None or base.depth >= MAX_DELTAS:
                raise UnfitError("has a delta without its base, or too many of them on each other")
            made = _Deltas(base.kind, base.depth + 1)
        elif not made.kind:
            raise UnfitError("holds something that is neither a file nor a folder")
        if size > MAX_OBJECT:
            return made, size, at
        begin, end = _unpacked(file, at + used, size)
        if kind == _DELTA:
            delta = iter(begin)
            _number(delta)  # the base's size
            size = max(size, _number(delta)[0])
    except StopIteration:
        raise UnfitError("ends in the middle of an object") from None
    return made, size, end


def _number(numbers: Iterator[int]) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and how many bytes it has."""
    value = length = 0
    for length in range(1, 10):
        byte = next(numbers)
        value |= (byte & 127) << 7 * (length - 1)
        if not byte & 128:
            return value, length
    raise UnfitError("has a number that is too long")


def _distance(numbers: Iterator[int]) -> tuple[int, int]:
    value = -1
    for length in range(1, 10):
        byte = next(numbers)
        value = (value + 1) << 7 | byte & 127
        if not byte & 128:
            return value, length
    raise UnfitError("has a number that is too long")


def _unpacked(file: OpenFile, at: int, size: int) -> tuple[bytes, int]:
    """The first bytes of what is deflated at a place, which are `size` in all, and where it ends."""
    inflate, begin, done = zlib.decompressobj(), b"", 0
    data, block = b"", _FIRST
    while not inflate.eof:
        if not data:
            data = file.pread(at, block)
            at, block = at + len(data), _BLOCK
            if not data:
                raise UnfitError("ends in the middle of an object")
        try:
            out = inflate.decompress(data, _BLOCK)
        except zlib.error:
            raise UnfitError("has an object that cannot be unpacked") from None
        data = inflate.unconsumed_tail
        done += len(out)
        begin += out[: 32 - len(begin)] if len(begin) < 32 else b""
        if done > size:
            raise UnfitError("has an object that is longer than it says")
    if done != size:
        raise UnfitError("has an object that is shorter than it says")
    return begin, at - len(inflate.unused_data)
