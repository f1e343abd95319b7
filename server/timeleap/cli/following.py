"""A session's changes as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from timeleap.cli.backend import LOSSES
from timeleap.cli.formatting import count, now, one_line, render
from timeleap.cli.styled_text import StyledText
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError
from timeleap_client.notifications import RECONNECTED

if TYPE_CHECKING:
    from timeleap.cli.backend import OpenSession
    from timeleap_client.notifications import Notification

TOLD = (*LOSSES, "externallyModified")
"""Kinds of warnings that are told as soon as they come about."""
_MOST_MESSAGES = 20
"""Messages of one change that are shown before the rest is only counted."""


class TerminalFollower:
    """Tells the changes of a session; appended messages are shown, each part up to `most_lines`."""

    def __init__(self, session: OpenSession, most_lines: int | None = None) -> None:
        self._session = session
        self._most_lines = most_lines
        self._known = _size(session.state)
        self._told = {warning["message"] for warning in session.state.get("warnings", ())}

    def tell(self, notification: Notification) -> Iterator[StyledText]:
        params = notification.params
        if notification.kind == "external" or notification.method == RECONNECTED:
            # Nobody said what changed: show what has come where nothing has gone, else say how things are.
            state = self._session.call("session/getState")
            before, self._known = self._known, _size(state)
            messages, timelines = self._known
            yield _line(f"{describe(notification)}: {count(messages, 'message')}", params)
            for warning in state.get("warnings", ()):
                if warning["kind"] in TOLD and warning["message"] not in self._told:
                    self._told.add(warning["message"])
                    yield _line(one_line(warning["message"], 2000), {})
            if timelines == before[1] and messages > before[0]:
                yield from self._messages(before[0], messages)
            return
        yield _line(describe(notification), params)
        if notification.kind == "messagesAppended":
            end = params["firstIndex"] + params["count"]
            yield from self._messages(params["firstIndex"], end)
            self._known = (end, self._known[1])
        elif "context" in params:
            self._known = _size(params)

    def _messages(self, start: int, end: int) -> Iterator[StyledText]:
        first = max(start, end - _MOST_MESSAGES)
        if first > start:
            yield StyledText(f"    ... {count(first - start, 'message')} before these", style="dim")
        window: Json = {"from": first, "to": end}
        try:
            page = self._session.call("context/getHistory", **window)
        except TimeleapRpcError:
            return  # they have gone again
        for entry in page["messages"]:
            yield from render(entry, self._most_lines)


def describe(notification: Notification) -> str:
    name = notification.kind or notification.method
    words = _WORDS.get(name) or _WORDS.get(notification.method, f"changed ({name})")
    return one_line(words if isinstance(words, str) else words(notification.params))


def _line(words: str, params: Json) -> StyledText:
    cause = params.get("cause")
    client = cause.get("client") if isinstance(cause, dict) else None
    by = f"  by {one_line(str(client), 40)}" if client else ""
    return StyledText.assemble((f"{now()}  ", "dim"), (words, "bold"), (by, "dim"))


def _size(state: Json) -> tuple[int, int]:
    return state["context"]["messageCount"], state["context"]["timelines"]


def _gone(params: Json) -> str:
    removed = params["removed"]
    what = f"{count(removed['messages'], 'message')} and {count(removed['checkpoints'], 'checkpoint')}"
    return f"{what} went, {count(params['context']['messageCount'], 'message')} stay{_kept(params)}"


def _kept(params: Json) -> str:
    return f"; the log before it is {params['timelineId']}" if params.get("timelineId") else ""


def _reverted(params: Json) -> str:
    target = f"message {params['messageIndex']}" if "messageIndex" in params else f"#{params['checkpointId']}"
    return f"reverted to before {target}: {_gone(params)}"


def _approvals(params: Json) -> str:
    approval = params["approval"]
    return (
        f"approvals: yolo {'ON' if approval['yolo'] else 'off'}; {'afk ON; ' if approval.get('afk') else ''}"
        f"unasked: {', '.join(approval['autoApproveActions']) or 'nothing'}"
    )


def _checkpoint(params: Json) -> str:
    checkpoint = params["checkpoint"]
    return f"checkpoint #{checkpoint['id']}{'  ' + checkpoint['label'] if checkpoint.get('label') else ''}"


def _mail(params: Json) -> str:
    mail = params["pendingDMail"]
    return "no D-Mail is pending any more" if mail is None else f"a D-Mail waits for checkpoint #{mail['checkpointId']}"


def _asked(params: Json) -> str:
    approval = params["approval"]
    description = f" ({approval['description']})" if "description" in approval else ""
    return f"an approval is asked for: {approval['action']}{description}"


def _now(word: str) -> Callable[[Json], str]:
    return lambda params: f"{word}: {count(params['context']['messageCount'], 'message')} now{_kept(params)}"


def _saved(params: Json) -> str:
    label = f"  {params['label']}" if params.get("label") else ""
    return f"files saved: {params['snapshot']}, {params['changed']:,} changed{label}"


def _files_restored(params: Json) -> str:
    number = len(params["paths"]) + params["more"]
    named = ", ".join(params["paths"][:3]) + (" ..." if number > 3 else "")
    return f"{count(number, 'file')} put back: {named}; as they were: {params['before']}"


_ACCESS = {
    "owner": "this process owns the session now",
    "attached": "live in another process, and followed there",
    "readOnly": "followed on disk: no process has it open",
}
_RESOLUTIONS = {
    "approve": "given",
    "approveForSession": "given for the session",
    "reject": "refused",
    "cancelled": "asked for no more",
    "timedOut": "not decided in time",
}
_WORDS: dict[str, str | Callable[[Json], str]] = {
    "messagesAppended": lambda params: f"{count(params['count'], 'message')} appended",
    "checkpointCreated": _checkpoint,
    "reverted": _reverted,
    "cleared": lambda params: f"cleared: {_gone(params)}",
    "compacted": _now("compacted"),
    "folded": _now("folded"),
    "merged": lambda params: f"a summary of session {params['from']['sessionId']} was appended",
    "timelineRestored": _now("restored"),
    "undone": _now("undone"),
    "redone": _now("redone"),
    "dmailDelivered": lambda params: f"a D-Mail was delivered: {_gone(params)}",
    "redacted": lambda params: f"a secret was taken out of {count(params['records'], 'record')}",
    "tokenCountUpdated": lambda params: f"{count(params['tokenCount'], 'token')} used",
    "systemPromptSet": "the system prompt was set",
    "external": "changed by a program that is not attached",
    "approvalChanged": _approvals,
    "subagentsChanged": "sub-agents changed",
    "workspaceChanged": lambda params: f"folder: {params.get('workspace') or 'none'}",
    "titleChanged": lambda params: f"title: {params.get('title')}",
    "archived": "archived",
    "unarchived": "taken out of the archive",
    "deleted": "deleted: it is in the trash",
    "dmailChanged": _mail,
    "pinsChanged": "pins changed",
    "accessChanged": lambda params: _ACCESS.get(params["access"], f"access is {params['access']} now"),
    "session/didRecover": lambda params: f"damage was mended: {count(params['cutBytes'], 'byte')} set aside",
    "context/compactionSuggested": lambda params: (
        f"compaction is due: {count(params['tokenCountWithPending'], 'token')}"
    ),
    "session/warning": lambda params: f"warning: {params['message']}",
    "approval/didRequest": _asked,
    "approval/didResolve": lambda params: f"an approval is {_RESOLUTIONS.get(params['decision'], params['decision'])}",
    "files/didSnapshot": _saved,
    "files/didRestore": _files_restored,
    RECONNECTED: "the connection was lost and is back",
}
