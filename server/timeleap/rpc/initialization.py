"""The parameters of `initialize` as a connection takes them, its own options apart from those of the service."""

from __future__ import annotations

from typing import Any, NamedTuple

from timeleap.rpc.errors import RefusedError, refused_value
from timeleap_protocol.errors import MAX_REPORTED, ErrorKind
from timeleap_protocol.method import Method


class Accepted(NamedTuple):
    """The params of `initialize`, apart from the options of its connection."""

    known: Any  # those that the table knows
    options: dict[str, Any]  # `initializationOptions` of the service
    only_asks: bool  # the client never decides about approvals
    unwanted: frozenset[str]  # notifications that it opted out of
    capabilities: dict[str, Any]  # as they came; empty where it switched LSP off


def accept_initialize(row: Method, params: dict[str, Any]) -> Accepted:
    """Read the params of `initialize`; raises `RefusedError` for an option of the connection that cannot be used."""
    options = params.get("initializationOptions")
    if options == []:  # an empty table of Lua, as Neovim sends it
        options = {}
    if options is not None and not isinstance(options, dict):
        raise _refusal([], "must be an object", "object_type")
    known = row.read_params({**params, "initializationOptions": None})
    options = dict(options or {})
    approvals, lsp, capabilities = options.pop("approvals", None), options.pop("lsp", None), params.get("capabilities")
    if approvals not in (None, "ask"):
        why = 'must be "ask": leave it out for a connection that can decide as well'
        raise _refusal(["approvals"], why, "literal_error")
    if lsp is not None and not isinstance(lsp, bool):
        raise _refusal(["lsp"], "must be true or false", "bool_type")
    unwanted = _names(options.pop("optOutNotifications", None))
    if lsp is False or not isinstance(capabilities, dict):
        capabilities = {}
    return Accepted(known, options, approvals == "ask", unwanted, capabilities)


def _names(value: Any) -> frozenset[str]:
    """`optOutNotifications`; raises `RefusedError` if it is no list of names."""
    if value is None:
        return frozenset()
    if not isinstance(value, list):
        raise _refusal(["optOutNotifications"], "must be a list of strings", "list_type")
    wrong = [place for place, name in enumerate(value) if not isinstance(name, str)]
    if wrong:
        where = "initializationOptions", "optOutNotifications"
        errors = [refused_value([*where, place], "must be a string", "string_type") for place in wrong[:MAX_REPORTED]]
        raise RefusedError(ErrorKind.INVALID_PARAMS, f"{'.'.join(where)} must be a list of strings", errors=errors)
    return frozenset(value)


def _refusal(where: list[str | int], why: str, kind: str) -> RefusedError:
    """The refusal of an option, or of all of them."""
    place = ["initializationOptions", *where]
    message = f"{'.'.join(map(str, place))} {why}"
    return RefusedError(ErrorKind.INVALID_PARAMS, message, errors=[refused_value(place, why, kind)])
