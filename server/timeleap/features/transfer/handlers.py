"""session/export and session/import: sessions to files of other forms, and back."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from msgspec.structs import asdict

from timeleap.call import to_its_end
from timeleap.errors import FilesUnavailableError, InvalidInputError
from timeleap.features.transfer_losses import ExportLoss
from timeleap.service import opening
from timeleap.service.scheduling import until_cancelled
from timeleap.service.service import guard
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.session_files import LOG_NAME
from timeleap.sessions.documents.warnings import loss_warnings
from timeleap.sessions.shapes import set_members
from timeleap.store.home import check_session_id

if TYPE_CHECKING:
    from pathlib import Path

    from timeleap.call import Call, WorkControl
    from timeleap.features.transfer.exhibit import Exhibit
    from timeleap.json_value import Json
    from timeleap.service.scheduling import T
    from timeleap.service.service import Service
    from timeleap.service.time_slices import Work
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.session import SessionExportParams, SessionImportParams

WRITTEN_AT_ONCE: Final = 1 << 20  # bytes
SECRETS: Final = "secrets"
"""The kind of loss that masked secrets are."""


@runtime_checkable
class FilesExport(Protocol):
    """The files of a session (`WorkingTree`) whose snapshots an archive can hold."""

    def export(self, directory: Path, control: WorkControl) -> list[str]:
        """Write all snapshots into files in a directory; says what is left out. Blocking."""
        ...


@runtime_checkable
class FilesImport(Protocol):
    """The snapshots of a store (`SnapshotStore`), where those of an archive are taken in."""

    def check_import(self, directory: Path, folders: Sequence[str], control: WorkControl) -> dict[str, Any]:
        """Judge the snapshots in the directory of a session that is being imported, whose files belong to these folders
        (URIs); returns its member `files`. What it raises refuses the import. Blocking."""
        ...


async def export_session(service: Service, params: SessionExportParams, call: Call) -> Json:
    """Write a session to a file; it may be open here, elsewhere or nowhere: it is only read."""
    from timeleap.features.transfer import exhibit, export_file

    path, overwrite = export_file.absolute(params.path), bool(params.overwrite)
    form = exhibit.exported(params.format)
    if params.with_files and form.name != "native":
        raise InvalidInputError.of("withFiles", "only an archive (native) can hold snapshots of files")
    if form.name == "native" and params.keep_secrets is False:
        text = "an archive holds the very bytes of a session; write markdown or html, or take secrets out of it (session/redact)"
        raise InvalidInputError.of("keepSecrets", text)
    async with _looked_at(service, params, call) as session:
        content = await exhibit.exhibit_of(session)  # first of all: later requests must not show in it
        if form.name != "native" and not params.keep_secrets:
            content = await asyncio.to_thread(content.without_secrets)
        lost = await asyncio.to_thread(loss_warnings, session.engine, session.path / LOG_NAME)
        _heed_cancellation()
        await asyncio.to_thread(export_file.check_target, service.store.home, path, overwrite)
        async with (
            _with_files(service, content, call) if params.with_files else contextlib.nullcontext(content) as whole,
            export_file.NewFile(path, overwrite=overwrite) as file,
        ):
            pieces = exhibit.written(whole, form)
            written = await _told(call, "writing", content)
            while (block := await service.slices.run(_gathered(pieces))) is not None:
                await file.write(block)
                written(file.bytes)
            call.say("putting the file in place")
            await to_its_end(file.finish())
    losses = await asyncio.to_thread(content.all_losses)
    masked = None if content.masks is None else content.masks.count
    if masked:
        many = "1 text that looks like a secret is" if masked == 1 else f"{masked:,} texts that look like secrets are"
        losses.append(ExportLoss(SECRETS, f"{many} masked"))
    told = [{"kind": loss["kind"], "message": loss["message"]} for loss in lost]
    return {
        "path": str(path),
        "bytes": file.bytes,
        "losses": [*told, *(asdict(loss) for loss in losses)],
        **set_members(masked=masked),
    }


def _heed_cancellation() -> None:
    """Stop if that was asked for during a step that puts a cancellation aside: a turn, work on files."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@contextlib.asynccontextmanager
async def _looked_at(service: Service, params: SessionExportParams, call: Call) -> AsyncIterator[Session]:
    if (attachment := service.attached(call).get(params.session_id)) is None:
        borrowed = service.borrowed(call, params)
    else:
        await attachment.settle()  # what is exported is read from disk
        borrowed = service.store.borrowed(params.session_id, "read", path=attachment.place.path)
    async with borrowed as session:
        yield session


@contextlib.asynccontextmanager
async def _with_files(service: Service, content: Exhibit, call: Call) -> AsyncIterator[Exhibit]:
    """The exhibit with the snapshots of its files, which are there until the end of the block."""
    tree = content.tree
    with service.store.home.building() as directory:
        if not isinstance(tree, FilesExport):
            left = ["no snapshots of the session's files are kept"]
        else:
            left = await until_cancelled(call, lambda control: asyncio.to_thread(tree.export, directory, control))
            _heed_cancellation()
        yield content.with_snapshots(directory, left)


def _gathered(pieces: Iterator[bytes]) -> Work[bytes | None]:
    """A piece of a file, as large as is written in one go; None at its end."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) >= WRITTEN_AT_ONCE:
            return bytes(found)
        yield 0, 0
    return bytes(found) or None


async def _told(call: Call, message: str, exhibit: Exhibit) -> Callable[[int], None]:
    """Tells the client how many bytes are written. How many there will be depends on the form; that there will be more
    than the session has is as good as unknown."""
    report = call.byte_progress(message)
    if report is None:
        return lambda _: None
    total = await asyncio.to_thread(_size, exhibit)
    return lambda done: report(min(done, total), total)


def _size(exhibit: Exhibit) -> int:
    """Bytes of all logs; opens every timeline."""
    return sum(strand.log.state.length for strand in (exhibit.live, *exhibit.timelines))


async def import_session(service: Service, params: SessionImportParams, call: Call) -> Json:
    """Make a session of a file, and open it."""
    from timeleap.features.transfer import export_file, importing, sanitize

    path, store, mine = export_file.absolute(params.path), service.store, guard(params, call)
    async with service.reachable():
        announced, opened = await store.made_before(mine)
        if opened is None:
            wanted = announced if params.session_id is None else check_session_id(params.session_id)
            session_id = await asyncio.to_thread(store.home.free_id, wanted)
            with store.home.building() as directory:
                folders = params.folders
                work = importing.take_in(path, params.format, directory, mine, with_files=folders is not None)
                await _run(service, work, call.byte_progress("reading"))
                if folders is not None:
                    await _keep_files(service, directory, folders, call)
                    _heed_cancellation()
                opened = await to_its_end(store.put_in_place(directory, session_id, mine))
        held = await service.hold(call, opened.session, "owner")
    state = await opening.answer(service, held, opened.duplicate)
    return {**state, "losses": sanitize.origin_losses(opened.session.meta)}


async def _keep_files(service: Service, directory: Path, folders: list[str], call: Call) -> None:
    """Judge the snapshots that came along, and note in the new session which folders they are of. They are taken in when it
    is opened first."""
    snapshots = service.store.companions()
    if not isinstance(snapshots, FilesImport):
        raise FilesUnavailableError("no files are kept here: leave the folders out", reason="notConfigured")
    member = await until_cancelled(
        call, lambda control: asyncio.to_thread(snapshots.check_import, directory, folders, control)
    )
    await asyncio.to_thread(Meta(directory, "owner").write, {"files": member})


async def _run(service: Service, work: Work[T], progress: Callable[[int, int], None] | None) -> T:
    """Do `work`; when it does not come to its end, it has stopped before this returns: what it wrote can be removed."""
    try:
        return await service.slices.run(work, progress)
    except BaseException:
        await to_its_end(asyncio.to_thread(_stop, work))
        raise


def _stop(work: Generator[Any, None, Any]) -> None:
    while True:
        try:
            work.close()
        except ValueError:  # a slice of it is still being done
            time.sleep(0.002)
        else:
            return
