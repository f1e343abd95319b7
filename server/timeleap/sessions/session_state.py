"""State of a session outside its log: title, archive flag, sub-agents, pending D-Mail, approvals, request ids.

A change is worked out first, as a value; then carried out: `state.json`, then, in one write, `timeleap.json` with the
request that asked for it; then it counts here. A crash in between leaves a change that was not acknowledged and can be
made again; what could not be made again (a D-Mail) stands in `timeleap.json` alone.
Blocking; called in a thread at the session's turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from timeleap.errors import StorageFailureError
from timeleap.json_value import Json
from timeleap.sessions import past
from timeleap.sessions.documents import undo_member
from timeleap.sessions.documents.companion_forms import FORMS
from timeleap.sessions.documents.meta import Meta
from timeleap.sessions.documents.request_file import RequestFile, StoredResponse, counts, decode, proof_of
from timeleap.sessions.documents.session_files import quarantine_files
from timeleap.sessions.documents.statefile import STATE_DAMAGED, StateFile
from timeleap.sessions.kernel.change import ApprovalChange, Change
from timeleap.sessions.kernel.session_view import StateSnapshot, changes
from timeleap.sessions.participants import StandingApprovals
from timeleap.sessions.past import Stacks, has_uid
from timeleap.sessions.shapes import Cause, Event, json_members, set_members
from timeleap.storage.durable import FileStatus, failpoint, remove_file, status, storage_errors
from timeleap.storage.engine import LogEngine, same_timelines
from timeleap.storage.log_values import Prepared, Replacement, Timeline, highest_noted
from timeleap.storage.reader import LogReader

POLL_SECONDS = 0.25
REMOVING = "removing"
"""Member of `timeleap.json`: what was asked to go for good. It is noted first, together with the request, then removed.
So a crash in between loses neither: the next opening removes what still is there, and a repeat of the request gets the
answer it would have got."""


class StateManager:
    """The state outside one session's log.

    Attributes:
        facts: The state as it counts now.
        warnings: What is wrong with the files.
    """

    def __init__(self, path: Path, log: LogEngine, meta: Meta, approvals: StandingApprovals) -> None:
        self.facts = StateSnapshot()
        self._log = log
        self._meta = meta
        self._state = StateFile(path)
        self._approvals = approvals
        self._file = RequestFile(path)
        self._problems: list[Json] = []

    @property
    def warnings(self) -> list[Json]:
        """Warnings about the files, for the user."""
        return [*self._meta.warnings, *self._problems, *self._approvals.warnings]

    def approvals_misfiled(self) -> bool:
        """Read the file; True if it switches on or off anything that is not so in force."""
        return bool(self._approvals.warnings) or self._approvals.misfiled()

    def load(self) -> None:
        """Take over what the files say now. A D-Mail whose checkpoint is gone from the log is gone too."""
        values = self._state.read()
        self._approvals.load(values.approval)
        pending = self._meta.pending_dmail
        if pending is not None and not has_uid(self._log, pending.checkpoint_uid):
            pending = None
        self.facts = StateSnapshot(
            title=values.title,
            archived=values.archived,
            # Older releases of the original change those in `state.json`; newer ones drop them from it.
            subagents=values.subagents if values.subagents is not None else self._meta.subagents or (),
            pending_dmail=pending,
            pins=self._meta.pins,
            auto_checkpoint=self._meta.auto_checkpoint,
            workspace=self._meta.workspace,
            approval=self._approvals.current,
            stacks=undo_member.in_force(self._meta.get(undo_member.MEMBER), self._log),
        )
        self._problems = values.warnings

    def stamp(self) -> tuple[FileStatus | None, FileStatus | None]:
        """A value that changes whenever one of the files does."""
        return status(self._state.path), status(self._meta.path)

    def carry_out(self, change: Change, requests: list[Json]) -> None:
        """Make a change durable, with the journal line of the request that asked for it, then let it count. Where it says
        nothing of the state, only the request is noted.

        Raises:
            StorageFailureError: It did not succeed; what counts is what is on disk.
        """
        if change.facts is None:
            if requests:
                self.note({}, requests)
            return
        try:
            if change.state:
                aside = self._state.write(change.state, self._approvals.in_force)
                if aside is not None:
                    message = f"{self._state.path.name} was damaged; it is kept as {aside.name}"
                    self._problems = [{"kind": STATE_DAMAGED, "message": message, "file": aside.name}]
                failpoint("state.after_state")
            self.note(change.meta, requests)
            failpoint("state.after_meta")
        except BaseException:
            self.load()
            raise
        self.facts = change.facts

    def change_approvals(self, change: ApprovalChange, cause: Cause) -> None:
        """Put other approvals in force (see `StandingApprovals.change`), unless they are, and the file says so."""
        # Whoever edited the file, and whenever: it is to say what somebody has just said.
        if change.after == self.facts.approval and not self.approvals_misfiled():
            return
        try:
            self._approvals.change(change, cause)
        except BaseException:
            self.load()
            raise
        self.facts = replace(self.facts, approval=self._approvals.current)

    def dropping(self, log: LogReader, head: str) -> list[Event]:
        """The event that a rewrite drops the pending D-Mail, whose checkpoint is not in the new log; none where it stays."""
        pending = self.facts.pending_dmail
        if pending is None or has_uid(log, pending.checkpoint_uid):
            return []
        return changes(self.facts, replace(self.facts, pending_dmail=None), head)

    def remove_timelines(self, going: Sequence[Timeline]) -> str:
        """Delete timelines for good and forget what is remembered about them; says in words what was done."""
        if not going:
            return ""
        self.note({}, [])  # what the existence of a timeline says must be said otherwise before it goes
        for timeline in going:
            self._log.remove_timeline(timeline.timeline_id)
        self._meta.write({"timelines": self._meta.without_facts([timeline.timeline_id for timeline in going])})
        self.forget_steps()
        names = ", ".join(timeline.timeline_id for timeline in going[:10])
        size = sum(timeline.bytes for timeline in going)
        return f"{len(going)} old timelines ({size} bytes) were removed to stay within the limits: {names}"

    def remove_noted(self, timeline_ids: Sequence[str], files: Sequence[str], requests: list[Json]) -> None:
        """Delete timelines and quarantine files that requests, of these journal lines, ask for: what is noted is
        finished, whenever that may be."""
        going = {"timelines": list(timeline_ids), "quarantine": list(files)}
        self.note({REMOVING: going} if timeline_ids or files else {}, requests)
        failpoint("prune.noted")
        self.finish_removing()
        self.forget_steps()

    def finish_removing(self) -> None:
        """Remove what was noted to go and is still there.

        Raises:
            StorageFailureError: Some of it is there, and stays noted.
        """
        noted, directory = self._meta.get(REMOVING), self._meta.path.parent
        if noted is None:
            return
        timelines, files = set(noted.get("timelines", ())), set(noted.get("quarantine", ()))
        for timeline in self._log.timelines():
            if timeline.timeline_id in timelines:
                self._log.remove_timeline(timeline.timeline_id)
        for name, _ in quarantine_files(directory):
            if name in files:
                with storage_errors("remove what recovery kept", directory / name):
                    remove_file(directory / name)
        self._meta.write({REMOVING: None, "timelines": self._meta.without_facts(timelines)})

    def _remove_duplicate(self) -> None:
        """Remove the timeline of a rewrite that was not to stay, if it is still there: one of an empty log, or of a log
        that another timeline has the bytes of.

        Raises:
            StorageFailureError: It is there, and stays noted.
        """
        noted, log = (self._meta.get(undo_member.MEMBER) or {}).get("duplicate"), self._log
        if noted is None:
            return
        duplicate = proof_of(noted)
        name, equals = str(duplicate.timeline_id), duplicate.equals
        there = next((timeline for timeline in log.timelines() if timeline.timeline_id == name), None)
        # A program that gave that name to another log keeps it.
        if there and (equals != name and same_timelines(log, name, equals) if equals else there.bytes == 0):
            log.remove_timeline(name)

    def note(self, members: Mapping[str, Any], requests: list[Json]) -> None:
        """Write members of `timeleap.json` together with the journal lines of the requests that asked for it."""
        members = {**self._unconditional(), **members}
        if requests:
            self.empty_journal()
            members = {**members, "journal": {"requests": requests}}
        if members:
            self._meta.write(members)

    def note_rewrite(
        self,
        prepared: Prepared,
        replacement: Replacement,
        requests: list[Json],
        stacks: Stacks,
        tokens: Mapping[str, str],
    ) -> None:
        """Write what a rewrite makes true, before it does, with journal lines, and with what can be undone and redone
        after it; and by member the tokens of companions that go along with the new log."""
        self.empty_journal()
        live = self._log.state
        # What says that it was done: the present log is a timeline then. The name alone would not: a program that knows
        # nothing of these notes may give it to another log before we are asked again.
        proof = json_members(timeline_id=prepared.timeline_id, length=live.length, chain=f"{live.chain:016x}")
        following = {**proof, **set_members(equals=prepared.equals), "stacks": stacks.members()}
        members: Json = {
            "timelines": self._meta.with_facts(prepared.timeline_id, replacement.facts),
            "journal": {"requests": requests, **proof} if requests else None,
            undo_member.MEMBER: {**self.facts.stacks.members(), "next": following},
        }
        members |= {name: {"token": token, **proof} for name, token in tokens.items()}
        if self._meta.inherited_lines > replacement.keep_lines:
            members |= json_members(inherited_lines=replacement.keep_lines)
        self._meta.write({**members, **self._forgotten()})

    def note_stacks(self, stacks: Stacks, requests: list[Json], tokens: Mapping[str, str]) -> None:
        """Write what can be undone and redone after a step that leaves the log as it is."""
        changes: Json = {} if stacks == self.facts.stacks else {undo_member.MEMBER: stacks.members()}
        changes |= {name: {"token": token} for name, token in tokens.items()}
        self.note(changes, requests)

    def settle_rewrite(self, prepared: Prepared) -> None:
        """A rewrite was done: forget a D-Mail that it has dropped; and where its timeline is to go again, write what was
        noted so that it holds without.

        Raises:
            StorageFailureError: It counts here; the next step, or the next opening, writes it.
        """
        changes = self._forgotten() if prepared.equals is None else self._unconditional()
        if changes:
            self._meta.write(changes)

    def forget_steps(self) -> None:
        """Forget what cannot be gone back to any more, since its timeline is gone."""
        left = self.facts.stacks.within(past.timeline_ids(self._log))
        if left != self.facts.stacks:
            self._meta.write({undo_member.MEMBER: left.members()})
            self.facts = replace(self.facts, stacks=left)

    def forget_fingerprints(self, *, live_changes: bool) -> None:
        """Leave nothing in the file that tells of the bytes of logs as they were before a redaction; if the live log is
        one of those that change, that ends redo, as any change of it."""
        stacks = self.facts.stacks.without_redo() if live_changes else self.facts.stacks.at(self._log.state)
        if self._meta.get(undo_member.MEMBER) is not None:
            self._meta.write({undo_member.MEMBER: stacks.members()})
        self.facts = replace(self.facts, stacks=stacks)

    def requests(self) -> Iterator[StoredResponse]:
        """The requests that are known from files, oldest first."""
        made_by = self._meta.created_by
        if made_by is not None:
            yield from decode([{"v": {}, **made_by}])
        yield from self._file.read()
        yield from decode(self._true_journal())

    def stored(self) -> dict[str, int]:
        """The request ids whose answers are kept in files, and their numbers."""
        return {
            **dict(self._file.numbers()),
            **{known.request_id: known.number for known in decode(self._true_journal())},
        }

    def settle(self) -> None:
        """At open by the owner: finish what a crash cut short.

        What the journal says and is not true is forgotten, before another timeline gets that name; so is a D-Mail whose
        checkpoint is gone, before a restore brings that back.
        """
        changes: Json = {}
        if self._meta.get("journal") is not None and not self._true_journal():
            changes["journal"] = None
        changes |= self._forgotten()
        following = undo_member.next_of(self._meta.get(undo_member.MEMBER))
        must = bool(changes) or (following is not None and not counts(following, self._log))
        changes = {**self._unconditional(), **changes}
        if changes:
            try:
                self._meta.write(changes)
            except StorageFailureError:
                # On a full disk the session opens all the same: what is noted stays true, and the next step writes it.
                if must:
                    raise
        with contextlib.suppress(StorageFailureError):  # it stays noted, and the next opening tries again
            self._remove_duplicate()
            self.finish_removing()
        self._approvals.settle()
        self.facts = replace(self.facts, approval=self._approvals.current)

    def followed(self, member: str, token: str) -> bool:
        """True if the log's half of the change of a companion that has this token, noted in `member`, was done."""
        noted = self._meta.get(member)
        return noted is not None and noted["token"] == token and counts(noted, self._log)

    def _forgotten(self) -> Json:
        """The change that forgets a noted D-Mail whose checkpoint is gone: an undo that brings the checkpoint back is not
        to bring that back, too."""
        stale = self._meta.pending_dmail is not None and self.facts.pending_dmail is None
        return json_members(pending_dmail=None) if stale else {}

    def _unconditional(self) -> Json:
        """The notes of the last rewrite, in a form that stays true when the timeline that proves it is gone; and what is
        to be forgotten."""
        found = self._forgotten()
        journal = self._meta.get("journal")
        if journal is not None and proof_of(journal).timeline_id is not None:
            lines = self._true_journal()
            found["journal"] = {"requests": lines} if lines else None
        for form in FORMS.values():
            noted = self._meta.get(form.followed)
            if noted is not None and proof_of(noted).timeline_id is not None:
                found[form.followed] = {"token": noted["token"]} if counts(noted, self._log) else None
        following = undo_member.next_of(self._meta.get(undo_member.MEMBER))
        if following is not None:
            found[undo_member.MEMBER] = self.facts.stacks.members()
            proof = proof_of(following)
            name, equals = str(proof.timeline_id), proof.equals
            if equals is not None and proof.holds(self._log):
                found[undo_member.MEMBER]["duplicate"] = json_members(timeline_id=name, equals=equals)
                found["timelines"] = self._meta.with_kept(name, equals)
                found["rotation"] = max(self._meta.rotation, highest_noted([name]))
        return found

    def _true_journal(self) -> list[Any]:
        """The journal's lines, if the step they belong to was done."""
        journal = self._meta.get("journal")
        return list(journal["requests"]) if counts(journal, self._log) else []

    def empty_journal(self) -> None:
        """Move what the journal says to `requests.jsonl`: before its next step, and before a timeline goes, since it
        may be the one whose existence says that the step was done."""
        lines = self._true_journal()
        if lines:
            self._file.append(lines)
            failpoint("requests.after_append")

    def rewrite_requests(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """LogRewrite what is stored of requests, each as `change` gives it."""
        self.empty_journal()
        if self._meta.get("journal") is not None:
            self._meta.write({"journal": None})
        self._file.rewrite(change)


def follow(stamp: Callable[[], object], changed: Callable[[], None]) -> Callable[[], None]:
    """Call `changed` whenever `stamp` gives another value than before; returns what ends that.

    Polling, as for the log: a follower hears of its owner's clicks within half a second, on every platform.
    """

    async def poll(seen: object) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with contextlib.suppress(OSError):  # what cannot be looked at now may be at the next look
                now = stamp()
                if now != seen:
                    seen = now
                    changed()

    task = asyncio.get_running_loop().create_task(poll(stamp()))

    def stop() -> None:
        if not task.get_loop().is_closed():
            task.cancel()

    return stop
