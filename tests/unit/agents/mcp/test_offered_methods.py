"""What a model can bring about: each method of the protocol is for a tool, or was looked at and is for none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from timeleap_agents.mcp import methods
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.secret_masks import SecretMask
from timeleap_agents.mcp.toolbox import Toolbox
from timeleap_client import RawTimeleap
from timeleap_protocol.methods import REQUESTS

EVERYTHING = frozenset(methods.CHANGING)


def opened(tmp_path: Path, *allowed: str) -> OpenedSessions:
    called = methods.callable_with(frozenset(allowed))
    return OpenedSessions(lambda: RawTimeleap(home=tmp_path), called, None, tmp_path, SecretMask())


def test_every_method_of_the_table_is_for_a_tool_or_reviewed() -> None:
    known = methods.callable_with(EVERYTHING) | methods.NEVER
    assert REQUESTS.keys() - known == set(), "new: put it to a tool of timeleap_agents.mcp.methods, or to NEVER"
    assert known - REQUESTS.keys() == set(), "gone from the protocol"


def test_nothing_is_both_offered_and_never_offered() -> None:
    assert not methods.callable_with(EVERYTHING) & methods.NEVER


@pytest.mark.parametrize(
    "words", ["yolo", "approv", "subagent", "redact", "delete", "archive", "import", "export", "prune", "purge"]
)
def test_no_tool_calls_what_is_never_offered(words: str) -> None:
    assert not [name for name in methods.callable_with(EVERYTHING) if words in name.lower()]


def test_without_allow_nothing_is_called_that_changes_a_session() -> None:
    changes = {name for name in methods.callable_with(frozenset()) if REQUESTS[name].mutates}
    assert changes == {methods.OPEN}  # of sessions that are there: see the next test


async def test_a_session_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    toolbox = Toolbox(sessions := opened(tmp_path), frozenset())
    with pytest.raises(Exception, match="no session"):
        await toolbox.call("read_messages", {"session": "nobody"})
    assert await sessions.in_workspace() == []
    await sessions.close()


async def test_what_is_not_offered_is_not_called_whoever_asks(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="context/checkpoint"):
        await opened(tmp_path).call(methods.CHECKPOINT, sessionId="a", label="x")
    with pytest.raises(PermissionError, match="session/delete"):
        await opened(tmp_path, *EVERYTHING).call("session/delete", sessionId="a")


def test_tools_that_change_something_are_there_only_if_allowed(tmp_path: Path) -> None:
    assert Toolbox(opened(tmp_path), frozenset()).tools.keys() == methods.READING.keys()
    allowed = Toolbox(opened(tmp_path), frozenset({"send_note"})).tools
    assert allowed.keys() == {*methods.READING, "send_note"}


def test_the_descriptions_of_all_tools_are_at_most_2500_tokens(tmp_path: Path) -> None:
    tools = Toolbox(opened(tmp_path), EVERYTHING).tools.values()
    told = json.dumps([{"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in tools])
    # At least as many as cl100k makes of it: each sign is one, and each word, with another one for each five letters more.
    words = re.findall(r"[A-Za-z]+|[0-9]{1,3}|[^\sA-Za-z0-9]", told)
    assert sum(1 + (len(word) - 1) // 5 for word in words) <= 2500
