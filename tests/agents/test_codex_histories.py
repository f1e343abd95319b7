"""Random histories: what Codex itself, as released, sends its model when it resumes them is what is read here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.codex import Codex, needs_codex
from tests.agents.model import Model
from tests.support.codex_histories import CodexHistory, items_of, said
from tests.unit.mirrors.reading import messages

from timeleap.mirrors.codex_log import CodexLog

pytestmark = [pytest.mark.long, needs_codex]  # a run of the program for each history


@pytest.mark.parametrize("first", range(0, 25, 5))
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 5):
        program = Codex(tmp_path / str(seed), model)
        history = CodexHistory(program.home / "sessions", seed, str(program.project)).grow(10)
        log = CodexLog(history.file.path)
        log.read()
        read = said(messages(log))
        assert read == history.log, seed
        await program.ask("resumed", resume=history.file.session_id)
        assert items_of(model.requests[-1]["input"]) == [*read, ("user", "question resumed")], seed
