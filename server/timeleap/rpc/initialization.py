"""The parameters of `initialize` as a connection takes them, its own options apart from those of the service."""

from __future__ import annotations

from typing import Any

from timeleap.rpc.errors import RefusedError, refused_value
from timeleap_protocol.errors import MAX_REPORTED, ErrorKind
from timeleap_protocol.method import Method


def accept_initialize(row: Method, params: dict[str, Any]) -> tuple[Any, dict[str, Any], bool, frozenset[str]]:
    """Return a client's information, its options, whether it only asks, and the notifications it does not want."""
    options = params.get("initializationOptions")
    if options is not None and not isinstance(options, dict):
        message = "initializationOptions must be an object"
        errors = [refused_value(["initializationOptions"], "must be an object", "object_type")]
        raise RefusedError(ErrorKind.INVALID_PARAMS, message, errors=errors)
    known = row.read_params({**params, "initializationOptions": None})
    options = dict(options or {})
    return known, options, _only_asks(options.pop("approvals", None)), _names(options.pop("optOutNotifications", None))


def _only_asks(value: Any) -> bool:
    """Return True if the connection cannot decide; raises `RefusedError` if `approvals` is neither `ask` nor absent."""
    if value is None:
        return False
    if value == "ask":
        return True
    problem = refused_value(["initializationOptions", "approvals"], 'must be "ask", or absent', "literal_error")
    message = 'initializationOptions.approvals must be "ask": leave it out for a connection that can decide as well'
    raise RefusedError(ErrorKind.INVALID_PARAMS, message, errors=[problem])


def _names(value: Any) -> frozenset[str]:
    """`optOutNotifications`; raises `RefusedError` if it is no list of names."""
    where: list[str | int] = ["initializationOptions", "optOutNotifications"]
    if value is None:
        return frozenset()
    problems = [refused_value(where, "must be a list of strings", "list_type")]
    if isinstance(value, list):
        places = [place for place, name in enumerate(value) if not isinstance(name, str)]
        problems = [
            refused_value([*where, place], "must be a string", "string_type") for place in places[:MAX_REPORTED]
        ]
    if problems:
        message = "initializationOptions.optOutNotifications must be a list of strings"
        raise RefusedError(ErrorKind.INVALID_PARAMS, message, errors=problems)
    return frozenset(value)
