"""The tables of docs/agents.md name the versions up to which no mirror warns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from timeleap_agents.mirrors.folders import FOLDERS
from timeleap_agents.mirrors.mirror import READERS

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "agents.md").read_text("utf-8")
NAMED = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "kimi": "kimi-cli",
    "kimi-code": "kimi-code",
    "opencode": "opencode",
    "pi": "pi",
}
PROTOCOLS = {("kimi", "1.52.0"): (1, 10), ("kimi-code", "2.1.0"): (1, 5), ("pi", "1.6.0"): (3,)}
"""Their logs name the version of their form; tests/interop and tests/agents run the first two."""


@pytest.mark.parametrize("kind", READERS)
def test_the_page_names_the_folder_and_the_version_that_is_tested(kind: str, tmp_path: Path) -> None:
    place = FOLDERS[kind]
    row = re.search(
        rf"^\| {NAMED[kind]} \| `~/{place.usual}/{place.folder}`(?: and `\w+`)?, or below `{place.variable}`[^|]* \| (\S+) \|",
        PAGE,
        re.MULTILINE,
    )
    assert row is not None
    version = tuple(map(int, row[1].split(".")))
    assert PROTOCOLS.get((kind, row[1]), version) == READERS[kind](tmp_path / "opencode.db" / "ses_1").tested
