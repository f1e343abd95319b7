"""Attached: what becomes of a session in many windows: forks, deletion, other ids, those who only watch."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mostly_long import mostly_long
from tests.support.scene import Scene, Two, changes, owner_of, scene_at, settle, until
from tests.support.server import Server, runtime_directory
from tests.support.session import Session, user
from tests.wire.operations import OPERATIONS, Operation, prepare

# the life of a session in two windows


def test_a_fork_of_an_attached_session_is_ours(two: Two) -> None:
    prepare(two.owner)
    two.attached.start("context/appendMessage", message=user("just before"))
    pending = two.attached.start("session/fork", checkpointId=1, title="F")
    whole = two.attached.start("session/fork")
    fork = Session(two.attached.server, pending.result())
    assert (fork.state["access"], fork.state["title"]) == ("owner", "F")
    assert fork.get_state()["context"]["nCheckpoints"] == 2
    assert Session(two.attached.server, whole.result()).texts()[-1] == "just before"
    assert owner_of(two.owner.server, fork.id) == two.attached.server.process.pid
    through = fork.reopen(two.owner.server)
    assert through.state["access"] == "attached"
    through.say("x")
    assert fork.texts()[-1] == "x" and two.owner.texts()[-1] == "just before"


def test_archiving_and_back_through_the_owner(two: Two) -> None:
    since = two.since()
    two.attached.call("session/archive")
    assert two.owner.get_state()["archived"] is True
    two.owner.call("session/unarchive")
    assert two.attached.get_state()["archived"] is False
    assert [change["kind"] for change in two.told(since)] == ["archived", "unarchived"]


@pytest.mark.parametrize("by", ["owner", "attached"])
def test_a_session_deleted_by_one_is_gone_for_both(two: Two, by: str) -> None:
    two.owner.say("x")
    deleter = getattr(two, by)
    before = [len(window.server.received) for window in two.both]
    assert deleter.call("session/delete") == {}
    for window, mark in zip(two.both, before, strict=True):
        told = window.server.heard("session/didChange", since=mark, kind="deleted", sessionId=two.owner.id)
        assert told["cause"] == {"client": {"owner": "client-1", "attached": "client-2"}[by]}
    for window in two.both:
        assert window.refuse("context/appendMessage", message=user("y"))["code"] == 4001
        assert window.refuse("session/getState")["code"] == 4001
    two.attached.server.call("session/undelete", sessionId=two.owner.id)
    again = two.owner.reopen(two.attached.server)
    assert (again.state["access"], again.texts()) == ("owner", ["x"])
    assert two.owner.reopen(two.owner.server).state["access"] == "attached"


def test_a_reader_of_a_deleted_session_does_not_see_an_empty_one_or_its_namesake(scene: Scene) -> None:
    owner = scene.window()
    owner.say("x")
    [reader] = scene.servers(1)
    reader.call("session/open", sessionId="s", access="readOnly")
    owner.call("session/delete")
    reader.heard("session/didChange", kind="deleted", sessionId="s")
    assert reader.refuse("context/getHistory", sessionId="s")["code"] == 4001
    assert reader.refuse("session/getState", sessionId="s")["code"] == 4001
    owner.server.call("session/open", sessionId="s")
    assert reader.refuse("context/getHistory", sessionId="s")["code"] == 4013
    assert reader.call("session/open", sessionId="s", access="readOnly")["context"]["messageCount"] == 0


@pytest.mark.parametrize("attach", [True, False])
@pytest.mark.parametrize("meanwhile", ["nothing", "made again", "purged"])
def test_a_reader_hears_of_a_deletion_where_nobody_owns_the_session(scene: Scene, attach: bool, meanwhile: str) -> None:
    deleter, reader = scene.servers(2)
    Session.open(deleter, "s").say("x")
    deleter.call("session/close", sessionId="s")
    state = reader.call("session/open", sessionId="s", access="readOnly", attach=attach)
    since = len(reader.received)
    deleter.call("session/delete", sessionId="s")
    if meanwhile == "made again":
        Session.open(deleter, "s")
    if meanwhile == "purged":
        deleter.call("session/purge", sessionId="s")
    told = reader.heard("session/didChange", since=since, kind="deleted", sessionId="s")
    assert told["cause"] == {}
    refused = reader.refuse("context/getHistory", sessionId="s")
    assert refused["code"] == (4013 if meanwhile == "made again" else 4001)
    assert [change["kind"] for change in changes(Session(reader, state), since)] == ["deleted"]


def test_what_is_not_open_here_but_lives_elsewhere_changes_through_its_owner(scene: Scene) -> None:
    owner, attached = scene.window(), scene.window()
    [third] = scene.servers(1)
    both = Two(owner, attached)
    since = both.since()
    assert third.call("session/archive", sessionId="s")["head"] == owner.head
    assert third.call("session/unarchive", sessionId="s", requestId="r")["head"] == owner.head
    assert [(change["kind"], change["cause"]) for change in both.told(since)] == [
        ("archived", {"client": "client-3"}),
        ("unarchived", {"client": "client-3", "requestId": "r"}),
    ]
    assert third.call("session/repair", sessionId="s")["removedLines"] == 0
    assert third.refuse("context/appendMessage", sessionId="s", message=user("x"))["code"] == 4013
    assert third.call("session/delete", sessionId="s") == {}
    for window in (owner, attached):
        assert window.server.heard("session/didChange", kind="deleted")["cause"] == {"client": "client-3"}
    assert third.call("session/list")["sessions"] == []
    assert third.notifications() == []


def test_what_is_read_without_opening_is_as_the_owner_has_it(scene: Scene) -> None:
    owner = scene.window()
    [other] = scene.servers(1)
    owner.say("x")
    assert other.call("session/getState", sessionId="s") == {**owner.get_state(), "access": "readOnly"}
    assert other.call("session/verify", sessionId="s")["ok"] is True
    assert Session(other, other.call("session/fork", sessionId="s")).texts() == ["x"]


def test_a_foreign_change_is_taken_over_by_whoever_reloads(two: Two) -> None:
    two.owner.say("ours")
    with two.owner.log.open("ab") as log:
        log.write(b'{"role": "user", "content": "foreign"}\n')
    for window in two.both:
        assert window.refuse("context/appendMessage", message=user("x"))["code"] == 4015
    since = two.since()
    state = two.attached.call("session/reload")
    assert (state["access"], state["context"]["messageCount"]) == ("attached", 2)
    assert two.owner.head == state["head"]
    assert [(change["kind"], change["head"]) for change in two.told(since)] == [("external", state["head"])]
    two.attached.say("ours again")
    assert two.owner.texts() == ["ours", "foreign", "ours again"]


def test_closing_here_closes_it_only_here(two: Two) -> None:
    two.attached.call("session/close")
    two.owner.say("x")
    assert two.owner.get_state()["access"] == "owner"
    assert two.attached.refuse("session/close")["code"] == 4013


def test_a_client_that_leaves_disturbs_nobody(scene: Scene) -> None:
    owner, one, other = scene.window(), scene.window(), scene.window()
    since = len(owner.server.received)
    one.say("1")
    assert one.server.finish() == 0
    other.say("2")
    other.server.kill()
    owner.say("3")
    assert owner.texts() == ["1", "2", "3"]
    assert [change["kind"] for change in changes(owner, since)] == ["messagesAppended"] * 3
    owner.call("session/close")
    assert owner_of(owner.server, "s") is None


# ids that differ, because the store is another


@pytest.fixture(scope="module")
def elsewhere(servers: list[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A process on another store."""
    with scene_at(tmp_path_factory.mktemp("elsewhere") / "home") as scene:
        yield scene.servers(1)[0]


@pytest.fixture
def abroad(servers: list[Server], elsewhere: Server) -> Two:
    """A session, opened by path from another store, which has one of the same id."""
    owner = Session.open(servers[0])
    Session.open(elsewhere, owner.id).say("the other one")
    return Two(owner, Session.open(elsewhere, path=str(owner.path), access="write"))


def test_a_session_opened_by_path_is_attached_under_an_id_of_its_own(abroad: Two) -> None:
    owner, attached = abroad.both
    assert attached.state["access"] == "attached" and attached.id != owner.id
    assert attached.get_state() == {**owner.get_state(), "access": "attached", "sessionId": attached.id}
    attached.say("x")
    assert owner.texts() == attached.texts() == ["x"]
    assert Session(attached.server, owner.state).texts() == ["the other one"]
    attached.append(user("y"), requestId="one request")
    assert owner.append(user("y"), requestId="one request")["duplicate"] is True


@pytest.mark.parametrize("operation", mostly_long(OPERATIONS, every=3, first=1), ids=str)
def test_each_window_is_told_under_the_id_it_knows(abroad: Two, operation: Operation) -> None:
    owner, attached = abroad.both
    prepare(attached)
    operation.before(attached)
    settle(abroad.both)
    marks = [len(window.server.received) for window in abroad.both]
    attached.call(operation.method, **operation.params)
    owner.say("and from the owner")
    settle(abroad.both)
    here, there = (changes(window, mark) for window, mark in zip(abroad.both, marks, strict=True))
    assert [{**change, "sessionId": attached.id} for change in here] == there
    assert [change["kind"] for change in here] == [*operation.kinds, "messagesAppended"]
    for message in attached.server.notifications(marks[1]):
        assert message["params"]["sessionId"] == attached.id


def test_errors_about_a_session_opened_by_path_name_it_as_we_know_it(abroad: Two) -> None:
    owner, attached = abroad.both
    for method, params in (
        ("context/revertTo", {"checkpointId": 7}),
        ("context/appendMessage", {"message": user("x"), "expectedHead": "stale"}),
    ):
        here, there = owner.refuse(method, **params), attached.refuse(method, **params)
        assert (there["code"], there["data"]) == (here["code"], here["data"])
    attached.call("session/close")
    assert attached.refuse("session/getState")["code"] == 4001
    assert owner.get_state()["access"] == "owner"


# watchers


def test_a_watcher_hears_everything_and_changes_nothing(two: Two) -> None:
    two.attached.call("session/close")
    watcher = two.owner.reopen(two.attached.server, access="readOnly")
    assert watcher.state == {**two.owner.get_state(), "access": "readOnly"}
    marks = [len(window.server.received) for window in (two.owner, watcher)]
    for operation in OPERATIONS[:6]:
        two.owner.call(operation.method, **operation.params)
    watcher.server.heard("context/didChange", since=marks[1], head=two.owner.head)
    told, seen = changes(two.owner, marks[0]), changes(watcher, marks[1])
    assert seen == told
    assert [change["kind"] for change in told] == [kind for operation in OPERATIONS[:6] for kind in operation.kinds]
    assert watcher.history() == two.owner.history()
    before = two.owner.log.read_bytes()
    for operation in OPERATIONS:
        assert watcher.refuse(operation.method, **operation.params)["code"] == 4004, operation
    assert (two.owner.log.read_bytes(), changes(two.owner, marks[0])) == (before, told)


def test_a_watcher_is_there_before_and_after_the_owner(scene: Scene) -> None:
    first = scene.window()
    first.say("one")
    first.call("session/close")
    [other] = scene.servers(1)
    watcher = Session.open(other, "s", access="readOnly")
    second = scene.window()
    assert second.state["access"] == "owner"
    mark = len(other.received)
    second.say("two")
    assert other.heard("context/didChange", since=mark)["head"] == second.head
    assert watcher.texts() == ["one", "two"]
    until(lambda: rich(watcher, second), saying="the watcher watches through the owner")
    second.server.kill()
    assert watcher.texts() == second_texts(watcher)
    assert (watcher.get_state()["access"], owner_of(other, "s")) == ("readOnly", None)
    third = scene.window()
    assert third.state["access"] == "owner"
    mark = len(other.received)
    third.say("three")
    other.heard("context/didChange", since=mark)
    assert watcher.texts()[-1] == "three" and watcher.head == third.head


def rich(watcher: Session, owner: Session) -> bool:
    """Whether the watcher hears of a change with its kind and cause."""
    mark = len(watcher.server.received)
    result = owner.append(user("seen?"))
    told = watcher.server.heard("context/didChange", since=mark, head=result["head"])
    return bool(told["kind"] == "messagesAppended" and told["cause"])


def second_texts(watcher: Session) -> list[str]:
    """What the log has, from the file."""
    return [line["content"] for line in watcher.lines()]


# nothing of it shows


def test_address_and_token_stay_secret(scene: Scene) -> None:
    env = {"TIMELEAP_LOG_LEVEL": "debug"}
    owner, attached = scene.window(env=env), scene.window(env=env)
    prepare(attached)
    record = json.loads((owner.path / ".context.jsonl.lock").read_bytes())
    endpoint = record["endpoint"]
    assert stat.S_IMODE((owner.path / ".context.jsonl.lock").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(endpoint["address"]).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(endpoint["address"]).parent.stat().st_mode) == 0o700
    assert runtime_directory() in Path(endpoint["address"]).parents
    attached.server.refuse("session/open", sessionId="s", attach=False, access="readOnly")
    attached.server.call("session/list")
    attached.server.call("rpc.discover")
    owner.server.kill()
    settle([attached])
    for window in (owner, attached):
        for secret in (endpoint["token"], endpoint["address"]):
            assert not any(secret.encode() in raw for raw in window.server.raw)
            assert secret not in window.server.stderr()


@pytest.mark.long
def test_an_owner_that_cannot_be_reached_is_named_and_can_be_followed(two: Two) -> None:
    two.attached.call("session/close")
    two.owner.say("x")
    lock = two.owner.path / ".context.jsonl.lock"
    record = json.loads(lock.read_bytes())
    for unusable in ({"problem": "no directory is safe"}, None):
        lock.write_text(json.dumps({**record, "endpoint": unusable}))
        refused = two.attached.server.refuse("session/open", sessionId=two.owner.id)
        assert (refused["code"], refused["data"]["retryable"]) == (4003, True)
        assert refused["data"]["owner"] == {name: record[name] for name in ("pid", "host", "since")}
        follower = two.owner.reopen(two.attached.server, access="readOnly")
        assert follower.texts() == ["x"]
        follower.call("session/close")
    lock.write_text(json.dumps(record))
    assert two.owner.reopen(two.attached.server).state["access"] == "attached"
