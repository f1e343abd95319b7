"""`Context`: a conversation in a file, with the original's interface; names for files that are set aside."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from timeleap import clock
from timeleap.api.log_view import LogView, OnLog, message_records
from timeleap.api.message import Message, system
from timeleap.api.simple import CompactionResult
from timeleap.errors import CheckpointNotFoundError, RotationUnavailableError
from timeleap.storage.engine import LogEngine
from timeleap.storage.log_values import (
    Durability,
    LogState,
    NewRecord,
    RecordKind,
    Replacement,
    TimelineFacts,
    TimelineReason,
)
from timeleap.storage.record import checkpoint_record, classify, system_prompt_record, usage_record


class Context(OnLog):
    """A conversation's history, token count and checkpoints, kept in a log file.

    Every method that writes returns when what it wrote is durable; calls of concurrent tasks take effect one after the
    other. Nothing is read before `restore`.

    Args:
        file_backend: The log file; it need not exist, its directory must.
        durability: `disk` survives a power cut, `os` the death of the process. (Objects of one process on one file
            share the durability of the first.)
    """

    def __init__(self, file_backend: Path | str, *, durability: Durability = "disk") -> None:
        self._view = LogView(file_backend, durability, modified="The context storage is already modified")

    @classmethod
    async def load(cls, file_backend: Path | str) -> Self:
        """A context with what its file holds; an empty one if there is no file."""
        context = cls(file_backend)
        await context.restore()
        return context

    async def restore(self) -> bool:
        """Take over what the file holds, without writing anything.

        Returns:
            Whether it held anything.

        Raises:
            AlreadyRestoredError: The history is not empty (a RuntimeError).
        """
        return await self._view.restore()

    @property
    def history(self) -> Sequence[Message]:
        """The messages, oldest first: a read-only sequence that follows every change."""
        return self._view.history

    @property
    def token_count(self) -> int:
        """The last count given to `update_token_count`."""
        return self._view.seen.token_count

    @property
    def token_count_with_pending(self) -> int:
        """`token_count`, with an estimate for the messages appended since."""
        return self._view.seen.token_count_with_pending

    @property
    def n_checkpoints(self) -> int:
        """The number of checkpoints: the id the next one gets."""
        return self._view.seen.next_checkpoint_id

    @property
    def system_prompt(self) -> str | None:
        """The system prompt in force, or None."""
        return self._view.system_prompt

    @property
    def file_backend(self) -> Path:
        """The log file."""
        return self._view.path

    async def append_message(self, message: Message | Sequence[Message] | CompactionResult) -> None:
        """Append one message, or several as one step (all or none of them).

        Args:
            message: A message, a sequence of messages, or the result of `SimpleCompaction.compact`.

        Raises:
            ValueError: A message cannot be stored exactly.
        """
        # A compaction's result is a tuple, so it has to be told from a sequence of messages first.
        given = message.messages if isinstance(message, CompactionResult) else message
        messages = list(given) if isinstance(given, Sequence) else [given]
        records = _records(messages)
        await self._view.append(lambda _: records, messages)

    async def checkpoint(self, add_user_message: bool) -> None:
        """Set a checkpoint, to which `revert_to` can go back.

        Args:
            add_user_message: Whether a message tells the model its id.
        """
        messages: list[Message] = []

        def plan(state: LogState) -> list[NewRecord]:
            checkpoint_id = state.next_checkpoint_id
            if add_user_message:
                messages[:] = [Message(role="user", content=[system(f"CHECKPOINT {checkpoint_id}")])]
            return [checkpoint_record(checkpoint_id), *_records(messages)]

        # The original's very bytes, without the marks of a batch: half of it is a checkpoint, and whole.
        await self._view.append(plan, messages, mark=False)

    async def update_token_count(self, token_count: int) -> None:
        """Record the number of tokens the model reported for the history up to here."""
        await self._view.append(lambda _: [usage_record(token_count)])

    async def revert_to(self, checkpoint_id: int) -> None:
        """Go back to a checkpoint: it and all that came after it leave the history, in one step.

        The whole log as it was stays beside the new one, as a timeline (`context_1.jsonl` ...).

        Args:
            checkpoint_id: From 0.

        Raises:
            CheckpointNotFoundError: There is no such checkpoint (a ValueError); nothing is changed.
            RotationUnavailableError: The directory does not exist (a RuntimeError).
        """
        if not 0 <= checkpoint_id < self.n_checkpoints:
            raise CheckpointNotFoundError(f"Checkpoint {checkpoint_id} does not exist")
        self._check_directory()

        def plan(log: LogEngine, _: LogState) -> Replacement:
            line = log.find_checkpoint(checkpoint_id)
            if line is None:
                raise CheckpointNotFoundError(f"Checkpoint {checkpoint_id} does not exist")
            return Replacement(_facts("revert"), keep_lines=line)

        await self._view.replace(plan)

    async def clear(self) -> None:
        """Remove everything, in one step; the log as it was is kept as a timeline.

        Raises:
            RotationUnavailableError: The directory does not exist (a RuntimeError).
        """
        self._check_directory()
        await self._view.replace(lambda *_: Replacement(_facts("clear")))

    async def write_system_prompt(self, prompt: str) -> None:
        """Make `prompt` the log's first record, before what it holds already.

        A log that is not empty is rewritten in one step; the old one stays beside it, as a timeline.
        """
        await self._write_prompt(prompt, dropped=frozenset())

    async def replace_system_prompt(self, prompt: str) -> None:
        """Make `prompt` the log's first record and its only system prompt (see `write_system_prompt`)."""
        await self._write_prompt(prompt, dropped=frozenset({RecordKind.SYSTEM_PROMPT}))

    async def _write_prompt(self, prompt: str, dropped: frozenset[RecordKind]) -> None:
        record = system_prompt_record(prompt)

        def only(state: LogState) -> list[NewRecord]:
            if state.lines:
                raise _NotEmptyError
            return [record]

        def prepended(log: LogEngine, state: LogState) -> Replacement:
            rows = (row for row in log.rows(0, state.lines) if row.kind not in (*dropped, RecordKind.DAMAGED))
            return Replacement(_facts("unknown"), records=[record, *(classify(row.body) for row in rows)])

        try:
            await self._view.append(only)
        except _NotEmptyError:
            await self._view.replace(prepended, record)

    def _check_directory(self) -> None:
        if not self.file_backend.parent.is_dir():
            raise RotationUnavailableError(
                f"no name to set the log aside: the directory {self.file_backend.parent} does not exist",
                path=str(self.file_backend.parent),
            )


class _NotEmptyError(Exception):
    """The log has records already."""


def _records(messages: Sequence[Message]) -> list[NewRecord]:
    return message_records([message.model_dump_json(exclude_none=True) for message in messages])


def _facts(reason: TimelineReason) -> TimelineFacts:
    return TimelineFacts(reason, clock.now_iso())


async def next_available_rotation(path: Path | str) -> Path | None:
    """Reserve the next free name for a file that is to be set aside.

    The name is reserved by an empty file (mode 0600) that the caller is to overwrite, so that two callers never get the
    same one. Numbers start above the highest one present: a gap is not filled, because a lower number means older.

    Args:
        path: The file that is to be set aside; it need not exist.

    Returns:
        The reserved path, or None if the directory does not exist.
    """
    return await asyncio.to_thread(_reserve, Path(path))


def _reserve(path: Path) -> Path | None:
    if not path.parent.is_dir():
        return None
    name = re.compile(rf"{re.escape(path.stem)}_([0-9]+){re.escape(path.suffix)}")
    numbers = [int(match[1]) for entry in path.parent.iterdir() if (match := name.fullmatch(entry.name))]
    number = max(numbers, default=0) + 1
    while True:
        candidate = path.with_name(f"{path.stem}_{number}{path.suffix}")
        try:
            os.close(os.open(candidate, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            number += 1
        else:
            return candidate
