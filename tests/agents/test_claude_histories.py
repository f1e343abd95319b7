"""Random histories: what Claude Code itself, as released, sends its model when it resumes them is what is read here."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model import Model
from tests.agents.test_claude_mirror import ClaudeCode
from tests.support.claude_histories import History, Said
from tests.support.said import said
from tests.support.sample import firsts, seeds
from tests.unit.agents.mirrors.reading import messages

from timeleap_agents.mirrors.claude_log import ClaudeLog

pytestmark = pytest.mark.long  # a run of the program for each history
OURS = re.compile(r"(?:question|answer|steer|summary) \w+")


def heard(request: list[dict[str, Any]], machine: set[str]) -> list[Said]:
    """The texts of ours in a request of the program, its calls and results, and texts of its own that are in `machine`."""
    found: list[Said] = []
    for each in request:
        content = each["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                found.append(("call", block["id"]))
            elif block["type"] == "tool_result":
                found.append(("result", block["tool_use_id"]))
            elif block["type"] == "text":
                # What was typed in between stands in a sentence of the program's.
                steered = re.search(r"steer \d+", block["text"])
                text = steered[0] if steered else block["text"].strip()
                who = "assistant" if each["role"] == "assistant" else "user"
                found += [(who, text)] if OURS.fullmatch(text) or text in machine else []
    return found


def in_any_order(log: list[Said]) -> list[Said]:
    """Calls of one answer in the order of their ids: where they hang side by side the program mixes them."""
    found: list[Said] = []
    for is_call, group in groupby(log, key=lambda each: each[0] == "call"):
        row = list(group)
        found += sorted(row) if is_call else row
    return found


@pytest.mark.parametrize("first", firsts())
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in seeds(first):
        program = ClaudeCode(tmp_path / str(seed), model)
        folder = program.sessions / re.sub(r"[^A-Za-z0-9]", "-", str(tmp_path / str(seed)))
        history = History(folder.parent, seed)
        history.file.workspace = str(tmp_path / str(seed))
        history.file.path = folder / history.file.path.name
        folder.mkdir(parents=True, exist_ok=True)
        history.grow(10)
        log = ClaudeLog(history.file.path)
        log.read()
        read = said(messages(log))
        assert read == history.log, seed
        await program.ask("resumed", resume=history.file.session_id)
        sent = [part for each in read if each[1] not in history.unsent for part in apart(each)]
        assert in_any_order(heard(model.requests[-1]["messages"], history.machine)) == in_any_order(
            [*sent, ("user", "question resumed")]
        ), seed


def apart(said: Said) -> list[Said]:
    """A prompt behind what an editor tells, as the two texts that it is."""
    seen, found, text = said[1].rpartition("</ide_opened_file>")
    return [(said[0], seen + found), (said[0], text)] if found else [said]
