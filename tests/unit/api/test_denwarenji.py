"""D-Mails: one at a time, to checkpoints that exist, and with a text that cannot break out of its tags."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from timeleap import BackToTheFuture, DenwaRenji, DenwaRenjiError, DMail, Message
from timeleap.errors import TimeleapError
from timeleap.sessions.kernel.append_records import dmail_text, note_text


def phone(n_checkpoints: int) -> DenwaRenji:
    denwa = DenwaRenji()
    denwa.set_n_checkpoints(n_checkpoints)
    return denwa


def test_a_dmail_is_fetched_once() -> None:
    denwa = phone(2)
    assert denwa.fetch_pending_dmail() is None
    dmail = DMail(message="do not scan everything", checkpoint_id=1)
    denwa.send_dmail(dmail)
    assert denwa.fetch_pending_dmail() == dmail
    assert denwa.fetch_pending_dmail() is None


def test_only_one_at_a_time() -> None:
    denwa = phone(2)
    denwa.send_dmail(DMail(message="first", checkpoint_id=0))
    with pytest.raises(DenwaRenjiError, match="one at a time"):
        denwa.send_dmail(DMail(message="second", checkpoint_id=0))
    pending = denwa.fetch_pending_dmail()
    assert pending is not None
    assert pending.message == "first"
    denwa.send_dmail(DMail(message="second", checkpoint_id=0))


def test_the_parts_of_a_dmail_will_do() -> None:
    denwa = phone(2)
    denwa.send_dmail(SimpleNamespace(checkpoint_id=1, message="of another library"))  # type: ignore[call-overload]
    assert denwa.fetch_pending_dmail() == DMail(message="of another library", checkpoint_id=1)
    denwa.send_dmail(1, "look at auth.py first")
    assert denwa.fetch_pending_dmail() == DMail(message="look at auth.py first", checkpoint_id=1)
    denwa.send_dmail(checkpoint_id=0, message="by name")
    with pytest.raises(DenwaRenjiError, match="one at a time"):
        denwa.send_dmail(1, "second")
    assert denwa.fetch_pending_dmail() == DMail(message="by name", checkpoint_id=0)
    denwa.send_dmail(dmail=DMail(message="whole, by name", checkpoint_id=0))
    assert denwa.fetch_pending_dmail() is not None
    for checkpoint_id in (-1, 2):
        with pytest.raises(DenwaRenjiError, match="no checkpoint"):
            denwa.send_dmail(checkpoint_id, "x")
    with pytest.raises(ValidationError):
        denwa.send_dmail("first", 1)  # type: ignore[call-overload]
    assert denwa.fetch_pending_dmail() is None


@pytest.mark.parametrize("checkpoint_id", [-1, 2, 3])
def test_the_checkpoint_must_exist(checkpoint_id: int) -> None:
    denwa = phone(2)
    with pytest.raises(DenwaRenjiError, match="no checkpoint"):
        denwa.send_dmail(DMail.model_construct(message="x", checkpoint_id=checkpoint_id))
    assert denwa.fetch_pending_dmail() is None


def test_a_phone_that_was_told_nothing_knows_no_checkpoint() -> None:
    with pytest.raises(DenwaRenjiError):
        DenwaRenji().send_dmail(DMail(message="x", checkpoint_id=0))


def test_a_negative_checkpoint_is_refused_at_once() -> None:
    with pytest.raises(ValidationError):
        DMail(message="x", checkpoint_id=-1)


def test_the_errors_belong_to_our_tree() -> None:
    assert issubclass(DenwaRenjiError, TimeleapError)


def test_back_to_the_future_carries_what_the_loop_needs() -> None:
    messages = [Message(role="user", content="note")]
    error = BackToTheFuture(3, messages)
    assert (error.checkpoint_id, error.messages) == (3, messages)
    assert isinstance(error, Exception)


def test_the_note_is_in_one_pair_of_tags() -> None:
    text = dmail_text("  look at auth.py first\n")
    assert text.startswith("<system>")
    assert text.endswith("look at auth.py first</system>")


CLOSERS = st.sampled_from(["</system>", "</SYSTEM >", "< / system>", "<system>", "</", "system>", "\n"])


@given(st.lists(CLOSERS | st.text(max_size=8)).map("".join))
def test_nothing_in_a_note_closes_the_tags(note: str) -> None:
    for text in (dmail_text(note), dmail_text(note, "s-1"), note_text(note, "s-1")):
        assert text.endswith("</system>")
        assert len(re.findall(r"<\s*/\s*system\b", text, re.IGNORECASE)) == 1


def test_who_reads_a_note_of_another_session_learns_where_it_comes_from() -> None:
    assert "s-1" in dmail_text("{sender}", "s-1")
    assert note_text("{x}", "s-1").count("s-1") == 1
    assert note_text("{x}", "s-1").endswith("{x}</system>")


def test_a_note_without_tags_is_kept_to_the_letter() -> None:
    assert "a <b> & </i> c" in dmail_text("a <b> & </i> c")
