"""The tools as a model sees them, and how a call gets to the function behind: arguments judged, errors in words."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from timeleap.json_value import Json
from timeleap_agents.mcp import change_tools, methods, read_tools
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.tool_results import (
    LEAST_RESULT_BYTES,
    MAX_RESULT_BYTES,
    Cursors,
    ToolFailureError,
    ToolResult,
    failure_of,
)

Function = Callable[[OpenedSessions, Json], Awaitable[ToolResult]]
_log = logging.getLogger(__name__)

MAX_TEXT: Final = 16_384
"""Characters of a note."""
MAX_PATHS: Final = 1000
_WRONG_SHOWN: Final = 200
"""Characters of what was wrong with the arguments."""


@dataclass(frozen=True)
class Tool:
    """A tool of the server.

    Attributes:
        name: Its name.
        description: For the model.
        properties: The JSON Schemas of its arguments.
        required: Arguments that it needs, but for a call with a cursor.
        function: Its implementation.
        is_destructive: True if it may take something away.
    """

    name: str
    description: str
    properties: Json
    required: tuple[str, ...]
    function: Function
    is_destructive: bool = False

    @property
    def only_reads(self) -> bool:
        """True if it changes nothing."""
        return self.name in methods.READING

    @property
    def schema(self) -> Json:
        """The JSON Schema of its arguments as clients get it."""
        properties = {**self.properties, "cursor": {"type": "string"}} if self.only_reads else self.properties
        required = {} if self.only_reads else {"required": list(self.required)}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _text(description: str = "", most: int = 200) -> Json:
    said = {"description": description} if description else {}
    return {"type": "string", "minLength": 1, "maxLength": most, **said}


def _count(least: int, most: int, default: int | None = None) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most, **({} if default is None else {"default": default})}


_SESSION: Final = _text("Session id; default: the one at hand.", 64)

_TOOLS: Final = (
    Tool(
        "search_history",
        "Search what was said in earlier conversations, also in parts that were taken back. Gives excerpts, each with its "
        "place as session#index for read_messages. scope: session (the one at hand), workspace (this folder) or all.",
        {
            "query": _text("Words, exact case; with regex an RE2 expression.", 1000),
            "regex": {"type": "boolean"},
            "scope": {"enum": ["session", "workspace", "all"]},
            "limit": _count(1, 20, 10),
        },
        ("query",),
        read_tools.search_history,
    ),
    Tool(
        "read_messages",
        "Read messages of an earlier or the present conversation, from an index on; without `from` the last ones.",
        {
            "session": _SESSION,
            "from": _count(0, 2**53 - 1),
            "count": _count(1, 50, 20),
            "maxBytes": _count(LEAST_RESULT_BYTES, MAX_RESULT_BYTES, MAX_RESULT_BYTES),
            "timeline": _text("Of this timeline, as search_history names it."),
        },
        (),
        read_tools.read_messages,
    ),
    Tool(
        "list_checkpoints",
        "List the checkpoints of a conversation, newest first: uid, label, time, size, the message that followed.",
        {"session": _SESSION, "limit": _count(1, 50, 20)},
        (),
        read_tools.list_checkpoints,
    ),
    Tool(
        "diff",
        "Compare two states of a conversation: checkpoint uid, timeline id, or now.",
        {"session": _SESSION, "from": _text(), "to": _text()},
        ("from", "to"),
        read_tools.diff,
    ),
    Tool(
        "context_budget",
        "Say how many tokens and messages the context of a session has, how large the window is, whether compaction is due.",
        {"session": _SESSION},
        (),
        read_tools.context_budget,
    ),
    Tool(
        "files_changed",
        "List the files of the session's folder that differ from a snapshot.",
        {"session": _SESSION, "since": _text("Checkpoint uid or snapshot id; default: the newest snapshot.")},
        (),
        read_tools.files_changed,
    ),
    Tool(
        "checkpoint",
        "Mark this place of the conversation, with the files where these are saved, so that it can be gone back to.",
        {"session": _SESSION, "label": _text("What is special here.")},
        ("label",),
        change_tools.checkpoint,
    ),
    Tool(
        "send_note",
        "Leave a note: to_session puts it at the end of another session, which reads it next; to_checkpoint leaves it to "
        "the self of then, pending until the loop or the user delivers it, which goes back to there.",
        {
            "session": _SESSION,
            "to_checkpoint": _text(),
            "to_session": _text("", 64),
            "text": _text("", MAX_TEXT),
        },
        ("text",),
        change_tools.send_note,
    ),
    Tool(
        "files_restore",
        "Put files back as a snapshot has them. The first call is a dry run, which says what would happen and gives a "
        "token; the second, with dry_run false and the token, does it. What is there now is saved first.",
        {
            "session": _SESSION,
            "to": _text("Checkpoint uid or snapshot id."),
            "paths": {
                "type": "array",
                "items": _text("", 4096),
                "minItems": 1,
                "maxItems": MAX_PATHS,
                "description": "Only these files and folders.",
            },
            "dry_run": {"type": "boolean", "default": True},
            "token": _text(),
        },
        ("to",),
        change_tools.FilesRestore(),
        is_destructive=True,
    ),
    Tool(
        "rewind",
        "Go back to a checkpoint of this conversation and leave a report there of what was learned since. Takes effect "
        "when this turn ends.",
        {"session": _SESSION, "checkpoint": _text("Its uid."), "report": _text("", MAX_TEXT)},
        ("checkpoint", "report"),
        change_tools.rewind,
        is_destructive=True,
    ),
)


class Toolbox:
    """The tools that are offered.

    Args:
        sessions: What they work on.
        allowed: The names of those that change something and are offered all the same.
    """

    def __init__(self, sessions: OpenedSessions, allowed: frozenset[str]) -> None:
        self.tools = {tool.name: tool for tool in _TOOLS if tool.only_reads or tool.name in allowed}
        self._sessions = sessions
        self._cursors = Cursors()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, list[str]]:
        """The text of the answer, and the sessions it comes from.

        Raises:
            ToolFailureError: There is none; it says why.
        """
        try:
            tool = self._tool(name)
            given = {member: value for member, value in arguments.items() if value is not None}
            _judge(tool, given)
            if (cursor := given.get("cursor")) is not None:
                result = await self._cursors.following(name, cursor)
            else:
                result = await tool.function(self._sessions, given)
            return self._cursors.cut(name, result), result.sessions
        except Exception as error:
            failure = failure_of(error)
            if failure.kind == "internalError":
                _log.exception("tool %s", name[:_WRONG_SHOWN])
            raise failure from None

    def _tool(self, name: str) -> Tool:
        if (tool := self.tools.get(name)) is not None:
            return tool
        if name in methods.CHANGING:
            raise ToolFailureError(
                "notAllowed", f"{name} is switched off; the user can start timeleap mcp --allow {name}."
            )
        raise ToolFailureError("unknownTool", f"There is no such tool: {', '.join(self.tools)}.")


def _judge(tool: Tool, arguments: Json) -> None:
    """Refuse arguments that do not fit the tool.

    Raises:
        ToolFailureError: It says what is wrong.
    """
    from jsonschema import Draft202012Validator  # a tenth of a second, which no start has to wait for

    problem = next(iter(Draft202012Validator(tool.schema).iter_errors(arguments)), None)
    if problem is not None:
        where = "".join(f"{part}: " for part in problem.path)
        wrong = str(problem.message)
        shown = wrong if len(wrong) <= _WRONG_SHOWN else f"wrong ({problem.validator} {problem.validator_value})"
        raise ToolFailureError("invalidArguments", f"{where}{shown}. Correct it and call again.")
    missing = [name for name in tool.required if name not in arguments]
    if missing and "cursor" not in arguments:
        raise ToolFailureError("invalidArguments", f"{missing[0]} is missing. Give it and call again.")
    for name, value in arguments.items():
        if isinstance(value, float):
            arguments[name] = int(value)  # 3.0 is an integer of JSON Schema
