"""The servers of a URL: which of them takes writes, and that one which has stopped answering is noticed.

libpq knows neither: it takes the first host that takes writes, which after a failover may be the old primary, and on a
connection whose server hangs it waits for ever (the kernel goes on acknowledging packets, so no timeout of TCP helps).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg import Connection, Cursor, Transaction, errors
from psycopg.conninfo import make_conninfo
from psycopg.generators import execute as exchange
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from timeleap.uncancelled_work import Outcome
from timeleap_postgresql import poolers, refusals
from timeleap_postgresql.refused_state import refused_state
from timeleap_postgresql.session_settings import SET_UP, SET_UP_LOCALLY, given_settings, to_set

T = TypeVar("T")
Options = dict[str, Any]
"""Parameters of libpq, by name."""

PROBED_SECONDS: Final = 1.0
"""Silence after which a server is asked, over another connection, if it still answers."""
_PROBE: Final[Options] = {"connect_timeout": 2}  # the least that libpq takes
ASKED_AGAIN_SECONDS: Final = 0.2
"""Pause before a server that takes no writes yet is asked again, while others are waited for."""
SILENT_SECONDS: Final = 15.0
"""Silence after which a connection is given up, whatever its server says: a lock is waited for less long, and a COMMIT
that takes longer waits for a standby that is not there."""
WORKING_SECONDS: Final = 130.0
"""Limit for statements that read or make whole tables: a little more than the server's own `statement_timeout`."""
_TIMELINE: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
)


_COMPRESSION: Final = (
    "SELECT set_config(name, 'lz4', false) FROM pg_settings"
    " WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)"
)
"""Lets a connection store large values with the compression that takes a fifth of the time, where the server has it."""
IN_TIME_TRIES: Final = 50
"""How often a statement is sent again that a `statement_timeout` which is not ours has ended."""
SOON_SECONDS: Final = 0.2
"""How long an event loop waits for an answer by itself; after that a thread does, which sees whether the server hangs."""
_GOOD: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
_FORGOTTEN: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""Errors where a pooler has given a connection another process than that on which statements were prepared."""


class Statement(NamedTuple):
    """A statement that is prepared under a name, once for each connection, and whose values are sent as they are.

    Attributes:
        name: Name of the prepared statement.
        text: SQL with `$1` and so on.
        formats: Formats of its values: text, or bytes as they are.
    """

    name: bytes
    text: str
    formats: tuple[Format, ...]


class WatchedConnection(Connection[Any]):
    """A connection whose statements fail where its server has stopped answering.

    A `Statement` may also be sent by `ask`, and waited for on an event loop (`answered`); `answer` has the outcome. Others
    are not prepared: psycopg would let the server forget these, too, whenever a transaction is given up.

    Attributes:
        options: Of the one server it is to.
        others: Those of the other servers.
        timeline: Of the server, which grows with each promotion; empty where there is one server only.
        patience: Seconds of silence after which it is given up.
    """

    options: Options
    others: Sequence[Options] = ()
    timeline: str = ""
    patience: float = SILENT_SECONDS
    prepared: frozenset[bytes] = frozenset()
    _results: list[PGresult]
    _complete: bool
    _problem: psycopg.Error | None = None

    def begin(self) -> None:
        """Begin a transaction, which is ended by COMMIT or ROLLBACK. Raises psycopg.Error."""
        self.execute("BEGIN")

    def prepare(self, statement: Statement) -> None:
        """Let the server prepare a statement, which it is to have before it is asked. Raises psycopg.Error."""
        if statement.name not in self.prepared:
            self.pgconn.send_prepare(statement.name, statement.text.encode())
            self._check(self.wait(exchange(self.pgconn)))
            self.prepared |= {statement.name}

    def ask(self, statement: Statement, values: Sequence[bytes | None]) -> None:
        """Send a statement, without waiting for anything. What goes wrong is raised by `answer`."""
        self._results, self._complete, self._problem = [], False, None
        try:
            self.pgconn.send_query_prepared(statement.name, values, statement.formats)
        except psycopg.Error as error:
            self._problem = error

    async def answered(self) -> bool:
        """Wait on the event loop, for a while; True once there is an answer that is no error, False where `answer` has to
        wait on, or has an error."""
        loop, outcome = asyncio.get_running_loop(), Outcome[bool](taken=True)
        try:
            number = self.pgconn.socket
            loop.add_reader(number, self._read, outcome)
        except (psycopg.Error, OSError, NotImplementedError):  # it is lost; by the event loop that Windows has
            return False
        later = loop.call_later(SOON_SECONDS, outcome.succeed, False)
        try:
            self._write(outcome)
            return await outcome.result_uncancelled()
        finally:
            later.cancel()
            loop.remove_reader(number)
            loop.remove_writer(number)

    def answer(self) -> PGresult:
        """The answer to what was asked, which is waited for. Raises psycopg.Error."""
        if self._problem is not None:
            raise self._problem
        if not self._complete:
            self._results += self.wait(exchange(self.pgconn))
            self._complete = True
        return self._check(self._results)

    def _write(self, outcome: Outcome[bool]) -> None:
        """Send what the system has not taken yet."""
        loop, number = asyncio.get_running_loop(), self.pgconn.socket
        try:
            loop.remove_writer(number)
            if self._problem is None and self.pgconn.flush():
                loop.add_writer(number, self._write, outcome)
        except psycopg.Error as error:
            self._problem = error
        if self._problem is not None:
            outcome.succeed(False)

    def _read(self, outcome: Outcome[bool]) -> None:
        """Take what has arrived."""
        pgconn = self.pgconn
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    self._complete = True
                    outcome.succeed(all(result.status in _GOOD for result in self._results))
                    break
                self._results.append(result)
        except psycopg.Error as error:
            self._problem = error
            outcome.succeed(False)

    def _check(self, results: Sequence[PGresult]) -> PGresult:
        for result in results:
            if result.status not in _GOOD:
                error = errors.error_from_result(result, self.info.encoding)
                if isinstance(error, _FORGOTTEN) and not isinstance(self, PooledConnection):
                    poolers.KNOWN.disprove(self.options)
                    self.pgconn.finish()  # nothing was done, and another connection does it
                raise error
        return results[0]

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        silent = probed = 0.0
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if ready:
                    silent = 0.0
                elif not silent:
                    silent = probed = time.monotonic()
                elif (now := time.monotonic()) - probed > PROBED_SECONDS:
                    if now - silent > self.patience or not self._in_charge():
                        self.pgconn.finish()
                        raise errors.OperationalError(f"the server has not answered for {now - silent:.0f} s")
                    probed = time.monotonic()
                wanted = steps.send(ready)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]

    def _in_charge(self) -> bool:
        """True if the server answers, and none of the others has taken over: then a COMMIT waits for ever, because its
        standby is gone. Those are asked first: a server that hangs is waited for, which a promotion need not be."""
        return not any(_took_over(other, self.timeline) for other in self.others) and _answers(self.options)


class PooledConnection(WatchedConnection):
    """A connection of which each transaction may be done by another process of the server, as a pooler in transaction
    mode lends them: each transaction sets itself up, nothing is prepared by a name, and nobody listens or
    keeps a lock over it.

    Attributes:
        settings: Of each transaction, as `SET_UP_LOCALLY` takes them.
    """

    settings: Sequence[Sequence[str]]
    _begun = False  # a transaction which is not set up yet
    _statement: tuple[Statement, Sequence[bytes | None]]

    def begin(self) -> None:
        super().execute("BEGIN")
        self._begun = True

    @contextmanager
    def transaction(self, savepoint_name: str | None = None, force_rollback: bool = False) -> Iterator[Transaction]:
        outermost = self._is_idle()
        with super().transaction(savepoint_name, force_rollback) as made:
            self._begun |= outermost
            yield made

    def execute(self, query: Any, params: Any = None, **options: Any) -> Cursor[Any]:
        """Run a statement; outside of a transaction it gets one of its own, which is set up first."""
        if self._is_idle() and query != "ROLLBACK":
            with self.transaction():
                return self.execute(query, params, **options)
        if not str(query).startswith("SET TRANSACTION"):  # which has to be the first statement
            self._set_up()
        return super().execute(query, params, **options)

    def prepare(self, statement: Statement) -> None:
        """The next statement may go to a process that has not heard of this one."""

    def ask(self, statement: Statement, values: Sequence[bytes | None]) -> None:
        """It is sent by `answer`."""
        self._statement = statement, values

    def answer(self) -> PGresult:
        if not self._is_idle():
            return self._send()
        self.begin()
        try:
            result = self._send()
        except psycopg.Error:
            with suppress(psycopg.Error):
                super().execute("ROLLBACK")
            raise
        super().execute("COMMIT")
        return result

    def _set_up(self) -> None:
        if self._begun:
            self._begun = False
            super().execute(SET_UP_LOCALLY, self.settings)

    def _send(self) -> PGresult:
        self._set_up()
        statement, values = self._statement
        self.pgconn.send_query_params(statement.text.encode(), values, param_formats=statement.formats)
        return self._check(self.wait(exchange(self.pgconn)))

    def _is_idle(self) -> bool:
        return self.info.transaction_status == TransactionStatus.IDLE


class Servers:
    """The servers that a URL names, tried at once where the one that was used last does not do.

    After a promotion the old primary may come back and still take itself for one. Its timeline is lower, so it is not
    used by a process that has seen, or can reach, the new one.
    """

    def __init__(self, options: Options) -> None:
        """`options`: parameters of libpq; `host`, `hostaddr` and `port` may be lists."""
        self._each = _split(options)
        self._lock = threading.Lock()
        self._preferred: Options | None = None
        self._timeline = ""

    @property
    def several(self) -> bool:
        """True if there is more than one."""
        return len(self._each) > 1

    def doubt(self, lost: Connection[Any] | None = None) -> None:
        """A connection was lost: the next one is made to the newest primary among all servers. If it was to one that was
        replaced meanwhile, that one is known, and no server that hangs is waited for."""
        poolers.KNOWN.forget()
        if lost is None or not self.is_outdated(lost):
            self._preferred = None

    def is_outdated(self, connection: Connection[Any]) -> bool:
        """True of a connection to a server that was replaced by another one meanwhile."""
        return isinstance(connection, WatchedConnection) and connection.timeline < self._timeline

    def connect(self) -> WatchedConnection:
        """A connection to the server that takes writes. Raises psycopg.Error, with the first server's reason."""
        if not self.several:
            return _open(self._each[0])
        first = self._preferred
        connection = self._to_preferred()
        if connection is None:
            with self._lock:
                if self._preferred is not first:  # found meanwhile
                    connection = self._to_preferred()
                connection = connection or self._newest()
        return connection

    def connect_to_standby(self) -> WatchedConnection:
        """A connection to the first server that answers and takes no writes. Raises psycopg.Error."""
        arrived: _Arrivals = SimpleQueue()
        enough = threading.Event()
        for options in self._each:
            threading.Thread(target=_try_standby, args=(options, arrived, enough), daemon=True).start()
        problems: list[psycopg.Error] = []
        while len(problems) < len(self._each):
            _, found = arrived.get()
            if not isinstance(found, psycopg.Error):
                enough.set()
                _close_all(arrived)
                return found
            problems.append(found)
        raise _worst(problems)

    def _to_preferred(self) -> WatchedConnection | None:
        """A connection to the server that was found last; None where it does not do any more."""
        if self._preferred is None:
            return None
        try:
            connection = _open(self._preferred, timeline=True)
        except psycopg.Error:
            self.doubt()
            return None
        if self.is_outdated(connection):
            connection.close()
            self.doubt()
            return None
        return self._watching(connection)

    def _watching(self, connection: WatchedConnection) -> WatchedConnection:
        connection.others = [other for other in self._each if other is not connection.options]
        return connection

    def _newest(self) -> WatchedConnection:
        """Connect to the writable server on the highest timeline. A promotion ends the wait for a server that does
        not answer, and a standby is asked until then."""
        arrived: _Arrivals = SimpleQueue()
        enough = threading.Event()
        for options in self._each:
            threading.Thread(target=_try, args=(options, arrived, enough), daemon=True).start()
        best: WatchedConnection | None = None
        tried: dict[str, psycopg.Error | None] = {}
        while len(tried) < len(self._each) and not (best is not None and self._timeline and self.is_newer(best)):
            server, found = arrived.get()
            if isinstance(found, psycopg.Error):
                tried[server] = found
                continue
            tried[server] = None
            if best is None or found.timeline > best.timeline:
                best, found = found, best
            if found is not None:
                found.close()
        enough.set()
        _close_all(arrived)
        if best is None:
            raise _worst([error for error in tried.values() if error is not None])
        if self.is_outdated(best):
            best.close()
            raise errors.OperationalError("only a server answers that another one has taken over from")
        self._preferred, self._timeline = best.options, best.timeline
        return self._watching(best)

    def is_newer(self, connection: WatchedConnection) -> bool:
        """True of a connection to a server that has taken over since the last one was found."""
        return connection.timeline > self._timeline


_Arrivals = SimpleQueue[tuple[str, WatchedConnection | psycopg.Error]]


def _open(options: Options, *, timeline: bool = False) -> WatchedConnection:
    connection = _entered(options)
    connection.options = options
    try:
        row = connection.execute(_TIMELINE).fetchone() if timeline else None
    except BaseException:
        connection.close()
        raise
    connection.timeline = "" if row is None else str(row[0])
    return connection


def _entered(options: Options) -> WatchedConnection:
    """A connection that is set up, as the pooler in front of the server lets it be, if there is one."""
    connection, given = _connected(WatchedConnection, options)
    try:
        mode: poolers.Mode = "none"
        process = _again_in_time(lambda: poolers.process_of(connection))
        if process != connection.pgconn.backend_pid:
            mode = _mode_of(connection, process)
        if mode != "transaction":
            _set_up(connection, given, mode)
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    pooled, given = _connected(PooledConnection, options)
    pooled.settings = to_set(given_settings(given)[0], pooled.info.server_version, user_too=True)
    return pooled


C = TypeVar("C", bound=WatchedConnection)


def _connected(kind: type[C], options: Options) -> tuple[C, str]:
    """A connection, and the startup parameter `options` that the user gave: in the URL, a service file, or the environment."""
    ours: Options = {**options, "client_encoding": "UTF8"}
    try:
        connection = kind.connect(**ours, autocommit=True, prepare_threshold=None)
        given = connection.pgconn.options.decode()
    except psycopg.OperationalError as error:
        if not poolers.refuses_options(error) or error.pgconn is None:
            if error.sqlstate is None and refusals.is_unclear(error):
                error.sqlstate = refused_state(make_conninfo("", **ours))
            raise
        given = error.pgconn.options.decode()
        _, others = given_settings(given)
        if others:
            raise poolers.PoolerError(
                f"the pooler takes no startup parameter `options`, and {others[0]} in that is no setting: leave it out"
            ) from error
        without: Options = {**ours, "options": ""}
        connection = kind.connect(**without, autocommit=True, prepare_threshold=None)
    connection.options = options
    return connection, given


def _mode_of(connection: WatchedConnection, process: int) -> poolers.Mode:
    options = connection.options

    def second() -> WatchedConnection:
        other, _ = _connected(WatchedConnection, options)
        other.patience = poolers.SECOND_SECONDS
        return other

    with poolers.KNOWN.lock:
        mode = poolers.KNOWN.get(options)
        if mode is None:
            mode = poolers.find_mode(connection, process, second)
            poolers.KNOWN.put(options, mode)
    return mode


def _set_up(connection: WatchedConnection, given: str, mode: poolers.Mode) -> None:
    """Give a connection its settings for as long as it is open."""
    if mode == "session":
        # What others have left there, if the pooler does not see to that: settings, locks, prepared statements.
        _again_in_time(lambda: connection.execute("DISCARD ALL"))
    values = {"application_name": connection.options.get("application_name", ""), **given_settings(given)[0]}
    ours = to_set(values, connection.info.server_version, user_too=mode == "session")
    _again_in_time(lambda: connection.execute(SET_UP, ours))
    connection.execute(_COMPRESSION)


def _again_in_time(ask: Callable[[], T]) -> T:
    """Ask over a connection that is not set up yet, again while the `statement_timeout` of its role is too short for that."""
    for _ in range(IN_TIME_TRIES):
        with suppress(errors.QueryCanceled):
            return ask()
    return ask()


def _try(options: Options, arrived: _Arrivals, enough: threading.Event) -> None:
    """Connect to a server, and to one that refuses again until it is enough."""
    server, refused = repr(options), True
    while refused and not enough.is_set():
        try:
            arrived.put((server, _open(options, timeline=True)))
            refused = False
        except psycopg.Error as error:
            arrived.put((server, error))
            enough.wait(ASKED_AGAIN_SECONDS)
    if enough.is_set():
        _close_all(arrived)  # nobody waits for it any more


def _try_standby(options: Options, arrived: _Arrivals, enough: threading.Event) -> None:
    """Connect to a server that takes no writes."""
    server = repr(options)
    try:
        connection = _open({**options, **_PROBE, "target_session_attrs": "any"}, timeline=True)
    except psycopg.Error as error:
        arrived.put((server, error))
        return
    if connection.timeline:
        # One that was taken over from has what counts for nobody; any other one is found where writes go.
        connection.close()
        arrived.put((server, errors.OperationalError("the server is no standby")))
        return
    arrived.put((server, connection))
    if enough.is_set():
        _close_all(arrived)


def _close_all(arrived: _Arrivals) -> None:
    with suppress(Empty):
        while True:
            if isinstance(late := arrived.get_nowait()[1], WatchedConnection):
                late.close()


def _answers(options: Options) -> bool:
    """True if a server answers a new connection, if only to refuse it."""
    try:
        probe: Options = {**options, **_PROBE, "target_session_attrs": "any"}
        psycopg.connect(**probe).close()
    except errors.ConnectionTimeout:
        return False
    except psycopg.Error:
        return True
    return True


def _took_over(options: Options, timeline: str) -> bool:
    """True if a server takes writes and was promoted after that of a timeline."""
    try:
        with _open(options | _PROBE, timeline=True) as connection:
            return connection.timeline > timeline
    except psycopg.Error:
        return False


def _split(options: Options) -> list[Options]:
    """The options of each server. What a service file or the environment names stays with libpq."""
    lists = {name: str(options[name]).split(",") for name in ("host", "hostaddr", "port") if options.get(name)}
    count = max((len(values) for name, values in lists.items() if name != "port"), default=1)
    if count == 1:
        return [options]
    return [
        {**options, **{name: values[at] if len(values) > 1 else values[0] for name, values in lists.items()}}
        for at in range(count)
    ]


def _worst(problems: list[psycopg.Error]) -> psycopg.Error:
    """Why no server can be used: that one refuses the password says more than that another is away."""
    return min(problems, key=lambda error: not refusals.is_of_server(error))
