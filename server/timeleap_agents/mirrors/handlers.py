"""bridge/*: sessions of other agents' programs."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from timeleap import clock
from timeleap.call import NO_CONTROL
from timeleap.errors import InvalidInputError, SessionLockedError, TimeleapError
from timeleap.sessions.companion import problem_of
from timeleap.sessions.shapes import Cause, Mutation, set_members
from timeleap_agents.mirrors import adopting
from timeleap_agents.mirrors.bridge import bridge_of
from timeleap_agents.mirrors.folders import names_session, usual_folder
from timeleap_agents.mirrors.record_list import PendingSnapshot
from timeleap_protocol.bridge_rows import CATCH_UP
from timeleap_protocol.folder_uri import canonical_folder_uri, folder_of
from timeleap_protocol.limits import MAX_FILE_ROOTS

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session
    from timeleap_agents.mirrors.bridge import Bridge
    from timeleap_agents.mirrors.mirror import Mirror
    from timeleap_protocol.structs.bridge import (
        BridgeAdoptParams,
        BridgeCatchUpParams,
        BridgeListParams,
        BridgeUnwatchParams,
        BridgeWatchParams,
    )

WITH_SNAPSHOT: Final = frozenset({"prompt", "tool", "stop"})
CHECKPOINTS_LOOKED_AT: Final = 20
"""For the last one that has a snapshot."""
STARTED_SECONDS: Final = 2.0
"""How long to wait for the first look at a folder, by which it is known how changes are noticed."""
CLOCKS_APART: Final = 60.0
"""Seconds by which the time that a program notes for a prompt may be before that of its hook: the program notes it first,
and the first hook starts processes before it gets here."""


async def list_sources(service: Service, params: BridgeListParams, call: Call) -> Json:
    """The folders in which agents' programs keep sessions."""
    del params, call
    return {"sources": await bridge_of(service).sources()}


async def watch(service: Service, params: BridgeWatchParams, call: Call) -> Json:
    """Mirror the sessions of a folder, and follow them."""
    folder = _outside(service, _folder(params.kind, params.path))
    workspace = params.workspace and canonical_folder_uri(params.workspace)
    watch = bridge_of(service).watch(params.kind, folder, workspace, call.client)
    with suppress(TimeoutError):  # a folder that does not answer is followed as soon as it does
        await asyncio.wait_for(watch.started.wait(), STARTED_SECONDS)
    return {"kind": params.kind, "path": str(folder), "method": watch.method}


async def unwatch(service: Service, params: BridgeUnwatchParams, call: Call) -> Json:
    """Follow a folder no more."""
    del call
    return {"watched": await bridge_of(service).unwatch(params.kind, _folder(params.kind, params.path))}


async def catch_up(service: Service, params: BridgeCatchUpParams, call: Call) -> Any:
    """Mirror one file up to now, and keep the files of its workspace; by the process that has the mirror open."""
    path = _outside(service, _absolute(params.path, "path"))
    if params.cwd is not None:
        _absolute(params.cwd, "cwd")
    if not names_session(params.kind, path):
        wanted = "the database, and `/ses_...`" if params.kind == "opencode" else "the .jsonl file of a session"
        raise InvalidInputError.of("path", f"must be {wanted}")
    bridge = bridge_of(service)
    return await _caught_up(service, bridge.mirror(params.kind, path), params, call)


async def adopt(service: Service, params: BridgeAdoptParams, call: Call) -> Json:
    """Write a session for the agent's program that ends at a point of a mirror."""
    bridge = bridge_of(service)
    async with service.borrowed(call, params) as session:
        await session.catch_its_turn()
        plan = adopting.plan(session, params.at)
        made = await asyncio.to_thread(adopting.write, plan)
    shown = made.shown or made.path
    mirror = bridge.mirror(plan.kind, shown)
    asked: Json = {"kind": plan.kind, "path": str(shown), "event": "start", "sessionId": mirror.session_id}
    try:  # a process that follows the folder may have opened the mirror before this one
        catching_up = replace(call, method=CATCH_UP.name, params=asked, progress=None)
        await _caught_up(service, mirror, cast("BridgeCatchUpParams", CATCH_UP.read_params(asked)), catching_up)
    except (TimeleapError, OSError):  # who asks again is to find one new session, not two
        await asyncio.to_thread(made.path.unlink, missing_ok=True)
        raise
    return {
        "sessionId": mirror.session_id,
        "path": str(made.path),
        "resume": made.resume,
        **set_members(healed=list(made.healed) or None),
    }


async def _caught_up(service: Service, mirror: Mirror, params: BridgeCatchUpParams, call: Call) -> Any:
    """Do what a hook asks for, here or by the process that has the mirror open. Raises as `Mirror.catch_up`."""
    bridge = bridge_of(service)
    try:
        return await _take_event(bridge, mirror, params)
    except SessionLockedError:
        if call.client.is_peer or service.network is None or not mirror.is_made:
            raise
    place = service.store.place(mirror.session_id, None)
    async with service.attachment(call, place, quiet=True).for_one_request() as attachment:
        if attachment is not None:
            return await attachment.request(call.method, params, call)
    return await _take_event(bridge, mirror, params)  # the owner went just now


def _folder(kind: str, path: str | None) -> Path:
    return usual_folder(kind) if path is None else _absolute(path, "path")


def _outside(service: Service, path: Path) -> Path:
    """A path that is not the store's own: a mirror that reads its own log would never end."""
    if service.store.home.is_inside(path):
        raise InvalidInputError.of("path", "lies in the store: name what the agent's program keeps")
    return path


def _absolute(text: str, field: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise InvalidInputError.of(field, "must be an absolute path")
    return path


async def _take_event(bridge: Bridge, mirror: Mirror, params: BridgeCatchUpParams) -> Json:
    """Do what a hook asks for. Raises as `Mirror.catch_up`."""
    begun = time.time()
    wanted = params.cwd is not None and params.event in WITH_SNAPSHOT
    workspace = Path(params.cwd).as_uri() if wanted and params.cwd is not None else None
    growth = await bridge.catch_up(mirror, workspace)
    session, added = mirror.session, growth.added
    taken: Json = {}
    if session is not None and workspace is not None:
        taken = await _snapshot(session, workspace, params)
        if params.event == "prompt" and "files" in taken:
            mirror.pending_snapshot = PendingSnapshot(taken["files"], clock.iso(begun - CLOCKS_APART))
            added += (await bridge.catch_up(mirror)).added
    state = session.engine.state if session is not None else None
    newest = (
        session.checkpoints(session.engine, state.checkpoints - 1, 1) if session and state and state.checkpoints else []
    )
    return {
        "sessionId": mirror.session_id,
        "added": added,
        **set_members(
            checkpointUid=newest[0].uid if newest else None,
            snapshot=taken.get("snapshot"),
            problem=taken.get("problem") or (None if session is not None else "there is nothing to mirror yet"),
        ),
    }


async def _snapshot(session: Session, workspace: str, params: BridgeCatchUpParams) -> Json:
    """A snapshot of the agent's folder, and how a checkpoint names it; or why there is none."""
    label = params.tool_name if params.event == "tool" and params.tool_name else params.event
    try:
        # A session that enters another folder, as a worktree, changes files there, and may go back to the first.
        known: list[str] = list((session.meta.get("files") or {}).get("roots", ()))
        if known[:1] != [workspace]:
            others = [root for root in known if root != workspace and _is_there(root)][: MAX_FILE_ROOTS - 1]
            await session.companion.keep({"mode": "checkpoint", "roots": [workspace, *others]})
        begun = time.monotonic()
        made = await session.companion.take(label, Mutation(cause=Cause(client=params.kind)), NO_CONTROL)
    except (TimeleapError, OSError) as error:
        return {"problem": problem_of(error)["message"]}
    ms = int((time.monotonic() - begun) * 1000)
    changed = made["changed"] if params.event != "prompt" else await _changed_since_checkpoint(session, made)
    files = {"snapshot": made["snapshot"], "changed": changed, "skipped": len(made["skipped"]), "ms": ms}
    return {"snapshot": made["snapshot"], "files": files}


def _is_there(root: str) -> bool:
    folder = folder_of(root)
    return folder is not None and folder.is_dir()


async def _changed_since_checkpoint(session: Session, made: Json) -> int:
    """How many files differ from the last checkpoint's snapshot: a snapshot itself says from the one before it, which
    a tool's hook took."""
    number = session.engine.state.checkpoints
    last = max(0, number - CHECKPOINTS_LOOKED_AT)
    kept = (each.kept.get("files", {}) for each in session.checkpoints(session.engine, last, number - last))
    found = [each["snapshot"] for each in kept if "snapshot" in each]
    trees = session.companion.content()
    if not found or trees is None:
        return int(made["changed"])
    try:
        return len(await asyncio.to_thread(trees.changed, found[-1], made["snapshot"]))
    except (TimeleapError, OSError):  # that of the checkpoint is gone
        return int(made["changed"])
