"""What is looked for: words and expressions; the places are right to the unit, and nothing explodes."""

from __future__ import annotations

import json
import re
import sys
import time
import unicodedata
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.features.search.test_wording import CHARACTERS, TEXTS, units

from timeleap.errors import InvalidInputError
from timeleap.features.search.pattern import pattern, utf16_length
from timeleap.features.search.search import text_of
from timeleap.storage.record import decode_json

QUERIES = st.text(CHARACTERS, min_size=1, max_size=3)


def spans(query: str, text: str, **options: bool) -> list[tuple[int, int]]:
    return [one for one in pattern(query, **options).spans(text) if one is not None]


def found(query: str, text: str, **options: bool) -> list[str]:
    """The pieces of a text that the spans name."""
    return [b"".join(units(text)[start:end]).decode("utf-16-le") for start, end in spans(query, text, **options)]


def model(query: str, text: str) -> list[tuple[int, int]]:
    """Every place of a literal, by Python's own engine, counted the slow way."""
    places = (match.span() for match in re.finditer(re.escape(query), text))
    return [(utf16_length(text[:start]), utf16_length(text[:end])) for start, end in places]


def model_of_forms(query: str, text: str) -> list[tuple[int, int]]:
    """Every place of a text that is the query once both are composed, the slow way."""
    wanted, places, at = unicodedata.normalize("NFC", query), [], 0
    while at < len(text):
        ends = (end for end in range(at + 1, len(text) + 1) if unicodedata.normalize("NFC", text[at:end]) == wanted)
        end = next(ends, None)
        if end is not None:
            places.append((utf16_length(text[:at]), utf16_length(text[:end])))
        at = end or at + 1
    return places


@settings(deadline=None)
@given(QUERIES, TEXTS)
def test_words_are_found_where_they_stand(query: str, text: str) -> None:
    assert spans(query, text) == model_of_forms(query, text)


WRITTEN = ["Café", "naïve", "Ångström", "Tiếng Việt", "프로젝트", "ñandú.py", "プロジェクト", "Straße", "Ḗ"]


@pytest.mark.parametrize("word", WRITTEN)
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
@pytest.mark.parametrize("said", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "options", [{}, {"ignore_case": True}, {"regex": True}, {"regex": True, "ignore_case": True}], ids=str
)
def test_composed_and_decomposed_text_is_found_alike(
    word: str, asked: Any, said: Any, options: dict[str, bool]
) -> None:
    query, text = unicodedata.normalize(asked, word), unicodedata.normalize(said, f"in {word}, and {word}")
    assert found(query, text, **options) == [unicodedata.normalize(said, word)] * 2
    for ascii_only in (False, True):
        line = json.dumps({"role": "user", "content": text}, ensure_ascii=ascii_only).encode()
        assert pattern(query, **options).may_be_in(line)


def test_a_class_of_an_expression_stays_as_it_is() -> None:
    assert found("[é-ü]x", "éx e\u0301x üx", regex=True) == ["éx", "üx"]
    assert found(r"\[é\]", "[e\u0301]", regex=True) == ["[e\u0301]"]


@settings(deadline=None)
@given(QUERIES, TEXTS)
def test_an_expression_for_the_same_words_finds_the_same_places(query: str, text: str) -> None:
    expression = "".join(rf"\x{{{ord(character):x}}}" for character in query)
    assert spans(expression, text, regex=True) == model(query, text)


@settings(deadline=None)
@given(QUERIES, st.lists(TEXTS, max_size=3), st.booleans(), st.booleans())
def test_no_record_is_passed_over_in_which_the_words_stand(
    query: str, texts: list[str], ascii_only: bool, slashes: bool
) -> None:
    several: Any = [{"type": "text", "text": one} for one in [*texts, query]]
    for content in (several, "".join(texts) + query):
        record = {"role": "user", "content": content}
        line = json.dumps(record, ensure_ascii=ascii_only)
        if slashes:
            line = line.replace("/", "\\/")
        assert spans(query, text_of(record))
        assert pattern(query).may_be_in(line.encode())


SHORT = {"\n": "\\n", "\t": "\\t", "\b": "\\b", "/": "\\/", '"': '\\"', "\\": "\\\\"}
LETTERS = st.one_of(CHARACTERS, st.sampled_from("aAkK\u212asSſ\t\b\x1b\n/\ufffd"))
PHRASES = st.text(LETTERS, min_size=1, max_size=4)


@st.composite
def spelled(draw: st.DrawFn, text: str, half: bool = False) -> str:
    """A JSON string in any of its spellings, raw control characters and halves of pairs included."""
    found = []
    for character in text:
        raw = character.encode("utf-16-be", "surrogatepass")
        escape = "".join(f"\\u{raw[at : at + 2].hex()}" for at in range(0, len(raw), 2))
        ways = [escape, escape.upper().replace("\\U", "\\u")]
        if character not in '"\\\n' and not "\ud800" <= character <= "\udfff":
            ways += [character] * 4
        if character in SHORT:
            ways += [SHORT[character]] * 4
        found.append(draw(st.sampled_from(ways)))
    if half and draw(st.integers(0, 3)) == 0:
        found.insert(draw(st.integers(0, len(found))), draw(st.sampled_from(["\\uD83D", "\\udead"])))
    return '"' + "".join(found) + '"'


@st.composite
def written_records(draw: st.DrawFn, pieces: list[str]) -> str:
    """A message with these texts in parts of it, written by a program with habits of its own."""

    def key(name: str) -> str:
        return draw(spelled(name)) if draw(st.integers(0, 5)) == 0 else f'"{name}"'

    space = draw(st.sampled_from(["", " "]))
    parts, calls = [], []
    for piece in pieces:
        match draw(st.sampled_from(["text", "text", "think", "name", "arguments"])):
            case "text" | "think" as kind:
                members = [f"{key('type')}:{space}{key(kind)}", f"{key(kind)}:{space}{draw(spelled(piece, True))}"]
                parts.append("{" + ",".join(draw(st.permutations(members))) + "}")
            case name:
                calls.append(f"{{{key('function')}:{{{key(name)}:{space}{draw(spelled(piece, True))}}}}}")
    content = f"[{','.join(parts)}]"
    if draw(st.booleans()) and not parts:
        content = draw(spelled(draw(TEXTS)))
    return f'{{{key("role")}:{space}"user",{key("content")}:{space}{content},{key("tool_calls")}:[{",".join(calls)}]}}'


@settings(deadline=None, max_examples=500)
@given(st.data(), PHRASES, st.lists(st.one_of(TEXTS, PHRASES), max_size=3), st.booleans(), st.booleans())
@pytest.mark.long
def test_no_spelling_of_a_message_hides_the_words(
    data: st.DataObject, query: str, others: list[str], split: bool, ignore_case: bool
) -> None:
    said = query.swapcase() if ignore_case and data.draw(st.booleans()) else query
    cut = data.draw(st.integers(0, len(said))) if split else 0
    pieces = [said] if not split else [said[:cut], said[cut:]]
    at = data.draw(st.integers(0, len(others)))
    line = data.draw(written_records([*others[:at], *pieces, *others[at:]])).encode()
    looked_for = pattern(query, ignore_case=ignore_case)
    if spans(query, text_of(decode_json(line)), ignore_case=ignore_case):
        assert looked_for.may_be_in(line)
        assert looked_for.may_be_in(b'{"role":"user","content":"hay"}\n' + line + b"\n")


def test_words_across_two_parts_are_found() -> None:
    record = {"role": "user", "content": [{"type": "text", "text": "nee"}, {"type": "text", "text": "dle"}]}
    assert pattern("needle").may_be_in(json.dumps(record).encode())
    assert spans("needle", text_of(record)) == [(0, 6)]


def test_most_records_without_the_words_are_passed_over_unparsed() -> None:
    line = b'{"role":"user","content":[{"type":"text","text":"hay \xf0\x9f\x98\x80 \\n \\" stack"}]}'
    assert not pattern("needle").may_be_in(line)
    assert pattern("hay").may_be_in(line)


@pytest.mark.parametrize(
    ("query", "text", "pieces"),
    [
        ("a.c", "abc a\nc aéc a😀c", ["abc", "aéc", "a😀c"]),
        (r"\bfix\w*", "fixed prefix fix", ["fixed", "fix"]),
        ("(?i)über", "ÜBER über", ["ÜBER", "über"]),
        ("x*", "axxa", ["xx"]),
        ("^|$", "abc", []),
        (r"(?m)^\d+", "1 a\n22 b", ["1", "22"]),
        (r"\p{Greek}+", "abc αβγ", ["αβγ"]),
        (r"\C", "é", ["é"]),
    ],
)
def test_expressions(query: str, text: str, pieces: list[str]) -> None:
    assert found(query, text, regex=True) == pieces


def test_case_is_ignored_where_that_is_asked_for() -> None:
    assert found("STRASSE.", "Strasse. strasse! ", ignore_case=True) == ["Strasse."]
    assert found("É", "été", ignore_case=True) == ["é", "é"]
    assert found("a|b", "A|B", ignore_case=True) == ["A|B"]
    assert found("a|b", "AxB", ignore_case=True, regex=True) == ["A", "B"]
    assert found("É", "été") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("uml[aut", "missing ] at character 3: [aut"),
        ("ü(a", "missing ) at character 0: ü(a"),
        ("ab**", "bad repetition operator at character 2: **"),
        ("x(?=y)", "invalid perl operator at character 1: (?="),
        (r"(a)\1", r"invalid escape sequence at character 3: \1"),
        ("a{1001}", "invalid repetition size at character 1: {1001}"),
        ("end\\", "trailing \\"),
        ("((a{1000}){1000}){1000}", "invalid repetition size"),
        ("half \ud800", "half of a surrogate pair at character 5"),
    ],
)
def test_a_bad_expression_is_refused_and_says_where(query: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        pattern(query, regex=True)
    (problem,) = refusal.value.data["errors"]
    assert problem["loc"] == ["query"] and problem["type"] == "regex"
    assert problem["msg"].startswith(said)


@pytest.mark.parametrize(
    "query", ["(a+)+$", "(a|aa)+$", "(x+x+)+y", "(.*)*=(.*)*;", "(a|a|a|a)*b", "(?:a?){100}a{100}b"]
)
def test_nothing_explodes(query: str) -> None:
    text = "a" * 50_000 + "!" + "x" * 50_000
    began = time.process_time()
    list(islice(pattern(query, regex=True).spans(text), 10))
    assert time.process_time() - began < 5


def test_a_long_text_without_a_match_leaves_moments_for_others() -> None:
    moments = list(islice(pattern("x*", regex=True).spans("a" * 100_000), 20))
    assert moments == [None] * 20


def test_a_large_expression_is_too_dear_for_a_long_text_only() -> None:
    large = pattern("|".join(f"[ab]{{1,{1000 - number}}}{number}" for number in range(8)), regex=True)
    assert large.too_dear("a" * 1_000_000) and not large.too_dear("a" * 10_000)
    for small in (pattern("a", regex=True), pattern(r"(\w+)\s*=\s*(\w+)", regex=True), pattern("a")):
        assert not small.too_dear("a" * 32_000_000)


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra, as on Alpine."""
    monkeypatch.setitem(sys.modules, "re2", None)


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize("word", WRITTEN)
@pytest.mark.parametrize("said", ["NFC", "NFD"])
@pytest.mark.parametrize("options", [{}, {"ignore_case": True}], ids=str)
def test_words_are_found_without_re2(word: str, said: Any, options: dict[str, bool]) -> None:
    text = unicodedata.normalize(said, f"in {word}, and 🦉 {word}")
    query = word.upper() if options and word.upper().lower() == word.lower() else word
    assert found(query, text, **options) == [unicodedata.normalize(said, word)] * 2
    assert pattern(query, **options).may_be_in(json.dumps({"role": "user", "content": text}).encode())


@pytest.mark.usefixtures("without_re2")
def test_an_expression_without_re2_is_refused_with_the_way_to_get_it() -> None:
    with pytest.raises(InvalidInputError, match=r"pip install 'timeleap\[regex\]'"):
        pattern("a+", regex=True)


@pytest.mark.usefixtures("without_re2")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUERIES, TEXTS)
def test_words_without_re2_are_found_where_they_stand(query: str, text: str) -> None:
    assert spans(query, text) == model_of_forms(query, text)
