"""Results in the terms of the tests' model: names with underscores, and None for what is left out."""

from __future__ import annotations

import re
from typing import Any

from timeleap.sessions.shapes import Shapes

PLAIN = Shapes()

_NAMES = {
    "toolExchange": "exchange",
    "autoApproveActions": "actions",
    "openCalls": "calls",
    "dynamicSubagents": "subagents",
    "pendingDMail": "pending_dmail",
}


def plain(value: Any) -> Any:
    """A result, or a part of one."""
    match value:
        case list():
            return [plain(part) for part in value]
        case dict():
            found = {
                _NAMES.get(name) or re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), name): plain(part)
                for name, part in value.items()
            }
        case _:
            return value
    found.pop("should_compact", None)
    unset: tuple[str, ...] = ()
    if {"uid", "message_count"} <= found.keys():
        for told in ("summary", "name"):  # they have tests of their own: unit/summaries/test_log_spans
            found.pop(told, None)
        found["kept"] = {"files": found.pop("files")} if "files" in found else {}
        unset = ("label", "created_at", "preview")
    elif isinstance(found.get("removed"), dict):
        unset = ("timeline_id", "exchange", "checkpoint", "steps")
    elif "compacted" in found:
        unset = ("timeline_id", "reason", "summary")
    elif found.keys() == {"kind"}:
        unset = ("timeline_id",)
    return {**dict.fromkeys(unset), **found}
