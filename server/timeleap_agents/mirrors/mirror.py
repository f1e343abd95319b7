"""A session that shows the conversation in another program's file.

The log of a mirror has, beside the messages, marks: opaque records that say which step of the conversation stands before
them, and how much of the file was read. So the log itself says how far it is, after a crash, too: an append and its mark
are one step. Where the file says something else than the log (its program went back, or wrote another file), the log is
cut at the last mark that both have in common, and what it was is a timeline.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from timeleap.call import to_its_end
from timeleap.errors import InvalidInputError
from timeleap.json_value import Json
from timeleap.sessions.appends import append
from timeleap.sessions.documents.json_files import is_encodable
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.kernel.change import Change, Marks
from timeleap.sessions.kernel.rewrites import external, timeline_facts
from timeleap.sessions.kernel.session_view import SessionView
from timeleap.sessions.shapes import Cause, Mutation, Source, set_members
from timeleap.storage.log_values import LogState, RecordKind, Replacement, TimelineReason
from timeleap.storage.record import decode_json
from timeleap.store.creation import usable_title
from timeleap.store.listing import set_last_change
from timeleap_agents.mirrors import takeover
from timeleap_agents.mirrors.claude_log import ClaudeLog
from timeleap_agents.mirrors.codex_log import CodexLog
from timeleap_agents.mirrors.comparing import messages_in, messages_of
from timeleap_agents.mirrors.folders import FileFacts, facts_of, is_there, mirror_id, parent_of, session_key
from timeleap_agents.mirrors.gemini_log import GeminiLog
from timeleap_agents.mirrors.growing_file import (
    Conversation,
    Earlier,
    FileReplacedError,
    is_beginning,
)
from timeleap_agents.mirrors.kimi_code_log import KimiCodeLog
from timeleap_agents.mirrors.kimi_log import KimiLog
from timeleap_agents.mirrors.opencode_log import OpencodeLog
from timeleap_agents.mirrors.pi_log import PiLog
from timeleap_agents.mirrors.record_list import (
    ENTRIES_AT_ONCE,
    MARK_ROLE,
    FormerCheckpoints,
    PendingSnapshot,
    RecordList,
)
from timeleap_agents.mirrors.regrouping import keeps_all, remove_timeline
from timeleap_agents.mirrors.step_digests import DigestList, StepDigests
from timeleap_agents.mirrors.steps import Step
from timeleap_agents.mirrors.vault.keeper import Keeper

if TYPE_CHECKING:
    from timeleap.service.service import Service
    from timeleap.sessions.session import Session


STEPS_AT_ONCE: Final = 500
BYTES_AT_ONCE: Final = 4 << 20
"""Bytes of a file that become one append."""
NEWER: Final = "newerThanTested"
LEFT_OUT: Final = "leftOut"
MAX_LOSSES: Final = 5
"""The most losses that a warning names."""
MIRRORED: Final = "mirrored"
"""Member of `timeleap.json`: which folders the program's file named last and first, and whether it was `redacted`."""
REDACTED: Final = "redacted"


READERS: Final[Mapping[str, type[Conversation]]] = {
    "claude-code": ClaudeLog,
    "codex": CodexLog,
    "gemini": GeminiLog,
    "kimi": KimiLog,
    "kimi-code": KimiCodeLog,
    "opencode": OpencodeLog,
    "pi": PiLog,
}


class StepMark(Struct, frozen=True):
    """The log up to and including `line` shows the first `steps` steps of a conversation, of which `key` is the last.
    `chain` is a digest of all of them; marks of earlier releases have none."""

    line: int
    steps: int
    key: str
    chain: str | None = None


class Growth(Struct, frozen=True):
    """Result of a catch-up: number of new messages; whether the mirror is new; whether anything changed."""

    added: int = 0
    created: bool = False
    changed: bool = False


class Mirror:
    """The mirror of one session of a program.

    Attributes:
        path: Its file.
        session_id: The session that shows it.
        pending_snapshot: A snapshot that was taken for the next checkpoint.
        users: How many are at work with it.
    """

    def __init__(self, service: Service, kind: str, path: Path, session_id: str | None = None) -> None:
        self.kind = kind
        self.path = path
        self.session_id = mirror_id(kind, path) if session_id is None else session_id
        self.pending_snapshot: PendingSnapshot | None = None
        self.session: Session | None = None
        self.users = 0
        self._service = service
        self._cause = Cause(client=kind)
        self._conversation: Conversation | None = None
        self._marks: list[StepMark] | None = None
        self._former = FormerCheckpoints()
        self._digests = StepDigests()
        self._own_title: str | None = None  # as the program said it last
        self._told = 0  # offset in the file; of what is before it all timelines are there
        self._reason: TimelineReason = "external"  # of the timeline that the next cut makes
        self._elsewhere: dict[Path, FileFacts | None] = {}  # files of the same session, as they were when read last
        self._looked = False  # for other files of the session
        self._warned: Session | None = None  # as it was opened when it was warned of a newer version
        self._said: set[str] = set()  # warnings
        self.keeper = Keeper(kind, durable=service.config.durability == "disk", exclude=service.config.kept_exclude)
        self._open: contextlib.AsyncExitStack | None = None
        self._turn = asyncio.Lock()

    def offer(self, path: Path) -> None:
        """Note one more file of the session: it was moved, or copied."""
        if path != self.path:
            self._elsewhere.setdefault(path, None)

    @property
    def is_gone(self) -> bool:
        """None of its files is there any more. Blocking."""
        return not any(map(is_there, (self.path, *self._elsewhere)))

    async def catch_up(self, workspace: str | None = None) -> Growth:
        """Show what the file says by now. With a `workspace` (URI) the mirror is made even if there is no file yet.

        Raises:
            SessionLockedError: Another process has the mirror open.
            InvalidInputError: The file is none of that program.
            TimeleapError, OSError: It cannot be read, or the mirror cannot be written.
        """
        async with self._turn:
            return await self._catch_up(workspace)

    async def close(self) -> None:
        """Let go of the session; what was read stays in memory."""
        async with self._turn:
            await self._let_go()

    def workspace_of_file(self) -> str | None:
        """URI of the folder that the file's session is about, from its first lines. Blocking. Raises
        StorageFailureError."""
        if self._conversation is not None:
            return self._conversation.workspace
        reader = READERS[self.kind](self.path)
        reader.read_start()
        return reader.workspace

    def forget(self) -> None:
        """Let go of what was read, too; it is read again when it is needed."""
        self._conversation, self._marks = None, None

    async def _catch_up(self, workspace: str | None) -> Growth:
        if not is_encodable(str(self.path)):
            # A session says by its path which file it mirrors, and JSON has no form for such a name.
            raise InvalidInputError(
                "its name is not UTF-8, so it cannot be mirrored: rename it, or the folder it is in"
            )
        aside, conversation = await to_its_end(asyncio.to_thread(self._read))
        if conversation is None:
            if workspace is None:
                return Growth()
            _, created = await self._opened(READERS[self.kind](self.path), workspace)
            return Growth(created=created, changed=created)
        steps = conversation.steps()
        if not steps and workspace is None and not self.is_made and not conversation.earlier():
            return Growth()  # nothing is said yet
        session, created = await self._opened(conversation, workspace)
        await self.keeper.keep(session, conversation.file.path, [*conversation.parts, *self._elsewhere])
        before = session.engine.state
        self._warn_of_version(session, conversation)
        first = self._marks is None
        if self._marks is None:
            self._marks, self._told = await asyncio.to_thread(self._known, session, conversation)
        changed, grown = await self._keep_facts(session, conversation), not aside
        for other in aside:
            for branch in (*other.earlier(), Earlier(other.steps())):
                changed = await self._show(session, other, branch.steps, whole=False) or changed
        # What came and went between two looks is a timeline, too.
        since = self._told if conversation.by_offset or not first else 0
        if conversation.by_offset or (first and not since):
            branches = await asyncio.to_thread(conversation.earlier, since)
            for branch in branches if since else branches[len(session.engine.timelines()) :]:
                changed = await self._show(session, conversation, branch.steps, whole=False) or changed
                self._reason, grown = ("compact" if branch.reason == "compact" else "external"), False
        changed = await self._show(session, conversation, steps, whole=True, grown=grown) or changed
        self._told, self._reason = conversation.file.end, "external"
        conversation.file.forget_fresh()
        own = conversation.title or session.facts.title or conversation.first_prompt or _first_prompt(session)
        before_that, self._own_title = self._own_title, own
        # What was taken out of a title is still in the program's file: it is not to come back from there.
        taken_out = REDACTED in (session.meta.get(MIRRORED) or {}) and before_that in (None, own)
        if own and (title := usable_title(own)) != session.facts.title and not taken_out:
            await session.set_title(title, Mutation(cause=self._cause))
            changed = True
        if conversation.updated_at is not None:
            await asyncio.to_thread(set_last_change, session.path, conversation.updated_at)
        self._warn_of_losses(session, conversation)
        return Growth(max(0, session.engine.state.messages - before.messages), created, changed or created)

    async def lose(self) -> None:
        """End what is kept of a file that is not there any more. Raises as `catch_up`."""
        async with self._turn:
            if self.is_made and self.is_gone:
                session, _ = await self._opened(READERS[self.kind](self.path), None)
                await self.keeper.end(session)

    async def _keep_facts(self, session: Session, conversation: Conversation) -> bool:
        """Keep what the file says of the session beside what was said; says whether that is news."""
        known = session.meta.get(MIRRORED) or {}
        where = {"workspace": conversation.workspace, "beganIn": conversation.began_in, REDACTED: known.get(REDACTED)}
        changes: Json = {"source": Source(self.kind, self._key(conversation), str(self.path)).wire()}
        if conversation.created_at is not None:
            changes["createdAt"] = conversation.created_at
        if (parent := parent_of(self.kind, self.path)) is not None:
            changes["parent"] = {"sessionId": parent}
        if set_members(**where) != known:
            changes[MIRRORED] = set_members(**where)
        workspace = session.facts.workspace
        if conversation.workspace is not None and conversation.workspace != known.get("workspace"):
            workspace = changes["workspace"] = conversation.workspace
        news = {name: value for name, value in changes.items() if session.meta.get(name) != value}
        if news:
            await session.follow_program(news, workspace, Mutation(cause=self._cause))
        return bool(news.keys() - {"source"})

    def _key(self, conversation: Conversation) -> str:
        return (session_key(self.kind, self.path) or conversation.session_id)[:200]

    def _read(self) -> tuple[list[Conversation], Conversation | None]:
        """The conversation up to now, None where there is no file, not yet or not any more; before it those in other
        files of the session that say something else. Blocking."""
        self._choose_file()
        if not is_there(self.path):
            return [], None
        try:
            conversation = self._conversation or READERS[self.kind](self.path)
            conversation.read()
        except FileReplacedError:
            self._marks = None
            conversation = READERS[self.kind](self.path)
            conversation.read()
        self._conversation = conversation
        return self._read_aside(conversation), conversation

    def _choose_file(self) -> None:
        """Take that of the session's files which says how it is now."""
        reader = READERS[self.kind]
        if not self._looked:
            self._looked = True
            for path in (*reader.files_of(self.path), *self._shown_before()):
                self.offer(path)
        if not self._elsewhere:
            return
        found = [path for path in (self.path, *self._elsewhere) if facts_of(str(path)) is not None]
        present = reader.present_of(found) if found else self.path
        if present != self.path:
            self._elsewhere.setdefault(self.path, None)
            self._elsewhere.pop(present)
            self.path = present
            self.forget()

    def _shown_before(self) -> Iterator[Path]:
        """The file that the mirror showed last, where it is of this session still: a process that is told of another
        one alone has not heard of it. Blocking."""
        directory = self._service.store.home.sessions / self.session_id
        source = Meta(directory, "readOnly").source if directory.is_dir() else None
        if source is not None and source.kind == self.kind and source.path is not None:
            path = Path(source.path)
            if is_there(path) and mirror_id(self.kind, path) == self.session_id:
                yield path

    def _read_aside(self, conversation: Conversation) -> list[Conversation]:
        """Read what changed in the other files of the session, where the present one does not go on from it."""
        aside = []
        present = facts_of(str(self.path))
        for path, known in list(self._elsewhere.items()):
            facts = facts_of(str(path))
            if facts is None:
                del self._elsewhere[path]
            elif facts != known and (present is None or facts.inode != present.inode):
                self._elsewhere[path] = facts
                is_kept = path in conversation.parts or (path.exists() and is_beginning(path, self.path))
                if not is_kept:
                    other = READERS[self.kind](path)
                    other.read()
                    names = [step.name for step in other.steps()]
                    if names != [step.name for step in conversation.steps()[: len(names)]]:
                        aside.append(other)
        return aside

    @property
    def is_made(self) -> bool:
        """The store has it. Blocking."""
        return (self._service.store.home.sessions / self.session_id).is_dir()

    async def _opened(self, conversation: Conversation, workspace: str | None) -> tuple[Session, bool]:
        """The mirror, open; and whether it was made by this."""
        if self.session is not None and not self.session.transactions.closed:
            return self.session, False
        await self._let_go()
        await takeover.take_over(self._service.store, self.kind, self.path, self.session_id)
        title = conversation.title
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._service.reachable())  # as long as it is open, others may attach to it
            opened = await self._service.store.open(
                self.session_id,
                title=title and usable_title(title),
                workspace=conversation.workspace or workspace,
                source=Source(self.kind, self._key(conversation), str(self.path)),
            )
            stack.push_async_callback(opened.session.aclose)
            self._open = stack.pop_all()
        self.session = opened.session
        return opened.session, opened.created

    def _warn_of_version(self, session: Session, conversation: Conversation) -> None:
        """Say once that a newer version wrote the file than those that were tested."""
        if conversation.version > conversation.tested and self._warned is not session:
            self._warned = session
            versions = [".".join(map(str, each)) for each in (conversation.version, conversation.tested)]
            session.transactions.warn(
                NEWER, f"{conversation.writer} {versions[0]} wrote this, which was tested up to {versions[1]}"
            )

    def _warn_of_losses(self, session: Session, conversation: Conversation) -> None:
        """Say once what the file has that the mirror has not, all in one."""
        losses = [loss.message for loss in conversation.file.left_out.losses()]
        kinds = {re.sub(r"\A\d+ ", "", loss) for loss in losses}
        if kinds - self._said:
            self._said |= kinds
            more = f", and {len(losses) - MAX_LOSSES} more" if len(losses) > MAX_LOSSES else ""
            session.transactions.warn(LEFT_OUT, f"not in this mirror: {'; '.join(losses[:MAX_LOSSES])}{more}")

    async def _let_go(self) -> None:
        stack, self._open, self.session, self._marks, self._warned = self._open, None, None, None, None
        self._said = set()
        await self.keeper.let_go()
        if stack is not None:
            await stack.aclose()

    def _known(self, session: Session, conversation: Conversation) -> tuple[list[StepMark], int]:
        """The marks of the log, as far as the file still begins with what they were made of; and up to which offset all
        of it was read, 0 where no mark says so. Blocking."""
        found: list[StepMark] = []
        read: tuple[int, str] | None = None
        for line, record in _marks_of(session):
            if (mark := _mark_at(line, record)) is not None:
                found.append(mark)
                end, fingerprint = record.get("end"), record.get("hash")
                if type(end) is int and isinstance(fingerprint, str):
                    read = end, fingerprint
        if read is not None and not conversation.begins_with(*read):
            if len(conversation.parts) == 1:
                return self._agreeing(session, conversation, conversation.steps(), found), conversation.file.end
            # A session that goes on in a further file left something in the one before, which the log may show still.
            states = [*(branch.steps for branch in conversation.earlier()), conversation.steps()]
            return max((self._agreeing(session, conversation, steps, found) for steps in states), key=len), 0
        return found, read[0] if read is not None else 0

    def _agreeing(
        self, session: Session, conversation: Conversation, steps: Sequence[Step], marks: list[StepMark]
    ) -> list[StepMark]:
        """The marks up to which these steps of a file that its program rewrote say what the log says. Blocking."""
        digests = self._digests.of(steps)
        line = done = 0
        for number, mark in enumerate(marks):
            if not _is_at(mark, steps, digests):
                return marks[:number]
            said = list(messages_of(conversation, steps[done : mark.steps]))
            if said != list(messages_in(session.engine, line, mark.line)):
                return marks[:number]
            line, done = mark.line + 1, mark.steps
        return marks

    async def _show(
        self, session: Session, conversation: Conversation, steps: Sequence[Step], *, whole: bool, grown: bool = False
    ) -> bool:
        """Make the log say these steps; says whether that changed anything. `whole`: they are all of the file. `grown`:
        nothing else was shown since the last look at it."""
        assert self._marks is not None
        marks, digests = self._marks, self._digests.of(steps)
        while marks and not _is_at(marks[-1], steps, digests):
            marks.pop()
        done, keep_lines = (marks[-1].steps, marks[-1].line + 1) if marks else (0, 0)
        changed, needless = False, ""
        if keep_lines < session.engine.state.lines:
            await asyncio.to_thread(self._former.note, session.engine, keep_lines)
            keeps = grown and await asyncio.to_thread(keeps_all, session.engine, keep_lines, conversation, steps[done:])
            timeline_id = await self._cut(session, keep_lines)
            changed, needless = True, timeline_id if keeps else ""
        for part in _parts(steps, done):
            done += len(part)
            await self._append(
                session, conversation, part, digests[done - len(part) : done], done, last=whole and done == len(steps)
            )
            changed = True
        if whole and not steps and changed:
            await self._append(session, conversation, [], digests[:0], 0, last=True)
        if needless:
            await remove_timeline(session, needless)
        return changed

    async def _append(
        self,
        session: Session,
        conversation: Conversation,
        part: Sequence[Step],
        digests: DigestList,
        done: int,
        *,
        last: bool,
    ) -> None:
        """Add some steps, up to the step number `done`."""
        assert self._marks is not None
        log = RecordList(conversation.file.left_out, session.engine.state, self._former)
        await to_its_end(asyncio.to_thread(_write, log, conversation, part, digests, done, last=last))
        if self.pending_snapshot is not None and log.take_snapshot(self.pending_snapshot):
            self.pending_snapshot = None

        def decide(_: LogState, __: Marks) -> Change:
            return Change(records=log.records, made=log.made)

        before = session.engine.state.lines
        await append(session.transactions, Mutation(cause=self._cause), decide)
        for number, record in enumerate(log.records):
            if record.kind is RecordKind.FOREIGN:
                mark = _mark_at(before + number, decode_json(record.body))
                assert mark is not None
                self._marks.append(mark)

    async def _cut(self, session: Session, keep_lines: int) -> str:
        """Take away what the file does not say any more; the log as it was is a timeline, whose id is returned."""
        decide = partial(_decide_cut, keep_lines=keep_lines, reason=self._reason)
        done = await session.transactions.carry_out(Mutation(cause=self._cause), decide, rewrites=True)
        return str(done.get("timelineId", ""))


def _decide_cut(state: SessionView, keep_lines: int, reason: TimelineReason) -> Change:
    facts = timeline_facts(state.log, reason, state.time, {})
    return external(state, Replacement(facts, keep_lines=keep_lines, reuse=True))


def _mark_at(line: int, record: Json) -> StepMark | None:
    """The mark on a line; None where the record is none that can be used."""
    steps, key, chain = record.get("steps"), record.get("key"), record.get("chain")
    if type(steps) is not int or not isinstance(key, str):
        return None
    return StepMark(line, steps, key, chain if isinstance(chain, str) else None)


def _marks_of(session: Session) -> Iterator[tuple[int, Json]]:
    """The marks of a log, each with its line. Blocking."""
    engine = session.engine
    for start in range(0, engine.state.lines, ENTRIES_AT_ONCE):
        for entry in engine.entries(start, start + ENTRIES_AT_ONCE):
            if entry.kind is RecordKind.FOREIGN:
                record = decode_json(engine.read(entry.line, entry.line + 1)[0])
                if isinstance(record, dict) and record.get("role") == MARK_ROLE:
                    yield entry.line, record


def _write(
    log: RecordList, conversation: Conversation, part: Sequence[Step], digests: DigestList, done: int, *, last: bool
) -> None:
    """Write the records of some steps, up to the step number `done`, with a mark before each prompt and at the end.
    Blocking."""
    file = conversation.file
    number, before, key, chain = done - len(part), 0, "", ""
    prompts = 0
    for step, digest in zip(conversation.write(part, log), digests, strict=True):
        if len(log.made) > prompts and before:
            log.mark_before(before, number, key, chain)
        number, before, key, chain, prompts = number + 1, len(log.records), step.key, digest, len(log.made)
    log.mark(done, key, chain=chain, **({"end": file.end, "hash": file.fingerprint} if last else {}))


def _parts(steps: Sequence[Step], done: int) -> Iterator[Sequence[Step]]:
    """The steps behind the first `done`, as many together as become one append."""
    size = 0
    for number in range(done, len(steps)):
        size += steps[number].length
        if number + 1 - done >= STEPS_AT_ONCE or size >= BYTES_AT_ONCE or number + 1 == len(steps):
            yield steps[done : number + 1]
            done, size = number + 1, 0


def _is_at(mark: StepMark, steps: Sequence[Step], digests: DigestList) -> bool:
    if mark.steps == 0:
        return True
    if mark.steps > len(steps):
        return False
    return steps[mark.steps - 1].key == mark.key if mark.chain is None else digests[mark.steps - 1] == mark.chain


def _first_prompt(session: Session) -> str | None:
    """The label of the first checkpoint: a title for as long as the program gives none."""
    return session.find_checkpoint(id=0).label if session.engine.state.checkpoints else None
