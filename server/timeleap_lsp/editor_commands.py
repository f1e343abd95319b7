"""The commands of an editor on a log: asked about first where they take something away, carried out under a head."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import Struct, convert

from timeleap.errors import ClientRequestError, InvalidInputError
from timeleap.json_value import Json
from timeleap.message_text import beginning_of, plain_line
from timeleap_lsp import methods_asked
from timeleap_lsp.documents import Documents, LogDocument

YES: Final = "Yes"
NO: Final = "No"
PATIENCE: Final = 3600.0
"""Seconds that a person may take to answer."""
MOST_COMPARED: Final = 500
"""Messages of each side that a comparison shows."""
REVERT, FORK, COMPARE, UNDO, REDO, PAGE, REPAIR = COMMANDS = (
    "timeleap.revert",
    "timeleap.fork",
    "timeleap.compare",
    "timeleap.undo",
    "timeleap.redo",
    "timeleap.openPage",
    "timeleap.repair",
)

Ask = Callable[..., Awaitable[Any]]


class CommandArgument(Struct, rename="camel"):
    """The one argument of a command.

    Attributes:
        head: The head of the log that the person saw.
        confirm: The person was asked already.
    """

    uri: str
    checkpoint_uid: str | None = None
    message_index: int | None = None
    head: str | None = None
    confirm: bool = False


class Editor(Struct):
    """Abilities of an editor that a command uses.

    Attributes:
        request: Asks it something: method, params, and the seconds in which it has to answer.
        asks: It can show a question.
        shows: It can show a document.
    """

    request: Callable[..., Awaitable[Any]]
    asks: bool
    shows: bool


def argument_of(command: str, arguments: Any) -> CommandArgument:
    """Read the argument of a command.

    Raises:
        InvalidInputError: The command is unknown, or its argument is not as it has to be.
    """
    if command not in COMMANDS:
        raise InvalidInputError.of("command", f"must be one of {', '.join(COMMANDS)}", between=" ")
    if not isinstance(arguments, list) or len(arguments) != 1:
        raise InvalidInputError.of("arguments", "must hold one object", between=" ")
    try:
        return convert(arguments[0], CommandArgument)
    except ValueError as error:
        raise InvalidInputError.of("arguments", str(error)) from None


class EditorCommands:
    """EditorCommands on the sessions of documents."""

    def __init__(self, documents: Documents, editor: Editor) -> None:
        self._documents = documents
        self._editor = editor
        self._folder: TemporaryDirectory[str] | None = None

    async def run(self, command: str, arguments: Any) -> Any:
        """Carry out a command; None where the person said no.

        Raises:
            TimeleapError: It cannot be carried out, or the log is not at the head that the person saw.
        """
        given = argument_of(command, arguments)
        document = await self._documents.find(given.uri)
        if document is None:
            raise InvalidInputError.of("uri", "names no log of a session that can be read", between=" ")
        if document.timeline_id is not None:
            raise InvalidInputError.of("uri", "names a timeline, which stays as it is; give the live log", between=" ")
        directory = document.path.parent
        if command == COMPARE:
            return await self._compare(document, given)
        if command == PAGE:
            return await self._page(document)
        if command == FORK:
            return await self._fork(document, given)
        async with self._documents.writing(directory) as (_, ask):
            if command == REPAIR:
                return await self._repair(ask, given)
            return await self._rewrite(command, ask, given)

    async def _rewrite(self, command: str, ask: Ask, given: CommandArgument) -> Any:
        method = {REVERT: methods_asked.REVERT, UNDO: methods_asked.UNDO, REDO: methods_asked.REDO}[command]
        params = {} if given.head is None else {"expectedHead": given.head}
        if command == REVERT:
            params |= _place(given)
        foretold = await ask(method, dryRun=True, **params)
        removed = foretold["removed"]
        if max(removed.values()) > 0:
            verb = {REVERT: "Go back?", UNDO: "Undo?", REDO: "Redo?"}[command]
            if not await self._confirmed(
                given, f"{verb} {_loss(removed)} A timeline keeps them, and Undo brings them back."
            ):
                return None
        return await ask(method, **{"expectedHead": foretold["head"], **params})

    async def _repair(self, ask: Ask, given: CommandArgument) -> Any:
        params = {} if given.head is None else {"expectedHead": given.head}
        foretold = await ask(methods_asked.REPAIR, dryRun=True, **params)
        if foretold["removedLines"]:
            lines = _count(foretold["removedLines"], "damaged line")
            question = f"Repair the log? {lines} will be left out. A timeline keeps the log as it is now."
            if not await self._confirmed(given, question):
                return None
        return await ask(methods_asked.REPAIR, **params)

    async def _confirmed(self, given: CommandArgument, question: str) -> bool:
        """Ask whether to go on. Raises InvalidInputError where the editor cannot ask, and nobody has."""
        if given.confirm:
            return True
        if not self._editor.asks:
            message = f"this takes something away, and the editor shows no questions: {question} Add confirm: true"
            raise InvalidInputError(message, errors=[{"loc": ["confirm"], "msg": "must be true", "type": "confirm"}])
        actions = [{"title": YES}, {"title": NO}]
        params = {"type": 2, "message": question, "actions": actions}
        answer = await self._editor.request("window/showMessageRequest", params, timeout=PATIENCE)
        return isinstance(answer, dict) and answer.get("title") == YES

    async def _fork(self, document: LogDocument, given: CommandArgument) -> Any:
        uid = given.checkpoint_uid
        params = {} if uid is None else {"checkpointUid": uid}
        async with self._documents.writing(document.path.parent) as (session_id, ask):
            made = await ask(methods_asked.FORK, **params)
            await ask(methods_asked.CLOSE, sessionId=made["sessionId"])
        forked = Path(made["path"]) / "context.jsonl"
        await self._show(forked, external=False)
        return {"sessionId": made["sessionId"], "forkedFrom": session_id, "uri": forked.as_uri()}

    async def _compare(self, document: LogDocument, given: CommandArgument) -> Any:
        place = {"checkpointUid": given.checkpoint_uid} if given.checkpoint_uid is not None else {}
        if not place:
            raise InvalidInputError.of("checkpointUid", "is needed to compare", between=" ")
        session_id = document.session.session_id
        params: Json = {"sessionId": session_id, "from": place, "to": {}, "limit": MOST_COMPARED}
        found = await self._documents.ask(methods_asked.DIFF, **params)
        path = self._file(f"{session_id}-compared.md")
        path.write_text(compared(found), encoding="utf-8", errors="replace")
        return await self._shown(path, external=False)

    async def _page(self, document: LogDocument) -> Any:
        session_id = document.session.session_id
        path = self._file(f"{session_id}.html")
        await self._documents.ask(
            methods_asked.EXPORT, sessionId=session_id, format="html", path=str(path), overwrite=True
        )
        return await self._shown(path, external=True)

    def _file(self, name: str) -> Path:
        if self._folder is None:  # readable by the user only; gone with the process
            self._folder = TemporaryDirectory(prefix="timeleap-documents-", ignore_cleanup_errors=True)
        return Path(self._folder.name) / re.sub(r"[^\w.-]", "_", name)

    async def _shown(self, path: Path, *, external: bool) -> Json:
        await self._show(path, external=external)
        return {"path": str(path), "uri": path.as_uri()}

    async def _show(self, path: Path, *, external: bool) -> None:
        """Have the editor show a file; one that cannot is told its path in the result."""
        if not self._editor.shows:
            return
        params = {"uri": path.as_uri(), "external": external, "takeFocus": True}
        try:
            await self._editor.request("window/showDocument", params, timeout=30.0)
        except ClientRequestError:
            return


def _place(given: CommandArgument) -> Json:
    if given.checkpoint_uid is not None:
        return {"checkpointUid": given.checkpoint_uid}
    if given.message_index is not None:
        return {"messageIndex": given.message_index}
    raise InvalidInputError.of("checkpointUid", "or messageIndex is needed to go back", between=" ")


def _loss(removed: Json) -> str:
    parts = [_count(removed[name], word) for name, word in (("messages", "message"), ("checkpoints", "checkpoint"))]
    verb = "goes" if removed["messages"] + removed["checkpoints"] == 1 else "go"
    return f"{' and '.join(part for part in parts if not part.startswith('0 ')) or 'Nothing'} {verb}."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def compared(found: Json) -> str:
    """A comparison as Markdown: the messages that went and came, each on a line."""
    lines = [
        "# Compared with the present",
        "",
        f"{_count(found['common'], 'message')} in common, {found['removedCount']:,} only then, {found['addedCount']:,} only now.",
    ]
    for title, sign, name in (("Only then", "-", "removed"), ("Only now", "+", "added")):
        if found[name]:
            lines += ["", f"## {title}", "", "```diff"]
            lines += [f"{sign} {each['index']} {_said(each['message'])}" for each in found[name]]
            lines += ["```"]
            left = found[f"{name}Count"] - len(found[name])
            lines += [f"… and {left:,} more"] if left > 0 else []
    return "\n".join([*lines, ""])


def _said(message: Json) -> str:
    return f"{message.get('role')}: {plain_line(beginning_of(message))}"
