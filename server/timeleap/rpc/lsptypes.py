"""A light stand-in for `lsprotocol.types` while pygls is imported.

The real module describes the whole Language Server Protocol and takes most of a bare pygls server's start-up time
(155 of 240 ms where this was measured). pygls imports it for a handful of names: methods' names, two enumerations used as
defaults, and classes that stand in annotations. We build on its JSON-RPC half and use none of them. So while pygls is
being imported `lsprotocol.types` is the module below, with exactly those names; asked for any other name it loads the
real one and passes it on: slower, never wrong. Afterwards `import lsprotocol.types` gives the real module as ever.

What was rejected: importing pygls after the reply to `initialize` (the first request would pay instead), and standing in
for pygls' own modules (they change with every release; `lsprotocol` is generated from a published model).
`tests/unit/rpc/test_lsptypes.py` compares every name with the real module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import ModuleType
from typing import Any

NAME = "lsprotocol.types"


class PositionEncodingKind(StrEnum):
    """As in the real module."""

    Utf8 = "utf-8"
    Utf16 = "utf-16"
    Utf32 = "utf-32"


class TextDocumentSyncKind(IntEnum):
    """As in the real module."""

    None_ = 0
    Full = 1
    Incremental = 2


@dataclass
class ResponseError:
    """As in the real module; pygls makes one of every `JsonRpcException`."""

    code: int
    message: str
    data: Any = None


CONSTANTS: Mapping[str, str] = {
    "CANCEL_REQUEST": "$/cancelRequest",
    "EXIT": "exit",
    "INITIALIZE": "initialize",
    "INITIALIZED": "initialized",
    "NOTEBOOK_DOCUMENT_DID_CHANGE": "notebookDocument/didChange",
    "NOTEBOOK_DOCUMENT_DID_CLOSE": "notebookDocument/didClose",
    "NOTEBOOK_DOCUMENT_DID_OPEN": "notebookDocument/didOpen",
    "SET_TRACE": "$/setTrace",
    "SHUTDOWN": "shutdown",
    "TEXT_DOCUMENT_DID_CHANGE": "textDocument/didChange",
    "TEXT_DOCUMENT_DID_CLOSE": "textDocument/didClose",
    "TEXT_DOCUMENT_DID_OPEN": "textDocument/didOpen",
    "TEXT_DOCUMENT_DID_SAVE": "textDocument/didSave",
    "TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL": "textDocument/semanticTokens/full",
    "TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA": "textDocument/semanticTokens/full/delta",
    "TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE": "textDocument/semanticTokens/range",
    "WINDOW_WORK_DONE_PROGRESS_CANCEL": "window/workDoneProgress/cancel",
    "WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS": "workspace/didChangeWorkspaceFolders",
    "WORKSPACE_DID_CREATE_FILES": "workspace/didCreateFiles",
    "WORKSPACE_DID_DELETE_FILES": "workspace/didDeleteFiles",
    "WORKSPACE_DID_RENAME_FILES": "workspace/didRenameFiles",
    "WORKSPACE_EXECUTE_COMMAND": "workspace/executeCommand",
    "WORKSPACE_WILL_CREATE_FILES": "workspace/willCreateFiles",
    "WORKSPACE_WILL_DELETE_FILES": "workspace/willDeleteFiles",
    "WORKSPACE_WILL_RENAME_FILES": "workspace/willRenameFiles",
}
"""Names of methods, with the values of the real module."""

LIKENESSES = (PositionEncodingKind, TextDocumentSyncKind, ResponseError)
"""Classes that are used, not only named."""

ANNOTATIONS = frozenset(
    {
        "ClientCapabilities",
        "DidChangeNotebookDocumentParams",
        "DidCloseNotebookDocumentParams",
        "DidOpenNotebookDocumentParams",
        "FileOperationRegistrationOptions",
        "LSPAny",
        "NotebookDocument",
        "NotebookDocumentSyncOptions",
        "Position",
        "Range",
        "ResponseErrorMessage",
        "SaveOptions",
        "SemanticTokensLegend",
        "SemanticTokensRegistrationOptions",
        "ShowDocumentResult",
        "TextDocumentContentChangeEvent",
        "TextDocumentContentChangePartial",
        "TextDocumentItem",
        "VersionedTextDocumentIdentifier",
        "WorkspaceFolder",
    }
)
"""Classes pygls only names: in annotations, and in tables of its LSP half."""

TABLES = frozenset({"ALL_TYPES_MAP", "METHOD_TO_TYPES"})


class _RealTable(Mapping[str, Any]):
    """A table of the real module, which is loaded when somebody looks into it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> Any:
        return getattr(real(), self._name)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(getattr(real(), self._name))

    def __len__(self) -> int:
        return len(getattr(real(), self._name))


class _OnlyNamed(type):
    """The type of placeholders: they can be named, but not used."""

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        raise TypeError(f"{cls.__name__} is a placeholder; import {NAME} after pygls for the real one")


class StandIn(ModuleType):
    """The module that stands in."""

    def __getattr__(self, name: str) -> Any:
        value: Any
        if name in CONSTANTS:
            value = CONSTANTS[name]
        elif name in ANNOTATIONS:
            value = _OnlyNamed(name, (), {})
        elif name in TABLES:
            value = _RealTable(name)
        elif name.startswith("__"):
            raise AttributeError(name)
        else:
            value = getattr(real(), name)
        setattr(self, name, value)
        return value


def real() -> ModuleType:
    """The real `lsprotocol.types`, loaded if need be."""
    if isinstance(sys.modules.get(NAME), StandIn):
        del sys.modules[NAME]
    return importlib.import_module(NAME)


@contextmanager
def standing_in() -> Generator[None]:
    """While this lasts, `lsprotocol.types` is the stand-in, unless the real one is loaded already."""
    if NAME in sys.modules:
        yield
        return
    module = StandIn(NAME)
    for likeness in LIKENESSES:
        setattr(module, likeness.__name__, likeness)
    sys.modules[NAME] = module
    try:
        yield
    finally:
        if sys.modules.get(NAME) is module:
            del sys.modules[NAME]
        package = sys.modules.get("lsprotocol")
        if package is not None and package.__dict__.get("types") is module:
            del package.__dict__["types"]
