"""`LinearContext`: a history on a storage of the caller's choice, with the original's interface."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol, runtime_checkable

from timeleap.api.log_view import History, LogView, OnLog, message_records
from timeleap.api.message import Message
from timeleap.storage.log_values import Appended, Durability, LogState
from timeleap.storage.record import usage_record


@runtime_checkable
class LinearStorage(Protocol):
    """Keeps messages in their order, and the last token count reported for them."""

    @property
    def messages(self) -> list[Message]:
        """All messages, oldest first."""
        ...

    @property
    def token_count(self) -> int:
        """The last count marked, 0 before there is one; only as exact as its caller."""
        ...

    async def append_message(self, message: Message) -> None:
        """Keep one more message."""

    async def mark_token_count(self, token_count: int) -> None:
        """Keep the token count of the messages so far."""


class LinearContext:
    """A history that only grows.

    Args:
        storage: Where it is kept.
    """

    def __init__(self, storage: LinearStorage) -> None:
        self._storage = storage
        self._history = History(lambda: storage.messages)

    @property
    def history(self) -> History:
        """The messages, oldest first: a live view, which hands out copies."""
        return self._history

    @property
    def token_count(self) -> int:
        """The last token count marked, 0 before there is one."""
        return self._storage.token_count

    async def add_message(self, message: Message) -> None:
        """Append a message."""
        await self._storage.append_message(message)

    async def mark_token_count(self, token_count: int) -> None:
        """Note the token count of the history so far."""
        await self._storage.mark_token_count(token_count)


class MemoryLinearStorage:
    """Keeps everything in memory, for as long as the object lives."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._token_count = 0

    @property
    def messages(self) -> list[Message]:
        """All messages, oldest first."""
        return self._messages

    @property
    def token_count(self) -> int:
        """The last count marked."""
        return self._token_count

    async def append_message(self, message: Message) -> None:
        """Keep one more message."""
        self._messages.append(message)

    async def mark_token_count(self, token_count: int) -> None:
        """Keep the token count of the messages so far."""
        self._token_count = token_count


class JsonlLinearStorage(OnLog, MemoryLinearStorage):
    """Keeps everything in a log file, which `Context` and the server can open as well.

    Args:
        path: The log file; it need not exist, its directory must.
        durability: `disk` survives a power cut, `os` the death of the process. (Objects of one process on one file
            share the durability of the first.)
    """

    def __init__(self, path: Path | str, *, durability: Durability = "disk") -> None:
        super().__init__()
        self._view = LogView(path, durability, modified="The storage is already modified")
        self._shown = LogState()  # of the log that `_messages` is in step with

    async def restore(self) -> None:
        """Take over what the file holds, without writing anything.

        Raises:
            AlreadyRestoredError: There are messages already (a RuntimeError).
        """
        await self._view.restore()

    @property
    def messages(self) -> list[Message]:
        """The messages, oldest first: always the same list, brought up to date with every change of the log."""
        state = self._view.state
        if state is not None and not _same_log(state, self._shown):
            kept = self._shown.messages if self._view.begins_with(self._shown) else 0
            self._messages[kept:] = self._view.history[kept:]
            self._shown = state
        return self._messages

    @property
    def token_count(self) -> int:
        """The last count marked."""
        return self._view.seen.token_count

    async def append_message(self, message: Message) -> None:
        """Append a message; returns when it is durable.

        Raises:
            ValueError: It cannot be stored exactly.
        """
        line = json.dumps(message.model_dump(exclude_none=True), ensure_ascii=False, separators=(",", ":"))
        records = message_records([line])
        self._note(await self._view.append(lambda _: records, [message]), [message])

    async def mark_token_count(self, token_count: int) -> None:
        """Record the token count of the messages so far; returns when it is durable."""
        self._note(await self._view.append(lambda _: [usage_record(token_count, style="compact")]), [])

    def _note(self, appended: Appended, messages: list[Message]) -> None:
        """Keep the very objects that were appended, where nothing else came between: they need not be read again."""
        if self._view.state is None:
            self._messages += messages
        elif _same_log(appended.before, self._shown):
            self._messages += messages
            self._shown = appended.after


def _same_log(left: LogState, right: LogState) -> bool:
    return (left.lines, left.chain, left.messages) == (right.lines, right.chain, right.messages)
