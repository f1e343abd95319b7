"""What does a store in a database cost, beside a bare INSERT with its COMMIT, and beside a store of files?"""

from __future__ import annotations

import contextlib
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from benchmarks import instructions
from benchmarks.attaching import other_cores
from benchmarks.conftest import Judge
from benchmarks.corpus import write_session
from benchmarks.least import Stored
from benchmarks.measure import interleaved
from benchmarks.parts import of_stored
from benchmarks.server import Server
from benchmarks.test_append import MESSAGES, RECORDS, TOGETHER, appending
from tests.support.machines import machines
from tests.support.postgresql import Cluster, private_cluster
from tests.support.shared_load import APPENDS
from tests.wire.test_failover import fail_over

pytestmark = pytest.mark.bench

Serve = Callable[..., Server]
ROUNDS = 9
SIZE = 0.02
"""Of the messages of a long session, beside real ones: short ones, 21 MB of 100 000."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A database server that syncs what it commits, on the other cores, if there are any: it is nobody's part of what is
    compared, and mostly has a machine of its own."""
    with contextlib.ExitStack() as running:
        with other_cores():
            started = running.enter_context(private_cluster())
        yield started


class Bare:
    """A table that records are put into, each in a transaction of its own."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self._connection.execute("CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)")
        self._connection.commit()

    def append(self) -> None:
        """Insert and commit all records, one after the other."""
        for record in RECORDS:
            self._connection.execute("INSERT INTO bare (body) VALUES (%s)", [record])
            self._connection.commit()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


@pytest.fixture
def bare(cluster: Cluster) -> Iterator[Bare]:
    table = Bare(cluster.new_database())
    yield table
    table.close()


@pytest.fixture
def statement(cluster: Cluster) -> Iterator[Stored]:
    """The statement that appends, alone and in this process."""
    made = Stored(cluster.new_database())
    yield made
    made.close()


@pytest.mark.rows("38", "39")
def test_an_append_beside_a_bare_insert(
    tmp_path: Path, cluster: Cluster, bare: Bare, statement: Stored, serve: Serve, least: Serve, judge: Judge
) -> None:
    server = serve("--store", cluster.new_database())
    process = least(tmp_path / "least", f"--store={cluster.new_database()}")
    measured = interleaved(
        f"{len(MESSAGES)} appends, committed",
        {
            "INSERT and COMMIT": bare.append,
            "timeleap, one at a time": appending(server, "alone", 1),
            "timeleap, 64 in flight": appending(server, "many", 64),
            "the least, one at a time": appending(process, "", 1, opened=True),
            "the least, 64 in flight": appending(process, "", 64, opened=True),
            "the statement, one append in each": lambda: stored_by(statement, 1),
            f"the statement, {TOGETHER} appends in each": lambda: stored_by(statement, TOGETHER),
        },
        rounds=ROUNDS,
    )
    theirs, *ours = measured.values()
    for key, count, mine, its, alone in zip(("38", "39"), (1, TOGETHER), ours[:2], ours[2:4], ours[4:], strict=True):
        rooms = instructions.counted(count, "os", cluster.new_database())
        parts = of_stored(measured, (mine.name, its.name, alone.name), len(MESSAGES), rooms)
        judge(
            key, mine, theirs, per=len(MESSAGES), least=its, parts=parts, note="the database server has the other cores"
        )


def stored_by(statement: Stored, together: int) -> None:
    """Append all records, so many with each statement."""
    for at in range(0, len(RECORDS), together):
        records = RECORDS[at : at + together]
        statement.write(b"".join(records), len(records))


@pytest.mark.rows("40")
def test_how_soon_another_process_hears_of_an_append(cluster: Cluster, serve: Serve, judge: Judge) -> None:
    url = cluster.new_database()
    writer, other = serve("--store", url), serve("--store", url)
    for server in (writer, other):
        server.request("session/open", {"sessionId": "s"})
    frames = writer.frames("context/appendMessage", [{"sessionId": "s", "message": MESSAGES[0]}] * 100)

    def delays() -> Iterator[float]:
        for frame in frames:
            writer.exchange([frame])
            replied = time.perf_counter()
            while not other.read():
                pass
            yield time.perf_counter() - replied

    list(delays())
    judge("40", values=[statistics.quantiles(delays(), n=20)[-1] * 1e3 for _ in range(ROUNDS)])


@pytest.mark.rows("41")
def test_a_page_beside_a_store_of_files(cluster: Cluster, serve: Serve, judge: Judge) -> None:
    def reading(server: Server) -> Callable[[], None]:
        server.request("session/open", {"sessionId": "s"})
        frames = [{"sessionId": "s", "message": MESSAGES[number % len(MESSAGES)]} for number in range(1000)]
        server.answered(server.frames("context/appendMessage", frames), 64)
        page = server.frames("context/getHistory", [{"sessionId": "s", "limit": 1000}] * 10)
        return lambda: server.answered(page, 1)

    measured = interleaved(
        "10 pages of up to 1 000 messages",
        {"files": reading(serve()), "database": reading(serve("--store", cluster.new_database()))},
        rounds=ROUNDS,
    )
    files, database = measured.values()
    judge("41", database, files, per=10)


def imported(server: Server, folder: Path, messages: int) -> str:
    """The id of a session of so many messages, which is open then."""
    log = write_session(folder / str(messages), messages, size=SIZE)
    session_id: str = server.request("session/import", {"path": str(log), "format": "kimi"})["sessionId"]
    server.request("session/open", {"sessionId": session_id})
    return session_id


def size_of(cluster: Cluster, url: str) -> int:
    """Bytes of a database, without what updates have left behind."""
    name = url.rpartition("/")[2]
    cluster.execute("VACUUM", name)
    return int(str(cluster.execute(f"SELECT pg_database_size('{name}')")[0][0]))


@pytest.mark.rows("42", "42-growth")
def test_a_revert_of_many_messages_beside_one_of_few(
    tmp_path: Path, cluster: Cluster, serve: Serve, judge: Judge
) -> None:
    url = cluster.new_database()
    server = serve("--store", url)

    def reverting(messages: int) -> Callable[[], float]:
        session = {"sessionId": imported(server, tmp_path, messages)}
        middle = server.request("session/getState", session)["context"]["nCheckpoints"] // 2

        def revert() -> float:
            started = time.perf_counter()
            done = server.request("context/revertTo", {**session, "checkpointId": middle})
            taken = time.perf_counter() - started
            again = server.request("context/restoreTimeline", {**session, "timelineId": done["timelineId"]})
            server.request("session/prune", {**session, "timelineIds": [done["timelineId"], again["timelineId"]]})
            server.wait_until_freed()
            return taken

        return revert

    measured = interleaved(
        "Revert to the middle, in a database",
        {"1 000 messages": reverting(1_000), "100 000 messages": reverting(100_000)},
        rounds=ROUNDS,
    )
    few, many = measured.values()
    judge("42", many, few)

    session = {"sessionId": imported(server, tmp_path / "growing", 100_000)}
    middle = server.request("session/getState", session)["context"]["nCheckpoints"] // 2
    growth = []
    for _ in range(ROUNDS):
        before = size_of(cluster, url)
        server.request("context/revertTo", {**session, "checkpointId": middle})
        growth.append(max(8.0, (size_of(cluster, url) - before) / 1024))  # a page at least
        server.request("context/undo", session)
    judge("42-growth", values=growth)


@pytest.mark.rows("43")
def test_memory_beside_a_store_of_files(tmp_path: Path, cluster: Cluster, serve: Serve, judge: Judge) -> None:
    ratios, note = [], ""
    for number in range(ROUNDS):
        taken: list[int] = []
        for store in (str(tmp_path / f"files-{number}"), cluster.new_database()):
            maker, opener = serve("--store", store), serve("--store", store)
            session_id = imported(maker, tmp_path / f"{number}-{len(taken)}", 100_000)
            maker.request("session/close", {"sessionId": session_id})
            maker.kill()
            opener.request("session/open", {"sessionId": session_id})
            opener.request("context/getHistory", {"sessionId": session_id, "limit": 100})
            taken.append(opener.memory)
            opener.kill()
        files, database = taken
        ratios.append(database / files)
        note = f"{database / 1e6:.1f} over {files / 1e6:.1f} MB"
    judge("43", values=ratios, note=note)


@pytest.mark.rows("44")
def test_how_soon_all_write_again_after_a_failover(tmp_path: Path, judge: Judge) -> None:
    values = []
    for seed, how in enumerate([signal.SIGKILL, signal.SIGSTOP] * 3):
        with machines(tmp_path / str(seed)) as start:
            load, again = fail_over(start, how, seed, APPENDS)
        assert not load.unexplained()  # nothing that was acknowledged is lost, nothing is there twice
        values.append(again)
    judge("44", values=values)
