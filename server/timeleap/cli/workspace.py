"""`workspace`: the folder that a session is about, and a folder that was moved, whose sessions and snapshots follow it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from timeleap import user_folders
from timeleap.cli.backend import LOG_NAME, Backend, change_session, read_state
from timeleap.cli.command import FAILED, DryRun, Session, command
from timeleap.cli.describing import show
from timeleap.cli.file_changes import path_of
from timeleap.cli.formatting import count, one_line
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Exit, Terminal, UsageError
from timeleap.features.files.kept_form import settings_of
from timeleap.features.files.taken_over import MovedSnapshots, find_moved_snapshots, moved_path, take_over
from timeleap.json_value import Json
from timeleap.service import config
from timeleap.sessions.documents.meta import Meta
from timeleap_client.errors import TimeleapRpcError
from timeleap_protocol.folder_uri import canonical_folder_uri, folder_of

app = Commands()

_WAYS = {
    "moved": "follow",
    "copied": "are copied beside those that it has",
    "kept": "stay: it has other snapshots of the same sessions",
}


@command(app)
def workspace(
    terminal: Terminal,
    session: Session,
    folder: Annotated[Path | None, Argument(help="Without it: print the present one.", file_okay=False)] = None,
    *,
    none: Annotated[bool, Option("--none", help="The session belongs to no folder.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Print or set the folder that a session is about: where SESSION is left out, its newest session is meant.

    With a folder in the place of SESSION: it is FOLDER now, and all its sessions and snapshots follow.

    Examples:
        timeleap workspace fix-dates .
        timeleap workspace fix-dates --none
        timeleap workspace ~/shop /mnt/projects/shop
    """
    if folder is not None and none:
        raise UsageError("give a FOLDER or --none, not both")
    if folder is not None and _is_folder(session):
        follow_folder(terminal, user_folders.absolute(session), user_folders.absolute(folder), dry_run=dry_run)
        return
    if dry_run:
        raise UsageError("--dry-run goes with two folders, OLD and NEW: write a path with a slash, such as ./OLD")
    if folder is None and not none:
        show(terminal, read_state(terminal, session, "workspace"))
        return
    uri = None if folder is None else user_folders.absolute(folder).as_uri()
    # Sent as null: it means no folder here, not "left out".
    result = change_session(terminal, session, "session/setWorkspace", workspace=uri)
    terminal.answer(result, f"workspace: {uri or 'none'}")


def _is_folder(name: str) -> bool:
    """True for the path of a folder, which may be gone; a session can be named by a path, too."""
    if "/" not in name and os.sep not in name:
        return False
    return not user_folders.absolute(name).joinpath(LOG_NAME).exists()


def follow_folder(terminal: Terminal, old: Path, new: Path, *, dry_run: bool) -> None:
    """Let the sessions and snapshots of the folder `old`, and of those below it, be of `new`.

    Raises:
        UsageError: It cannot be told that this is the folder, or nothing is of it.
        Exit: Some sessions could not be changed.
    """
    _refuse_unclear(old, new)
    with Backend(terminal) as backend:
        sessions = list(_sessions_of(backend, old, new))
        snapshots_of_old = _moved_snapshots(terminal, old, new)
        if not sessions and not snapshots_of_old:
            raise UsageError(f"no session and no snapshot is of {old}: timeleap sessions names the folder of each")
        if not dry_run:
            _take_over(terminal, snapshots_of_old)
            for session in sessions:
                _change(backend, session)
    failed = [session for session in sessions if "error" in session]
    snapshots = [
        {
            "from": each.former.as_uri(), "to": each.folder.as_uri(), "way": each.way,
            "sessions": len(each.snapshots), "snapshots": sum(each.snapshots.values()),
        }
        for each in snapshots_of_old
    ]  # fmt: skip
    result = {"from": old.as_uri(), "to": new.as_uri(), "sessions": sessions, "snapshots": snapshots}
    terminal.answer(result, *_told(sessions, snapshots), hint="nothing was changed" if dry_run else "")
    if failed:
        raise Exit(FAILED)


def _told(sessions: list[Json], snapshots: list[Json]) -> Iterator[str]:
    for session in sessions:
        where = one_line(path_of(session["workspace"])) if "workspace" in session else "its folders of files"
        failure = f": {one_line(session['error'], 200)}" if "error" in session else ""
        yield f"{session['sessionId']}  {where}{failure}"
    for each in snapshots:
        numbers = f"{count(each['snapshots'], 'snapshot')} of {count(each['sessions'], 'session')}"
        yield f"{numbers} of {one_line(path_of(each['from']))} {_WAYS[each['way']]}: {one_line(path_of(each['to']))}"
    if not snapshots:
        yield "no snapshots have to follow"


def _refuse_unclear(old: Path, new: Path) -> None:
    if not new.exists():
        raise UsageError(f"there is no folder {new}: name the place that {old} has now")
    if not new.is_dir():
        raise UsageError(f"{new} is no folder: name the place that {old} has now")
    if new != old and old.is_dir() and not old.samefile(new):
        raise UsageError(
            f"{old} is still there, so its sessions may be about either folder: move it away, or name one session: "
            "timeleap workspace SESSION FOLDER"
        )


def _sessions_of(backend: Backend, old: Path, new: Path) -> Iterator[Json]:
    """Find the sessions that are about the folder or one below it, or save its files, with what they are to have."""
    params = {"limit": 1000, "includeArchived": True, "includeSubagents": True}
    for info in backend.pages("session/list", params, "sessions"):
        members: Json = {}
        workspace = _moved(info.get("workspace"), old, new)
        if workspace is not None and workspace != info["workspace"]:
            members["workspace"] = workspace
        roots = _roots(backend, info)
        moved = [_moved(root, old, new) or root for root in roots]
        if moved != roots:
            members["roots"] = moved
        if members:
            yield {"sessionId": info["sessionId"], **members}


def _roots(backend: Backend, info: Json) -> list[str]:
    """Return the folders that a session was told to save; none where that is its workspace."""
    if Path(info["path"]).is_dir():
        files = settings_of(Meta(Path(info["path"]), "readOnly"))
        return [] if files is None else list(files.roots)
    opened = backend.open({"sessionId": info["sessionId"]}, tell_losses=False)
    roots: list[str] = opened.state.get("files", {}).get("roots", [])
    backend.call("session/close", {"sessionId": info["sessionId"]})
    return [] if roots == [info.get("workspace")] else roots


def _moved(uri: str | None, old: Path, new: Path) -> str | None:
    """The URI of a folder by its new place; None for one that is not of the old one, or is not below the new one."""
    folder = None if uri is None else folder_of(uri)
    moved = None if folder is None else moved_path(folder, old, new)
    return canonical_folder_uri(moved.as_uri()) if moved is not None and moved.is_dir() else None


def _moved_snapshots(terminal: Terminal, old: Path, new: Path) -> list[MovedSnapshots]:
    found = find_moved_snapshots(_home(terminal), old, new)
    former = [(each.former, uid) for each in found for uid in each.snapshots]
    if len(former) != len(set(former)):
        raise UsageError(
            f"two folders were at {old} one after the other, and the same session has snapshots of both: "
            "it cannot be told which of them is meant"
        )
    return found


def _take_over(terminal: Terminal, snapshots_of_old: list[MovedSnapshots]) -> None:
    for each in snapshots_of_old:
        if each.way != "kept":
            take_over(_home(terminal), each)


def _home(terminal: Terminal) -> Path:
    chosen: Any = terminal.home or os.environ.get("TIMELEAP_HOME") or config.default_home()
    return user_folders.absolute(chosen)


def _change(backend: Backend, session: Json) -> None:
    """Let a session have its new folders; what refuses that is noted in it."""
    identity = {"sessionId": session["sessionId"]}
    try:
        opened = backend.call("session/open", {**identity, "create": False})
        session["head"] = opened["head"]
        if "roots" in session:
            files = {"mode": opened["files"]["mode"], "roots": session["roots"]}
            session["head"] = backend.call("session/open", {**identity, "files": files})["head"]
        if "workspace" in session:
            session["head"] = backend.call("session/setWorkspace", {**identity, "workspace": session["workspace"]})[
                "head"
            ]
        backend.call("session/close", identity)
    except TimeleapRpcError as error:
        session["error"] = error.message
