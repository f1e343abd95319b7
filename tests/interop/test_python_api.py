"""The same Python, on the original's classes and on ours: what code written for it may rely on is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.interop.prepare import original_python

pytestmark = pytest.mark.interop

NAMES = {
    "the original": """
from kimi_cli.soul.compaction import CompactionResult
from kimi_cli.soul.context import Context
from kimi_cli.soul.denwarenji import DenwaRenji, DMail
from kosong.contrib.context.linear import JsonlLinearStorage, LinearContext, LinearStorage, MemoryLinearStorage
from kosong.message import Message
""",
    "ours": """
from timeleap import CompactionResult, Context, DenwaRenji, DMail
from timeleap import JsonlLinearStorage, LinearContext, LinearStorage, MemoryLinearStorage, Message
""",
}

SCRIPT = """
import asyncio, collections.abc, copy, json, pickle, sys
from pathlib import Path

folder = Path(sys.argv[1])
say = lambda text: Message(role="user", content=text)
told = {}

async def refusal(awaitable):
    try:
        await awaitable
    except Exception as error:
        return [isinstance(error, RuntimeError), isinstance(error, ValueError), str(error)]

async def linear():
    storage = JsonlLinearStorage(folder / "linear.jsonl")
    context = LinearContext(storage)
    history = context.history
    told["linear empty"] = [history == [], len(history), bool(history), context.token_count]
    for text in "abc":
        await context.add_message(say(text))
    await context.mark_token_count(7)
    told["linear"] = [context.history is history, len(history), context.token_count, history[1:] == [say("b"), say("c")]]
    told["linear kinds"] = [
        isinstance(storage, MemoryLinearStorage), isinstance(storage, LinearStorage), isinstance(MemoryLinearStorage(), LinearStorage),
    ]
    told["linear copies"] = [copy.deepcopy(history) == history, pickle.loads(pickle.dumps(history)) == history]
    told["linear again"] = await refusal(storage.restore())

async def whole():
    context = Context(folder / "context.jsonl")
    told["empty"] = [len(context.history), context.history == [], await context.restore()]
    await context.checkpoint(False)
    await context.append_message([say("a"), say("b")])
    await context.append_message(CompactionResult([say("c")], None).messages)
    history = context.history
    told["sequence"] = [
        isinstance(history, collections.abc.Sequence), len(history), history == [say("a"), say("b"), say("c")],
        history[-1] == say("c"), history[::-1] == [say("c"), say("b"), say("a")], say("b") in history,
        history.index(say("b")), history.count(say("c")), history is context.history, history != [], list(reversed(history))[0] == say("c"),
    ]
    copies = [copy.copy(history), copy.deepcopy(history), pickle.loads(pickle.dumps(history)), history[:], history + [], [*history]]
    told["copies"] = [[type(each).__name__, each == [say("a"), say("b"), say("c")]] for each in copies]
    told["again"] = await refusal(context.restore())
    told["no checkpoint"] = await refusal(context.revert_to(9))
    await context.revert_to(0)
    told["reverted"] = [len(context.history), context.n_checkpoints, context.token_count]

def phone():
    denwa = DenwaRenji()
    denwa.set_n_checkpoints(1)
    denwa.send_dmail(DMail(message="x", checkpoint_id=0))
    told["dmail"] = [denwa.fetch_pending_dmail().message, denwa.fetch_pending_dmail()]

asyncio.run(linear())
asyncio.run(whole())
phone()
print(json.dumps(told))
"""


def run(python: str | Path, names: str, folder: Path) -> Any:
    folder.mkdir()
    environment = {**os.environ, "HOME": str(folder), "USERPROFILE": str(folder), "PYTHONUTF8": "1"}
    command = [str(python), "-c", names + SCRIPT, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_it_comes_to_the_same(tmp_path: Path) -> None:
    original = run(original_python(), NAMES["the original"], tmp_path / "original")
    ours = run(sys.executable, NAMES["ours"], tmp_path / "ours")
    assert ours == original
