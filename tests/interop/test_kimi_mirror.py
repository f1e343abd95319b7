"""kimi-cli itself: its sessions are shown live, and it goes on where a mirror was cut, on a model on loopback.

The command of kimi-cli 1.52.0, the last release, only says that it is no longer maintained. What runs here is the command
line of the releases before it, which is still inside.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model import Model
from tests.agents.window import Window, until
from tests.interop.prepare import original_python
from tests.support import ready
from tests.support.kimi_histories import COMPACTED, KimiHistory
from tests.support.said import Said
from tests.support.said import said as pairs_of
from tests.support.sample import firsts, seeds
from tests.unit.agents.mirrors.reading import messages

from timeleap_agents.mirrors.kimi_log import KimiLog
from timeleap_client import RawTimeleap

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.slow]  # three runs of the program
RUN = "import sys; from kimi_cli.__main__ import run_original_cli; sys.exit(run_original_cli(sys.argv[1:]))"
OURS = re.compile(rf"{COMPACTED}|summary \d+|<notification id=[^>]*>\nx\n</notification>|(?:question|answer) \w+")
TWO_TURNS = ["question one", "answer one", "question two", "answer two"]


class Kimi:
    """The program in one folder.

    Attributes:
        share: Its own folder, with configuration and sessions.
        project: Where it works.
    """

    def __init__(self, folder: Path, model: Model) -> None:
        self.share, self.project = folder / "kimi", folder / "project"
        self.share.mkdir(parents=True)
        self.project.mkdir()
        self._environment = {**os.environ, "HOME": str(folder), "KIMI_SHARE_DIR": str(self.share)}
        (self.share / "config.toml").write_text(
            'default_model = "fake"\ntelemetry = false\n'
            '[models.fake]\nprovider = "loop"\nmodel = "fake"\nmax_context_size = 100000\n'
            f'[providers.loop]\ntype = "openai_legacy"\nbase_url = "{model.url}/v1"\napi_key = "none"\n'
        )

    async def ask(self, question: str, *arguments: str) -> None:
        """A run of the program, in its folder."""
        async with asyncio.timeout(120):
            process = await asyncio.create_subprocess_exec(
                original_python(), "-c", RUN, "--print", *arguments, "--prompt", f"question {question}",
                cwd=self.project, env=self._environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            said, complained = await process.communicate()
        assert process.returncode == 0, (said, complained)


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RawTimeleap]:
    with ready.clients_servers():
        async with RawTimeleap(home=tmp_path / "home", name="agent") as client:
            yield client


async def test_it_is_shown_live_and_goes_on_where_its_mirror_was_cut(
    client: RawTimeleap, model: Model, tmp_path: Path
) -> None:
    program, window = Kimi(tmp_path / "folder", model), Window(client)
    await client.call("bridge/watch", {"kind": "kimi", "path": str(program.share / "sessions")})
    await program.ask("one")
    await program.ask("two", "--continue")

    async def is_whole() -> bool:
        found = await window.sessions("kimi")
        return bool(found) and await window.texts(found[0]["sessionId"]) == TWO_TURNS

    await until(is_whole)
    mirror = await window.only("kimi")
    (info,) = await window.sessions("kimi")
    assert (info["workspace"], info["title"]) == (program.project.as_uri(), "question one")
    checkpoints = await window.checkpoints(mirror)
    assert list(checkpoints) == ["question one", "question two"]
    assert (await window.call("session/getState", mirror))["warnings"] == []

    adopted = await window.call("bridge/adopt", mirror, at=checkpoints["question two"])
    resume = adopted["resume"]
    assert (resume["command"], resume["args"][0], resume["cwd"]) == ("kimi", "--session", str(program.project))
    await program.ask("three", *resume["args"])
    assert model.texts() == ["question one", "answer one", "question three"]
    assert len(await window.sessions("kimi")) == 2
    assert await window.texts(mirror) == TWO_TURNS


def sent(request: list[dict[str, Any]]) -> list[Said]:
    """The texts, calls and results of a request, as the model of the format tells them. The program joins neighbouring messages of the person, and
    says more in the person's name."""
    found: list[Said] = []
    for message in request:
        content = message.get("content") or []
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        if message["role"] == "tool":
            found.append(("result", message["tool_call_id"]))
        elif message["role"] != "system":
            found += [(message["role"], said) for text in texts for said in OURS.findall(text)]
            found += [("call", call["id"]) for call in message.get("tool_calls") or []]
    return found


@pytest.mark.parametrize("first", firsts())
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in seeds(first):
        program = Kimi(tmp_path / str(seed), model)
        history = KimiHistory(program.share, seed, str(program.project)).grow(10)
        log = KimiLog(history.file.path)
        log.read()
        assert pairs_of(messages(log)) == history.log, seed
        await program.ask("resumed", "--session", history.file.session_id)
        expected = [part for each in history.log for part in apart(each)]
        assert sent(model.requests[-1]["messages"]) == [*expected, ("user", "question resumed")], seed


def apart(said: Said) -> list[Said]:
    """What a compaction puts before its summary, and the summary, as the two texts that they are."""
    _, found, summary = said[1].partition(COMPACTED)
    return [(said[0], found), (said[0], summary)] if found else [said]
