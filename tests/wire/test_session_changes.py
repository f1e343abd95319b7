"""`session/fork`, `session/archive`, trash, titles, sub-agents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.matching import A_BOOL, A_STRING, HEAD, TIME, at_least
from tests.support.server import Server
from tests.support.session import Session, user

# fork


@pytest.fixture
def told(session: Session) -> Session:
    session.call("context/setSystemPrompt", systemPrompt="p")
    for number in range(3):
        session.checkpoint(label=str(number))
        session.say(f"m{number}")
    return session


def info(server: Server, session_id: str) -> dict[str, Any]:
    listed = server.call("session/list", limit=1000, includeArchived=True)["sessions"]
    (found,) = (entry for entry in listed if entry["sessionId"] == session_id)
    return dict(found)


def test_a_fork_is_a_session_of_its_own_open_and_complete(told: Session, server: Server) -> None:
    before = told.log.read_bytes()
    state = told.call("session/fork", title="branch")
    assert state == {
        **told.get_state(),
        "sessionId": A_STRING,
        "title": "branch",
        "path": A_STRING,
        "head": HEAD,
        "access": "owner",
        "approval": {"yolo": False, "afk": False, "autoApproveActions": [], "sealed": A_BOOL},
    }
    fork = Session(server, state)
    assert fork.id != told.id and fork.texts() == ["m0", "m1", "m2"]
    fork.say("only in the fork")
    assert told.texts() == ["m0", "m1", "m2"] and told.log.read_bytes() == before
    assert info(server, fork.id)["parent"] == {"sessionId": told.id}


@pytest.mark.parametrize("by", ["checkpointId", "checkpointUid"])
def test_a_fork_at_a_checkpoint_ends_with_that_record(told: Session, server: Server, by: str) -> None:
    checkpoint = told.get_state()["context"]["checkpoints"][1]
    chosen = {by: checkpoint["id" if by == "checkpointId" else "uid"]}
    fork = Session(server, told.call("session/fork", **chosen))
    assert fork.texts() == ["m0"]
    assert [(line["role"], line.get("id")) for line in fork.lines()][-1] == ("_checkpoint", 1)
    assert fork.get_state()["context"] == at_least({"nCheckpoints": 2, "systemPrompt": "p", "timelines": 0})
    assert fork.get_state()["context"]["checkpoints"][1]["label"] == "1"
    assert info(server, fork.id)["parent"] == {"sessionId": told.id, "checkpointUid": checkpoint["uid"]}


def test_a_fork_of_a_timeline_brings_back_what_a_revert_took(told: Session, server: Server) -> None:
    checkpoint = told.get_state()["context"]["checkpoints"][1]
    timeline = told.call("context/revertTo", checkpointId=0)["timelineId"]
    fork = Session(server, told.call("session/fork", timelineId=timeline))
    assert fork.texts() == ["m0", "m1", "m2"]
    part = Session(server, told.call("session/fork", timelineId=timeline, checkpointUid=checkpoint["uid"]))
    assert part.texts() == ["m0"]
    assert info(server, part.id)["parent"] == {"sessionId": told.id, "checkpointUid": checkpoint["uid"]}
    assert told.texts() == []
    assert told.refuse("session/fork", timelineId="context_99")["code"] == 4009


def ids(server: Server) -> list[str]:
    return sorted(session["sessionId"] for session in server.call("session/list", limit=1000)["sessions"])


def test_a_fork_can_be_asked_for_at_a_head_only(told: Session, server: Server) -> None:
    before = ids(server)
    stale = told.head
    told.say("more")
    error = told.refuse("session/fork", expectedHead=stale, requestId="f")
    assert (error["code"], error["data"]["head"]) == (-32801, told.head)
    assert ids(server) == before
    forked = told.call("session/fork", expectedHead=told.head, requestId="f")
    told.say("and more")
    again = told.call("session/fork", expectedHead=stale, requestId="f")
    assert (again["sessionId"], again["duplicate"]) == (forked["sessionId"], True)
    told.call("session/close")
    assert server.refuse("session/fork", sessionId=told.id, expectedHead=stale)["code"] == -32801


def test_a_fork_takes_the_id_it_is_given_or_says_it_is_taken(told: Session, server: Server) -> None:
    name = f"{told.id}-fork"[:60]
    assert told.call("session/fork", newSessionId=name)["sessionId"] == name
    for taken in (name, told.id):
        error = told.refuse("session/fork", newSessionId=taken)
        assert (error["code"], error["data"]["kind"]) == (4016, "sessionExists")


@pytest.mark.parametrize("params", [{"checkpointId": 3}, {"checkpointId": -1}, {"checkpointUid": "x"}])
def test_a_fork_at_an_unknown_checkpoint_makes_nothing(told: Session, server: Server, params: dict[str, Any]) -> None:
    before = ids(server)
    assert told.refuse("session/fork", **params)["code"] == 4002
    assert ids(server) == before


def test_a_session_that_is_not_open_can_be_forked(told: Session, server: Server) -> None:
    told.call("session/close")
    fork = Session(server, server.call("session/fork", sessionId=told.id))
    assert fork.texts() == ["m0", "m1", "m2"]
    assert told.refuse("context/getHistory")["code"] == 4013
    assert server.refuse("session/fork", sessionId="nobody-here")["code"] == 4001


def test_a_fork_has_no_pending_note_and_no_timelines_of_its_parent(told: Session, server: Server) -> None:
    told.call("context/sendDMail", checkpointId=1, message="x")
    told.call("context/revertTo", checkpointId=2)
    fork = told.call("session/fork")
    assert fork["context"]["timelines"] == 0
    assert Session(server, fork).timelines() == []


# archive


def test_archiving_leaves_the_head_and_can_be_undone(told: Session, server: Server) -> None:
    head = told.head
    assert told.call("session/archive") == {"head": head}
    assert told.get_state()["archived"] is True
    assert json.loads((told.path / "state.json").read_text())["archived"] is True
    assert told.call("session/unarchive") == {"head": head}
    assert told.get_state()["archived"] is False


def test_a_session_that_is_not_open_can_be_archived(told: Session, server: Server) -> None:
    told.call("session/close")
    assert server.call("session/archive", sessionId=told.id) == {"head": HEAD}
    assert info(server, told.id)["archived"] is True
    server.call("session/unarchive", sessionId=told.id)
    assert info(server, told.id)["archived"] is False
    assert told.refuse("context/getHistory")["code"] == 4013


def test_an_archived_session_still_works(told: Session) -> None:
    told.call("session/archive")
    told.say("more")
    assert told.texts()[-1] == "more" and told.get_state()["archived"] is True


def test_what_is_not_there_cannot_be_archived(server: Server) -> None:
    for method in ("session/archive", "session/unarchive", "session/delete", "session/undelete"):
        assert server.refuse(method, sessionId="nobody-here")["code"] == 4001, method


# trash


def test_a_deleted_session_goes_to_the_trash_whole_and_comes_back(told: Session, server: Server) -> None:
    told.call("session/close")
    before = told.log.read_bytes()
    assert server.call("session/delete", sessionId=told.id) == {}
    assert not told.path.exists()
    assert server.refuse("session/getState", sessionId=told.id)["code"] == 4001
    (entry,) = (e for e in server.call("session/listTrash")["sessions"] if e["sessionId"] == told.id)
    assert entry == at_least({"sessionId": told.id, "deletedAt": TIME, "messageCount": 3, "archived": False})
    assert server.call("session/undelete", sessionId=told.id) == {}
    assert told.log.read_bytes() == before
    assert told.reopen(server).texts() == ["m0", "m1", "m2"]
    assert told.id not in [e["sessionId"] for e in server.call("session/listTrash")["sessions"]]


def test_an_open_session_that_is_deleted_is_not_open_any_more(told: Session) -> None:
    path = told.path
    told.call("session/delete")
    assert told.refuse("context/appendMessage", message=user("x"))["code"] in (4001, 4013)
    assert not path.exists()


def test_its_id_is_free_again_and_undelete_takes_the_newest(start: StartServer) -> None:
    server = start()
    for number in range(3):
        session = Session.open(server, "again")
        assert session.texts() == []
        session.say(f"life {number}")
        server.call("session/delete", sessionId="again")
    assert [entry["sessionId"] for entry in server.call("session/listTrash")["sessions"]] == ["again"] * 3
    Session.open(server, "again").say("taken")
    error = server.refuse("session/undelete", sessionId="again")
    assert (error["code"], error["data"]["kind"]) == (4016, "sessionExists")
    assert Session.open(server, "again").texts() == ["taken"]
    server.call("session/delete", sessionId="again")
    for expected in ("taken", "life 2", "life 1"):
        server.call("session/undelete", sessionId="again")
        assert Session.open(server, "again").texts() == [expected]
        server.call("session/close", sessionId="again")
        (server.home / "sessions" / "again").rename(server.home / f"aside-{expected.replace(' ', '-')}")


def test_the_trash_is_listed_by_pages(start: StartServer) -> None:
    server = start()
    for number in range(5):
        Session.open(server, f"s{number}")
        server.call("session/delete", sessionId=f"s{number}")
    page = server.call("session/listTrash", limit=2)
    found = [entry["sessionId"] for entry in page["sessions"]]
    while "nextCursor" in page:
        page = server.call("session/listTrash", limit=2, cursor=page["nextCursor"])
        found += [entry["sessionId"] for entry in page["sessions"]]
    assert found == ["s4", "s3", "s2", "s1", "s0"]


def test_a_session_open_elsewhere_is_deleted_by_its_owner(start: StartServer) -> None:
    first, second = start(), start()
    session = Session.open(first, "s")
    session.say("x")
    before = len(first.received)
    assert second.call("session/delete", sessionId="s") == {}
    assert first.heard("session/didChange", since=before, kind="deleted")["sessionId"] == "s"
    assert first.refuse("session/getState", sessionId="s")["code"] == 4001
    second.call("session/undelete", sessionId="s")
    assert Session.open(first, "s").texts() == ["x"]


# titles and sub-agents


def test_a_title_is_set_where_the_original_finds_it(session: Session) -> None:
    head = session.head
    assert session.call("session/setTitle", title="Ünïcode ✓") == {"head": head}
    assert session.get_state()["title"] == "Ünïcode ✓"
    assert json.loads((session.path / "state.json").read_text())["custom_title"] == "Ünïcode ✓"


@pytest.mark.parametrize("title", [None, 1, []])
def test_a_title_is_text(session: Session, title: Any) -> None:
    assert session.refuse("session/setTitle", title=title)["code"] == -32602


def test_sub_agents_are_put_replaced_and_removed(session: Session) -> None:
    head = session.head
    first = session.call("session/putSubagent", name="reviewer", systemPrompt="review")
    assert first == {"head": head, "dynamicSubagents": [{"name": "reviewer", "systemPrompt": "review"}]}
    session.call("session/putSubagent", name="a", systemPrompt="x")
    both = session.call("session/putSubagent", name="reviewer", systemPrompt="review better")["dynamicSubagents"]
    assert both == [{"name": "reviewer", "systemPrompt": "review better"}, {"name": "a", "systemPrompt": "x"}]
    assert session.get_state()["dynamicSubagents"] == both
    assert session.call("session/removeSubagent", name="reviewer") == {"head": head, "dynamicSubagents": both[1:]}


def test_removing_a_sub_agent_that_is_not_there(session: Session) -> None:
    reply = session.start("session/removeSubagent", name="nobody").reply()
    assert reply.get("result", {}).get("dynamicSubagents", []) == []
    assert reply.get("error", {}).get("code", -32602) == -32602


@pytest.mark.parametrize("params", [{"name": "", "systemPrompt": "x"}, {"name": "a"}, {"name": 1, "systemPrompt": "x"}])
def test_a_sub_agent_needs_name_and_prompt(session: Session, params: dict[str, Any]) -> None:
    assert session.refuse("session/putSubagent", **params)["code"] == -32602
    assert session.get_state()["dynamicSubagents"] == []


def test_sub_agents_and_titles_survive_a_restart_and_a_loss_of_state_json(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.call("session/putSubagent", name="n", systemPrompt="p" * 10_000)
    session.call("session/setTitle", title="T")
    first.kill()
    state = start().call("session/open", sessionId="s")
    assert (state["title"], state["dynamicSubagents"]) == ("T", [{"name": "n", "systemPrompt": "p" * 10_000}])


def test_a_state_file_keeps_fields_that_are_not_ours(start: StartServer) -> None:
    first = start()
    session = Session.open(first, "s")
    session.call("session/close")
    state = json.loads(session.file_bytes("state.json") or b'{"version": 1}')
    state |= {
        "plan_mode": True,
        "additional_dirs": ["/x"],
        "todos": [{"title": "t", "status": "pending"}],
        "later": None,
    }
    session.put_file("state.json", json.dumps(state).encode())
    again = session.reopen(first)
    again.call("session/setTitle", title="T")
    again.call("session/setYolo", yolo=True)
    again.call("session/archive")
    kept = json.loads(again.file_bytes("state.json"))
    assert {name: kept[name] for name in ("plan_mode", "additional_dirs", "todos", "later")} == {
        name: state[name] for name in ("plan_mode", "additional_dirs", "todos", "later")
    }
