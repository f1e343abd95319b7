"""Session files as public reports show them, each of a kind that was read wrongly."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.support.codex_file import CodexFile
from tests.support.kimi_file import KimiFile
from tests.support.kimi_histories import COMPACTED
from tests.support.opencode_file import OpencodeFile
from tests.support.said import said
from tests.unit.agents.mirrors.reading import losses, messages

from timeleap.errors import CorruptedError
from timeleap_agents.mirrors import opencode_database
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.growing_file import Conversation
from timeleap_agents.mirrors.kimi_log import KimiLog
from timeleap_agents.mirrors.opencode_log import OpencodeLog


def read(log: Conversation) -> list[tuple[str, str]]:
    log.read()
    return said(messages(log))


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_items_of_codex_without_a_type_are_messages(tmp_path: Path, role: str) -> None:
    file = CodexFile(tmp_path)
    file.turn(1)
    kind = "input_text" if role == "user" else "output_text"
    item: dict[str, Any] = {"role": role, "content": [{"type": kind, "text": "kept"}]}
    file.write("compacted", {"message": "", "replacement_history": [item]})
    file.write("response_item", {**item, "content": [{"type": kind, "text": "said"}]})
    log = CodexLog(file.path)
    assert read(log)[-2:] == [(role, "kept"), (role, "said")]
    assert losses(log) == []


@pytest.mark.parametrize("text", ["<current_focus>x</current_focus>", "Fix the dates", ""])
def test_the_summary_of_kimi_cli_that_a_fork_begins_with_is_no_prompt(tmp_path: Path, text: str) -> None:
    file = KimiFile(tmp_path)
    texts = [{"type": "text", "text": each} for each in (COMPACTED, text)]
    file.write({"role": "user", "content": texts})
    file.write({"role": "user", "content": "question 1"}, {"role": "assistant", "content": "answer 1"})
    log = KimiLog(file.path)
    assert read(log) == [("user", f"{COMPACTED}{text}"), ("user", "question 1"), ("assistant", "answer 1")]
    assert log.first_prompt == "question 1"


def test_a_database_of_opencode_2_is_refused_by_its_name(tmp_path: Path) -> None:
    database = tmp_path / "opencode.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE session_v2 (id text PRIMARY KEY, directory text)")
        connection.execute("CREATE TABLE session_message (id text, session_id text, seq integer, type text, data text)")
    connection.close()
    with pytest.raises(CorruptedError, match="opencode 2"):
        opencode_database.sessions(database)


def test_what_opencode_2_has_beside_a_session_of_opencode_1_is_told(tmp_path: Path) -> None:
    file = OpencodeFile(tmp_path)
    file.turn(1)
    file.connection.execute("CREATE TABLE session_v2 (id text PRIMARY KEY, directory text)")
    log = OpencodeLog(file.path)
    assert read(log) == [("user", "question 1"), ("assistant", "answer 1")]
    assert losses(log) == ["1 later form of sessions, that of opencode 2, in the database is not read"]
    file.close()
