"""What `import timeleap` promises is there, and says what it is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import timeleap


@pytest.mark.parametrize("name", timeleap.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    value = getattr(timeleap, name)
    undocumented = [place for place, text in texts(name, value) if not (text or "").strip()]
    assert not undocumented


def texts(name: str, value: object) -> Iterator[tuple[str, str | None]]:
    """The docstrings that a public name owes: its own, and those of its public methods and properties."""
    if not inspect.isclass(value) and not callable(value):
        return
    text = value.__doc__
    if text is not None and text.startswith(f"{name}("):
        text = None  # written by @dataclass, says nothing
    yield name, text
    if inspect.isclass(value):
        for method, member in vars(value).items():
            kinds = property, staticmethod, classmethod
            if not method.startswith("_") and (inspect.isfunction(member) or isinstance(member, kinds)):
                yield f"{name}.{method}", inspect.getdoc(getattr(value, method))


def test_nothing_stands_in_the_list_twice_and_what_the_original_had_is_there() -> None:
    assert len(timeleap.__all__) == len(set(timeleap.__all__))
    assert {"Context", "LinearContext", "Message", "SimpleCompaction", "load_session_state"} <= set(timeleap.__all__)
