"""Lenses above checkpoints and actions at the cursor: the commands with their arguments."""

from __future__ import annotations

from typing import Any, Final

from lsprotocol import types

from timeleap.sessions.past import uid_at
from timeleap.storage.reader import StoredLog
from timeleap_lsp import editor_commands
from timeleap_lsp.record_lines import LogTranscript

MOST_LENSES: Final = 200
"""Checkpoints with lenses, the newest ones."""
AT_CHECKPOINT: Final = (
    ("Revert to here", editor_commands.REVERT),
    ("Fork here", editor_commands.FORK),
    ("Compare with present", editor_commands.COMPARE),
)
ANYWHERE: Final = (
    ("Show as page", editor_commands.PAGE),
    ("Undo", editor_commands.UNDO),
    ("Redo", editor_commands.REDO),
)


def lenses(transcript: LogTranscript, uri: str, head: str) -> list[types.CodeLens]:
    """Lenses of the newest checkpoints, whose commands are filled in when the editor shows them."""
    log, found = transcript.log, list[types.CodeLens]()
    last = log.state.checkpoints
    for ordinal in range(max(0, last - MOST_LENSES), last):
        line = log.line_of_checkpoint(ordinal)
        place = types.Range(types.Position(line, 0), types.Position(line, 1))
        for title, command in AT_CHECKPOINT:
            found.append(
                types.CodeLens(place, data={"uri": uri, "line": line, "head": head, "command": command, "title": title})
            )
    return found


def resolved(lens: types.CodeLens, log: StoredLog | None) -> types.CodeLens:
    """The lens with its command; as it came where its line is no checkpoint any more."""
    data = lens.data
    if not isinstance(data, dict) or log is None or not isinstance(data.get("line"), int):
        return lens
    uid = uid_at(log, data["line"]) if 0 <= data["line"] < log.state.lines else None
    if uid is not None:
        argument = {"uri": data.get("uri"), "checkpointUid": uid, "head": data.get("head")}
        lens.command = types.Command(
            title=str(data.get("title")), command=str(data.get("command")), arguments=[argument]
        )
    return lens


def actions(
    transcript: LogTranscript, uri: str, head: str, place: types.Range, damaged: bool
) -> list[types.CodeAction]:
    """Actions of the checkpoint at, or before, a line, and of the whole log."""
    found: list[types.CodeAction] = []
    log = transcript.log
    line = min(place.start.line, log.state.lines - 1)
    before = log.entries(line, line + 1)[0].state.checkpoints if line >= 0 else 0
    uid = uid_at(log, log.line_of_checkpoint(before - 1)) if before else None
    if uid is not None:
        argument: dict[str, Any] = {"uri": uri, "checkpointUid": uid, "head": head}
        found += [_action(title, command, argument) for title, command in AT_CHECKPOINT]
    found += [_action(title, command, {"uri": uri, "head": head}) for title, command in ANYWHERE]
    if damaged:
        repair = _action("Repair the log", editor_commands.REPAIR, {"uri": uri, "head": head})
        repair.kind = types.CodeActionKind.QuickFix
        found.insert(0, repair)
    return found


def _action(title: str, command: str, argument: dict[str, Any]) -> types.CodeAction:
    made = types.Command(title=title, command=command, arguments=[argument])
    return types.CodeAction(title, kind="source.timeleap", command=made)
