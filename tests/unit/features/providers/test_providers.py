"""Histories as providers take them: every odd message, every real session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.providers import accepted

from timeleap.errors import TooLargeError
from timeleap.features.providers.handlers import format_of
from timeleap.features.providers.transcript import MOST, NO_CALL, NO_RESULT, Transcript

Json = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GO_ON = {"role": "user", "content": [{"type": "text", "text": "Go on."}]}
both = pytest.mark.parametrize("format", ["openai", "anthropic"])


def made(
    format: str,
    *messages: Json,
    system: str | None = None,
) -> tuple[Json, list[list[Any]]]:
    """The body, which the provider would accept, and the losses as `[index, kind]`."""
    transcript = Transcript(system, format_of(format), 1 << 25)
    for index, message in enumerate(messages):
        transcript.add(index, message)
    transcript.finish()
    body = accepted(format, format_of(format).body(transcript))
    json.dumps(body, ensure_ascii=False).encode()  # nothing in it that no JSON can carry
    return body, [[loss.index, loss.kind] for loss in transcript.losses.listed()]


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def assistant(content: Any, **members: Any) -> Json:
    return {"role": "assistant", "content": content, **members}


def calling(*calls: Json | str, content: Any = "") -> Json:
    many = [call(one) if isinstance(one, str) else one for one in calls]
    return {"role": "assistant", "content": content, "tool_calls": many}


def call(id: str, name: str = "look", arguments: Any = '{"at":"it"}') -> Json:
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def result(id: Any, content: Any = "seen") -> Json:
    return {"role": "tool", "content": content, "tool_call_id": id}


def image(url: str, **members: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": url, "id": "a", **members}}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def use(id: str, name: str = "look", **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def answer(id: str, *content: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": id, **({"content": list(content)} if content else {})}


def test_an_exchange_in_openais_shape() -> None:
    body, losses = made("openai", user("go"), calling("a", "b"), result("b"), result("a"), assistant("ok"), system="S")
    function = {"name": "look", "arguments": '{"at":"it"}'}
    assert body["messages"] == [
        {"role": "system", "content": "S"},
        user("go"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"type": "function", "id": each, "function": function} for each in "ab"],
        },
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "tool", "tool_call_id": "b", "content": "seen"},
        assistant("ok"),
    ]
    assert losses == []


def test_an_exchange_in_anthropics_shape() -> None:
    body, losses = made(
        "anthropic", user("go"), calling("a", "b", content="Well"), result("b"), result("a"), system="S"
    )
    assert body == {
        "system": "S",
        "messages": [
            {"role": "user", "content": [text("go")]},
            {"role": "assistant", "content": [text("Well"), use("a", at="it"), use("b", at="it")]},
            {"role": "user", "content": [answer("a", text("seen")), answer("b", text("seen"))]},
        ],
    }
    assert losses == []


def test_turns_of_one_side_are_one_message_for_anthropic_results_first() -> None:
    body, losses = made(
        "anthropic",
        user("a"),
        user("b"),
        assistant("c"),
        calling("x"),
        result("x"),
        user("d"),
        assistant("e"),
        user("f"),
    )
    assert [[block["type"] for block in message["content"]] for message in body["messages"]] == [
        ["text", "text"],
        ["text", "tool_use"],
        ["tool_result", "text"],
        ["text"],
        ["text"],
    ]
    assert losses == []


@both
def test_keys_of_others_do_not_get_through(format: str) -> None:
    message = {**calling({**call("a"), "extras": {"x": 1}, "index": 0}), "partial": True, "_tl": {"u": "x"}, "foo": 1}
    body, losses = made(
        format, {**user([{**text("go"), "cache": 1}]), "bar": 2}, message, {**result("a"), "name": "look"}
    )
    said = json.dumps(body)
    assert not any(word in said for word in ("extras", "partial", "_tl", "foo", "bar", "cache", '"index"'))
    assert losses == []


def test_thoughts() -> None:
    signed = {"type": "think", "think": "so", "encrypted": "sig=="}
    foreign = {"type": "think", "think": "", "encrypted": "gAAAAABo"}
    plain = {"type": "think", "think": "hm", "encrypted": None}
    messages = [
        user([text("q"), signed]),
        assistant([signed, plain, foreign, text("a")]),
        user("r"),
        assistant([signed]),
    ]
    body, losses = made("openai", *messages)
    assert body["messages"] == [user("q"), assistant("a"), user("r")]
    assert losses == [[0, "think"], *[[1, "think"]] * 3, [3, "think"], [3, "empty"]]
    body, losses = made("anthropic", *messages)
    thinking = {"type": "thinking", "thinking": "so", "signature": "sig=="}
    assert body["messages"][1] == {"role": "assistant", "content": [thinking, text("a")]}
    assert losses == [[0, "think"], [1, "think"], [1, "think"], [3, "think"], [3, "empty"]]


def test_a_thought_before_a_call_stays_with_it() -> None:
    signed = {"type": "think", "think": "so", "encrypted": "sig=="}
    body, losses = made("anthropic", user("q"), calling("a", content=[signed]), result("a"))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert losses == []


@pytest.mark.parametrize(
    ("url", "openai", "anthropic"),
    [
        (f"data:image/png;base64,{PNG}", True, True),
        (f"DATA:image/PNG;name=x;BASE64,{PNG[:20]}%0A{PNG[20:].replace('+', '%2B')}", True, True),
        (f"data:image/jpg;base64,{PNG}", True, True),
        ("data:image/gif,GIF89a%01", True, True),
        ("https://example.com/a.png", True, True),
        ("http://example.com/a.png", True, False),
        (f"data:image/png;base64,{'A' * (5 * 1024 * 1024 + 4)}", True, False),
        ("data:image/svg+xml;base64,PHN2Zy8+", False, False),
        ("data:image/png;base64,@@@", False, False),
        ("data:image/png;base64,", False, False),
        ("data:image/png", False, False),
        ("file:///tmp/a.png", False, False),
        ("a.png", False, False),
        ("https://", False, False),
        ("https://[x/a.png", False, False),
        ("https://example.com/a b.png", False, False),
        ("", False, False),
    ],
    ids=lambda value: str(value)[:40],
)
def test_pictures(url: str, openai: bool, anthropic: bool) -> None:
    for format_, kind, expected in (("openai", "image_url", openai), ("anthropic", "image", anthropic)):
        body, losses = made(format_, user([text("see"), image(url, detail="low")]), assistant("ok"), user("q"))
        shown = body["messages"][0]["content"][1]
        assert shown["type"] == (kind if expected else "text")
        assert losses == ([] if expected else [[0, "image"]])


def test_a_pictures_data_and_address_in_both_shapes() -> None:
    here, there = image(f"data:image/png;base64,{PNG}", detail="high"), image("https://example.com/a.png", detail="odd")
    body, _ = made("openai", user([here, there]))
    assert body["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    body, _ = made("anthropic", user([here, there]))
    assert body["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ]


def test_a_result_that_shows_a_picture() -> None:
    picture = image("https://example.com/a.png")
    messages = [user("q"), calling("a", "b"), result("a", [text("here"), picture]), result("b", ""), assistant("nice")]
    body, losses = made("openai", *messages)
    assert [message["role"] for message in body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
    ]
    assert body["messages"][4]["content"][1]["image_url"]["url"] == "https://example.com/a.png"
    assert losses == [[1, "order"]]
    body, losses = made("anthropic", *messages, user("r"))
    shown = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    assert body["messages"][2]["content"] == [answer("a", text("here"), shown), answer("b")]
    assert losses == []


@both
def test_what_cannot_be_sent_leaves_a_word_behind(format: str) -> None:
    parts = [
        {"type": "audio_url", "audio_url": {"url": "data:audio/mp3;base64,AAAA"}},
        {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
        {"type": "citation", "source": "x"},
        {"type": "image_url"},
        {"type": ["odd"]},
        {"type": "text", "text": 5},
        17,
        None,
    ]
    body, losses = made(format, user(parts), assistant([text("a"), image("https://example.com/a.png")]), user("b"))
    said = [part["text"] for part in body["messages"][0]["content"]]
    assert said == [
        "(audio left out)",
        "(video left out)",
        "(part left out)",
        "(image left out)",
        *["(part left out)"] * 3,
    ]
    assert losses == [[0, kind] for kind in ("audio", "video", "part", "image", "part", "part", "part")] + [
        [1, "image"]
    ]


@both
def test_calls_without_results_are_closed(format: str) -> None:
    body, losses = made(format, user("q"), calling("a", "b"), result("b"), user("stop"), calling("c"))
    assert json.dumps(body).count(NO_RESULT) == 2
    assert losses == [[1, "openCall"], [4, "openCall"]]


@both
@pytest.mark.parametrize("lost", ["gone", None, 5])
def test_a_result_without_its_call_is_a_users_text(format: str, lost: Any) -> None:
    body, losses = made(format, result(lost, "what was found"), assistant("thanks"), user("q"))
    said = json.dumps(body["messages"][0])
    assert body["messages"][0]["role"] == "user"
    assert NO_CALL in said
    assert "what was found" in said
    assert losses == [[0, "orphanResult"]]


@both
def test_a_second_result_of_one_call_is_a_users_text(format: str) -> None:
    _, losses = made(format, user("q"), calling("a"), result("a"), result("a"), assistant("ok"), user("r"))
    assert losses == [[3, "orphanResult"]]


@both
def test_a_result_moves_to_its_call(format: str) -> None:
    body, losses = made(
        format, user("q"), calling("a"), user("hurry"), assistant("soon"), result("a", "late"), user("r")
    )
    said = json.dumps(body)
    assert said.index("late") < said.index("hurry") < said.index("soon")
    assert losses == [[4, "order"]]


@both
def test_an_id_that_is_used_again_belongs_to_the_nearest_call(format: str) -> None:
    messages = [
        user("q"),
        calling("a"),
        result("a", "one"),
        calling("a", "a"),
        result("a", "two"),
        result("a", "three"),
    ]
    body, losses = made(format, *messages)
    said = json.dumps(body)
    assert losses == []
    assert [said.count(f'"{each}"') for each in ("a", "a_2", "a_3")] == [2, 2, 2]
    assert said.index('"one"') < said.index('"two"') < said.index('"three"')


def test_ids_as_each_provider_takes_them() -> None:
    odd, long = "functions.look:0", "x" * 50
    messages = [user("q"), calling(odd, long, "", "\n"), *(result(each) for each in (odd, long, "", "\n"))]
    body, losses = made("openai", *messages)
    assert [each["id"] for each in body["messages"][1]["tool_calls"]] == [odd, "x" * 40, "_", "__2"]
    assert losses == []
    body, losses = made("anthropic", *messages)
    assert [each["id"] for each in body["messages"][1]["content"]] == ["functions_look_0", long, "_", "__2"]
    assert losses == []


@both
def test_tools_names_as_providers_take_them(format: str) -> None:
    names = ["mcp.files/read", "読む", "n" * 70, "fine-1"]
    calls = [call(str(at), name) for at, name in enumerate(names)]
    body, losses = made(format, user("q"), calling(*calls), *(result(str(at)) for at in range(4)))
    said = json.dumps(body)
    assert all(f'"{name}"' in said for name in ("mcp_files_read", "__", "n" * 64, "fine-1"))
    assert losses == [[1, "toolName"]] * 3


@both
def test_a_call_of_no_function_is_left_out(format: str) -> None:
    calls = [{"type": "custom", "id": "c"}, {"id": "d", "function": {"name": ""}}, 5, call("a")]
    body, losses = made(format, user("q"), calling(*calls), result("a"))  # type: ignore[arg-type]
    assert json.dumps(body).count('"look"') == 1
    assert losses == [[1, "toolCall"]] * 3


@pytest.mark.parametrize(
    ("arguments", "sent", "lost"),
    [
        ('{"a": [1, 2.5, "x"]}', {"a": [1, 2.5, "x"]}, False),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}, False),
        ({"a": 1}, {"a": 1}, False),
        ("", {}, False),
        (None, {}, False),
        ('{"a": 1', {"arguments": '{"a": 1'}, True),
        ("[1]", {"arguments": "[1]"}, True),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}, True),
        ('{"a": "\\ud800"}', {"arguments": '{"a": "\\ud800"}'}, True),
        ('{"a": 1e999}', {"arguments": '{"a": 1e999}'}, True),
        ("\ud800", {"arguments": "�"}, True),
        ('{"a":' + "[" * 5000 + "]" * 5000 + "}", {"arguments": '{"a":' + "[" * 5000 + "]" * 5000 + "}"}, True),
        ('{"a":' + "[" * 200 + "]" * 200 + "}", {"arguments": '{"a":' + "[" * 200 + "]" * 200 + "}"}, True),
        ({"a": float("nan")}, {}, True),
    ],
    ids=lambda value: str(value)[:20].encode("ascii", "replace").decode(),
)
def test_arguments_are_an_object_for_anthropic_and_text_for_openai(arguments: Any, sent: Json, lost: bool) -> None:
    messages = [user("q"), calling(call("a", arguments=arguments)), result("a")]
    body, losses = made("anthropic", *messages)
    assert body["messages"][1]["content"][0]["input"] == sent
    assert losses == [[1, "arguments"]] * lost
    body, losses = made("openai", *messages)
    text = body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(text) == sent
    assert lost or not isinstance(arguments, str) or text == (arguments or "{}"), "as the model wrote it"
    assert losses == [[1, "arguments"]] * lost


def test_system_messages() -> None:
    messages = [
        {"role": "developer", "content": "one"},
        user("q"),
        assistant("a"),
        {"role": "system", "content": "two"},
    ]
    body, losses = made("openai", *messages, user("r"), system="S")
    assert [message["role"] for message in body["messages"]] == [
        *("system", "system", "user", "assistant", "system", "user")
    ]
    assert losses == []
    body, losses = made("anthropic", *messages, user("r"), system="S")
    assert body["system"] == "S\n\none"
    assert body["messages"][-1]["content"] == [text("<system>two</system>"), text("r")]
    assert losses == [[3, "system"]]


@both
@pytest.mark.parametrize("prompt", [None, "", " \n"])
def test_without_a_system_prompt_there_is_none(format: str, prompt: str | None) -> None:
    body, _ = made(format, user("q"), system=prompt)
    assert "system" not in json.dumps(body)


@both
def test_an_unknown_role_is_a_users_and_named(format: str) -> None:
    body, losses = made(format, {"role": "critic", "content": "bad"}, {"content": "x"})
    assert body["messages"][0]["role"] == "user"
    assert "(critic:)" in json.dumps(body)
    assert losses == [[0, "role"], [1, "role"]]


def test_names() -> None:
    messages = [{**user("a"), "name": "ada"}, {**user("b"), "name": "ada l."}, {**user("c"), "name": ""}]
    body, losses = made("openai", *messages)
    assert [message.get("name") for message in body["messages"]] == ["ada", None, None]
    assert losses == [[1, "name"]]
    assert made("anthropic", *messages)[1] == [[0, "name"], [1, "name"]]


@both
@pytest.mark.parametrize("content", ["", " \n\t", [], None, 5.5, [text(""), text("  ")], {}])
def test_messages_that_say_nothing_are_left_out(format: str, content: Any) -> None:
    body, losses = made(format, user("q"), assistant(content), user("r"))
    if content in (5.5, {}):
        assert losses == [[1, "part"]]
    else:
        assert "assistant" not in json.dumps(body)
        assert losses == [[1, "empty"]]


def test_anthropic_hears_a_user_first_and_last() -> None:
    body, losses = made("anthropic", assistant("hello"))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][2] == GO_ON
    assert losses == [[None, "userAdded"], [None, "userAdded"]]
    body, losses = made("openai", assistant("hello"))
    assert body["messages"] == [assistant("hello")]
    assert losses == []


@both
def test_nothing_at_all_is_a_body_too(format: str) -> None:
    body, losses = made(format)
    assert len(body["messages"]) == 1
    assert losses == [[None, "userAdded"]]


@both
def test_half_of_a_surrogate_pair_cannot_spoil_a_body(format: str) -> None:
    half = "a\ud83d"
    body, _ = made(
        format, user(half), calling(call("i", arguments=half), content=half), result("i", half), {"role": half, "content": half},
        system=half,
    )  # fmt: skip
    assert json.dumps(body, ensure_ascii=False).count("a�") >= 5


@both
def test_what_is_too_large_is_refused_before_it_is_all_read(format: str) -> None:
    transcript = Transcript(None, format_of(format), 1000)
    transcript.add(0, user("x" * 900))
    with pytest.raises(TooLargeError) as refused:
        transcript.add(1, user("y" * 100))
    assert refused.value.data == {"limit": "maxBytes", "maximum": 1000}
    lean = Transcript(None, format_of(format), 1000)
    for index in range(20):  # what is left out does not count
        lean.add(index, user([{"type": "video_url", "video_url": {"url": "x" * 900}}]))


def test_losses_beyond_the_first_thousand_are_counted() -> None:
    transcript = Transcript(None, format_of("openai"), 1 << 20)
    for index in range(MOST + 5):
        transcript.add(index, user(""))
    assert (transcript.losses.count, len(transcript.losses.listed())) == (MOST + 5, MOST)


@both
def test_real_sessions(session_file: Path, format: str) -> None:
    records = [json.loads(line) for line in session_file.read_text("utf-8").splitlines() if line.strip()]
    prompts = [record["content"] for record in records if record["role"] == "_system_prompt"]
    messages = [record for record in records if not record["role"].startswith("_")]
    body, losses = made(format, *messages, system=prompts[-1] if prompts else None)
    assert {kind for _, kind in losses} <= {"think", "userAdded"}
    said = json.dumps(body, ensure_ascii=False)
    for message in messages:
        for each in message.get("tool_calls") or ():
            assert said.count(json.dumps(each["id"])) >= 2


ids = st.sampled_from(["a", "b", "c:1", ""])
parts = st.sampled_from(
    [
        text("x"), text(" "), image(f"data:image/png;base64,{PNG}"), image("ftp://x"), {"type": "odd"},
        {"type": "think", "think": "t", "encrypted": "s"}, {"type": "think", "think": "t"}, {"type": "audio_url"},
    ]
)  # fmt: skip
contents = st.one_of(st.sampled_from(["", "x", None]), st.lists(parts, max_size=3))
calls_ = st.builds(call, ids, st.sampled_from(["f", "g.h"]), st.sampled_from(["{}", "[]", None, '{"a":1}']))
histories = st.lists(
    st.one_of(
        st.builds(user, contents),
        st.builds(assistant, contents),
        st.builds(lambda content, calls: assistant(content, tool_calls=calls), contents, st.lists(calls_, max_size=3)),
        st.builds(result, ids, contents),
        st.builds(
            lambda role, content: {"role": role, "content": content}, st.sampled_from(["system", "odd"]), contents
        ),
    ),
    max_size=12,
)


@both
@given(histories)
def test_whatever_the_history_the_provider_accepts_it(format: str, history: list[Json]) -> None:
    made(format, *history)
