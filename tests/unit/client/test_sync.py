from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from typing import assert_type

import pytest

from timeleap.client import (
    AsyncSession,
    AsyncTimeleap,
    ClientClosedError,
    Notification,
    StartFailedError,
    SyncSession,
    SyncTimeleap,
    TimeleapRpcError,
)
from timeleap_protocol.session import HeadResult

APPEND = "context/appendMessage"


def threads():
    return [thread.name for thread in threading.enumerate() if thread.name == "timeleap-client"]


def test_requests_wait_for_their_results(fake):
    with SyncTimeleap(**fake.args(("x/refused", 1, "locked"))) as client:
        assert client.call("x/echo", {"n": 1})["echo"] == {"n": 1}
        with pytest.raises(TimeleapRpcError, match="another process"):
            client.call("x/refused")
        assert client.session_set_title(session_id="s", title="t").head == "1"
        assert client.server_info["name"] == "fake"
        assert client.capabilities["protocolVersion"] == 1
        assert isinstance(client.pid, int)
    assert fake.exits == ["exit"]
    assert threads() == []


def test_it_survives_the_loss_of_the_server(fake):
    with SyncTimeleap(**fake.args((APPEND, 1, "effect-and-die"))) as client:
        assert client.call(APPEND, {"sessionId": "s"})["duplicate"] is True
    assert len(fake.effects) == 1


def test_it_may_be_used_from_several_threads(fake):
    with SyncTimeleap(**fake.args()) as client:
        results = []

        def work(number):
            results.append(client.call("x/echo", {"n": number})["echo"]["n"])

        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(results) == list(range(8))


def test_notifications_are_iterated_until_the_end(fake):
    with SyncTimeleap(**fake.args()) as client:
        with client.notifications("context/didChange", session_id="s") as heard:
            client.call(APPEND, {"sessionId": "s"})
            client.call(APPEND, {"sessionId": "other"})
            first = heard.take(5)
            assert first is not None
            assert first.params["head"] == "1"
            assert heard.take(0.05) is None
        rest = client.notifications()
        client.call(APPEND, {"sessionId": "s"})
    assert list(heard) == []
    assert [notification.params["head"] for notification in rest] == ["3"]


def test_what_nobody_takes_is_bounded_and_counted(fake):
    with SyncTimeleap(**fake.args()) as client:
        heard = client.notifications(capacity=2)
        for _ in range(4):
            client.call(APPEND, {"sessionId": "s"})
        assert heard.lost == 2
        last = heard.take()
        assert last is not None
        assert last.params["head"] == "3"


def test_a_blocking_call_inside_a_callback_is_refused_instead_of_waiting_for_itself(fake):
    failures = []

    with SyncTimeleap(**fake.args()) as client:

        def callback(_: Notification) -> None:
            try:
                client.call("x/echo")
            except ClientClosedError as error:
                failures.append(str(error))

        client.on(callback)
        client.call(APPEND, {"sessionId": "s"})
    assert "would wait for itself" in failures[0]


def test_a_summary_is_served_by_a_plain_function(fake):
    used = []

    def summarize(params):
        used.append(threading.current_thread().name)
        return f"of {params['sessionId']}"

    with SyncTimeleap(**fake.args(("x/compact", 1, "ask"), summarize=summarize)) as client:
        assert client.call("x/compact") == {"summary": "of s"}
    assert used != ["timeleap-client"]


def test_a_failed_start_leaves_no_thread_behind():
    with pytest.raises(StartFailedError):
        SyncTimeleap(command=["/no/such/program"]).start()
    assert threads() == []


def test_what_crosses_the_wire_can_be_seen(fake):
    seen = []
    with SyncTimeleap(**fake.args(trace=lambda direction, message: seen.append((direction, message)))) as client:
        client.call("x/echo", {"n": 1})
    methods = [(direction, message.get("method")) for direction, message in seen]
    assert methods[:2] == [("sent", "initialize"), ("received", None)]
    sent = next(message for direction, message in seen if message.get("method") == "x/echo")
    assert sent == {"jsonrpc": "2.0", "id": 2, "method": "x/echo", "params": {"n": 1}}
    assert any(direction == "received" and message.get("id") == 2 for direction, message in seen)


@pytest.mark.parametrize(("blocking", "awaited"), [(SyncTimeleap, AsyncTimeleap), (SyncSession, AsyncSession)])
def test_every_coroutine_has_its_method_that_waits_with_the_same_parameters(blocking, awaited):
    coroutines = dict(inspect.getmembers(awaited, inspect.iscoroutinefunction))
    renamed = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
    for name, coroutine in coroutines.items():
        if name.startswith("_") and name not in renamed:
            continue
        method = getattr(blocking, renamed.get(name, name))
        assert not inspect.iscoroutinefunction(method)
        assert method.__doc__ or name.startswith("_")
        mine, theirs = (list(inspect.signature(each).parameters) for each in (method, coroutine))
        assert mine == theirs, name


def test_methods_that_wait_keep_their_types(fake):
    with SyncTimeleap(**fake.args()) as client:
        assert_type(client.session_set_title(session_id="s", title="t"), HeadResult)
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            client.session_set_title(session_id="s", heading="t")  # type: ignore[call-arg]


def in_fork(work):
    """What a forked process makes of `work`, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # another than that of the test run
        signal.alarm(60)
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_client_does_not_go_over_a_fork_and_says_so_at_once(fake):
    with SyncTimeleap(**fake.args()) as client:
        heard = client.notifications()
        calls = [
            lambda: client.call("x/echo", {"n": 1}),
            lambda: client.notify("x/nothing"),
            lambda: client.session("s").open(),
            heard.take,
            client.start,
        ]
        for call in calls:
            said = in_fork(call)
            assert said.startswith("ClientClosedError: this client belongs to process"), said
            assert "make a new one" in said
        assert in_fork(client.close) == "None"
        assert client.call("x/echo", {"n": 2})["echo"] == {"n": 2}
    assert fake.exits == ["exit"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
async def test_an_asynchronous_client_does_not_go_over_a_fork(fake):
    async with AsyncTimeleap(**fake.args()) as client:
        heard = client.notifications()

        def in_new_loop(make):
            asyncio._set_running_loop(None)
            return asyncio.run(make())

        for make in (
            lambda: client.call("x/echo", {"n": 1}),
            lambda: client.notify("x/nothing"),
            lambda: anext(heard),
            client.start,
        ):
            said = in_fork(lambda make=make: in_new_loop(make))
            assert said.startswith("ClientClosedError: this client belongs to process"), said
        assert in_fork(lambda: in_new_loop(client.aclose)) == "None"
        assert (await client.call("x/echo", {"n": 2}))["echo"] == {"n": 2}
    assert fake.exits == ["exit"]
