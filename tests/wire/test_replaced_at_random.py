"""Processes that write to one session while its folder, and the lock in it, are replaced at random: what was acknowledged is
in the log that is left, once, in the order of each writer.

A writer asks again under its request id until it is answered, as clients do, whatever it is refused for meanwhile. Of
copies that were made before they were put back (`lossy`) the log may lack what was written since; then it is in the folder
that was replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.server import Launch, Message, Server
from tests.support.session import user
from tests.support.torture import share
from tests.wire.test_replaced_folder import LOCK, lock_replaced

WRITERS = 3
ROUNDS = 25
PASSING = {"externallyModified", "sessionLocked", "sessionNotFound", "sessionNotOpen", "storageFailure"}
PATIENCE = 120.0
SEEDS = [
    pytest.param(seed, durability, lossy, id=f"{durability}{'-lossy' if lossy else ''}-{seed}")
    for durability in ("disk", "os")
    for lossy in (False, True)
    for seed in range(share(40))
]

Replace = Callable[[Path, Path], None]


def exchanged(path: Path, aside: Path) -> None:
    """A copy is made of what was moved away, and takes its name when it is whole."""
    path.rename(aside)
    copy = aside.with_name(aside.name + "-copy")
    shutil.copytree(aside, copy)
    copy.rename(path)


def exchanged_without_hidden_files(path: Path, aside: Path) -> None:
    path.rename(aside)
    copy = aside.with_name(aside.name + "-copy")
    shutil.copytree(aside, copy, ignore=shutil.ignore_patterns(".*"))
    copy.rename(path)


def exchanged_for_links(path: Path, aside: Path) -> None:
    """The log is one file in both folders, the lock is not."""
    path.rename(aside)
    copy = aside.with_name(aside.name + "-copy")
    shutil.copytree(aside, copy, copy_function=os.link)
    lock_replaced(copy, aside.with_name(aside.name + "-lock"))
    copy.rename(path)


def all_exchanged(path: Path, aside: Path) -> None:
    path.parent.rename(aside)
    copy = aside.with_name(aside.name + "-copy")
    shutil.copytree(aside, copy)
    copy.rename(path.parent)


def there_and_back(path: Path, aside: Path) -> None:
    path.rename(aside)
    aside.rename(path)


def lock_removed(path: Path, _: Path) -> None:
    (path / LOCK).unlink(missing_ok=True)


LOSSLESS: list[Replace] = [
    exchanged,
    exchanged_without_hidden_files,
    exchanged_for_links,
    all_exchanged,
    there_and_back,
    lock_removed,
    lock_replaced,
]


def put_back(path: Path, aside: Path) -> None:
    """A copy that was made before is put in the place of the folder."""
    copy = aside.with_name(aside.name + "-copy")
    with contextlib.suppress(shutil.Error):  # of temporary files, which come and go
        shutil.copytree(path, copy)
    path.rename(aside)
    copy.rename(path)


class Writer(threading.Thread):
    """Appends texts through one server until it is told to stop."""

    def __init__(self, server: Server, session_id: str, number: int) -> None:
        super().__init__()
        self.server = server
        self.session_id = session_id
        self.number = number
        self.acknowledged: list[str] = []
        self.refusals: deque[str] = deque(maxlen=6)
        self.over = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self._say(f"{self.number}:{len(self.acknowledged)}")
        except BaseException as failure:
            self.failure = failure

    def _say(self, text: str) -> None:
        until = time.monotonic() + PATIENCE
        while self._ask("context/appendMessage", message=user(text), requestId=f"r{text}") is not None:
            assert time.monotonic() < until, list(self.refusals)
            self.recover()
        self.acknowledged.append(text)

    def recover(self) -> bool:
        """Have the session open again, as it is now."""
        if self._ask("session/reload") is None:
            return True
        self._ask("session/close")
        self._ask("session/open", create=False)
        return False

    def _ask(self, method: str, **params: Any) -> str | None:
        """Why it was refused."""
        reply = self.server.start(method, sessionId=self.session_id, **params).reply()
        if "error" not in reply:
            return None
        kind = str(reply["error"]["data"]["kind"])
        assert kind in PASSING, reply
        self.refusals.append(f"{method}: {reply['error']}")
        return kind


def texts_of(log: Path) -> list[str]:
    records: list[Message] = [json.loads(line) for line in log.read_bytes().splitlines()]
    return [record["content"] for record in records if record["role"] == "user"]


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "durability", "lossy"), SEEDS)
def test_what_was_acknowledged_is_in_one_log(tmp_path: Path, seed: int, durability: str, lossy: bool) -> None:
    chance = random.Random(seed)
    home = tmp_path / "home"
    servers = [Server(Launch(home, "lsp", args=["--durability", durability])) for _ in range(WRITERS)]
    try:
        for server in servers:
            server.initialize()
        state = servers[0].call("session/open", sessionId="s")
        writers = [Writer(server, "s", number) for number, server in enumerate(servers)]
        for writer in writers:
            writer.start()
        path = Path(state["path"])
        for number in range(ROUNDS):
            writers[0].over.wait(chance.uniform(0, 0.06))
            how = chance.choice([*LOSSLESS, *([put_back] * 5 if lossy else [])])
            aside = tmp_path / f"aside-{number}"
            how(path, aside)
        for writer in writers:
            writer.over.set()
        for writer in writers:
            writer.join()
        assert [writer.failure for writer in writers] == [None] * WRITERS
        left = texts_of(path / "context.jsonl")
        assert len(set(left)) == len(left)
        everywhere = {text for log in (*tmp_path.rglob("context.jsonl"),) for text in texts_of(log)}
        for writer in writers:
            mine = [text for text in left if text.startswith(f"{writer.number}:")]
            assert set(writer.acknowledged) <= everywhere
            assert lossy or mine == writer.acknowledged
        for writer in writers:
            while not writer.recover():
                pass
        access = [server.call("session/getState", sessionId="s")["access"] for server in servers]
        assert sorted(access) == ["attached"] * (WRITERS - 1) + ["owner"]
    finally:
        for server in servers:
            server.dispose()
