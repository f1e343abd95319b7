"""Random histories: what Codex itself, as released, sends its model when it resumes them is what is read here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.agents.codex import Codex, needs_codex
from tests.agents.model import Model
from tests.support.codex_histories import CodexHistory, items_of, said
from tests.support.sample import firsts, seeds
from tests.unit.agents.mirrors.reading import messages

from timeleap_agents.mirrors.codex_log import CodexLog

pytestmark = [pytest.mark.long, needs_codex]  # a run of the program for each history


@pytest.mark.parametrize("first", firsts())
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in seeds(first):
        program = Codex(tmp_path / str(seed), model)
        history = CodexHistory(program.home / "sessions", seed, str(program.project)).grow(10)
        log = CodexLog(history.file.path)
        log.read()
        read = said(messages(log))
        assert read == history.log, seed
        await program.ask("resumed", resume=history.file.session_id)
        heard = [
            each
            for each in items_of(model.requests[-1]["input"])
            if each[0] != "result" or each[1] not in history.made_up
        ]
        assert heard == [*read, ("user", "question resumed")], seed


async def test_segments_forks_and_what_is_gone_on_with_are_what_the_program_sends(model: Model, tmp_path: Path) -> None:
    program = Codex(tmp_path, model)
    model.calls["two"] = [("exec_command", {"cmd": "echo hi"})]
    await program.ask("one", "two", "three")
    thread = program.newest().stem[-36:]

    def check() -> CodexLog:
        log = CodexLog(program.newest())
        log.read()
        assert items_of(model.requests[-1]["input"]) == said(messages(log))[:-1]
        return log

    loaded = ("thread/resume", {"threadId": thread})
    (_, turns) = await program.serve(loaded, ("thread/turns/list", {"threadId": thread}))
    last = {"threadId": thread, "beforeTurnId": turns["data"][0]["id"]}
    await program.serve(loaded, ("thread/revert", last))
    await program.ask("four", resume=thread)
    (left,) = check().earlier()
    assert ("user", "question three") in said(messages(check(), left.steps))
    (_, fork) = await program.serve(loaded, ("thread/fork", {"threadId": thread}))
    await program.ask("five", resume=fork["thread"]["id"])
    log = check()
    made = log.continuation(log.steps())
    made.path.write_text("".join(json.dumps(record) + "\n" for record in made.records))
    await program.ask("six", resume=made.command[-1])
    assert said(messages(check()))[-2:] == [("user", "question six"), ("assistant", "answer six")]
    assert program.newest() == made.path
