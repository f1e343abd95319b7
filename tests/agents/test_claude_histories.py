"""Random histories: what Claude Code itself, as released, sends its model when it resumes them is what is read here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.agents.model import Model
from tests.agents.test_claude_mirror import ClaudeCode
from tests.support.claude_histories import History

pytestmark = pytest.mark.long  # a run of the program for each history


@pytest.mark.parametrize("first", range(0, 25, 5))
async def test_what_is_read_is_what_the_program_sends(model: Model, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 5):
        program = ClaudeCode(tmp_path / str(seed), model)
        folder = program.sessions / re.sub(r"[^A-Za-z0-9]", "-", str(tmp_path / str(seed)))
        history = History(folder.parent, seed)
        history.file.workspace = str(tmp_path / str(seed))
        history.file.path = folder / history.file.path.name
        folder.mkdir(parents=True, exist_ok=True)
        history.grow(10)
        await program.ask("resumed", resume=history.file.session_id)
        spoken = [text for _, text in history.log if re.fullmatch(r"(question|answer) \w+", text)]
        assert model.texts() == [*spoken, "question resumed"], seed
