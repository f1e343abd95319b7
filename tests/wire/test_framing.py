"""Framing: recognised from the first byte, strict where it has to be, forgiving where it can be."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.framing import Framing, dumps, frame
from tests.support.server import Server
from tests.support.session import Session

INITIALIZE = dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
LIST = dumps({"jsonrpc": "2.0", "id": 2, "method": "session/list"})


def alive(server: Server) -> None:
    assert "sessions" in server.call("session/list", limit=1)


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n\r\n \t", b"\xef\xbb\xbf \n"])
def test_the_first_byte_decides_also_behind_bom_and_white_space(
    start_at: StartServer, framing: Framing, home: Path, before: bytes
) -> None:
    server = start_at(home, framing)
    pending = server.expect("initialize", 1)
    server.send_bytes(before + frame(INITIALIZE, framing))
    assert pending.result()["serverInfo"]["name"] == "timeleap"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01",
        b"SSH-2.0-x\r\n",
        b"PROXY TCP4 1.2.3.4\r\n",
        b"[1,2]\n",
        b'"x"\n',
        b"nonsense\n",
        b"\x00\x00\x00\x00",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"\xff\xfe{\x00",
    ],
)
def test_any_other_first_byte_gets_one_line_and_exit_3(start_at: StartServer, home: Path, data: bytes) -> None:
    server = start_at(home, "ndjson")
    server.send_bytes(data)
    server.close_stdin()
    assert server.wait() == 3
    assert [(reply["id"], reply["error"]["code"]) for reply in server.received] == [(None, -32700)]
    assert server.raw[0].startswith(b"{")


def test_another_first_byte_ends_the_server_without_end_of_input(start_at: StartServer, home: Path) -> None:
    server = start_at(home, "ndjson")
    server.send_bytes(b"nonsense\n")
    assert server.wait() == 3


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\r\n\r\n",
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Length:    %d  \r\n\r\n",
        b"Content-Length: %d\n\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"content-type: application/vscode-jsonrpc; charset=utf8\r\ncontent-length: %d\r\n\r\n",
        b"Content-Length: 000%d\r\n\r\n",
    ],
)
def test_header_variants_are_understood_also_as_the_first_bytes(
    start_at: StartServer, home: Path, header: bytes
) -> None:
    server = start_at(home, "lsp")
    first, second = server.expect("initialize", 1), server.expect("session/list", 2)
    server.send_bytes(header % len(INITIALIZE) + INITIALIZE + header % len(LIST) + LIST)
    assert first.result() and second.result() == {"sessions": []}


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: abc\r\n\r\n",
        b"Content-Length: 1.5\r\n\r\n",
        b"Content-Length: 0x10\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Content-Length: \r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        "Content-Length: \u0665\r\n\r\n".encode(),
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{}",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"garbage\r\n\r\n",
        b'{"jsonrpc":"2.0"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"Content-Length 5\r\n\r\n",
        b"X-" + b"x" * 100_000,
    ],
)
def test_a_bad_header_is_answered_once_and_ends_the_stream_with_3(start: StartServer, header: bytes) -> None:
    server = start("lsp")
    heard = len(server.received)
    with contextlib.suppress(BrokenPipeError):
        server.send_bytes(header + b"x" * 10)
    assert server.wait() == 3
    answers = server.received[heard:]
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(None, -32700)]


def test_what_was_accepted_before_a_bad_header_is_answered(start: StartServer) -> None:
    server = start("lsp")
    session = Session.open(server, "s")
    appended = session.start("context/appendMessage", message={"role": "user", "content": "kept"})
    server.send_bytes(b"garbage\r\n\r\n")
    assert server.wait() == 3
    assert appended.result()["messageCount"] == 1


def test_a_length_too_small_is_seen_at_the_next_header(start: StartServer) -> None:
    server = start("lsp")
    heard = len(server.received)
    server.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(LIST) - 3, LIST) + frame(LIST, "lsp"))
    assert server.wait() == 3
    assert [answer["error"]["code"] for answer in server.received[heard:]] == [-32700, -32700]


def test_an_empty_body_is_a_parse_error_and_the_stream_goes_on(start: StartServer) -> None:
    server = start("lsp")
    heard = len(server.received)
    server.send_bytes(b"Content-Length: 0\r\n\r\n")
    alive(server)
    assert server.received[heard]["error"]["code"] == -32700


@pytest.mark.parametrize("length", [10**9, 10**12, 10**19, 10**100])
def test_a_gigantic_length_is_drained_and_answered(start: StartServer, length: int) -> None:
    server = start("lsp")
    heard = len(server.received)
    server.send_bytes(b"Content-Length: %d\r\n\r\n" % length + b"x" * 1_000_000)
    server.close_stdin()
    assert server.wait() == 3
    assert (None, 4011) in [(answer["id"], answer["error"]["code"]) for answer in server.received[heard:]]


def test_a_length_of_5000_digits_costs_nothing(start: StartServer) -> None:
    server = start("lsp")
    server.send_bytes(b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}")
    server.close_stdin()
    assert server.wait() == 3
    assert server.received[-1]["error"]["code"] in (4011, -32700)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\n\n\n", b"\r\n\r\n", b"  \t \n", b"\n \r\n"])
def test_line_endings_and_blank_lines(start: StartServer, ending: bytes) -> None:
    server = start("ndjson")
    first, second = server.expect("session/list", "a"), server.expect("session/list", "b")
    for pending in (first, second):
        server.send_bytes(dumps({"jsonrpc": "2.0", "id": pending.id, "method": "session/list"}) + ending)
    assert first.result() == second.result() == {"sessions": []}


def test_header_framing_does_not_mind_blank_lines_inside_a_body(start: StartServer) -> None:
    server = start("lsp")
    pending = server.expect("session/list", 5)
    server.send_body(b'\n{\n\n"jsonrpc" : "2.0",\r\n"id":5,\t"method":"session/list" }\n\n')
    assert pending.result() == {"sessions": []}


def test_unicode_line_separators_are_no_line_ends(server: Server, session: Session) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei"
    session.say(text)
    assert session.texts() == [text]
    assert session.log.read_bytes().count(b"\n") == 1


def test_one_byte_at_a_time(start_at: StartServer, framing: Framing, home: Path) -> None:
    server = start_at(home, framing)
    pending = server.expect("initialize", 1)
    for byte in frame(INITIALIZE, framing):
        server.send_bytes(bytes([byte]))
    assert pending.result()
    other = server.expect("session/list", 2)
    for byte in frame(LIST, framing):
        server.send_bytes(bytes([byte]))
    assert other.result() == {"sessions": []}


def test_many_messages_in_one_write(start: StartServer, framing: Framing) -> None:
    server = start(framing)
    pendings = [server.expect("session/list", f"n{n}") for n in range(500)]
    server.send_bytes(
        b"".join(frame(dumps({"jsonrpc": "2.0", "id": p.id, "method": "session/list"}), framing) for p in pendings)
    )
    assert all(pending.result() == {"sessions": []} for pending in pendings)


def test_a_bom_before_a_body_is_harmless(server: Server) -> None:
    pending = server.expect("session/list", "bom")
    server.send_body(b"\xef\xbb\xbf" + dumps({"jsonrpc": "2.0", "id": "bom", "method": "session/list"}))
    assert "sessions" in pending.result()


def test_text_beyond_ascii_is_counted_in_bytes(server: Server, session: Session) -> None:
    text = "日本語 😀 é\u0000\u007f\u202e"
    session.say(text)
    assert session.texts() == [text]


def test_each_message_is_flushed_at_once(server: Server, session: Session) -> None:
    for number in range(20):
        assert session.call("context/appendMessage", message={"role": "user", "content": "x"})["firstIndex"] == number
