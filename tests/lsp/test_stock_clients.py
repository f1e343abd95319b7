"""pytest-lsp drives the server with stock pygls clients, as any LSP client would: nothing of ours on the other side."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

COMMAND = [sys.executable, "-m", "timeleap", "serve"]


@pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND))
async def editor(lsp_client: LanguageClient, tmp_path: Path) -> AsyncIterator[None]:
    """The stock LSP client, as Visual Studio Code announces itself, handshake done."""
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            root_uri=tmp_path.as_uri(),
            process_id=os.getpid(),
            initialization_options={"home": str(tmp_path / "home")},
        )
    )
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND, client_factory=JsonRPCClient))
async def plain(rpc_client: JsonRPCClient) -> AsyncIterator[None]:
    """The stock JSON-RPC client, nothing said yet."""
    yield
    await rpc_client.protocol.send_request_async("shutdown", None)
    rpc_client.protocol.notify("exit", None)


async def test_a_stock_lsp_client_shakes_hands_and_uses_our_methods(editor: LanguageClient) -> None:
    state = await editor.protocol.send_request_async("session/open", {"sessionId": "s"})
    assert state.sessionId == "s" and state.context.messageCount == 0
    told: list[Any] = []

    @editor.feature("context/didChange")
    def on_change(params: Any) -> None:
        told.append(params)

    result = await editor.protocol.send_request_async(
        "context/appendMessage", {"sessionId": "s", "message": {"role": "user", "content": "hello"}}
    )
    assert (result.firstIndex, result.messageCount) == (0, 1)
    assert [(change.kind, change.firstIndex) for change in told] == [("messagesAppended", 0)]
    page = await editor.protocol.send_request_async("context/getHistory", {"sessionId": "s"})
    assert [entry.message.content for entry in page.messages] == ["hello"]


async def test_errors_reach_it_with_code_message_and_data(editor: LanguageClient) -> None:
    with pytest.raises(JsonRpcException) as caught:
        await editor.protocol.send_request_async("session/getState", {"sessionId": "nobody"})
    assert caught.value.code == 4001
    with pytest.raises(JsonRpcException) as caught:
        await editor.protocol.send_request_async("session/open", {"sesionId": "x"})
    assert caught.value.code == -32602 and "sesionId" in str(caught.value)


async def test_what_editors_send_unasked_does_no_harm(editor: LanguageClient, tmp_path: Path) -> None:
    uri = (tmp_path / "x.py").as_uri()
    editor.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri=uri, language_id="python", version=1, text="x"))
    )
    editor.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings={"a": 1}))
    editor.set_trace(types.SetTraceParams(value=types.TraceValue.Verbose))
    editor.cancel_request(types.CancelParams(id=12345))
    editor.set_trace(types.SetTraceParams(value=types.TraceValue.Off))
    hover = types.HoverParams(text_document=types.TextDocumentIdentifier(uri), position=types.Position(0, 0))
    assert await editor.text_document_hover_async(hover) is None
    with pytest.raises(JsonRpcException) as caught:
        await editor.text_document_definition_async(
            types.DefinitionParams(text_document=types.TextDocumentIdentifier(uri), position=types.Position(0, 0))
        )
    assert caught.value.code == -32601
    assert await editor.protocol.send_request_async("session/list", {})


async def test_its_cancellation_is_understood(editor: LanguageClient) -> None:
    await editor.protocol.send_request_async("session/open", {"sessionId": "s"})
    futures = [
        editor.protocol.send_request(
            "context/appendMessage", {"sessionId": "s", "message": {"role": "user", "content": str(n)}}, msg_id=f"a{n}"
        )
        for n in range(20)
    ]
    for number in range(1, 20, 2):
        editor.cancel_request(types.CancelParams(id=f"a{number}"))
    outcomes = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
    written = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    state = await editor.protocol.send_request_async("session/getState", {"sessionId": "s"})
    assert len(written) >= 10
    assert state.context.messageCount == len(written)


async def test_a_stock_json_rpc_client_speaks_the_whole_story(plain: JsonRPCClient, tmp_path: Path) -> None:
    async def ask(method: str, **params: Any) -> Any:
        return await plain.protocol.send_request_async(method, params or None)

    opened = await ask("initialize", initializationOptions={"home": str(tmp_path / "home")})
    assert opened.serverInfo.name == "timeleap"
    plain.protocol.notify("initialized", {})
    await ask("session/open", sessionId="s", systemPrompt="be kind")
    await ask("context/checkpoint", sessionId="s", label="start")
    for number in range(3):
        await ask("context/appendMessage", sessionId="s", message={"role": "user", "content": str(number)})
    reverted = await ask("context/revertTo", sessionId="s", checkpointId=0)
    assert reverted.removed.messages == 3
    restored = await ask("context/restoreTimeline", sessionId="s", timelineId=reverted.timelineId)
    assert restored.context.messageCount == 3
    compacted = await ask("context/compact", sessionId="s", summary="s", maxPreservedMessages=1)
    assert compacted.compacted in (True, False)
    assert (await ask("session/setYolo", sessionId="s", yolo=True)).approval.yolo is True
    assert len((await ask("session/list")).sessions) == 1


async def test_requests_without_params_are_answered(plain: JsonRPCClient) -> None:
    assert (await plain.protocol.send_request_async("initialize", None)).serverInfo.name == "timeleap"
    assert (await plain.protocol.send_request_async("session/listTrash", None)).sessions is not None
    with pytest.raises(JsonRpcException):
        await plain.protocol.send_request_async("session/getState", None)
