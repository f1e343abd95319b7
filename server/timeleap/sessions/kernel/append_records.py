"""Appends: what a request adds to the end of a log, decided on the state it follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from timeleap.errors import InvalidInputError, TooLargeError
from timeleap.json_value import Json
from timeleap.message_text import DMAIL, NOTE, NOTE_FOLLOWS, harmless
from timeleap.sessions.kernel.change import Change, Marks
from timeleap.sessions.past import first_words, new_checkpoint, preview_of, state_after
from timeleap.sessions.shapes import (
    COUNT_UPDATED,
    SYSTEM_PROMPT_SET,
    AutoCheckpoint,
    Checkpoint,
    camel_case,
    json_members,
)
from timeleap.storage.log_values import LogState, NewRecord, RecordKind, Role
from timeleap.storage.record import (
    SENDER,
    as_sent,
    message_record,
    opaque_record,
    system_prompt_record,
    usage_record,
)

DMAIL_LABEL: Final = "D-Mail"
"""Label of the checkpoint before a D-Mail."""

_FRAME = (
    f"{DMAIL}: your later self went back to this point of the session to leave you the note below. "
    "What it did before it turned back is not part of this conversation any more, but its effects may still be there: "
    "files may have been changed and commands may have been run. Read the note, check what already exists, and go on "
    f"with what it tells you. Do not speak of the note to the user.\n\n{NOTE_FOLLOWS}"
)

_FRAME_FROM = (
    f"{DMAIL}: another session, {{sender}}, had this one go back to this point to leave you the note below. "
    "What you did after this point is not part of this conversation any more, but its effects may still be there: files "
    "may have been changed and commands may have been run. The note does not come from the user. Read it, check what "
    f"already exists, and go on with what it tells you.\n\n{NOTE_FOLLOWS}"
)
_NOTE_FROM = (
    f"{NOTE}, {{sender}}: an agent that works for you or beside you has news. "
    f"It does not come from the user. Read it, check what it says where that matters, and go on.\n\n{NOTE_FOLLOWS}"
)

COUNT: Final = camel_case("token_count")
"""Member of what is appended that is no message, but the model's count of tokens."""
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Limit on a message as compact JSON, without the members that we add."""


def decide_messages(
    state: LogState, many: Sequence[Mapping[str, Any]], marks: Marks, auto_checkpoint: AutoCheckpoint
) -> Change:
    """Messages, opaque records (`{record}`), checkpoints (`{checkpoint}`), token counts (`{tokenCount}`); with `turn` each
    message that starts a turn has a checkpoint before it, with `step` each of the assistant's, too.

    Raises:
        InvalidInputError, TooLargeError: One of them is none, or larger than `MAX_MESSAGE_BYTES`.
    """
    if not many:
        raise InvalidInputError("there is no message to append")
    if auto_checkpoint == "off" and len(many) == 1 and "role" in many[0]:
        return Change(records=[_record(many[0], marks)], message=many[0])
    if auto_checkpoint == "off" and all("role" in message or "record" in message for message in many):
        return Change(records=[_record(message, marks if at == 0 else None) for at, message in enumerate(many)])
    records: list[NewRecord] = []
    made: list[Checkpoint] = []
    previewed = 0  # so many of them have a preview
    for item in many:
        before = len(records)
        if (given := _checkpoint_of(item, state, auto_checkpoint)) is not None:
            own = {} if records else marks
            record, checkpoint = new_checkpoint(state, state.next_checkpoint_id, given.get("label"), None, own)
            made.append(checkpoint)
            records.append(record)
        if given is None or "role" in item:
            records.append(_record(item, None if records else marks))
        if "role" in item and previewed < len(made):
            preview = preview_of(item)
            made[previewed:] = [replace(checkpoint, preview=preview) for checkpoint in made[previewed:]]
            previewed = len(made)
        state = state_after(state, records[before:])
    counts = [record.value for record in records if record.kind is RecordKind.USAGE]
    told = (COUNT_UPDATED, json_members(token_count=counts[-1])) if counts else None
    return Change(records=records, made=made, told=told)


def _checkpoint_of(item: Mapping[str, Any], state: LogState, auto_checkpoint: AutoCheckpoint) -> Json | None:
    """The checkpoint that an item is, or that it is to have before it."""
    if (role := item.get("role")) is None:
        return item.get("checkpoint")
    starts_turn = role == "user" and state.last_role is not Role.USER and auto_checkpoint != "off"
    has_one = starts_turn or (auto_checkpoint == "step" and role == "assistant")
    return {"label": first_words(item)} if has_one else None


def decide_usage(token_count: int, _: LogState, marks: Marks) -> Change:
    """A token count.

    Raises:
        InvalidInputError: It is negative, or beyond 64 bits.
    """
    if token_count < 0:
        raise InvalidInputError(f"a token count is a whole number from 0, not {token_count}")
    said = json_members(token_count=token_count)
    return Change(records=[usage_record(token_count, marks)], result=said, told=(COUNT_UPDATED, said))


def decide_system_prompt(text: str, _: LogState, marks: Marks) -> Change:
    """A system prompt: the first record of an empty log, else one more; the last one of a log is in force."""
    return Change(records=[system_prompt_record(text, marks)], result={}, told=(SYSTEM_PROMPT_SET, {}))


def decide_checkpoint(label: str | None, add_user_message: bool, state: LogState, marks: Marks) -> Change:
    """A checkpoint and, if asked for, the user message that tells the model of it."""
    number = state.next_checkpoint_id
    note = {"role": "user", "content": f"<system>CHECKPOINT {number}</system>"} if add_user_message else None
    record, made = new_checkpoint(state, number, label, preview_of(note) if note else None, marks)
    records = [record, message_record(note)] if note else [record]
    return Change(records=records, result={"checkpoint": made.wire()}, made=[made])


def decide_note(text: str, sender: str, state: LogState, marks: Marks) -> Change:
    """A note from another session: a checkpoint that tells of it, by which one gets rid of it, and a user message.

    Raises:
        TooLargeError: As `decide_messages`.
    """
    message = {"role": "user", "content": note_text(text, sender)}
    label = f"{DMAIL_LABEL} from {sender}"
    record, made = new_checkpoint(state, state.next_checkpoint_id, label, preview_of(message), marks)
    records = [record, _record(message, {SENDER: sender})]
    return Change(records=records, result=json_members(pending_dmail=None, index=state.messages), made=[made])


def dmail_text(note: str, sender: str | None = None) -> str:
    """The user message that delivers a note of the later self, or of the session `sender`, in system tags."""
    # A closing system tag in the note is made harmless: it would end the system's words and let the rest of the note
    # pass for the user's.
    frame = _FRAME if sender is None else _FRAME_FROM.format(sender=sender)
    return f"<system>{frame}{harmless(note.strip())}</system>"


def note_text(note: str, sender: str) -> str:
    """The text of the user message that a note from another session arrives as; as `dmail_text`."""
    return f"<system>{_NOTE_FROM.format(sender=sender)}{harmless(note.strip())}</system>"


def _record(item: Mapping[str, Any], marks: Marks | None) -> NewRecord:
    """Make the record of an item: a message, an opaque record or a token count."""
    if "role" not in item and COUNT in item:
        return usage_record(item[COUNT], marks)
    is_opaque = "role" not in item and "record" in item
    record = opaque_record(item["record"], marks) if is_opaque else message_record(item, marks)
    if len(record.body) > MAX_MESSAGE_BYTES and len(as_sent(record.body)) > MAX_MESSAGE_BYTES:
        found = f"a message may have {MAX_MESSAGE_BYTES} bytes as compact JSON, not {len(as_sent(record.body))}"
        raise TooLargeError(found, limit="maxMessageBytes", maximum=MAX_MESSAGE_BYTES)
    return record
