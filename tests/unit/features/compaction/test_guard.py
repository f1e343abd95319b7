"""A cut never parts a tool call from its result."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from timeleap.features.compaction.prepare import safe_cut
from timeleap.message_text import answered, called

Record = dict[str, Any]


def say(role: str) -> Record:
    return {"role": role, "content": "x"}


def call(*ids: str) -> Record:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": i, "function": {"name": "f"}} for i in ids]}


def result(id_: str) -> Record:
    return {"role": "tool", "content": "r", "tool_call_id": id_}


def test_a_cut_between_turns_stays() -> None:
    messages = [say("user"), call("a"), result("a"), say("user"), say("assistant")]
    assert [safe_cut(messages, wanted) for wanted in range(6)] == [0, 1, 1, 3, 4, 5]


def test_a_cut_moves_before_the_call() -> None:
    messages = [say("user"), call("a", "b"), result("a"), say("user"), result("b"), say("assistant")]
    assert safe_cut(messages, 3) == 1
    assert safe_cut(messages, 5) == 5


def test_what_is_pulled_in_pulls_in_its_own_calls() -> None:
    messages = [call("a"), call("b"), result("a"), say("user"), result("b")]
    assert safe_cut(messages, 3) == 0


def test_an_id_used_again_belongs_to_the_nearest_call() -> None:
    messages = [call("x"), result("x"), call("x"), result("x"), call("x"), result("x")]
    assert [safe_cut(messages, wanted) for wanted in range(6)] == [0, 0, 2, 2, 4, 4]


def test_a_call_that_still_waits_for_its_result_is_kept() -> None:
    messages = [say("user"), call("a"), say("user"), say("user")]
    assert safe_cut(messages, 2) == 1
    assert safe_cut([*messages, say("assistant")], 2) == 2, "the model went on without the result"
    assert safe_cut([say("user"), call("a"), result("a"), say("user")], 3) == 3


def test_a_result_without_a_call_does_not_matter() -> None:
    assert safe_cut([say("user"), result("lost"), say("user")], 1) == 1
    assert safe_cut([say("user"), call("a"), result("lost"), say("assistant")], 2) == 2


def test_what_is_no_list_of_calls_calls_nothing() -> None:
    assert called({"role": "assistant", "tool_calls": 5}) == set()
    assert called({"role": "assistant", "tool_calls": [5, {"id": 5}, {"id": "a"}]}) == {"a"}
    assert answered({"role": "tool", "tool_call_id": 5}) == set()


IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.lists(
    st.sampled_from([say("user"), say("assistant")])
    | st.lists(IDS, min_size=1, max_size=2, unique=True).map(lambda ids: call(*ids))
    | IDS.map(result),
    max_size=12,
)


@given(MESSAGES, st.data())
def test_no_pair_is_ever_parted(messages: list[Record], data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, len(messages)))
    cut = safe_cut(messages, wanted)
    assert 0 <= cut <= wanted
    for index in range(cut, len(messages)):
        for answer in answered(messages[index]):
            callers = [place for place in range(index) if answer in called(messages[place])]
            assert not callers or callers[-1] >= cut
    assert safe_cut(messages, cut) == cut
