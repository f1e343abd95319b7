"""The text of a D-Mail: a note that a later self sends to an earlier point of the session, or another session to this one."""

from __future__ import annotations

from timeleap.message_text import harmless

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
