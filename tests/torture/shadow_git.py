"""The recipe that several agents follow: a second git repository with the user's folder as its work tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
from pathlib import Path

from tests.torture.agent import Agent, Conversation, Outcome, Step, carry_out, used_space


class ShadowGit(Agent):
    """`add -A` and a commit before and after each turn; `reset --hard` and `clean -fd` to go back."""

    name = "shadow git"
    how = "`git add -A && git commit` before and after each turn; `git reset --hard COMMIT && git clean -fd`"

    _running: subprocess.Popen[bytes] | None = None

    @classmethod
    def version(cls) -> str:
        return subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]

    def open(self, folder: Path) -> Conversation:
        return _Conversation(self, folder)

    def kill(self) -> None:
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGKILL)

    def close(self) -> None: ...

    def stored(self) -> int:
        return used_space(self.home / "shadow")

    def git(self, folder: Path, *arguments: str) -> str:
        """Run git on the shadow repository of a folder.

        Raises:
            RuntimeError: It failed; with what it said.
        """
        repository = self.home / "shadow" / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        settings = {"GIT_DIR": str(repository), "GIT_WORK_TREE": str(folder), "GIT_CONFIG_GLOBAL": os.devnull}
        if not repository.exists():
            repository.parent.mkdir(parents=True, exist_ok=True)
            self._run(folder, settings, "init", "-q")
        return self._run(folder, settings, *arguments)

    def _run(self, folder: Path, settings: dict[str, str], *arguments: str) -> str:
        command = [*self.prefix, "git", "-c", "user.name=shadow", "-c", "user.email=shadow@example.org", *arguments]
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**self.environment(), **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as self._running:
            said, complained = self._running.communicate()
        if self._running.returncode:
            raise RuntimeError(f"git {arguments[0]}: {complained.decode(errors='replace').strip()}")
        return said.decode().strip()


class _Conversation(Conversation):
    def __init__(self, agent: ShadowGit, folder: Path) -> None:
        super().__init__(folder)
        self._agent = agent
        self._commits: list[str | None] = [None]
        self._undone: str | None = None

    def turn(self, *steps: Step) -> None:
        self._commits[-1] = self._commit()
        self.prompts.append(str(self._commits[-1]))
        carry_out(steps, self.folder, self._agent.environment())
        self._commits.append(self._commit())

    def undo(self, turns: int = 1) -> Outcome:
        self._undone = self._commits[-1]
        return self._reset(self._commits[-1 - turns])

    def redo(self) -> Outcome:
        return self._reset(self._undone)

    def _commit(self) -> str | None:
        try:
            self._agent.git(self.folder, "add", "-A", ".")
            self._agent.git(self.folder, "commit", "-q", "--allow-empty", "--no-verify", "-m", "turn")
            return self._agent.git(self.folder, "rev-parse", "HEAD")
        except (RuntimeError, OSError):
            return None  # the recipes log it and go on

    def _reset(self, commit: str | None) -> Outcome:
        if commit is None:
            return Outcome(False, "no snapshot was made")
        try:
            # One process to kill.
            self._agent.git(self.folder, "-c", f"alias.back=!git reset -q --hard {commit} && git clean -qfd", "back")
        except (RuntimeError, OSError) as error:
            return Outcome(False, str(error))
        return Outcome(True)
