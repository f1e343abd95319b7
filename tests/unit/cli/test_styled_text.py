from __future__ import annotations

import pytest

from timeleap.cli.styled_text import StyledText, columns_of, padded


def shown(text, *, styled=True, coloured=True):
    return text.written(str, styled=styled, coloured=coloured)


def test_a_part_adds_to_the_style_of_the_whole():
    text = StyledText("a", "cyan").append("b", "bold").append("c", "red").append(StyledText("d", "dim"))
    assert shown(text) == "\x1b[36ma\x1b[0m\x1b[1;36mb\x1b[0m\x1b[31mc\x1b[0m\x1b[2;36md\x1b[0m"
    assert shown(text, coloured=False) == "a\x1b[1mb\x1b[0mc\x1b[2md\x1b[0m"
    assert shown(text, styled=False) == text.plain == "abcd"


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("é", 1), ("e\u0301", 1), ("中文", 4), ("\u200d", 0), ("", 0), ("│●", 2)]
)
def test_columns(text, columns):
    assert columns_of(text) == columns


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc…"),
        ("中文字", 4, "中… "),
        ("中文", 4, "中文"),
        ("", 2, "  "),
    ],
)
def test_a_cell_has_its_columns(text, width, expected):
    assert padded(text, width) == expected
    assert columns_of(padded(text, width, right=True)) == width


@pytest.mark.parametrize("width", range(1, 9))
def test_a_text_is_cut_with_its_styles(width):
    text = StyledText("ab", "dim").append("中", "bold").append("cd  ").append("")
    cut = text.truncated(width)
    assert columns_of(cut.plain) <= width
    assert cut.plain == (text.plain.rstrip() if width >= 6 else cut.plain)
    assert cut.plain.endswith("…") == (width < 6)
    assert cut.style == "dim"
    assert {style for _, style in cut.parts} <= {"", "bold"}
