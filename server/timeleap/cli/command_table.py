"""The table of commands: where each is defined, and how the overviews list it. No command is loaded to be listed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from timeleap.cli.parameters import Commands, Registered


class CommandEntry(NamedTuple):
    """A command, or a group of commands, by the first word on the command line.

    Attributes:
        module: The module that defines it in its `app`, here in `timeleap.cli` if there is no dot in it.
        about: Its purpose in at most 60 characters.
        daily: The heading of `timeleap --help` under which it stands; None: only `timeleap help --all` lists it.
        package: A package that an installation may lack, without which the command does nothing.
    """

    name: str
    module: str
    about: str
    daily: str | None = None
    package: str | None = None

    @property
    def installed(self) -> bool:
        """True if this installation has all that the command needs."""
        return self.package is None or find_spec(self.package) is not None

    def load(self) -> Registered | Commands:
        """Load the command.

        Raises:
            ModuleNotFoundError: Its package is not installed.
        """
        module = import_module(self.module if "." in self.module else f"timeleap.cli.{self.module}")
        found: Registered | Commands = module.app.find(self.name)
        return found


START, LOOK, BACK = "Start", "Look", "Go back and forth"
DAILY = (START, LOOK, BACK)
"""The headings of `timeleap --help`."""
_AGENTS = "timeleap_agents"
_HOOKS = "timeleap_agents.hooks.commands"

SECTIONS = {
    "Look": (
        CommandEntry("demo", "demo", "Take a guided tour with a real server", START),
        CommandEntry("state", "inspect", "Show everything about a session but its messages"),
        CommandEntry("sessions", "inspect", "List sessions by project and program", LOOK),
        CommandEntry("log", "inspect", "Draw checkpoints and timelines as a graph", LOOK),
        CommandEntry("show", "inspect", "Show messages", LOOK),
        CommandEntry("tail", "inspect", "Show the newest messages; -f follows"),
        CommandEntry("search", "inspect", "Find messages in a session or in all of them", LOOK),
        CommandEntry("at", "inspect", "Find the checkpoint before a message or a time"),
        CommandEntry("diff", "inspect", "Compare two moments of a session", LOOK),
    ),
    "Write": (
        CommandEntry("new", "create", "Create a session and print its id", START),
        CommandEntry("append", "create", "Append messages: text, or JSON lines from the input", START),
        CommandEntry("checkpoint", "create", "Mark a place to come back to", BACK),
        CommandEntry("fork", "create", "Copy a session's history into a new session", BACK),
        CommandEntry("yolo", "describing", "Switch the approval of everything on or off"),
        CommandEntry("auto-approve", "describing", "List or change the actions that need no approval"),
        CommandEntry("approvals", "deciding", "List the requests that wait for approval"),
        CommandEntry("approve", "deciding", "Approve a request"),
        CommandEntry("reject", "deciding", "Reject a request"),
        CommandEntry("afk", "deciding", "Reject requests at once while nobody is there"),
    ),
    "Describe": (
        CommandEntry("title", "describing", "Print or set the title of a session"),
        CommandEntry("system-prompt", "describing", "Print or set the system prompt"),
        CommandEntry("tokens", "describing", "Print or record the token count"),
        CommandEntry("usage", "describing", "List token counts, of a session or of all"),
        CommandEntry("subagents", "describing", "List, define and remove sub-agents"),
        CommandEntry("workspace", "workspace", "Print or set the folder that a session is about"),
    ),
    "Travel in time": (
        CommandEntry("revert", "revert", "Go back to before a checkpoint or a message", BACK),
        CommandEntry("undo", "revert", "Undo the last revert, clear, compaction or restore", BACK),
        CommandEntry("redo", "revert", "Redo what was undone", BACK),
        CommandEntry("restore", "revert", "Make a timeline the present log again"),
        CommandEntry("compact", "revert", "Put a summary in the place of older messages"),
        CommandEntry("fold", "branches", "Put a summary, or nothing, in the place of messages"),
        CommandEntry("merge", "branches", "Append a summary of another session"),
        CommandEntry("edit", "branches", "Change a message and go on from there"),
        CommandEntry("clear", "revert", "Empty a session's log"),
        CommandEntry("pins", "revert", "List or change what no compaction may lose"),
        CommandEntry("dmail", "revert", "Leave notes to an earlier self or another session"),
        CommandEntry("files", "workspace_files", "Save, compare and put back the files of a folder", BACK),
    ),
    "Carry": (
        CommandEntry("export", "carrying", "Write a session to a file: .zip, .md or .html"),
        CommandEntry("import", "carrying", "Create a session from a file"),
    ),
    "Keep in order": (
        CommandEntry("archive", "maintain", "Leave sessions out of lists"),
        CommandEntry("unarchive", "maintain", "Put archived sessions back into lists"),
        CommandEntry("audit", "maintain", "List changes of what needs no approval"),
        CommandEntry("verify", "maintain", "Check every byte of a session"),
        CommandEntry("repair", "maintain", "Take damaged lines out of a session's log"),
        CommandEntry("trash", "maintain", "Delete, undelete and purge sessions"),
        CommandEntry("storage", "maintain", "Show what takes space on disk"),
        CommandEntry("prune", "maintain", "Remove timelines for good to free space"),
        CommandEntry("redact", "maintain", "Take a secret out of a session for good"),
        CommandEntry("config", "settings", "Show and change the settings of the store"),
        CommandEntry("store", "store_commands", "Set up, check and copy whole stores"),
    ),
    "Other agents": (
        CommandEntry("agents", _HOOKS, "Have sessions of Claude Code, Codex and others here", START, _AGENTS),
        CommandEntry("hook", _HOOKS, "Report an event of an agent; its hooks run this", None, _AGENTS),
    ),
    "Protocol": (
        CommandEntry("call", "calling", "Send one request and print its result"),
        CommandEntry("schema", "calling", "Print the protocol: OpenRPC, JSON Schema, TypeScript"),
        CommandEntry("serve", "calling", "Run the server on the standard input and output"),
        CommandEntry("mcp", "calling", "Offer a model its earlier conversations", None, _AGENTS),
        CommandEntry("help", "help", "Explain a command; --all lists every command"),
    ),
}
"""By the heading in `timeleap help --all`."""
TABLE = {entry.name: entry for section in SECTIONS.values() for entry in section}


def load(name: str) -> Registered | Commands | None:
    """The command, or the group, of that name; None if there is none.

    Raises:
        ModuleNotFoundError: Its package is not installed.
    """
    entry = TABLE.get(name)
    return None if entry is None else entry.load()


def installed() -> Iterator[CommandEntry]:
    """The commands of this installation."""
    return (entry for entry in TABLE.values() if entry.installed)
