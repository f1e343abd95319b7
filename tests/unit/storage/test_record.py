"""Records: what a line is, what we write, and our reserved key."""

from __future__ import annotations

import json

import pytest

from timeleap.errors import InvalidInputError, TooLargeError
from timeleap.storage.log_values import RecordFlag, RecordKind, Role
from timeleap.storage.record import (
    as_sent,
    batch_member,
    checkpoint_record,
    classify,
    decode_json,
    encode_json,
    may_go_on,
    message_record,
    read_tl,
    strict_json,
    strip_tl,
    system_prompt_record,
    usage_record,
    without_batch_marks,
)

M, D, F, B = RecordKind.MESSAGE, RecordKind.DAMAGED, RecordKind.FOREIGN, RecordKind.BLANK
NONE, BAD, ODD = RecordFlag(0), RecordFlag.UNREADABLE, RecordFlag.LENIENT

# What the original's restore does with each: M without a flag = a message, BAD = skipped or refused, D = skipped.
LINES: list[tuple[bytes, RecordKind, RecordFlag, int]] = [
    (b'{"role":"user","content":"abc"}', M, NONE, 3),
    (b' {"role" : "user", "content":"abc"}\r', M, NONE, 3),
    (b'{"content":"abc","role":"user"}', M, NONE, 3),
    (b'{"role":"user","content":null}', M, NONE, 0),
    (b'{"role":"user","content":[]}', M, NONE, 0),
    (b'{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}', M, NONE, 3),
    (b'{"role":"assistant","content":[{"type":"think","think":"hm","encrypted":null}]}', M, NONE, 0),
    (b'{"role":"user","content":[{"type":"think","think":"hm","encrypted":5}]}', M, BAD, 0),
    (b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","id":"i"}}]}', M, NONE, 0),
    (b'{"role":"user","content":[{"type":"audio_url","audio_url":{"url":"u"}}]}', M, NONE, 0),
    (b'{"role":"user","content":[{"type":"video_url","video_url":{"url":5}}]}', M, BAD, 0),
    (b'{"role":"user","content":[{"type":"video_url","video_url":"u"}]}', M, BAD, 0),
    (b'{"role":"user","content":[{"type":"file","path":"x"},{"type":"text","text":"ab"}]}', M, BAD, 2),
    (b'{"role":"user","content":[{"text":"ab"}]}', M, BAD, 0),
    (b'{"role":"user","content":[1]}', M, BAD, 0),
    (b'{"role":"user","content":[{"type":"text"}]}', M, BAD, 0),
    (b'{"role":"user","content":5}', M, BAD, 0),
    (b'{"role":"user","content":{}}', M, BAD, 0),
    (b'{"role":"user"}', M, BAD, 0),
    (b'{"role":"oracle","content":"abc"}', M, BAD, 3),
    (b'{"role":"user","content":"","name":5}', M, BAD, 0),
    (b'{"role":"user","content":"","tool_call_id":5}', M, BAD, 0),
    (b'{"role":"user","content":"","partial":true}', M, NONE, 0),
    (b'{"role":"user","content":"","partial":"yes"}', M, NONE, 0),
    (b'{"role":"user","content":"","partial":1.0}', M, NONE, 0),
    (b'{"role":"user","content":"","partial":2}', M, BAD, 0),
    (b'{"role":"user","content":"","partial":[]}', M, BAD, 0),
    (b'{"role":"user","content":"","tool_calls":null}', M, NONE, 0),
    (
        b'{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":null}}]}',
        M,
        NONE,
        0,
    ),
    (b'{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f"}}]}', M, BAD, 0),
    (
        b'{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"x","function":{"name":"f","arguments":""}}]}',
        M,
        BAD,
        0,
    ),
    (
        b'{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":""},"extras":{"a":[1]}}]}',
        M,
        NONE,
        0,
    ),
    (
        b'{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":""},"extras":5}]}',
        M,
        BAD,
        0,
    ),
    (b'{"role":"assistant","content":"","tool_calls":{}}', M, BAD, 0),
    (b'{"role":"assistant","content":"","tool_calls":[5]}', M, BAD, 0),
    (b'{"role":"user","content":"abc","ours":{"a":[1,2]}}', M, NONE, 3),
    (b'{"role":"user","content":"a\tb"}', M, ODD, 3),
    (b'{"role":"user","content":"\\ud800"}', M, ODD, 1),
    (b'{"role":"user","content":"","x":NaN}', M, ODD, 0),
    (b'{"role":"user","content":"","x":1e999}', M, ODD, 0),
    (b'{"role":"user","content":"\\ud83d\\ude00"}', M, NONE, 1),
    (b'{"role":"user","content":"","x":123456789012345678901234567890}', M, NONE, 0),
    (b'{"role":"user","content":"","x":' + b"9" * 5000 + b"}", D, NONE, 0),
    (b'{"role":"user","content":"","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", D, NONE, 0),
    (b'{"role":"user","content":"\xff"}', D, NONE, 0),
    (b'{"role":"user","content":"","x":"\xff"}', D, NONE, 0),
    (b'\xef\xbb\xbf{"role":"user","content":""}', D, NONE, 0),
    (b'{"role":"user","content":"abc"', D, NONE, 0),
    (b'{"role":"user","content":"abc"}}', D, NONE, 0),
    (b'{"role":"user","content":"abc"} {}', D, NONE, 0),
    (b'{"role":"","content":"abc"}', D, NONE, 0),
    (b'{"role":5,"content":"abc"}', D, NONE, 0),
    (b'{"content":"abc"}', D, NONE, 0),
    (b"[1]", D, NONE, 0),
    (b"null", D, NONE, 0),
    (b"\0\0\0\0", D, NONE, 0),
    (b'{"role":"user","content":"a\0c"}', D, NONE, 0),
    (b'{"role":"user","content":"a\\u0000c"}', M, NONE, 3),
    (b"nonsense", D, NONE, 0),
    (b"", B, NONE, 0),
    (b" \t\r", B, NONE, 0),
    (b"\xc2\xa0\xe2\x80\xa8", B, NONE, 0),
    (b'{"role":"_usage","token_count":5}', RecordKind.USAGE, NONE, 5),
    (b'{"role":"_usage","token_count":-5}', RecordKind.USAGE, NONE, -5),
    (b'{"role":"_usage","token_count":true}', RecordKind.USAGE, NONE, 1),
    (b'{"role":"_usage","token_count":5.0}', D, NONE, 0),
    (b'{"role":"_usage","token_count":null}', D, NONE, 0),
    (b'{"role":"_usage"}', D, NONE, 0),
    (b'{"role":"_usage","token_count":' + b"9" * 30 + b"}", D, NONE, 0),
    (b'{"role":"_checkpoint","id":7}', RecordKind.CHECKPOINT, NONE, 7),
    (b'{"role":"_checkpoint","id":-7}', RecordKind.CHECKPOINT, NONE, -7),
    (b'{"role":"_checkpoint","id":"7"}', D, NONE, 0),
    (b'{"role":"_checkpoint","id":9223372036854775807}', D, NONE, 0),
    (b'{"role":"_system_prompt","content":"abc"}', RecordKind.SYSTEM_PROMPT, NONE, 0),
    (b'{"role":"_system_prompt","content":null}', D, NONE, 0),
    (b'{"role":"_system_prompt"}', D, NONE, 0),
    (b'{"role":"_newer","content":""}', F, NONE, 0),
    (b'{"role":"_newer"}', F, BAD, 0),
]


@pytest.mark.parametrize(("line", "kind", "flags", "value"), LINES, ids=[repr(line[:60]) for line, *_ in LINES])
def test_a_line_is_what_the_original_takes_it_for(line: bytes, kind: RecordKind, flags: RecordFlag, value: int) -> None:
    record = classify(line)
    assert (record.kind, record.flags, record.value) == (kind, flags, value)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("user", Role.USER),
        ("assistant", Role.ASSISTANT),
        ("tool", Role.TOOL),
        ("system", Role.SYSTEM),
        ("bot", Role.OTHER),
    ],
)
def test_roles(role: str, expected: Role) -> None:
    record = message_record({"role": role, "content": "x"})
    assert record.role == expected
    assert classify(record.body) == record


WHOLE = [
    b'{"role":"user","content":[{"type":"text","text":"\xc3\xa9\xf0\x9f\x98\x80\\n\\"\\\\\\u20ac\\ud83d\\ude00"}],"name":null}',
    b'{"role": "tool", "content": "", "x": [1.5e-10, -3, true, false, {"a": {}}, []], "y": 12.25}',
    b'{"role": "_checkpoint", "id": 12, "_tl":{"u":"c12-0123456789ab"}}',
]


@pytest.mark.parametrize("whole", WHOLE, ids=["text", "numbers", "control"])
def test_every_beginning_of_a_record_may_go_on_and_what_stands_behind_one_may_not(whole: bytes) -> None:
    assert all(may_go_on(whole[:size]) for size in range(1, len(whole)))
    assert may_go_on(whole[:9] + bytes(30)), "blocks that never reached the disk"
    for end in (b"", b"J", b"}", b'"', b"5", b"{", b"x" + whole[:5]):
        assert not may_go_on(whole + end)
    assert not may_go_on(b"x" + whole[:20])


MESSAGES = [decode_json(line) for line, kind, flags, _ in LINES if kind == M and not flags & ODD]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: json.dumps(message)[:60])
def test_a_message_is_the_same_written_as_read(message: dict[str, object]) -> None:
    for tl in (None, {"r": "id", "t": "time"}):
        record = message_record(message, tl)
        assert classify(record.body) == record
        assert decode_json(as_sent(record.body)) == message
        assert list(decode_json(as_sent(record.body))) == list(message)
        absent = {} if "content" in message else {"a": 1}
        assert read_tl(record.body) == {**(tl or {}), **absent}


def test_control_records_have_the_originals_spacing() -> None:
    assert usage_record(5).body == b'{"role": "_usage", "token_count": 5}'
    assert checkpoint_record(5).body == b'{"role": "_checkpoint", "id": 5}'
    assert system_prompt_record("é").body == b'{"role": "_system_prompt", "content": "\\u00e9"}'
    assert usage_record(5, style="compact").body == b'{"role":"_usage","token_count":5}'
    assert checkpoint_record(5, style="compact").body == b'{"role":"_checkpoint","id":5}'
    assert system_prompt_record("é", style="compact").body == '{"role":"_system_prompt","content":"é"}'.encode()
    assert checkpoint_record(5, {"u": "c5-1"}).body == b'{"role": "_checkpoint", "id": 5,"_tl":{"u":"c5-1"}}'
    for record in (usage_record(5, {"r": "x"}), checkpoint_record(5), system_prompt_record("é", {"t": "now"})):
        assert classify(record.body) == record


@pytest.mark.parametrize("wrong", ["5", 5.0, None, 2**63, -(2**63) - 1])
def test_numbers_that_do_not_fit_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError):
        usage_record(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        checkpoint_record(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "no role"},
        {"role": "", "content": ""},
        {"role": "_usage", "content": ""},
        {"role": 5, "content": ""},
        {"role": "user", "content": "", "_tl": {}},
        {"role": "user", "content": "\ud800"},
        {"role": "user", "content": "", "x": float("nan")},
        {"role": "user", "content": "", "x": [{"y": (float("inf"),)}]},
        {"role": "user", "content": "", "x": object()},
    ],
)
def test_what_cannot_be_stored_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        message_record(message)


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TooLargeError):
        message_record({"role": "user", "content": "", "x": deep})


def test_integers_of_any_size_and_null_are_exact() -> None:
    value = {"a": 10**400, "b": -(10**25), "c": None, "d": [None, 1.5, 2**64]}
    assert decode_json(encode_json(value)) == value


def test_batch_marks_are_added_and_taken_off() -> None:
    plain = message_record({"role": "user", "content": "x"})
    labelled = message_record({"role": "user", "content": "x"}, {"r": "id"})
    for record in (plain, labelled):
        for position in range(3):
            member = batch_member(record, "b1", position, 3)
            assert classify(member.body) == member
            assert read_tl(member.body) == {**read_tl(record.body), "b": "b1", "i": position, "n": 3}
            assert bool(member.flags & RecordFlag.BATCH_OPEN) == (position < 2)
            assert bool(member.flags & RecordFlag.BATCH_TAIL) == (position > 0)
            assert without_batch_marks(member.body) == record


@pytest.mark.parametrize(
    "line",
    [
        b'{"role":"user","content":"x","extras":{"a":1,"_tl":{"r":"no"}}}',
        b'{"role":"user","content":",\\"_tl\\":{\\"r\\":\\"no\\"}}"}',
        b'{"role":"user","content":"x"}',
        b'{"role":"user","content":"x","a":{"_tl":5}}',
        b'not json "_tl" }}',
        b'["_tl"]',
        b'{"a":{"_tl":{}',
    ],
)
def test_the_reserved_key_elsewhere_is_not_ours(line: bytes) -> None:
    assert strip_tl(line) == line
    assert read_tl(line) == {}
    assert not classify(line).flags & RecordFlag.HAS_TL


def test_the_reserved_key_is_found_where_another_program_moved_it() -> None:
    line = b'{"role":"user", "_tl":{"r":"id"}, "content":"x"}'
    assert read_tl(line) == {"r": "id"}
    assert decode_json(strip_tl(line)) == {"role": "user", "content": "x"}
    assert classify(line).flags == RecordFlag.HAS_TL | RecordFlag.REQUEST
    assert read_tl(b'{"role":"user","_tl":5,"content":""}') == {}
    assert strip_tl(b'{"role":"user","content":"","_tl":{"r":"id"}} ') == b'{"role":"user","content":""}'


def test_lenient_lines_are_made_strict_with_the_same_value() -> None:
    assert strict_json(b'{"a":"x\ty"}') == b'{"a":"x\\ty"}'
    assert json.loads(strict_json(b'{"a":[NaN,-Infinity,1e999,1.5]}')) == {"a": [None, None, None, 1.5]}
    assert json.loads(strict_json(b'{"a":"\\ud800"}')) == {"a": "\ud800"}


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"[" * 100_000, b"9" * 5000])
def test_what_is_no_json_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode_json(line)
