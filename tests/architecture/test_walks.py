"""The walks of ARCHITECTURE.md are what happens: each stop is called when a server does what they tell."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.support.fixtures import StartServer
from tests.support.session import Session, assistant, user

TRACER = """
import atexit, os, sys, threading

called = set()

def profile(frame, event, argument):
    module = frame.f_globals.get("__name__", "")
    if event == "call" and module.startswith(("timeleap.", "timeleap_protocol.")):
        called.add((module, frame.f_code.co_qualname))

def dump():
    sys.setprofile(None)
    with open(os.environ["CALLS_FILE"], "a") as file:
        file.writelines(f"{module} {name}\\n" for module, name in sorted(called))

atexit.register(dump)
threading.setprofile(profile)
sys.setprofile(profile)
"""


def stops() -> list[tuple[str, str]]:
    """The module and the function or class of each stop; no name where a stop is a module."""
    tour = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Reading the source")[2]
    found = re.findall(r"`(?:server|protocol)/([\w/]+)\.py`(?:\s+`(\w+)`)?", tour)
    return [(path.replace("/", "."), name) for path, name in found]


def test_each_stop_of_the_walks_is_called(start: StartServer, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(TRACER)
    calls = folder / "calls"
    env = {"PYTHONPATH": str(folder), "CALLS_FILE": str(calls)}
    server = start(env=env)
    session = Session.open(server, "a", autoCheckpoint="turn")
    session.call("context/appendMessage", messages=[user("one"), assistant("two")], requestId="first")
    session.call("context/appendMessage", message=user("three"), requestId="second")
    for tokens in (7, 8):  # from the second one on a method is begun in the call that reads it
        session.call("context/updateTokenCount", tokenCount=tokens)
    session.call("context/revertTo", checkpointId=1, requestId="back")
    session.call("context/undo", requestId="forth")
    assert server.finish() == 0
    again = start(env=env)
    Session.open(again, "a")
    assert again.finish() == 0
    called = {tuple(line.split()) for line in calls.read_text().splitlines()}
    missed = [
        (module, name)
        for module, name in stops()
        if not any(place == module and name in ("", *qualified.split(".")) for place, qualified in called)
    ]
    assert missed == []
