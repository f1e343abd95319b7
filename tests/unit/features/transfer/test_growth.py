"""Work on a stranger's text grows with the text and no faster, whatever it repeats."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.growth import PATHOLOGICAL, grows_too_fast

from timeleap.cli import formatting
from timeleap.features.compaction import fact_patterns, scorecard
from timeleap.features.compaction.codestate import CodeState
from timeleap.features.transfer import markdown, page
from timeleap.features.transfer.exhibit import Said
from timeleap.features.transfer_losses import LossTally
from timeleap.message_text import harmless, one_line, plain_line
from timeleap.store.creation import usable_title


def exported(role: str, **more: Any) -> Callable[[str], str]:
    def message(text: str) -> str:
        return "".join(markdown._message(Said(0, {"role": role, "content": text, **more}), LossTally()))

    return message


def called(text: str) -> str:
    return markdown._call({"function": {"name": text, "arguments": text}})


WORK: dict[str, Callable[[str], object]] = {
    "inert": markdown.inert_markdown,
    "user": exported("user"),
    "tool": exported("tool"),
    "thought": lambda text: markdown._part({"type": "think", "think": text}, "assistant", LossTally()),
    "call": called,
    "plain": markdown._plain,
    "page": lambda text: page.safe_json({"content": text}),
    "title": usable_title,
    "terminal": formatting.safe,
    "cell": formatting.cell,
    "line": lambda text: (one_line(text), plain_line(text), harmless(text)),
    "sentences": lambda text: list(fact_patterns.sentences(text)),
    "paths": lambda text: list(fact_patterns.lines(text)),
    "addresses": fact_patterns._URL.findall,
    "scored addresses": scorecard._URL.findall,
    "files": lambda text: CodeState().carry_on(text),
    "tags": lambda text: fact_patterns.parted(text, "command", " "),
}


@pytest.mark.no_cover  # of the same lines, two hundred times
@pytest.mark.parametrize("work", WORK)
def test_twice_the_text_is_not_four_times_the_work(work: str) -> None:
    assert [unit for unit in PATHOLOGICAL if grows_too_fast(WORK[work], unit)] == []


def test_deep_arguments_are_not_mostly_blanks() -> None:
    deep = "[" * 300 + ",".join("1" * 3000) + "]" * 300
    assert len(called(deep)) < 3 * len(deep)
    assert json.loads(called(deep).partition("```json\n")[2].partition("\n```")[0]) == json.loads(deep)


@pytest.mark.parametrize(
    ("text", "rest", "found"),
    [
        ("a<t>b</t>c", "ac", ["b"]),
        ("<t>1</t><t>2</t>", "", ["1", "2"]),
        ("<t><t>1</t>2</t>", "2</t>", ["<t>1"]),
        ("</t>a<t>b", "</t>a<t>b", []),
    ],
)
def test_tags_are_taken_out_in_pairs(text: str, rest: str, found: list[str]) -> None:
    assert fact_patterns.parted(text, "t") == (rest, found)
