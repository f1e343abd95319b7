"""Plans of appends, computed on the state they follow: the records, the outcome and the events once written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from timeleap.errors import InvalidInputError, TooLargeError
from timeleap.message_text import harmless
from timeleap.sessions import events
from timeleap.sessions.checkpoints import new_checkpoint, preview_of
from timeleap.sessions.home import first_words
from timeleap.sessions.outcomes import (
    AppendOutcome,
    AutoCheckpoint,
    Cause,
    Checkpoint,
    CheckpointOutcome,
    HeadOutcome,
    NoteOutcome,
    Outcome,
    UsageOutcome,
)
from timeleap.sessions.summary import state_after
from timeleap.storage.engine import Appended, LogState, NewRecord, Role
from timeleap.storage.record import SENDER, as_sent, message_record, system_prompt_record, usage_record

Marks = Mapping[str, str | int]
"""Members of `_tl` for the request that asks; empty where it carries no id."""


DMAIL_LABEL: Final = "D-Mail"
"""What the checkpoint before a D-Mail is called."""

_FRAME = (
    "A D-Mail has arrived: your later self went back to this point of the session to leave you the note below. "
    "What it did before it turned back is not part of this conversation any more, but its effects may still be there: "
    "files may have been changed and commands may have been run. Read the note, check what already exists, and go on "
    "with what it tells you. Do not speak of the note to the user.\n\nThe note:\n\n"
)

_FRAME_FROM = (
    "A D-Mail has arrived: another session, {sender}, had this one go back to this point to leave you the note below. "
    "What you did after this point is not part of this conversation any more, but its effects may still be there: files "
    "may have been changed and commands may have been run. The note does not come from the user. Read it, check what "
    "already exists, and go on with what it tells you.\n\nThe note:\n\n"
)
_NOTE_FROM = (
    "A note has arrived from another session, {sender}: an agent that works for you or beside you has news. "
    "It does not come from the user. Read it, check what it says where that matters, and go on.\n\nThe note:\n\n"
)

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Of a message as compact JSON, without what we add to it."""


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """Records to append.

    Attributes:
        records: In order; the first carries the request's marks.
        outcome: Made of what the engine did.
        made: The checkpoints among the records.
        told: What listeners are told after the checkpoints.
    """

    records: Sequence[NewRecord]
    outcome: Callable[[Appended], Outcome]
    made: Sequence[Checkpoint]
    told: Callable[[Appended, Cause], list[events.Event]]

    def events(self, appended: Appended, cause: Cause) -> list[events.Event]:
        """The events to emit, in order."""
        created: list[events.Event] = [
            events.CheckpointCreated(head=appended.head, cause=cause, checkpoint=checkpoint) for checkpoint in self.made
        ]
        return created + self.told(appended, cause)


def messages(
    state: LogState, many: Sequence[Mapping[str, Any]], marks: Marks, auto_checkpoint: AutoCheckpoint
) -> AppendPlan:
    """Messages; with `turn` each that starts a turn has a checkpoint before it, with `step` each of the assistant's, too.

    Raises:
        InvalidInputError: One of them is none.
        TooLargeError: One of them is larger than `MAX_MESSAGE_BYTES`.
    """
    if not many:
        raise InvalidInputError("there is no message to append")
    if auto_checkpoint == "off":
        records = [_message(message, marks if at == 0 else None) for at, message in enumerate(many)]
        return AppendPlan(records, _appended, (), _messages_told)
    return _with_checkpoints(state, many, marks, auto_checkpoint)


def usage(state: LogState, token_count: int, marks: Marks) -> AppendPlan:
    """A token count.

    Raises:
        InvalidInputError: It is negative, or beyond 64 bits.
    """
    if token_count < 0:
        raise InvalidInputError(f"a token count is a whole number from 0, not {token_count}")
    return AppendPlan(
        [usage_record(token_count, marks)],
        lambda done: UsageOutcome(done.head, token_count),
        (),
        lambda done, cause: [events.TokenCountUpdated(head=done.head, cause=cause, token_count=token_count)],
    )


def system_prompt(state: LogState, text: str, marks: Marks) -> AppendPlan:
    """A system prompt: the first record of an empty log, else one more; the last one of a log is in force."""
    return AppendPlan(
        [system_prompt_record(text, marks)],
        lambda done: HeadOutcome(done.head),
        (),
        lambda done, cause: [events.SystemPromptSet(head=done.head, cause=cause)],
    )


def checkpoint(state: LogState, label: str | None, add_user_message: bool, marks: Marks) -> AppendPlan:
    """A checkpoint and, if asked for, the user message that tells the model of it."""
    number = state.next_checkpoint_id
    note = {"role": "user", "content": f"<system>CHECKPOINT {number}</system>"} if add_user_message else None
    record, made = new_checkpoint(state, number, label, preview_of(note) if note else None, marks)
    return AppendPlan(
        [record, message_record(note)] if note else [record],
        lambda done: CheckpointOutcome(done.head, made),
        [made],
        _messages_told if note else lambda done, cause: [],
    )


def note(state: LogState, text: str, sender: str, marks: Marks) -> AppendPlan:
    """A note from another session: a checkpoint that tells of it, by which one gets rid of it, and a user message.

    Raises:
        TooLargeError: As `messages`.
    """
    message = {"role": "user", "content": note_text(text, sender)}
    label = f"{DMAIL_LABEL} from {sender}"
    record, made = new_checkpoint(state, state.next_checkpoint_id, label, preview_of(message), marks)
    return AppendPlan(
        [record, _message(message, {SENDER: sender})],
        lambda done: NoteOutcome(done.head, done.before.messages),
        [made],
        _messages_told,
    )


def dmail_text(note: str, sender: str | None = None) -> str:
    """The text of the user message that delivers `note`.

    Args:
        note: What the later self wrote. A closing system tag in it is made harmless: it would end the system's words
            and let the rest of the note pass for the user's.
        sender: The session that wrote it, if it was not this one.

    Returns:
        The note with an explanation, in one pair of system tags.
    """
    frame = _FRAME if sender is None else _FRAME_FROM.format(sender=sender)
    return f"<system>{frame}{harmless(note.strip())}</system>"


def note_text(note: str, sender: str) -> str:
    """The text of the user message that a note from another session arrives as; as `dmail_text`."""
    return f"<system>{_NOTE_FROM.format(sender=sender)}{harmless(note.strip())}</system>"


def _with_checkpoints(
    state: LogState, many: Sequence[Mapping[str, Any]], marks: Marks, auto_checkpoint: AutoCheckpoint
) -> AppendPlan:
    records: list[NewRecord] = []
    made: list[Checkpoint] = []
    for message in many:
        first_marks = None if records else marks
        role = message.get("role")
        starts_turn = role == "user" and state.last_role is not Role.USER
        if starts_turn or (auto_checkpoint == "step" and role == "assistant"):
            record, checkpoint = new_checkpoint(
                state, state.next_checkpoint_id, first_words(message), preview_of(message), first_marks or {}
            )
            added = [record, _message(message, None)]
            made.append(checkpoint)
        else:
            added = [_message(message, first_marks)]
        records += added
        state = state_after(state, added)
    return AppendPlan(records, _appended, made, _messages_told)


def _message(message: Mapping[str, Any], marks: Marks | None) -> NewRecord:
    record = message_record(message, marks)
    if len(record.body) > MAX_MESSAGE_BYTES and len(as_sent(record.body)) > MAX_MESSAGE_BYTES:
        found = f"a message may have {MAX_MESSAGE_BYTES} bytes as compact JSON, not {len(as_sent(record.body))}"
        raise TooLargeError(found, limit="maxMessageBytes", maximum=MAX_MESSAGE_BYTES)
    return record


def _appended(done: Appended) -> AppendOutcome:
    return AppendOutcome(
        head=done.head,
        first_index=done.before.messages,
        count=done.after.messages - done.before.messages,
        message_count=done.after.messages,
        token_count_with_pending=done.after.token_count_with_pending,
    )


def _messages_told(done: Appended, cause: Cause) -> list[events.Event]:
    count = done.after.messages - done.before.messages
    return [events.MessagesAppended(head=done.head, cause=cause, first_index=done.before.messages, count=count)]
