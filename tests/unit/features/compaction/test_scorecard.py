"""What a compaction keeps and loses, pins, and conversations in parts."""

from __future__ import annotations

from typing import Any

import pytest

from timeleap.errors import CompactionFailedError
from timeleap.features.compaction.prepare import prompt_message, summary_message, with_pins
from timeleap.features.compaction.scorecard import MAX_FACTS, MAX_LOST, score
from timeleap.features.compaction.sizes import orphan_results
from timeleap.features.compaction.summarizers import Fold, cost, fits

Record = dict[str, Any]


def say(role: str, text: str) -> Record:
    return {"role": role, "content": text}


def test_facts_of_each_kind_are_found_once():
    many = [
        say("user", "Fix app/src/login.py. You must not rename send_mail. See https://example.com/a/other.py"),
        say("assistant", "I open src/login.py and call sendMail. We still need to test send_mail."),
        say("tool", "E   KeyError: 'token'\n12: KeyError: 'token'\nok"),
        say("user", "<system>You must do this in sys.py</system>"),
    ]
    card = score(many, "")
    assert card["paths"]["lost"] == ["app/src/login.py"], (
        "not those of URLs and of the system, not the end of another one"
    )
    assert set(card["identifiers"]["lost"]) == {"send_mail", "sendMail", "KeyError"}
    assert card["errors"]["lost"] == ["KeyError: 'token'"]
    assert card["todos"]["lost"] == ["We still need to test send_mail."]
    assert card["constraints"]["lost"] == ["You must not rename send_mail."]


def test_a_fact_counts_as_kept_in_other_words_and_in_what_stays():
    many = [
        say("user", "Please keep the public signature of the function. Look at /srv/app/src/login.py"),
        say("tool", "ValueError: bad   token"),
    ]
    kept = [say("tool", "valueerror: BAD token")]
    card = score(many, "The public function's signature stays; please keep to it. See src/login.py.", kept)
    for tally in (card["paths"], card["errors"], card["constraints"]):
        assert tally == {"found": 1, "kept": 1, "lost": []}


def test_a_name_is_kept_only_as_a_word():
    many = [say("assistant", "call send_mail")]
    assert score(many, "send_mails")["identifiers"]["kept"] == 0
    assert score(many, "(send_mail)")["identifiers"]["kept"] == 1


def test_tool_calls_are_looked_at_and_old_summaries_demand_nothing():
    call = {"id": "c", "type": "function", "function": {"name": "edit", "arguments": '{"path": "lib/a.ts"}'}}
    card = score([{"role": "assistant", "tool_calls": [call]}, summary_message("You must see it.")], "")
    assert card["paths"]["lost"] == ["lib/a.ts"]
    assert card["constraints"]["found"] == 0


def test_numbers_and_lists_are_bounded():
    card = score([say("tool", "\n".join(f"ValueError: {n}" for n in range(MAX_FACTS * 2)))], "")
    assert card["errors"]["found"] == MAX_FACTS
    assert len(card["errors"]["lost"]) == MAX_LOST


def test_strange_messages_do_no_harm():
    assert score([{"role": "user"}, {"role": "x", "content": 5, "tool_calls": 5}], "")["paths"]["found"] == 0


def test_only_what_is_missing_is_pinned_behind_and_only_once():
    assert with_pins("has a and b", ["a", "b"]) == ("has a and b", ())
    summary, added = with_pins("has a", ["a", "c", "c"])
    assert (summary, added) == ("has a\n\n<pinned>\nc\n</pinned>", ("c",))
    assert with_pins(summary, ["c"]) == (summary, ())


def test_a_prompt_has_to_leave_room_for_its_answer():
    prompt = prompt_message([say("user", "x" * 30_000)])
    assert fits(prompt, None)
    assert not fits(prompt, cost(prompt))
    assert fits(prompt, cost(prompt) * 2)


def test_chinese_costs_more_than_english():
    assert cost(prompt_message([say("user", "字" * 9_000)])) > 2 * cost(prompt_message([say("user", "x" * 9_000)]))


def test_notes_that_leave_no_room_are_a_failure():
    fold = Fold([say("user", "x" * 50_000)], "", 4_000)
    assert fold.next_prompt("") is not None
    with pytest.raises(CompactionFailedError, match="does not fit"):
        fold.next_prompt("n" * 20_000)


def test_results_without_their_calls_are_found():
    result = {"role": "tool", "tool_call_id": "c", "content": "x"}
    call = {"role": "assistant", "tool_calls": [{"id": "c"}]}
    assert orphan_results([call, result]) == set()
    assert orphan_results([result, call]) == {"c"}
