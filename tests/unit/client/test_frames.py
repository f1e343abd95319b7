from __future__ import annotations

import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeleap_client.frames import BrokenStreamError, Framing, MessageReader, encode

BOTH = [Framing.LSP, Framing.NDJSON]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("framing", BOTH)
@given(messages=st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=4), size=st.integers(1, 40))
def test_what_is_encoded_comes_back_however_it_is_cut(framing, messages, size):
    stream = b"".join(encode(message, framing) for message in messages)
    reader = MessageReader(framing)
    got = [message for start in range(0, len(stream), size) for message in reader.feed(stream[start : start + size])]
    assert got == messages
    assert reader.pending == 0


def test_line_separators_of_other_standards_do_not_end_a_line():
    message = {"text": "a\u2028b\u2029c\u0085d"}
    assert MessageReader(Framing.NDJSON).feed(encode(message, Framing.NDJSON)) == [message]


def test_a_lone_surrogate_travels_escaped():
    data = encode({"text": "\ud800"}, Framing.NDJSON)
    assert b"\\ud800" in data
    assert json.loads(data) == {"text": "\ud800"}


def test_the_length_counts_bytes():
    assert encode({"ü": 1}, Framing.LSP).startswith(b"Content-Length: 8\r\n\r\n")


def test_what_json_cannot_say_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"x": float("nan")}, Framing.NDJSON)


def test_a_header_may_hold_other_fields_in_any_case():
    data = b"content-type: x\r\nCONTENT-LENGTH: 2\r\n\r\n{}"
    assert MessageReader(Framing.LSP).feed(data) == [{}]


@pytest.mark.parametrize(
    ("framing", "data"),
    [
        (Framing.NDJSON, b"hello\n"),
        (Framing.NDJSON, b"[1]\n"),
        (Framing.NDJSON, b"\n"),
        (Framing.NDJSON, b"x" * 101),
        (Framing.LSP, b"Hello: 1\r\n\r\n{}"),
        (Framing.LSP, b"Content-Length: x\r\n\r\n{}"),
        (Framing.LSP, b"Content-Length: -2\r\n\r\n{}"),
        (Framing.LSP, b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
        (Framing.LSP, b"Content-Length: 101\r\n\r\n"),
        (Framing.LSP, b"Content-Length: 99999999999999999999999\r\n\r\n"),
        (Framing.LSP, b"Content-Length: 2\r\n\r\n[]"),
        (Framing.LSP, b"x" * 5000),
    ],
)
def test_anything_else_breaks_the_stream(framing, data):
    with pytest.raises(BrokenStreamError):
        MessageReader(framing, max_frame_bytes=100).feed(data)


@pytest.mark.parametrize(
    "odd", ['"cut short \\ud800"', "1e400", "-0.0", str(2**70), '"\\ud83d\\ude00"', "0.1", '{"a":1,"a":2}']
)
def test_a_large_frame_is_what_json_reads(odd: str) -> None:
    body = f'{{"result":["{"x" * 100_000}",{odd}]}}'
    (message,) = MessageReader(Framing.NDJSON).feed(body.encode() + b"\n")
    assert repr(message) == repr(json.loads(body))


@pytest.mark.parametrize("body", [b'["%b"]', b'{"a":"%b"', b'{"a":"%b\xff"}', b"[" * 100_000 + b"%b"])
def test_a_large_frame_that_is_no_object_breaks_the_stream(body: bytes) -> None:
    with pytest.raises(BrokenStreamError):
        MessageReader(Framing.NDJSON).feed(body.replace(b"%b", b"x" * 100_000) + b"\n")


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_goes_on_after_a_large_frame_as_before(collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        MessageReader(Framing.NDJSON).feed(b'{"a":"%b"}\n' % (b"x" * 100_000))
        with pytest.raises(BrokenStreamError):
            MessageReader(Framing.NDJSON).feed(b'{"a":"%b"\n' % (b"x" * 100_000))
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
