"""The HTML page of a session: what is in it, and that nothing of it can do anything."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from random import Random
from typing import Any

import pytest
from tests.unit.sessions.worlds import ANSWER, USER, World

from timeleap.errors import TooLargeError
from timeleap.features.transfer import page
from timeleap.features.transfer.exhibit import Strand, exhibit_of
from timeleap.sessions.logs import state_after_lines
from timeleap.sessions.session import Session

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]></SCRIPT ><img src=x onerror=alert(1)>",
    "</title></style></textarea><svg onload=alert(1)>",
    "\u2028\u2029&lt;script&gt;\x00\ufffe",
    "{{style}}{{policy}}",
    '" onmouseover="alert(1)',
]


class Parts(HTMLParser):
    """A page taken apart: its tags with their attributes, and the text of its scripts, style and title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append((tag, named))
        self._inside = [named.get("id") or named.get("type") or tag]

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._inside[0]] = self.texts.get(self._inside[0], "") + data

    def handle_endtag(self, tag: str) -> None:
        self._inside = []

    @property
    def policy(self) -> str:
        found = [named for tag, named in self.tags if named.get("http-equiv") == "Content-Security-Policy"]
        assert len(found) == 1
        return found[0]["content"] or ""

    @property
    def facts(self) -> dict[str, Any]:
        return json.loads(self.texts["session"])

    @property
    def messages(self) -> list[Any]:
        names = [name for name in self.texts if re.fullmatch(r"messages-\d+", name)]
        assert names == [f"messages-{number}" for number in range(len(names))]
        blocks = [json.loads(self.texts[name]) for name in names]
        assert all(len(block) == page.BLOCK for block in blocks[:-1])
        return [message for block in blocks for message in block]

    def log(self, place: int) -> list[Any]:
        """The messages of a log, put together as the page's script does it."""
        facts = self.facts["logs"][place]
        shared = self.log(facts["from"]["log"])[: facts["from"]["messages"]] if facts["from"] else []
        return shared + [self.messages[start + i] for start, count in facts["runs"] for i in range(count)]


async def text_of(session: Session) -> str:
    return "".join(page.write_page(await exhibit_of(session)))


async def told(session: Session) -> Parts:
    return Parts(await text_of(session))


def messages(strand: Strand) -> list[Any]:
    return [dict(said.record) for said in strand.messages()]


def common_messages(strand: Strand, other: Strand) -> int:
    return state_after_lines(strand.log, strand.common_lines(other)).messages


async def branched(session: Session) -> None:
    """A session with three timelines: reverted at its end, then nearer to its beginning, then cleared."""
    await session.set_system_prompt("Be brief.")
    for number in range(4):
        await session.checkpoint(f"step {number}", add_user_message=False)
        await session.append([{"role": "user", "content": f"question {number}"}, ANSWER])
        await session.update_token_count(100 * (number + 1))
    await session.revert(checkpoint_id=3)
    await session.append([{"role": "user", "content": "another question"}])
    await session.revert(checkpoint_id=1)
    await session.append([USER])
    await session.clear()
    await session.append([ANSWER, {"role": "user", "content": "question 0"}])


async def test_the_logs_put_together_from_the_page_are_the_logs_of_the_session(world: World) -> None:
    session = await world.session()
    await branched(session)
    shown, parts = await exhibit_of(session), await told(session)
    expected = [messages(strand) for strand in (shown.live, *reversed(shown.timelines))]
    assert [parts.log(place) for place in range(len(parts.facts["logs"]))] == expected
    assert [log["id"] for log in parts.facts["logs"]] == [None, "context_3", "context_2", "context_1"]
    assert [log["reason"] for log in parts.facts["logs"]] == [None, "clear", "revert", "revert"]


async def test_a_timeline_branches_off_the_log_with_which_it_has_most_in_common(world: World) -> None:
    session = await world.session()
    await branched(session)
    logs = (await told(session)).facts["logs"]
    came_from = [(log["from"]["log"], log["from"]["messages"]) if log["from"] else None for log in logs]
    # The cleared log has nothing of the present; the newer revert's begins as it does; the first one's as that.
    assert came_from == [None, (0, 0), (1, 2), (2, 6)]
    own = [
        [(one["id"], one.get("label"), one["messages"], one["tokens"]) for one in log["checkpoints"]] for log in logs
    ]
    assert own[2:] == [[(1, "step 1", 2, 100), (2, "step 2", 4, 200)], [(3, "step 3", 6, 300)]]
    assert logs[3]["usages"] == [[8, 400]]


async def test_no_log_that_came_before_has_more_in_common_than_the_one_a_timeline_branches_off(world: World) -> None:
    session, dice = await world.session(), Random(3)
    for number in range(24):
        for step in range(dice.randrange(1, 5)):
            await session.checkpoint(None, add_user_message=False)
            await session.append([{"role": "user", "content": f"{number}, {step}"}])
        await session.revert(checkpoint_id=dice.randrange(session.engine.state.checkpoints))
    shown = await exhibit_of(session)
    strands = [shown.live, *reversed(shown.timelines)]
    logs = Parts("".join(page.write_page(shown))).facts["logs"]
    for place, log in enumerate(logs[1:], 1):
        most = max(common_messages(strands[place], other) for other in strands[:place])
        parent = log["from"]["log"]
        assert (log["from"]["messages"], parent < place) == (most, True)
        assert common_messages(strands[place], strands[parent]) == most
    assert any(log["from"]["log"] > 0 for log in logs[1:])


async def test_a_message_stands_in_the_page_once_however_many_logs_have_it(world: World) -> None:
    session = await world.session()
    await branched(session)
    found = (await told(session)).messages
    assert len(found) == len({json.dumps(message) for message in found})
    assert ANSWER in found


async def test_a_log_of_many_messages_comes_in_blocks(world: World) -> None:
    session = await world.session()
    many = [{"role": "user", "content": str(number)} for number in range(2 * page.BLOCK + 1)]
    await session.append(many)
    parts = await told(session)
    assert parts.messages == many
    assert parts.facts["logs"][0]["runs"] == [[0, len(many)]]


async def test_the_last_block_is_closed_where_it_is_full_too(world: World) -> None:
    session = await world.session()
    await session.append([USER] * page.BLOCK)
    assert len((await told(session)).messages) == page.BLOCK


async def test_a_session_without_messages_has_a_page(world: World) -> None:
    parts = await told(await world.session())
    assert parts.messages == []
    assert parts.facts["logs"] == [
        {"id": None, "reason": None, "createdAt": None, "from": None, "runs": [], "checkpoints": [], "usages": [],
         "tokens": 0, "systemPrompt": None},
    ]  # fmt: skip


async def test_the_same_session_gives_the_same_page_and_nothing_of_its_store(world: World) -> None:
    session = await world.session()
    await branched(session)
    text = await text_of(session)
    assert await text_of(session) == text
    assert str(world.home) not in text


async def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(world: World) -> None:
    parts = await told(await world.session())
    rules = dict(rule.strip().split(" ", 1) for rule in parts.policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest(parts.texts['module'])}'",
        "style-src": f"'sha256-{digest(parts.texts['style'])}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


async def test_whatever_a_session_holds_adds_no_element_and_no_attribute_to_its_page(world: World) -> None:
    harmless, hostile = await world.session("harmless"), await world.session("hostile")
    for session, texts in ((harmless, ["x"] * len(HOSTILE)), (hostile, HOSTILE)):
        await session.set_title(texts[0])
        await session.set_system_prompt(texts[1])
        for text in texts:
            await session.append([{"role": "user", "content": text, "name": text, text: text}])
            await session.checkpoint(text.replace("\x00", ""), add_user_message=False)
    parts = await told(hostile)
    policy = re.compile("Content-Security-Policy")
    assert parts.tags == (await told(harmless)).tags
    assert policy.search(parts.texts["style"]) is None  # a title that names a place of the template fills nothing
    assert [message["content"] for message in parts.messages] == HOSTILE
    assert parts.facts["session"]["title"] == HOSTILE[0]
    assert parts.texts["title"].startswith(HOSTILE[0])


@pytest.mark.parametrize("text", HOSTILE)
def test_json_inside_a_script_element_has_none_of_what_could_end_it(text: str) -> None:
    safe = page.safe_json({text: [text]})
    assert not set(safe) & set("<>&\u2028\u2029")
    assert json.loads(safe) == {text: [text]}


def test_half_of_a_surrogate_pair_is_written_so_that_a_file_can_hold_it() -> None:
    assert json.loads(page.safe_json(["\ud800<"]).encode()) == ["\ud800<"]


def test_what_is_put_into_the_template_is_not_looked_at_again() -> None:
    assert page.filled("{{one}} {{two}}", {"one": "{{two}}", "two": "2"}) == "{{two}} 2"


async def test_a_title_that_is_markup_is_text(world: World) -> None:
    session = await world.session(title='<b>{{style}}</b> & "more"')
    text = await text_of(session)
    assert "<title>&lt;b&gt;{{style}}&lt;/b&gt; &amp; &quot;more&quot;</title>" in text


async def test_a_damaged_message_keeps_its_place_and_its_loss_is_told(world: World) -> None:
    session = await world.session()
    await session.append([USER, {"role": "user", "content": "to be damaged"}, ANSWER])
    log = session.path / "context.jsonl"
    shown = await exhibit_of(session)
    log.write_bytes(log.read_bytes().replace(b"to be damaged", b"to be DAMAGED"))
    parts = Parts("".join(page.write_page(shown)))
    assert parts.log(0) == [USER, None, ANSWER]
    assert len(parts.facts["losses"]) == 1


def test_the_pages_script_parses_no_html_fetches_nothing_and_does_not_end_itself() -> None:
    script = page.asset("page.min.js")
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\b(?:fetch|XMLHttpRequest|eval|importScripts|WebSocket)\("
        r"|sendBeacon|new Function|\bimport\(|</?script|sourceMappingURL"
    )
    assert re.search(forbidden, script) is None
    assert set(re.findall(r"https?://[\w.-]+", script)) <= {"http://www.w3.org"}
    assert re.search(r"url\(|@import|@font-face", page.asset("page.min.css")) is None
    assert "markdown-it.LICENSE" in script[:300]
    assert "BSD-3-Clause" in script[:300]


def test_the_page_is_at_most_230_kilobytes_without_the_session() -> None:
    size = sum(len(page.asset(name).encode()) for name in ("page.html", "page.min.css", "page.min.js"))
    assert size <= 230 * 1024


async def test_a_page_that_is_hard_to_open_says_so_and_one_that_cannot_be_opened_is_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await world.session()
    await session.append([USER] * 3)
    whole = await text_of(session)
    shown = await exhibit_of(session)
    "".join(page.write_page(shown))
    assert shown.all_losses() == []
    monkeypatch.setattr(page, "MANY_CHARACTERS", len(whole) - 1)
    "".join(page.write_page(shown))
    assert [one.kind for one in shown.all_losses()] == ["size"]
    monkeypatch.setattr(page, "MOST_CHARACTERS", len(whole) - 1)
    with pytest.raises(TooLargeError, match="browsers"):
        await text_of(session)


async def test_checkpoints_say_what_happened_after_them(world: World) -> None:
    session = await world.session()
    call = {"id": "1", "function": {"name": "edit", "arguments": '{"path": "a/b.py"}'}}
    await session.checkpoint()
    await session.append([{"role": "assistant", "content": "", "tool_calls": [call]}])
    await session.append([{"role": "tool", "content": "Error: no", "tool_call_id": "1"}])
    await session.checkpoint()
    [log] = (await told(session)).facts["logs"]
    assert [(one.get("happened"), one.get("failed")) for one in log["checkpoints"]] == [
        ("Edit a/b.py", 1),
        (None, None),
    ]
