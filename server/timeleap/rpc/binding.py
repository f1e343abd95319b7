"""Endpoints of methods: the params, the function, and how it may be treated while it runs.

The protocol object knows endpoints only. Those of the contract's methods are made here from the method table and the
service; those of a connection's life come from `timeleap.rpc.lifecycle`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from timeleap.call import Call, Client

if TYPE_CHECKING:
    from pydantic import BaseModel

    from timeleap_protocol.methods import Method


class ServicePort(Protocol):
    """The service, as far as the protocol edge needs it (`timeleap.service.service.Service`)."""

    async def initialize(self, client: Client, options: dict[str, Any]) -> list[str]:
        """Take a client's `initializationOptions`; returns warnings in words."""
        ...

    def handle(self, method: str, params: BaseModel, call: Call) -> Awaitable[Any]:
        """Do what a request asks for."""
        ...

    async def disconnect(self, client: Client) -> None:
        """Close what a connection opened."""
        ...

    async def aclose(self) -> None:
        """Finish everything."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method that can be called.

    Attributes:
        name: Its wire name.
        accept: Turns raw params into what `run` takes. Called in order of arrival, before anything is awaited; what
            it raises is the reply.
        run: Does the work. Its calls begin in order of arrival.
        shielded: Once begun it cannot be cancelled: its real result is the reply.
        waits: It may take for ever, and its reply is small.
        reports_progress: Whether `$/progress` is sent for a `workDoneToken`.
        changes: Whether it changes something, unless it is a dry run.
    """

    name: str
    accept: Callable[[dict[str, Any]], Any]
    run: Callable[[Any, Call], Awaitable[Any]]
    shielded: bool = False
    waits: bool = False
    reports_progress: bool = False
    changes: bool = False


def endpoints(rows: Mapping[str, Method], service: ServicePort) -> list[Endpoint]:
    """The endpoints of those of `rows` that the service answers: the edge does what has no handler."""
    return [_endpoint(row, service) for row in rows.values() if row.handler is not None]


def _endpoint(row: Method, service: ServicePort) -> Endpoint:
    name = row.name
    model: Any = None

    def accept(params: dict[str, Any]) -> Any:
        nonlocal model
        if model is None:
            model = row.params_model  # loads it: a process pays for the methods it is asked for
        return model.from_wire(params)

    def run(params: Any, call: Call) -> Awaitable[Any]:
        return service.handle(name, params, call)

    return Endpoint(
        name,
        accept,
        run,
        shielded=row.cancel == "unbegun",
        waits=row.waits,
        reports_progress=row.progress,
        changes=row.mutates,
    )
