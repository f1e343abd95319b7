from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeleap_protocol.framing import MAX_HEADER_BYTES, Fault, FrameReader, Framing


def read(*chunks: bytes, limit: int = 1000) -> list[bytes | Fault]:
    reader = FrameReader(limit)
    found = [item for chunk in chunks for item in reader.feed(chunk)]
    return found + reader.finish()


def lsp(body: bytes, header: bytes = b"Content-Length: %d\r\n\r\n") -> bytes:
    return header % len(body) + body


def faults(items: list[bytes | Fault]) -> list[bool]:
    return [item.fatal for item in items if isinstance(item, Fault)]


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}\n{"b":2}\n',
        b'{"a":1}\r\n\r\n  \n{"b":2}',  # CR LF, blank lines, a last line without LF
        b'\xef\xbb\xbf \r\n\t{"a":1}\n{"b":2}\n',
        b'  {"a":1}  \n\n\n{"b":2}\n',
    ],
)
def test_ndjson(data: bytes) -> None:
    assert read(data) == [b'{"a":1}', b'{"b":2}']
    assert read(*[bytes([byte]) for byte in data]) == [b'{"a":1}', b'{"b":2}']


def test_unicode_line_separators_do_not_end_a_line() -> None:
    line = '{"a":"\u2028\u2029\u0085\x0b"}'.encode()
    assert read(line + b"\n") == [line]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\r\n\r\n",
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Length  :\t %d \r\n\r\n",
        b"Content-Length: %d\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\nX-Other: y\r\n\r\n",
        b"content-type: x\r\nContent-Length: 00%d\r\n\r\n",
        b"\xef\xbb\xbf\r\n Content-Length: %d\r\n\r\n",
    ],
)
def test_headers(header: bytes) -> None:
    data = lsp(b'{"a":"\xc3\xa9\n"}', header) + lsp(b"{}")
    assert read(data) == [b'{"a":"\xc3\xa9\n"}', b"{}"]
    assert read(*[bytes([byte]) for byte in data]) == [b'{"a":"\xc3\xa9\n"}', b"{}"]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6), st.data())
def test_frames_do_not_depend_on_how_they_are_cut(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(lsp, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == bodies


def test_line_ends_between_frames_are_passed_over() -> None:
    assert read(lsp(b"{}") + b"\r\n\n" + lsp(b"[]") + b"\n") == [b"{}", b"[]"]


def test_an_empty_body_is_a_frame() -> None:
    assert read(lsp(b"") + lsp(b"{}")) == [b"", b"{}"]


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: abc\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Content-Length: \xd9\xa3\r\n\r\n",
        b"Content-Length:\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"Content-Length: 3\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Type: application/json\r\n\r\n{}",
        b"Content-Length: 2\r\nno colon\r\n\r\n{}",
        b"Content-Length: 2\r\n: empty\r\n\r\n{}",
        b"Content-Length: 2\r\nX: " + b"y" * MAX_HEADER_BYTES,
        b"Content-Length: 2\r\nX: " + b"y" * MAX_HEADER_BYTES + b"\r\n\r\n{}",
    ],
)
def test_a_bad_header_loses_the_stream(data: bytes) -> None:
    good = lsp(b"{}")
    assert read(good + data + good)[0] == b"{}"
    assert faults(read(good + data + good)) == [True]
    assert faults(read(data)) == [True]


def test_a_length_that_is_too_small_loses_the_stream_at_the_next_header() -> None:
    items = read(b'Content-Length: 5\r\n\r\n{"a":1}' + lsp(b"{}"))
    assert items[0] == b'{"a":'
    assert faults(items) == [True]
    assert len(items) == 2


def test_a_line_that_can_be_no_header_is_refused_at_once() -> None:
    reader = FrameReader()
    assert reader.feed(lsp(b"{}")) == [b"{}"]
    assert faults(reader.feed(b'{"jsonrpc":"2.0"}\n')) == [True]
    assert reader.feed(lsp(b"{}")) == []
    assert reader.finish() == []


@pytest.mark.parametrize("length", [1001, 10**12, 10**19, 10**4000])
def test_an_oversized_frame_is_reported_at_its_header(length: int) -> None:
    reader = FrameReader(1000)
    assert faults(reader.feed(b"Content-Length: %d\r\n\r\n" % length)) == [False]


def test_an_oversized_frame_is_passed_over_without_being_held() -> None:
    reader = FrameReader(1000)
    items: list[bytes | Fault] = []
    for _ in range(50):
        items += reader.feed(b"Content-Length: 100000\r\n\r\n" if not items else b"x" * 1000)
        assert len(reader._buffer) <= 1000
    items += reader.feed(b"x" * 51000 + lsp(b"{}"))
    assert faults(items) == [False]
    assert items[1:] == [b"{}"]


def test_a_frame_of_the_limit_is_taken() -> None:
    assert read(lsp(b"x" * 1000)) == [b"x" * 1000]
    assert faults(read(lsp(b"x" * 1001))) == [False]
    assert read(b"{" + b"x" * 999 + b"\n") == [b"{" + b"x" * 999]
    assert faults(read(b"{" + b"x" * 1000 + b"\n")) == [False]


def test_an_oversized_line_is_passed_over_without_being_held() -> None:
    reader = FrameReader(1000)
    items = reader.feed(b"{")
    for _ in range(50):
        items += reader.feed(b"x" * 900)
        assert len(reader._buffer) <= 2000
    items += reader.feed(b'x\n{"a":1}\n')
    assert faults(items) == [False]
    assert items[1:] == [b'{"a":1}']
    assert reader.finish() == []


def test_an_oversized_line_without_an_end_is_reported_once() -> None:
    assert faults(read(b"{" + b"x" * 5000)) == [False]


@pytest.mark.parametrize("data", [b"", b" \r\n\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\xef\xbb"])
def test_no_input_is_no_fault(data: bytes) -> None:
    assert [item for item in read(data) if data != b"\xef\xbb"] == []


@pytest.mark.parametrize(
    "data", [b"[", b'"x"', b"GET / HTTP/1.1\r\n", b"content-lengthy: 5", b"contentx", b"\x00", b"1\n"]
)
def test_what_is_neither_framing_is_refused_at_once(data: bytes) -> None:
    reader = FrameReader()
    assert faults(reader.feed(data)) == [True]
    assert reader.framing is Framing.NDJSON


@pytest.mark.parametrize("data", [b"con", b"Content-Length", b"content-type  ", b"\xef\xbb"])
def test_an_input_that_ends_before_it_is_recognised(data: bytes) -> None:
    reader = FrameReader()
    assert reader.feed(data) == []
    assert faults(reader.finish()) == [True]


@pytest.mark.parametrize(
    "cut", [b"Content-Length: 5", b"Content-Length: 5\r\n\r\n{", b"Content-Length: 5000\r\n\r\nxx"]
)
def test_a_frame_cut_off_by_the_end_of_input(cut: bytes) -> None:
    assert faults(read(lsp(b"{}") + cut, limit=10)) in ([True], [False, True])
    assert faults(read(lsp(b"{}") + cut, limit=10))[-1] is True


def test_wrap() -> None:
    assert Framing.NDJSON.wrap(b"{}") == b"{}\n"
    assert Framing.LSP.wrap('"é"'.encode()) == b"Content-Length: 4\r\n\r\n" + '"é"'.encode()


def test_many_small_frames_in_one_chunk_cost_linear_time() -> None:
    count = 200_000
    reader = FrameReader()
    assert len(reader.feed(b"{}\n" * count)) == count
    reader = FrameReader()
    assert len(reader.feed(lsp(b"{}") * count)) == count


def test_a_long_line_in_small_pieces_costs_linear_time() -> None:
    reader = FrameReader()
    for _ in range(100_000):
        assert reader.feed(b"{xxxxxxxxxxxxxxxx") == []
    assert len(reader.feed(b"\n")) == 1
