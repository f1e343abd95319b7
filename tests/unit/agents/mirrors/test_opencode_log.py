"""Reading opencode's database: random histories are read as the program sends them, and nothing is ever written."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.support.opencode_file import OpencodeFile
from tests.support.opencode_histories import OpencodeHistory
from tests.support.said import Said, said_apart
from tests.unit.agents.mirrors.reading import messages, said_anywhere

from timeleap.errors import CorruptedError, StorageFailureError, TimeleapError
from timeleap.storage.log_values import LogState
from timeleap_agents.mirrors import opencode_database
from timeleap_agents.mirrors.folders import look, mirror_id, parent_of
from timeleap_agents.mirrors.opencode_log import OpencodeLog
from timeleap_agents.mirrors.record_list import RecordList


def log_of(path: Path) -> OpencodeLog:
    log = OpencodeLog(path)
    log.read()
    return log


def records(log: OpencodeLog, steps: Any = None) -> RecordList:
    found = RecordList(log.file.left_out, LogState())
    for _ in log.write(log.steps() if steps is None else steps, found):
        pass
    return found


def said_in(log: OpencodeLog, steps: Any = None) -> list[Said]:
    """What is said: who, and the text, or the id of a call or of a result."""
    return said_apart(messages(log, steps))


def everything(log: OpencodeLog) -> set[Said]:
    """All that is said in the log and in its timelines."""
    return said_anywhere(log, said_apart)


def check(folder: Path, seed: int) -> None:
    history, grown = OpencodeHistory(folder / str(seed), seed), None
    history.turn()
    for _ in range(4):
        grown = grown or OpencodeLog(history.file.path)
        grown.read()
        assert said_in(grown) == history.log, seed
        history.grow(3)
    whole = log_of(history.file.path)
    assert said_in(whole) == history.log, seed
    assert grown is not None
    grown.read()
    assert said_in(grown) == history.log, seed
    assert set(history.ever) <= everything(whole), seed
    assert everything(grown) == everything(whole), seed
    assert whole.first_prompt == "question 1"
    history.file.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_history_is_read_as_the_program_sends_it(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1500, 100))
def test_many_histories_are_read_as_the_program_sends_them(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 100):
        check(tmp_path, seed)


@pytest.fixture
def file(tmp_path: Path) -> OpencodeFile:
    """A session of two turns."""
    made = OpencodeFile(tmp_path / "opencode")
    made.turn(1)
    made.turn(2)
    return made


TWO_TURNS = [("user", "question 1"), ("assistant", "answer 1"), ("user", "question 2"), ("assistant", "answer 2")]


def there(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def test_reading_writes_nothing_with_the_program_running_and_after_it(file: OpencodeFile) -> None:
    before = there(file.folder)
    assert set(before) == {"opencode.db", "opencode.db-wal"}
    assert said_in(log_of(file.path)) == TWO_TURNS, "what is in the log of changes alone counts"
    assert there(file.folder) == before
    file.close()
    before = there(file.folder)
    assert set(before) == {"opencode.db"}
    assert said_in(log_of(file.path)) == TWO_TURNS
    assert there(file.folder) == before


def test_a_database_that_its_program_did_not_end_well_is_read_whole_and_left_as_it_is(
    file: OpencodeFile, tmp_path: Path
) -> None:
    other = tmp_path / "copied"
    other.mkdir()
    for name in ("opencode.db", "opencode.db-wal"):
        shutil.copyfile(file.folder / name, other / name)
    before = there(other)
    assert said_in(log_of(other / "opencode.db" / file.session_id)) == TWO_TURNS
    assert there(other) == before
    assert sorted(path.name for path in other.iterdir()) == ["opencode.db", "opencode.db-wal"]


def test_one_that_is_locked_is_told_and_read_afterwards(file: OpencodeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode_database, "LOCKED_SECONDS", 0.05)
    file.close()
    holder = sqlite3.connect(file.database, isolation_level=None)
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    # Without a log of changes nobody is asked: what is on the disk is one state, as long as nothing is written.
    assert said_in(log_of(file.path)) == TWO_TURNS
    holder.execute("PRAGMA cache_size = 1")
    holder.executemany("INSERT INTO migration VALUES (?, ?)", [(f"{n}{'x' * 500}", n) for n in range(500)])
    with pytest.raises(StorageFailureError, match=r"opencode\.db is in use by a program that lets nobody else read it"):
        log_of(file.path)
    holder.execute("ROLLBACK")
    holder.close()
    assert said_in(log_of(file.path)) == TWO_TURNS
    holder = sqlite3.connect(file.database, isolation_level=None)
    holder.execute("PRAGMA journal_mode = WAL")
    reader = sqlite3.connect(file.database)
    reader.execute("SELECT * FROM session").fetchall()
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("UPDATE session SET title = 'x'")
    assert said_in(log_of(file.path)) == TWO_TURNS, "who writes keeps nobody from reading"
    holder.execute("COMMIT")
    assert log_of(file.path).title == "x"
    reader.close()
    holder.close()


def test_a_look_at_a_locked_database_keeps_what_is_known(file: OpencodeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(path: Path, work: Any) -> Any:
        del work
        raise StorageFailureError("opencode.db is in use", path=str(path), errno="EBUSY")

    monkeypatch.setattr(opencode_database, "reading", locked)
    found = look("opencode", file.folder)
    assert (found.files, found.unread) == ({}, [str(file.database)])
    assert "is in use" in found.problems[0]


@pytest.mark.parametrize("cut", [0, 50, 2000, 5000])
def test_a_damaged_database_is_told_by_name_or_read(file: OpencodeFile, cut: int) -> None:
    file.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    data = file.database.read_bytes()
    file.database.write_bytes(data[:cut] + b"\xff" * 3000 + data[cut + 3000 :] if cut else b"")
    try:
        everything(log_of(file.path))
    except TimeleapError as error:
        assert re.search(r"opencode\.db .*(damaged|has not the form)|no session", error.message)  # noqa: PT017


def test_a_newer_version_is_read_and_a_form_that_is_not_known_is_told(file: OpencodeFile) -> None:
    file.changes(version="2.0.1")
    file.connection.execute("ALTER TABLE session ADD COLUMN mood text")
    file.connection.execute("ALTER TABLE part ADD COLUMN mood text")
    log = log_of(file.path)
    assert (said_in(log), log.version > log.tested) == (TWO_TURNS, True)
    file.connection.execute("DROP TABLE part")
    with pytest.raises(CorruptedError, match="has not the form of an opencode database that is known"):
        log_of(file.path)


def test_damaged_rows_and_events_cost_only_themselves(file: OpencodeFile) -> None:
    rows = file.connection.execute("SELECT id FROM part ORDER BY id").fetchall()
    for value, (name,) in zip(["{torn", "[1]", "5"], rows[:3], strict=True):
        file.connection.execute("UPDATE part SET data = ? WHERE id = ?", (value, name))
    file.connection.execute("UPDATE event SET data = '{torn' WHERE seq % 2 = 1")
    log = log_of(file.path)
    assert TWO_TURNS[2:] == said_in(log)[-2:]
    assert {loss.kind for loss in log.file.left_out.losses()} == {"events"}, "events say what damaged rows said"
    log.earlier()
    file.connection.execute("DELETE FROM event")
    log = log_of(file.path)
    assert TWO_TURNS[2:] == said_in(log)[-2:]
    assert {loss.kind for loss in log.file.left_out.losses()} == {"rows"}


def test_the_words_of_a_message_whose_row_is_damaged_are_there(file: OpencodeFile) -> None:
    file.connection.execute("UPDATE message SET data = '{torn'")
    assert said_in(log_of(file.path)) == TWO_TURNS
    file.connection.execute("DELETE FROM event")
    assert said_in(log_of(file.path)) == TWO_TURNS, "by the kinds of its parts"


def test_what_a_compaction_that_failed_leaves_out_is_a_timeline(file: OpencodeFile) -> None:
    tail = file.turn(3)
    question = file.message("user")
    file.part(question, "compaction", auto=False, tail_start_id=tail)
    file.says(question, "half a summary", summary=True, error={"name": "APIError", "data": {}})
    assert set(TWO_TURNS) <= everything(log_of(file.path))


def test_without_events_the_rows_are_read(tmp_path: Path) -> None:
    file = OpencodeFile(tmp_path, events=False)
    first = file.turn(1)
    file.turn(2)
    assert said_in(log_of(file.path)) == TWO_TURNS
    file.connection.executescript("DROP TABLE event; DROP TABLE event_sequence")
    log = log_of(file.path)
    assert said_in(log) == TWO_TURNS
    before = look("opencode", file.folder).files
    file.begun += 1000
    file.reverts(first)
    assert look("opencode", file.folder).files != before
    log.read()
    assert (said_in(log), [said_in(log, each.steps) for each in log.earlier()]) == ([], [TWO_TURNS])


def test_what_came_and_went_between_two_looks_is_a_timeline(file: OpencodeFile) -> None:
    log = log_of(file.path)
    since = log.file.end
    file.reverts(file.turn(3))
    file.cleans()
    file.turn(4)
    log.read()
    (earlier,) = log.earlier(since)
    assert said_in(log, earlier.steps) == [*TWO_TURNS, ("user", "question 3"), ("assistant", "answer 3")]
    assert said_in(log) == [*TWO_TURNS, ("user", "question 4"), ("assistant", "answer 4")]


def test_while_the_program_deletes_what_was_reverted_nothing_of_it_is_shown(file: OpencodeFile) -> None:
    prompt = file.turn(3)
    file.reverts(prompt)
    file.connection.execute("DELETE FROM part WHERE message_id = ?", (prompt,))
    file.connection.execute("DELETE FROM message WHERE id = ?", (prompt,))
    file.event("message.removed.1", messageID=prompt)
    assert said_in(log_of(file.path)) == TWO_TURNS


def test_a_result_waits_for_those_of_the_other_calls_until_the_answer_is_over(file: OpencodeFile) -> None:
    log, prompt = log_of(file.path), file.asks("question 3")
    answer = file.begins(prompt)
    parts = [file.calls(answer, call) for call in ("call_a", "call_b")]
    file.gets(answer, parts[1], "call_b", "second")
    log.read()
    assert said_in(log)[-2:] == [("call", "call_a"), ("call", "call_b")]
    assert log.open_calls(log.steps()) == set(parts)
    file.ends(answer, prompt, error={"name": "MessageAbortedError"})
    log.read()
    assert said_in(log)[-3:] == [("call", "call_a"), ("call", "call_b"), ("result", "call_b")]
    assert log.open_calls(log.steps()) == {parts[0]}


def test_titles_folders_times_and_sub_agents(file: OpencodeFile) -> None:
    log = log_of(file.path)
    assert (log.title, log.first_prompt, log.workspace) == (None, "question 1", "file:///shop")
    assert (log.created_at, log.session_id) == ("2026-11-29T10:03:09.000Z", "ses_1")
    file.changes(title="Mend the login", directory="/shop/cart")
    log.read()
    assert (log.title, log.workspace, log.began_in) == ("Mend the login", "file:///shop/cart", "file:///shop")
    below = OpencodeFile(file.folder, name="ses_2", parent="ses_1")
    found = look("opencode", file.folder).files
    assert set(found) == {str(file.path), str(below.path)}
    assert parent_of("opencode", below.path) == mirror_id("opencode", file.path)
    assert mirror_id("opencode", file.folder / "moved.db" / "ses_1") == mirror_id("opencode", file.path)


def test_a_prompt_is_what_a_person_typed(file: OpencodeFile) -> None:
    picture = {"mime": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"}
    prompt = file.asks("<system-reminder>\nx\n</system-reminder>", synthetic=True)
    file.says(prompt, "yes")
    prompt = file.message("user")
    file.part(prompt, "file", **picture)
    file.says(prompt, "a picture")
    found = records(log_of(file.path))
    assert [made.label for made in found.made][:2] == ["question 1", "question 2"]
    assert len(found.made) == 3


def test_a_pipe_and_a_folder_are_no_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "opencode.db")
    found: list[BaseException] = []

    def read() -> None:
        try:
            log_of(tmp_path / "opencode.db" / "ses_1")
        except TimeleapError as error:
            found.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(30)
    assert "is no ordinary file" in str(found[0])
