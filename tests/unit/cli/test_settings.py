from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeleap.cli.settings import read, with_key, without_key
from timeleap.errors import InvalidInputError

TEXT = """# what we know of the model
maxContextSize = 1000  # tokens
durability = "disk"

[retention]
# newest first
maxTimelines = 5

[summarizer]
model = "x"
"""


def test_only_the_line_of_the_key_changes():
    changed = with_key(TEXT, "maxContextSize", 2000)
    assert changed == TEXT.replace("maxContextSize = 1000  # tokens", "maxContextSize = 2000  # tokens")
    assert with_key(TEXT, "retention.maxTimelines", 7) == TEXT.replace("maxTimelines = 5", "maxTimelines = 7")


def test_a_new_key_stands_at_the_end_of_its_table():
    changed = with_key(with_key(TEXT, "triggerRatio", 0.5), "retention.maxTimelineBytes", 9)
    assert 'durability = "disk"\ntriggerRatio = 0.5\n\n[retention]' in changed
    assert "maxTimelines = 5\nmaxTimelineBytes = 9\n\n[summarizer]" in changed


def test_a_new_table_stands_at_the_end():
    assert with_key("a = 1\n", "retention.maxTimelines", 7) == "a = 1\n\n[retention]\nmaxTimelines = 7\n"
    assert with_key("", "retention.maxTimelines", 7) == "[retention]\nmaxTimelines = 7\n"
    assert with_key("", "durability", "os") == 'durability = "os"\n'
    assert (
        with_key("[retention]\nmaxTimelines = 7\n", "durability", "os")
        == 'durability = "os"\n[retention]\nmaxTimelines = 7\n'
    )


def test_a_key_of_the_same_name_in_another_table_stays():
    text = 'model = "top"\n[summarizer]\nmodel = "x"\n'
    assert with_key(text, "summarizer.model", "y") == 'model = "top"\n[summarizer]\nmodel = "y"\n'
    assert without_key(text, "summarizer.model") == 'model = "top"\n[summarizer]\n'
    assert without_key(text, "model") == '[summarizer]\nmodel = "x"\n'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_read_back(value):
    changed = with_key(TEXT, "summarizer.baseUrl", value)
    assert tomllib.loads(changed)["summarizer"]["baseUrl"] == value


def test_reading(tmp_path):
    file = tmp_path / "config.toml"
    assert read(file) == {}
    file.write_text(TEXT)
    assert read(file) == {
        "maxContextSize": 1000,
        "durability": "disk",
        "retention.maxTimelines": 5,
        "summarizer.model": "x",
    }
    file.write_text("a = ")
    with pytest.raises(InvalidInputError, match=r"config\.toml is not TOML"):
        read(file)
