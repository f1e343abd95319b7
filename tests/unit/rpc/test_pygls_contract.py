"""What we override and call of pygls is as it was in 2.1: an upgrade that changes it fails here, by name."""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
from typing import Any, cast

import pytest
from cattrs import Converter
from pygls.protocol import JsonRPCProtocol

from timeleap.rpc import protocol

OVERRIDDEN = {
    "structure_message": ["self", "data"],
    "handle_message": ["self", "message"],
}


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_version_this_was_written_against() -> None:
    assert importlib.metadata.version("pygls").startswith("2.1.")


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_overridden(name: str) -> None:
    assert parameters(getattr(JsonRPCProtocol, name)) == OVERRIDDEN[name]
    assert parameters(getattr(protocol.EdgeProtocol, name))[: len(OVERRIDDEN[name])] == OVERRIDDEN[name]


def test_every_override_is_listed() -> None:
    inherited = {name for name in vars(protocol.EdgeProtocol) if hasattr(JsonRPCProtocol, name)}
    assert {name for name in inherited if not name.startswith("__")} == set(OVERRIDDEN)


def protocol_of_pygls() -> JsonRPCProtocol:
    return JsonRPCProtocol(cast("Any", None), Converter())


def test_a_protocol_can_do_without_a_server() -> None:
    """So a connection costs no thread pool."""
    assert parameters(JsonRPCProtocol.__init__) == ["self", "server", "converter"]
    assert protocol_of_pygls()._server is None


async def test_the_execution_of_handlers() -> None:
    assert parameters(JsonRPCProtocol._execute_handler) == ["self", "msg_id", "handler", "callback", "args", "kwargs"]
    rpc = protocol_of_pygls()
    log: list[Any] = []

    async def handler(number: int) -> None:
        log.append(number)

    for number in range(3):
        rpc._execute_handler(number, handler, log.append, args=(number,))
        assert isinstance(rpc._request_futures[number], asyncio.Task)
    tasks = list(rpc._request_futures.values())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert log == [0, 1, 2, *tasks], "started in order, the callback called with each task"
