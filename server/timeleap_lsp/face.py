"""The methods of LSP on a connection: their table, and the way from params to a result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from lsprotocol import types
from lsprotocol.converters import get_converter
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.feature_manager import FeatureManager

from timeleap.call import Call, Client
from timeleap.errors import InvalidInputError, TimeleapError
from timeleap.rpc.protocol import Work
from timeleap.service.service import Service
from timeleap_lsp import diagnostics, hover, lenses, links, outline
from timeleap_lsp.documents import Documents, LogDocument
from timeleap_lsp.editor_commands import COMMANDS, Editor, EditorCommands
from timeleap_lsp.methods_asked import LIST
from timeleap_lsp.record_lines import RecordLines
from timeleap_protocol.folder_uri import folder_of
from timeleap_protocol.method import Method

T = TypeVar("T")
log = logging.getLogger(__name__)

DELAY: Final = 0.05
"""Seconds from a change to the diagnostics that are pushed for it: a burst of changes is told once."""
MOST_FOUND: Final = 200
"""Symbols that a search of the workspace returns."""
MOST_DOCUMENTS: Final = 200
"""Open documents that diagnostics are pushed for."""
_CONVERTER: Final = get_converter()
_OPTIONS: Final = {
    types.TEXT_DOCUMENT_CODE_LENS: types.CodeLensOptions(resolve_provider=True),
    types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(resolve_provider=True),
    types.TEXT_DOCUMENT_INLAY_HINT: types.InlayHintOptions(resolve_provider=False),
    types.TEXT_DOCUMENT_DOCUMENT_LINK: types.DocumentLinkOptions(resolve_provider=False),
    types.TEXT_DOCUMENT_DIAGNOSTIC: types.DiagnosticOptions(
        inter_file_dependencies=False, workspace_diagnostics=False, identifier="timeleap"
    ),
}
_PARAMS: Final[dict[str, Any]] = {method: row[2] for method, row in types.METHOD_TO_TYPES.items()}


class EditorFace:
    """LSP for one client (`timeleap.rpc.second_face.Face`).

    Args:
        capabilities: `capabilities` of `initialize`, as they came.
    """

    def __init__(self, service: Service, client: Client, capabilities: dict[str, Any]) -> None:
        self._client = client
        known = _read(capabilities)
        self._documents = Documents(service, client.name, client.ending, self._changed)
        window = known.window
        asks = window is not None and window.show_message is not None
        shows = window is not None and window.show_document is not None and window.show_document.support
        self._commands = EditorCommands(self._documents, Editor(client.request, asks, shows))
        self._pulls = known.text_document is not None and known.text_document.diagnostic is not None
        self._units = _units(known)
        self._open: dict[str, int] = {}  # by URI: how often it was opened
        self._due: dict[Path, asyncio.TimerHandle] = {}
        self._pushing: set[asyncio.Task[None]] = set()
        features = self._register()
        self._answers: dict[str, Callable[[Any], Awaitable[Any]]] = dict(features.features)
        self.rows = {name: _row(name) for name in (*self._answers, types.WORKSPACE_EXECUTE_COMMAND)}
        self.capabilities = self._announced(known, features)

    def _register(self) -> FeatureManager:
        """Register the function that answers each method, with the options that are announced."""
        features: FeatureManager = cast("Any", FeatureManager)(converter=_CONVERTER)
        table: dict[str, Callable[[Any], Awaitable[Any]]] = {
            types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: self._outline,
            types.WORKSPACE_SYMBOL: self._search,
            types.TEXT_DOCUMENT_HOVER: self._hover,
            types.TEXT_DOCUMENT_FOLDING_RANGE: self._folds,
            types.TEXT_DOCUMENT_CODE_LENS: self._lenses,
            types.CODE_LENS_RESOLVE: self._resolve_lens,
            types.TEXT_DOCUMENT_CODE_ACTION: self._actions,
            types.CODE_ACTION_RESOLVE: _as_it_is,
            types.TEXT_DOCUMENT_INLAY_HINT: self._hints,
            types.TEXT_DOCUMENT_DOCUMENT_LINK: self._links,
            types.TEXT_DOCUMENT_DIAGNOSTIC: self._diagnose,
        }
        for name, answer in table.items():
            features.feature(name, _OPTIONS.get(name))(partial(answer))  # pygls sets attributes of it
        return features

    def _announced(self, known: types.ClientCapabilities, features: FeatureManager) -> dict[str, Any]:
        documents = {types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CLOSE, types.TEXT_DOCUMENT_DID_SAVE}
        options = {**features.feature_options, types.TEXT_DOCUMENT_DID_SAVE: types.SaveOptions(include_text=False)}
        built = cast("Any", ServerCapabilitiesBuilder)(
            known,
            set(features.features) | documents,
            options,
            list(COMMANDS),
            types.TextDocumentSyncKind.None_,
            position_encoding=self._units,
        ).build()
        found: dict[str, Any] = _CONVERTER.unstructure(built, types.ServerCapabilities)
        found.pop("experimental", None)
        return found

    # As a connection's second face

    def accept(self, method: str, params: dict[str, Any]) -> Work:
        """Find the work that answers a request.

        Raises:
            InvalidInputError: The params are not as LSP has them.
        """
        if method == types.WORKSPACE_EXECUTE_COMMAND:
            command, arguments = params.get("command"), params.get("arguments")
            if not isinstance(command, str):
                raise InvalidInputError.of("command", "must be a string", between=" ")
            return lambda _: self._commands.run(command, arguments)
        return partial(self._answer, method, _structured(method, params))

    async def _answer(self, method: str, params: Any, _: Call) -> Any:
        result = await self._answers[method](params)
        return result if isinstance(result, dict) else _CONVERTER.unstructure(result)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Take what is said of documents: which are open. The text that comes with it is not looked at; the file counts."""
        document = params.get("textDocument")
        uri = document.get("uri") if isinstance(document, dict) else None
        if not isinstance(uri, str):
            return
        if method == types.TEXT_DOCUMENT_DID_OPEN:
            if len(self._open) < MOST_DOCUMENTS or uri in self._open:
                self._open[uri] = self._open.get(uri, 0) + 1
            self._push_soon(uri)
        elif method == types.TEXT_DOCUMENT_DID_SAVE:
            self._push_soon(uri)
        elif method == types.TEXT_DOCUMENT_DID_CLOSE:
            self._closed(uri)

    def _closed(self, uri: str) -> None:
        left = self._open.pop(uri, 0) - 1
        if left > 0:
            self._open[uri] = left
            return
        path = folder_of(uri)
        still = {folder for other in self._open if (folder := folder_of(other)) is not None}
        if path is not None and path.parent not in {other.parent for other in still}:
            self._start(self._documents.close(path.parent))
        if not self._pulls:
            self._client.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, {"uri": uri, "diagnostics": []})

    # Diagnostics that are pushed

    def _changed(self, directory: Path) -> None:
        """Push new diagnostics for the open documents of a session, soon."""
        if directory not in self._due:
            loop = asyncio.get_running_loop()
            self._due[directory] = loop.call_later(DELAY, self._push_for, directory)

    def _push_for(self, directory: Path) -> None:
        del self._due[directory]
        found = [uri for uri in self._open if (path := folder_of(uri)) is not None and path.parent == directory]
        if self._pulls and found:
            self._start(self._refresh())
        for uri in found:
            self._push_soon(uri)

    async def _refresh(self) -> None:
        await self._client.request(types.WORKSPACE_DIAGNOSTIC_REFRESH, {}, timeout=30.0)

    def _push_soon(self, uri: str) -> None:
        if not self._pulls:
            self._start(self._push(uri))

    async def _push(self, uri: str) -> None:
        found = await self._found_in(uri)
        if uri in self._open:
            params = {"uri": uri, "diagnostics": _CONVERTER.unstructure(found)}
            self._client.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._pushing.add(task)
        task.add_done_callback(self._pushing.discard)

    # The methods

    async def _read(self, uri: str, read: Callable[[LogDocument], T], otherwise: T) -> T:
        """The result of reading a document in a thread; `otherwise` where it is none of ours, or cannot be read."""
        document = await self._documents.find(uri)
        if document is None:
            return otherwise
        try:
            return await asyncio.to_thread(read, document)
        except (TimeleapError, OSError, IndexError) as error:
            log.debug("a document could not be read: %s", type(error).__qualname__)
            return otherwise

    async def _read_any(self, uri: str, read: Callable[[RecordLines], T], otherwise: T) -> T:
        """Read a log, or a session file of an agent; `otherwise` where it is neither."""
        file = await self._documents.agent_file(uri)
        if file is None:
            return await self._read(uri, lambda document: read(document.transcript()), otherwise)
        return await asyncio.to_thread(read, file.transcript())

    async def _outline(self, params: types.DocumentSymbolParams) -> Any:
        nothing: list[dict[str, Any]] = []
        return await self._read_any(params.text_document.uri, outline.outline, nothing)

    async def _folds(self, params: types.FoldingRangeParams) -> Any:
        nothing: list[types.FoldingRange] = []
        return await self._read(
            params.text_document.uri, lambda document: outline.folds(document.transcript()), nothing
        )

    async def _hover(self, params: types.HoverParams) -> Any:
        line = params.position.line
        return await self._read_any(params.text_document.uri, lambda transcript: hover.hover(transcript, line), None)

    async def _hints(self, params: types.InlayHintParams) -> Any:
        first, last = params.range.start.line, params.range.end.line + 1
        nothing: list[types.InlayHint] = []
        uri = params.text_document.uri
        return await self._read(uri, lambda document: hover.hints(document.transcript(), first, last), nothing)

    async def _links(self, params: types.DocumentLinkParams) -> Any:
        uri = params.text_document.uri
        document = await self._documents.find(uri)
        workspace = None if document is None else document.session.meta.workspace
        nothing: list[types.DocumentLink] = []
        return await self._read_any(uri, lambda transcript: links.links(transcript, workspace, self._units), nothing)

    async def _lenses(self, params: types.CodeLensParams) -> Any:
        uri = params.text_document.uri

        def found(document: LogDocument) -> list[types.CodeLens]:
            if document.timeline_id is not None:
                return []
            return lenses.lenses(document.transcript(), uri, document.session.head)

        return await self._read(uri, found, [])

    async def _resolve_lens(self, lens: types.CodeLens) -> Any:
        uri = lens.data.get("uri") if isinstance(lens.data, dict) else None
        if not isinstance(uri, str):
            return lens
        return await self._read(uri, lambda document: lenses.resolved(lens, document.transcript().log), lens)

    async def _actions(self, params: types.CodeActionParams) -> Any:
        uri = params.text_document.uri

        def found(document: LogDocument) -> list[types.CodeAction]:
            if document.timeline_id is not None:
                return []
            transcript = document.transcript()
            damaged = transcript.log.state.has_damage
            return lenses.actions(transcript, uri, document.session.head, params.range, damaged)

        return await self._read(uri, found, [])

    async def _diagnose(self, params: types.DocumentDiagnosticParams) -> Any:
        found = await self._found_in(params.text_document.uri)
        return types.RelatedFullDocumentDiagnosticReport(items=found)

    async def _found_in(self, uri: str) -> list[types.Diagnostic]:
        def found(document: LogDocument) -> list[types.Diagnostic]:
            transcript = document.transcript()
            if document.timeline_id is not None:
                return diagnostics.diagnostics(transcript, [], None)
            state = document.session.wire("readOnly")
            return diagnostics.diagnostics(transcript, state["warnings"], state)

        if (file := await self._documents.agent_file(uri)) is not None:
            return await asyncio.to_thread(diagnostics.of_calls, file.transcript(), live=True)
        return await self._read(uri, found, [])

    async def _search(self, params: types.WorkspaceSymbolParams) -> Any:
        """Sessions of the store by their titles, and prompts of open documents."""
        found = await self._sessions(params.query)
        for uri in list(self._open):
            room = MOST_FOUND - len(found)
            named = partial(_named, params.query, room)
            found += await self._read(uri, named, []) if room > 0 else []
        return found

    async def _sessions(self, query: str) -> list[dict[str, Any]]:
        listed = await self._documents.ask(LIST, limit=MOST_FOUND)
        wanted = query.casefold()
        found = []
        for session in listed["sessions"]:
            title = str(session.get("title") or session["sessionId"])
            if wanted in title.casefold() and session.get("path"):
                uri = (Path(session["path"]) / "context.jsonl").as_uri()
                place = {"uri": uri, "range": _START}
                kind = types.SymbolKind.File.value
                found.append({"name": title, "kind": kind, "location": place, "containerName": session["sessionId"]})
        return found


_START: Final = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


def _named(query: str, room: int, document: LogDocument) -> list[dict[str, Any]]:
    found = outline.named(document.transcript(), query, room)
    uri = document.uri
    return [
        {"name": each["name"], "kind": each["kind"], "location": {"uri": uri, "range": each["range"]}} for each in found
    ]


def _read(capabilities: dict[str, Any]) -> types.ClientCapabilities:
    """The capabilities as lsprotocol has them; those that it cannot read count as absent."""
    try:
        return _CONVERTER.structure(capabilities, types.ClientCapabilities)
    except Exception as error:  # cattrs raises groups of whatever its hooks raise
        log.warning("capabilities of the client cannot be read: %s", type(error).__qualname__)
        return types.ClientCapabilities()


def _units(known: types.ClientCapabilities) -> types.PositionEncodingKind:
    """UTF-8 where the client offers it, else UTF-16."""
    offered = (known.general and known.general.position_encodings) or ()
    utf8 = types.PositionEncodingKind.Utf8
    return utf8 if utf8 in offered else types.PositionEncodingKind.Utf16


def _structured(method: str, params: dict[str, Any]) -> Any:
    try:
        return _CONVERTER.structure(params, _PARAMS[method])
    except Exception as error:
        message = f"invalid params: {method} of LSP has others"
        raise InvalidInputError(message, errors=[{"loc": [], "msg": str(error)[:200], "type": "lsp"}]) from None


async def _as_it_is(params: Any) -> Any:
    return params


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except (TimeleapError, OSError) as error:
        log.debug("an editor's document: %s", type(error).__qualname__)


def _row(name: str) -> Method:
    """The row of a method that is not in the table."""
    return Method(name, "request", "", None, "")
