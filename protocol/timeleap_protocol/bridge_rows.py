"""Rows of the method table: `bridge/*`, sessions of other agents' programs."""

from __future__ import annotations

from typing import Final

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.method import Method, read, request

_E = ErrorKind

AGENTS_ARE_LOCAL: Final = (
    "mirrors follow the session files that other programs write on one machine; use a store in a directory there"
)

CATCH_UP: Final = request(
    "bridge/catchUp",
    "bridge.BridgeCatchUpParams",
    "bridge.BridgeCatchUpResult",
    "Mirrors one file up to now and keeps the files of its workspace; for hooks of agents' programs.",
    handler="timeleap_agents.mirrors.handlers.catch_up",
    needs_directory=AGENTS_ARE_LOCAL,
    errors=(_E.STORAGE_FAILURE, _E.SESSION_LOCKED, _E.CORRUPTED),
)

BRIDGE_ROWS: Final[tuple[Method, ...]] = (
    request(
        "bridge/list",
        "bridge.BridgeListParams",
        "bridge.BridgeListResult",
        "Lists the folders in which agents' programs keep sessions.",
        handler="timeleap_agents.mirrors.handlers.list_sources",
        needs_directory=AGENTS_ARE_LOCAL,
        errors=(_E.STORAGE_FAILURE,),
    ),
    request(
        "bridge/watch",
        "bridge.BridgeWatchParams",
        "bridge.BridgeWatchResult",
        "Mirrors the sessions of an agent's program, and follows them.",
        handler="timeleap_agents.mirrors.handlers.watch",
        needs_directory=AGENTS_ARE_LOCAL,
        errors=(_E.STORAGE_FAILURE,),
    ),
    request(
        "bridge/unwatch",
        "bridge.BridgeUnwatchParams",
        "bridge.BridgeUnwatchResult",
        "Follows them no more.",
        handler="timeleap_agents.mirrors.handlers.unwatch",
        needs_directory=AGENTS_ARE_LOCAL,
    ),
    CATCH_UP,
    read(
        "bridge/adopt",
        "bridge.BridgeAdoptParams",
        "bridge.BridgeAdoptResult",
        "Writes a new session for the agent's own program, cut at a point of a mirror, and says how to resume it.",
        handler="timeleap_agents.mirrors.handlers.adopt",
        needs_directory=AGENTS_ARE_LOCAL,
        scope="any",
        cancel="unbegun",
        forward="never",
        errors=(_E.CHECKPOINT_NOT_FOUND, _E.CORRUPTED, _E.STORAGE_FAILURE),
    ),
    read(
        "bridge/listKept",
        "bridge.BridgeListKeptParams",
        "bridge.BridgeListKeptResult",
        "Lists the bytes that are kept of the file of a mirror.",
        handler="timeleap_agents.mirrors.vault.handlers.list_kept",
        needs_directory=AGENTS_ARE_LOCAL,
        scope="any",
        forward="never",
        errors=(_E.CORRUPTED, _E.STORAGE_FAILURE),
    ),
    read(
        "bridge/restoreFile",
        "bridge.BridgeRestoreFileParams",
        "bridge.BridgeRestoreFileResult",
        "Puts the file of a mirror back, as it is kept; never over other bytes.",
        handler="timeleap_agents.mirrors.vault.handlers.restore_file",
        needs_directory=AGENTS_ARE_LOCAL,
        scope="any",
        cancel="unbegun",
        forward="never",
        errors=(_E.CONTENT_MODIFIED, _E.CORRUPTED, _E.STORAGE_FAILURE),
    ),
)
