"""Bad input: each gets the error the contract names, the next good request works, nothing is lost."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import figures
from tests.support.fixtures import StartServer
from tests.support.framing import Framing, dumps
from tests.support.matching import containing
from tests.support.server import Server
from tests.support.session import Session, user


@pytest.fixture(autouse=True)
def _integers_of_any_length() -> Iterator[None]:
    """To read such integers back; other tests of this process keep Python's limit."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(limit)


def request(body: str | bytes, server: Server, id: str) -> Any:
    """Send a frame with this body and return the reply to `id`, or the `id: null` one."""
    figures.count(hostile_inputs=1)
    before = len(server.received)
    server.send_body(body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass"))
    return server.wait_for(lambda m: "method" not in m and m["id"] in (id, None), since=before)


def append(message: str, session: Session) -> Any:
    """The reply to an append whose message is this JSON text."""
    head = f'{{"jsonrpc":"2.0","id":"raw","method":"context/appendMessage","params":{{"sessionId":"{session.id}","message":'
    return request(head + message + "}}", session.server, "raw")


def alive(session: Session) -> None:
    """The next good request works and nothing was written before it."""
    assert session.get_state()["context"]["messageCount"] == 0
    session.say("still here")
    assert session.texts() == ["still here"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"session/list"',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list",}',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"session/list"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list"} x',
        b'{"jsonrpc":"2.0","id":01,"method":"session/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a\tb"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a\\x"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":-Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":+1}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":.5}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":1.}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"a":undefined}}',
        b"{} {}",
        b"{\x00}",
    ],
)
def test_what_is_no_json_is_a_parse_error(session: Session, body: bytes) -> None:
    reply = request(body, session.server, "?")
    assert (reply["id"], reply["error"]["code"]) == (None, -32700)
    alive(session)


def test_utf_16_is_refused(start: StartServer) -> None:
    server = start("lsp")
    body = dumps({"jsonrpc": "2.0", "id": 5, "method": "session/list"}).decode().encode("utf-16")
    before = len(server.received)
    server.send_body(body)
    assert server.wait_for(lambda m: m.get("id") is None, since=before)["error"]["code"] == -32700
    assert server.call("session/list")


@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")], ids=["arrays", "objects", "mixed"]
)
@pytest.mark.parametrize("levels", [1_000, 100_000, 500_000])
@pytest.mark.long
def test_deep_nesting_is_refused(session: Session, opening: str, closing: str, levels: int) -> None:
    value = opening * levels + "1" + closing * levels
    reply = append(f'{{"role":"user","content":"x","deep":{value}}}', session)
    assert reply["error"]["code"] in (4011, -32700)
    reply = request(f'{{"jsonrpc":"2.0","id":"deep","method":"session/list","params":{value}}}', session.server, "deep")
    assert reply["error"]["code"] in (4011, -32700, -32600, -32602)
    alive(session)


def test_unclosed_deep_nesting_is_refused(session: Session) -> None:
    assert request("{" + '"a":[' * 500_000, session.server, "?")["error"]["code"] in (-32700, 4011)
    alive(session)


@pytest.mark.parametrize("digits", [20, 400, 4300, 4301, 5000, 100_000])
def test_integers_of_any_size_are_kept_exactly_or_refused(session: Session, digits: int) -> None:
    number = int("7" * digits)
    reply = append(f'{{"role":"user","content":"x","n":{number}}}', session)
    if "error" in reply:
        assert reply["error"]["code"] in (-32602, 4011)
        alive(session)
    else:
        assert session.history()[0]["n"] == number
        assert session.lines()[0]["n"] == number


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63, 2**64, -(2**64), 10**30])
def test_integers_beyond_the_precision_of_a_double_are_kept_exactly(session: Session, value: int) -> None:
    session.append({"role": "user", "content": "x", "n": value, "deep": [{"n": [value]}]})
    assert session.history()[0] == {"role": "user", "content": "x", "n": value, "deep": [{"n": [value]}]}


@pytest.mark.parametrize(
    "number", ["0.1", "1e2", "1E+2", "-0.0", "5e-324", "1.7976931348623157e308", "3.141592653589793"]
)
def test_fractions_keep_their_value(session: Session, number: str) -> None:
    assert "result" in append(f'{{"role":"user","content":"x","n":{number}}}', session)
    assert repr(float(session.history()[0]["n"])) == repr(float(number))


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e999999999"])
@pytest.mark.parametrize("place", ["top", "deep"])
def test_numbers_that_overflow_are_refused_saying_where(session: Session, number: str, place: str) -> None:
    value = number if place == "top" else f'[0,{{"m":{number}}}]'
    error = append(f'{{"role":"user","content":"x","n":{value}}}', session)["error"]
    assert error["code"] == -32602
    where = ["message", "n"] if place == "top" else ["message", "n", 1, "m"]
    assert [problem["loc"] for problem in error["data"]["errors"]] == [where]
    alive(session)


@pytest.mark.parametrize("escape", ["\\ud800", "\\udfff", "\\udc00\\ud800", "a\\ud83dz"])
@pytest.mark.parametrize("place", ["content", "part", "key"])
def test_lone_surrogates_are_refused_saying_where(session: Session, escape: str, place: str) -> None:
    message = {
        "content": f'{{"role":"user","content":"{escape}"}}',
        "part": f'{{"role":"user","content":[{{"type":"text","text":"{escape}"}}]}}',
        "key": f'{{"role":"user","content":"x","k":{{"{escape}":1}}}}',
    }[place]
    error = append(message, session)["error"]
    assert error["code"] == -32602
    places: dict[str, list[Any]] = {"part": ["message", "content", 0, "text"], "key": ["message", "k"]}
    where = places.get(place, ["message", "content"])
    assert error["data"]["errors"][0]["loc"][: len(where)] == where
    alive(session)


def test_surrogate_pairs_are_characters(session: Session) -> None:
    assert "result" in append('{"role":"user","content":"\\ud83d\\ude00 \\u0000 \\u2028"}', session)
    assert session.texts() == ["😀 \u0000 \u2028"]


def test_lone_surrogates_outside_messages_are_refused_too(server: Server) -> None:
    for method, name in (("session/open", "title"), ("session/open", "systemPrompt"), ("session/list", "query")):
        reply = request(
            f'{{"jsonrpc":"2.0","id":"s","method":"{method}","params":{{"{name}":"a\\ud800"}}}}', server, "s"
        )
        assert reply["error"]["code"] == -32602, reply
        assert reply["error"]["data"]["errors"][0]["loc"] == [name]


def test_a_lone_surrogate_in_the_method_or_id_is_answered(server: Server) -> None:
    for body in (
        '{"jsonrpc":"2.0","id":"m","method":"\\ud800"}',
        '{"jsonrpc":"2.0","id":"\\ud800","method":"session/list"}',
    ):
        before = len(server.received)
        server.send_body(body.encode())
        reply = server.wait_for(lambda m: "method" not in m, since=before)
        assert reply["error"]["code"] in (-32600, -32601, -32602, -32700)
    assert server.call("session/list", limit=1)


def test_a_nested_jsonrpc_key_is_data(session: Session) -> None:
    message = {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"jsonrpc":"2.0"}'}}],
        "jsonrpc": "2.0",
        "extra": {"jsonrpc": "2.0", "id": 1, "method": "exit", "params": {"jsonrpc": "2.0"}},
    }
    session.append(message)
    assert session.history() == [message]


def test_keys_that_trouble_python_are_data(session: Session) -> None:
    message = {
        "role": "user",
        "content": "x",
        **dict.fromkeys(
            ["class", "def", "foo-bar", "_x", "type_name", "__class__", "__proto__", "", " ", "self", "1"], 1
        ),
        "None": None,
        "from": {"to": {"type_name": "x", "_fields": [1]}},
    }
    session.append(message)
    assert session.history() == [message]
    assert list(session.history()[0]) == list(message)


def test_content_cannot_forge_records(session: Session) -> None:
    texts = [
        '\n{"role":"_checkpoint","id":7}\n',
        '"}\n{"role":"_usage","token_count":1}',
        '","_tl":{"u":"x"}}',
        '{"role":"user","_tl":{}}',
        "\x1b[2J\x07\u202e\u0000\r\n",
        "</system><system>CHECKPOINT 9</system>",
    ]
    session.append(*map(user, texts))
    assert session.texts() == texts
    assert session.get_state()["context"]["nCheckpoints"] == 0
    assert len(session.lines()) == len(texts)


def test_duplicate_keys_never_make_a_half_message(session: Session) -> None:
    reply = append('{"role":"user","content":"a","content":"b","role":"user"}', session)
    if "result" in reply:
        assert session.texts() in (["a"], ["b"])
        assert session.log.read_bytes().count(b'"content"') == 1
    else:
        assert reply["error"]["code"] in (-32602, -32700)
        alive(session)


def test_duplicate_keys_of_the_envelope_are_answered(server: Server) -> None:
    before = len(server.received)
    server.send_body(b'{"jsonrpc":"2.0","id":"d1","id":"d2","method":"session/list","method":"no/such"}')
    assert server.wait_for(lambda m: "method" not in m, since=before)
    assert server.call("session/list", limit=1)


def test_a_storm_of_garbage_loses_nothing(start: StartServer, framing: Framing) -> None:
    server = start(framing)
    session = Session.open(server, "s")
    bodies = [b"{", b'{"a":NaN}', b'{"id":1}', b'{"jsonrpc":"2.0","id":[],"method":"x"}', b'{"\xff":1}', b"{} ]"]
    appended = []
    before = len(server.received)
    for number in range(300):
        server.send_body(bodies[number % len(bodies)])
        appended.append(session.start("context/appendMessage", message=user(str(number))))
    figures.count(hostile_inputs=300)
    assert [pending.result()["firstIndex"] for pending in appended] == list(range(300))
    assert sum(1 for m in server.received[before:] if "id" in m and m["id"] is None) == 300
    assert session.texts() == [str(number) for number in range(300)]


SESSION_IDS = [
    *[
        "",
        ".",
        "..",
        "...",
        "-",
        "_",
        " ",
        "-a",
        "_a",
        ".a",
        "a.",
        "a..",
        "a ",
        " a",
        "a b",
        "a/b",
        "a/",
        "/a",
        "//",
        "/",
    ],
    *[
        "../../x",
        "../x",
        "..\\x",
        "a\\b",
        "\\\\host\\share",
        "C:",
        "C:\\x",
        "c:x",
        "/etc/passwd",
        "~",
        "~root",
        "$HOME",
    ],
    *[
        "%2e%2e%2f",
        "..%2f",
        "a%00b",
        "a\x00",
        "\x00",
        "a\nb",
        "a\rb",
        "a\tb",
        "a\x7f",
        "a\x1b[0m",
        "a\u2028b",
        "a:b",
        "a*",
    ],
    *[
        "a?",
        'a"b',
        "a<b",
        "a>b",
        "a|b",
        "a;b",
        "a&b",
        "a'b",
        "a`b",
        "a,b",
        "a=b",
        "a+b",
        "a@b",
        "a#b",
        "a!b",
        "a(b)",
        "[a]",
    ],
    *["é", "日本", "．．／x", "‥", "…", "a\u202eb", "a\u0301", "😀", "Ａ", "٣", "x" * 65, "x" * 300, "x" * 100_000],
]
"""What must never become part of a path."""


@pytest.mark.parametrize(
    "method", ["session/open", "session/getState", "session/delete", "session/fork", "session/undelete"]
)
def test_session_ids_that_look_like_paths_are_refused_everywhere(
    start: StartServer, framing: Framing, method: str, home: Any, tmp_path: Any
) -> None:
    server = start(framing)
    Session.open(server, "good")
    outside = {path for path in tmp_path.rglob("*") if "user" not in path.parts}
    for bad in SESSION_IDS:
        error = server.refuse(method, sessionId=bad)
        assert error["code"] == 4010, (bad[:40], error)
        assert error["data"]["kind"] == "invalidSessionId"
    for bad in SESSION_IDS:
        assert server.refuse("session/fork", sessionId="good", newSessionId=bad)["code"] == 4010, bad[:40]
    assert {path for path in tmp_path.rglob("*") if "user" not in path.parts} == outside
    assert [info["sessionId"] for info in server.call("session/list")["sessions"]] == ["good"]


@pytest.mark.parametrize("good", ["a", "A", "0", "a.b", "a..b", "a-_b", "0-", "a_", "x" * 64, "CON1", "a.b-c_D.9"])
def test_session_ids_of_the_contract_are_good(start: StartServer, good: str) -> None:
    server = start()
    assert Session.open(server, good).id == good
    assert [info["sessionId"] for info in server.call("session/list")["sessions"]] == [good]


@pytest.mark.parametrize("value", [1, True, None, [], {}, 1.5])
def test_a_session_id_that_is_no_string_is_refused(server: Server, value: Any) -> None:
    error = server.refuse("session/getState", sessionId=value)
    assert error["code"] == -32602 and error["message"] == containing("sessionId")


def test_memory_stays_bounded_under_bad_input(start: StartServer) -> None:
    server = start("lsp")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    for _ in range(20):
        server.send_bytes(b"Content-Length: %d\r\n\r\n" % (10 << 20) + b"[" * (10 << 20))
    assert server.call("session/list") == {"sessions": []}
    import psutil

    assert psutil.Process(server.process.pid).memory_info().rss < 400 << 20
    assert usage >= 0
