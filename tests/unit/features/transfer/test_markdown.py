"""Markdown for people: nothing that was said can become something else on the page."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.unit.sessions.worlds import World

from timeleap.features.transfer.exhibit import exhibit_of
from timeleap.features.transfer.markdown import inert_markdown, write_markdown


async def page(world: World, *messages: dict[str, Any], title: str | None = None) -> str:
    session = await world.session(title=title)
    if messages:
        await session.append(list(messages))
    return "".join(write_markdown(await exhibit_of(session)))


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
    shown = await exhibit_of(session)
    "".join(write_markdown(shown))
    assert [one.message for one in shown.all_losses()] == ["2 messages have members of their own, which are not shown"]


async def test_an_empty_session_has_a_page(world: World) -> None:
    assert (await page(world)).startswith("# s1\n")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("1. Do:\n   ```html\n   <div>\n   ```\nand `Map<T>`", None),
        ("| `Map<K>` | [x](https://example.com) |", None),
        ("\\`<style>`", "\\`&lt;style>`"),
        ("``<style>`", "``&lt;style>`"),
        ("a ` b\nc ` <style> ` d", "a ` b\nc ` &lt;style> ` d"),
        ("| `a | <style> | b` |", "| `a | &lt;style> | b` |"),
        ("http://a/`<style>`", "http://a/`&lt;style>`"),
        ("[a](b`c) <style> `d", "[a&#93;(b`c) <style> `d"),
        ("[x]: https://example.com", "[x]&#58; https://example.com"),
        ("[go](command:quit)", "[go&#93;(command:quit)"),
        ("![x](https://example.com/x.png)", "&#33;[x](https://example.com/x.png)"),
        ("$$\nx", "&#36;&#36;\nx"),
        ("- ```\n  x\n  ```\n  <style>\n  ```", "````\n- ```\n  x\n  ```\n  <style>\n  ```\n````"),
        ("- a\n  ```\n<style>\n  ```", "````\n- a\n  ```\n<style>\n  ```\n````"),
        ("a\r<style>\rb", "a\r&lt;style>\rb"),
    ],
)
async def test_code_stays_as_it_is_and_nothing_else_is_markup_of_the_page(
    world: World, said: str, shown: str | None
) -> None:
    text = await page(world, {"role": "assistant", "content": said})
    assert f"## Assistant\n\n{shown or said}\n\n" in text


HOSTILE = [
    *"```~~~<>![]()\\$|:-*+>#_'\"& \t\n\n\r.1x/;",
    *(
        "```",
        "~~~",
        "````",
        "   ",
        "    ",
        "\n\n",
        "- ",
        "1. ",
        "> ",
        "<b>",
        "<style>",
        "</b>",
        "<!--",
        "-->",
        "](",
        "]:",
    ),
    *(
        "[x]",
        "command:x",
        "http://a/",
        "$$",
        "```\n",
        "\n```\n",
        "\n  ```\n",
        "\n   ",
        "&lt;",
        "---\n",
        "</details>\n\n",
    ),
]


@given(st.lists(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=24).map("".join), min_size=1, max_size=3))
@settings(max_examples=500, deadline=None)
def test_whatever_is_said_is_only_text(said: list[str]) -> None:
    env: dict[str, Any] = {}
    text = "\n\n".join(inert_markdown(one) for one in said)
    tokens = MarkdownIt("commonmark").enable("table").parse(f"{text}\n\n## Last\n", env)
    inline = [child for token in tokens for child in token.children or []]
    assert [
        token.content for token in (*tokens, *inline) if token.type.startswith("html_") or token.type == "image"
    ] == []
    assert not env.get("references")
    hrefs = [str(token.attrGet("href")) for token in inline if token.type == "link_open"]
    assert [href for href in hrefs if re.match(r"(?!https?:|mailto:)[a-z]+:", href, re.IGNORECASE)] == []
    assert [after.content for token, after in pairwise(tokens) if token.type == "heading_open" and token.level == 0][
        -1
    ] == "Last"


async def test_a_checkpoint_says_what_happened_after_it(world: World) -> None:
    session = await world.session()
    call = {"id": "1", "function": {"name": "bash", "arguments": '{"command": "pytest *.py"}'}}
    await session.checkpoint("before")
    await session.append(
        [
            {"role": "assistant", "content": "Let me.", "tool_calls": [call]},
            {"role": "tool", "content": "1 failed", "tool_call_id": "1"},
        ]
    )
    shown = "".join(write_markdown(await exhibit_of(session)))
    assert re.search(r"\*checkpoint 0 · before · \S+ · 0 tokens · pytest \\\*\.py · \+2 messages 1 failed\*", shown)
