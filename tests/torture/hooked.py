"""Agents that undo no files themselves, or not all, with Timeleap's hooks: they work, and `timeleap files restore` goes back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tests.torture import opencode
from tests.torture.agent import PATIENCE, TOOLS, Agent, AskedConversation, Conversation, Outcome, used_space
from tests.torture.fake_model import FakeModel

from timeleap_agents.mirrors.folders import mirror_id

_FOR_PACKAGES = re.compile("proxy|^npm_|^bun_|^ssl_|^node_extra", re.IGNORECASE)
KIMI = TOOLS / "kimi-code" / "node_modules" / "@moonshot-ai" / "kimi-code" / "dist" / "main.mjs"
NODE = TOOLS.parent / "node" / "node_modules" / "node" / "bin" / "node"
HOW = "its hooks, as `timeleap agents install {}` sets them; `timeleap files restore SESSION CHECKPOINT`"


class HookedAgent(Agent):
    """An agent that tells Timeleap of its prompts."""

    kind: ClassVar[str]

    def __init__(self, home: Path, user: Path, model: FakeModel, prefix: Sequence[str] = ()) -> None:
        super().__init__(home, user, model, prefix)
        self._installed = False

    def install(self) -> None:
        """Set the hooks, once there are settings."""
        if not self._installed:
            self._installed = True
            assert self.timeleap("agents", "install", self.kind, "--yes").returncode == 0

    def timeleap(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A run of our command line."""
        command = [*self.prefix, sys.executable, "-P", "-m", "timeleap", "--home", str(self.home / "store"), *arguments]
        return subprocess.run(
            command,
            env=self.environment(),
            cwd=self.user,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def kill(self) -> None:
        with suppress(OSError, ValueError):
            record = json.loads((self.home / "store" / "hooks" / "host.json").read_text())
            os.kill(record["pid"], signal.SIGKILL)

    def close(self) -> None:
        self.kill()

    def stored(self) -> int:
        return used_space(self.home / "store" / "files")


class HookedConversation(AskedConversation):
    """One whose files go back by the command line."""

    def __init__(self, agent: HookedAgent, folder: Path) -> None:
        super().__init__(folder, agent.model)
        self.hooked = agent
        self._asked = 0
        self._undone = 0
        self._before = ""

    @property
    @abstractmethod
    def mirror(self) -> str:
        """The id under which its session is listed."""

    def undo(self, turns: int = 1) -> Outcome:
        self._undone = turns
        return self._restore(self.prompts[-turns])

    def undo_keeping(self) -> Outcome:
        return self._restore(self.prompts[-self._undone], "--on-conflict", "keep")

    def redo(self) -> Outcome:
        return self._restore(self._before)

    def note_prompt(self) -> None:
        """Wait until one prompt more has a snapshot, and note it."""
        self._asked += 1
        end = time.monotonic() + PATIENCE
        while len(self.prompts) < self._asked and time.monotonic() < end:
            ran = self.hooked.timeleap("state", self.mirror, "--json")
            if ran.returncode == 0:
                found = json.loads(ran.stdout)["context"]["checkpoints"]
                self.prompts = [each["uid"] for each in found if "[[turn " in (each.get("label") or "")]

    def _restore(self, target: str, *more: str) -> Outcome:
        try:
            ran = self.hooked.timeleap("files", "restore", self.mirror, target, "--yes", "--json", *more)
        except subprocess.TimeoutExpired:
            return Outcome(False, "it took too long")
        if ran.returncode:
            return Outcome(False, ran.stderr.strip()[-300:])
        with suppress(ValueError, KeyError):
            self._before = json.loads(ran.stdout)["files"]["before"]
        return Outcome(True)


class KimiCode(HookedAgent):
    """A run of kimi-code for each turn."""

    name = "kimi-code with Timeleap"
    how = HOW.format("kimi-code")
    kind = "kimi-code"

    @classmethod
    def version(cls) -> str:
        package = json.loads((KIMI.parents[1] / "package.json").read_text())
        return str(package["version"])

    @property
    def own(self) -> Path:
        """Its own folder."""
        return self.home / ".kimi-code"

    def open(self, folder: Path) -> Conversation:
        self.own.mkdir(parents=True, exist_ok=True)
        config = self.own / "config.toml"
        if not config.exists():
            config.write_text(
                'default_model = "fake"\n\n'
                f'[providers.fake]\ntype = "openai"\nbase_url = "{self.model.url}/v1"\napi_key = "none"\n\n'
                '[models.fake]\nprovider = "fake"\nmodel = "fake"\nmax_context_size = 200000\n'
            )
        self.install()
        return _OfKimiCode(self, folder)

    def environment(self) -> dict[str, str]:
        own = {"KIMI_CODE_HOME": str(self.own), "KIMI_CODE_NO_AUTO_UPDATE": "1"}
        return {**super().environment(), **own}

    def journals(self) -> set[Path]:
        """List the journals of all its sessions."""
        return set(self.own.glob("sessions/*/*/agents/main/wire.jsonl"))


class _OfKimiCode(HookedConversation):
    names: ClassVar[dict[str, str]] = {
        "shell": "Bash", "read": "Read", "write": "Write", "edit": "Edit",
        "path": "path", "old": "old_string", "new": "new_string",
    }  # fmt: skip

    def __init__(self, agent: KimiCode, folder: Path) -> None:
        super().__init__(agent, folder)
        self._agent = agent
        self._journal: Path | None = None

    @property
    def mirror(self) -> str:
        assert self._journal is not None
        return mirror_id("kimi-code", self._journal)

    def ask(self, prompt: str) -> str | None:
        before = self._agent.journals()
        going_on = () if self._journal is None else ("-r", self._journal.parents[2].name)
        ran = subprocess.run(
            [*self._agent.prefix, NODE, KIMI, *going_on, "-p", prompt],
            cwd=self.folder, env=self._agent.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        if self._journal is None:
            self._journal = next(iter(self._agent.journals() - before), None)
        if ran.returncode or self._journal is None:
            return ran.stderr[-300:]
        self.note_prompt()
        return None


class Opencode(HookedAgent, opencode.Opencode):
    """The server of opencode, with our plugin."""

    name = "opencode with Timeleap"
    how = HOW.format("opencode")
    kind = "opencode"

    def open(self, folder: Path) -> Conversation:
        self.install()
        session = self.ask("/session", folder, {})
        return _OfOpencode(self, folder, session["id"])

    def environment(self) -> dict[str, str]:
        # With a plugin there the program gets a package first, from where this machine gets packages.
        own = {name: value for name, value in os.environ.items() if _FOR_PACKAGES.search(name)}
        return {**super().environment(), **own}

    def kill(self) -> None:
        opencode.Opencode.kill(self)
        HookedAgent.kill(self)


class _OfOpencode(HookedConversation):
    names = opencode.NAMES

    def __init__(self, agent: Opencode, folder: Path, session: str) -> None:
        super().__init__(agent, folder)
        self._theirs = opencode.OwnConversation(agent, folder, session)
        self._session = session

    @property
    def mirror(self) -> str:
        return mirror_id("opencode", self.hooked.home / "opencode" / "opencode.db" / self._session)

    def ask(self, prompt: str) -> str | None:
        error = self._theirs.ask(prompt)
        if error is None:
            self.note_prompt()
        return error
