"""opencode itself, as released: what is read of its database is what it sends its model, and it goes on where a mirror was
cut."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model import Model
from tests.agents.opencode import PROGRAM, Opencode, needs_opencode
from tests.agents.window import Window, until
from tests.support.holding import PATIENCE, wait_until
from tests.support.sample import firsts, seeds
from tests.unit.agents.mirrors.test_opencode_log import everything, log_of, said_in

from timeleap_client import RawTimeleap

pytestmark = [pytest.mark.long, needs_opencode]  # several runs of the program each


@pytest.fixture
def program(tmp_path: Path, model: Model) -> Iterator[Opencode]:
    program = Opencode(tmp_path / "folder", model)
    program.serve()
    yield program
    program.close()


def sent(request: dict[str, Any]) -> list[tuple[str, str]]:
    """What a request holds, as the reader's tests tell it."""
    found: list[tuple[str, str]] = []
    for message in request["messages"]:
        content = message.get("content") or []
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        if message["role"] == "tool":
            found.append(("result", message["tool_call_id"]))
        elif message["role"] != "system":
            found += [(message["role"], text.strip()) for text in texts if text.strip()]
            found += [("call", call["id"]) for call in message.get("tool_calls") or []]
    return found


class History:
    """A session of the program itself, that grows by random steps; what was said in it ever."""

    def __init__(self, program: Opencode, model: Model, seed: int) -> None:
        self.program, self.model, self.random = program, model, random.Random(seed)
        self.session = program.call("/session", {})["id"]
        self.name = f"s{seed}"
        self.ever: list[tuple[str, str]] = []
        self._number = 0
        self._prompts: list[str] = []

    def turn(self) -> None:
        question = self._next()
        if self.random.random() < 0.4:
            self.model.calls[question] = [("bash", {"command": "echo hello", "description": "says hello"})]
        self._asked(question)

    def _next(self) -> str:
        self._number += 1
        return f"{self.name}x{self._number}"

    def _asked(self, question: str) -> None:
        self._prompts.append(self.program.ask(self.session, question))
        self.ever += [("user", f"question {question}"), ("assistant", f"answer {question}")]

    def parallel(self) -> None:
        """Calls of one answer."""
        question = self._next()
        self.model.calls[question] = [("bash", {"command": f"echo {n}", "description": "counts"}) for n in range(3)]
        self.model.at_once.add(question)
        self._asked(question)

    def sub_task(self) -> None:
        """A sub-agent, which has a session of its own."""
        question = self._next()
        task = {"description": "looks", "prompt": f"question {question}sub", "subagent_type": "general"}
        self.model.calls[question] = [("task", task)]
        self._asked(question)

    def steered(self) -> None:
        """A prompt that comes while the model is asked about the one before: after its call that one is answered."""
        question, steer = self._next(), self._next()
        self.model.calls[question] = [("bash", {"command": "echo hello", "description": "says hello"})]
        self.model.asked.clear()
        self.model.gate.clear()
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(self.program.ask, self.session, question)
            assert self.model.asked.wait(PATIENCE)
            second = pool.submit(self.program.ask, self.session, steer)
            wait_until(lambda: f"question {steer}" in json.dumps(self.program.call(f"/session/{self.session}/message")))
            self.model.gate.set()
            self._prompts += [first.result(PATIENCE), second.result(PATIENCE)]
        self.ever += [("user", f"question {question}"), ("user", f"question {steer}"), ("assistant", f"answer {steer}")]

    def reverts(self) -> None:
        if self._prompts:
            at = self.random.randrange(len(self._prompts))
            self.program.call(f"/session/{self.session}/revert", {"messageID": self._prompts[at]})
            if self.random.random() < 0.3:
                self.program.call(f"/session/{self.session}/unrevert", {})
            elif self.random.random() < 0.7:
                del self._prompts[at:]
                self.turn()

    def compacts(self) -> None:
        self.turn()
        self.program.call(f"/session/{self.session}/summarize", {"providerID": "fake", "modelID": "fake"})
        self._prompts = []


@pytest.mark.parametrize("first", firsts())
async def test_what_is_read_is_what_the_program_sends(program: Opencode, model: Model, first: int) -> None:
    for seed in seeds(first):
        history = History(program, model, seed)
        history.turn()
        kinds = [history.turn, history.parallel, history.steered, history.sub_task, history.reverts, history.compacts]
        for step in history.random.choices(kinds, [3, 2, 1, 1, 3, 1], k=6):
            step()
        log = log_of(program.database / history.session)
        read = said_in(log)
        program.ask(history.session, f"resumed{seed}")
        assert sent(model.requests[-1]) == [*read, ("user", f"question resumed{seed}")], seed
        lost = set(history.ever) - everything(log)
        assert not lost, seed


async def test_it_is_shown_live_and_goes_on_where_its_mirror_was_cut(
    client: RawTimeleap, window: Window, program: Opencode, model: Model
) -> None:
    model.calls["one"] = [("bash", {"command": "echo two > changed.txt", "description": "writes"})]
    await client.call("bridge/watch", {"kind": "opencode", "path": str(program.data)})
    session = program.call("/session", {})["id"]
    for question in ("one", "two"):
        await asyncio.to_thread(program.ask, session, question)

    async def is_whole() -> bool:
        found = await window.sessions("opencode")
        return bool(found) and (await window.texts(found[0]["sessionId"]))[-1:] == ["answer two"]

    await until(is_whole)
    (found,) = await window.sessions("opencode")
    mirror = found["sessionId"]
    assert found["workspace"] == program.project.as_uri()
    checkpoints = await window.checkpoints(mirror)
    assert list(checkpoints) == ["question one", "question two"]

    adopted = await window.call("bridge/adopt", mirror, at=checkpoints["question two"])
    resume = adopted["resume"]
    assert (resume["command"], resume["cwd"]) == ("sh", str(program.project))
    # The script's last words begin the program in its terminal; here it is asked something at once.
    script = resume["args"][1].replace("exec opencode --session", "exec opencode run 'question three' --session")
    path = f"{PROGRAM.parent}{os.pathsep}{program.environment['PATH']}"
    await asyncio.to_thread(
        subprocess.run, ["sh", "-c", script, *resume["args"][2:]],
        cwd=resume["cwd"], env={**program.environment, "PATH": path}, check=True, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    texts = [text for who, text in sent(model.requests[-1]) if who in ("user", "assistant")]
    assert [text.strip('"') for text in texts] == ["question one", "answer one", "question three"]
    assert (await window.texts(mirror))[-1] == "answer two"
