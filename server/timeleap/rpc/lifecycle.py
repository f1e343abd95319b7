"""A connection's life: what may be asked when, the handshake, and the watch over the client's process.

`initialize` -> `initialized` -> ... -> `shutdown` -> `exit`, as in LSP. What the client says of itself is taken
leniently (a capability we do not understand is none of our business); what it asks for is judged strictly.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, IntEnum, auto
from typing import Any, Protocol

from timeleap.call import Call, Client
from timeleap.errors import StorageFailureError
from timeleap.failpoints import failpoint
from timeleap.rpc.binding import Endpoint, ServicePort
from timeleap.rpc.errors import RefusedError, refused_value
from timeleap.rpc.protocol import EdgeProtocol
from timeleap.version import __version__
from timeleap_protocol.capabilities import advertised
from timeleap_protocol.errors import MAX_REPORTED, ErrorKind
from timeleap_protocol.limits import PROTOCOL_VERSION
from timeleap_protocol.methods import SERVER_NOTIFICATIONS

log = logging.getLogger(__name__)

INITIALIZE, SHUTDOWN, EXIT, DISCOVER = "initialize", "shutdown", "exit", "rpc.discover"
MAX_STRANGE = 10
"""Unknown notifications that are named in warnings."""
WATCH_INTERVAL = 1.0
"""Seconds between two looks at the client's process."""


class ExitCode(IntEnum):
    """How the process ends. Where several apply, the highest counts."""

    CLEAN = 0
    NO_SHUTDOWN = 1
    USAGE = 2
    STREAM_LOST = 3
    STORAGE_FAILURE = 4
    REQUEST_FAILED = 5
    """With `--fail-on-error`, in the place of CLEAN only."""


class Stage(Enum):
    """How far a connection has come."""

    NEW = auto()
    INITIALIZING = auto()
    READY = auto()
    SHUT_DOWN = auto()


class Host(Client, Protocol):
    """The connection, as far as a lifecycle needs it."""

    def introduced(self, name: str | None, *, can_summarize: bool, wants_approvals: bool) -> None:
        """The client has said who it is, and what it serves."""
        ...

    def about_to_end(self) -> None:
        """Nothing more comes from the client: what may take for ever is not waited for."""
        ...

    def close_input(self, code: ExitCode = ExitCode.CLEAN) -> None:
        """Take nothing more in; finish what was accepted."""
        ...

    def leave(self, code: ExitCode) -> None:
        """The same, and forget what has not begun."""
        ...


class Lifecycle:
    """The state of one connection, and the methods that change it.

    Args:
        host: The connection.
        edge: Its requests.
        service: What is initialised.
    """

    def __init__(self, host: Host, edge: EdgeProtocol, service: ServicePort) -> None:
        self.stage = Stage.NEW
        self._host = host
        self._edge = edge
        self._service = service
        self._watch: asyncio.Task[None] | None = None

    def endpoints(self) -> list[Endpoint]:
        """The methods of a connection's life."""
        return [
            Endpoint(INITIALIZE, self._accept_initialize, self._initialize, shielded=True),
            Endpoint(SHUTDOWN, self._accept_shutdown, self._shutdown, shielded=True),
            Endpoint(DISCOVER, _anything, _discover),
        ]

    def admit(self, method: str) -> None:
        """Refuse a request that cannot be taken now.

        Raises:
            RefusedError: It comes too early, too late, or a second time.
        """
        if self.stage is Stage.READY:
            if method == INITIALIZE:
                raise RefusedError(ErrorKind.INVALID_REQUEST, "initialize was sent before")
        elif self.stage is Stage.SHUT_DOWN:
            raise RefusedError(ErrorKind.INVALID_REQUEST, "after shutdown only exit may follow")
        elif method not in (INITIALIZE, DISCOVER):
            raise RefusedError(ErrorKind.NOT_INITIALIZED, "the first request must be initialize")

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification; unknown ones, and early ones, are ignored as LSP wants it."""
        if method == EXIT:
            shut_down = self.stage is Stage.SHUT_DOWN
            self._host.leave(ExitCode.CLEAN if shut_down else ExitCode.NO_SHUTDOWN)
        elif method == "$/setTrace" and self.stage is Stage.READY:
            self._edge.set_trace(params.get("value"))

    def stop(self) -> None:
        """The connection is over: nobody needs to be watched any more."""
        if self._watch is not None:
            self._watch.cancel()

    def _accept_initialize(self, params: dict[str, Any]) -> Any:
        from timeleap_protocol.lifecycle import InitializeParams

        options = params.get("initializationOptions")
        if options is not None and not isinstance(options, dict):
            message = "initializationOptions must be an object"
            errors = [refused_value(["initializationOptions"], "must be an object", "object_type")]
            raise RefusedError(ErrorKind.INVALID_PARAMS, message, errors=errors)
        known = InitializeParams.from_wire({**params, "initializationOptions": None})
        options = dict(options or {})
        unwanted = _names(options.pop("optOutNotifications", None))
        self.stage = Stage.INITIALIZING
        return known, options, unwanted

    async def _initialize(self, accepted: Any, call: Call) -> dict[str, Any]:
        del call
        params, options, unwanted = accepted
        try:
            version = params.timeleap.protocol_version
            if version not in (None, PROTOCOL_VERSION):
                message = f"this server speaks protocol version {PROTOCOL_VERSION}, not {version}"
                raise RefusedError(ErrorKind.PROTOCOL_VERSION, message, supported=[PROTOCOL_VERSION])
            self._host.introduced(
                params.client_info.name if params.client_info else None,
                can_summarize=bool(params.timeleap.summarize),
                wants_approvals=bool(params.timeleap.approvals),
            )
            self._edge.set_trace(params.trace)
            warnings = await self._service.initialize(self._host, options)
        except BaseException as error:
            self.stage = Stage.NEW
            if isinstance(error, StorageFailureError):
                error.retryable = False  # this server ends, and another one meets the same
                self._host.close_input(ExitCode.STORAGE_FAILURE)
            elif self._host.is_peer:
                self._host.close_input()
            raise
        self.stage = Stage.READY
        self._edge.unwanted = unwanted
        strange = sorted(unwanted - SERVER_NOTIFICATIONS.keys())
        warnings += [f"optOutNotifications: there is no notification {name[:100]!r}" for name in strange[:MAX_STRANGE]]
        for warning in warnings:
            log.warning("%s", warning)
        if params.process_id is not None and params.process_id > 0:
            self._watch = asyncio.create_task(self._watch_over(params.process_id))
        return initialize_result(warnings)

    def _accept_shutdown(self, params: dict[str, Any]) -> None:
        del params
        self.stage = Stage.SHUT_DOWN
        self._host.about_to_end()

    async def _shutdown(self, accepted: None, call: Call) -> None:
        del accepted, call
        await self._edge.others_done()

    async def _watch_over(self, process_id: int) -> None:
        """Finish when the process that started us is no more: its end of our input may live on in a child of its."""
        import psutil

        try:
            process = psutil.Process(process_id)  # knows its start time: a successor under the same id is another one
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                failpoint("watch.look")
                await asyncio.sleep(WATCH_INTERVAL)
        except psutil.NoSuchProcess:
            pass
        except psutil.Error as error:
            log.warning("cannot watch the client's process: %s", type(error).__qualname__)
            return
        log.warning("the client's process %d is gone: finishing", process_id)
        self._host.close_input()


def initialize_result(warnings: list[str]) -> dict[str, Any]:
    """The result of `initialize`: what the method table announces, and what was odd about the client's options."""
    timeleap = advertised()
    if warnings:
        timeleap["warnings"] = warnings
    return {
        "capabilities": {"experimental": {"timeleap": timeleap}},
        "serverInfo": {"name": "timeleap", "version": __version__},
    }


def _names(value: Any) -> frozenset[str]:
    """`optOutNotifications`.

    Raises:
        RefusedError: It is no list of names.
    """
    where: list[str | int] = ["initializationOptions", "optOutNotifications"]
    if value is None:
        return frozenset()
    problems = [refused_value(where, "must be a list of strings", "list_type")]
    if isinstance(value, list):
        places = [place for place, name in enumerate(value) if not isinstance(name, str)]
        problems = [
            refused_value([*where, place], "must be a string", "string_type") for place in places[:MAX_REPORTED]
        ]
    if problems:
        message = "initializationOptions.optOutNotifications must be a list of strings"
        raise RefusedError(ErrorKind.INVALID_PARAMS, message, errors=problems)
    return frozenset(value)


def _anything(params: dict[str, Any]) -> None:
    del params


async def _discover(accepted: None, call: Call) -> Any:
    del accepted, call
    from timeleap_protocol.generate.openrpc import openrpc_document

    return openrpc_document()
