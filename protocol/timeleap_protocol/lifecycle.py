"""The messages around a connection's life: LSP's shapes, taken leniently, and what Timeleap puts into them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticUseDefault, ValidationError

from timeleap_protocol.base import (
    Count,
    Int,
    JsonObject,
    Name,
    Nullable,
    NullIsAbsent,
    Opt,
    Positive,
    Shape,
    Token,
    WireModel,
    WireRoot,
)

T = TypeVar("T")


def _or_default(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except ValidationError:
        raise PydanticUseDefault from None


Lenient = Annotated[Nullable[T], WrapValidator(_or_default)]
"""A field that counts as absent when it is null or of another type than expected."""


class _Lsp(WireModel):
    """Base of LSP's own params: what we do not know is none of our business."""

    model_config = ConfigDict(extra="ignore")


class ClientInfo(_Lsp):
    """Who is calling."""

    name: str
    version: Lenient[str] = None


class ClientTimeleap(_Lsp):
    """`capabilities.experimental.timeleap` of a client."""

    protocol_version: Lenient[Int] = None
    """Refused with `protocolVersion` if it is another than the server's."""
    summarize: Lenient[bool] = None
    """Whether the client answers `context/summarize`."""
    approvals: Lenient[bool] = None
    """Whether the client wants `approval/didRequest` and `approval/didResolve`."""


class ClientExperimental(_Lsp):
    """`capabilities.experimental` of a client."""

    timeleap: Lenient[ClientTimeleap] = None


class ClientCapabilities(_Lsp):
    """The client capabilities that matter here."""

    experimental: Lenient[ClientExperimental] = None


class Retention(NullIsAbsent):
    """How many timelines a session keeps. The newest one is always kept."""

    model_config = ConfigDict(extra="forbid")

    max_timelines: Opt[Positive] = None
    """Default: 50."""
    max_timeline_bytes: Opt[Count] = None
    """Default: 2 GiB."""


class TrashOptions(NullIsAbsent):
    """How long deleted sessions can be brought back."""

    model_config = ConfigDict(extra="forbid")

    max_age: Opt[Count] = None
    """Seconds after which a deleted session is removed for good, at start and every hour. Default: never."""


class KeepOptions(NullIsAbsent):
    """Limits of what is kept of agents' own files."""

    model_config = ConfigDict(extra="forbid")

    max_bytes: Opt[Count] = None
    """On the disk, of all sessions together. Beyond it generations that have ended go, oldest first; the last one of a file that is
    gone goes last. Default: no limit."""
    exclude: Opt[list[str]] = None
    """Paths, or patterns with `*`, of agents' files and of folders that their sessions are about: nothing is kept of these."""


class AgentsOptions(NullIsAbsent):
    """Settings for the sessions of other agents' programs."""

    model_config = ConfigDict(extra="forbid")

    keep: Opt[KeepOptions] = None


class SummarizerOptions(NullIsAbsent):
    """An OpenAI-compatible endpoint for summaries."""

    model_config = ConfigDict(extra="forbid")

    base_url: Opt[Name] = None
    model: Opt[Name] = None
    api_key_file: Opt[Name] = None
    """A file, so that the key stands in no configuration and no process list."""
    context_size: Opt[Positive] = None
    """Tokens its model takes. A longer conversation is summarised in parts. Default: found out by asking."""
    timeout: Opt[Positive] = None
    """Seconds that a summariser, also the client's, may take for one answer. Default: 300."""


class InitializationOptions(NullIsAbsent):
    """What a client may set for its connection. Unknown members (`model_extra`) become a warning."""

    model_config = ConfigDict(extra="allow")

    home: Opt[Name] = None
    """Directory of the store."""
    store: Opt[Name] = None
    """Where the sessions are: `postgresql://...`, or a directory, which then is the home, too."""
    key_file: Opt[Name] = None
    """The key that seals approvals in a database; one for all machines."""
    durability: Opt[Literal["disk", "os"]] = None
    """`disk` (default): a reply means synced. `os`: survives a kill, not a power loss."""
    max_context_size: Nullable[Positive] = None
    """Tokens. Default, and null: compaction is never suggested."""
    reserved_context_size: Opt[Count] = None
    """Default: 50000."""
    trigger_ratio: Opt[Annotated[float, Field(gt=0, le=1)]] = None
    """Default: 0.85."""
    max_preserved_messages: Opt[Positive] = None
    """Default: 2."""
    retention: Opt[Retention] = None
    trash: Opt[TrashOptions] = None
    agents: Opt[AgentsOptions] = None
    summarizer: Opt[SummarizerOptions] = None
    opt_out_notifications: Opt[list[str]] = None
    """Names of notifications that are not to be sent on this connection."""
    approvals: Opt[Literal["ask"]] = None
    """`ask`: this connection can ask for approvals, but neither decide what was asked nor switch approvals on or off.
    Default: it can do both."""
    token: Opt[str] = None
    """On a connection to an owner's socket: the token of the owner record."""


class InitializeParams(_Lsp):
    """`initialize`: LSP's params, all optional."""

    process_id: Nullable[Int] = None
    """The server exits when this process ends; one that it cannot see, as of another container, is not waited for."""
    client_info: Lenient[ClientInfo] = None
    capabilities: Lenient[ClientCapabilities] = None
    initialization_options: Nullable[InitializationOptions] = None
    trace: Lenient[Literal["off", "messages", "verbose"]] = None

    @property
    def timeleap(self) -> ClientTimeleap:
        """The client's `capabilities.experimental.timeleap`; empty where it sent none."""
        experimental = self.capabilities.experimental if self.capabilities else None
        return experimental.timeleap if experimental and experimental.timeleap else ClientTimeleap()


class ServerInfo(Shape):
    """Who answers."""

    name: Literal["timeleap"]
    version: str


class Limits(Shape):
    """What the server takes at most."""

    max_frame_bytes: Positive
    max_message_bytes: Positive
    max_depth: Positive
    max_in_flight: Positive
    max_page: Positive


class MethodCapability(Shape):
    """What a method takes."""

    params: list[str]


class StoreCapability(Shape):
    """Where a server keeps its sessions, and the methods that this cannot do (they fail with `notSupportedByStore`)."""

    kind: Literal["directory", "postgresql"]
    unsupported: list[str]
    reasons: dict[str, str] | None = None
    """Why, in words, by method."""


class ServerTimeleap(Shape):
    """What this server speaks: `capabilities.experimental.timeleap`."""

    protocol_version: Literal[1]
    methods: dict[str, MethodCapability]
    notifications: list[str]
    client_requests: list[str]
    limits: Limits
    approvals: Opt[Literal[True]] = None
    """Whether approvals can be asked for (`approval/*`)."""
    store: Opt[StoreCapability] = None
    """Where the sessions lie."""
    warnings: Opt[list[str]] = None
    """What was wrong with the settings, in words."""


class ServerExperimental(Shape):
    """`capabilities.experimental` of the server."""

    timeleap: ServerTimeleap


class ServerCapabilities(Shape):
    """LSP's server capabilities; ours stand under `experimental`."""

    experimental: ServerExperimental


class InitializeResult(Shape):
    """What the server is and can."""

    capabilities: ServerCapabilities
    server_info: ServerInfo


class InitializedParams(_Lsp):
    """`initialized`."""


class ShutdownParams(_Lsp):
    """`shutdown`."""


class ExitParams(_Lsp):
    """`exit`."""


class CancelParams(_Lsp):
    """`$/cancelRequest`."""

    id: Token
    """Of the request that is no longer wanted."""


class SetTraceParams(_Lsp):
    """`$/setTrace`."""

    value: Literal["off", "messages", "verbose"]


class LogTraceParams(Shape):
    """`$/logTrace`."""

    message: str
    verbose: Opt[str] = None


class DiscoverParams(_Lsp):
    """`rpc.discover`."""


class DiscoverResult(WireRoot[JsonObject]):
    """An OpenRPC document."""
