from __future__ import annotations

import asyncio
import json

import psutil
import pytest
from tests.support.holding import PATIENCE

from timeleap.client import (
    NO_RESTARTS,
    RECONNECTED,
    ClientClosedError,
    ConnectionLostError,
    RawTimeleap,
    TimeleapRpcError,
)

APPEND = "context/appendMessage"


def append(client, number):
    return client.call(APPEND, {"sessionId": "s", "message": {"role": "user", "content": str(number)}})


def appended(fake):
    return [params["message"]["content"] for params in fake.effects]


@pytest.mark.parametrize(("what", "duplicate"), [("die", False), ("effect-and-die", True)])
async def test_a_request_is_sent_again_under_its_id_and_takes_effect_once(fake, what, duplicate):
    async with RawTimeleap(**fake.args((APPEND, 2, what))) as client:
        await append(client, 1)
        assert (await append(client, 2)).get("duplicate", False) is duplicate
    assert appended(fake) == ["1", "2"]
    _, second, third = fake.params(APPEND)
    assert second == third
    assert fake.starts == 2


async def test_what_was_under_way_is_sent_again_in_the_order_of_the_calls(fake):
    async with RawTimeleap(**fake.args((APPEND, 3, "die"))) as client:
        tasks = [asyncio.create_task(append(client, n)) for n in range(20)]
        while fake.starts < 2:
            await asyncio.sleep(0.001)
            if len(tasks) < 60:
                tasks.append(asyncio.create_task(append(client, len(tasks))))
        tasks += [asyncio.create_task(append(client, len(tasks) + n)) for n in range(20)]
        await asyncio.gather(*tasks)
    assert appended(fake) == [str(n) for n in range(len(tasks))]


async def test_open_sessions_are_opened_again_as_they_were_and_their_heads_are_told(fake):
    async with RawTimeleap(**fake.args(("x/echo", 1, "die"))) as client, client.notifications(RECONNECTED) as heard:
        await client.call("session/open", {"sessionId": "a", "title": "A"})
        await client.call("session/open", {"sessionId": "a"})
        await client.call("session/open", {"path": "/sessions/no id!", "access": "readOnly"})
        await client.call("session/open", {"sessionId": "c"})
        await client.call("session/close", {"sessionId": "c"})
        with pytest.raises(ConnectionLostError):
            await client.call("x/echo")  # not of the protocol: nobody promises that it may be repeated
        await client.call("session/list")
        told = (await asyncio.wait_for(anext(heard), PATIENCE)).params
    a = {"sessionId": "a", "create": False}
    by_path = {"sessionId": "generated", "create": False, "path": "/sessions/no id!", "access": "readOnly"}
    assert fake.params("session/open")[4:] == [a, by_path, a]
    back = [{"sessionId": name, "head": "0", "access": "owner"} for name in ("a", "generated")]
    assert told == {"sessions": back, "refused": []}
    methods = [message["method"] for message in fake.told()]
    assert methods.index("session/list") > len(methods) - 1 - methods[::-1].index("session/open")


async def test_a_session_that_another_process_still_holds_is_tried_again_and_opened_no_more_often(fake):
    rules = [("session/open", 4, "locked"), ("session/open", 5, "locked"), (APPEND, 1, "die")]
    async with RawTimeleap(**fake.args(*rules)) as client:
        await client.call("session/open", {"sessionId": "s"})
        await client.call("session/open", {"sessionId": "s"})
        await append(client, 1)
    assert appended(fake) == ["1"]
    assert len(fake.told("session/open")) == 6  # two before; one, two refusals, one after


async def test_a_session_that_cannot_be_opened_again_stops_no_other_one(fake):
    rules = [("session/open", 2, "readOnly"), ("session/open", 3, "readOnly"), (APPEND, 1, "die")]
    async with RawTimeleap(**fake.args(*rules)) as client, client.notifications(RECONNECTED) as heard:
        await client.call("session/open", {"sessionId": "s"})
        with pytest.raises(TimeleapRpcError, match="opened to look"):
            await append(client, 1)
        told = (await asyncio.wait_for(anext(heard), PATIENCE)).params
        assert told["sessions"] == []
        assert [(each["sessionId"], each["error"]["data"]["kind"]) for each in told["refused"]] == [("s", "readOnly")]
        await client.call("session/list")
        await asyncio.gather(append(client, 2), append(client, 3))  # the next request on it tries again, once
    assert appended(fake) == ["2", "3"]
    assert len(fake.told("session/open")) == 4


async def test_closing_what_never_came_back_is_done_already(fake):
    async with RawTimeleap(**fake.args(("session/open", 2, "readOnly"), ("session/list", 1, "die"))) as client:
        await client.call("session/open", {"sessionId": "s"})
        await client.call("session/list")
        await client.call("session/close", {"sessionId": "s"})
    assert fake.told("session/close") == []


async def test_a_client_that_was_dropped_because_it_did_not_read_comes_back(fake):
    async with RawTimeleap(**fake.args((APPEND, 1, "drop"))) as client, client.notifications(RECONNECTED) as heard:
        await client.call("session/open", {"sessionId": "s"})
        await append(client, 1)
        assert (await asyncio.wait_for(anext(heard), PATIENCE)).params["sessions"][0]["sessionId"] == "s"
    assert appended(fake) == ["1"]


async def test_who_was_dropped_for_good_is_told_why(fake):
    async with RawTimeleap(**fake.args((APPEND, "*", "drop"), restarts=NO_RESTARTS)) as client:
        with pytest.raises(ConnectionLostError, match=r"exit code 3\), saying: this connection does not read"):
            await append(client, 1)


async def test_a_server_of_another_version_is_refused_at_the_start_and_at_a_restart(fake):
    with pytest.raises(TimeleapRpcError, match="speaks version 2 of the protocol, this client version 1"):
        await RawTimeleap(**fake.args(start=["other-version"])).start()
    async with RawTimeleap(**fake.args((APPEND, 1, "die"), start=["", "", "other-version"])) as client:
        with pytest.raises(TimeleapRpcError, match="version 2"):
            await append(client, 1)
    assert fake.starts == 3


async def test_closing_what_went_with_the_server_is_done_already(fake):
    async with RawTimeleap(**fake.args(("session/close", 1, "die"))) as client:
        await client.call("session/open", {"sessionId": "s"})
        await client.call("session/close", {"sessionId": "s"})
        await client.call("session/list")
    assert len(fake.told("session/open")) == 1


async def test_who_listens_is_told_of_the_restart_without_calling(fake):
    async with RawTimeleap(**fake.args()) as client, client.notifications(RECONNECTED) as heard:
        await client.call("session/open", {"sessionId": "s"})
        psutil.Process(client.pid).kill()
        assert (await asyncio.wait_for(anext(heard), PATIENCE)).method == RECONNECTED
    assert len(fake.told("session/open")) == 2


async def test_a_request_that_no_server_survives_is_given_up(fake):
    async with RawTimeleap(**fake.args((APPEND, "*", "die"))) as client:
        with pytest.raises(ConnectionLostError, match="the fake server dies as told"):
            await append(client, 1)
    assert len(fake.told(APPEND)) == 3


async def test_a_server_that_does_not_come_up_again_is_given_up(fake):
    async with RawTimeleap(**fake.args((APPEND, 1, "die"), start=["", *["die"] * 9])) as client:
        with pytest.raises(ConnectionLostError, match="given up after 3 starts in a row"):
            await append(client, 1)
    assert fake.starts == 4


async def test_a_late_start_in_a_row_succeeds(fake):
    async with RawTimeleap(**fake.args((APPEND, 1, "die"), start=["", "die", "die", ""])) as client:
        await append(client, 1)
    assert appended(fake) == ["1"]


async def test_without_restarts_a_lost_server_is_an_error(fake):
    async with RawTimeleap(**fake.args((APPEND, 1, "die"), restarts=NO_RESTARTS)) as client:
        with pytest.raises(ConnectionLostError, match="exit code 9"):
            await append(client, 1)
    assert fake.starts == 1


async def test_a_server_that_breaks_the_protocol_is_replaced(fake):
    async with RawTimeleap(**fake.args(("session/list", 1, "garbage"))) as client:
        assert "echo" in await client.call("session/list", within=20)
    assert fake.starts == 2


async def test_a_server_that_closes_its_output_is_replaced_and_does_not_go_on_behind_our_back(fake):
    async with RawTimeleap(**fake.args(("session/list", 1, "close-output"))) as client:
        first = client.pid or 0
        assert "echo" in await client.call("session/list", within=20)
        assert not psutil.pid_exists(first)
    assert fake.starts == 2


async def test_closing_during_a_recovery_ends_who_waits(fake):
    client = RawTimeleap(**fake.args((APPEND, 1, "die"), start=["", "hang"]))
    await client.start()
    task = asyncio.create_task(append(client, 1))
    while fake.starts < 2:
        await asyncio.sleep(0.01)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await task


async def test_the_journal_of_the_fake_is_what_these_tests_believe(fake):
    async with RawTimeleap(**fake.args()) as client:
        await append(client, 1)
    assert json.loads((fake.home / "effects.jsonl").read_text())["method"] == APPEND
