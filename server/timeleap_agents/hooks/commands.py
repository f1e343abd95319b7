"""Commands about other agents: `agents` with its `install`, `uninstall`, `list`, `watch`, `keep`, `kept`, `restore`, `resume`."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from timeleap import user_folders
from timeleap.cli.backend import Backend, given, reading
from timeleap.cli.command import FAILED, DryRun, Session, Yes, command, subcommands
from timeleap.cli.formatting import Exact, safe
from timeleap.cli.parameters import Argument, Commands, Option, Registered
from timeleap.cli.terminal import Exit, Progress, Terminal, UsageError
from timeleap_agents.hooks.agents import AGENTS, REFUSED, Agent
from timeleap_agents.hooks.hook import main as tell_of_event
from timeleap_agents.hooks.keep_commands import (
    DID_CHANGE,
    SOON_DAYS,
    all_read,
    going_soon,
    keep,
    line_of,
    on_day,
    own_words,
    restore,
    show_kept,
    store_home,
    tell_changes,
)
from timeleap_agents.hooks.settings_file import (
    HookSettings,
    SettingsChange,
    installed,
    read,
    with_hooks,
)
from timeleap_agents.hooks.unsafe import UnsafeSettingsError
from timeleap_agents.mirrors.vault.clean_up import deleted_and_kept

app = Commands()
agents = subcommands(app, "agents", "Let other agents' sessions appear here, with undo of their files.")

_VERSION_SECONDS: Final = 10.0
_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)+\S*")

Name = Annotated[
    Literal[
        "claude-code",
        "codex",
        "gemini",
        "kimi-code",
        "opencode",
        "pi",
        "cursor",
        "copilot",
        "qwen-code",
        "goose",
        "grok",
        "aider",
        "kimi",
    ],
    Argument(
        metavar="AGENT",
        help="claude-code, codex, gemini, kimi-code, opencode or pi; `agents list` says why others cannot be had yet.",
    ),
]
Mirrored = Literal["claude-code", "codex", "gemini", "kimi", "kimi-code", "opencode", "pi"]
Project = Annotated[
    bool, Option("--project", help="For this folder only: in the settings of the project, not in your own.")
]


@command(agents)
def install(
    terminal: Terminal, agent: Name, project: Project = False, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Have an agent call Timeleap at each prompt and after tools that write; shows the change and asks first.

    From then on its sessions appear here, with a checkpoint and a snapshot of the files at each prompt. Other hooks and
    settings stay as they are.

    Examples:
        timeleap agents install claude-code
        timeleap agents install codex --project --yes
    """
    chosen = _chosen(agent)
    settings = _settings(terminal, chosen, project)
    line = hook_command(chosen, store_home(terminal))
    try:
        change = settings.plan_install(line)
        if _agreed(terminal, settings, change, "Change it?", yes=yes, dry_run=dry_run):
            settings.carry_out(change, install=True)
            terminal.answer(_told(settings, change), hint=f"installed in {settings.place.path}. {chosen.note}")
        elif not dry_run:
            terminal.hint(f"{chosen.title} calls Timeleap already, as {settings.place.path} says")
    except UnsafeSettingsError as error:
        _refuse(terminal, settings, str(error), with_hooks(chosen, line, None))


@command(agents)
def uninstall(
    terminal: Terminal, agent: Name, project: Project = False, yes: Yes = False, dry_run: DryRun = False
) -> None:
    """Take Timeleap's hooks out of an agent's settings: what was there before is there again, byte for byte.

    If the file was changed since, only the hooks go. Sessions that are here stay.

    Example:
        timeleap agents uninstall claude-code
    """
    settings = _settings(terminal, _chosen(agent), project)
    try:
        change = settings.plan_uninstall()
        if _agreed(terminal, settings, change, "Change it?", yes=yes, dry_run=dry_run):
            settings.carry_out(change, install=False)
            terminal.answer(_told(settings, change), hint=f"taken out of {settings.place.path}")
        elif not dry_run:
            terminal.hint(f"no hook of Timeleap's is in {settings.place.path}")
    except UnsafeSettingsError as error:
        _refuse(terminal, settings, str(error), None)


@command(agents, "list")
def list_(terminal: Terminal) -> None:
    """Say of each agent whether its hooks are installed, for you and for this folder, and which version is there.

    "going": sessions that the agent will delete within 7 days, by its own settings; "kept": sessions that are kept here,
    though the agent has deleted them.

    Example:
        timeleap agents list --json
    """
    rows = [_listed(terminal, agent) for agent in AGENTS.values()]
    rows += [{"agent": name, "supported": False, "problem": reason} for name, reason in REFUSED.items()]
    columns = ("agent", "version", "for you", "this folder", "going", "kept", "settings")
    terminal.records(rows, columns, _row)
    for found in rows:
        if "deletesFrom" in found:
            number, first = found["deletesSoon"], on_day(found["deletesFrom"])
            terminal.hint(
                f"{found['agent']} deletes {number} sessions within {SOON_DAYS} days, the first {first}: "
                "timeleap agents keep keeps them"
            )


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    if not found["supported"]:
        return (found["agent"], "", "not supported", "not supported", "", "", found["problem"])
    user, project = found["user"], found["project"]
    words = [place.get("problem") or ("installed" if place["installed"] else "no") for place in (user, project)]
    numbers = (found["deletesSoon"], found["deletedKept"])
    return (found["agent"], found["version"] or "not found", *words, *numbers, user["path"])


def _listed(terminal: Terminal, agent: Agent) -> dict[str, Any]:
    told: dict[str, Any] = {"agent": agent.name, "supported": True, "version": found_version(agent.program)}
    told |= {**going_soon(agent.name), "deletedKept": deleted_and_kept(store_home(terminal), agent.name)}
    for name, project in (("user", False), ("project", True)):
        try:
            settings = _settings(terminal, agent, project)
        except UsageError as error:
            told[name] = {"path": None, "installed": False, "problem": str(error)}
            continue
        told[name] = {"path": os.fsdecode(settings.place.path), "installed": False}
        try:
            content = read(settings.place)
        except UnsafeSettingsError as error:
            told[name]["problem"] = str(error)
        else:
            told[name]["installed"] = content is not None and bool(installed(agent, content.text))
    return told


def found_version(program: str) -> str | None:
    """The version that an agent's program says it has; None where there is no such program, or it does not say."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        ran = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(ran.stdout[:1000].decode(errors="replace"))
    return match and match[0][:40]


def hook_command(agent: Agent, home: Path) -> str:
    """The command line that an agent is to run: this Timeleap, on this store.

    Raises:
        UsageError: It cannot be written into a settings file.
    """
    line = shlex.join([*own_words(), "--home", str(home), "hook", agent.name])
    if not line.isprintable():
        raise UsageError(f"a command cannot be written with this path: {line!r}")
    return line


@command(agents)
def watch(
    terminal: Terminal,
    agent: Annotated[
        Mirrored | None,
        Argument(
            metavar="[AGENT]",
            help="claude-code, codex, gemini, kimi, kimi-code, opencode or pi; default: all that are there.",
        ),
    ] = None,
    folder: Annotated[
        str | None, Argument(metavar="[FOLDER]", help="Where it keeps its sessions, if not in the usual place.")
    ] = None,
    once: Annotated[bool, Option("--once", help="End when all that is there is read.")] = False,
) -> None:
    """Have an agent's sessions here without hooks: those it has kept so far, then what it writes, until Ctrl-C.

    They are read-only, and stay when this ends: timeleap sessions lists them, timeleap search finds what was said, and
    the next watch reads only what is new. Snapshots of files come with hooks: timeleap agents install.

    Examples:
        timeleap agents watch
        timeleap agents watch claude-code --once
        timeleap agents watch codex ~/backup/.codex/sessions
    """
    with Backend(terminal, process=not once) as backend:
        changes = backend.client.notifications(DID_CHANGE)
        params = _watched(backend, agent, folder)
        progress = Progress()
        sources = backend.wait(all_read(backend.client, params, progress), progress, "Reading sessions")
        columns = ("agent", "sessions", "here", "folder", "problem")
        none = "no agent that can be read has kept sessions; name one, and its folder, to wait for them"
        terminal.records(sources, columns, _source_row, ("sessions", "here"), none)
        if once:
            return
        terminal.hint("following them; Ctrl-C ends")
        tell_changes(terminal, backend, changes, params)


def _watched(backend: Backend, agent: str | None, folder: str | None) -> list[dict[str, Any]]:
    """The params of `bridge/watch` for each folder that is followed from now on."""
    path = None if folder is None else str(user_folders.absolute(folder))
    if agent is None:
        sources = backend.call("bridge/list")["sources"]
        params = [{"kind": source["kind"]} for source in sources if source["available"]]
    else:
        params = [given(kind=agent, path=path)]
    return [{"kind": each["kind"], "path": backend.call("bridge/watch", each)["path"]} for each in params]


def _source_row(source: dict[str, Any]) -> tuple[object, ...]:
    problem = source.get("problem") or ("" if source["available"] else "there is no such folder")
    return (source["kind"], source["sessions"], source["mirrored"], source["path"], problem)


command(agents)(keep)
command(agents, "kept")(show_kept)
command(agents)(restore)


@command(agents)
def resume(
    terminal: Terminal,
    session: Session,
    checkpoint: Annotated[
        str | None,
        Argument(help="Go on from before this prompt: its number, label or uid (default: behind all of it)."),
    ] = None,
) -> None:
    """Go on with an agent's session in the agent itself, from a prompt of your choice: prints the command that does it.

    For that a session file is written next to the agent's own, with the conversation up to there; the agent's own stays
    as it is. The files of the folder are another step: timeleap files restore SESSION CHECKPOINT.

    Examples:
        timeleap log SESSION
        timeleap agents resume SESSION "Tidy up the folder."
        sh -c "$(timeleap agents resume SESSION 3)"
    """
    with reading(terminal, session) as opened:
        at = None if checkpoint is None else opened.uid(checkpoint)
        made = opened.call("bridge/adopt", at=at, saying="Writing the session")
    hint = f"{made['sessionId']} is its session here, once it has gone on"
    healed = [f"put right, which the agent would refuse: {each}" for each in made.get("healed", [])]
    terminal.answer(made, Exact(line_of(made["resume"])))
    for each in (*healed, hint):
        terminal.hint(each)


def hook(terminal: Terminal, arguments: Sequence[str]) -> None:
    """Tell Timeleap of an event of an agent, which is read from the standard input: what `agents install` has them run.

    Says nothing and ends with 0, whatever happens: an agent is never held up. What went wrong is in hooks/hook.log in
    the store's directory.
    """
    # `timeleap.__main__` goes there without loading any of this; only other ways in come here.
    raise Exit(tell_of_event([*terminal.home_words(), "hook", *arguments]))


app.members.append(Registered("hook", hook, raw=True))


def _chosen(name: str) -> Agent:
    if name in REFUSED:
        raise UsageError(f"{name} is not supported: {REFUSED[name]}")
    if sys.platform == "win32":
        raise UsageError("hooks are not available on Windows yet: Timeleap's own process cannot be reached fast enough")
    return AGENTS[name]


def _settings(terminal: Terminal, agent: Agent, project: bool) -> HookSettings:
    try:
        place = agent.place(Path.cwd() if project else None, os.environ)
    except LookupError as error:
        raise UsageError(str(error)) from None
    return HookSettings(agent, place, store_home(terminal))


def _agreed(
    terminal: Terminal, settings: HookSettings, change: SettingsChange, question: str, *, yes: bool, dry_run: bool
) -> bool:
    if change.changes:
        terminal.say(f"The change to {settings.place.path}:", *(safe(line) for line in _diff(settings, change)))
    return terminal.consents(_told(settings, change), question, yes=yes, dry_run=dry_run, goes=change.changes)


def _told(settings: HookSettings, change: SettingsChange) -> dict[str, Any]:
    return {
        "agent": settings.agent.name,
        "path": os.fsdecode(settings.place.path),
        "changed": change.changes,
        "diff": "\n".join(_diff(settings, change)),
    }


def _diff(settings: HookSettings, change: SettingsChange) -> list[str]:
    before = "" if change.before is None else change.before.text
    after = "" if change.after is None else change.after.decode()
    name = os.fsdecode(settings.place.path)
    old, new = (name if text else os.devnull for text in (before, after))
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm=""))


def _refuse(terminal: Terminal, settings: HookSettings, why: str, text: str | None) -> None:
    path = os.fsdecode(settings.place.path)
    lines = [f"{why}. Nothing was written."]
    if text is None:
        lines.append(f"Take the hooks whose command ends with `hook {settings.agent.name}` out of {path} yourself.")
    else:
        lines += [f"You can put this into {path} yourself; what is in hooks already stays:", *text.splitlines()]
    terminal.fail(lines, {"kind": "settings", "message": lines[0], "path": path, "text": text})
    raise Exit(FAILED) from None
