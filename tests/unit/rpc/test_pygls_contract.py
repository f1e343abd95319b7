"""What we override and call of pygls is as it was in 2.1: an upgrade that changes it fails here, by name."""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
from typing import Any

import pytest
from cattrs import Converter
from pygls.exceptions import JsonRpcMethodNotFound
from pygls.feature_manager import FeatureManager
from pygls.protocol import JsonRPCProtocol
from pygls.server import JsonRPCServer

from timeleap.rpc import protocol

OVERRIDDEN = {
    "structure_message": ["self", "data"],
    "handle_message": ["self", "message"],
    "notify": ["self", "method", "params"],
    "_handle_request": ["self", "msg_id", "method_name", "params"],
    "_handle_notification": ["self", "method_name", "params"],
    "_handle_cancel_notification": ["self", "msg_id"],
    "_handle_response": ["self", "msg_id", "result", "error"],
    "_send_handler_result": ["self", "future", "msg_id"],
    "_send_response": ["self", "msg_id", "result", "error"],
    "_send_data": ["self", "data"],
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


def test_the_server() -> None:
    assert parameters(JsonRPCServer.__init__) == ["self", "protocol_cls", "converter_factory", "max_workers"]
    assert parameters(JsonRPCServer.report_server_error) == ["self", "error", "source"]
    server = JsonRPCServer(JsonRPCProtocol, Converter)
    assert isinstance(server.protocol, JsonRPCProtocol)
    assert server._thread_pool is None, "a connection must not cost a thread pool"


def test_the_registry() -> None:
    assert parameters(FeatureManager.add_builtin_feature) == ["self", "feature_name", "func"]
    rpc = JsonRPCServer(JsonRPCProtocol, Converter).protocol

    async def function() -> None: ...

    handler: Any = function
    rpc.fm.add_builtin_feature("a/b", handler)
    assert rpc._get_handler("a/b") is handler
    with pytest.raises(JsonRpcMethodNotFound):
        rpc._get_handler("c/d")


async def test_the_execution_of_handlers() -> None:
    assert parameters(JsonRPCProtocol._execute_handler) == ["self", "msg_id", "handler", "callback", "args", "kwargs"]
    rpc = JsonRPCServer(JsonRPCProtocol, Converter).protocol
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
