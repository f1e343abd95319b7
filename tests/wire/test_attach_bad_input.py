"""Whatever comes to an owner's socket, or stands in its place: words, nothing executed, and the next good request works."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.framing import dumps, frame, loads
from tests.support.local import Knock, as_another_user, record_of
from tests.support.scene import Scene, scene_at, until
from tests.support.session import Session, user

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="a pipe is no file, and says nothing of users")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user")

REFUSED = -32600


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """An owner for all tests of this module that leave it as it was."""
    with scene_at(tmp_path_factory.mktemp("door") / "home") as scene:
        scene.window(env={"TIMELEAP_LOG_LEVEL": "debug"}).say("before")
        yield scene


@pytest.fixture
def owner(shared: Scene) -> Iterator[Session]:
    """The owner; at the end, nothing was executed, nobody was told the secret, and everybody can still come in."""
    owner = shared.windows[0]
    before, sessions, log = owner.get_state(), owner.server.call("session/list"), owner.log.read_bytes()
    yield owner
    assert owner.get_state() == before
    assert owner.server.call("session/list") == sessions
    assert owner.log.read_bytes() == log
    assert token(owner) not in owner.server.stderr()
    with Knock(address(owner)) as good:
        reply = loads(good.say(line(hello(token(owner)))).end().answer().splitlines()[0])
    assert reply["result"]["serverInfo"]["name"] == "timeleap"


def address(session: Session) -> str:
    return str(record_of(session.path)["endpoint"]["address"])


def token(session: Session) -> str:
    return str(record_of(session.path)["endpoint"]["token"])


def line(*messages: Any) -> bytes:
    return b"".join(frame(dumps(message), "ndjson") for message in messages)


def request(method: str, id: int | str = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def hello(shown: Any, **params: Any) -> dict[str, Any]:
    return request("initialize", initializationOptions={"token": shown}, **params)


def append(session: Session) -> dict[str, Any]:
    return request("context/appendMessage", 3, sessionId=session.id, message=user("smuggled"))


def turned_away(answer: bytes, id: int | str | None = None) -> str:
    """Fail unless it is one error in one line, and the end; returns its message."""
    assert answer.count(b"\n") == 1 and answer.endswith(b"\n"), answer
    reply = loads(answer)
    error = reply["error"]
    assert (reply["id"], error["code"], error["data"]["kind"]) == (id, REFUSED, "invalidRequest")
    assert error["message"]
    return str(error["message"])


# the wrong token, the wrong beginning


@pytest.mark.parametrize(
    "shown",
    [
        lambda real: "0" * 64,
        lambda real: "",
        lambda real: real[:-1],
        lambda real: real + "0",
        lambda real: real.upper() + " ",
        lambda real: "\u0660" * 64,
        lambda real: "x" * 60_000,
        lambda real: None,
        lambda real: True,
        lambda real: 0,
        lambda real: [real],
        lambda real: {"token": real},
    ],
)
def test_who_shows_another_token_is_turned_away(owner: Session, shown: Any) -> None:
    with Knock(address(owner)) as stranger:
        answer = stranger.say(line(hello(shown(token(owner))), append(owner))).answer()
    assert "token" in turned_away(answer, 1)
    assert token(owner).encode() not in answer


@pytest.mark.parametrize("options", [None, [], "token", 1, {}, {"Token": "x"}])
def test_who_shows_none_is_turned_away(owner: Session, options: Any) -> None:
    with Knock(address(owner)) as stranger:
        turned_away(stranger.say(line(request("initialize", initializationOptions=options), append(owner))).answer(), 1)
    with Knock(address(owner)) as stranger:
        turned_away(stranger.say(line(request("initialize", "a"))).answer(), "a")


def test_a_second_try_on_the_same_connection_is_not_heard(owner: Session) -> None:
    with Knock(address(owner)) as stranger:
        turned_away(stranger.say(line(hello("0" * 64), hello(token(owner)), append(owner))).answer(), 1)


def test_the_token_counts_only_in_initialize(owner: Session) -> None:
    shown = {"initializationOptions": {"token": token(owner)}, "token": token(owner)}
    for message, answered in [
        (request("context/appendMessage", 7, sessionId=owner.id, message=user("x"), **shown), 7),
        (request("session/open", "s", sessionId="new", **shown), "s"),
        (request("rpc.discover", 7, **shown), 7),
        (request("shutdown", 7, **shown), 7),
        (request("Initialize", 7, **shown), 7),
        ({"jsonrpc": "2.0", "method": "initialize", "params": shown}, None),
        ({"jsonrpc": "2.0", "method": "exit"}, None),
        ({"jsonrpc": "2.0", "method": "initialized", "params": {}}, None),
        ({"jsonrpc": "2.0", "id": None, "method": "initialize", "params": shown}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "initialize", "params": shown}, None),
        ({"jsonrpc": "2.0", "id": [1], "method": "initialize", "params": shown}, None),
        ({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": [shown]}, 7),
        ({"jsonrpc": "2.0", "id": 7, "result": shown}, 7),
    ]:
        with Knock(address(owner)) as stranger:
            turned_away(stranger.say(line(message, append(owner))).answer(), answered)  # type: ignore[arg-type]


# other protocols, and none


CLIENT_HELLO = bytes.fromhex("16030100f0010000ec0303") + bytes(range(230))
NOISE = random.Random(7).randbytes(3000)


def http(owner: Session) -> bytes:
    """What a web page can make a browser send."""
    body = line(hello(token(owner)), append(owner))
    return b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"EHLO example.org\r\n",
        CLIENT_HELLO,
        NOISE,
        b"\x00" * 100,
        b"\xff\xfe" + line(request("initialize")).decode().encode("utf-16-le"),
        b"[" + line(request("initialize")).rstrip() + b"]\n",
        b"null\n",
        b'"initialize"\n',
        b"{\n",
        b"{}\n",
        b'{"jsonrpc":"2.0","id":NaN}\n',
        b"{" * 30_000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + b"[" * 20_000 + b"]" * 20_000 + b"}\n",
        b'{"params":{"initializationOptions":{"token":"\\ud800"}},"id":1,"method":"initialize"}\n',
        b'{"params":{"initializationOptions":{"token":"\xff"}},"id":1,"method":"initialize"}\n',
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Length: 2\r\n\r\n{]",
        b"Content-Length: 0\r\n\r\n",
    ],
    ids=lambda said: repr(said[:12]),
)
def test_who_speaks_no_protocol_of_ours_is_told_so_in_one_line(owner: Session, said: bytes) -> None:
    with Knock(address(owner)) as stranger:
        answer = stranger.say(said + line(hello(token(owner)), append(owner))).answer()
    reply = loads(answer.rpartition(b"\r\n\r\n")[2])
    assert (reply["error"]["code"], reply["error"]["data"]["kind"]) == (REFUSED, "invalidRequest")
    assert b"smuggled" not in answer


def test_what_a_web_page_can_send_is_not_read_past_its_first_line(owner: Session) -> None:
    with Knock(address(owner)) as page:
        turned_away(page.say(http(owner)).answer())


def test_each_framing_is_answered_in_itself(owner: Session) -> None:
    with Knock(address(owner)) as stranger:
        answer = stranger.say(frame(dumps(hello("0" * 64)), "lsp")).answer()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head == b"Content-Length: %d" % len(body)
    turned_away(body + b"\n", 1)


# too much, too little, too slow


@pytest.mark.parametrize(
    "said",
    [
        b"Content-Length: 65537\r\n\r\n",
        b"Content-Length: 1000000000000\r\n\r\n",
        b'{"params": "' + b"x" * 100_000,
        b" " * 100_000,
        b"\r\n" * 50_000,
        b"X: y\r\n" * 1000,
        b"Content-Type: " + b"x" * 100_000,
    ],
    ids=lambda said: repr(said[:16]),
)
def test_what_is_large_before_the_token_is_refused_before_it_has_come(owner: Session, said: bytes) -> None:
    with Knock(address(owner)) as stranger:
        answer = stranger.say(said).answer()
    assert b"nothing was said" not in answer, "it was not refused, but grown tired of"
    assert loads(answer.rpartition(b"\r\n\r\n")[2])["error"]["code"] == REFUSED


def test_the_largest_first_message_gets_in_and_what_stands_behind_it_is_taken(owner: Session) -> None:
    padding = "x" * (64 * 1024 - len(dumps(hello(token(owner), clientInfo={"name": "p", "version": ""}))))
    first = dumps(hello(token(owner), clientInfo={"name": "p", "version": padding}))
    assert len(first) == 64 * 1024
    for framing in ("ndjson", "lsp"):
        both = frame(first, framing) + frame(dumps(request("rpc.discover", 2)), framing)
        with Knock(address(owner)) as good:
            assert b'"openrpc"' in good.say(both).end().answer()


@pytest.mark.parametrize(
    "half", [b'{"jsonrpc":"2.0"', b"Content-Len", b"Content-Length: 100\r\n\r\n{", b"", b"\xef\xbb"]
)
def test_half_a_message_and_the_end(owner: Session, half: bytes) -> None:
    with Knock(address(owner)) as stranger:
        answer = stranger.say(half).end().answer()
    assert b"nothing was said" not in answer, "it was not refused, but grown tired of"
    assert loads(answer.rpartition(b"\r\n\r\n")[2])["error"]["code"] == REFUSED


@pytest.mark.long
def test_whoever_takes_too_long_is_turned_away(owner: Session) -> None:
    """All at once, for each takes its five seconds: who says nothing, half of it, or a byte now and then."""
    whole = line(hello(token(owner)))
    silent, half, headed, slow = (Knock(address(owner)) for _ in range(4))
    half.say(whole[:-1])
    headed.say(b"Content-Length: 100\r\n\r\n")
    said = 0
    while not slow.answered(0.25):
        assert said < len(whole) - 1, "it could say all it wanted"
        slow.say(whole[said : said + 1])
        said += 1
    for stranger in (silent, half, headed, slow):
        with stranger:
            assert loads(stranger.answer().rpartition(b"\r\n\r\n")[2])["error"]["code"] == REFUSED


def test_who_does_not_read_the_refusal_keeps_nobody(owner: Session) -> None:
    descriptors = Path(f"/proc/{owner.server.process.pid}/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    with Knock(address(owner)) as stranger:
        stranger.say(b"x" * 300_000)
        if descriptors.exists():
            until(lambda: len(list(descriptors.iterdir())) <= before, saying="the connection is closed")


@pytest.mark.long
def test_two_hundred_who_say_nothing_keep_nobody_out(scene: Scene) -> None:
    owner = scene.window()
    descriptors = Path(f"/proc/{owner.server.process.pid}/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    crowd = [Knock(address(owner)) for _ in range(200)]
    try:
        attached = scene.window()
        attached.say("through the crowd")
        owner.say("undisturbed")
        owner.checkpoint()
        owner.call("context/revertTo", checkpointId=0)
        assert attached.texts() == owner.texts() == ["through the crowd", "undisturbed"]
        answers = [stranger.answer() for stranger in crowd]
        for answer in answers:
            turned_away(answer)
        # Those who were first make room for those who come, without their five seconds.
        assert all(b"too many connections" in answer for answer in answers[:72])
        if descriptors.exists():
            until(lambda: len(list(descriptors.iterdir())) <= before + 1, saying="every connection is closed")
    finally:
        for stranger in crowd:
            stranger.__exit__()


# with the token


def test_another_version_of_the_protocol_ends_the_connection(owner: Session) -> None:
    other = {"experimental": {"timeleap": {"protocolVersion": 2}}}
    with Knock(address(owner)) as peer:
        answer = peer.say(line(hello(token(owner), capabilities=other), append(owner))).answer()
    replies = [loads(each) for each in answer.splitlines()]
    assert (replies[0]["id"], replies[0]["error"]["code"], replies[0]["error"]["data"]["supported"]) == (1, 4017, [1])
    assert all("error" in reply for reply in replies)


def test_other_options_of_a_peer_change_nothing(owner: Session, tmp_path: Path) -> None:
    options = {"token": token(owner), "home": str(tmp_path / "other"), "durability": "none", "maxContextSize": 1}
    with Knock(address(owner)) as peer:
        answer = peer.say(line(request("initialize", initializationOptions=options))).end().answer()
    assert loads(answer)["result"]["capabilities"]
    assert token(owner).encode() not in answer
    assert not (tmp_path / "other").exists()


def test_a_peer_opens_only_what_is_owned_here(owner: Session, tmp_path: Path) -> None:
    free = Session.open(owner.server, "free")
    free.call("session/close")
    try:
        cases: list[tuple[dict[str, Any], int]] = [
            ({"sessionId": "free"}, 4013),
            ({"path": str(free.path)}, 4013),
            ({"path": str(free.path), "access": "readOnly"}, 4013),
            ({"path": str(tmp_path)}, 4001),
            ({"sessionId": "new", "create": True}, 4001),
            ({"sessionId": "../s"}, 4010),
            ({}, 4010),
        ]
        for params, code in cases:
            with Knock(address(owner)) as peer:
                asked = line(hello(token(owner)), request("session/open", 2, **params), append(owner))
                replies = [loads(each) for each in peer.say(asked).end().answer().splitlines()]
            told = {reply["id"]: reply.get("error", {}).get("code") for reply in replies}
            assert told == {1: None, 2: code, 3: 4013}, params  # of two sessions, in either order
    finally:
        owner.server.call("session/delete", sessionId="free")


# other users


@as_root
def test_another_user_is_not_even_answered(owner: Session) -> None:
    """Though they know the token, and the directory was opened up after the start."""
    place = Path(address(owner))
    changed = [place.parent.parent, place.parent, place]
    modes = [path.stat().st_mode & 0o7777 for path in changed]
    said = line(hello(token(owner)), request("session/open", 2, sessionId=owner.id), append(owner))
    try:
        for path in changed:
            path.chmod(0o777)
        assert as_another_user(str(place), said) == b""
    finally:
        for path, mode in zip(changed, modes, strict=True):
            path.chmod(mode)
    assert "another user" in owner.server.stderr()
