from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeleap_agents.hooks.json_text import document, items, member, root, with_item, without_item

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)
LAYOUTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@given(OBJECTS, LAYOUTS, VALUES)
def test_a_member_is_added_and_nothing_else_is_touched(value: Any, indent: Any, added: Any) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    changed = with_item(text, 0, added, "new one")
    assert json.loads(changed) == {**value, "new one": added}
    assert changed.startswith(text.rstrip("}").rstrip() if value else "{")


@given(OBJECTS.filter(bool), LAYOUTS, VALUES)
def test_what_was_added_to_others_is_taken_out_again_byte_for_byte(value: Any, indent: Any, added: Any) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    changed = with_item(text, 0, added, "new one")
    assert without_item(changed, 0, len(items(changed, 0)[0]) - 1) == text


@given(st.lists(VALUES, min_size=1, max_size=5), LAYOUTS, st.data())
def test_any_element_can_be_taken_out(values: Any, indent: Any, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(values) - 1))
    shorter = without_item(json.dumps(values, indent=indent), 0, position)
    assert json.loads(shorter) == values[:position] + values[position + 1 :]


def test_a_file_is_written_on_as_it_is_written() -> None:
    assert with_item('{"a": 1, "b": 2}', 0, [3], "c") == '{"a": 1, "b": 2, "c": [3]}'
    assert with_item('{\n\t"a": 1\n}\n', 0, [3], "c") == '{\n\t"a": 1,\n\t"c": [\n\t\t3\n\t]\n}\n'
    assert with_item('{\r\n  "a": 1\r\n}', 0, [3], "c") == '{\r\n  "a": 1,\r\n  "c": [\r\n    3\r\n  ]\r\n}'
    assert with_item("{}", 0, 3, "c") == '{\n  "c": 3\n}'


def test_strings_that_look_like_structure_mislead_nobody() -> None:
    text = '{"a]}": ["{", ",", "\\"}"], "b": {}}'
    found = member(text, root(text), "a]}")
    assert found is not None
    assert text[found.value : found.end] == '["{", ",", "\\"}"]'
    assert json.loads(with_item(text, found.value, "x"))["a]}"] == ["{", ",", '"}', "x"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 2}', "two members called 'a'"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": 1,}', "line 1"),
        ('{"a": 1} // so', "Extra data"),
        ("", "line 1"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_plain_json_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        document(text)
