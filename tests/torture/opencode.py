"""opencode, driven over its HTTP server: `revert` and `unrevert` of a message."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

from tests.agents.opencode import settings
from tests.torture.agent import PATIENCE, TOOLS, Agent, AskedConversation, Conversation, Outcome, used_space

NAMES = {
    "shell": "bash", "read": "read", "write": "write", "edit": "edit",
    "path": "filePath", "old": "oldString", "new": "newString",
}  # fmt: skip
PROGRAM = TOOLS / "node_modules" / ".bin" / "opencode"


class Opencode(Agent):
    """One `opencode serve`."""

    name = "opencode"
    how = "`opencode serve`; `POST /session/ID/revert {messageID}`, `POST /session/ID/unrevert`"

    _process: subprocess.Popen[bytes] | None = None
    _url = ""

    @classmethod
    def version(cls) -> str:
        return subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def open(self, folder: Path) -> Conversation:
        session = self.ask("/session", folder, {})
        return OwnConversation(self, folder, session["id"])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def close(self) -> None:
        self.kill()

    def stored(self) -> int:
        return used_space(self.home / "opencode" / "snapshot")

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            **settings(self.model.url),
            "XDG_DATA_HOME": str(self.home),
        }

    def ask(self, path: str, folder: Path, body: dict[str, Any] | None) -> Any:
        """One request about a folder; the server is started if need be."""
        if self._process is None:
            self._start(folder)
        query = urllib.parse.urlencode({"directory": str(folder)})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}?{query}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.loads(reply.read() or b"null")

    def _start(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [*self.prefix, str(PROGRAM), "serve", "--port", "0", "--hostname", "127.0.0.1"],
            cwd=folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(rb"http://127\.0\.0\.1:\d+", line):
                self._url = found[0].decode()
                return
        raise RuntimeError("opencode ended before it listened")


class OwnConversation(AskedConversation):
    """One that goes back by the program's own revert."""

    names: ClassVar[dict[str, str]] = NAMES

    def __init__(self, agent: Opencode, folder: Path, session: str) -> None:
        super().__init__(folder, agent.model)
        self._agent, self._session = agent, session

    def ask(self, prompt: str) -> str | None:
        try:
            reply = self._post("message", {"parts": [{"type": "text", "text": prompt}]})
            error = reply["info"].get("error")
        except urllib.error.HTTPError as failure:
            with failure:
                error = f"HTTP {failure.code}"
        except OSError as failure:
            error = str(failure)
        said = self._agent.ask(f"/session/{self._session}/message", self.folder, None)
        ids = [each["info"]["id"] for each in said if each["info"]["role"] == "user"]
        self.prompts += [each for each in ids[-1:] if each not in self.prompts]
        return None if error is None else str(error)

    def undo(self, turns: int = 1) -> Outcome:
        return self._attempt("revert", {"messageID": self.prompts[-turns]})

    def redo(self) -> Outcome:
        return self._attempt("unrevert", {})

    def _attempt(self, action: str, body: dict[str, Any]) -> Outcome:
        try:
            reply = self._post(action, body)
        except urllib.error.HTTPError as error:
            with error:
                return Outcome(False, f"HTTP {error.code}: {error.read(300).decode(errors='replace')}")
        except OSError as error:  # it was killed, or hangs
            return Outcome(False, str(error))
        return Outcome(True, str(reply.get("revert") or ""))

    def _post(self, action: str, body: dict[str, Any]) -> Any:
        return self._agent.ask(f"/session/{self._session}/{action}", self.folder, body)
