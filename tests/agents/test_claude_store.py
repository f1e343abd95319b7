"""The store of the Claude Agent SDK: its own contracts, what a window sees and may do, and input that is odd or hostile."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from tests.agents.transcript import KEY, answer, prompt, result, turn
from tests.agents.window import Window

from timeleap_agents.adapters import claude, claude_entries
from timeleap_agents.adapters.claude import ClaudeSessionStore, Continuation, RevertedError, StaleAgentError
from timeleap_agents.adapters.followed_log import FollowedLog, session_id_of
from timeleap_client import RawTimeleap

pytestmark = pytest.mark.long  # with the SDKs, in a stage of their own: `make test-agents`


async def test_it_keeps_the_contracts_that_the_sdk_publishes(client: RawTimeleap) -> None:
    async def make_store() -> Any:
        page = await client.call("session/list", {"limit": 1000})
        for session in page["sessions"]:
            await client.call("session/delete", {"sessionId": session["sessionId"]})
        return ClaudeSessionStore(client)

    await run_session_store_conformance(make_store)


async def test_prompts_have_checkpoints_and_results_of_tools_have_none(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    session = await window.only("claude-code")
    assert list(await window.checkpoints(session)) == ["question 1", "question 2"]
    answers = [[{"type": "text", "text": f"answer {number}"}] for number in (1, 2)]
    assert await window.texts(session) == ["question 1", "", "1", answers[0], "question 2", "", "2", answers[1]]
    state = await window.call("session/getState", session)
    assert (state["title"], state["context"]["tokenCount"]) == ("question 1", 201)


async def test_a_batch_is_one_step_with_the_checkpoints_and_the_tokens_of_all_its_turns(
    client: RawTimeleap, window: Window, tmp_path: Path
) -> None:
    sent: list[str] = []

    def trace(direction: str, message: Any) -> None:
        sent.extend([message["method"]] if direction == "sent" and "method" in message else [])

    async with RawTimeleap(home=tmp_path / "home", trace=trace) as traced:
        store = ClaudeSessionStore(traced)
        await store.append(KEY, turn(1))
        sent.clear()
        await store.append(KEY, [*turn(2, "a1"), {"type": "mode"}, *turn(3, "a2")])
        assert sent == ["context/appendMessage"]
        assert await store.load(KEY) == [*turn(1), *turn(2, "a1"), {"type": "mode"}, *turn(3, "a2")]
    session = await window.only("claude-code")
    assert list(await window.checkpoints(session)) == ["question 1", "question 2", "question 3"]
    await window.revert(session, "question 3")  # and what the program noted before it
    assert await ClaudeSessionStore(client).load(KEY) == [*turn(1), *turn(2, "a1")]


async def test_an_own_append_is_known_when_the_log_has_grown(client: RawTimeleap, window: Window) -> None:
    log = FollowedLog(client, session_id_of("cc", "p", "s"), ("claude-code", '["p", "s"]'), claude_entries.uuid_of)
    await log.open(create=True)
    ends = ({"role": "user", "content": "x"}, {"record": {"role": "_claude", "content": ""}}, {"tokenCount": 5})
    for end in ends:
        await log.append([{"checkpoint": {"label": "x"}}, {"role": "user", "content": "x"}, end])
        note = {"role": "user", "content": "a note"}
        await window.call("context/appendMessage", log.session_id, message=note)
        await log.refresh()
        assert log.rewritten is False


async def test_a_call_and_its_result_are_shown_as_such(client: RawTimeleap, window: Window) -> None:
    await ClaudeSessionStore(client).append(KEY, turn(1))
    history = (await window.call("context/getHistory", await window.only("claude-code")))["messages"]
    call, outcome = history[1]["message"], history[2]["message"]
    assert call["tool_calls"][0]["function"] == {"name": "Bash", "arguments": '{"command": "echo 1"}'}
    assert (outcome["role"], outcome["tool_call_id"]) == ("tool", call["tool_calls"][0]["id"])


@pytest.mark.parametrize(
    "entry",
    [
        prompt("m", "meta", isMeta=True),
        prompt("m", "of a sub-agent", isSidechain=True),
        prompt("m", "summary", isCompactSummary=True),
        prompt("m", "<local-command-stdout>x</local-command-stdout>"),
        prompt("m", "[Request interrupted by user]"),
        result("m", "c", "done"),
        answer("m", "q", "text"),
    ],
)
def test_what_no_person_asked_gets_no_checkpoint(entry: Any) -> None:
    assert claude_entries.label_of(entry) is None


async def test_what_is_reverted_is_not_loaded_and_an_undo_brings_it_back(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    first, second = turn(1), turn(2, "a1")
    await store.append(KEY, [*first, *second])
    session = await window.only("claude-code")
    await window.revert(session, "question 2")
    assert await store.load(KEY) == first
    await window.call("context/undo", session)
    assert await store.load(KEY) == [*first, *second]


async def test_after_a_revert_a_resumed_agent_goes_on_in_the_same_log(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    await window.revert(await window.only("claude-code"), "question 2")
    resumed = ClaudeSessionStore(client)
    await resumed.load(KEY)
    await resumed.append(KEY, turn(3, "a1"))
    assert await resumed.load(KEY) == [*turn(1), *turn(3, "a1")]
    assert len(await window.sessions("claude-code")) == 1


async def test_when_all_is_reverted_it_says_so_and_nothing_else_is_resumed(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(1))
    await window.revert(await window.only("claude-code"), "question 1")
    with pytest.raises(RevertedError, match="undo the revert"):
        await store.load(KEY)


async def test_an_agent_that_still_runs_is_not_spliced_into_the_log_reverted_under_it(
    client: RawTimeleap, window: Window
) -> None:
    told: list[Continuation] = []
    store = ClaudeSessionStore(client, on_continuation=told.append)
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    session = await window.only("claude-code")
    await window.revert(session, "question 2")
    await store.append(KEY, [answer("b1", "a2", "still here"), {"type": "mode", "mode": "plan"}])
    await store.append(KEY, turn(3, "b1"))
    assert await store.load(KEY) == turn(1)
    continued = {**KEY, "session_id": told[0].continued_as}
    late = [answer("b1", "a2", "still here"), {"type": "mode", "mode": "plan"}, *turn(3, "b1")]
    assert await store.load(continued) == [*turn(1), *turn(2, "a1"), *late]
    assert [each.title for each in told] == ["question 1 (continued before revert)"]


async def test_a_stale_agent_is_known_by_the_timelines_too(client: RawTimeleap, window: Window) -> None:
    await ClaudeSessionStore(client).append(KEY, [*turn(1), *turn(2, "a1")])
    await window.revert(await window.only("claude-code"), "question 2")
    other = ClaudeSessionStore(client)  # has never seen what was reverted
    await other.append(KEY, [answer("b1", "a2", "still here")])
    assert await other.load(KEY) == turn(1)
    assert len(await window.sessions("claude-code")) == 2


async def test_a_stale_agent_can_be_refused(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client, on_stale="refuse")
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    await window.revert(await window.only("claude-code"), "question 2")
    with pytest.raises(StaleAgentError, match="resume the session"):
        await store.append(KEY, [answer("b1", "a2", "still here")])
    assert await store.load(KEY) == turn(1)


async def test_after_an_undo_the_agent_goes_on_in_its_own_log(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    session = await window.only("claude-code")
    await window.revert(session, "question 2")
    await window.call("context/undo", session)
    await store.append(KEY, turn(3, "a2"))
    assert await store.load(KEY) == [*turn(1), *turn(2, "a1"), *turn(3, "a2")]


async def test_what_a_window_appends_does_not_stop_the_agent(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(1))
    note = {"role": "user", "content": "a note"}
    await window.call("context/appendMessage", await window.only("claude-code"), message=note)
    await store.append(KEY, turn(2, "a1"))
    assert await store.load(KEY) == [*turn(1), *turn(2, "a1")]


TEXTS: list[Any] = [
    answer("w1", "q", "said", {"type": "tool_use", "id": "c", "name": "Look", "input": {}}),
    answer("w2", "w1", {"type": "image"}, {"type": "text", "text": "cited", "citations": []}),
    answer("w3", "w2", "two", "texts", {"type": "tool_use", "id": "d", "name": "Look", "input": {}}),
    answer("w4", "w3", {"type": "text", "text": ["no text"]}, {"text": "no type"}),
]


async def test_the_text_of_an_answer_with_calls_is_in_the_log_once(
    client: RawTimeleap, window: Window, tmp_path: Path
) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, TEXTS)
    session = await window.only("claude-code")
    assert await window.texts(session) == ["said", "cited", "two\ntexts", "no type"]
    log = (tmp_path / "home" / "sessions" / session / "context.jsonl").read_text()
    assert (log.count("said"), log.count("cited"), log.count("no type")) == (1, 1, 1)
    assert await store.load(KEY) == TEXTS


async def test_entries_that_were_written_whole_come_back(client: RawTimeleap, window: Window) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(1))
    whole = [{"role": "assistant", "content": "said", "claude": {"entry": entry}} for entry in TEXTS]
    await window.call("context/appendMessage", await window.only("claude-code"), messages=whole)
    assert await store.load(KEY) == [*turn(1), *TEXTS]


async def test_what_was_loaded_is_known_when_the_log_has_grown(client: RawTimeleap, window: Window) -> None:
    log = FollowedLog(client, session_id_of("cc", "p", "s"), ("claude-code", '["p", "s"]'), claude_entries.uuid_of)
    await log.open(create=True)
    await log.refresh()
    await log.append([item for entry in TEXTS[:1] for item, _ in claude_entries.items_of(entry)])
    assert list(claude_entries.entries_of(await log.refresh_whole())) == TEXTS[:1]
    note = {"role": "user", "content": "a note"}
    await window.call("context/appendMessage", log.session_id, message=note)
    await log.refresh()
    assert (log.rewritten, log.kept) == (False, ["w1"])


async def test_a_batch_that_is_sent_again_is_kept_once(client: RawTimeleap) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(1))
    await store.append(KEY, turn(1))
    await ClaudeSessionStore(client).append(KEY, [*turn(1), *turn(2, "a1")][2:])
    assert [entry.get("uuid") for entry in await store.load(KEY) or ()].count("a1") == 1


async def test_entries_without_uuid_are_kept_each_time(client: RawTimeleap) -> None:
    store = ClaudeSessionStore(client)
    for _ in range(3):
        await store.append(KEY, [{"type": "mode", "mode": "plan"}])
    assert await store.load(KEY) == [{"type": "mode", "mode": "plan"}] * 3


ODD: list[Any] = [
    {"uuid": "no-type"},
    {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "lone \ud800, cut short"}},
    {"type": "x\udfff", "\udc00": ["\ud83d"], "emoji": "\U0001f600"},
    {"type": "x", "n": [float("inf"), float("-inf"), 1e300, 0.1, -0.0], "whole": [2**70, -(2**63), 2**63]},
    {"type": "user", "uuid": "u2", "message": {"role": "user", "content": None}},
    {"type": "user", "uuid": "u3", "message": {"role": "user", "content": ["text", 1]}},
    {"type": "user", "uuid": "u4", "message": {"role": "_checkpoint", "content": "x"}},
    {"type": "assistant", "uuid": "u5", "message": {"role": "assistant", "content": [{"no": "type"}]}},
    {"type": "assistant", "uuid": "u6", "message": {"role": "assistant", "content": []}},
    {"type": "user", "_tl": {"r": "x"}, "role": "_usage", "uuid": "u7", "message": "text"},
    {"type": "user", "uuid": "u8", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": 5}]}},
    {"type": "torn", "text": 'the end of a line {"type":"us'},
    {"type": "zeros", "text": "\0\0\u2028\r\n"},
    {"type": "user", "uuid": 7, "parentUuid": {"a": 1}, "message": {"role": "user", "content": "uuid is a number"}},
    ["no", "object"],
]


async def test_odd_entries_come_back_equal(client: RawTimeleap) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, ODD)
    assert await store.load(KEY) == ODD


async def test_not_a_number_comes_back(client: RawTimeleap) -> None:
    entries = [{"type": "x", "n": [float("nan"), 1]}, prompt("q", "x", weight=float("nan"))]
    store = ClaudeSessionStore(client)
    await store.append(KEY, entries)
    loaded = await store.load(KEY)
    assert json.dumps(loaded, sort_keys=True) == json.dumps(entries, sort_keys=True)


@pytest.mark.parametrize(
    "item",
    [
        {"record": {"role": "_claude", "content": ""}},
        {"record": {"role": "_claude", "content": "", "text": "{torn"}},
        {"record": {"role": "_claude", "content": "", "text": 5}},
        {"record": {"role": "_claude-part", "content": "", "number": 0, "count": 1}},
        {"record": {"role": "_claude-part", "content": "", "number": 0, "count": "1"}},
        {"role": "user", "content": "x", "claude": {"entry": 5, "content": "message"}},
        {"role": "user", "content": "x", "claude": {"entry": {"message": {"content": []}}, "content": "result"}},
        {
            "role": "user",
            "content": "x",
            "claude": {"entry": {"message": {"content": []}}, "content": "text", "block": 0},
        },
        {
            "role": "user",
            "content": "x",
            "claude": {"entry": {"message": {"content": [5]}}, "content": "text", "block": "x"},
        },
        {"role": "user", "content": "x", "claude": {"entry": {"message": "text"}, "content": "message"}},
        {"role": "user", "content": "x", "claude": "text"},
    ],
)
async def test_records_that_somebody_made_up_are_passed_over(client: RawTimeleap, window: Window, item: Any) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(1))
    await window.call("context/appendMessage", await window.only("claude-code"), messages=[item])
    await store.append(KEY, turn(2, "a1"))
    assert await ClaudeSessionStore(client).load(KEY) == [*turn(1), *turn(2, "a1")]


async def test_sources_that_are_no_keys_are_not_listed(client: RawTimeleap) -> None:
    for key in ("text", "[1]", "{}", '["p"]', '["p", 2]', '["p", "s", "sub", "more"]'):
        await client.call("session/open", {"source": {"kind": "claude-code", "key": key}})
    store = ClaudeSessionStore(client)
    await store.append({"project_key": "p", "session_id": "s"}, [{"type": "x"}])
    assert [session["session_id"] for session in await store.list_sessions("p")] == ["s"]


async def test_deep_entries_come_back_and_those_no_parser_takes_are_refused(client: RawTimeleap) -> None:
    def nested(levels: int) -> Any:
        value: Any = "end"
        for _ in range(levels):
            value = [value]
        return {"type": "deep", "value": value}

    store = ClaudeSessionStore(client)
    await store.append(KEY, [nested(300)])
    with pytest.raises(ValueError, match="nested too deeply"):
        await store.append(KEY, [nested(100_000)])
    assert await store.load(KEY) == [nested(300)]


async def test_a_batch_larger_than_a_frame_is_kept_whole(client: RawTimeleap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude, "MAX_BATCH_CHARACTERS", 500)
    store = ClaudeSessionStore(client)
    await store.append(KEY, [*turn(1), *turn(2, "a1")])
    assert await store.load(KEY) == [*turn(1), *turn(2, "a1")]


async def test_an_entry_larger_than_a_message_is_kept_in_parts(
    client: RawTimeleap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude_entries, "MAX_RECORD_CHARACTERS", 1000)
    big = prompt("big", "é\ud800" * 4000)
    store = ClaudeSessionStore(client)
    await store.append(KEY, [*turn(1), big, *turn(2, "big")])
    await ClaudeSessionStore(client).append(KEY, [big])
    assert await store.load(KEY) == [*turn(1), big, *turn(2, "big")]


@pytest.mark.slow
async def test_an_entry_of_32_mib_is_kept(client: RawTimeleap) -> None:
    big = prompt("big", '"' * (16 * 1024 * 1024))  # as JSON 32 MiB and some
    store = ClaudeSessionStore(client)
    await store.append(KEY, [big])
    assert await store.load(KEY) == [big]


def test_parts_of_which_some_are_missing_count_for_nothing() -> None:
    items = [item["record"] for item, _ in claude_entries._parts('{"uuid":"u","n":"' + "x" * 10_000_000 + '"}')]
    assert len(items) == 3
    assert list(claude_entries.entries_of(items[:2])) == []
    assert [claude_entries.uuid_of(item) for item in items] == [None, None, "u"]
    assert len(list(claude_entries.entries_of([*items[:2], *items]))) == 1


async def test_keys_with_separators_are_keys_of_their_own(client: RawTimeleap) -> None:
    store = ClaudeSessionStore(client)
    keys: list[dict[str, Any]] = [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a", "session_id": "../../b", "subpath": '"],["'},
        {"project_key": "", "session_id": "\0"},
        {"project_key": "1:a", "session_id": "b"},
    ]
    for number, key in enumerate(keys):
        await store.append(key, [{"type": "x", "n": number}])
    for number, key in enumerate(keys):
        assert await store.load(key) == [{"type": "x", "n": number}]
    assert await store.list_subkeys({"project_key": "a", "session_id": "b"}) == ["c"]


@pytest.mark.parametrize("count", [2_500, pytest.param(10_000, marks=pytest.mark.torture)])
async def test_sub_agents_of_several_pages_are_all_listed(client: RawTimeleap, tmp_path: Path, count: int) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(1))
    await store.append({**KEY, "subpath": "subagents/00000"}, turn(1))
    (first,) = [
        info
        for info in (await client.call("session/list", {"source": {"kind": "claude-code"}}))["sessions"]
        if "subagents" in info["source"]["key"]
    ]
    folder = tmp_path / "home" / "sessions"
    facts = (folder / first["sessionId"] / "timeleap.json").read_text()
    for number in range(1, count):
        session = session_id_of("cc", KEY["project_key"], KEY["session_id"], f"subagents/{number:05}")
        (folder / session).mkdir()
        named = facts.replace("subagents/00000", f"subagents/{number:05}").replace(first["sessionId"], session)
        (folder / session / "timeleap.json").write_text(named)
        shutil.copy(folder / first["sessionId"] / "context.jsonl", folder / session)
    subkeys = await ClaudeSessionStore(client).list_subkeys(KEY)
    assert sorted(subkeys) == [f"subagents/{number:05}" for number in range(count)]
    assert await store.load({**KEY, "subpath": f"subagents/{count - 1:05}"}) == turn(1)


async def test_two_processes_write_one_key_and_lose_nothing(client: RawTimeleap, tmp_path: Path) -> None:
    async with RawTimeleap(home=tmp_path / "home", name="second") as second:
        stores = ClaudeSessionStore(client), ClaudeSessionStore(second)

        async def write(number: int) -> None:
            for at in range(10):
                await stores[number].append(KEY, [prompt(f"{number}-{at}", "x", f"{number}-{at - 1}" if at else None)])

        await asyncio.gather(write(0), write(1))
        entries = await stores[0].load(KEY)
    assert entries is not None
    for number in (0, 1):
        own = [entry["uuid"] for entry in entries if entry["uuid"].startswith(f"{number}-")]
        assert own == [f"{number}-{at}" for at in range(10)]
    assert len(entries) == 20


@pytest.mark.skipif(os.name == "nt", reason="kills with a signal")
async def test_a_server_killed_between_write_and_reply_leaves_each_entry_once(client: RawTimeleap) -> None:
    store = ClaudeSessionStore(client)
    await store.append(KEY, turn(0))
    writing = [asyncio.ensure_future(store.append(KEY, turn(number, f"a{number - 1}"))) for number in range(1, 6)]
    await asyncio.sleep(0)  # the first of them is on its way
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    await asyncio.gather(*writing)
    assert await store.load(KEY) == [entry for n in range(6) for entry in turn(n, f"a{n - 1}" if n else None)]


async def test_only_so_many_transcripts_are_open_and_closed_ones_go_on(
    client: RawTimeleap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claude, "MAX_OPEN", 3)
    store = ClaudeSessionStore(client)
    keys = [{**KEY, "subpath": f"subagents/{number}"} for number in range(8)]
    for key in [*keys, *keys]:
        await store.append(key, [{"type": "x"}])
    assert len(store._transcripts) == 3
    assert [await store.load(key) for key in keys] == [[{"type": "x"}, {"type": "x"}]] * 8
