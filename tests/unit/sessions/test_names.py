from __future__ import annotations

import pytest

from timeleap import clock
from timeleap.errors import InvalidSessionIdError
from timeleap.sessions import past
from timeleap.store import creation
from timeleap.store import home as names


@pytest.mark.parametrize("good", ["a", "A1", "0", "a" * 64, "a.b", "a_b-c.d", "console", "com10", "8f14e45f-ceea-467a"])
def test_ids_of_the_contract_are_taken(good: str) -> None:
    assert names.check_session_id(good) == good


@pytest.mark.parametrize(
    "bad", ["", "a.", ".a", "-a", "_a", "a" * 65, "a/b", "a~b", "ä", "a\n", "NUL", "com1", "Lpt9.log", "aux.x"]
)
def test_other_ids_are_refused(bad: str) -> None:
    assert not names.is_session_id(bad)
    with pytest.raises(InvalidSessionIdError):
        names.check_session_id(bad)


def test_invented_ids_are_ids_and_sort_by_age(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seconds in (1_700_000_000, 1_700_000_100, 1_800_000_000):
        monkeypatch.setattr(clock, "now", lambda seconds=seconds: float(seconds))
        found.append(names.new_session_id())
    assert all(names.is_session_id(one) for one in found)
    assert sorted(found) == found


def test_names_in_the_trash_say_which_session_and_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1_700_000_000.25)
    name = names.trash_name("a.b-c")
    assert names.parse_trash_name(name) == ("a.b-c", "2023-11-14T22:13:20.250Z")
    assert names.trash_name("a.b-c") != name
    for other in (
        "a",
        "a~",
        "~20260101T000000.000000",
        "a~20261301T000000.000000",
        "nul~20260101T000000.000000",
        f"../{name}",
    ):
        assert names.parse_trash_name(other) is None


def test_a_fork_is_called_after_its_parent() -> None:
    assert creation.fork_title("T", "id") == "T (fork)"
    assert creation.fork_title(None, "id") == "id (fork)"


@pytest.mark.parametrize(
    ("content", "label"),
    [
        ("  hello \n world ", "hello world"),
        ("", None),
        (None, None),
        ([{"type": "image_url"}], None),
        (
            [{"type": "text", "text": "one"}, {"type": "think", "think": "x"}, {"type": "text", "text": "two"}],
            "one two",
        ),
        ("word " * 30, "word " * 11 + "word…"),
        ("x" * 61, "x" * 59 + "…"),
        ("y" * 60, "y" * 60),
        (" " * 10_000_000 + "far", None),
    ],
)
def test_a_label_is_the_first_words(content: object, label: str | None) -> None:
    found = past.first_words({"role": "user", "content": content})
    assert found == label
    assert found is None or len(found) <= 60
