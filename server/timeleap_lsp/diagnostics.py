"""Diagnostics of a log, at the lines that are wrong."""

from __future__ import annotations

from typing import Any, Final

from lsprotocol import types

from timeleap.storage.log_values import RecordKind
from timeleap_lsp.record_lines import LogTranscript, RecordLines

MOST: Final = 200
MOST_LINES: Final = 2000
"""Lines at the end of a log whose tool calls are looked at."""
NEARLY_FULL: Final = 0.85

_SEVERITY: Final = {
    "notReadableByOriginal": types.DiagnosticSeverity.Information,
    "recovered": types.DiagnosticSeverity.Information,
    "conflictCopy": types.DiagnosticSeverity.Information,
    "leftover": types.DiagnosticSeverity.Hint,
    "damagedKept": types.DiagnosticSeverity.Hint,
    "readableByOthers": types.DiagnosticSeverity.Warning,
    "notReachable": types.DiagnosticSeverity.Information,
}


def diagnostics(
    transcript: LogTranscript, warnings: list[dict[str, Any]], state: dict[str, Any] | None
) -> list[types.Diagnostic]:
    """Warnings of the session, tool calls without a result and results without a call, ids of checkpoints that come twice,
    a context that is nearly full.

    Args:
        warnings: Those of the session.
        state: `SessionState` of a live log; None for a timeline.
    """
    last = max(0, transcript.count - 1)
    found = [_of_warning(warning, last) for warning in warnings]
    found += of_calls(transcript, live=state is not None)
    found += _checkpoints(transcript)
    full = None if state is None else _fullness(state)
    if full is not None:
        found.append(made("nearlyFull", full, last, types.DiagnosticSeverity.Warning))
    return found[:MOST]


def _of_warning(warning: dict[str, Any], last: int) -> types.Diagnostic:
    kind, line = str(warning.get("kind")), warning.get("line")
    at = min(line, last) if isinstance(line, int) and line >= 0 else 0
    return made(kind, str(warning.get("message")), at, _SEVERITY.get(kind, types.DiagnosticSeverity.Error))


def of_calls(transcript: RecordLines, *, live: bool) -> list[types.Diagnostic]:
    """Tool calls without a result, and results without a call, in the last `MOST_LINES` lines; `live`: the calls at the
    end may still run."""
    open_calls: dict[str, tuple[int, str]] = {}
    found: list[types.Diagnostic] = []
    start = max(0, transcript.count - MOST_LINES)
    spoken = start
    for line in transcript.lines(start, transcript.count):
        for call in line.calls:
            open_calls[call.call_id] = line.line, call.name
        if line.tag == "result" and open_calls.pop(line.answers, None) is None and start == 0:
            text = "this result belongs to no tool call before it; a provider refuses such a history"
            found.append(made("orphanResult", text, line.line, types.DiagnosticSeverity.Warning))
        if line.tag in ("prompt", "assistant") and not line.calls:
            spoken = line.line
    for line_of_call, name in open_calls.values():
        if line_of_call < spoken or not live:  # those of the end may still run
            text = f"the call of {name} has no result; a provider refuses such a history"
            found.append(made("orphanCall", text, line_of_call, types.DiagnosticSeverity.Warning))
    return found


def _checkpoints(transcript: LogTranscript) -> list[types.Diagnostic]:
    if transcript.log.state.regular:
        return []
    seen: set[int] = set()
    found: list[types.Diagnostic] = []
    for start in range(0, transcript.count, 4096):
        for entry in transcript.log.entries(start, start + 4096):
            if entry.kind == RecordKind.CHECKPOINT:
                if entry.value in seen and len(found) < MOST:
                    text = f"checkpoint {entry.value} stands here a second time; the original program goes to the first"
                    found.append(made("duplicateCheckpoint", text, entry.line, types.DiagnosticSeverity.Warning))
                seen.add(entry.value)
    return found


def _fullness(state: dict[str, Any]) -> str | None:
    budget, context = state.get("budget") or {}, state.get("context") or {}
    window, tokens = budget.get("maxContextSize"), context.get("tokenCountWithPending")
    if not window or not tokens or tokens < NEARLY_FULL * window:
        return None
    return f"the context has {tokens:,} of {window:,} tokens: compact it, or go back"


def made(kind: str, message: str, line: int, severity: types.DiagnosticSeverity) -> types.Diagnostic:
    """A diagnostic of a line."""
    place = types.Range(types.Position(line, 0), types.Position(line + 1, 0))
    return types.Diagnostic(place, message, severity=severity, code=kind, source="timeleap")
