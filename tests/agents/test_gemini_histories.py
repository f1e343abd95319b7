"""Random histories: what Gemini CLI itself, as released, sends its model when it resumes them is what is read here."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agents.gemini import Gemini, needs_gemini
from tests.agents.model import Model
from tests.support.gemini_histories import GeminiHistory, contents_of, register, said
from tests.support.sample import firsts, seeds
from tests.unit.agents.mirrors.reading import messages

from timeleap_agents.mirrors.gemini_log import GeminiLog

pytestmark = [pytest.mark.long, needs_gemini]  # a run of the program for each history


@pytest.mark.parametrize("first", firsts())
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in seeds(first):
        program = Gemini(tmp_path / str(seed), model)
        history = GeminiHistory(program.home / "tmp", seed, str(program.project)).grow(10)
        register(program.home, str(program.project))
        log = GeminiLog(history.file.path)
        log.read()
        read = said(messages(log))
        assert read == history.log, seed
        await program.ask("resumed", resume=history.file.session_id)
        assert contents_of(model.requests[-1]["contents"]) == [*read, ("user", "question resumed")], seed
