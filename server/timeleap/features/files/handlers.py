"""files/*: snapshots of the folders a session works on, how they differ, and going back to one."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from timeleap.errors import CheckpointNotFoundError, HeadConflictError, SnapshotNotFoundError
from timeleap.features.files.kept_form import MEMBER
from timeleap.features.files.session_snapshots import FileSnapshots
from timeleap.features.files.tree_port import TreeTarget
from timeleap.features.files.trees import SessionTrees, number_of
from timeleap.features.files.wire_forms import given_path, page_of_changes, page_of_snapshots
from timeleap.service.scheduling import until_cancelled
from timeleap.service.service import guard
from timeleap.sessions.companion import RewriteScope, not_kept
from timeleap_protocol.limits import DEFAULT_PAGE, MAX_FILE_PART

if TYPE_CHECKING:
    from timeleap.call import Call, WorkControl
    from timeleap.features.files.records import FileContent
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap_protocol.structs.files import (
        FilesDiffParams,
        FilesListParams,
        FilesPoint,
        FilesReadParams,
        FilesRestoreParams,
        FilesSnapshotParams,
        FilesTarget,
    )


async def take_snapshot(service: Service, params: FilesSnapshotParams, call: Call) -> Json:
    """Keep the files as they are now."""
    session = service.session(call, params)
    made_under = guard(params, call)

    def take(control: WorkControl) -> Coroutine[Any, Any, Json]:
        return session.companion.take(params.label, made_under, control)

    result: Json = await service.until_cancelled(call, params.session_id, take)
    return result


async def list_snapshots(service: Service, params: FilesListParams, call: Call) -> Json:
    """A page of snapshots, newest first."""
    session = service.session(call, params)
    await session.catch_its_turn()
    trees = _trees(session)
    found = await until_cancelled(call, lambda control: asyncio.to_thread(trees.snapshots, control))
    numbered = [(number_of(each.snapshot_id), each) for each in found]
    return page_of_snapshots(numbered, params.cursor, params.limit or DEFAULT_PAGE)


async def diff(service: Service, params: FilesDiffParams, call: Call) -> Json:
    """A page of the paths that differ between two states."""
    session = service.session(call, params)
    await session.catch_its_turn()
    trees = _trees(session)
    path = None if params.path is None else given_path(params.path, params.path_encoding, "path")

    def look(control: WorkControl) -> Json:
        states = _state(session, trees, params.from_, control), _state(session, trees, params.to, control)
        changes = trees.changes(states, params.root, path, control)
        return page_of_changes(changes, states, params.cursor, params.limit or DEFAULT_PAGE)

    return await until_cancelled(call, lambda control: asyncio.to_thread(look, control))


async def read_file(service: Service, params: FilesReadParams, call: Call) -> Json:
    """A part of a file as a snapshot has it."""
    session = service.session(call, params)
    await session.catch_its_turn()
    trees = _trees(session)
    path = given_path(params.path, params.path_encoding, "path")
    part = params.offset or 0, params.length or MAX_FILE_PART

    def read(control: WorkControl) -> FileContent:
        return trees.read(params.snapshot, params.root, path, part, control)

    found = await until_cancelled(call, lambda control: asyncio.to_thread(read, control))
    return {"content": base64.b64encode(found.content).decode("ascii"), "bytes": found.total, "mode": found.mode}


async def restore(service: Service, params: FilesRestoreParams, call: Call) -> Json:
    """Put files back as a snapshot has them."""
    session = service.session(call, params)
    trees = _trees(session)
    paths = None
    if params.paths is not None:
        paths = tuple(given_path(path, params.path_encoding, "paths") for path in params.paths)

    def target(control: WorkControl) -> TreeTarget:
        """Found at the request's turn. Blocking."""
        newest = trees.newest(control)
        if params.expected_files is not None and params.expected_files != newest:
            raise HeadConflictError(
                f"the newest snapshot is {newest}, not {params.expected_files[:80]}; look at it and try again",
                head=session.head,
                snapshot=newest,
            )
        return TreeTarget(_snapshot(session, trees, params.to, control), paths, params.root)

    made_under = guard(params, call)

    def put_back(control: WorkControl) -> Coroutine[Any, Any, Json]:
        request = RewriteScope("files", params.on_conflict or "refuse", control)
        kept = session.companion
        if not isinstance(kept, FileSnapshots):
            raise not_kept()
        return kept.restore(made_under, lambda: target(control), request, dry_run=bool(params.dry_run))

    result: Json = await service.until_cancelled(call, params.session_id, put_back)
    return result


def _trees(session: Session) -> SessionTrees:
    """The files of a session.

    Raises:
        FilesUnavailableError: It keeps none.
    """
    trees = session.companion.content()
    if not isinstance(trees, SessionTrees):
        raise not_kept()
    return trees


def _state(session: Session, trees: SessionTrees, point: FilesPoint, control: WorkControl) -> str | None:
    """The snapshot that one side of a comparison names; None: the disk."""
    if point.snapshot is None and point.checkpoint_uid is None:
        return None
    return _snapshot(session, trees, point, control)


def _snapshot(session: Session, trees: SessionTrees, point: FilesPoint | FilesTarget, control: WorkControl) -> str:
    """The snapshot that a request names.

    Raises:
        CheckpointNotFoundError: The session never had the checkpoint.
        SnapshotNotFoundError: The checkpoint has none, or it is gone.
    """
    uid = point.checkpoint_uid
    if uid is None:
        assert point.snapshot is not None
        trees.refuse_missing(point.snapshot, control)
        return point.snapshot
    try:
        files = session.find_checkpoint(uid=uid).kept.get(MEMBER, {})
    except CheckpointNotFoundError:
        try:
            return trees.snapshot_of(uid, control)  # its snapshot outlives the checkpoint
        except SnapshotNotFoundError:
            pass
        raise
    if "snapshot" not in files:
        raise SnapshotNotFoundError(f"checkpoint {uid} has no snapshot of the files", checkpointUid=uid)
    return str(files["snapshot"])
