# Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit.
"""The structs of `timeleap_protocol.lifecycle`; see `timeleap_protocol.params`."""

from __future__ import annotations

from typing import Literal

from timeleap_protocol.params import Int, LenientStruct


class ClientInfo(LenientStruct, kw_only=True):
    name: str
    version: str | None = None


class ClientTimeleap(LenientStruct, kw_only=True):
    protocol_version: Int | None = None
    summarize: bool | None = None
    approvals: bool | None = None


class ClientExperimental(LenientStruct, kw_only=True):
    timeleap: ClientTimeleap | None = None


class ClientCapabilities(LenientStruct, kw_only=True):
    experimental: ClientExperimental | None = None


class InitializeParams(LenientStruct, kw_only=True):
    process_id: Int | None = None
    client_info: ClientInfo | None = None
    capabilities: ClientCapabilities | None = None
    trace: Literal["off", "messages", "verbose"] | None = None
