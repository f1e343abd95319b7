"""The tools that change something, which `--allow` has to name."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any, Final

from timeleap.json_value import Json
from timeleap_agents.mcp import methods
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.read_tools import files_point, line_of_change
from timeleap_agents.mcp.tool_results import ToolFailureError, ToolResult

MAX_DRY_RUNS: Final = 8
"""Dry runs that are remembered; the oldest is forgotten."""


async def checkpoint(sessions: OpenedSessions, arguments: Json) -> ToolResult:
    """Mark this place of the conversation."""
    async with sessions.changing(await sessions.meant(arguments.get("session"))) as session_id:
        result = await sessions.change(methods.CHECKPOINT, sessionId=session_id, label=arguments["label"])
    made = result["checkpoint"]
    files = made.get("files") or {}
    text = f"Checkpoint {made['uid']} of session {session_id}"
    if "error" in files:
        text += f"; its files could not be saved: {files['error']['message']}"
    elif files:
        text += f", with its files ({files['snapshot']})"
    return ToolResult(f"{text}.", [session_id], is_data=False)


async def send_note(sessions: OpenedSessions, arguments: Json) -> ToolResult:
    """Leave a note to the self of a checkpoint, or to another session."""
    target, other = arguments.get("to_checkpoint"), arguments.get("to_session")
    if (target is None) == (other is None):
        raise ToolFailureError("invalidArguments", "Give to_checkpoint or to_session, not both.")
    async with sessions.changing(await sessions.meant(arguments.get("session"))) as session_id:
        await sessions.change(
            methods.SEND_DMAIL,
            sessionId=session_id,
            message=arguments["text"],
            checkpointUid=target,
            toSessionId=other,
        )
    text = (
        f"The note stands at the end of session {other}."
        if target is None
        else f"The note to checkpoint {target} waits until the loop or the user delivers it."
    )
    return ToolResult(text, [session_id], is_data=False)


async def rewind(sessions: OpenedSessions, arguments: Json) -> ToolResult:
    """Ask the loop, which declared by `--allow rewind` that it delivers, to go back to a checkpoint with a report."""
    async with sessions.changing(await sessions.meant(arguments.get("session"))) as session_id:
        await sessions.change(
            methods.SEND_DMAIL, sessionId=session_id, message=arguments["report"], checkpointUid=arguments["checkpoint"]
        )
    text = f"The rewind to {arguments['checkpoint']} is asked for; end your turn now: the loop carries it out then."
    return ToolResult(text, [session_id], is_data=False)


class FilesRestore:
    """`files_restore`: a dry run first, and what it foretold only with the token that it gave."""

    def __init__(self) -> None:
        self._foretold: dict[str, str] = {}

    async def __call__(self, sessions: OpenedSessions, arguments: Json) -> ToolResult:
        """Say what would be put back; or put it back.

        Raises:
            ToolFailureError: The token is none, or is that of another restore, or the files changed since.
        """
        token = arguments.get("token")
        real = arguments.get("dry_run") is False
        if real and token not in self._foretold:
            raise ToolFailureError(
                "dryRunFirst",
                "Call files_restore without token and with dry_run true; show the user what it says first.",
            )
        async with sessions.changing(await sessions.meant(arguments.get("session"))) as session_id:
            asked = {"sessionId": session_id, "to": files_point(arguments["to"]), "paths": arguments.get("paths")}
            plan = await sessions.change(methods.FILES_RESTORE, **asked, dryRun=True)
            listed = (await sessions.change(methods.FILES_LIST, sessionId=session_id, limit=1))["snapshots"]
            newest = listed[0]["snapshot"] if listed else None
            foretold = _digest([asked, plan["files"], plan.get("changes"), plan.get("cursor"), newest])
            if not real:
                return await self._say(sessions, session_id, plan, foretold)
            if self._foretold.pop(str(token)) != foretold:
                raise ToolFailureError(
                    "changedSinceDryRun", "That is not what the dry run was about, or files changed since: do it again."
                )
            result = await sessions.change(methods.FILES_RESTORE, **asked, onConflict="refuse", expectedFiles=newest)
        files = result["files"]
        text = f"Done: {_counts(files)}. files_restore to {files['before']} undoes it."
        return ToolResult(text, [session_id], is_data=False)

    async def _say(self, sessions: OpenedSessions, session_id: str, plan: Json, foretold: str) -> ToolResult:
        files = plan["files"]
        lines = [f"Nothing was changed yet. It would be: {_counts(files)}."]
        lines += map(line_of_change, await sessions.masked(plan.get("changes", [])))
        if "cursor" in plan:
            lines.append("... and more")
        if files["conflicts"]:
            lines.append(f"{files['conflicts']} of these somebody else changed since: it would be refused for them.")
        token = secrets.token_urlsafe(9)
        self._foretold[token] = foretold
        while len(self._foretold) > MAX_DRY_RUNS:
            del self._foretold[next(iter(self._foretold))]
        lines.append(f'To do it, repeat the call with {{"dry_run": false, "token": "{token}"}}.')
        return ToolResult("\n".join(lines), [session_id], is_data=False)


def _counts(files: Json) -> str:
    return ", ".join(f"{files[name]} {name}" for name in ("added", "modified", "deleted", "kept"))


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()
