"""Whatever somebody writes into our small files, the server answers: no internal error, no hang, no end that hangs."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import shutil
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import figures
from tests.support.server import Launch, Server
from tests.support.session import Session

PATIENCE = 60.0
"""Seconds without an answer that count as a hang."""

DOCUMENTS = ("timeleap.json", "state.json", ".context.jsonl.lock", ".context.jsonl.intent", "metadata.json")
LINES = ("requests.jsonl", "audit.jsonl")

NUMBERS = [0, -1, 1, True, False, 2**31, 2**53, 2**63, -(2**63), 10**30, -(10**30), 0.5, -0.0, 1e308]
NOT_JSON = [float("nan"), float("inf"), -float("inf")]
TEXTS = [
    "",
    "x",
    "\0",
    "\ud800",
    "a" * 300,
    "../../x",
    "context_1",
    "2026-13-45T99:99:99Z",
    "s~20260101T000000.000000-ab12",
]
TRASHED = [
    "x",
    "a~b",
    "s~99999999T999999.999999",
    "s~20260101T000000.000000-ab12",
    "~",
    "s~00010101T000000.000000",
]
DEEP = json.loads("[" * 200 + "]" * 200)
ODD: list[Any] = [None, *NUMBERS, *NOT_JSON, *TEXTS, [], {}, [[]], {"": {}}, [None, {"a": []}], DEEP, {"reason": []}]

values = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
raw = st.sampled_from(
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"\0" * 50, b"[" * 5000, b'{"a":' * 900 + b"1" + b"}" * 900, b'{"a": ' + b"9" * 5000 + b"}"]
) | st.binary(max_size=60)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a document, down to the last item."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value in a place."""
    if not path:
        return value
    changed = copy.deepcopy(document)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


class Fuzzed:
    """A server, and a session of which copies are made to be written into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(Launch(folder / "home", "lsp"))
        self.server.initialize()
        self.numbers = itertools.count()
        session = Session.open(self.server, "model", title="t", workspace="file:///w", requestId="made")
        session.checkpoint(label="one")
        session.say("precious", "more")
        session.call("context/clear", requestId="cleared")
        session.say("now")
        session.checkpoint(label="two")
        session.call("session/setYolo", yolo=True, requestId="on")
        session.call("session/putSubagent", name="helper", systemPrompt="help")
        session.call("context/setPins", pins=["a pin"])
        session.call("context/sendDMail", checkpointId=0, message="note", requestId="mail")
        session.call("session/fork", newSessionId="fork", requestId="forked")
        self.server.call("session/close", sessionId="model")
        self.server.call("session/close", sessionId="fork")
        self.model = session.path
        (self.model / ".context.jsonl.intent").write_text('{"timeline": "context_1.jsonl", "new": ".x.tmp"}')
        (self.model / "metadata.json").write_text('{"title": "old", "archived": false, "archived_at": 1.5}')
        self.documents = {name: json.loads((self.model / name).read_text()) for name in DOCUMENTS}

    def copied(self, name: str, content: bytes) -> str:
        """A copy of the session with another content of one file."""
        session_id = f"fuzz-{next(self.numbers)}"
        target = self.model.with_name(session_id)
        shutil.copytree(self.model, target)
        (target / name).write_bytes(content)
        if name == "metadata.json":
            (target / "state.json").unlink()
        return session_id

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request, or the error that it was refused with; not one of the server's own."""
        reply = self.server.start(method, **params).reply(PATIENCE)
        assert reply.get("error", {}).get("code") not in (-32603, -32700), (method, reply)
        return reply.get("result", reply.get("error"))

    def drive(self, session_id: str) -> None:
        """All that a session can be asked for, closed and open."""
        figures.count(hostile_inputs=1)
        one = {"sessionId": session_id}
        for method in ("session/verify", "session/storage", "session/listAudit"):
            self.ask(method, **one)
        listed = self.ask("session/list", limit=1000, includeArchived=True)["sessions"]
        assert session_id in [each["sessionId"] for each in listed]
        self.ask("session/fork", **one, newSessionId=f"{session_id}-f", requestId="f")
        self.ask("session/redact", **one, value="precious", dryRun=True)
        opened = self.ask("session/open", **one)
        assert "context" in opened, opened
        for method, params in (
            ("session/getState", {}), ("context/listTimelines", {}), ("context/appendMessage", {"message": {"role": "user", "content": "x"}, "requestId": "a"}),
            ("context/undo", {}), ("context/redo", {}), ("context/revertTo", {"checkpointId": 0, "requestId": "r"}),
            ("context/restoreTimeline", {"timelineId": "context_1"}), ("session/isApproved", {"action": "x"}),
            ("session/setTitle", {"title": "u", "requestId": "t"}), ("session/setAutoApprove", {"action": "x", "enabled": True}),
            ("context/deliverDMail", {}), ("session/reload", {}), ("session/prune", {"maxTimelines": 1}),
            ("session/redact", {"value": "precious"}), ("session/verify", {}),
        ):  # fmt: skip
            self.ask(method, **one, **params)
        archive = self.folder / f"{session_id}.zip"
        self.ask("session/export", **one, format="native", path=str(archive))
        state = self.ask("session/getState", **one)
        assert "metaDamaged" not in [each["kind"] for each in state["warnings"] if each.get("file") == "timeleap.json"]
        self.ask("session/close", **one)
        self.ask("session/delete", **one)
        self.ask("session/listTrash")
        self.ask("session/undelete", **one)
        checked = self.ask("session/verify", **one)
        assert [
            problem for problem in checked["problems"] if problem.get("file") in ("timeleap.json", "state.json")
        ] == []
        for name in (session_id, f"{session_id}-f"):
            self.ask("session/delete", sessionId=name)
        shutil.rmtree(self.folder / "home" / "trash")
        archive.unlink(missing_ok=True)

    def end(self) -> None:
        self.server.signal(signal.SIGTERM)
        self.server.wait(PATIENCE)
        self.server.dispose()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    running = Fuzzed(tmp_path_factory.mktemp("fuzz"))
    yield running
    running.end()


slow = settings(
    deadline=None,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "25")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@slow
@given(data=st.data())
@pytest.mark.long
def test_any_member_of_a_document(fuzzed: Fuzzed, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*DOCUMENTS[:2], *DOCUMENTS]))
    document = fuzzed.documents[name]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([way for way in places(document) if way] or [()]))
        document = replaced(document, path, data.draw(values))
        if not isinstance(document, (dict, list)):
            break
    fuzzed.drive(fuzzed.copied(name, json.dumps(document).encode()))


@slow
@given(data=st.data())
@pytest.mark.long
def test_any_content_of_a_file(fuzzed: Fuzzed, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*DOCUMENTS, *LINES]))
    content = data.draw(raw | values.map(lambda value: json.dumps(value).encode()))
    if name in LINES:
        before = (fuzzed.model / name).read_bytes()
        content = data.draw(st.sampled_from([before + content, content + b"\n" + before, content]))
    fuzzed.drive(fuzzed.copied(name, content))


@slow
@given(data=st.data())
@pytest.mark.long
def test_any_value_in_a_line(fuzzed: Fuzzed, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(LINES))
    lines = [json.loads(line) for line in (fuzzed.model / name).read_text().splitlines()]
    at = data.draw(st.integers(0, len(lines) - 1))
    path = data.draw(st.sampled_from(list(places(lines[at]))))
    lines[at] = replaced(lines[at], path, data.draw(values))
    fuzzed.drive(fuzzed.copied(name, b"".join(json.dumps(line).encode() + b"\n" for line in lines)))


@pytest.mark.long
@slow
@given(data=st.data())
def test_any_value_in_the_store_s_requests_and_odd_names_in_its_trash(fuzzed: Fuzzed, data: st.DataObject) -> None:
    ledger = fuzzed.folder / "home" / "requests.jsonl"
    before = ledger.read_bytes()
    lines = [json.loads(line) for line in before.splitlines()]
    at = data.draw(st.integers(0, len(lines) - 1))
    path = data.draw(st.sampled_from(list(places(lines[at]))))
    lines[at] = replaced(lines[at], path, data.draw(values))
    odd = fuzzed.folder / "home" / "trash" / data.draw(st.sampled_from(TRASHED))
    said = json.dumps(data.draw(values))
    shutil.rmtree(odd, ignore_errors=True)
    odd.mkdir(parents=True)
    (odd / "timeleap.json").write_text(said)
    ledger.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    for request_id in ("made", "forked", "gone"):
        fuzzed.ask("session/open", sessionId="model", requestId=request_id)
        fuzzed.ask("session/close", sessionId="model")
        fuzzed.ask("session/fork", sessionId="model", requestId=request_id)
        fuzzed.ask("session/delete", sessionId="fork", requestId=request_id)
        fuzzed.ask("session/undelete", sessionId="fork", requestId=request_id)
    fuzzed.ask("session/listTrash")
    fuzzed.ask("session/storage")
    shutil.rmtree(fuzzed.folder / "home" / "trash")
    ledger.write_bytes(before)


@slow
@given(data=st.data())
def test_any_value_in_an_archive(fuzzed: Fuzzed, data: st.DataObject) -> None:
    exported = fuzzed.folder / "model.zip"
    if not exported.exists():
        fuzzed.ask("session/export", sessionId="model", format="native", path=str(exported))
    with zipfile.ZipFile(exported) as source:
        members = {info.filename: source.read(info) for info in source.infolist()}
    name = data.draw(st.sampled_from(["timeleap.json", "state.json", "manifest.json"]))
    manifest = json.loads(members["manifest.json"])
    document = json.loads(members[name])
    document = replaced(document, data.draw(st.sampled_from(list(places(document)))), data.draw(values))
    if name == "manifest.json":
        manifest = document
    else:
        members[name] = json.dumps(document).encode()
        for listed in manifest["members"]:
            content = members[listed["name"]]
            listed.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    members["manifest.json"] = json.dumps(manifest).encode()
    changed = fuzzed.folder / "changed.zip"
    with zipfile.ZipFile(changed, "w") as target:
        for member, content in members.items():
            target.writestr(member, content)
    imported = fuzzed.ask("session/import", path=str(changed))
    if "sessionId" in imported:
        one = {"sessionId": imported["sessionId"]}
        fuzzed.ask("session/close", **one)
        assert fuzzed.ask("session/verify", **one)["ok"] is True
        fuzzed.ask("session/delete", **one)
        shutil.rmtree(fuzzed.folder / "home" / "trash")
    else:
        assert imported["message"]


def test_a_server_with_all_of_it_open_ends_at_once(fuzzed: Fuzzed) -> None:
    meta = fuzzed.documents["timeleap.json"]
    for name, value in (("epoch", -5), ("rotation", 10**30), ("timelines", {"context_1": {"reason": []}})):
        fuzzed.ask("session/open", sessionId=fuzzed.copied("timeleap.json", json.dumps({**meta, name: value}).encode()))
    other = fuzzed.server.again()
    other.signal(signal.SIGTERM)
    other.wait(PATIENCE)
