"""Answers from the log: which requests its records carry, and what they were answered with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from timeleap.errors import CorruptedError
from timeleap.sessions.answers import REMEMBERED, Known
from timeleap.sessions.checkpoints import read_checkpoint
from timeleap.sessions.outcomes import (
    AppendOutcome,
    ApprovalOutcome,
    CheckpointOutcome,
    CompactOutcome,
    HeadOutcome,
    PinsOutcome,
    Removed,
    RewriteOutcome,
    SubagentsOutcome,
    UsageOutcome,
)
from timeleap.sessions.requests import encode, short
from timeleap.sessions.summary import past_of, summarize
from timeleap.storage.engine import LogEngine, LogState, RecordFlag, RecordKind
from timeleap.storage.marks import read_tl

if TYPE_CHECKING:
    from timeleap.sessions.desk import Facts

AT_ONCE = 64
MAX_BYTES_AT_ONCE = 4 << 20

Renderers = Mapping[str, Callable[[Any], dict[str, Any]]]
"""By the method's wire name: what makes its result of the outcome."""


class Recall:
    """The requests that appended records to a log.

    Args:
        engine: The log.
        renderers: What makes their results.
        inherited: How many of its first lines a fork brought along; the ids in them are the parent's.
        facts: The state beside the log, as it counts now.
    """

    def __init__(
        self, engine: LogEngine, renderers: Renderers, inherited: Callable[[], int], facts: Callable[[], Facts]
    ) -> None:
        self._engine = engine
        self._inherited = inherited
        self._facts = facts
        self._renderers: dict[str, Callable[[Any], dict[str, Any]]] = {
            short(method): render for method, render in renderers.items()
        }

    def requests(self) -> list[tuple[str, Known]]:
        """The last 1 000, oldest first; their results are left for `result` to make when somebody asks again."""
        inherited = self._inherited()
        lines = [line for line in reversed(self._engine.request_lines(REMEMBERED)) if line >= inherited]
        return [found for line, body in self._bodies(lines) if (found := _request(line, body)) is not None]

    def leaving(self, keep_lines: int, stored: Callable[[], Collection[str]]) -> list[dict[str, Any]]:
        """Journal lines for the requests that cannot be answered from the first `keep_lines` lines alone.

        Of a batch that is cut through the first record may stay, with the id but without the rest of its effect. So what
        is stored already is not to be made of the log again.

        Args:
            keep_lines: How many lines stay.
            stored: The request ids whose answers are kept beside the log; asked for only if there is need.
        """
        inherited = self._inherited()
        lines: list[int] = []
        for line in self._engine.request_lines(REMEMBERED):
            if line < inherited or self._end_of_batch(line) < keep_lines:
                break  # all that come now end before it
            lines.append(line)
        lines.reverse()
        going = [found for line, body in self._bodies(lines) if (found := _request(line, body)) is not None]
        kept = stored() if going else ()
        return [encode(name, replace(known, result=self.result(known))) for name, known in going if name not in kept]

    def result(self, known: Known) -> Mapping[str, Any]:
        """What a request was answered with; what was too large to be kept of it is said of the session as it is now."""
        render: Callable[[Any], dict[str, Any]] = self._renderers.get(known.method, asdict)
        if known.result is None:
            return render(self._outcome(known.line, known.method))
        if not known.left_out:
            return known.result
        now = render(self._now(known.method))
        return {**{name: now[name] for name in known.left_out if name in now}, **known.result}

    def _now(self, method: str) -> CompactOutcome | RewriteOutcome | SubagentsOutcome | PinsOutcome | ApprovalOutcome:
        """The outcome of a method that would change nothing now."""
        engine, facts = self._engine, self._facts()
        match method:
            case "putSubagent" | "removeSubagent":
                return SubagentsOutcome(engine.head, facts.subagents)
            case "setPins":
                return PinsOutcome(engine.head, facts.pins)
            case "setYolo" | "setAutoApprove":
                return ApprovalOutcome(engine.head, facts.approval)
            case _:
                pass
        summary = summarize(engine, past_of(engine.timeline_ids(), facts.stacks, engine.state))
        if method == "compact":
            return CompactOutcome(engine.head, True, None, None, None, 0, 0, 0, 0, summary)
        return RewriteOutcome(engine.head, None, Removed(0, 0, 0), summary)

    def _outcome(self, line: int, method: str) -> AppendOutcome | CheckpointOutcome | UsageOutcome | HeadOutcome:
        engine = self._engine
        entry = engine.entries(line, line + 1)[0]
        head = engine.head
        if entry.kind is RecordKind.CHECKPOINT and method == "checkpoint":
            # Its preview is what was written with it; what follows by now was not there when it was answered.
            messages = engine.state_before(self._end_of_batch(line) + 1).messages
            return CheckpointOutcome(head, read_checkpoint(engine, line, messages))
        if entry.kind is RecordKind.USAGE:
            return UsageOutcome(head, entry.value)
        if entry.kind is RecordKind.SYSTEM_PROMPT:
            return HeadOutcome(head)
        before = engine.entries(line - 1, line)[0].state if line else LogState()
        last = self._end_of_batch(line)
        after = engine.state_before(last + 1)
        return AppendOutcome(
            head=head,
            first_index=before.messages,
            count=after.messages - before.messages,
            message_count=after.messages,
            token_count_with_pending=after.token_count_with_pending,
        )

    def _bodies(self, lines: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """The bodies of lines in rising order; those that are damaged are left out, their ids are lost with them."""
        for start in range(0, len(lines), AT_ONCE):
            few = lines[start : start + AT_ONCE]
            if few[-1] - few[0] < 2 * AT_ONCE and self._bytes(few[0], few[-1]) < MAX_BYTES_AT_ONCE:
                try:
                    bodies = self._engine.read(few[0], few[-1] + 1)
                except CorruptedError:
                    pass  # one of them: look at each alone
                else:
                    yield from ((line, bodies[line - few[0]]) for line in few)
                    continue
            for line in few:
                try:
                    yield line, self._engine.read(line, line + 1)[0]
                except CorruptedError:
                    continue

    def _bytes(self, first: int, last: int) -> int:
        """The size of the lines from `first` to `last`."""
        start, end = self._engine.entries(first, first + 1)[0], self._engine.entries(last, last + 1)[0]
        return end.offset + end.length - start.offset

    def _end_of_batch(self, line: int) -> int:
        """The last line of the batch that begins at `line`."""
        step = 64
        while True:
            for entry in self._engine.entries(line, line + step):
                if not entry.flags & RecordFlag.BATCH_OPEN:
                    return entry.line
                line = entry.line + 1
            if line >= self._engine.state.lines:
                return self._engine.state.lines - 1


def _request(line: int, body: bytes) -> tuple[str, Known] | None:
    match read_tl(body):
        case {"r": str(request_id), "h": str(fingerprint), "m": str(method)}:
            return request_id, Known(fingerprint, method, line=line)
        case _:
            return None
