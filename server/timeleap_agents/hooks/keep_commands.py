"""Commands about what is kept of agents' sessions: `agents keep`, `kept`, `restore`; and following folders until Ctrl-C."""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from timeleap import clock, user_folders
from timeleap.cli.backend import Backend, reading
from timeleap.cli.command import DryRun, Session, Yes
from timeleap.cli.formatting import Exact, now, safe
from timeleap.cli.parameters import Option
from timeleap.cli.terminal import Progress, Terminal, UsageError
from timeleap.errors import StorageFailureError
from timeleap.service import config
from timeleap_agents.mirrors.folders import usual_folder
from timeleap_agents.mirrors.vault.clean_up import going_within
from timeleap_agents.mirrors.vault.service_unit import (
    PLATFORM,
    InstalledService,
    NoServicesError,
    Told,
    service_file,
    tell,
)
from timeleap_client.notifications import Notification, Subscription
from timeleap_client.raw import RawTimeleap

DID_CHANGE: Final = "bridge/didChange"
_ASK_AGAIN: Final = 2.0
"""Seconds without a change after which it is made sure that there is a server that follows."""
_PAUSE: Final = 0.1
"""Seconds, at least, between two looks at how much is read."""
SOON_DAYS: Final = 7
"""Sessions that an agent deletes within these are told."""


def keep(
    terminal: Terminal,
    service: Annotated[
        Literal["install", "uninstall", "status"] | None,
        Option("--service", help="Do it in the background, from each login on: a service of systemd or launchd."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Keep all that your agents write, before they delete it: mirrors their sessions, with the bytes of the files.

    Runs until Ctrl-C, for all agents that can be read, also those that keep their first session later. What they delete
    or write anew stays: timeleap agents kept, timeleap agents restore, timeleap agents resume.

    Examples:
        timeleap agents keep
        timeleap agents keep --service install
        timeleap agents keep --service uninstall
    """
    if service is not None:
        _serve(terminal, service, yes=yes, dry_run=dry_run)
        return
    with Backend(terminal, process=True) as backend:
        changes = backend.client.notifications(DID_CHANGE)
        params = [{"kind": source["kind"]} for source in backend.call("bridge/list")["sources"]]
        params = [{**each, "path": backend.call("bridge/watch", each)["path"]} for each in params]
        progress = Progress()
        sources = backend.wait(all_read(backend.client, params, progress), progress, "Keeping sessions")
        found = [{**each, **going_soon(each["kind"], each["path"])} for each in sources]
        columns = ("agent", "sessions", "kept", "going", "folder", "problem")
        terminal.records(
            [each for each in found if each["available"]], columns, _kept_row, ("sessions", "kept", "going")
        )
        if soon := sum(each["deletesSoon"] for each in found):
            first = min(each["deletesFrom"] for each in found if "deletesFrom" in each)
            terminal.hint(
                f"your agents will delete {soon} sessions within {SOON_DAYS} days, the first {on_day(first)}: they are kept here"
            )
        terminal.hint("keeping what they write; Ctrl-C ends")
        tell_changes(terminal, backend, changes, params)


def _kept_row(source: dict[str, Any]) -> tuple[object, ...]:
    numbers = (source["sessions"], source["mirrored"], source["deletesSoon"])
    return (source["kind"], *numbers, source["path"], source.get("problem", ""))


def going_soon(kind: str, folder: str | None = None) -> dict[str, Any]:
    """How many sessions an agent will delete within a week (`deletesSoon`), and when the first (`deletesFrom`)."""
    try:
        going = going_within(kind, usual_folder(kind) if folder is None else Path(folder), SOON_DAYS)
    except StorageFailureError:  # a user without a home directory has none
        return {"deletesSoon": 0}
    return {"deletesSoon": going.sessions, **({} if going.first is None else {"deletesFrom": going.first})}


def on_day(when: str) -> str:
    """A time (ISO-8601 UTC) as words: what is due is deleted at the agent's next start."""
    return "at its next start" if when <= clock.now_iso() else f"on {when[:10]}"


def _serve(terminal: Terminal, what: str, *, yes: bool, dry_run: bool) -> None:
    """Install the service, take it away, or say whether it runs."""
    user_home = user_folders.home()
    if user_home is None:
        raise UsageError("there is no place for a service, since this user has no home directory")
    try:
        file = service_file(
            [*own_words(), "--home", str(store_home(terminal)), "agents", "keep"], user_home, os.environ, PLATFORM
        )
    except NoServicesError as error:
        raise UsageError(str(error)) from None
    unit = InstalledService(file, store_home(terminal))
    path = os.fsdecode(file.path)
    if what == "status":
        running = tell([file.ask])
        told = {"path": path, "installed": unit.installed, "running": running.ok}
        words = "runs" if running.ok else "does not run"
        terminal.answer(told, f"{path}: {'installed' if unit.installed else 'not installed'}, {words}")
        return
    _change_service(terminal, unit, install=what == "install", yes=yes, dry_run=dry_run)


def _change_service(terminal: Terminal, unit: InstalledService, *, install: bool, yes: bool, dry_run: bool) -> None:
    """Install the service, or take it away; shows the change and asks first."""
    path = os.fsdecode(unit.file.path)
    before = unit.present()
    after = unit.file.content if install else unit.after_uninstall()
    old, new = [(data or b"").decode(errors="replace").splitlines() for data in (before, after)]
    diff = list(difflib.unified_diff(old, new, path, path, lineterm=""))
    told = {"path": path, "changed": before != after, "diff": "\n".join(diff)}
    if before != after:
        terminal.say(f"The change to {path}:", *(safe(line) for line in diff))
    if not terminal.consents(told, "Change it?", yes=yes, dry_run=dry_run, goes=before != after):
        if not dry_run:
            terminal.hint(f"nothing to do: {path} is as it should be")
        return
    if install:
        unit.install()
        done = tell(unit.file.start)
        hint = (
            "it keeps your agents' sessions now, and from each login on" if done.ok else _by_hand(unit.file.start, done)
        )
    else:
        done = tell(unit.file.stop)
        unit.uninstall()
        hint = f"taken away: {path}" if done.ok else _by_hand(unit.file.stop, done)
    terminal.answer({**told, "running": done.ok and install}, hint=hint)


def _by_hand(commands: Sequence[Sequence[str]], told: Told) -> str:
    lines = "; ".join(shlex.join(words) for words in commands)
    return f"the file is written, but {told.problem}: run {lines} yourself"


def show_kept(terminal: Terminal, session: Session) -> None:
    """Say what is kept of an agent's session, byte for byte: a generation for each time its file was begun again.

    Example:
        timeleap agents kept SESSION
    """
    with reading(terminal, session) as opened:
        found = opened.call("bridge/listKept")["generations"]
    columns = ("generation", "bytes", "first seen", "last seen", "ended")
    none = "nothing is kept of it"
    terminal.records(found, columns, _generation_row, ("generation", "bytes"), none)


def _generation_row(found: dict[str, Any]) -> tuple[object, ...]:
    return (found["generation"], found["bytes"], found["firstSeen"], found["lastSeen"], found.get("ended", "grows"))


def restore(
    terminal: Terminal,
    session: Session,
    generation: Annotated[
        int | None, Option("--generation", help="Which, as `agents kept` says; default: the newest.")
    ] = None,
    to: Annotated[str | None, Option("--to", metavar="FILE", help="Write it there; default: its old place.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Put an agent's session file back, as it was kept; a file with other bytes is never written over.

    Examples:
        timeleap agents restore SESSION
        timeleap agents restore SESSION --generation 1 --to before.jsonl
    """
    path = None if to is None else str(user_folders.absolute(to))
    with reading(terminal, session) as opened:
        made = opened.call("bridge/restoreFile", generation=generation, path=path, dryRun=dry_run or None)
    wanted = made.get("resume")
    hint = f"go on with {line_of(wanted)}" if wanted else ""
    terminal.answer(made, Exact(made["path"]), hint=hint)


def line_of(wanted: dict[str, Any]) -> str:
    """A command of `bridge/*` as a line for a shell."""
    folder = f"cd {shlex.quote(wanted['cwd'])} && " if "cwd" in wanted else ""
    return folder + shlex.join([wanted["command"], *wanted["args"]])


def tell_changes(terminal: Terminal, backend: Backend, changes: Subscription, params: list[dict[str, Any]]) -> None:
    """Say which sessions change, until Ctrl-C."""
    while (news := backend.run(_next_change(backend.client, changes, params))) is not None:
        for change in ("added", "changed", "gone"):
            for each in news.params[change]:
                session = each["sessionId"] if change == "gone" else each
                if terminal.machine:
                    terminal.line({"change": change, "sessionId": session})
                terminal.say(f"{now()}  {change:8}{session}")


async def _next_change(client: RawTimeleap, changes: Subscription, params: list[dict[str, Any]]) -> Notification | None:
    """The next notification; None where none can come any more. Asks for them again and again: a server that was
    started in the place of another one follows nothing yet."""
    while True:
        try:
            return await asyncio.wait_for(anext(changes, None), _ASK_AGAIN)
        except TimeoutError:
            for each in params:
                await client.call("bridge/watch", each)


async def all_read(client: RawTimeleap, params: list[dict[str, Any]], progress: Progress) -> list[dict[str, Any]]:
    """The sources of these params (`BridgeSource`) when all their files have been looked at."""
    folders = {(each["kind"], each["path"]) for each in params}
    while True:
        begun = time.monotonic()
        sources = (await client.call("bridge/list"))["sources"]
        found: list[dict[str, Any]] = [each for each in sources if (each["kind"], each["path"]) in folders]
        if all(source.get("pending") == 0 for source in found):
            return found
        total = sum(source["sessions"] for source in found)
        left = sum(source.get("pending", source["sessions"]) for source in found)
        progress.take({"percentage": 100 * (total - left) // max(total, 1), "message": f"{left:,} sessions to read"})
        await asyncio.sleep(max(_PAUSE, time.monotonic() - begun))


def own_words() -> list[str]:
    """The command that starts this Timeleap."""
    started = Path(sys.argv[0]).absolute()
    if started.name == "timeleap" and os.access(started, os.X_OK):
        return [str(started)]
    # -P: the folder in which an agent works may hold modules of anybody's
    return [sys.executable, "-P", "-m", "timeleap"]


def store_home(terminal: Terminal) -> Path:
    home = user_folders.absolute(terminal.home or os.environ.get("TIMELEAP_HOME") or config.default_home())
    config.require_home(home)
    return home
