"""The text of a D-Mail: a note a later self sends to an earlier point of the session."""

from __future__ import annotations

import re

_CLOSING_TAG = re.compile(r"<(?=\s*/\s*system\b)", re.IGNORECASE)

_FRAME = (
    "A D-Mail has arrived: your later self went back to this point of the session to leave you the note below. "
    "What it did before it turned back is not part of this conversation any more, but its effects may still be there: "
    "files may have been changed and commands may have been run. Read the note, check what already exists, and go on "
    "with what it tells you. Do not speak of the note to the user.\n\nThe note:\n\n"
)


def dmail_text(note: str) -> str:
    """The text of the user message that delivers `note`.

    Args:
        note: What the later self wrote. A closing system tag in it is made harmless: it would end the system's words
            and let the rest of the note pass for the user's.

    Returns:
        The note with an explanation, in one pair of system tags.
    """
    return f"<system>{_FRAME}{harmless(note.strip())}</system>"


def harmless(note: str) -> str:
    """`note` with every closing system tag written so that it closes nothing."""
    return _CLOSING_TAG.sub("&lt;", note)
