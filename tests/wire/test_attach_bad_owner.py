"""An owner that cannot be trusted, reached, understood or waited for: words, a safe way on, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.local import NOBODY, Answers, Impostor, Knock, Lock, Wire, record_of, trap_of_another_user
from tests.support.matching import A_STRING
from tests.support.scene import Scene, settle, until
from tests.support.server import Message, Pending, Server, runtime_directory
from tests.support.session import Session, user
from tests.support.waits import with_waits

from timeleap.attach import attachment

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="a pipe is no file, and says nothing of users"),
]
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user")

DEBUG = {"TIMELEAP_LOG_LEVEL": "debug"}
SOON = with_waits({(attachment, "PATIENCE"): 0.5})
"""Of servers that look in vain for somebody who answers: they say so after less than five seconds."""


@pytest.fixture
def apart() -> Iterator[Path]:
    """A directory for sockets, not made yet, that no other test uses."""
    above = Path(tempfile.mkdtemp(dir=runtime_directory()))
    yield above / "run"
    shutil.rmtree(above)


def locked(error: Message, pid: int | None) -> str:
    """Fail unless it says, in words, that the session's owner cannot be asked; returns the words."""
    assert (error["code"], error["data"]["retryable"]) == (4003, True), error
    assert (error["data"].get("owner") or {}).get("pid") == pid, error
    assert "readOnly" in error["message"], "it names no way on"
    return str(error["message"])


def opening(server: Server, session_id: str = "s", **params: Any) -> Pending:
    return server.start("session/open", sessionId=session_id, **params)


def follows(server: Server, session_id: str = "s") -> list[str]:
    """What is seen by who only looks; the session is closed again."""
    looking = Session.open(server, session_id, access="readOnly")
    assert looking.state["access"] == "readOnly"
    texts = looking.texts()
    looking.call("session/close")
    return texts


def silent_about(secret: str, *servers: Server) -> None:
    """Fail if one of them told it."""
    for server in servers:
        assert secret not in server.stderr()
        assert not any(secret.encode() in raw for raw in server.raw)


# sockets that are gone, or not what they should be


def test_a_socket_left_by_a_dead_process_is_in_nobodys_way(scene: Scene, apart: Path) -> None:
    env = {"TIMELEAP_RUNTIME_DIR": str(apart)}
    owner = scene.window(env=env)
    owner.say("kept")
    left = Path(record_of(owner.path)["endpoint"]["address"])
    owner.server.kill()
    scene.lost(owner)
    assert left.is_socket(), "the record of the dead still points at it"
    heir = scene.window(env=env)
    assert (heir.state["access"], heir.texts()) == ("owner", ["kept"])
    until(lambda: not left.exists())
    assert [path.name for path in apart.iterdir()] == [Path(record_of(heir.path)["endpoint"]["address"]).name]
    assert scene.window(env=env).texts() == ["kept"]


def test_sockets_of_others_who_live_are_not_swept(scene: Scene, apart: Path) -> None:
    env = {"TIMELEAP_RUNTIME_DIR": str(apart)}
    owner = scene.window(env=env)
    for number in range(2):
        Session.open(scene.servers(1, env=env)[0], f"other-{number}")
    assert len(list(apart.iterdir())) == 3
    assert Session.open(scene.servers(1, env=env)[0], "s").state["access"] == "attached"
    owner.server.finish()
    assert len(list(apart.iterdir())) == 3, "who took over listens, who left does not"


def planted_file(path: Path, spy: Path) -> None:
    path.write_bytes(b"planted")


def planted_link(path: Path, spy: Path) -> None:
    path.symlink_to(spy)


def planted_fifo(path: Path, spy: Path) -> None:
    os.mkfifo(path)


def planted_directory(path: Path, spy: Path) -> None:
    path.mkdir()


def nothing(path: Path, spy: Path) -> None: ...


@pytest.mark.parametrize(
    ("plant", "why"),
    [
        (planted_file, "is no socket"),
        (planted_link, "is a link"),
        (planted_fifo, "is no socket"),
        (planted_directory, "is no socket"),
        (nothing, "cannot be reached"),
    ],
)
def test_what_lies_where_the_socket_should_be_gets_not_a_byte(
    scene: Scene, apart: Path, plant: Callable[[Path, Path], None], why: str
) -> None:
    owner = scene.window(env={**DEBUG, "TIMELEAP_RUNTIME_DIR": str(apart)})
    owner.say("before")
    endpoint = record_of(owner.path)["endpoint"]
    place, aside = Path(endpoint["address"]), apart / "aside"
    with socket.socket(socket.AF_UNIX) as listening:
        spy = apart.parent / "spy.sock"
        listening.bind(str(spy))
        listening.listen()
        listening.setblocking(False)
        place.rename(aside)
        plant(place, spy)
        other = scene.servers(1, env={**DEBUG, **SOON})[0]
        words = locked(opening(other).error(), owner.server.process.pid)
        assert why in words and str(place) not in words
        assert follows(other) == ["before"]
        with pytest.raises(BlockingIOError):
            listening.accept()
    owner.say("meanwhile")
    if plant is planted_directory:
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    aside.rename(place)
    attached = scene.enter(other)
    attached.say("after")
    assert owner.texts() == ["before", "meanwhile", "after"]
    silent_about(endpoint["token"], owner.server, other)
    silent_about(endpoint["address"], owner.server, other)


def test_an_owner_that_ends_leaves_alone_what_was_planted_meanwhile(scene: Scene, apart: Path) -> None:
    owner = scene.window(env={"TIMELEAP_RUNTIME_DIR": str(apart)})
    place = Path(record_of(owner.path)["endpoint"]["address"])
    place.unlink()
    place.write_bytes(b"not yours")
    assert owner.server.finish() == 0
    assert place.read_bytes() == b"not yours"


# runtime directories


def open_to_others(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


def a_link(path: Path) -> None:
    path.with_name("target").mkdir(mode=0o700)
    path.symlink_to("target")


def a_file(path: Path) -> None:
    path.write_bytes(b"")


def anothers(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, NOBODY, NOBODY)


UNSAFE = [
    (open_to_others, "open to other users"),
    (a_link, "is a link"),
    (a_file, "is not a directory"),
    pytest.param(anothers, "belongs to another user", marks=as_root),
]


@pytest.mark.parametrize(("make", "why"), UNSAFE)
def test_an_owner_with_an_unsafe_directory_says_so_and_works(
    scene: Scene, apart: Path, make: Callable[[Path], None], why: str
) -> None:
    make(apart)
    before = apart.lstat()
    owner = scene.window(env={"TIMELEAP_RUNTIME_DIR": str(apart)})
    assert owner.state["access"] == "owner"
    [warning] = [each["message"] for each in owner.state["warnings"] if each["kind"] == "notReachable"]
    assert str(apart) in warning and why in warning and "TIMELEAP_RUNTIME_DIR" in warning
    owner.say("works")
    after = apart.lstat()
    assert (after.st_ino, after.st_mode, after.st_uid) == (before.st_ino, before.st_mode, before.st_uid)
    assert not apart.is_dir() or not list(apart.iterdir())
    other = scene.servers(1, env=SOON)[0]
    assert why in locked(opening(other).error(), owner.server.process.pid)
    assert follows(other) == ["works"]
    owner.server.finish()
    assert scene.enter(other).state["access"] == "owner"


def test_the_next_directory_serves_where_the_first_is_unsafe(scene: Scene, apart: Path) -> None:
    apart.mkdir()
    open_to_others(apart / "timeleap")
    owner = scene.window(env={"XDG_RUNTIME_DIR": str(apart), "TMPDIR": str(apart)})
    assert owner.state["warnings"] == []
    place = Path(record_of(owner.path)["endpoint"]["address"]).parent
    assert place == apart / f"timeleap-{os.geteuid()}"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert scene.window().state["access"] == "attached"


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_who_attaches_does_not_trust_a_directory_that_was_opened_up(scene: Scene, apart: Path, mode: int) -> None:
    owner = scene.window(env={"TIMELEAP_RUNTIME_DIR": str(apart)})
    owner.say("before")
    apart.chmod(mode)
    other = scene.servers(1, env=SOON)[0]
    words = locked(opening(other).error(), owner.server.process.pid)
    assert str(apart) in words and "open to other users" in words
    assert follows(other) == ["before"]
    apart.chmod(0o700)
    attached = scene.enter(other)
    attached.say("after")
    assert owner.texts() == ["before", "after"]


def test_who_attaches_does_not_follow_a_link_to_the_directory(scene: Scene, apart: Path) -> None:
    owner = scene.window(env={"TIMELEAP_RUNTIME_DIR": str(apart)})
    apart.rename(apart.with_name("moved"))
    apart.symlink_to("moved")
    assert "is a link" in locked(opening(scene.servers(1, env=SOON)[0]).error(), owner.server.process.pid)


@as_root
def test_who_attaches_says_nothing_to_another_users_socket(scene: Scene, apart: Path) -> None:
    owner = scene.window(env={"TIMELEAP_RUNTIME_DIR": str(apart)})
    other = scene.servers(1, env=SOON)[0]
    place = Path(record_of(owner.path)["endpoint"]["address"])
    for given_away in (place, apart):
        os.chown(given_away, NOBODY, NOBODY)
        assert "belongs to another user" in locked(opening(other).error(), owner.server.process.pid)
        os.chown(given_away, os.geteuid(), os.getegid())
    assert scene.enter(other).state["access"] == "attached"


@as_root
def test_a_record_that_leads_to_another_users_process_gives_it_nothing(scene: Scene, apart: Path) -> None:
    path = Path(free_sessions(scene, ["s"])["s"]["path"])
    place = apart / "1-01234567.sock"
    above = [apart.parent, apart.parent.parent]
    modes = [stat.S_IMODE(each.stat().st_mode) for each in above]
    for each in above:
        each.chmod(0o711)
    try:
        with trap_of_another_user(place) as trap, Lock(path, **record(address=str(place))):
            other = scene.servers(1, env=SOON)[0]
            assert "another user" in locked(opening(other).error(), os.getpid())
            assert follows(other) == ["s"]
            assert trap.stdout is not None
            assert trap.stdout.readline() == b"b''\n"
    finally:
        for each, mode in zip(above, modes, strict=True):
            each.chmod(mode)
    unharmed(other, ["s"])


# records


def free_sessions(scene: Scene, names: Iterable[str]) -> dict[str, Message]:
    """Sessions that nobody owns, each with its name as its only message; returns their states."""
    maker = scene.servers(1)[0]
    states = {}
    for name in names:
        session = Session.open(maker, name)
        session.say(name)
        states[name] = session.get_state()
    assert maker.finish() == 0
    return states


@contextmanager
def claimed(
    states: Mapping[str, Message], answers: Iterable[Answers], **endpoint: Any
) -> Iterator[dict[str, Impostor]]:
    """An impostor for each session."""
    impostors: dict[str, Impostor] = {}
    try:
        for (name, state), each in zip(states.items(), answers, strict=True):
            impostors[name] = Impostor(Path(state["path"]), each, **endpoint)
        yield impostors
    finally:
        for impostor in impostors.values():
            impostor.vanish()


def unharmed(server: Server, names: Iterable[str]) -> None:
    """Fail unless the sessions are as they were made, and free to be owned."""
    for name in names:
        session = Session.open(server, name)
        assert (session.state["access"], session.texts()) == ("owner", [name])


TOKEN = "e" * 64


def record(**endpoint: Any) -> Message:
    good = {"address": "/nonexistent/1-01234567.sock", "token": TOKEN, "protocolVersion": 1}
    return {"endpoint": {name: value for name, value in {**good, **endpoint}.items() if value is not None}}


ADDRESSES = [
    "/dev/log",
    "/etc/passwd",
    "/",
    "/tmp",
    "relative.sock",
    "~/x.sock",
    "",
    "\0abstract",
    "/tmp/a\0b.sock",
    "/" + "x" * 3000,
    "\\\\.\\pipe\\timeleap-1-0123456789abcdef",
    "\\\\host\\pipe\\timeleap",
    "tcp://127.0.0.1:80",
    "http://example.org/",
]
"""Addresses that lead out of every runtime directory."""

HOPELESS: list[tuple[str, bytes | Message]] = [
    ("address is a number", record(address=1)),
    ("address is null", record(address=[])),
    ("no address", record(address=None)),
    ("no token", record(token=None)),
    ("token is a number", record(token=1)),
    ("token is a list", record(token=["x"])),
]

VAGUE: list[tuple[str, bytes | Message]] = [
    ("empty", b""),
    ("spaces", b" " * 300),
    ("noise", bytes(range(256))),
    ("cut off", b'{"pid": 1, "host": "h", "since": "2026-01-01T00:00:00Z", "mode": "hold", "endpoint": {"addr'),
    ("list", b"[]"),
    ("number", b"1"),
    ("null", b"null"),
    ("string", b'"owner"'),
    ("nested deeply", b"[" * 4000),
    ("huge", b'{"mode": "hold", "x": "' + b"x" * 100_000 + b'"}'),
    ("endpoint is a string", {"endpoint": "/tmp/x.sock"}),
    ("endpoint is a list", {"endpoint": []}),
    ("endpoint is empty but for the version", {"endpoint": {"protocolVersion": 1}}),
    ("no endpoint", {"endpoint": None}),
]


def test_records_that_lead_nowhere_are_refused_in_words(scene: Scene) -> None:
    """All at once: each session has a lock that somebody holds, and a record that is damaged in a way of its own."""
    at_once = dict(HOPELESS)
    later = {f"address {address[:20]!r}": record(address=address) for address in ADDRESSES} | dict(VAGUE)
    records = {f"r-{number}": case for number, case in enumerate({**at_once, **later}.items())}
    states = free_sessions(scene, records)
    with ExitStack() as locks:
        for name, (_, damaged) in records.items():
            whole: dict[str, Any] = {"text": damaged} if isinstance(damaged, bytes) else damaged
            locks.enter_context(Lock(Path(states[name]["path"]), **whole))
        server = scene.servers(1, env=DEBUG)[0]
        pending = {name: opening(server, name) for name in records}
        good = Session.open(server, "good")
        good.say("undisturbed")
        for name, (case, _) in records.items():
            error = pending[name].error()
            assert (error["code"], error["data"]["retryable"]) == (4003, True), (case, error)
            assert "readOnly" in error["message"], case
        order = [records[name][0] for each in server.received for name in records if pending[name].id == each.get("id")]
        assert set(order[: len(at_once)]) == set(at_once), "who knows that it is in vain does not wait"
        for name in records:
            assert follows(server, name) == [name]
    unharmed(server, records)
    silent_about(TOKEN, server)


def test_a_record_that_is_damaged_while_its_owner_lives(scene: Scene) -> None:
    owner = scene.window()
    attached = scene.window()
    lock = owner.path / ".context.jsonl.lock"
    good = lock.read_bytes()
    lock.write_bytes(b"\xff" * len(good))
    other = scene.servers(1, env=SOON)[0]
    locked(opening(other).error(), None)
    attached.say("through the connection there is")
    owner.say("and here")
    assert follows(other) == ["through the connection there is", "and here"]
    lock.write_bytes(good)
    assert scene.enter(other).texts() == ["through the connection there is", "and here"]
    owner.server.finish()
    settle([attached])
    attached.say("later")
    assert attached.texts()[-1] == "later"


def test_an_owner_on_another_machine_is_not_looked_for_on_this_one(scene: Scene) -> None:
    states = free_sessions(scene, ["s"])
    with claimed(states, [{}]) as impostors:
        impostors["s"].become(host="elsewhere.example")
        other = scene.servers(1, env=SOON)[0]
        assert "elsewhere.example" in locked(opening(other).error(), os.getpid())
        assert impostors["s"].heard == []
        assert follows(other) == ["s"]


def test_a_socket_of_another_session_gives_no_way_into_this_one(scene: Scene) -> None:
    """The record of one session points at the owner of another, with that one's token."""
    path = Path(free_sessions(scene, ["s"])["s"]["path"])
    elsewhere = Session.open(scene.servers(1)[0], "elsewhere")
    with Lock(path, endpoint=record_of(elsewhere.path)["endpoint"]):
        other = scene.servers(1, env=SOON)[0]
        locked(opening(other).error(), os.getpid())
        assert follows(other) == ["s"]
    unharmed(other, ["s"])
    assert elsewhere.texts() == []


# other versions


VERSIONS: list[Any] = [2, 0, -1, 1.5, "1", "2", True, [], {}, None]


def test_an_owner_of_another_version_is_told_apart_before_anything_is_said(scene: Scene) -> None:
    states = free_sessions(scene, [f"v-{number}" for number in range(len(VERSIONS))])
    with claimed(states, [{}] * len(VERSIONS)) as impostors:
        other = scene.servers(1)[0]
        for (name, impostor), version in zip(impostors.items(), VERSIONS, strict=True):
            known = {"address": impostor.address, "token": impostor.token}
            impostor.become(endpoint={**known, "protocolVersion": version})
            error = opening(other, name).error()
            assert (error["code"], error["data"]["supported"]) == (4017, [1]), version
            assert "readOnly" in error["message"]
            assert impostor.heard == []
            assert follows(other, name) == [name]
    unharmed(other, states)


def test_an_owner_that_says_only_when_asked_that_it_is_another_version(scene: Scene) -> None:
    def refuse(wire: Wire, message: Message) -> None:
        data = {"kind": "protocolVersion", "retryable": False, "supported": [2]}
        wire.refuse(message, {"code": 4017, "message": "this server speaks protocol version 2, not 1", "data": data})

    states = free_sessions(scene, ["s"])
    with claimed(states, [{"initialize": refuse}]) as impostors:
        other = scene.servers(1)[0]
        error = opening(other).error()
        assert (error["code"], error["data"]["supported"]) == (4017, [2])
        assert [message["method"] for message in impostors["s"].heard] == ["initialize"]
        assert follows(other) == ["s"]


# owners that hang


def test_an_owner_that_is_stopped_is_waited_for_five_seconds(scene: Scene) -> None:
    owner = scene.window(env=DEBUG)
    owner.say("before")
    attached, newcomer = scene.window(env=DEBUG), scene.servers(1, env=DEBUG)[0]
    secret = record_of(owner.path)["endpoint"]["token"]
    owner.server.signal(signal.SIGSTOP)
    try:
        started = time.monotonic()
        asked = attached.start("context/appendMessage", message=user("in doubt"), requestId="r-1")
        unnamed = attached.start("context/appendMessage", message=user("in doubt too"))
        read = attached.start("context/getHistory")
        opened = opening(newcomer)
        errors = [pending.error() for pending in (asked, unnamed, read, opened)]
        took = time.monotonic() - started
        for error in errors:
            locked(error, owner.server.process.pid)
        assert took > 3
        assert errors[0]["data"]["requestId"] == "r-1"
        assert errors[1]["data"]["requestId"] == A_STRING
        assert "requestId" not in errors[2]["data"]
        assert follows(newcomer) == ["before"]
        mark = len(attached.server.received)
    finally:
        owner.server.signal(signal.SIGCONT)
    for text, error in (("in doubt", errors[0]), ("in doubt too", errors[1])):
        attached.call("context/appendMessage", message=user(text), requestId=error["data"]["requestId"])
    assert attached.texts() == owner.texts()
    assert sorted(owner.texts()) == ["before", "in doubt", "in doubt too"]
    assert attached.server.notifications(mark)
    assert scene.enter(newcomer).state["access"] == "attached"
    silent_about(secret, owner.server, attached.server, newcomer)


def test_the_next_request_works_once_the_owner_wakes_up(scene: Scene) -> None:
    owner, attached = scene.window(), scene.window()
    owner.server.signal(signal.SIGSTOP)
    try:
        locked(attached.refuse("context/appendMessage", message=user("x")), owner.server.process.pid)
        locked(attached.refuse("session/getState"), owner.server.process.pid)
    finally:
        owner.server.signal(signal.SIGCONT)
    attached.append(user("awake"))
    assert attached.texts() == owner.texts() == ["awake"], "what was refused was done all the same"


def test_an_owner_that_wakes_up_in_time_is_not_given_up(scene: Scene) -> None:
    owner, attached = scene.window(), scene.window()
    owner.server.signal(signal.SIGSTOP)
    try:
        asked = [attached.start("context/appendMessage", message=user(str(number))) for number in range(5)]
        attached.server.call("rpc.discover")  # behind them: they are on their way to the owner
    finally:
        owner.server.signal(signal.SIGCONT)
    assert [pending.result()["firstIndex"] for pending in asked] == list(range(5))
    assert owner.texts() == attached.texts() == [str(number) for number in range(5)]


def test_an_owner_at_work_for_longer_than_that_is_not_given_up(scene: Scene) -> None:
    owner = scene.window(env={"TIMELEAP_FAILPOINTS": "append.after_write=sleep:6.5"})
    attached = scene.window()
    attached.say("slow, but there")
    assert owner.texts() == ["slow, but there"]


def test_a_stopped_owner_that_is_killed_is_succeeded(scene: Scene) -> None:
    owner, attached = scene.window(), scene.window()
    owner.say("before")
    owner.server.signal(signal.SIGSTOP)
    asked = attached.start("context/appendMessage", message=user("in flight"))
    attached.server.call("rpc.discover")
    owner.server.kill()
    assert asked.result()["firstIndex"] == 1
    assert attached.texts() == ["before", "in flight"]
    assert attached.get_state()["access"] == "owner"


# owners that are none

HONEST: dict[str, Any] = {"initialize": {"capabilities": {}}}


def opens(state: Message) -> dict[str, Any]:
    return {**HONEST, "session/open": state}


def nonsense() -> dict[str, Any]:
    """Owners that get as far as they are connected to, by name."""

    def hang_up(wire: Wire, message: Message) -> None:
        wire.close()

    def half(wire: Wire, message: Message) -> None:
        wire.send_bytes(b'Content-Length: 100\r\n\r\n{"jsonrpc"')
        wire.close()

    def another_id(wire: Wire, message: Message) -> None:
        for number in (99, "1", None, True, 1.5, -1):
            wire.reply({"id": number}, {})

    def asks(wire: Wire, message: Message) -> None:
        for number, method in enumerate(["initialize", "context/summarize", "session/open", "exit", "$/x"]):
            wire.send({"jsonrpc": "2.0", "id": number, "method": method, "params": {"sessionId": "s"}})
        wire.close()

    def error(value: Any) -> Any:
        return lambda wire, message: wire.refuse(message, value)

    http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    return {
        "hangs up": {"connected": hang_up},
        "hangs up when asked": {"initialize": hang_up},
        "hangs up when asked to open": {**HONEST, "session/open": hang_up},
        "half a message": {"initialize": half},
        "HTTP": {"connected": http},
        "HTTP when asked": {"initialize": http},
        "TLS": {"connected": bytes.fromhex("15030100020228") * 10},
        "noise": {"initialize": bytes(range(256)) * 20},
        "a huge header": {"initialize": b"Content-Length: 99999999999999\r\n\r\n{}"},
        "no JSON": {"initialize": b"Content-Length: 2\r\n\r\n{]"},
        "no UTF-8": {"initialize": b'Content-Length: 38\r\n\r\n{"jsonrpc":"2.0","id":1,"result":"\xff\xfe"}'},
        "no object": {"initialize": b"Content-Length: 4\r\n\r\n[{}]"},
        "neither result nor error": {"initialize": b'Content-Length: 24\r\n\r\n{"jsonrpc":"2.0","id":1}'},
        "asks instead": {"initialize": asks},
        "error null": {**HONEST, "session/open": error(None)},
        "error a string": {**HONEST, "session/open": error("x")},
        "error empty": {**HONEST, "session/open": error({})},
        "error without data": {**HONEST, "session/open": error({"code": -32603, "message": "x"})},
        "error with a code of another kind": {**HONEST, "session/open": error({"code": "4001", "message": 1})},
        "turns away": {"initialize": error({"code": -32600, "message": "no", "data": {"kind": "invalidRequest"}})},
        "state null": {**HONEST, "session/open": None},
        "state a list": {**HONEST, "session/open": []},
        "state empty": {**HONEST, "session/open": {}},
        "state a string": {**HONEST, "session/open": "open"},
        "state half": {**HONEST, "session/open": {"sessionId": 1, "head": None}},
        "other ids": {"initialize": another_id},
        "silent": {},
        "silent when asked to open": HONEST,
    }


def test_owners_that_answer_nonsense_or_nothing_are_refused_in_words(scene: Scene) -> None:
    """All at once, each in a session of its own: they delay neither each other nor anybody else."""
    cases = {f"i-{number}": case for number, case in enumerate(nonsense())}
    states = free_sessions(scene, cases)
    server = scene.servers(1, env=DEBUG)[0]
    with claimed(states, nonsense().values()) as impostors:
        pending = {name: opening(server, name) for name in cases}
        silent = pending[next(name for name, case in cases.items() if case == "silent")].id
        good = Session.open(server, "good")
        good.say("undisturbed")
        assert silent not in {each.get("id") for each in server.received}, "others waited for it"
        errors = {cases[name]: each.error() for name, each in pending.items()}
        assert [case for case, error in errors.items() if error["code"] != 4003] == [], errors
        for error in errors.values():
            locked(error, os.getpid())
        for name, impostor in impostors.items():
            asked = {message["method"] for message in impostor.heard if "method" in message}
            assert asked <= {"initialize", "session/open", "$/ping", "$/cancelRequest"}, cases[name]
            assert follows(server, name) == [name]
    unharmed(server, states)
    silent_about("f" * 64, server)


def test_an_owner_that_stops_answering_later(scene: Scene) -> None:
    states = free_sessions(scene, ["s"])
    with claimed(states, [opens(states["s"])]) as impostors:
        attached = scene.window()
        assert attached.state["access"] == "attached"
        started = time.monotonic()
        error = attached.refuse("context/appendMessage", message=user("x"), requestId="r")
        locked(error, os.getpid())
        assert error["data"]["requestId"] == "r"
        assert time.monotonic() - started > 3
        assert "$/ping" in [message["method"] for message in impostors["s"].heard], "nobody asked whether it is there"
    until(lambda: "result" in attached.start("session/getState").reply(), saying="it goes on without the impostor")
    assert attached.call("context/appendMessage", message=user("x"), requestId="r")["firstIndex"] == 1
    assert attached.texts() == ["s", "x"]


BROKEN = {
    "no JSON": b"Content-Length: 3\r\n\r\n{]}",
    "no frame": b"HTTP/1.1 500 Oops\r\n\r\n",
    "neither result nor error": b'Content-Length: 24\r\n\r\n{"jsonrpc":"2.0","id":3}',
    "a last word": b'Content-Length: 65\r\n\r\n{"jsonrpc":"2.0","id":null,"error":{"code":4012,"message":"slow"}}',
    "an odd last word": b'Content-Length: 42\r\n\r\n{"jsonrpc":"2.0","id":null,"error":[1,2] }',
    "no UTF-8": b'Content-Length: 44\r\n\r\n{"jsonrpc":"2.0","id":3,"result":{"x":"\xff\xfe"}}',
}


def test_owners_that_break_the_protocol_later_are_left_and_what_was_asked_happens_once(scene: Scene) -> None:
    states = free_sessions(scene, [f"b-{number}" for number in range(len(BROKEN))])
    answers = [
        {**opens(state), "context/appendMessage": broken}
        for state, broken in zip(states.values(), BROKEN.values(), strict=True)
    ]
    server = scene.servers(1)[0]
    with claimed(states, answers) as impostors:
        windows = [Session.open(server, name) for name in states]
        pending = [window.start("context/appendMessage", message=user("x")) for window in windows]
        for impostor in impostors.values():
            until(lambda heard=impostor.heard: any(each.get("method") == "context/appendMessage" for each in heard))
    for window, asked in zip(windows, pending, strict=True):
        assert asked.result()["firstIndex"] == 1
        assert window.texts() == [window.id, "x"]
        assert window.get_state()["access"] == "owner"


ODD: list[tuple[str, Any]] = [
    ("context/didChange", {}),
    ("context/didChange", {"sessionId": "other", "head": "h", "kind": "messagesAppended"}),
    ("context/didChange", {"sessionId": 1, "head": [], "kind": None}),
    ("context/didChange", [1]),
    ("context/didChange", "x"),
    ("no/such", {"sessionId": "s"}),
    ("exit", {}),
    ("$/progress", {"token": "t", "value": {"kind": "report"}}),
    ("$/progress", []),
    ("$/cancelRequest", {"id": [1]}),
    ("$/cancelRequest", None),
    ("window/logMessage", {"message": "x"}),
]


def test_odd_notifications_of_an_owner_never_break_our_clients_stream(scene: Scene) -> None:
    """The harness checks each message that comes against the protocol."""

    def answer(wire: Wire, message: Message) -> None:
        for method, params in ODD:
            wire.notify(method, params)
        wire.reply(message, {**states["s"], "title": "answered"})

    states = free_sessions(scene, ["s"])
    with claimed(states, [{**opens(states["s"]), "session/getState": answer}]):
        attached = scene.window("ndjson")
        mark = len(attached.server.received)
        assert attached.get_state()["title"] == "answered"
        assert attached.server.notifications(mark) == []


def test_an_owner_that_writes_json_over_several_lines_keeps_to_ours(scene: Scene) -> None:
    def pretty(message: Any) -> bytes:
        body = json.dumps(message, indent=1).encode()
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def answer(wire: Wire, message: Message) -> None:
        wire.send_bytes(pretty({"jsonrpc": "2.0", "method": "session/didChange", "params": change}))
        wire.send_bytes(pretty({"jsonrpc": "2.0", "id": message["id"], "result": states["s"]}))

    states = free_sessions(scene, ["s"])
    head = states["s"]["head"]
    change = {"sessionId": "s", "head": head, "kind": "titleChanged", "cause": {}, "title": "one\ntwo"}
    with claimed(states, [{**opens(states["s"]), "session/getState": answer}]):
        attached = scene.window("ndjson")
        assert attached.get_state()["head"] == head
        assert attached.server.heard("session/didChange", kind="titleChanged")["title"] == "one\ntwo"


def test_many_who_connect_to_a_stopped_owner_do_not_fill_it_up(scene: Scene) -> None:
    owner = scene.window()
    owner.server.signal(signal.SIGSTOP)
    knocking = [Knock(record_of(owner.path)["endpoint"]["address"]) for _ in range(100)]
    try:
        other = scene.servers(1)[0]
        locked(opening(other).error(), owner.server.process.pid)
    finally:
        owner.server.signal(signal.SIGCONT)
        for stranger in knocking:
            stranger.__exit__()
    attached = scene.enter(other)
    attached.say("in")
    assert owner.texts() == ["in"]
