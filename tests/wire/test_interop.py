"""Over the wire and back: the released original restores every session our server wrote, and we open what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import original
from tests.interop.original import Original, State
from tests.support.fixtures import StartServer
from tests.support.mostly_long import mostly_long
from tests.support.server import Launch, Server
from tests.support.session import Session, assistant, user
from tests.wire.operations import OPERATIONS, Operation, prepare

__all__ = ["original"]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

CALL = {"type": "function", "id": "c1", "function": {"name": "read", "arguments": '{"path":"a"}'}}
RICH: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
    },
    {
        "role": "assistant",
        "content": [{"type": "think", "think": "hm", "encrypted": "e"}, {"type": "text", "text": "so"}],
    },
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "日本語 😀 \u2028\u0085 \u0000 x", "tool_call_id": "c1"},
    {"role": "user", "content": "named", "name": "ada"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(Launch(tmp_path_factory.mktemp("interop") / "home", "lsp"))
    running.initialize()
    yield running
    running.dispose()


def normal(message: dict[str, Any]) -> dict[str, Any]:
    """A message in one of its equivalent spellings: parts, no nulls, nothing of ours."""
    content = message.get("content", "")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kept = {name: value for name, value in message.items() if value is not None and name != "content"}
    return {**kept, "content": [without_nulls(part) for part in parts or [] if part != {"type": "text", "text": ""}]}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return value


def ours(session: Session) -> State:
    """What the wire says, in the terms of the original."""
    context = session.get_state()["context"]
    return State(
        history=[normal(message) for message in session.history()],
        token_count=context["tokenCount"],
        token_count_with_pending=context["tokenCountWithPending"],
        n_checkpoints=context["nCheckpoints"],
        system_prompt=context["systemPrompt"],
    )


def theirs(original: Original, log: Path) -> State:
    """What the original makes of a log."""
    state = original.restore(log)
    return State(
        [normal(message) for message in state.history],
        state.token_count,
        state.token_count_with_pending,
        state.n_checkpoints,
        state.system_prompt,
    )


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=2), ids=str)
def test_the_original_restores_what_we_wrote_after_every_operation(
    server: Server, original: Original, operation: Operation
) -> None:
    session = Session.open(server)
    prepare(session)
    session.append(*RICH)
    operation.before(session)
    assert theirs(original, session.log) == ours(session)
    session.call(operation.method, **operation.params, requestId="r")
    assert theirs(original, session.log) == ours(session)
    session.say("and on")
    session.checkpoint(addUserMessage=True)
    assert theirs(original, session.log) == ours(session)


def test_the_original_restores_every_timeline_a_fork_and_a_new_session(server: Server, original: Original) -> None:
    session = Session.open(server, systemPrompt="p", autoCheckpoint="turn")
    prepare(session)
    session.append(*RICH)
    session.call("context/compact", summary="s")
    session.call("context/clear")
    for timeline in session.timelines():
        state = theirs(original, session.path / timeline["file"])
        assert len(state.history) == timeline["messageCount"]
        assert state.history == [normal(m) for m in session.history(timelineId=timeline["timelineId"])]
    session.call("context/restoreTimeline", timelineId="context_1")
    fork = Session(server, session.call("session/fork", checkpointId=1))
    assert theirs(original, fork.log) == ours(fork)


def test_the_original_restores_what_is_redacted_noted_imported_and_forked_from_a_timeline(
    server: Server, original: Original, tmp_path: Path
) -> None:
    session = Session.open(server, systemPrompt="p")
    prepare(session)
    session.append(*RICH)
    timeline = session.call("context/revertTo", checkpointId=1)["timelineId"]
    elsewhere = Session(server, session.call("session/fork", timelineId=timeline))
    session.call("context/sendDMail", message="all green", fromSessionId="tests")
    assert session.call("session/redact", value="look", replacement="*")["redacted"]
    archive = tmp_path / "session.zip"
    session.call("session/export", format="native", path=str(archive))
    taken_in = Session(server, server.call("session/import", path=str(archive)))
    for one in (session, elsewhere, taken_in):
        assert theirs(original, one.log) == ours(one)
    assert ours(taken_in) == ours(session)
    assert len(ours(elsewhere).history) > len(ours(session).history)


def test_the_original_goes_on_where_we_stopped_and_we_where_it_stopped(server: Server, original: Original) -> None:
    session = Session.open(server)
    prepare(session)
    session.append(*RICH)
    session.call("session/close")
    original.perform(
        session.log,
        [
            ("restore", None),
            ("append", [user("from the original")]),
            ("checkpoint", True),
            ("append", [assistant("a"), assistant("b")]),
            ("usage", 321),
        ],
    )
    again = session.reopen(server)
    assert again.history()[-2:] == [assistant("a"), assistant("b")]
    assert again.get_state()["context"]["tokenCount"] == 321
    assert theirs(original, session.log) == ours(again)
    last = again.get_state()["context"]["nCheckpoints"] - 1
    again.call("context/revertTo", checkpointId=last)
    assert again.history()[-1]["content"] == "from the original"
    assert theirs(original, session.log) == ours(again)


def test_the_original_reverts_our_log_and_we_open_what_is_left(server: Server, original: Original) -> None:
    session = Session.open(server)
    prepare(session)
    uids = [checkpoint["uid"] for checkpoint in session.get_state()["context"]["checkpoints"]]
    session.append(user("a"), user("b"))
    session.call("session/close")
    original.perform(session.log, [("restore", None), ("revert", 1)])
    again = session.reopen(server)
    assert theirs(original, session.log) == ours(again)
    assert [c["uid"] for c in again.get_state()["context"]["checkpoints"]] == uids[:1]
    assert again.state["context"]["timelines"] == 2


def test_what_the_original_wrote_opens_here_by_path(start: StartServer, original: Original, tmp_path: Path) -> None:
    directory = tmp_path / "0b1c9f27"
    directory.mkdir()
    log = directory / "context.jsonl"
    expected = original.perform(
        log,
        [
            ("prompt", "be kind"),
            ("checkpoint", False),
            ("append", RICH[:1]),
            ("append", RICH[1:]),
            ("usage", 99),
            ("checkpoint", True),
            ("append", [user("x" * 1001)]),
        ],
    )
    data = log.read_bytes()
    session = Session.open(start(), path=str(directory))
    assert (session.state["sessionId"], session.state["access"]) == ("0b1c9f27", "readOnly")
    assert ours(session) == theirs(original, log)
    assert ours(session).n_checkpoints == expected.n_checkpoints == 2
    assert log.read_bytes() == data
    assert [path.name for path in directory.iterdir()] == ["context.jsonl"]


def test_state_files_are_understood_on_both_sides(server: Server, original: Original, tmp_path: Path) -> None:
    session = Session.open(server)
    session.call("session/setTitle", title="Ünï")
    session.call("session/setYolo", yolo=True)
    session.call("session/setAutoApprove", action="run", enabled=True)
    session.call("session/archive")
    state = original.load_state(session.path)
    assert (state["custom_title"], state["archived"]) == ("Ünï", True)
    assert (state["approval"]["yolo"], list(state["approval"]["auto_approve_actions"])) == (True, ["run"])
    state["todos"] = [{"title": "t", "status": "pending"}]
    state["custom_title"] = "theirs"
    session.call("session/close")
    original.save_state(session.path, state)
    again = session.reopen(server)
    assert again.state["title"] == "theirs"


def test_a_real_session_through_the_wire_is_the_same_to_the_original(
    server: Server, original: Original, session_file: Path, tmp_path: Path
) -> None:
    directory = tmp_path / session_file.stem[:60]
    directory.mkdir()
    (directory / "context.jsonl").write_bytes(session_file.read_bytes())
    session = Session.open(server, path=str(directory), access="write")
    assert theirs(original, session.log) == ours(session)
    count = session.get_state()["context"]["nCheckpoints"]
    session.call("context/revertTo", checkpointId=count // 2)
    assert theirs(original, session.log) == ours(session)
    session.call("context/restoreTimeline", timelineId="context_1")
    assert session.log.read_bytes() == session_file.read_bytes()
    session.call("context/compact", maxPreservedMessages=3)
    assert theirs(original, session.log) == ours(session)


def test_the_original_opens_a_session_with_messages_that_came_without_content(
    server: Server, original: Original
) -> None:
    session = Session.open(server)
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    sent = [
        user("go"),
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    session.append(*sent)
    session.call("context/appendMessage", message=sent[1])
    assert [one["role"] for one in theirs(original, session.log).history] == ["user", "assistant", "tool", "assistant"]
    session.call("session/close")
    original.perform(session.log, [("restore", None), ("checkpoint", False), ("append", [user("on")]), ("revert", 0)])
    assert session.reopen(server).history() == [*sent, sent[1]]
