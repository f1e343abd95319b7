"""A store that an earlier commit wrote, with sessions in the middle of everything, and what that commit said of it.

`tests/fixtures/store_2026_11.tar.gz` holds it: hard links, keys and all, without locks and indexes, which are of one
machine. `python -m tests.support.old_store` wrote it, by the code of then; it is not to be written again: what is made
by the code of today says nothing about stores of yesterday. A later change of the format gets a store of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from tests.support.approvals import WANTED, ask, asked, decide
from tests.support.server import Launch, Message, Pending, Server
from tests.support.session import Session, assistant, user
from tests.wire.operations import OPERATIONS, Operation, prepare

from timeleap.features.approvals.seal import ENVIRONMENT
from timeleap.service import config
from timeleap.service.service import Service

ARCHIVE = Path(__file__).resolve().parents[1] / "fixtures" / "store_2026_11.tar.gz"
SECRET = "hunter2"
LARGE = "a prompt that is too large to be kept with its answer " * 800
CUT_SHORT = {
    "append batch": ("append.before_write", "append.after_write", "append.after_sync"),
    "revert": ("session.prepared", "replace.linked", "replace.linked_synced", "replace.renamed", "replace.done"),
    "undo": ("session.prepared", "replace.renamed"),
    "redo": ("replace.renamed", "replace.settled", "replace.duplicate_removed"),
    "undo to and fro": ("replace.settled",),
    "compact": ("session.prepared", "replace.renamed"),
    "deliver D-Mail": ("session.prepared", "replace.renamed"),
    "set yolo": ("approvals.after_audit", "approvals.after_seal", "approvals.after_state"),
    "put sub-agent": ("requests.after_append", "state.after_state", "state.after_meta"),
}
"""By operation: the failpoints at which the writing process was killed."""


def start(home: Path, failpoint: str = "") -> Server:
    """A server on the store, whose client hears of approvals."""
    server = Server(Launch(home, "lsp", env={"TIMELEAP_FAILPOINTS": f"{failpoint}=kill"} if failpoint else {}))
    server.initialize(clientInfo={"name": "writer"}, capabilities=WANTED)
    return server


def unpack(directory: Path, archive: Path = ARCHIVE) -> tuple[Path, list[Message]]:
    """Lay the store out; returns its home, and what is asked of it with the answers of the commit that wrote it."""
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    return directory / "home", json.loads((directory / "asked.json").read_text())


def ask_again(home: Path, requests: list[Message]) -> list[Message]:
    """What a server says of the store: every session as it opens, every request again, and the session after that."""
    server = start(home)
    found: list[Message] = []
    try:
        for request in requests:
            if (method := request["method"]).startswith("session/") and request["session"] is None:
                answer = server.call(method, **request["params"])
                found.append({"answer": _portable(answer, home, request["cutShort"])})
                continue
            session = Session.open(server, request["session"], create=False)
            before = _facts(session, request["cutShort"])
            answer = session.call(method, **request["params"])
            after = _facts(session, request["cutShort"])
            session.call("session/close")
            found.append({"before": before, "answer": _portable(answer, home, request["cutShort"]), "after": after})
    finally:
        server.dispose()
    return found


async def made(home: Path, requests: list[Message]) -> list[Any]:
    """What the next owner of a session tells an attached process of the requests that it got no answers to."""
    os.environ[ENVIRONMENT] = str(home.parent / "user" / "key")
    service = Service(config.load(home, environ={}))
    found: list[Any] = []
    try:
        for request in requests:
            if request["session"] is None:
                found.append(None)
                continue
            session = (await service.store.open(request["session"], create=False)).session
            changes = await session.made([request["params"]["requestId"]])
            await session.aclose()
            found.append(json.loads(json.dumps([asdict(change) for change in changes])))
    finally:
        del os.environ[ENVIRONMENT]
        await service.store.aclose()
    return found


def _portable(answer: Message, home: Path, cut_short: bool) -> Any:
    """An answer without what differs from place to place, and came later; of a request that is only done now, that it is."""
    if cut_short and not answer.get("duplicate"):
        return "done now"
    answer = {name: value for name, value in answer.items() if name != "files"}  # a session's state has it since
    return json.loads(json.dumps(answer).replace(json.dumps(str(home))[1:-1], "HOME"))


def _facts(session: Session, cut_short: bool) -> Message:
    """What a session is; where something is done anew on each run, without uids and times."""
    state = session.get_state()
    context, approval = state["context"], state["approval"]
    facts = {
        "history": session.history(),
        "timelines": [(line["reason"], line["messageCount"], line["checkpointCount"]) for line in session.timelines()],
        "checkpoints": [(c["id"], c.get("label"), c["messageCount"]) for c in context["checkpoints"]],
        "tokens": (context["tokenCount"], context["tokenCountWithPending"]),
        "undo": (context["canUndo"], context["canRedo"]),
        "prompt": context["systemPrompt"],
        "approval": (approval["yolo"], approval["afk"], approval["autoApproveActions"], approval["sealed"]),
        "others": [state.get(name) for name in ("title", "workspace", "archived", "dynamicSubagents", "pins")],
        "dmail": state["pendingDMail"] and state["pendingDMail"]["message"],
    }
    if not cut_short:
        facts |= {"head": state["head"], "uids": [c["uid"] for c in context["checkpoints"]]}
    return json.loads(json.dumps(facts))  # type: ignore[no-any-return]


class Writer:
    """Writes the store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.requests: list[Message] = []

    def write(self) -> None:
        """All of it."""
        self._answered()
        for operation in OPERATIONS:
            for failpoint in CUT_SHORT.get(operation.name, ()):
                self._cut_short(operation, failpoint)
        self._pruned()
        for path in [
            *self.directory.rglob("*.lock"),
            *self.directory.rglob("*.idx"),
            *self.directory.rglob("stderr-*"),
        ]:
            path.unlink()
        (self.directory / "asked.json").write_text(json.dumps(self.requests))
        with tempfile.TemporaryDirectory() as elsewhere:
            moved, copy = Path(elsewhere) / "moved", Path(elsewhere) / "copy"
            shutil.move(self.directory, moved)  # where the store was, there is none: its seals move with it
            pack(moved, archive := Path(elsewhere) / "store.tar.gz")
            unpack(copy, archive)
            changes = asyncio.run(made(copy / "home", self.requests))
            shutil.rmtree(copy)
            unpack(copy, archive)
            answers = ask_again(copy / "home", self.requests)
            known = [
                {**request, **said, "made": change}
                for request, said, change in zip(self.requests, answers, changes, strict=True)
            ]
            (moved / "asked.json").write_text(json.dumps(known, indent=1))
            pack(moved, ARCHIVE)

    def _note(self, session: str | None, method: str, params: Message, cut_short: str = "") -> None:
        self.requests.append({"session": session, "method": method, "params": params, "cutShort": cut_short})

    def _do(self, session: Session, method: str, request_id: str, **params: Any) -> Any:
        params = {**params, "requestId": request_id}
        self._note(session.id, method, params)
        return session.call(method, **params)

    def _answered(self) -> None:
        """Sessions that did each operation last, by one process that was then killed with all of them open."""
        server = start(self.home)
        try:
            for number, operation in enumerate(OPERATIONS):
                session = Session.open(server, f"did-{number:02}")
                self._before(session, operation)
                self._do(session, operation.method, "op", **operation.params)
            for make in (self._large, self._redacted, self._carried, self._asked):
                make(server)
            self._store(server)
            server.kill()
        finally:
            server.dispose()

    def _before(self, session: Session, operation: Operation) -> None:
        prepare(session)
        session.append(assistant("acknowledged " + "a" * 400))
        self._do(session, "session/setAutoApprove", "earlier", action="earlier", enabled=True)
        operation.before(session)

    def _large(self, server: Server) -> None:
        """Answers of which a part was not kept."""
        session = Session.open(server, "large")
        prepare(session)
        session.append(assistant("acknowledged " + "a" * 400))
        self._do(session, "context/compact", "compact", summary="in short")
        self._do(session, "session/putSubagent", "agent", name="large", systemPrompt=LARGE)
        self._do(session, "context/setPins", "pins", pins=[f"{number} {LARGE[:1980]}" for number in range(20)])
        self._do(session, "context/setSystemPrompt", "prompt", systemPrompt=LARGE)
        self._do(session, "context/undo", "undo")
        self._do(session, "context/setSystemPrompt", "prompt again", systemPrompt=LARGE)
        self._do(session, "context/revertTo", "revert", messageIndex=3)

    def _redacted(self, server: Server) -> None:
        """Requests without fingerprints and heads."""
        session = Session.open(server, "redacted")
        self._do(session, "context/appendMessage", "aside", message=user("went"))
        self._do(session, "context/clear", "cleared")
        session.append(user(f"the password is {SECRET}"), requestId="held it")
        self._do(session, "context/appendMessage", "harmless", message=user("harmless"))
        self._do(session, "session/setTitle", "titled", title="T")
        session.call("session/redact", value=SECRET)
        self._note(session.id, "context/appendMessage", {"message": user("other params"), "requestId": "held it"})
        self._do(session, "context/appendMessage", "later", message=user("later"))

    def _carried(self, server: Server) -> None:
        """Requests whose records went, and a fork that has none of them."""
        session = Session.open(server, "carried", autoCheckpoint="turn")
        self._do(session, "context/appendMessage", "first", messages=[user("one"), assistant("two")])
        self._do(session, "context/checkpoint", "point", label="here", addUserMessage=True)
        self._do(session, "context/updateTokenCount", "count", tokenCount=70)
        self._do(session, "context/setSystemPrompt", "prompt", systemPrompt="be brief")
        self._do(session, "context/revertTo", "revert", checkpointId=0)
        self._do(session, "context/appendMessage", "second", message=user("three"))
        self._do(session, "context/sendDMail", "dmail", checkpointId=0, message="note " * 20)
        fork = {"sessionId": "carried", "newSessionId": "forked", "requestId": "fork"}
        server.call("session/fork", **fork)
        self._note(None, "session/fork", fork)

    def _asked(self, server: Server) -> None:
        """Approvals that were decided, and one that waits."""
        session = Session.open(server, "asked")
        waiting = self._ask(session, "decided")
        decide(session, asked(session)["approvalId"], "reject", reason="no")
        waiting.result()
        ask(session, "another", requestId="open", description="still waits")
        session.call("session/setTitle", title="asked")
        self._note(session.id, "approval/request", {"action": "decided", "requestId": "decided"})

    def _ask(self, session: Session, action: str) -> Pending:
        return ask(session, action, requestId=action)

    def _store(self, server: Server) -> None:
        """What is asked of the store as a whole."""
        opened = {"title": "made", "systemPrompt": "p", "requestId": "make"}
        server.call("session/open", **opened)
        Session.open(server, "gone").say("x")
        deleted = {"sessionId": "gone", "requestId": "delete"}
        server.call("session/delete", **deleted)
        self._note(None, "session/delete", deleted)
        self._note(None, "session/open", opened)

    def _killed(self, name: str, failpoint: str, work: Callable[[Session], Pending]) -> None:
        server = start(self.home, failpoint)
        try:
            work(Session.open(server, name, create=False))
            server.process.wait(60)
        finally:
            server.dispose()

    def _cut_short(self, operation: Operation, failpoint: str) -> None:
        """One session of which a process was killed in the middle of an operation."""
        name = f"{operation.name} {failpoint}".replace(" ", "-").replace("D-Mail", "dmail").replace(".", "-").lower()
        server = start(self.home)
        session = Session.open(server, name)
        self._before(session, operation)
        if failpoint == "requests.after_append":
            session.call("session/setTitle", title="before", requestId="before")
        server.call("session/close", sessionId=name)
        assert server.shut_down() == 0
        server.dispose()
        params = {**operation.params, "requestId": "op"}
        self._note(name, operation.method, params, failpoint)
        self._killed(name, failpoint, lambda opened: opened.start(operation.method, **params))

    def _pruned(self) -> None:
        """Timelines that are to go, and are still there."""
        server = start(self.home)
        session = Session.open(server, "pruned")
        prepare(session)
        session.call("context/clear", requestId="cleared")
        server.call("session/close", sessionId="pruned")
        assert server.shut_down() == 0
        server.dispose()
        params = {"timelineIds": ["context_1"], "requestId": "prune"}
        self._note("pruned", "context/clear", {"requestId": "cleared"}, "prune.noted")
        self._note("pruned", "session/prune", params, "prune.noted")
        self._killed("pruned", "prune.noted", lambda opened: opened.start("session/prune", **params))


def pack(directory: Path, archive: Path) -> None:
    """Pack the store, with nothing of who wrote it."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:gz") as packed:
        for name in ("home", "user", "asked.json"):
            packed.add(directory / name, name, filter=anonymous)


if __name__ == "__main__":
    assert not ARCHIVE.exists(), "a store of earlier code cannot be written by today's"
    with tempfile.TemporaryDirectory(prefix="timeleap-") as temporary:
        Writer(Path(temporary)).write()
    sys.exit(0)
