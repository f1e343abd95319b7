"""Commands about the files of a session: `files` with its `status`, `log`, `diff`, `show`, `snapshot`, `restore`, `mode`."""

from __future__ import annotations

import base64
import itertools
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import quote, unquote_to_bytes

from timeleap import user_folders
from timeleap.cli.backend import Backend, OpenSession, given, reading, refusal, writing
from timeleap.cli.command import LATEST, DryRun, Session, Yes, command, parse_size, subcommands
from timeleap.cli.file_changes import (
    Exclude,
    OnConflict,
    change_line,
    file_name,
    path_of,
    plan_lines,
    refuse_conflicts,
    restored_line,
    say_advice,
)
from timeleap.cli.formatting import ago, count, one_line, safe, size
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.patches import unified_lines
from timeleap.cli.styled_text import StyledText
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError

app = Commands()
files = subcommands(app, "files", "Save, compare and put back the files of a session's folder.")

_DISK: Final = "disk"
_SNAPSHOT: Final = re.compile(r"f[0-9]{1,15}(-[0-9a-f]{0,12})?")
_PIECE: Final = 4 * 1024 * 1024
_MOST_PATCH: Final = 1024 * 1024
"""Bytes of a file beyond which its lines are not compared."""
_REASONS: Final = {"tooLarge": "too large", "special": "a pipe, socket or device", "changing": "it kept changing"}
_MODES: Final = {"off": "off", "checkpoint": "at each checkpoint", "turn": "at each checkpoint and each end of a turn"}

_STATE = "A snapshot (f3, or its whole id); a checkpoint's number, label or uid; disk: what is there now."
Snapshot = Annotated[
    str, Argument(metavar="SNAPSHOT", help="A snapshot (f3, or its whole id), or a checkpoint that has one.")
]


@command(files)
def status(terminal: Terminal, session: Session) -> None:
    """Say what is saved of a session's files, and what has changed on disk since the newest snapshot.

    Examples:
        timeleap files status fix-dates
        timeleap files status --json | jq -r '.changes[].path'
    """
    with reading(terminal, session) as opened:
        present: Json = opened.call("session/getState").get("files") or {"mode": "off", "roots": [], "snapshots": 0}
        newest = next(opened.pages("files/list", "snapshots", limit=1), None) if present["snapshots"] else None
        changes = [] if newest is None else list(_changes(opened, {"snapshot": newest["snapshot"]}, {}))
    since = None if newest is None else newest["snapshot"]
    told = {"sessionId": opened.id, "files": present, "newest": newest, "changes": changes}
    terminal.answer(told, *_described(present, newest), *(f"  {change_line(change)}" for change in changes))
    if "problem" in present:
        say_advice(terminal, present["problem"], opened.id)
    elif present["mode"] == "off" and not since:
        terminal.hint(f"timeleap files mode {opened.id} checkpoint saves them with each checkpoint from now on")
    elif newest is None:
        terminal.hint(f"timeleap checkpoint {opened.id} saves them, or timeleap files snapshot {opened.id}")
    elif not changes:
        terminal.hint(f"nothing has changed since {since}")


def _described(present: Json, newest: Json | None) -> Iterator[str]:
    yield f"saved      {_MODES.get(present['mode'], present['mode'])}"
    yield from (f"folder     {one_line(path_of(root))}" for root in present["roots"])
    if present["snapshots"]:
        yield f"snapshots  {present['snapshots']:,}, {size(present['bytes'])}"
    for name in ("exclude", "includeIgnored"):
        if present.get(name):
            yield f"{'left out' if name == 'exclude' else 'included':<10} {', '.join(map(one_line, present[name]))}"
    if problem := present.get("problem"):
        yield f"problem    {one_line(problem['message'])}"
    if newest is not None:
        label = f"  {one_line(newest['label'], 60)}" if newest.get("label") else ""
        yield f"newest     {newest['snapshot']}, {ago(newest['createdAt'])}{label}"


@command(files)
def log(
    terminal: Terminal,
    session: Session,
    limit: Annotated[int, Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 50,
) -> None:
    """List the snapshots of a session's files, the newest first. With --json one line each.

    Example:
        timeleap files log fix-dates
    """
    with reading(terminal, session) as opened:
        listed = opened.pages("files/list", "snapshots", limit=min(limit, 1000))
        found = list(itertools.islice(listed, limit))
        checkpoints = {} if terminal.machine or not found else _checkpoints(opened)

    def row(snapshot: Json) -> tuple[object, ...]:
        checkpoint = checkpoints.get(snapshot.get("checkpointUid", ""), "")
        told = (snapshot["snapshot"], snapshot["changed"], ago(snapshot["createdAt"]), checkpoint)
        return (*told, snapshot.get("label") or "")

    columns = ("snapshot", "changed", "taken", "checkpoint", "label")
    terminal.records(found, columns, row, right=("changed",), none="no snapshot yet")


def _checkpoints(opened: OpenSession) -> dict[str, str]:
    every = opened.newest("context/listCheckpoints", "checkpoints", 1000)
    return {each["uid"]: f"#{each['id']} {one_line(each.get('label') or '', 40)}".strip() for each in every}


@command(files)
def diff(
    terminal: Terminal,
    session: Session,
    base: Annotated[str, Argument(metavar="A", help=_STATE)],
    other: Annotated[str, Argument(metavar="[B]", help="The same; default: disk.")] = _DISK,
    *,
    path: Annotated[str | None, Option("--path", help="Only this file, or what is below this folder.")] = None,
    patch: Annotated[bool, Option("--patch", "-p", help="The lines that differ, too.")] = False,
) -> None:
    """Compare the files of two states: what was added, modified and deleted from A to B.

    Examples:
        timeleap files diff fix-dates 3
        timeleap files diff fix-dates f2 f5 --patch
        timeleap files diff fix-dates "before the rewrite" disk --path src
    """
    with reading(terminal, session) as opened:
        sides = [_point(opened, name) for name in (base, other)]
        changes = list(_changes(opened, *sides, **_only([path] if path else [], opened, single=True)))
        if terminal.machine:
            terminal.document({"from": sides[0], "to": sides[1], "changes": changes})
            return
        if patch:
            sides = [{"snapshot": _snapshot(opened, side)} if side else side for side in sides]
        for change in changes:
            terminal.say(change_line(change))
            if patch:
                terminal.say(*_patch(opened, sides, change))
    if not changes:
        terminal.hint("nothing differs")


def _changes(opened: OpenSession, before: Json, after: Json, **more: object) -> Iterator[Json]:
    params = {"sessionId": opened.id, "from": before, "to": after, "limit": 1000, **more}
    # Both sides with every page: the cursor says only where it goes on.
    for page in opened.backend.whole_pages("files/diff", params, saying="Comparing files"):
        yield from page["changes"]


def _patch(opened: OpenSession, sides: Sequence[Json], change: Json) -> Iterator[StyledText]:
    largest = max(change.get("bytesFrom", 0), change.get("bytesTo", 0))
    if change.get("binary") or largest > _MOST_PATCH or change["kind"] == "mode":
        return
    before, after = (
        (_content(opened, side, change) if name in change else b"").decode("utf-8", "replace").splitlines()
        for side, name in zip(sides, ("bytesFrom", "bytesTo"), strict=True)
    )
    shown = file_name(change)
    for line in unified_lines(before, after, f"a/{shown}", f"b/{shown}"):
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        yield StyledText(safe(line.expandtabs(4)), style="bold" if line.startswith(("+++", "---")) else style)


def _content(opened: OpenSession, side: Json, entry: Json) -> bytes:
    """A file at one side of a comparison; what is gone from the disk meanwhile is empty."""
    if side:
        named: Json = {name: entry[name] for name in ("path", "root", "pathEncoding") if name in entry}
        return b"".join(_pieces(opened, _snapshot(opened, side), named))
    name = unquote_to_bytes(entry["path"]) if "pathEncoding" in entry else os.fsencode(entry["path"])
    root = entry.get("root") or _roots(opened)[0]
    path = os.path.join(os.fsencode(path_of(root)), name)  # noqa: PTH118  (bytes: a name need not be UTF-8)
    try:
        return os.readlink(path) if os.path.islink(path) else _beginning(path)  # noqa: PTH114, PTH115
    except OSError:
        return b""


def _beginning(path: bytes) -> bytes:
    """Read what is compared of a file on the disk; nothing where a pipe or a device has come into its place."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:
        return file.read(_MOST_PATCH) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


@command(files)
def show(
    terminal: Terminal,
    session: Session,
    snapshot: Snapshot,
    path: Annotated[str, Argument(metavar="PATH", help="Relative to the session's folder.")],
) -> None:
    """Print a file as a snapshot has it, byte for byte (on a terminal without what it would obey).

    Examples:
        timeleap files show fix-dates f2 src/dates.py
        timeleap files show fix-dates "before the rewrite" src/dates.py > dates.old.py
    """
    with reading(terminal, session) as opened:
        named = _only([path], opened, single=True)
        pieces = _pieces(opened, _snapshot(opened, _point(opened, snapshot)), named)
        if terminal.machine:
            content = b"".join(pieces)
            encoded = base64.b64encode(content).decode()
            terminal.document({"content": encoded, "bytes": len(content)})
        elif sys.stdout.isatty():
            terminal.say(safe(b"".join(pieces).decode("utf-8", "replace").expandtabs(4).removesuffix("\n")))
        else:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


def _pieces(opened: OpenSession, snapshot: str, named: Json) -> Iterator[bytes]:
    at, whole = 0, 1
    while at < whole:
        page = opened.call("files/read", snapshot=snapshot, **named, offset=at, length=_PIECE, saying="Reading")
        piece = base64.b64decode(page["content"])
        at, whole = at + len(piece), page["bytes"] if piece else 0
        yield piece


@command(files)
def snapshot(
    terminal: Terminal, session: Session, label: Annotated[list[str] | None, Argument(help="What to call it.")] = None
) -> None:
    """Save the files as they are now, without a checkpoint.

    Example:
        timeleap files snapshot fix-dates before the upgrade
    """
    name = " ".join(label) if label else None
    with writing(terminal, session) as opened:
        made = opened.call("files/snapshot", label=name, saying="Saving files")
    skipped = made["skipped"]
    terminal.answer(made, f"{made['snapshot']}: {count(made['changed'], 'file')} changed")
    for each in skipped[:12]:
        terminal.hint(f"  left out: {file_name(each)} ({_REASONS.get(each['reason'], one_line(each['reason']))})")
    if (more := len(skipped) + made.get("moreSkipped", 0) - len(skipped[:12])) > 0:
        terminal.hint(f"  ... and {more:,} more left out")


@command(files)
def restore(
    terminal: Terminal,
    session: Session,
    snapshot: Snapshot,
    paths: Annotated[
        list[str] | None, Argument(metavar="[PATH...]", help="Only these; a folder means all below it.")
    ] = None,
    *,
    on_conflict: OnConflict = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Put files back as a snapshot has them; the conversation stays. Says which, and asks first.

    What is there now is saved first, so that a restore of that snapshot takes it back exactly. Files that are ignored
    or left out are not touched.

    Examples:
        timeleap files restore fix-dates f2 --dry-run
        timeleap files restore fix-dates "before the rewrite" src/dates.py
        timeleap files restore fix-dates f2 --on-conflict keep --yes
    """
    with Backend(terminal) as backend:
        opened, snapshot, paths = _named(backend, session, snapshot, paths or [], write=not dry_run)
        target = _point(opened, snapshot)
        if not target:
            raise UsageError("name a SNAPSHOT: the disk is what would be changed; timeleap files log lists them")
        wanted: Json = {"to": target, **_only(paths, opened), "onConflict": on_conflict}
        plan = opened.call("files/restore", **wanted, dryRun=True, saying="Comparing files")
        terminal.say(*plan_lines(plan))
        if not dry_run:
            refuse_conflicts(plan, on_conflict)
        goes = any(plan["files"][name] for name in ("added", "modified", "deleted"))
        if terminal.consents(plan, "Put them back?", yes=yes, dry_run=dry_run, goes=goes):
            # The head we looked at: what was written meanwhile was not shown.
            done = opened.call("files/restore", **wanted, expectedHead=plan["head"], saying="Restoring files")
            back = f"; undo with: timeleap files restore {opened.id} {done['files']['before']}"
            terminal.answer(done, hint=f"{restored_line(done).partition(';')[0]}{back}")


def _named(
    backend: Backend, session: str, snapshot: str, paths: list[str], *, write: bool
) -> tuple[OpenSession, str, list[str]]:
    """The session with the snapshot and the paths; where it was left out, what stands in its place is the snapshot."""
    try:
        return backend.open(session, write=write), snapshot, paths
    except TimeleapRpcError as error:
        if error.kind != "sessionNotFound" or not _SNAPSHOT.fullmatch(session):
            raise
    return backend.open(LATEST, write=write), session, [snapshot, *paths]


@command(files)
def mode(
    terminal: Terminal,
    session: Session,
    mode: Annotated[
        Literal["off", "checkpoint", "turn"] | None,
        Argument(metavar="[off|checkpoint|turn]", help="When they are saved. Without it: say what it is."),
    ] = None,
    *,
    root: Annotated[
        list[Path] | None,
        Option("--root", metavar="FOLDER", help="Of this folder, not the session's; may be repeated.", file_okay=False),
    ] = None,
    exclude: Exclude = None,
    include_ignored: Annotated[
        list[str] | None,
        Option("--include-ignored", metavar="PATTERN", help="Save though .gitignore leaves it out; may be repeated."),
    ] = None,
    max_file_size: Annotated[
        str | None, Option("--max-file-size", metavar="SIZE", help="Leave larger files alone (default: 10 MiB).")
    ] = None,
    max_files: Annotated[int | None, Option("--max-files", min=1, help="Save nothing of folders with more.")] = None,
) -> None:
    """Say or set when a session's files are saved, and which. What is not named stays as it is set.

    Of a session without a folder the one you are in is meant.

    Examples:
        timeleap files mode fix-dates checkpoint
        timeleap files mode fix-dates turn --exclude build/ --exclude "*.log"
        timeleap files mode fix-dates off
    """
    chosen = given(
        roots=[user_folders.absolute(folder).as_uri() for folder in root] if root else None,
        exclude=exclude or None,
        includeIgnored=include_ignored or None,
        maxFileBytes=None if max_file_size is None else parse_size(max_file_size),
        maxFiles=max_files,
    )
    sets = mode is not None or bool(chosen)
    with Backend(terminal) as backend:
        state = backend.open(session, write=sets).state
        if sets:
            settings = {"mode": mode or state["files"]["mode"], **chosen}
            if settings["mode"] != "off" and not root and not state["files"]["roots"]:
                settings["roots"] = [Path.cwd().as_uri()]
            state = backend.call("session/open", {"path": state["path"], "create": False, "files": settings})
    present = state["files"]
    terminal.answer({"head": state["head"], "files": present}, *_described(present, None))
    if "problem" in present:
        say_advice(terminal, present["problem"], state["sessionId"])


def _point(opened: OpenSession, name: str) -> Json:
    """A state of the files as params: `disk`, a snapshot's id or its beginning, a checkpoint's number, label or uid."""
    if name == _DISK:
        return {}
    if _SNAPSHOT.fullmatch(name):
        if re.fullmatch(r"f[0-9]+-[0-9a-f]{12}", name):
            return {"snapshot": name}
        begins = name if "-" in name else f"{name}-"
        listed = opened.pages("files/list", "snapshots", limit=1000)
        if found := next((each["snapshot"] for each in listed if each["snapshot"].startswith(begins)), None):
            return {"snapshot": found}
    return {"checkpointUid": opened.uid(name)}


def _snapshot(opened: OpenSession, point: Json) -> str:
    """The snapshot of a point that is not the disk."""
    if "snapshot" in point:
        return str(point["snapshot"])
    uid = point.get("checkpointUid")
    if uid is None:
        raise UsageError("what is on the disk now can be read there; name a snapshot or a checkpoint")
    listed = opened.pages("files/list", "snapshots", limit=1000)
    found = next((each["snapshot"] for each in listed if each.get("checkpointUid") == uid), None)
    if found is None:
        raise refusal(4025, "snapshotNotFound", f"checkpoint {uid} has no snapshot")
    return str(found)


def _only(paths: Sequence[str], opened: OpenSession, *, single: bool = False) -> Json:
    """Paths as params: relative to their root, percent-encoded where one of them is not UTF-8; a dot is all of it."""
    if not paths:
        return {}
    pairs = [_below_root(path, opened) for path in paths]
    if len({root for root, _ in pairs}) > 1:
        raise UsageError("these are in several folders of the session: name those of one")
    names = [name for _, name in pairs]
    if "." in names:
        return given(root=pairs[0][0])
    encoded = any("\udc80" <= character <= "\udcff" for name in names for character in name)
    if encoded:
        names = [quote(os.fsencode(name)) for name in names]
    named: Json = {"path": names[0]} if single else {"paths": names}
    return named | given(root=pairs[0][0], pathEncoding="percent" if encoded else None)


def _below_root(path: str, opened: OpenSession) -> tuple[str | None, str]:
    """The root (None: the only one) and the path below it, of one that is absolute or relative to the root."""
    roots = _roots(opened)
    if not os.path.isabs(path):  # noqa: PTH117
        return (None, path) if len(roots) < 2 else (roots[0], path)
    for root in roots:
        folder = Path(path_of(root))
        if Path(path).is_relative_to(folder):
            return (None if len(roots) < 2 else root), Path(path).relative_to(folder).as_posix()
    raise UsageError(f"{path} is not in a folder of the session: {', '.join(map(path_of, roots)) or 'it has none'}")


def _roots(opened: OpenSession) -> list[str]:
    return list((opened.state.get("files") or {}).get("roots") or [])
