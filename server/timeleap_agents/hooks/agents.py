"""The agents that can call Timeleap: where their hooks are set, in which form, and why others cannot."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from timeleap import user_folders
from timeleap.errors import StorageFailureError

_WRITING_TOOLS: Final = "^(Bash|Edit|MultiEdit|Write|NotebookEdit|mcp__.*)$"
_WRITING_TOOLS_OF_CODEX: Final = "^(Bash|apply_patch|mcp__.*)$"
_WRITING_TOOLS_OF_GEMINI: Final = "^(run_shell_command|write_file|replace|mcp_.*)$"
"""Tools after which files may differ. A tool that is not named here costs the agent nothing, and what it wrote is in
the snapshot of the next prompt."""

_SECONDS: Final = {"UserPromptSubmit": 15, "BeforeAgent": 15, "SessionEnd": 3}
_OTHER_SECONDS: Final = 5
"""After how long the agent ends our command: it ends by itself before that (`hook.py`). Codex allows no more at the end."""


class SettingsPlace(NamedTuple):
    """Where a settings file is.

    Attributes:
        base: The folder that the person chose; links on the way to it are theirs.
        parts: The names from there to the file, none of which may be a link.
        form: As that of its agent.
    """

    base: Path
    parts: tuple[str, ...]
    form: str = "JSON"

    @property
    def path(self) -> Path:
        return self.base.joinpath(*self.parts)


class Agent(NamedTuple):
    """An agent whose hooks are proven.

    Attributes:
        name: What it is called on our command line.
        title: What it is called elsewhere.
        program: Its command.
        variable: What names its folder in the environment.
        folder: Its folder, in the person's or in a project's.
        user_file, project_file: Its settings files in there. Those of a project are the person's own where the agent has
            such: the command names a program of this machine.
        events: The events whose hook we are, and which tools they are about.
        note: What else a person has to do, or to know.
        is_home: The variable names what takes the place of the person's home, in which the folder is.
        per_second: Units of time, in which the agent has timeouts, of a second.
        form: Of the settings file: `JSON`, `TOML`, or a `plugin`, which is a file of our own.
        chosen_folder: Its folder in the one that the variable names, where that is another one; and `project_folder`.
        background: The events at which the agent need not wait for us, where it can do without: what is said of them is
            done a little later anyway.
    """

    name: str
    title: str
    program: str
    variable: str
    folder: str
    user_file: str
    project_file: str
    events: Mapping[str, str | None]
    note: str
    is_home: bool = False
    per_second: int = 1
    background: frozenset[str] = frozenset()
    form: str = "JSON"
    chosen_folder: str = ""
    project_folder: str = ""

    def place(self, project: Path | None, environ: Mapping[str, str]) -> SettingsPlace:
        """The settings file of the person, or of a project.

        Raises:
            StorageFailureError: The person has no home directory.
            LookupError: The agent has no settings for a project; the message says so.
        """
        if project is not None:
            if not self.project_file:
                raise LookupError(f"{self.title} has no settings for one folder")
            return self._place(project, self.project_folder or self.folder, self.project_file)
        if chosen := environ.get(self.variable):
            inside = self.folder if self.is_home else self.chosen_folder
            # Where there is no home that its ~ stands for, the agent takes the name as it is written.
            return self._place(user_folders.expanded(chosen) or Path(chosen).absolute(), inside, self.user_file)
        home = user_folders.home()
        if home is None:
            raise StorageFailureError(
                f"there are no settings of {self.name}, since this user has no home directory: name the folder that it "
                f"keeps them in with {self.variable}",
                path="",
                errno="ENOENT",
            )
        return self._place(home, self.folder, self.user_file)

    def _place(self, base: Path, *names: str) -> SettingsPlace:
        parts = tuple(part for name in names for part in name.split("/") if part)
        return SettingsPlace(base, parts, self.form)

    def entries(self, command: str) -> dict[str, Any]:
        """Entries to add to the hooks of each event."""
        return {event: self._entry(event, command) for event in self.events}

    def _entry(self, event: str, command: str) -> dict[str, Any]:
        matcher = self.events[event]
        timeout = _SECONDS.get(event, _OTHER_SECONDS) * self.per_second
        handler: dict[str, Any] = {"type": "command", "command": command, "timeout": timeout}
        if event in self.background:
            handler["async"] = True
        return {**({} if matcher is None else {"matcher": matcher}), "hooks": [handler]}

    def owns(self, handler: object) -> bool:
        """True if a hook was added by us: its command is Timeleap's `hook` for this agent, wherever Timeleap is."""
        command = handler.get("command") if isinstance(handler, dict) else None
        try:
            words = shlex.split(command) if isinstance(command, str) else []
        except ValueError:
            return False
        program = words[:-2]
        if words[-2:] != ["hook", self.name] or not program:
            return False
        return os.path.basename(program[0]) == "timeleap" or program[1:4] == ["-P", "-m", "timeleap"]  # noqa: PTH119


AGENTS: Final = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude-code",
            title="Claude Code",
            program="claude",
            variable="CLAUDE_CONFIG_DIR",
            folder=".claude",
            user_file="settings.json",
            project_file="settings.local.json",
            events={
                "UserPromptSubmit": None,
                "PostToolUse": _WRITING_TOOLS,
                "PostToolUseFailure": _WRITING_TOOLS,
                "Stop": None,
                "SessionEnd": None,
            },
            note="Sessions that run already go on without it: Claude Code reads its hooks when it starts.",
            background=frozenset({"PostToolUse", "PostToolUseFailure", "Stop"}),  # at its end it waits: SessionEnd
        ),
        Agent(
            name="codex",
            title="Codex",
            program="codex",
            variable="CODEX_HOME",
            folder=".codex",
            user_file="hooks.json",
            project_file="hooks.json",
            events={
                "UserPromptSubmit": None,
                "PostToolUse": _WRITING_TOOLS_OF_CODEX,
                "Stop": None,
                "SessionEnd": None,
            },
            note="Codex runs no hook that you have not trusted, and says nothing: start it, and trust these (/hooks).",
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            program="gemini",
            variable="GEMINI_CLI_HOME",
            folder=".gemini",
            user_file="settings.json",
            project_file="settings.json",
            events={
                "BeforeAgent": None,
                "AfterTool": _WRITING_TOOLS_OF_GEMINI,
                "AfterAgent": None,
                "SessionEnd": None,
            },
            note="Sessions that run already go on without it: Gemini CLI reads its hooks when it starts.",
            is_home=True,
            per_second=1000,
        ),
        Agent(
            name="kimi-code",
            title="kimi-code",
            program="kimi",
            variable="KIMI_CODE_HOME",
            folder=".kimi-code",
            user_file="config.toml",
            project_file="",
            events={
                "UserPromptSubmit": None,
                "PostToolUse": _WRITING_TOOLS,
                "PostToolUseFailure": _WRITING_TOOLS,
                "Stop": None,
                "SessionEnd": None,
            },
            note="Sessions that run already go on without it: kimi-code reads its hooks when it starts.",
            form="TOML",
        ),
        Agent(
            name="opencode",
            title="opencode",
            program="opencode",
            variable="XDG_CONFIG_HOME",
            folder=".config/opencode",
            user_file="plugin/timeleap.js",
            project_file="plugin/timeleap.js",
            events=dict.fromkeys(("UserPromptSubmit", "PostToolUse", "Stop")),
            note="opencode loads plugins when it starts: what runs already goes on without it.",
            form="plugin",
            chosen_folder="opencode",
            project_folder=".opencode",
        ),
        Agent(
            name="pi",
            title="pi",
            program="pi",
            variable="PI_CODING_AGENT_DIR",
            folder=".pi/agent",
            user_file="extensions/timeleap.js",
            project_file="extensions/timeleap.js",
            events=dict.fromkeys(("UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")),
            note="What runs already goes on without it until /reload; of a folder, pi loads it once you trust the folder.",
            form="plugin",
            project_folder=".pi",
        ),
    )
}

_NOT_PROVEN: Final = "what it tells a hook is not proven with its program, and Timeleap does not read its sessions."
REFUSED: Final = {
    "cursor": "its program cannot be had for tests, so what it tells a hook is not proven; Timeleap does not read its sessions.",
    **dict.fromkeys(("copilot", "qwen-code", "goose", "grok", "aider"), _NOT_PROVEN),
    "kimi": "what kimi-cli tells a hook is not proven. Its sessions are read without one: timeleap agents watch kimi",
}
"""Agents that are asked for and cannot be had, and why."""
