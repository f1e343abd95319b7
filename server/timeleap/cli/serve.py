"""`timeleap serve`: the command line, the log, the event loop and the exit code.

Parsed with argparse, not with the command line's library: this is started by editors, many times a day, and every
import stands between them and the first reply.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeleap.cli.installed_parts import PACKAGES
from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.kept_modules import KEPT
from timeleap.log_output import LogHandler, LogOutput, take_standard_error
from timeleap.optional_parts import part
from timeleap.rpc import stdio
from timeleap.rpc.connection import Connection, ExitCode, ServicePort
from timeleap.rpc.errors import describe
from timeleap.service import config
from timeleap.service.service import Service
from timeleap.sessions.companion import Companion
from timeleap.store.parts import StoreParts, no_approvals

if TYPE_CHECKING:
    from timeleap.attach.listener import LocalNetwork
    from timeleap.call import Client
    from timeleap.features.files.tree_port import TreeOf
    from timeleap.rpc.second_face import Face
    from timeleap.sessions.transaction import SessionTransactions
    from timeleap.store.approvals_port import StoreApprovals
    from timeleap.store.companions_port import StoreCompanions
    from timeleap.store.home import Home

log = logging.getLogger(__name__)

LEVELS = ("debug", "info", "warning", "error", "critical")
PATIENCE = 5.0
"""Seconds a reader of our output may take nothing after we were asked to stop."""
LAST_WORD = 60.0
"""Seconds in which a client that was let go, because it did not read, may still read why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve on the standard streams until the client is done; returns the exit code.

    `argv`: the arguments after `serve`; those of the process where None.
    """
    options = parse(sys.argv[1:] if argv is None else argv, os.environ)
    descriptors = stdio.claim()
    errors = take_standard_error(and_output=True)
    KEPT.enable(*PACKAGES)
    try:
        configure_log(options.log_level, options.log_file, errors)
    except OSError as error:
        sys.stderr.write(f"timeleap serve: cannot log to {options.log_file}: {error.strerror}\n")
        return ExitCode.USAGE

    @cache
    def service() -> ServicePort:
        given = {"durability": options.durability, "store": options.store}
        flags = {name: value for name, value in given.items() if value}
        return make_service(options.home, os.environ, flags)

    unusable = make_home(options.home)
    with contextlib.suppress(TimeleapError):  # every `initialize` tries again, and gets the reason as its answer
        service()
    return run(service, descriptors, fail_on_error=options.fail_on_error, unusable=unusable)


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Read the arguments of `serve`; a wrong one ends the process with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="timeleap serve",
        description="Serve sessions over JSON-RPC 2.0 on standard input and output, to one client.",
        epilog="The framing (one JSON object a line, or Content-Length headers) is recognised by the first byte.",
    )
    parser.add_argument("--home", type=Path, metavar="DIR", help="directory of the store; created if absent")
    parser.add_argument(
        "--store", metavar="URL", help="where the sessions are: postgresql://host/database, or a directory as --home"
    )
    parser.add_argument(
        "--durability",
        choices=("disk", "os"),
        help="disk: a reply means it survives power loss (default); os: it survives the end of the process",
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        type=str.lower,
        default=environ.get("TIMELEAP_LOG_LEVEL") or "warning",
        help="what to log (default: warning, or TIMELEAP_LOG_LEVEL); info: a line for each change, debug: each request",
    )
    parser.add_argument(
        "--log-file",
        type=Path,
        metavar="FILE",
        default=Path(environ["TIMELEAP_LOG_FILE"]) if environ.get("TIMELEAP_LOG_FILE") else None,
        help="where to log (default: TIMELEAP_LOG_FILE, or standard error)",
    )
    parser.add_argument(
        "--fail-on-error",
        action="store_true",
        help="exit with 5 instead of 0 if any request was answered with an error; a cancelled one does not count",
    )
    options = parser.parse_args(argv)
    if options.log_level not in LEVELS:  # argparse does not check defaults
        parser.error(f"TIMELEAP_LOG_LEVEL is {options.log_level!r}; choose from {', '.join(LEVELS)}")
    return options


def configure_log(level: str, file: Path | None, errors: LogOutput) -> None:
    """Log to `file`, readable by its owner only, or to the standard error output `errors`; other libraries from warnings on.

    Raises:
        OSError: The file cannot be opened.
    """
    output = errors
    if file is not None:
        # A pipe that nobody reads is refused, not waited for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
        output = LogOutput(os.open(file, flags, 0o600), _tell_failed_log)
    form = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.WARNING, format=form, handlers=[LogHandler(output)])
    logging.raiseExceptions = False  # a record that cannot be put into words is left out
    for package in ("timeleap", *PACKAGES):
        logging.getLogger(package).setLevel(level.upper())
    # pygls logs payloads, at levels that somebody may switch on for everything.
    logging.getLogger("pygls").setLevel(logging.WARNING)


def _tell_failed_log(error: OSError) -> None:
    """Say once, in a line, that the log file cannot be written; the sessions are what matters."""
    sys.stderr.write(f"timeleap serve: cannot write the log: {error.strerror}\n")


def make_service(home: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Service:
    """The service of a process, which other processes can reach."""
    return Service(config.load(home, environ=environ, flags=flags or {}), _network, _parts)


def _network(service: ServicePort) -> LocalNetwork:
    """The way to other processes; nothing of it is loaded before a session is opened."""
    from timeleap.attach.listener import LocalNetwork

    return LocalNetwork(service)


def _parts(settings: config.Config) -> StoreParts:
    """The parts outside the core. Files of workspaces are loaded when a session keeps some, or is in a database."""
    home = settings.home
    part("timeleap.features.files.kept_form")  # the form of what documents have of files, also where none are kept
    if settings.database is not None:
        return _in_database(settings.database, home, settings.key_file)

    @cache
    def trees() -> TreeOf:
        found: TreeOf = part("timeleap.features.files.trees").trees_below(home)
        return found

    def companion(session: SessionTransactions) -> Companion:
        found = part("timeleap.features.files.session_snapshots")
        if found is None:
            return Companion(session)
        made: Companion = found.FileSnapshots(
            lambda path, meta: trees()(path, meta) if meta.accompanied else None, session
        )
        return made

    def companions() -> StoreCompanions | None:
        stored = part("timeleap.features.files.stored")
        return None if stored is None else stored.SnapshotsOfStore(home)

    return StoreParts(
        companion=companion,
        companions=companions,
        approvals=_approvals,
    )


def _in_database(url: str, home: Path, key_file: Path | None) -> StoreParts:
    """The parts of a store in a database, with working copies in `home`.

    Raises:
        StorageFailureError: This installation has no package for databases, or no library for them.
    """
    try:
        found = part("timeleap_postgresql.shared_seals")
    except ImportError as error:
        message = f"a store in a database needs psycopg: pip install 'timeleap[postgresql]' ({error})"
        raise StorageFailureError(message, path="psycopg", errno="ENOSYS", reason="unreachable") from error
    if found is None:
        message = "this installation does not do stores in databases: its package timeleap_postgresql is missing"
        raise StorageFailureError(message, path="timeleap_postgresql", errno="ENOSYS", reason="unreachable")
    parts: StoreParts = found.in_database(url, home, key_file, _approvals)
    return parts


def _approvals(home: Home) -> StoreApprovals:
    """The approvals of sessions in a home directory."""
    found = part("timeleap.features.approvals.store_approvals")
    return no_approvals(home) if found is None else found.ApprovalsInFiles(home)


def _editor_face(service: Callable[[], ServicePort], client: Client, capabilities: dict[str, Any]) -> Face | None:
    """The methods of LSP, for a client that has documents; nothing of them is loaded for others."""
    if not isinstance(capabilities.get("textDocument"), dict):
        return None
    found = part("timeleap_lsp.face")
    return None if found is None else found.EditorFace(service(), client, capabilities)


def make_home(home: Path | None) -> bool:
    """Make the store's directory, if one was named; returns whether it cannot be used, for the exit code.

    The service reports why to the client that initialises it, which may name another directory.
    """
    try:
        if home is not None:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.error("cannot use %s as the store's directory: %s", home, error.strerror)
        return True
    return False


def run(
    service: Callable[[], ServicePort],
    descriptors: stdio.Descriptors,
    *,
    fail_on_error: bool = False,
    unusable: bool = False,
) -> int:
    """Serve one client on two descriptors, with whatever service; returns the exit code.

    With `fail_on_error` a request that was answered with an error makes a clean end a failure; so does an `unusable`
    home, unless the client has named another.
    """
    try:
        with asyncio.Runner(loop_factory=_event_loop) as runner:
            connection = runner.run(_serve(service, descriptors))
    except Exception as error:
        log.critical("the server failed\n%s", describe(error))
        return ExitCode.STORAGE_FAILURE if unusable or isinstance(error, OSError) else ExitCode.NO_SHUTDOWN
    if unusable and not connection.initialized:
        return ExitCode.STORAGE_FAILURE
    failed = fail_on_error and connection.refused_any and connection.exit_code == ExitCode.CLEAN
    return ExitCode.REQUEST_FAILED if failed else connection.exit_code


def _event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of libuv: a turn of asyncio's own takes as long as the work of a short request."""
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


async def _serve(service: Callable[[], ServicePort], descriptors: stdio.Descriptors) -> Connection:
    asyncio.get_running_loop().set_exception_handler(_log_stray)
    await _reserve_descriptor()
    connection = Connection(service, make_face=partial(_editor_face, service))
    transport = stdio.StdioTransport(descriptors, connection)
    connection.connection_made(transport)

    def stop() -> None:
        log.info("asked to stop: finishing")
        connection.close_input()
        transport.hurry(PATIENCE)

    gc.freeze()  # what was imported is never looked through again
    gc.enable()
    gc.set_threshold(20_000)  # a burst of requests makes a thousand objects, none of which is garbage for the collector
    # glibc keeps twice the largest block that was freed: else each page of a megabyte costs a thousand page faults.
    bytes(4 << 20)
    log.info("serving, process %d", os.getpid())
    with _signals(stop):
        transport.start()
        await attend(service, connection)
        if connection.dropped:
            transport.hurry(LAST_WORD)
        await transport.drain()
    transport.close()
    log.info("done, exit code %d", connection.exit_code)
    return connection


async def _reserve_descriptor() -> None:
    """Have libuv open the descriptor that it keeps for the time when there are no more: it does so with its first
    stream, which may come when there are none left."""
    if sys.platform == "win32":
        return
    ours, theirs = socket.socketpair()  # of a pipe uvloop closes the number twice, by when it may be another's
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, theirs)
    transport.close()
    ours.close()


async def attend(service: Callable[[], ServicePort], connection: Connection) -> None:
    """See a connection through to its end, and the service behind it, which has no other, to its own."""
    await connection.finished
    if connection.initialized:
        await service().disconnect(connection)
        connection.ended.set_result(None)
        await service().aclose()


def _log_stray(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception nobody caught, as every other: without its text, which may quote a message."""
    del loop
    error = context.get("exception")
    log.error("an exception nobody caught\n%s", describe(error) if error else context.get("message"))


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Generator[None]:
    """Call `stop` on the event loop when the process is asked to end; later requests of the kind change nothing."""
    loop = asyncio.get_running_loop()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored under `nohup`
        numbers.append(signal.SIGHUP)
    for number in numbers:
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    yield
