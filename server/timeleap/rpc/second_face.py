"""The port for a second set of methods on a connection, beside those of the method table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from timeleap.call import Client
from timeleap.rpc.protocol import Work
from timeleap_protocol.method import Method


class Face(Protocol):
    """A set of methods with rules of its own for their params.

    Attributes:
        capabilities: Members of `capabilities` in the result of `initialize`.
        rows: The rows of its requests by name, none of which is in the method table.
    """

    capabilities: dict[str, Any]
    rows: Mapping[str, Method]

    def accept(self, method: str, params: dict[str, Any]) -> Work: ...
    def notified(self, method: str, params: dict[str, Any]) -> None: ...


MakeFace = Callable[[Client, dict[str, Any]], Face | None]
"""Makes the second face of a client from its `capabilities`; None for a client that needs none."""
