"""kimi-code itself, as released: its sessions are shown live, read as it sends them itself, and it goes on where a mirror was
cut."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.agents.kimi_code import KimiCode, needs_kimi_code
from tests.agents.model import Model
from tests.agents.window import Window, until
from tests.support.kimi_code_histories import History
from tests.support.sample import firsts, seeds

from timeleap_client import RawTimeleap

pytestmark = [pytest.mark.long, pytest.mark.slow, needs_kimi_code]  # several runs of the program each
TWO_TURNS = ["question one", "answer one", "question two", "answer two"]
OURS = re.compile(r"question \w+|(?:so far: )?summary \d+")


def said(texts: list[object]) -> list[object]:
    """What the person and the model said; the program says more in their names."""
    return [text for text in texts if isinstance(text, str) and text.startswith(("question ", "answer "))]


async def test_it_is_shown_live_and_goes_on_where_its_mirror_was_cut(
    client: RawTimeleap, window: Window, model: Model, tmp_path: Path
) -> None:
    program = KimiCode(tmp_path / "folder", model)
    model.calls["one"] = [("Bash", {"command": "echo two > changed.txt"})]
    await client.call("bridge/watch", {"kind": "kimi-code", "path": str(program.home / "sessions")})
    await program.ask("one")
    (journal,) = program.home.glob("sessions/*/*/agents/main/wire.jsonl")
    await program.ask("two", resume=journal.parents[2].name)

    async def are_whole() -> bool:
        found = [said(await window.texts(each["sessionId"])) for each in await window.sessions("kimi-code")]
        return TWO_TURNS in found

    await until(are_whole)
    (found,) = await window.sessions("kimi-code")
    mirror = found["sessionId"]
    assert found["workspace"] == program.project.as_uri()
    checkpoints = await window.checkpoints(mirror)
    assert list(checkpoints) == ["question one", "question two"]

    adopted = await window.call("bridge/adopt", mirror, at=checkpoints["question two"])
    command, arguments = adopted["resume"]["command"], adopted["resume"]["args"]
    assert (command, arguments[0], adopted["resume"]["cwd"]) == ("kimi", "-r", str(program.project))
    await program.ask("three", resume=arguments[1])
    assert texts_of(sent(model.requests[-1])) == ["question one", "answer one", "question three"]
    assert said(await window.texts(mirror)) == TWO_TURNS


def texts_of(told: list[tuple[str, str]]) -> list[str]:
    return [text for who, text in told if who in ("user", "assistant")]


def sent(request: dict[str, Any]) -> list[tuple[str, str]]:
    """What a request holds, as the model of the format tells it. The program joins neighbouring messages of the person."""
    found: list[tuple[str, str]] = []
    for message in request["messages"]:
        content = message.get("content") or []
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        if message["role"] == "user":
            found += [told for text in texts for piece in text.split("\n\n") for told in heard(piece)]
        elif message["role"] == "assistant":
            found += [("assistant", text) for text in texts if text]
            found += [("call", call["id"]) for call in message.get("tool_calls") or []]
        elif message["role"] == "tool":
            found.append(("result", message["tool_call_id"]))
    return found


def heard(piece: str) -> list[tuple[str, str]]:
    """One message of the person; those that the program says now, in the person's name, are left out."""
    if piece.startswith("<system-reminder>\nreminder "):
        return [("reminder", piece.splitlines()[1])]
    return [("user", piece)] if OURS.fullmatch(piece) else []


@pytest.mark.parametrize("first", firsts())
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in seeds(first):
        program = KimiCode(tmp_path / str(seed), model)
        history = History(program.home, seed, str(program.project)).grow(12)
        await program.ask("resumed", resume=history.file.session_id)
        expected = [(each.who, each.text) for each in history.log]
        assert sent(model.requests[-1]) == [*expected, ("user", "question resumed")], seed
