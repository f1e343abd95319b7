"""A conversation store for pydantic-ai, whose conversations can go back.

    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from timeleap_agents.adapters.pydantic_ai import TimeleapConversationStore
    from timeleap.client import AsyncTimeleap

    async with AsyncTimeleap(options={"approvals": "ask"}) as timeleap:
        store = TimeleapConversationStore(timeleap)
        conversation = await store.load("chat") or Conversation(conversation_id="chat")
        result = await Agent("openai:gpt-5").run("Fix the login", conversation=conversation)
        await store.save(result)

Every conversation is a session; a save is one step, with a checkpoint before it if a person said something. After a
revert by another window an agent that still runs cannot save: it gets `ConversationConflict`, as from any other writer.
"""

# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, UserPromptPart

from timeleap.json_value import Json
from timeleap_agents.adapters.followed_log import FollowedLog, LogMovedError, session_id_of
from timeleap_agents.adapters.json_values import first_line, is_plain, readable, text_of, value_of
from timeleap_client import RawTimeleap, method_names

KIND: Final = "pydantic-ai"
"""The `source.kind` of the sessions; their key is the conversation's id."""
MEMBER: Final = "pydanticAi"
"""Member of a message: `id` and `parent` of its entry, and `message`, or `text`, the message as JSON text."""
RECORD: Final = "_pydantic-ai"
MAX_OPEN: Final = 64
"""Conversations that are open at a time; the one that was used longest ago is closed for another."""
_PAGE: Final = 1000
_RECORDS: Final = TypeAdapter(ConversationRecord)


class _Conversation:
    """A conversation as its session has it."""

    def __init__(self, client: RawTimeleap, conversation_id: str) -> None:
        self.log = FollowedLog(client, session_id_of("pa", conversation_id), (KIND, conversation_id), _kept)
        self.turn = asyncio.Lock()
        self._counted: list[Json] = []
        self._done = 0
        self._entries: dict[str, Json] = {}
        self._record: str | None = None

    @property
    def entries(self) -> dict[str, Json]:
        """The entries in the log by their ids."""
        self._count()
        return self._entries

    @property
    def record(self) -> ConversationRecord | None:
        """The newest record in the log."""
        self._count()
        return None if self._record is None else _RECORDS.validate_json(self._record)

    def _count(self) -> None:
        if self.log.kept is not self._counted:
            self._counted, self._done, self._entries, self._record = self.log.kept, 0, {}, None
        for kept in self._counted[self._done :]:
            if "id" in kept:
                self._entries[kept["id"]] = kept
            else:
                self._record = kept["text"]
        self._done = len(self._counted)


class TimeleapConversationStore(ConversationStore):
    """A `ConversationStore`: see pydantic-ai for its `load`, `save`, `branch`, `fork`, `delete`.

    A branch that was left stays in the session's log; a fork has its history copied. A deleted conversation is in
    Timeleap's trash, with the entries that no other one has.

    Args:
        client: A running client; it has to run as long as the store is used.
    """

    def __init__(self, client: RawTimeleap) -> None:
        self._client = client
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._places: dict[str, str] = {}  # by entry: a conversation that has, or had, it

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record of a conversation as it is now, or None."""
        conversation = await self._look(conversation_id)
        return None if conversation is None else conversation.record

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, or those of a scope, last saved first."""
        found = [await self.read_record(conversation_id) for conversation_id in await self._listed()]
        records = [record for record in found if record is not None and (scope is None or record.scope == scope)]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries as one step.

        Raises:
            ConversationConflict: The conversation was saved, deleted or reverted since, or its head is in no conversation.
        """
        conversation = self._conversation(record.conversation_id)
        async with conversation.turn:
            if not conversation.log.is_open:
                if expected_revision is not None and not await conversation.log.open(create=False):
                    raise ConversationConflict(record.conversation_id)
                if expected_revision is None:
                    await conversation.log.open(create=True, title=first_line(readable(record.conversation_id)))
                await conversation.log.refresh()
            while True:
                try:
                    return await self._write(conversation, record, new_entries, expected_revision)
                except LogMovedError:
                    continue

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Move a conversation to Timeleap's trash.

        Raises:
            ConversationConflict: It was saved, deleted or reverted since.
        """
        conversation = await self._look(conversation_id)
        record = None if conversation is None else conversation.record
        if conversation is None or record is None or record.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        self._conversations.pop(conversation_id, None)
        await conversation.log.close()
        await self._client.call(method_names.SESSION_DELETE, {"sessionId": conversation.log.session_id})

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry of that id.

        Raises:
            KeyError: No conversation has it.
        """
        return _entry((await self._having(entry_id))[entry_id])

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to `head_id`, oldest first, or the last `limit` of them.

        Raises:
            KeyError: No conversation has one of them.
        """
        if head_id is None or limit == 0:
            return []
        return [_entry(kept) for kept in _chain(await self._having(head_id), head_id, limit)]

    async def _write(
        self,
        conversation: _Conversation,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        stored = conversation.record
        if (None if stored is None else stored.revision) != expected_revision:
            raise ConversationConflict(record.conversation_id)
        new_ids = {entry.id for entry in new_entries}
        copied: list[Json] = []
        if record.head_id is not None and record.head_id not in conversation.entries and record.head_id not in new_ids:
            try:
                copied = _chain(await self._having(record.head_id), record.head_id, None)
            except KeyError:
                raise ConversationConflict(record.conversation_id) from None
        label = next(filter(None, (_prompt(entry.message) for entry in new_entries)), None)
        messages = [_message(kept) for kept in copied if kept["id"] not in conversation.entries]
        messages += [_message(_kept_of(entry)) for entry in new_entries]
        text = _RECORDS.dump_json(record).decode()
        responses = [entry.message for entry in new_entries if isinstance(entry.message, ModelResponse)]
        tokens = responses[-1].usage.input_tokens + responses[-1].usage.output_tokens if responses else 0
        items: list[Json] = [] if label is None else [{"checkpoint": {"label": label}}]
        items += [*messages, *([{"tokenCount": tokens}] if tokens > 0 else [])]
        await conversation.log.append([*items, {"record": {"role": RECORD, "content": "", "text": text}}])
        self._places.update(dict.fromkeys((message[MEMBER]["id"] for message in messages), record.conversation_id))

    async def _having(self, entry_id: str) -> dict[str, Json]:
        """The entries of a conversation that has this one.

        Raises:
            KeyError: There is none.
        """
        if (place := self._places.get(entry_id)) is not None:
            conversation = await self._look(place)
            if conversation is not None and entry_id in conversation.entries:
                return conversation.entries
        for conversation_id in await self._listed():
            conversation = await self._look(conversation_id)
            if conversation is not None and entry_id in conversation.entries:
                return conversation.entries
        raise KeyError(entry_id)

    async def _look(self, conversation_id: str) -> _Conversation | None:
        """The conversation as it is now; None if there is none."""
        conversation = self._conversation(conversation_id)
        async with conversation.turn:
            if not conversation.log.is_open and not await conversation.log.open(create=False):
                return None
            await conversation.log.refresh()
            self._places.update(dict.fromkeys(conversation.entries, conversation_id))
        await self._close_unused()
        return conversation

    async def _listed(self) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            where = {"cursor": cursor} if cursor is not None else {}
            asked = {"source": {"kind": KIND}, "limit": _PAGE, "includeArchived": True, **where}
            page = await self._client.call(method_names.SESSION_LIST, asked)
            found += [info["source"]["key"] for info in page["sessions"]]
            if (cursor := page.get("nextCursor")) is None:
                return found

    def _conversation(self, conversation_id: str) -> _Conversation:
        if conversation_id not in self._conversations:
            self._conversations[conversation_id] = _Conversation(self._client, conversation_id)
        self._conversations.move_to_end(conversation_id)
        return self._conversations[conversation_id]

    async def _close_unused(self) -> None:
        while len(self._conversations) > MAX_OPEN:
            unused = (key for key, each in self._conversations.items() if not each.turn.locked())
            if (key := next(unused, None)) is None:
                return
            await self._conversations.pop(key).log.close()


def _kept(record: Json) -> Json | None:
    if record.get("role") == RECORD:
        return {"text": record["text"]} if isinstance(record.get("text"), str) else None
    member = record.get(MEMBER)
    if not isinstance(member, dict) or not isinstance(member.get("id"), str):
        return None
    is_ours = isinstance(member.get("parent"), str | None) and ("message" in member or "text" in member)
    return member if is_ours else None


def _kept_of(entry: ConversationEntry) -> Json:
    (message,) = json.loads(ModelMessagesTypeAdapter.dump_json([entry.message]))
    said = {"message": message} if is_plain(message) else {"text": text_of(message)}
    return {"id": entry.id, "parent": entry.parent_id, **said}


def _entry(kept: Json) -> ConversationEntry:
    message = value_of(kept["text"]) if "text" in kept else kept["message"]
    (validated,) = ModelMessagesTypeAdapter.validate_json(json.dumps([message]))
    return ConversationEntry(id=kept["id"], parent_id=kept["parent"], message=validated)


def _chain(entries: dict[str, Json], head_id: str, limit: int | None) -> list[Json]:
    """The entries up to a head, oldest first. Raises KeyError where one is missing."""
    found: list[Json] = []
    following: str | None = head_id
    while following is not None and (limit is None or len(found) < limit):
        if len(found) == len(entries):  # entries that follow each other in a circle: somebody edited the log
            raise KeyError(following)
        found.append(entries[following])
        following = found[-1]["parent"]
    return found[::-1]


def _message(kept: Json) -> Json:
    """The message that keeps an entry, with what a window shows of it."""
    message = value_of(kept["text"]) if "text" in kept else kept["message"]
    parts = [part for part in message.get("parts", []) if isinstance(part, dict)]
    texts = [part["content"] for part in parts if isinstance(part.get("content"), str)]
    returned = [part for part in parts if part.get("part_kind") == "tool-return"]
    shown: Json = {"role": "assistant" if message.get("kind") == "response" else "user", "content": "\n".join(texts)}
    if len(returned) == len(parts) == 1:
        shown |= {"role": "tool", "tool_call_id": str(returned[0].get("tool_call_id"))}
    if calls := [_call(part) for part in parts if part.get("part_kind") == "tool-call"]:
        shown["tool_calls"] = calls
    return {**shown, "content": readable(shown["content"]), MEMBER: kept}


def _call(part: Json) -> Json:
    arguments = part.get("args")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": readable(str(part.get("tool_name"))), "arguments": readable(text)}
    return {"type": "function", "id": readable(str(part.get("tool_call_id"))), "function": function}


def _prompt(message: ModelMessage) -> str | None:
    """The words of a person in a message, on one line; None if there are none."""
    if not isinstance(message, ModelRequest):
        return None
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            content = part.content if isinstance(part.content, str) else next(iter(part.content), "")
            return first_line(readable(content if isinstance(content, str) else "")) or "(no text)"
    return None
