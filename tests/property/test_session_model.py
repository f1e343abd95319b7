"""Sessions against a model of lists and dicts, through any history of changes: on every engine, and in a store with
restarts, crashes, retries, followers, forks and other programs.

`make torture` runs each of the machines for 500 histories.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
import tempfile
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec import to_builtins as asdict
from tests.crash.storage.faults import CHANGING, faults
from tests.support import figures
from tests.support.leftovers import holders
from tests.support.plain_shapes import PLAIN
from tests.support.session_model import Model, RefusedError, written
from tests.support.session_operations import (
    APPENDS,
    CHANGES,
    EXPECTATION,
    OPS,
    PICK,
    SECRETS,
    STATES,
    TAIL,
    TEXT,
    Op,
    op,
)
from tests.support.session_seen import (
    guard_of,
    log_of,
    perform,
    planned_redaction,
    rehearsed,
    seen,
    summary_text,
)
from tests.support.torture import share
from tests.unit.storage.engines import ENGINES, Opener

from timeleap.errors import TimeleapError
from timeleap.features.approvals.requests import AskedApprovals
from timeleap.features.approvals.seal import KeyRing
from timeleap.features.approvals.standing import SealedApprovals
from timeleap.features.approvals.store_approvals import in_files
from timeleap.features.transfer.archive import write_archive
from timeleap.features.transfer.exhibit import exhibit_of
from timeleap.features.transfer.importing import take_in
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.statefile import StateFile
from timeleap.sessions.session import Session
from timeleap.sessions.shapes import Mutation, Retention
from timeleap.sessions.transaction import Files, SessionServices, SessionTransactions
from timeleap.storage.index import index_path
from timeleap.storage.log_values import Durability
from timeleap.store.store import SessionStore

T = TypeVar("T")
Json = dict[str, Any]

MAX_TIMELINES = 3
REWRITES = ("revert", "clear", "compact", "restore_timeline", "deliver_dmail", "undo", "redo")
BESIDE = (
    "set_pins",
    "set_title",
    "archive",
    "unarchive",
    "put_subagent",
    "remove_subagent",
    "set_yolo",
    "set_auto_approve",
    "set_auto_checkpoint",
)


class EngineMachine(RuleBasedStateMachine):
    """What holds of a session whatever its log is kept by."""

    opener: ClassVar[Opener]
    has_files: ClassVar[bool] = True
    max_timelines = 1000
    reasons = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(
            tempfile.mkdtemp(prefix="session-model-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self.loop = asyncio.new_event_loop()
        self.model = Model(self.max_timelines)
        self.done: dict[str, tuple[str, Json, Json]] = {}  # by request id: operation and result
        self.asked = 0
        self.blurred: set[str] = set()  # requests whose params are not known any more
        self.uids: set[str] = set()
        self.kept: dict[str, list[bytes]] = {}  # the bytes of timelines, as they were when they were made
        self.heads: list[str] = []
        self.checked = 0
        self.session = self.run(self.opened())
        self.live: list[bytes] = []

    async def opened(self) -> Session:
        place = self.folder / "s"
        place.mkdir()
        meta = Meta(place, "owner")
        approvals = SealedApprovals("s", meta, StateFile(place), KeyRing(self.folder / "key"), trusted=True)
        engine = await type(self).opener(place)

        async def release(_: SessionTransactions) -> None:
            await engine.aclose()

        around = SessionServices(PLAIN, Retention(self.max_timelines), lambda _: set(), release, AskedApprovals)
        return Session("s", place, Files(engine, meta, approvals), around)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        figures.count(histories=1)
        self.run(self.session.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)

    # What happens

    @rule(op=OPS, with_id=st.booleans(), expect=EXPECTATION)
    def do(self, op: Op, with_id: bool, expect: str) -> None:
        self.one(op, with_id, expect)

    def one(self, op: Op, with_id: bool = True, expect: str = "none") -> None:
        name, args = self.resolved(op)
        guard = self.guard(name, args, with_id, expect)
        if expect != "stale":
            self.rehearse(name, args)
        self.take(name, args, guard, self.attempt(name, args, guard))

    @rule(
        ops=st.lists(
            st.tuples(APPENDS | STATES | op("clear", keep_system_prompt=st.booleans()), st.booleans()),
            min_size=2,
            max_size=5,
        )
    )
    def do_together(self, ops: list[tuple[Op, bool]]) -> None:
        """Without waiting for one another: they take effect in the order in which they were asked for."""
        many = [(name, args, self.guard(name, args, with_id, "none")) for (name, args), with_id in ops]

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*(self.result(*one) for one in many))

        for one, result in zip(many, self.run(all_at_once()), strict=True):
            self.take(*one, result, together=True)

    @precondition(lambda self: self.model.timelines)
    @rule(times=st.integers(1, 3), pick=PICK)
    def restore_to_and_fro(self, times: int, pick: int) -> None:
        """Bring timelines back: every byte of them, and what was there before is one, or the empty log."""
        for _ in range(times):
            before = self.live
            name, args = self.resolved(("restore_timeline", {"pick": max(pick, 0)}))
            wanted = self.kept[args["timeline_id"]]
            self.one((name, args))
            self.agrees()
            assert self.live == wanted
            assert not before or before == self.live or before in self.kept_now() or len(self.kept_now()) == 3

    def kept_now(self) -> list[list[bytes]]:
        return [self.kept[name] for name in self.model.timelines]

    @precondition(lambda self: self.model.undo_stack)
    @rule(steps=st.integers(1, 4), times=st.integers(1, 3), at_once=st.booleans())
    def undo_and_redo(self, steps: int, times: int, at_once: bool) -> None:
        """To and fro: every byte comes back, and no log is set aside a second time. Where a log that is set aside on the way
        has an old timeline removed, that ends a stack, and the way leads as far as there are states."""
        steps = min(steps, len(self.model.undo_stack))
        for _ in range(times):
            many = [steps] if at_once else [1] * steps
            back: list[list[bytes]] = []  # the logs that redo brings back, the next one last
            for number in many:
                back = self.reached([*back, *self.undone(number)])
            for number in many:
                # No further: what could be redone before leads elsewhere.
                if taken := back[-number:]:
                    self.one(("redo", {"steps": len(taken)}), expect="present")
                    self.agrees()
                    assert self.live == taken[0]
                    back = self.reached(back[: -len(taken)])
            assert back == []

    def undone(self, steps: int) -> list[list[bytes]]:
        """Undo so many steps; the logs that can be redone for it. Nothing can be where there are fewer steps."""
        stack = self.model.undo_stack
        names = [one["timeline"] for one in stack[-steps:][::-1]] if steps <= len(stack) else []
        logs = [self.live, *([] if name is None else self.kept[name] for name in names)]
        self.one(("undo", {"steps": steps}), expect="present")
        self.agrees()
        assert self.live == logs[-1]
        return [log for log, following in pairwise(logs) if log != following]

    def reached(self, back: list[list[bytes]]) -> list[list[bytes]]:
        """Of logs that were to be redone those above a timeline that is gone by now."""
        return back[max(0, len(back) - len(self.model.redo_stack)) :]

    @rule(pick=PICK, then=st.one_of(CHANGES, op("deliver_dmail"), op("deliver_dmail"), op("cancel_dmail")))
    def mail(self, pick: int, then: Op) -> None:
        """To a checkpoint of which there is one at least; and then something that may take it away."""
        self.one(("checkpoint", {"label": None, "add_user_message": True}))
        self.agrees()
        self.one(("send_dmail", {"pick": pick, "by_uid": True, "message": "Look in the drawer."}))
        self.agrees()
        self.one(then)

    @rule(tail=st.lists(st.sampled_from(TAIL), min_size=2, max_size=5), max_preserved=st.integers(1, 3))
    def compact_an_exchange(self, tail: list[Json], max_preserved: int) -> None:
        """In the middle of tool calls, where the summary would like to end."""
        self.one(("append", {"messages": [{"role": "system", "content": "a long rule " * 40}, *tail]}))
        self.agrees()
        self.one(("compact", {"words": "s", "max_preserved": max_preserved}))

    @precondition(lambda self: self.done)
    @rule(data=st.data(), expect=EXPECTATION, other=st.booleans())
    def ask_again(self, data: st.DataObject, expect: str, other: bool) -> None:
        """A repeat changes nothing and is answered as before; another request with that id is refused."""
        request_id = data.draw(st.sampled_from(sorted(self.done)))
        name, args, result = self.done[request_id]
        if other:
            args = {**args, "other": True}
        guard = guard_of(name, args, request_id, self.expected(expect))
        args.pop("other", None)
        again = self.attempt(name, args, guard)
        if other and (again == "invalidParams" or request_id not in self.blurred):
            assert again == "invalidParams"
        else:
            # Where the log has become shorter, the tokens at a record are told anew.
            self.is_repeat(again, result, "token_count_with_pending" if request_id in self.blurred else "head")

    @precondition(lambda self: self.has_files)  # where it looks
    @rule(text=SECRETS, expect=EXPECTATION)
    def redact(self, text: str, expect: str) -> None:
        """Nothing of it is left; and the dry run says what goes."""
        args = {"text": text, "replacement": "[gone]"}
        guard = self.guard("redact", args, True, expect)
        planned = self.run(planned_redaction(self.session, **args))
        self.agrees()
        result = self.attempt("redact", args, guard)
        self.take("redact", args, guard, result)
        if isinstance(result, dict):
            assert result["found"] == planned["found"]
            self.forget(text)

    def forget(self, text: str) -> None:
        """What was taken out is in nothing that is expected; requests are not compared with what they were any more."""
        self.kept = {
            name: lines for name, lines in self.kept.items() if not any(text.encode() in line for line in lines)
        }
        self.done = {one: known for one, known in self.done.items() if text not in json.dumps(known)}
        self.blurred.update(self.done)

    @rule()
    def reload(self) -> None:
        self.run(self.session.reload())
        self.model.reload()

    # How it is judged

    @invariant()
    def agrees(self) -> None:
        """Model and session are equal, and what may never change has not."""
        session, engine = self.session, self.session.engine
        new = [name for name in self.model.timelines if name not in self.kept]
        timelines = {name: log_of(engine.timeline(name)) for name in new}
        assert self.model.adopt(log_of(engine), timelines, self.uids), self.difference()
        self.uids.update(self.model.checkpoint_uids())
        for name in new:
            self.uids.update(one["uid"] for one in timelines[name] if one["uid"] is not None)
        assert self.shown(session) == self.expected_to_show(), self.difference()
        for name in self.model.timelines:
            lines = engine.timeline(name).read(0, engine.timeline(name).state.lines)
            assert self.kept.setdefault(name, lines) == lines, f"{name} has changed"
        before, self.live = self.live, engine.read(0, engine.state.lines)
        if self.heads and self.model.written == self.checked:
            assert self.heads[-1] == session.head
            assert self.live == before
        else:
            assert session.head not in self.heads, "a head was used again"
            self.heads.append(session.head)
        self.checked = self.model.written

    def shown(self, session: Session) -> Json:
        found = seen(session)
        if not self.reasons:
            found["timelines"] = {name: lines for name, (_, lines) in found["timelines"].items()}
        return found

    def expected_to_show(self) -> Json:
        found = self.model.shown()
        if not self.reasons:
            found["timelines"] = {name: lines for name, (_, lines) in found["timelines"].items()}
        return found

    def difference(self) -> str:
        mine, theirs = self.expected_to_show(), self.shown(self.session)
        return "\n".join(
            f"{name}:\n  model {mine[name]}\n  store {theirs[name]}" for name in mine if mine[name] != theirs[name]
        )

    def take(self, name: str, args: Json, guard: Mutation, result: Json | str, together: bool = False) -> None:
        """Do in the model what was done, and compare what came of it."""
        if guard.expected_head is not None and guard.expected_head != self.heads[-1]:
            assert result == "contentModified"
            return
        expected, refused = self.imagined(self.model, name, args, guard)
        if refused is not None:
            assert result == refused
            return
        assert isinstance(result, dict), f"{name} was refused: {result}"
        assert "duplicate" not in result
        self.check(result, expected)
        if guard.request_id is not None:
            self.done[guard.request_id] = (name, args, result)
        if not together and name != "reload" and result:
            assert result["head"] == self.session.head
            if "context" in result:
                now = json.loads(json.dumps(asdict(self.session.summary())))
                for checkpoint in now["checkpoints"]:
                    del checkpoint["summary"]  # as in the result, `plain` takes them out
                assert result["context"] == now, [result["context"], now]

    @staticmethod
    def imagined(model: Model, name: str, args: Json, guard: Mutation) -> tuple[Json, str | None]:
        """What has to be in the result; or the kind of the error."""
        try:
            return model.do(name, args, guard.request_id), None
        except RefusedError as refused:
            return {}, refused.kind

    def check(self, result: Json, expected: Json) -> None:
        """What is expected is in the result."""
        for name, value in expected.items():
            if isinstance(value, dict):
                self.check(result[name], value)
            else:
                assert result[name] == value, f"{name} is {result[name]}, not {value}"

    def is_repeat(self, again: Json | str, first: Json, anew: str = "head") -> None:
        assert isinstance(again, dict), f"a repeat was refused: {again}"
        assert {**again, "head": 0, anew: 0} == {**first, "duplicate": True, "head": 0, anew: 0}
        assert again["head"] == self.session.head

    def rehearse(self, name: str, args: Json) -> None:
        """The dry run says what would be, and changes nothing."""
        try:
            plan = self.run(rehearsed(self.session, name, args))
        except TimeleapError as error:
            with pytest.raises(RefusedError, match=error.kind):
                copy.deepcopy(self.model).do(name, args)
            return
        if plan is None:
            return
        imagined = copy.deepcopy(self.model)
        expected = imagined.do(name, args)
        self.check(json.loads(json.dumps(plan)), {**expected, "timeline_id": None})
        if name != "deliver_dmail":
            context = plan["context"]
            found = [
                context[one] for one in ("message_count", "token_count", "token_count_with_pending", "n_checkpoints")
            ]
            assert [*found, context["system_prompt"]] == [
                *imagined.shown()["counts"][:4],
                imagined.shown()["system_prompt"],
            ]
        self.agrees()

    # How it is asked

    def attempt(self, name: str, args: Json, guard: Mutation) -> Json | str:
        return self.run(self.result(name, args, guard))

    async def result(self, name: str, args: Json, guard: Mutation) -> Json | str:
        """The result, or the kind of the error."""
        try:
            return await perform(self.session, name, args, guard)
        except TimeleapError as error:
            return error.kind
        except OSError:
            return "storageFailure"

    def guard(self, name: str, args: Json, with_id: bool, expect: str) -> Mutation:
        request_id = None
        if with_id:
            self.asked += 1
            request_id = f"r{self.asked}"
        return guard_of(name, args, request_id, self.expected(expect))

    def expected(self, expect: str) -> str | None:
        if expect == "none":
            return None
        return self.heads[-1] if expect == "present" or len(self.heads) < 2 else self.heads[-2]

    def resolved(self, op: Op) -> Op:
        """The operation on what there is now."""
        name, args = op
        pick = args.get("pick", 0)
        if name == "revert" and "to_message" in args:
            count = len(self.model.messages())
            return name, {"message_index": pick % count if pick >= 0 and count else count, "heal": args["heal"]}
        if name in ("revert", "send_dmail") and "by_uid" in args:
            rest = {key: value for key, value in args.items() if key not in ("pick", "by_uid")}
            return name, {**self.target(pick, args["by_uid"]), **rest}
        if name in ("restore_timeline", "prune") and "pick" in args:
            newest_first = list(self.model.timelines)[::-1]
            there = pick >= 0 and newest_first
            chosen = newest_first[pick % len(newest_first)] if there else f"context_{self.model.rotation + 1}"
            return name, {"timeline_id": chosen} if name == "restore_timeline" else {"timeline_ids": [chosen]}
        if name == "compact":
            cut = self.model.preserved_from(args["max_preserved"])
            words = summary_text(self.model.messages()[:cut], self.model.state["pins"], args["words"])
            return name, {"summary": words, "max_preserved": args["max_preserved"]}
        return op

    def target(self, pick: int, by_uid: bool) -> Json:
        points = [one for one in self.model.lines if one["record"]["role"] == "_checkpoint"]
        gone = sorted(self.uids - set(self.model.checkpoint_uids()))
        if pick < 0 or not points:
            return {"uid": gone[pick % len(gone)]} if by_uid and gone else {"id": len(points) + 5}
        one = points[pick % len(points)]
        return {"uid": one["uid"]} if by_uid else {"id": one["record"]["id"]}


class StoreMachine(EngineMachine):
    """What holds of a session in a store: it comes back, whatever happened."""

    durability: ClassVar[Durability] = "disk"
    max_timelines = MAX_TIMELINES
    reasons = True

    async def opened(self) -> Session:
        self.store = SessionStore(
            self.folder / "home",
            durability=self.durability,
            shapes=PLAIN,
            retention=Retention(self.max_timelines),
            approvals=in_files(self.folder / "config" / "key"),
        )
        return (await self.store.open("s")).session

    @property
    def place(self) -> Path:
        return self.folder / "home" / "sessions" / "s"

    def teardown(self) -> None:
        figures.count(histories=1)
        self.run(self.store.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)

    @rule(lose_index=st.booleans())
    def restart(self, lose_index: bool) -> None:
        self.run(self.store.aclose())
        if lose_index:
            for log in self.place.glob("context*.jsonl"):
                index_path(log).unlink(missing_ok=True)
        self.session = self.run(self.opened())
        assert self.session.warnings == [], self.session.warnings

    @rule()
    def follow(self) -> None:
        """Somebody who only reads sees the same, and writes nothing."""
        self.run(self.store.aclose())
        before = {path.name: path.read_bytes() for path in self.place.iterdir() if path.suffix in (".json", ".jsonl")}
        follower = self.run(self.store.open("s", access="read")).session
        assert self.shown(follower) == self.expected_to_show()
        assert follower.head == self.heads[-1]
        self.run(self.store.aclose())
        assert before == {
            path.name: path.read_bytes() for path in self.place.iterdir() if path.suffix in (".json", ".jsonl")
        }
        self.session = self.run(self.opened())

    @rule(text=TEXT)
    def meddle(self, text: str) -> None:
        """A program that takes no lock appends a message; nothing is written until that is taken over."""
        path = self.place / "context.jsonl"
        missing = path.read_bytes()[-1:] not in (b"", b"\n")
        with path.open("a", encoding="utf-8", newline="\n") as log:
            log.write("\n" * missing + json.dumps({"role": "user", "content": text}) + "\n")
        assert (
            self.attempt("append", {"messages": [{"role": "user", "content": "no"}]}, Mutation())
            == "externallyModified"
        )
        self.run(self.session.reload())
        self.model.do("append_by_another", {"messages": [{"role": "user", "content": text}]})

    @rule()
    def delete_and_undelete(self) -> None:
        self.run(self.store.delete("s"))
        self.run(self.store.trash.undelete("s"))
        self.session = self.run(self.opened_again())

    async def opened_again(self) -> Session:
        return (await self.store.open("s", create=False)).session

    @precondition(lambda self: len(self.model.fork_points) < 3)
    @rule(pick=PICK, at=st.integers(0, 40), past=PICK)
    def fork(self, pick: int, at: int, past: int) -> None:
        """Of the present or of a timeline, also with a crash at the `at`-th change of the disk (0: none); asked again, there
        is one fork, and a whole one."""
        names = list(self.model.timelines)
        timeline = names[past % len(names)] if past >= 0 and names else None
        lines = self.model.lines if timeline is None else self.model.timelines[timeline]["lines"]
        points = [one["uid"] for one in lines if one["uid"] is not None]
        uid = points[pick % len(points)] if pick >= 0 and points else None
        self.asked += 1
        guard = Mutation(request_id=f"f{self.asked}", method="session/fork", fingerprint="f" * 16)
        if at:
            self.dying(self.forked(uid, timeline, guard), at, False)
        forks = {self.run(self.forked(uid, timeline, guard)) for _ in range(2)}
        there = [one.session_id for one in self.run(self.store.list()).sessions if one.session_id != "s"]
        assert len(forks) == 1
        assert sorted(there) == sorted({*there, *forks})
        (name,) = forks
        fork = self.run(self.store.open(name, create=False)).session
        end = len(lines) if uid is None else 1 + [one["uid"] for one in lines].index(uid)
        assert fork.meta.parent is not None
        assert (fork.meta.parent.session_id, fork.meta.parent.checkpoint_uid) == ("s", uid)
        shown = seen(fork)
        assert shown["steps"] == [0, 0]
        assert shown["log"] == [written(one) for one in lines[:end]]
        title = f"{self.model.state['title'] or 's'} (fork)"
        expected = self.expected_to_show()["state"]
        assert shown["state"] == {
            **expected, "title": title, "archived": False, "dmail": None, "yolo": False, "actions": []
        }  # fmt: skip
        self.run(fork.append([{"role": "user", "content": "elsewhere"}]))
        self.run(self.store.aclose())
        self.session = self.run(self.opened())
        if uid is not None:
            self.model.fork_points.append(uid)

    async def forked(self, uid: str | None, timeline: str | None, guard: Mutation) -> str:
        opened = await self.store.fork("s", checkpoint_uid=uid, timeline_id=timeline, guard=guard)
        await opened.session.aclose()
        return opened.session.session_id

    @rule(at=st.integers(0, 40), undo=st.booleans())
    def export_and_import(self, at: int, undo: bool) -> None:
        """What is made of an archive is the session, with everything that can be undone in it; also where the importing
        process dies at the `at`-th change of the disk (0: none), and is asked again."""
        archive = self.folder / "s.timeleap"
        archive.write_bytes(b"".join(write_archive(self.run(exhibit_of(self.session)))))
        self.asked += 1
        guard = Mutation(request_id=f"i{self.asked}", method="session/import", fingerprint="f" * 16)
        if at:
            self.dying(self.imported(archive, guard), at, False)
        names = {self.run(self.imported(archive, guard)) for _ in range(2)}
        assert len(names) == 1
        (name,) = names
        copied = self.run(self.store.open(name, create=False)).session
        model = copy.deepcopy(self.model)
        model.state |= {"title": " ".join((model.state["title"] or "").split()) or None}
        model.state |= {"archived": False, "yolo": False, "actions": []}
        assert seen(copied) == model.shown()
        if undo and model.timelines:
            back = {"timeline_id": list(model.timelines)[-1]}
            model.do("restore_timeline", back)
            self.run(perform(copied, "restore_timeline", back, Mutation()))
            assert seen(copied)["log"] == model.shown()["log"]
        self.run(copied.aclose())
        self.run(self.store.delete(name))

    async def imported(self, archive: Path, guard: Mutation) -> str:
        announced, opened = await self.store.made_before(guard)
        if opened is None:
            with self.store.home.building() as directory:
                for _ in take_in(archive, None, directory, guard):
                    pass
                session_id = self.store.home.free_id(announced)
                opened = await self.store.put_in_place(directory, session_id, guard)
        await opened.session.aclose()
        return opened.session.session_id

    @rule(text=SECRETS, at=st.integers(1, 60))
    def redact_and_die(self, text: str, at: int) -> None:
        """It is done file by file: who asks again finds what is left, and finishes it."""
        args = {"text": text, "replacement": "[gone]"}
        self.dying(self.result("redact", args, self.guard("redact", args, True, "none")), at, False)
        result = self.attempt("redact", args, self.guard("redact", args, True, "none"))
        assert isinstance(result, dict), f"asked again: {result}"
        before = self.model.written
        self.model.redact(**args)
        if self.session.head == self.heads[-1]:  # it had come to timelines only, and a new process tells of those
            self.model.written = before
        self.forget(text)
        assert holders(self.place, value=text) == []

    # Crashes

    @rule(op=OPS, at=st.integers(1, 30), short=st.booleans(), with_id=st.booleans(), again=st.booleans())
    def crash(self, op: Op, at: int, short: bool, with_id: bool, again: bool) -> None:
        name, args = self.resolved(op)
        self.die([(name, args, self.guard(name, args, with_id, "none"))], at, short, again)

    @rule(
        ops=st.lists(APPENDS, min_size=2, max_size=5), at=st.integers(1, 12), short=st.booleans(), again=st.booleans()
    )
    def crash_together(self, ops: list[Op], at: int, short: bool, again: bool) -> None:
        self.die([(name, args, self.guard(name, args, True, "none")) for name, args in ops], at, short, again)

    def die(self, many: list[tuple[str, Json, Mutation]], at: int, short: bool, again: bool) -> None:
        """The process dies at the `at`-th change of the disk: each operation was done whole or not at all, in order."""

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*(self.result(*one) for one in many))

        results = self.dying(all_at_once(), at, short)
        stages, expected = [copy.deepcopy(self.model)], []
        for name, args, guard in many:
            stages.append(copy.deepcopy(stages[-1]))
            outcome, refused = self.imagined(stages[-1], name, args, guard)
            expected.append(outcome if refused is None else {"refused": refused})
        acknowledged = (
            [isinstance(one, dict) for one in results].index(False)
            if not all(isinstance(one, dict) for one in results)
            else len(results)
        )
        done = self.recovered(stages, acknowledged)
        for number, (one, result) in enumerate(zip(many, results, strict=True)):
            name, args, guard = one
            if "refused" in expected[number]:
                continue
            if isinstance(result, dict):
                if stages[number].written == stages[number + 1].written and result.get("timeline_id", "") is None:
                    expected[number].pop("timeline_id", None)  # it could not be read any more
                if name == "prune":  # where forks cannot be read any more, what they may need is kept
                    assert set(result["removed_ids"]) <= set(expected[number].pop("removed_ids"))
                self.check(result, expected[number])
                if guard.request_id is not None:
                    self.done[guard.request_id] = (name, args, result)
            elif guard.request_id is not None and again:
                same = stages[number].shown() == stages[number + 1].shown()
                self.ask_after_crash(name, args, guard, expected[number], None if same else number < done)
            self.agrees()

    def dying(self, work: Coroutine[Any, Any, T], at: int, short: bool) -> T | list[Any]:
        """Work, while from the `at`-th change on nothing reaches the disk; then begin anew with what is there."""
        with faults(first=at, onwards=True, short=short, calls=(*CHANGING, "mkdir", "chmod")):
            try:
                found: T | list[Any] = self.run(work)
            except (TimeleapError, OSError):
                found = []
            self.run(self.abandoned())
        self.session = self.run(self.opened())
        return found

    async def abandoned(self) -> None:
        try:
            await self.store.aclose()
        except OSError:
            await self.store.aclose()

    def recovered(self, stages: list[Model], least: int) -> int:
        """Go on with the stage at which the store is; how many operations were done."""
        shown = self.shown(self.session)
        log = log_of(self.session.engine)
        before = stages[0]
        for done, stage in enumerate(stages):
            if done < least:
                continue
            late = {name for name in shown["timelines"] if name not in stage.timelines and name in before.timelines}
            if late:
                there = {**before.timelines, **stage.timelines}
                stage.keep_after_all({name: there[name] for name in there if name in late or name in stage.timelines})
            timelines = {
                name: log_of(self.session.engine.timeline(name))
                for name in stage.timelines
                if name not in self.kept and name in shown["timelines"]
            }
            mine = copy.deepcopy(stage)
            if mine.adopt(log, timelines, self.uids) and mine.shown() == shown:
                self.model = mine
                # A number that was noted for a timeline which never came to be is not used for another one.
                meta = json.loads((self.place / "timeleap.json").read_text("utf-8"))
                noted = [int(name.rpartition("_")[2]) for name in meta.get("timelines", {})]
                mine.rotation = max(mine.rotation, meta.get("rotation", 0), *noted, 0)
                return done
        first, last = (stages[at].shown() for at in (least, -1))
        raise AssertionError(f"neither here nor there:\nfirst {first}\nlast  {last}\nstore {shown}")

    def ask_after_crash(self, name: str, args: Json, guard: Mutation, expected: Json, done: bool | None) -> None:
        """Whoever got no answer asks again: it is done once, and this is the answer. Where it changes nothing, nobody can
        tell whether it was done before (`done` is None)."""
        result = self.attempt(name, args, guard)
        assert isinstance(result, dict), f"{name} was refused when asked again: {result}"
        repeated = result.pop("duplicate", False)
        if not done:
            assert not repeated or done is None or name in BESIDE
            expected = self.model.do(name, args, guard.request_id)
        elif name not in BESIDE:
            assert repeated, f"{name} was done twice"
        self.check(result, expected)
        assert guard.request_id is not None
        self.done[guard.request_id] = (name, args, result)


class OsMachine(StoreMachine):
    """The same without syncing: killed processes are survived all the same."""

    durability = "os"


QUICK = settings(
    max_examples=8,
    stateful_step_count=20,
    deadline=None,
    print_blob=False,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),  # explaining takes minutes
    suppress_health_check=list(HealthCheck),
)
LONG = settings(
    QUICK,
    max_examples=int(os.environ.get("TIMELEAP_HISTORIES") or share(500)),
    stateful_step_count=40,
    derandomize=False,
)

MACHINES: dict[str, type[EngineMachine]] = {
    **{
        name: type("Machine", (EngineMachine,), {"opener": staticmethod(opener), "has_files": name != "memory"})
        for name, opener in ENGINES.items()
    },
    "store": StoreMachine,
    "store, durability os": OsMachine,
}


OFTEN = {"jsonl", "store"}
"""Those of each `make test`; the others differ from them in a setting, or are for tests only."""


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.long) for name in MACHINES]
)
def test_a_session_is_what_its_model_says(name: str) -> None:
    run_state_machine_as_test(MACHINES[name], settings=QUICK)


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", MACHINES)
def test_through_thousands_of_histories(name: str) -> None:
    run_state_machine_as_test(MACHINES[name], settings=LONG)
