from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.holding import PATIENCE
from tests.support.turns import Clock, until

from timeleap.client import (
    AsyncTimeleap,
    ClientClosedError,
    RawTimeleap,
    RequestTimeoutError,
    StartFailedError,
    TimeleapRpcError,
)


@pytest.mark.parametrize("framing", ["lsp", "ndjson"])
async def test_the_handshake_says_who_we_are_and_learns_what_the_server_can(fake, framing):
    options = {"durability": "os"}
    async with RawTimeleap(**fake.args(framing=framing, name="tester", options=options)) as client:
        assert client.server_info == {"name": "fake", "version": "1"}
        assert client.capabilities["protocolVersion"] == 1
        assert isinstance(client.pid, int)
    (hello,) = fake.params("initialize")
    assert hello["clientInfo"] == {"name": "tester"}
    assert hello["initializationOptions"] == options
    assert hello["capabilities"]["experimental"]["timeleap"] == {
        "protocolVersion": 1,
        "summarize": False,
        "approvals": True,
    }
    assert [message["method"] for message in fake.told()] == ["initialize", "initialized", "shutdown", "exit"]


async def test_closing_lets_the_server_exit_by_itself(fake):
    client = RawTimeleap(**fake.args())
    await client.start()
    assert await client.aclose() == 0
    assert fake.exits == ["exit"]
    assert await client.aclose() is None


async def test_a_server_that_does_not_end_is_killed_after_the_grace(fake):
    client = RawTimeleap(**fake.args(env={"FAKE_LINGER": "1"}))
    await client.start()
    assert await client.aclose(grace=0.3) not in (0, None)
    assert fake.exits == []


async def test_requests_that_change_something_carry_a_request_id_and_others_do_not(fake):
    async with RawTimeleap(**fake.args()) as client:
        await client.call("context/appendMessage", {"sessionId": "s"})
        await client.call("context/appendMessage", {"sessionId": "s", "requestId": "mine"})
        await client.call("context/getHistory", {"sessionId": "s"})
    first, second = fake.params("context/appendMessage")
    assert len(first["requestId"]) == 32
    assert second["requestId"] == "mine"
    assert fake.params("context/getHistory") == [{"sessionId": "s"}]


async def test_requests_are_sent_in_the_order_of_the_calls(fake):
    async with RawTimeleap(**fake.args()) as client:
        await asyncio.gather(*(client.call("x/echo", {"n": n}) for n in range(100)))
    assert [params["n"] for params in fake.params("x/echo")] == list(range(100))


async def test_an_error_reply_is_raised_with_all_it_says(fake):
    async with RawTimeleap(**fake.args(("context/checkpoint", 1, "locked"), patience=0.0)) as client:
        with pytest.raises(TimeleapRpcError) as caught:
            await client.call("context/checkpoint", {"sessionId": "s"})
    error = caught.value
    assert (error.code, error.kind, error.retryable) == (4003, "sessionLocked", True)
    assert error.message == "another process writes to it"
    assert error.data == {"kind": "sessionLocked", "retryable": True}


async def test_no_answer_in_time_is_an_error_and_cancels_the_request(fake):
    async with RawTimeleap(**fake.args(("x/echo", 1, "silent"))) as client:
        with pytest.raises(RequestTimeoutError, match=r"x/echo within 0\.2 seconds"):
            await client.call("x/echo", within=0.2)
        assert (await client.call("x/echo"))["echo"] == {}
    sent = next(message["id"] for message in fake.told("x/echo"))
    assert fake.params("$/cancelRequest") == [{"id": sent}]


async def test_a_cancelled_call_cancels_the_request(fake):
    async with RawTimeleap(**fake.args(("x/echo", 1, "silent"))) as client:
        task = asyncio.create_task(client.call("x/echo"))
        await until(lambda: fake.told("x/echo"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(fake.told("$/cancelRequest")) == 1


async def test_progress_is_told_and_keeps_a_long_request_from_timing_out(fake, monkeypatch):
    heard: list[dict[str, Any]] = []
    async with RawTimeleap(**fake.args(("x/long", 1, "work-in-steps"))) as client:
        clock = Clock(monkeypatch)
        asking = asyncio.create_task(client.call("x/long", within=0.5, on_progress=heard.append))
        await until(lambda: fake.told("x/long"))
        for step in range(4):
            await clock.advance(0.4)  # 1.6 seconds of work, 0.5 of patience since the last sign of it
            (fake.home / f"step-{step}").touch()
            await until(lambda: len(heard) > step or asking.done())  # noqa: B023
        assert "echo" in await asking
    assert [value["percentage"] for value in heard] == [10, 50, 90]


async def test_a_failing_progress_callback_does_not_harm_the_request(fake, caplog):
    async with RawTimeleap(**fake.args(("x/long", 1, "work"))) as client:
        result = await client.call("x/long", on_progress=lambda _: 1 / 0)
        assert "echo" in result
    assert "a progress callback failed" in caplog.text


async def test_a_summary_is_served(fake):
    asked = []

    async def summarize(params):
        asked.append(params)
        return "short"

    async with RawTimeleap(**fake.args(("x/compact", 1, "ask"), summarize=summarize)) as client:
        assert await client.call("x/compact") == {"summary": "short"}
    assert asked[0]["sessionId"] == "s"
    assert fake.params("initialize")[0]["capabilities"]["experimental"]["timeleap"]["summarize"] is True


async def test_a_request_that_waits_for_our_summary_takes_as_long_as_that_takes(fake, monkeypatch):
    async def summarize(_):
        await clock.advance(100.0)
        return "slowly"

    rules = (("x/compact", 1, "ask"), ("x/compact", 2, "silent"))
    async with RawTimeleap(**fake.args(*rules, summarize=summarize)) as client:
        clock = Clock(monkeypatch)
        assert await client.call("x/compact", within=1.0) == {"summary": "slowly"}
        asking = asyncio.create_task(client.call("x/compact", within=1.0))
        await clock.advance(0.9)
        assert not asking.done()
        await clock.advance(0.2)
        with pytest.raises(RequestTimeoutError):
            await asking


async def test_a_request_nobody_serves_or_that_fails_gets_an_error_answer(fake, caplog):
    async with RawTimeleap(**fake.args(("x/compact", "*", "ask"))) as client:
        assert (await client.call("x/compact"))["code"] == -32601

        async def fails(_):
            raise ValueError("no model")

        client.serve("context/summarize", fails)
        assert await client.call("x/compact") == {"code": -32603, "message": "ValueError: no model"}
    assert "serving context/summarize failed" in caplog.text


async def test_a_request_over_the_servers_limit_is_refused_here_where_it_can_be_named(fake):
    async with RawTimeleap(**fake.args()) as client:
        with pytest.raises(TimeleapRpcError, match="x/echo takes 1000") as caught:
            await client.call("x/echo", {"text": "x" * 100_000})
        assert caught.value.kind == "tooLarge"
        assert (await client.call("x/echo"))["echo"] == {}


async def test_a_server_that_floods_its_standard_error_output_does_not_stand_still(fake):
    async with RawTimeleap(**fake.args(("x/echo", "*", "flood"))) as client:
        for _ in range(3):
            await client.call("x/echo", within=10)
        assert len(client.stderr_tail) < 1_000_000


async def test_a_program_that_does_not_exist_is_a_start_failure():
    with pytest.raises(StartFailedError, match="cannot start"):
        await RawTimeleap(command=["/no/such/program"]).start()


async def test_a_start_failure_tells_what_the_server_said(fake):
    with pytest.raises(StartFailedError, match="the fake server dies as told") as caught:
        await RawTimeleap(**fake.args(start=["die"])).start()
    assert caught.value.exit_code == 9
    assert fake.starts == 1


async def test_a_server_that_never_shakes_hands_is_killed(fake):
    with pytest.raises(StartFailedError, match=r"no answer to initialize within 0\.5"):
        await RawTimeleap(**fake.args(start=["hang"], timeout=0.5)).start()


async def test_a_client_that_is_not_running_says_so(fake):
    client = RawTimeleap(**fake.args())
    with pytest.raises(ClientClosedError, match="not running"):
        await client.call("x/echo")
    async with client:
        with pytest.raises(ClientClosedError, match="running already"):
            await client.start()
    with pytest.raises(ClientClosedError):
        await client.call("x/echo")


async def test_a_module_in_the_working_directory_does_not_become_part_of_the_server(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')")
    (tmp_path / "timeleap.py").write_text("raise SystemExit('hijacked')")
    async with AsyncTimeleap(home=tmp_path / "home", cwd=tmp_path, timeout=PATIENCE) as client:
        assert client.server_info["name"] == "timeleap"


async def test_typed_methods_return_models(fake):
    async with AsyncTimeleap(**fake.args()) as client:
        result = await client.session_set_title(session_id="s", title="new")
    assert result.head == "1"
    assert fake.effects[0]["title"] == "new"


@pytest.mark.parametrize("url", ["postgresql://agent@a,b:5433/timeleap?timeleap_read=standby", "file:///srv/timeleap"])
async def test_the_store_goes_along_with_the_handshake_where_no_other_user_reads_it(fake, tmp_path, url):
    async with RawTimeleap(**fake.args(store=url, options={"durability": "os"})):
        pass
    async with RawTimeleap(**fake.args(store="there", cwd=tmp_path)):
        pass
    first, second = fake.params("initialize")
    assert first["initializationOptions"] == {"durability": "os", "store": url}
    assert second["initializationOptions"] == {"store": str(Path.cwd() / "there")}
