from __future__ import annotations

import json
import math
import time
from typing import Any, cast

import msgspec
import pytest

from timeleap.rpc.codec import Request, UnreadableError, decode, decode_request, encode
from timeleap.rpc.protocol import EdgeProtocol
from timeleap_protocol.base import WireModel
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.limits import MAX_DEPTH


def refuse(body: bytes | str) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        decode(body.encode() if isinstance(body, str) else body)
    return caught.value


def request(params: str, message_id: str = '"x"') -> str:
    return filled('{"jsonrpc":"2.0","id":%s,"method":"m","params":%s}', message_id, params)


def filled(template: str, *parts: str) -> str:
    """`template` with its `%s` filled in: braces of JSON make every other way unreadable."""
    return template % parts


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":01}',
        b'{"a":"\x01"}',
        b'{"a":"\\x"}',
        b'{"a":1}x',
        b'{"id":1,"a":NaN}',
        b'{"id":1,"a":Infinity}',
        b'{"id":1,"a":-Infinity}',
        b'{"id":1,"a":"\xff"}',
        b'{"id":1,"a":"\xed\xa0\x80"}',
        '{"id":1}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"id":1,"method":"m","params":' + b'{"a":' * 5000 + b"}" * 4000,
    ],
)
def test_what_is_no_json_is_a_parse_error_under_no_id(body: bytes) -> None:
    error = refuse(body)
    assert (error.refusal.kind, error.message_id, error.wants_reply) == (ErrorKind.PARSE_ERROR, None, True)


def test_the_reason_never_quotes_the_input() -> None:
    assert "secret" not in refuse(b'{"password":"secret" "secret"}').refusal.message


def test_where_it_stops_being_json_is_said_in_plain_words() -> None:
    with pytest.raises(UnreadableError) as caught:
        decode(b'{"open')
    assert caught.value.refusal.message == "not JSON: Unterminated string starting at character 1"


def test_a_byte_order_mark_is_harmless() -> None:
    assert decode(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


@pytest.mark.parametrize("digits", [1, 19, 20, 40, 4000])
def test_integers_are_kept_exactly(digits: int) -> None:
    number = int("7" * digits)
    assert decode(b"[%s,-%s]" % ((b"7" * digits,) * 2)) == [number, -number]
    assert encode([number, -number]) == b"[%s,-%s]" % ((b"7" * digits,) * 2)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1" * 5000, "4300 digits"),
        ("-" + "1" * 5000, "4300 digits"),
        ("1e400", "too large"),
        ("-1e400", "too large"),
        ("1" * 400 + ".5", "too large"),
        (r'"\ud83d"', "surrogate"),
        (r'"x\udc00"', "surrogate"),
        (r'"\ud83dA"', "surrogate"),
    ],
)
@pytest.mark.parametrize("message_id", ['"x"', "7"])
def test_what_cannot_be_kept_is_refused_under_its_id_saying_where(value: str, said: str, message_id: str) -> None:
    error = refuse(request(filled('{"message":{"role":"user","content":[1,{"text":%s}]}}', value), message_id))
    assert error.message_id == json.loads(message_id)
    assert error.refusal.kind is ErrorKind.INVALID_PARAMS
    (entry,) = error.refusal.data["errors"]
    assert entry["loc"] == ["message", "content", 1, "text"]
    assert said in entry["msg"]
    assert "message.content.1.text" in error.refusal.message


def test_the_id_may_stand_last() -> None:
    assert refuse('{"params":{"a":1e400},"method":"m","id":3,"jsonrpc":"2.0"}').message_id == 3


def test_a_surrogate_in_a_name() -> None:
    error = refuse(request(r'{"a":{"\ud83d":1}}'))
    assert error.refusal.data["errors"][0]["loc"] == ["a"]
    encode(error.refusal.data)


def test_problems_inside_a_bad_name_can_be_sent_back() -> None:
    error = refuse(request(r'{"\ud83d":1e400}'))
    encode(error.refusal.data)


def test_many_problems_are_not_all_listed() -> None:
    error = refuse(request(filled('{"a":[%s]}', ",".join(["1e400"] * 1000))))
    assert len(error.refusal.data["errors"]) == 20


def test_a_notification_with_such_a_value_is_not_answered() -> None:
    assert refuse('{"jsonrpc":"2.0","method":"m","params":[1e400]}').wants_reply is False


@pytest.mark.parametrize(
    "body",
    [
        request("{}", "1" * 5000),
        request("{}", r'"\ud83d"'),
        request('{"a":1e400}', r'"\ud83d"'),
    ],
)
def test_an_id_that_cannot_be_kept_cannot_be_answered_under(body: str) -> None:
    error = refuse(body)
    assert (error.refusal.kind, error.message_id) == (ErrorKind.INVALID_REQUEST, None)


def test_a_value_outside_the_params_is_no_valid_request() -> None:
    error = refuse('{"jsonrpc":"2.0","id":1,"method":"m","extra":1e400}')
    assert (error.refusal.kind, error.message_id) == (ErrorKind.INVALID_REQUEST, 1)


def nested(depth: int, kind: str = "[") -> str:
    return "[" * depth + "]" * depth if kind == "[" else '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize("kind", "[{")
@pytest.mark.parametrize("where", ['{"message":%s}', '{"messages":[{},%s]}'])
def test_nesting_is_counted_from_the_braces_of_the_message(kind: str, where: str) -> None:
    def message(depth: int) -> str:
        return filled('{"x":%s}', nested(depth - 1, kind))

    decode(request(where % message(128)).encode())
    for depth in (129, 500, 990, 5000, 100_000):
        error = refuse(request(where % message(depth)))
        assert (error.refusal.kind, error.message_id) == (ErrorKind.TOO_LARGE, "x")
        assert error.wants_reply


def test_many_braces_side_by_side_are_not_deep() -> None:
    decode(request(filled('{"message":{"a":[%s]}}', ",".join(["{}"] * 1000))).encode())


def test_braces_within_text_do_not_nest() -> None:
    text = json.dumps("{[" * 100_000)
    assert decode(request(filled('{"message":%s}', text)).encode())["params"]["message"] == json.loads(text)
    deep = nested(5000)
    error = refuse(filled('{"params":[%s,%s],"method":"m","jsonrpc":"2.0","id":"later"}', text, deep))
    assert error.message_id == "later"


@pytest.mark.parametrize(
    ("body", "message_id", "wants_reply"),
    [
        ('{"jsonrpc":"2.0","id":5,"method":"m","params":%s}', 5, True),
        ('{"params":%s,"id":"é\\n","method":"m"}', "é\n", True),
        ('{"params":{"id":9,"x":%s},"id":5,"method":"m"}', 5, True),
        ('{"id":1.5,"method":"m","params":%s}', None, True),
        ('{"id":null,"method":"m","params":%s}', None, True),
        ('{"method":"m","params":%s}', None, False),
        ('{"id":5,"result":%s}', None, True),
        ('{"id":5,"method":"m","x":{"id":7},"params":%s}', 5, True),
    ],
)
def test_the_id_of_what_no_parser_can_descend_into(body: str, message_id: Any, wants_reply: bool) -> None:
    for depth in (200, 50_000):
        error = refuse(body % nested(depth))
        assert error.refusal.kind is ErrorKind.TOO_LARGE
        assert (error.message_id, error.wants_reply) == (message_id, wants_reply)


@pytest.mark.long
def test_the_time_for_a_deep_frame_grows_with_its_size_and_no_faster() -> None:
    def seconds(levels: int) -> float:
        began = time.perf_counter()
        error = refuse(b'{"id":1,"method":"m","params":' + b'{"a":' * levels + b"}" * levels + b"}")
        assert error.message_id == 1
        return time.perf_counter() - began

    # Ten times the size; quadratic work would take a hundred times as long.
    assert seconds(2_000_000) < 40 * min(seconds(200_000) for _ in range(3))


def test_encoding() -> None:
    class Model(WireModel):
        some_name: int

    value = {"a": "é\u2028\n", "raw": msgspec.Raw(b'{"x" : 1}'), "model": Model(some_name=1), "none": None}
    assert encode(value) == '{"a":"é\u2028\\n","raw":{"x" : 1},"model":{"someName":1},"none":null}'.encode()


def test_numbers_without_a_json_form_never_leave() -> None:
    assert encode([math.nan, math.inf]) == b"[null,null]"


def test_a_lone_surrogate_keeps_its_escape() -> None:
    assert encode({"t": "\ud83d", "r": msgspec.Raw(b'"\xc3\xa9"')}) == b'{"t":"\\ud83d","r":"\\u00e9"}'


def test_what_has_no_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="object"):
        encode({"a": object()})


DEEP = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
PLAIN = '{"a":[{"a":[%s]}]}'


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        (request('{"sessionId":"s"}'), True),
        (request("{}", "12345678901234567890123"), True),
        (request("{}").replace('"id"', '"id":1,"id"'), True),
        (request(filled('{"message":%s}', filled(PLAIN, '{"a":1}'))), True),
        (request(filled('{"messages":[%s,1]}', filled(PLAIN, "1"))), True),
        (request(filled('{"message":%s}', filled(PLAIN, '{"a":[]}'))), False),
        (request(filled('{"message":%s}', DEEP)), False),
        (request(filled('{"messages":[%s,%s]}', DEEP, DEEP)), False),
        (request(filled('{"message":{"a":%s}}', DEEP)), False),
        (request(filled('{"messages":[{"a":[%s]}]}', DEEP)), False),
        (request("null"), False),
        (request("[]"), False),
        (request("[1]"), False),
        (request("{}", "null"), False),
        (request("{}", "true"), False),
        (request("{}", "1.0"), False),
        (request('{"a":NaN}'), False),
        (request('{"a":"\\ud800"}'), False),
        (request("{}").replace("2.0", "1.0"), False),
        (request("{}").replace('"m"', "5"), False),
        (request("{}").replace('"params"', '"more":NaN,"params"'), False),
        (request("{}").replace('"params"', '"more":1,"params"'), False),
        (request("{}").replace('"params"', '"size":"x","params"'), False),
        ('{"jsonrpc":"2.0","id":1,"method":"m"}', False),
        ('{"jsonrpc":"2.0","method":"m","params":{}}', False),
        ('{"jsonrpc":"2.0","id":1,"result":{}}', False),
        ("\ufeff" + request("{}"), False),
    ],
)
def test_a_plain_request_is_read_as_every_message_is(body: str, plain: bool) -> None:
    if not plain:
        with pytest.raises((msgspec.MsgspecError, UnicodeError)):
            decode_request(body.encode())
    else:
        found = decode_request(body.encode())
        read = EdgeProtocol(cast("Any", None)).structure_message(decode(body.encode()))
        assert isinstance(read, Request)
        assert (found.id, found.method, found.params) == (read.id, read.method, read.params)
