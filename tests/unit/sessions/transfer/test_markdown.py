"""Markdown for people: nothing that was said can become something else on the page."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sessions.worlds import World

from timeleap.sessions.transfer.exporting import exhibit
from timeleap.sessions.transfer.markdown import write_markdown


async def page(world: World, *messages: dict[str, Any], title: str | None = None) -> str:
    session = await world.session(title=title)
    if messages:
        await session.append(list(messages))
    return "".join(write_markdown(await exhibit(session)))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain *words*", "plain *words*"),
        ("<details>", "&lt;details>"),
        ("in `a < b` code", "in `a < b` code"),
        ("```\na < b\n```\n<b>", "```\na < b\n```\n&lt;b>"),
        ("```\nnever closed <b>", "````\n```\nnever closed <b>\n````"),
        ("~~~\nneither", "```\n~~~\nneither\n```"),
        ("````\n", "`````\n````\n\n`````"),
        ("````\n```\n````\n```\n<b>", "`````\n````\n```\n````\n```\n<b>\n`````"),
        ("~~~\n```\n~~~\n<b>", "~~~\n```\n~~~\n&lt;b>"),
        ("```js <b>\n</b>\n```js\n```", "```js <b>\n</b>\n```js\n```"),
        ("    ```\n<b>\n    ```", "    ```\n&lt;b>\n    ```"),
    ],
)
async def test_what_an_answer_may_do_to_the_page(world: World, said: str, shown: str) -> None:
    assert f"## Assistant\n\n{shown}\n\n" in await page(world, {"role": "assistant", "content": said})


async def test_what_a_user_says_is_a_quotation(world: World) -> None:
    text = await page(world, {"role": "user", "content": "one\n\n<script>\n# two"})
    assert "## User\n\n> one\n> \n> &lt;script>\n> # two\n\n" in text


async def test_odd_messages_are_shown_somehow(world: World) -> None:
    odd: list[dict[str, Any]] = [
        {"role": "martian <b>", "content": None},
        {
            "role": "assistant",
            "content": [{"type": "video_url", "video_url": {"url": "x"}}],
            "tool_calls": [None, {}, {"function": 7}],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "</summary>", "arguments": "{broken"}}],
        },
        {"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "tool", "content": None},
    ]
    text = await page(world, *odd, title="<b> | `x` # [y](z)\nnext")
    assert text.startswith("# \\<b\\> \\| \\`x\\` \\# \\[y\\](z) next\n")
    assert "## martian \\<b\\>\n" in text
    assert "*[video\\_url]*" in text
    assert "<summary>Call · &lt;/summary&gt;</summary>\n\n```json\n{broken\n```" in text
    assert "```\na\n[image_url]\n```" in text


async def test_members_that_are_not_shown_are_told(world: World) -> None:
    session = await world.session()
    call = {"type": "function", "id": "c1", "function": {"name": "ls", "arguments": "{}"}}
    await session.append(
        [
            {"role": "user", "content": "x", "name": "ada", "mood": 7, "more": {}},
            {"role": "assistant", "content": "", "tool_calls": [call], "partial": True},
            {"role": "tool", "content": "y", "tool_call_id": "c1", "mood": 1},
        ]
    )
    shown = await exhibit(session)
    "".join(write_markdown(shown))
    assert [one.message for one in shown.all_losses()] == ["2 messages have members of their own, which are not shown"]


async def test_an_empty_session_has_a_page(world: World) -> None:
    assert (await page(world)).startswith("# s1\n")
