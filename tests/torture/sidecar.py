"""Timeleap, driven over its wire: an agent's loop appends what it does, `context/revertTo` and `context/undo` go back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.server import Launch, Refused, Server
from tests.torture.agent import Agent, Conversation, Outcome, Shell, Step, TurnFailedError, carry_out, used_space
from tests.torture.fake_model import FakeModel

import timeleap

Json = dict[str, Any]


class Sidecar(Agent):
    """One `timeleap serve`, with the files of each session in its checkpoints."""

    name = "Timeleap"
    how = (
        "`timeleap serve`; `session/open {autoCheckpoint: \"turn\", files: {mode: \"checkpoint\"}}`,"
        " `context/revertTo {restore: \"both\"}`, `context/undo {restore: \"both\"}`"
    )  # fmt: skip

    def __init__(self, home: Path, user: Path, model: FakeModel, prefix: Sequence[str] = ()) -> None:
        super().__init__(home, user, model, prefix)
        self._server: Server | None = None
        self._opened: list[Json] = []
        self._numbers = itertools.count(1)

    @classmethod
    def version(cls) -> str:
        return timeleap.__version__

    def open(self, folder: Path) -> Conversation:
        session = f"s{next(self._numbers)}"
        params = {
            "sessionId": session,
            "workspace": folder.as_uri(),
            "autoCheckpoint": "turn",
            "files": {"mode": "checkpoint"},
        }
        self.server.call("session/open", **params)
        self._opened.append(params)
        return _Conversation(self, folder, session)

    @property
    def server(self) -> Server:
        """The running one, started if need be, with all sessions open."""
        if self._server is None:
            launch = Launch(self.home / "store", "lsp", env=self.environment(), wrapper=self.prefix, private=self.user)
            self._server = Server(launch)
            self._server.initialize()
            for params in self._opened:
                self._server.call("session/open", **params)
        return self._server

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.dispose()
            self._server = None

    def close(self) -> None:
        if self._server is not None:
            self._server.finish()
            self._server.dispose()

    def stored(self) -> int:
        return used_space(self.home / "store" / "files")


class _Conversation(Conversation):
    def __init__(self, agent: Sidecar, folder: Path, session: str) -> None:
        super().__init__(folder)
        self._agent, self._session = agent, session
        self._undone = 0

    def turn(self, *steps: Step) -> None:
        try:
            self._play(steps)
        except Refused as refused:
            raise TurnFailedError(str(refused)) from refused

    def _play(self, steps: Sequence[Step]) -> None:
        self._call("context/appendMessage", message={"role": "user", "content": "Please do what is planned."})
        listed = self._call("context/listCheckpoints", limit=1)
        self.prompts.append(listed["checkpoints"][0]["uid"])
        for number, step in enumerate(steps):
            name = "shell" if isinstance(step, Shell) else "edit"
            call = {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
            self._call("context/appendMessage", message={"role": "assistant", "content": "", "tool_calls": [call]})
            carry_out([step], self.folder, self._agent.environment())
            result = {"role": "tool", "tool_call_id": f"call-{number}", "content": "done"}
            self._call("context/appendMessage", message=result)
        self._call("context/appendMessage", message={"role": "assistant", "content": "Done."})

    def undo(self, turns: int = 1) -> Outcome:
        return self._go_back(turns, "refuse")

    def undo_keeping(self) -> Outcome:
        return self._go_back(self._undone, "keep")

    def redo(self) -> Outcome:
        return self._attempt("context/undo", restore="both")

    def _go_back(self, turns: int, on_conflict: str) -> Outcome:
        self._undone = turns
        checkpoint = self.prompts[-turns]
        return self._attempt(
            "context/revertTo", checkpointUid=checkpoint, restore="both", onConflict=on_conflict
        )  # fmt: skip

    def _attempt(self, method: str, **params: Any) -> Outcome:
        try:
            return Outcome(True, str(self._call(method, **params).get("files")))
        except Refused as refused:
            error = refused.error
            return Outcome(False, f"{error['code']} {error['message']}")
        except (AssertionError, OSError) as error:  # killed in between
            return Outcome(False, str(error))

    def _call(self, method: str, **params: Any) -> Json:
        return dict(self._agent.server.call(method, sessionId=self._session, **params))
