"""The `postgresql` engine where several processes write to one log."""

from __future__ import annotations

import asyncio
import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors
from tests.support.postgresql import shared_cluster
from tests.unit.storage.logs import keep, restore, said, say, texts

from timeleap.errors import CorruptedError, StorageFailureError
from timeleap.storage import opened_log
from timeleap.storage.appending import GroupWriter
from timeleap.storage.durable import OpenFile
from timeleap.storage.log_values import LogState, NewRecord
from timeleap.uncancelled_work import LogThread, Outcome
from timeleap_postgresql import servers, session_copies, working_copy
from timeleap_postgresql.database import Database
from timeleap_postgresql.freshness import Staleness
from timeleap_postgresql.migrations import VERSION, migrate
from timeleap_postgresql.session_copies import PostgresStore, publish
from timeleap_postgresql.shared_log import LOSSES, PostgresEngine, open_copy
from timeleap_postgresql.shared_parts import SharedParts
from timeleap_postgresql.working_copy import WorkingCopy


async def opened(database: Database, folder: Path) -> PostgresEngine:
    folder.mkdir()
    copy = WorkingCopy(database, "s", folder, folder.with_suffix(".parts"))
    return await open_copy(folder / "context.jsonl", copy)


async def opened_elsewhere(database: Database, folder: Path) -> PostgresEngine:
    """As another process has it open, whose connections are its own."""
    return await opened(Database(shared_cluster().url(database.label.rpartition("/")[2])), folder)


def content(path: Path) -> bytes:
    """The bytes of a log, wherever they are."""
    file = OpenFile(path)
    return file.pread(0, file.status().size)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """One with a session "s", which has an empty log."""
    made = Database(shared_cluster().new_database())
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "context.jsonl").touch()
    publish(made, "s", tmp_path / "made")
    yield made
    made.close()


def record(text: str) -> list[NewRecord]:
    return [said(text)]


async def nothing(_: LogState) -> None:
    """Change nothing."""


async def test_an_append_that_always_loses_locks_the_session(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(database, tmp_path / "a")
    other = await opened(database, tmp_path / "b")
    planned: list[int] = []
    send = WorkingCopy.begin_append

    def overtaken(copy: WorkingCopy, data: bytes, after: LogState, *arguments: Any, **options: Any) -> Any:
        """Another process is quicker, whenever it can be."""
        if copy is engine.copy and options:
            assert other.copy.is_current() or other.copy.catch_up()
            assert other.copy.commit_append(b'{"role":"user","content":"other"}\n', after, b"[]")
        return send(copy, data, after, *arguments, **options)

    monkeypatch.setattr(WorkingCopy, "begin_append", overtaken)

    def plan(state: LogState) -> list[NewRecord]:
        planned.append(state.messages)
        return record("mine")

    done = await engine.append(plan)
    assert planned == list(range(LOSSES + 1))
    assert done.before.messages == LOSSES
    assert texts(engine) == ["other"] * LOSSES + ["mine"]
    await engine.aclose()
    await other.aclose()


@pytest.mark.parametrize("doubtful", [False, True])
@pytest.mark.parametrize("how", ["a read", "an append", "a change"])
async def test_what_was_brought_up_to_date_over_a_connection_that_then_was_lost_is_shown(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, doubtful: bool
) -> None:
    engine = await opened(database, tmp_path / "a")
    other = await opened_elsewhere(database, tmp_path / "b")
    for text in ("one", "two"):
        await say(other, text)
    if doubtful:
        engine.copy.forget()
    again = database.again
    lost = ["at the end of its transaction"]

    def twice(work: Callable[[], Any]) -> Any:
        def once() -> Any:
            before = engine.copy.version
            found = work()
            if lost and engine.copy.version != before:
                raise database.failure("lost", lost.pop(), True, unchanged=True)
            return found

        return again(once)

    monkeypatch.setattr(database, "again", twice)
    if how == "a read":
        await engine.take_over(None)
    elif how == "a change":
        await engine.run(nothing)
    done = await engine.append(lambda _: record("three"))
    assert not lost
    assert (done.before.messages, texts(engine)) == (2, ["one", "two", "three"])
    await engine.aclose()
    await other.aclose()
    other.copy._database.close()


async def test_what_was_sent_and_not_found_cannot_be_made_any_more(database: Database, tmp_path: Path) -> None:
    engine = await opened(database, tmp_path / "a")
    assert not database.was_made("s", "unknown", engine.copy.version)
    late = record("late")[0].body + b"\n"
    assert not engine.copy.commit_append(late, LogState())
    await engine.append(lambda _: record("next"))
    assert texts(engine) == ["next"]
    assert engine.events.heard() == [b"[]"]  # nothing to be told, and that is known
    await engine.aclose()


async def test_of_the_changes_only_the_last_are_kept(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working_copy, "CHANGES_KEPT", 5)
    engine = await opened(database, tmp_path / "a")
    for number in range(20):
        await engine.append(partial(lambda text, _: record(text), f"{number}"))
    with database.connection() as connection:
        rows = connection.execute("SELECT version FROM timeleap_change ORDER BY version").fetchall()
    versions = [row[0] for row in rows]
    assert versions == list(range(versions[0], engine.copy.version + 1))
    assert 5 <= len(versions) <= 11
    await engine.aclose()


@pytest.fixture
def in_thread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done in threads of logs from now on, by name."""
    done: list[str] = []
    begin = LogThread.begin

    def noted(thread: LogThread, work: Callable[..., Any], *arguments: Any) -> Outcome[Any]:
        done.append(getattr(work, "__name__", "partial"))
        return begin(thread, work, *arguments)

    monkeypatch.setattr(LogThread, "begin", noted)
    return done


def stranger(database: Database) -> psycopg.Connection[Any]:
    """A connection to a database that is not one of its own."""
    return psycopg.connect(shared_cluster().url(database.label.rpartition("/")[2]))


async def test_an_append_goes_to_the_database_without_the_way_to_a_thread(
    database: Database, tmp_path: Path, in_thread: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "SOON_SECONDS", 60)
    engine = await opened(database, tmp_path / "a")
    many = [f"{number}" for number in range(GroupWriter.TRIED)]  # that the disk of the working copy is quick shows
    for text in many:
        await say(engine, text)
    in_thread.clear()
    large = os.urandom(1 << 23).hex()  # more than the system takes at once
    for text in ("short", large):
        await say(engine, text)
    assert not in_thread
    await say(engine, "short again")
    other = await opened(database, tmp_path / "b")
    assert texts(other) == [*many, "short", large, "short again"]
    await engine.aclose()
    await other.aclose()


async def prepared(database: Database, folder: Path) -> PostgresEngine:
    """An engine over a connection that has appended."""
    engine = await opened(database, folder)
    await say(engine, "prepared")
    return engine


async def test_an_answer_that_takes_long_is_waited_for_in_a_thread(
    database: Database, tmp_path: Path, in_thread: list[str]
) -> None:
    engine = await prepared(database, tmp_path / "a")
    in_thread.clear()
    loop = asyncio.get_running_loop()
    with stranger(database) as holder:
        holder.execute("SELECT FROM timeleap_session FOR UPDATE")
        appending = loop.create_task(say(engine, "late"))
        while not in_thread:
            await asyncio.sleep(0.01)  # nobody else is held up
        assert in_thread == ["end_append"]
        assert not appending.done()
    await appending
    assert texts(engine) == ["prepared", "late"]
    await engine.aclose()


async def test_an_append_whose_connection_breaks_is_made_once(
    database: Database, tmp_path: Path, in_thread: list[str]
) -> None:
    engine = await prepared(database, tmp_path / "a")
    in_thread.clear()
    with stranger(database) as other:
        other.execute("SELECT FROM timeleap_session FOR UPDATE")
        appending = asyncio.get_running_loop().create_task(say(engine, "once"))
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        while not (found := other.execute(waiting).fetchall()):
            await asyncio.sleep(0)
        other.execute("SELECT pg_terminate_backend(%s)", found[0])
        while not in_thread:
            await asyncio.sleep(0)
    await appending
    assert texts(engine) == ["prepared", "once"]
    await engine.aclose()


async def test_an_append_whose_connection_is_lost_as_it_is_sent_is_not_made(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await prepared(database, tmp_path / "a")
    ask = servers.WatchedConnection.ask

    def lost(connection: servers.WatchedConnection, *sent: Any) -> None:
        connection.pgconn.finish()
        ask(connection, *sent)

    with monkeypatch.context() as patch:
        patch.setattr(servers.WatchedConnection, "ask", lost)
        with pytest.raises(StorageFailureError, match="nothing was changed"):
            await say(engine, "once")
    await say(engine, "once")
    assert texts(engine) == ["prepared", "once"]
    await engine.aclose()


async def test_large_values_are_stored_with_the_quick_compression(database: Database, tmp_path: Path) -> None:
    engine = await opened(database, tmp_path / "a")
    await say(engine, "word " * 2000)
    with database.connection() as connection:
        found = connection.execute("SELECT pg_column_compression(body) FROM timeleap_piece").fetchall()
    assert found == [("lz4",)]
    await engine.aclose()


async def stored_by(engine: PostgresEngine, database: Database, folder: Path) -> int:
    """Bytes of all logs that the database has, which are those of the working copy for another process, too."""
    other = await opened(database, folder)
    for name in ("context.jsonl", *(timeline.file for timeline in other.timelines())):
        assert content(folder / name) == content(engine.copy.directory / name)
    await other.aclose()
    with database.connection() as connection:
        row = connection.execute("SELECT sum(length(body)) FROM timeleap_piece").fetchone()
    return 0 if row is None else int(row[0])


async def test_a_new_log_of_a_known_beginning_is_not_compared_with_the_one_before_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(database, tmp_path / "a")
    for number in range(4):
        await say(engine, f"{number} " * 1000)
    before = await stored_by(engine, database, tmp_path / "b")
    with monkeypatch.context() as patch:
        patch.delattr(working_copy, "same_beginning")
        done = await keep(engine, 2)
        again = await restore(engine, done.timeline_id)
        await keep(engine, 3, said("new"))
        await restore(engine, again.timeline_id)
    assert [text[0] for text in texts(engine)] == ["0", "1"]
    assert await stored_by(engine, database, tmp_path / "c") < before + 200
    await engine.aclose()


async def moved_by_a_revert(
    database: Database, folder: Path, lines: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int]:
    """Bytes of files that are read, written and copied for a revert of so many lines to the middle and for its undo."""
    session_id, moved = f"s{lines}", 0
    log = folder / "context.jsonl"
    folder.mkdir()
    log.write_bytes(b"".join(b'{"role":"user","content":"%d %s"}\n' % (n, b"x" * 200) for n in range(lines)))
    copy = publish(database, session_id, folder)
    copy.parts = SharedParts(folder.with_suffix(".parts"))
    engine = await open_copy(log, copy)
    await engine.validate()
    engine.view.request_lines(1)

    def counted(name: str, size: Callable[..., int]) -> None:
        real = getattr(os, name)

        def call(*arguments: Any) -> Any:
            nonlocal moved
            done = real(*arguments)
            moved += size(done)
            return done

        monkeypatch.setattr(os, name, call)

    with monkeypatch.context() as monkeypatch:
        sizes: dict[str, Callable[..., int]] = {"pread": len, "pwrite": int, "write": int, "copy_file_range": int}
        for name, size in sizes.items():
            counted(name, size)
        done = await keep(engine, lines // 2)
        engine.view.request_lines(1)
        reverted, moved = moved, 0
        await restore(engine, done.timeline_id)
        engine.view.request_lines(1)
        restored = moved
    assert texts(engine)[-1].startswith(f"{lines - 1} ")
    await engine.aclose()
    return reverted, restored


async def test_what_a_revert_and_its_undo_cost_does_not_depend_on_the_length(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_log, "SMALL", 0)  # a timeline that is restored is checked in full up to that size
    few = await moved_by_a_revert(database, tmp_path / "few", 1000, monkeypatch)
    many = await moved_by_a_revert(database, tmp_path / "many", 20_000, monkeypatch)
    assert max(few) < 150_000
    assert (
        max(many) < max(few) + 300_000
    )  # a few more steps of the searches; the log has 4 500 000, its index 1 600 000


async def test_of_a_batch_that_is_cut_through_only_what_comes_before_it_is_shared(
    database: Database, tmp_path: Path
) -> None:
    engine = await opened(database, tmp_path / "a")
    await say(engine, "one " * 1000)
    await say(engine, "two " * 1000, "three")
    before = await stored_by(engine, database, tmp_path / "b")
    await keep(engine, 2)
    assert [text[:3] for text in texts(engine)] == ["one", "two"]
    assert before + 4000 < await stored_by(engine, database, tmp_path / "c") < before + 4200
    await engine.aclose()


async def test_a_working_copy_that_was_changed_is_not_the_beginning_of_a_new_log(
    database: Database, tmp_path: Path
) -> None:
    engine = await opened(database, tmp_path / "a")
    await say(engine, "one")
    await say(engine, "two")
    log = tmp_path / "a" / "context.jsonl"
    log.write_bytes(log.read_bytes().replace(b"one", b"eno"))
    with pytest.raises(CorruptedError):
        await keep(engine, 1)
    await engine.aclose()


async def test_a_list_leaves_the_files_of_a_session_alone_that_is_being_opened(tmp_path: Path) -> None:
    url = shared_cluster().new_database()
    database = Database(url)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "context.jsonl").write_text('{"role":"user","content":"one"}\n')
    publish(database, "s", tmp_path / "made")
    database.close()
    store = PostgresStore(url, tmp_path / "home")
    log = store.path / "sessions" / "s" / "context.jsonl"
    async with store.opening("s"):
        store.fetch_all()
        assert log.exists()
    store.fetch_all()
    assert not log.exists()
    store.close()


def published(store: PostgresStore, *names: str) -> None:
    """Sessions of these names, empty ones."""
    for name in names:
        (store.path / name).mkdir()
        (store.path / name / "context.jsonl").touch()
        (store.path / name / "state.json").write_text("{}")
        store.publish(store.path / name, name)
        shutil.rmtree(store.path / name)


def listed(store: PostgresStore) -> set[str]:
    """The sessions that a list finds the files of."""
    return {path.name for path in (store.path / "sessions").iterdir()}


@pytest.mark.parametrize("has_listed", [True, False])
def test_what_is_gone_is_not_shown_by_a_standby_that_is_behind_however_much_it_is(
    tmp_path: Path, has_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_copies, "LEFT_KEPT", 2)
    url = shared_cluster().new_database()
    store = PostgresStore(f"{url}?timeleap_read=standby", tmp_path)
    database = Database(url)
    published(store, *"abcd")
    if has_listed:
        store.fetch_all()
    with database.connection() as behind:
        behind.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        behind.execute("SELECT FROM timeleap_session")  # as a standby has it that gets nothing more
        for name in "abc":
            store.move(name, f"{name}~1", b"{}")
        assert len(store._left) == 2
        if has_listed:
            store._take_all(behind, True)
            assert listed(store) == {"d"}
        else:
            with pytest.raises(StorageFailureError, match="behind"):
                store._take_all(behind, True)
    store.fetch_all()
    assert listed(store) == {"d"}
    store.close()
    database.close()


def test_where_no_standby_is_read_nothing_is_kept_of_what_is_gone(tmp_path: Path) -> None:
    store = PostgresStore(shared_cluster().new_database(), tmp_path)
    published(store, "a")
    store.fetch_all()
    store.move("a", "a~1", b"{}")
    store.fetch_all()
    assert not store._left
    assert store._counts.keys() == {"a~1"}
    store.close()


def test_a_newer_release_changes_the_schema_when_no_change_is_under_way(database: Database) -> None:
    with database.connect() as newer:
        newer.execute("SET lock_timeout = '200ms'")
        with database.transaction(), newer.transaction(), pytest.raises(errors.LockNotAvailable):
            migrate(newer, VERSION)
        with newer.transaction():
            migrate(newer, VERSION)


def test_a_server_that_hangs_is_not_waited_for_where_another_one_has_taken_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answers(_: servers.Options) -> bool:
        asked.append("the server that hangs")
        return False

    def took_over(options: servers.Options, timeline: str) -> bool:
        return bool(options["promoted"])

    monkeypatch.setattr(servers, "_answers", answers)
    monkeypatch.setattr(servers, "_took_over", took_over)
    with database.connect() as connection:
        connection.others = [{"promoted": False}, {"promoted": True}]
        assert not connection._in_charge()
        assert asked == []
        connection.others = [{"promoted": False}]
        assert not connection._in_charge()
        assert asked


@pytest.mark.parametrize("stored", [64 << 10, 1 << 20])
def test_of_a_log_that_is_fetched_little_is_in_memory(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: int
) -> None:
    """Of a long log as well, in whatever pieces an earlier release has stored it."""
    line = b'{"role":"user","content":"%s"}\n' % (b"x" * 1000)
    log = line * (24 * max(stored, working_copy.PIECE_BYTES) // len(line))
    (tmp_path / "long").mkdir()
    (tmp_path / "long" / "context.jsonl").write_bytes(log)
    with monkeypatch.context() as patch:
        patch.setattr(working_copy, "PIECE_BYTES", stored)
        publish(database, "long", tmp_path / "long")
    copy = WorkingCopy(database, "long", tmp_path / "fetched")
    tracemalloc.start()
    try:
        assert copy.fetch()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "fetched" / "context.jsonl").read_bytes() == log
    assert peak < 4 * max(stored, working_copy.PIECE_BYTES) < len(log) / 5


async def at_standby(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring a copy up to date as if no primary answered."""
    copy = engine.copy
    with monkeypatch.context() as patch:
        patch.setattr(copy._database, "connect", _refused)
        patch.setattr(copy._database._servers, "connect_to_standby", copy._database._servers.connect)
        copy._database.close()
        copy._database.reads_standby, mark = True, Staleness()
        await engine._shared.comparing.catch_up(mark)
        assert mark.found
    copy._database._away = (0.0, "unreachable", "")


def _refused() -> None:
    raise StorageFailureError("no primary answers", reason="unreachable")


async def test_what_only_a_lost_server_had_is_not_shown_once_a_primary_answers(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(database, tmp_path / "a")
    await say(engine, "kept")
    reader = await opened_elsewhere(database, tmp_path / "b")
    await say(engine, "lost")
    await at_standby(reader, monkeypatch)
    assert reader.copy.version == engine.copy.version
    assert not reader.copy.is_current(), "nobody has said yet that a primary has it"
    with database.connection() as connection:  # the change of that number is another one there
        connection.execute("UPDATE timeleap_change SET token = 'x' WHERE version = %s", [engine.copy.version])
        connection.execute(
            "UPDATE timeleap_piece SET body = convert_to(replace(convert_from(body, 'UTF8'), 'lost', 'made'), 'UTF8')"
        )
    await say(reader, "later")
    assert texts(reader) == ["kept", "made", "later"]
    await reader.aclose()
    await engine.aclose()
    reader.copy._database.close()


async def test_what_came_before_the_connection_broke_is_shown_before_anything_is_planned(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(database, tmp_path / "a")
    other = await opened_elsewhere(database, tmp_path / "b")
    await say(engine, "one")
    await say(other, "two")
    update = engine.copy.update

    def take_and_break(connection: Any, row: Any) -> bool:
        update(connection, row)
        raise errors.AdminShutdown("the transaction it is in cannot be ended")

    with monkeypatch.context() as patch:
        patch.setattr(engine.copy, "update", take_and_break)
        with pytest.raises(StorageFailureError):
            await engine._shared.comparing.catch_up()
    await say(engine, "three")
    assert texts(engine) == ["one", "two", "three"]
    assert [entry.line for entry in engine.view.entries(0, engine.state.lines)] == [0, 1, 2]
    await engine.aclose()
    await other.aclose()
    other.copy._database.close()


async def test_what_a_primary_has_too_is_kept_as_a_standby_had_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(database, tmp_path / "a")
    reader = await opened_elsewhere(database, tmp_path / "b")
    await say(engine, "one")
    await at_standby(reader, monkeypatch)
    monkeypatch.setattr(WorkingCopy, "_clear", _refused)
    await say(reader, "two")
    assert texts(reader) == ["one", "two"]
    await reader.aclose()
    await engine.aclose()
    reader.copy._database.close()
