"""`initialize`, `rpc.discover` and what is announced."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Framing
from tests.support.matching import A_STRING, at_least, containing
from tests.support.server import Server
from tests.support.session import Session, user

SESSION = ["sessionId"]
MUTATING = [*SESSION, "expectedHead", "requestId"]
PAGE = ["cursor", "limit"]
CONTRACT: dict[str, list[str]] = {
    "session/open": [
        *["sessionId", "path", "create", "access", "attach", "title", "systemPrompt", "workspace", "autoCheckpoint"],
        "requestId",
    ],
    "session/close": SESSION,
    "session/list": [*PAGE, "includeArchived", "query", "workspace"],
    "session/getState": SESSION,
    "session/setYolo": [*MUTATING, "yolo"],
    "session/setAutoApprove": [*MUTATING, "action", "enabled"],
    "session/isApproved": [*SESSION, "action"],
    "session/putSubagent": [*MUTATING, "name", "systemPrompt"],
    "session/removeSubagent": [*MUTATING, "name"],
    "session/setTitle": [*MUTATING, "title"],
    "session/fork": [*SESSION, "checkpointId", "checkpointUid", "newSessionId", "title", "requestId"],
    "session/archive": SESSION,
    "session/unarchive": SESSION,
    "session/delete": SESSION,
    "session/undelete": SESSION,
    "session/listTrash": PAGE,
    "session/reload": SESSION,
    "context/appendMessage": [*MUTATING, "message", "messages"],
    "context/updateTokenCount": [*MUTATING, "tokenCount"],
    "context/listUsage": [*SESSION, *PAGE],
    "context/setSystemPrompt": [*MUTATING, "systemPrompt"],
    "context/checkpoint": [*MUTATING, "label", "addUserMessage"],
    "context/listCheckpoints": [*SESSION, *PAGE, "order", "timelineId"],
    "context/revertTo": [*MUTATING, "checkpointId", "checkpointUid", "messageIndex", "dryRun"],
    "context/clear": [*MUTATING, "keepSystemPrompt", "dryRun"],
    "context/getHistory": [*SESSION, *PAGE, "from", "to", "checkpointUid", "order", "maxBytes", "timelineId"],
    "context/getRecords": [*SESSION, "from", "limit", "timelineId"],
    "context/listTimelines": [*SESSION, *PAGE],
    "context/restoreTimeline": [*MUTATING, "timelineId", "dryRun"],
    "context/undo": [*MUTATING, "steps", "dryRun"],
    "context/redo": [*MUTATING, "steps", "dryRun"],
    "context/compact": [*MUTATING, "maxPreservedMessages", "customInstruction", "summarizer", "summary", "dryRun"],
    "context/prepareCompaction": [*SESSION, "maxPreservedMessages", "customInstruction"],
    "context/sendDMail": [*MUTATING, "checkpointId", "checkpointUid", "message"],
    "context/deliverDMail": [*MUTATING, "dryRun"],
    "context/cancelDMail": MUTATING,
}
NOTIFICATIONS = [
    "context/didChange",
    "session/didChange",
    "session/didRecover",
    "context/compactionSuggested",
    "session/warning",
]
LIMITS = {
    "maxFrameBytes": 64 << 20,
    "maxMessageBytes": 32 << 20,
    "maxDepth": 128,
    "maxInFlight": 1024,
    "maxPage": 1000,
}


def test_the_result_names_server_protocol_methods_notifications_and_limits(
    start_at: StartServer, framing: Framing, home: Any
) -> None:
    server = start_at(home, framing)
    result = server.call("initialize", processId=None, rootUri=None, capabilities={})
    assert result["serverInfo"] == {"name": "timeleap", "version": importlib.metadata.version("timeleap")}
    ours = result["capabilities"]["experimental"]["timeleap"]
    assert ours["protocolVersion"] == 1
    assert ours["limits"] == at_least(LIMITS)
    assert set(NOTIFICATIONS) <= set(ours["notifications"])
    assert "context/summarize" in ours["clientRequests"]
    assert {name: ours["methods"].get(name) for name in CONTRACT} == {
        name: at_least({"params": _includes(params)}) for name, params in CONTRACT.items()
    }


def test_every_announced_method_is_known_and_every_request_without_params_is_answered(server: Server) -> None:
    announced = set(server.hello["capabilities"]["experimental"]["timeleap"]["methods"])
    assert set(CONTRACT) <= announced
    unsupported = server.hello["capabilities"]["experimental"]["timeleap"]["store"]["unsupported"]
    for name in sorted(announced - {"initialize", "shutdown"} - set(unsupported)):
        pending = server.expect(name, f"bare {name}")
        server.send({"jsonrpc": "2.0", "id": pending.id, "method": name})
        reply = pending.reply()
        assert reply.get("error", {}).get("code") in (None, -32602), (name, reply)


def test_discover_returns_an_openrpc_document_of_the_whole_contract(server: Server) -> None:
    document = server.call("rpc.discover")
    assert document["openrpc"] == A_STRING
    assert document["info"] == at_least({"title": A_STRING, "version": A_STRING})
    described = {method["name"]: {param["name"] for param in method["params"]} for method in document["methods"]}
    for name, params in CONTRACT.items():
        assert set(params) <= described[name], name


def test_discover_is_served_before_initialize(start_at: StartServer, framing: Framing, home: Any) -> None:
    server = start_at(home, framing)
    assert server.call("rpc.discover")["openrpc"] == A_STRING


@pytest.mark.parametrize("params", ["missing", None, {}, []])
def test_initialize_needs_no_params(start_at: StartServer, framing: Framing, home: Any, params: Any) -> None:
    server = start_at(home, framing)
    pending = server.expect("initialize", 1)
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    server.send(message if params == "missing" else {**message, "params": params})
    assert pending.result() == at_least({"capabilities": at_least({}), "serverInfo": at_least({"name": "timeleap"})})


def test_ill_typed_client_capabilities_are_ignored(start_at: StartServer, home: Any) -> None:
    server = start_at(home)
    result = server.call(
        "initialize",
        processId=None,
        clientInfo={"name": "odd", "version": "0"},
        capabilities={
            "workspace": 7,
            "textDocument": [1, 2],
            "general": {"positionEncodings": "utf-99"},
            "experimental": {"other": None, "timeleap": {"summarize": "maybe", "unheardOf": [[]]}},
        },
        trace="verbose",
        workspaceFolders=[{"uri": "file:///tmp", "name": "tmp"}],
        locale="tlh",
    )
    assert "capabilities" in result


def test_unknown_initialization_options_do_not_fail(start_at: StartServer, home: Any) -> None:
    server = start_at(home)
    hello = server.initialize(initializationOptions={"maxContextSizes": 7, "durability": "os"})
    (warning,) = hello["capabilities"]["experimental"]["timeleap"]["warnings"]
    assert "maxContextSizes" in warning
    assert server.call("session/open")["budget"] == {
        "maxContextSize": None,
        "reservedContextSize": 50_000,
        "triggerRatio": 0.85,
    }


def test_an_initialization_option_of_the_wrong_type_is_refused_by_name(start_at: StartServer, home: Any) -> None:
    server = start_at(home)
    error = server.refuse("initialize", initializationOptions={"durability": "sometimes"})
    assert error["code"] == -32602
    assert "durability" in error["message"] or any(
        "durability" in problem["loc"] for problem in error["data"]["errors"]
    )
    assert "capabilities" in server.call("initialize")


def test_a_home_of_the_options_that_cannot_be_used_is_a_storage_failure(start_at: StartServer, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("no directory")
    server = start_at(tmp_path / "home")
    error = server.refuse("initialize", initializationOptions={"home": str(tmp_path / "file")})
    assert (error["code"], error["data"]["path"]) == (4005, str(tmp_path / "file"))
    assert error["data"]["retryable"] is False


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_what_was_acknowledged_survives_kill_9_in_both_durabilities(start: StartServer, durability: str) -> None:
    server = start(options={"durability": durability})
    session = Session.open(server, "s")
    pendings = [session.start("context/appendMessage", message=user(str(n))) for n in range(200)]
    pendings[99].result()
    server.kill()
    texts = Session.open(start(), "s").texts()
    assert texts == [str(number) for number in range(len(texts))] and len(texts) >= 100


def test_how_many_messages_a_compaction_keeps_can_be_set(start: StartServer) -> None:
    session = Session.open(start(options={"maxPreservedMessages": 4}))
    session.append(*[user(f"{number} " + "x" * 400) for number in range(10)])
    assert session.call("context/compact", summary="s")["preservedMessages"] == 4


def test_another_protocol_version_is_refused(start_at: StartServer, framing: Framing, home: Any) -> None:
    server = start_at(home, framing)
    error = server.refuse("initialize", capabilities={"experimental": {"timeleap": {"protocolVersion": 2}}})
    assert error["code"] == 4017
    assert server.call("initialize", capabilities={"experimental": {"timeleap": {"protocolVersion": 1}}})


def test_the_home_of_the_options_wins_over_argument_and_environment(start_at: StartServer, tmp_path: Any) -> None:
    server = start_at(tmp_path / "argument", env={"TIMELEAP_HOME": str(tmp_path / "environment")})
    server.initialize(initializationOptions={"home": str(tmp_path / "options")})
    path = server.call("session/open", sessionId="here")["path"]
    assert path.startswith(str(tmp_path / "options"))


def test_the_home_argument_wins_over_the_environment(start_at: StartServer, tmp_path: Any) -> None:
    server = start_at(tmp_path / "argument", env={"TIMELEAP_HOME": str(tmp_path / "environment")})
    server.initialize()
    assert server.call("session/open")["path"].startswith(str(tmp_path / "argument"))


def test_the_environment_names_the_home(start_at: StartServer, tmp_path: Any) -> None:
    server = start_at(tmp_path / "x", env={"TIMELEAP_HOME": str(tmp_path / "environment")}, home_argument=False)
    server.initialize()
    assert server.call("session/open")["path"].startswith(str(tmp_path / "environment"))


def test_options_win_over_environment_and_environment_over_the_file_of_the_home(
    start_at: StartServer, home: Any
) -> None:
    home.mkdir()
    (home / "config.toml").write_text("maxContextSize = 1000\nreservedContextSize = 10\ntriggerRatio = 0.5\n")
    environment = {"TIMELEAP_RESERVED_CONTEXT_SIZE": "20", "TIMELEAP_TRIGGER_RATIO": "0.6"}
    server = start_at(home, env=environment)
    server.initialize(initializationOptions={"triggerRatio": 0.7})
    assert server.call("session/open")["budget"] == {
        "maxContextSize": 1000,
        "reservedContextSize": 20,
        "triggerRatio": 0.7,
    }


def _includes(names: list[str]) -> Any:
    class Superset(list[str]):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, list) and set(self) <= set(other)

        __hash__ = None  # type: ignore[assignment]

    return Superset(names)


def test_an_unknown_param_of_initialize_is_accepted_as_lsp_may_grow(start_at: StartServer, home: Any) -> None:
    server = start_at(home)
    assert server.call("initialize", futureMember={"a": 1}) == at_least({"capabilities": at_least({})})


def test_a_broken_configuration_file_is_reported_and_the_server_lives(start_at: StartServer, home: Any) -> None:
    home.mkdir()
    (home / "config.toml").write_text("maxContextSize = = 7")
    server = start_at(home)
    pending = server.start("initialize")
    reply = pending.reply()
    if "error" in reply:
        assert reply["error"]["message"] == containing("config.toml")
        assert server.start("rpc.discover").result()["openrpc"] == A_STRING
    else:
        assert server.call("session/open")["budget"]["maxContextSize"] is None
