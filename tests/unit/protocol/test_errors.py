"""Kinds, codes, and how a failed validation is told."""

from __future__ import annotations

import errno
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

import timeleap.errors
import timeleap_agents
from timeleap.errors import LASTING, CompactionFailedError, StorageFailureError, TimeleapError
from timeleap.rpc.errors import OwnersRefusalError, to_wire
from timeleap_protocol.context import AppendMessageParams
from timeleap_protocol.errors import ERRORS, MAX_REPORTED, ErrorKind, code_of, spec_of_code, validation_errors

OWN_ERRORS = [
    error
    for _, error in inspect.getmembers(timeleap.errors, inspect.isclass)
    if issubclass(error, timeleap.errors.TimeleapError)
]

CONTRACT = {
    "parseError": -32700,
    "invalidRequest": -32600,
    "methodNotFound": -32601,
    "invalidParams": -32602,
    "internalError": -32603,
    "notInitialized": -32002,
    "cancelled": -32800,
    "contentModified": -32801,
    "sessionNotFound": 4001,
    "checkpointNotFound": 4002,
    "sessionLocked": 4003,
    "readOnly": 4004,
    "storageFailure": 4005,
    "compactionFailed": 4006,
    "dmailPending": 4007,
    "noPendingDMail": 4008,
    "timelineNotFound": 4009,
    "invalidSessionId": 4010,
    "tooLarge": 4011,
    "overloaded": 4012,
    "sessionNotOpen": 4013,
    "corrupted": 4014,
    "externallyModified": 4015,
    "sessionExists": 4016,
    "protocolVersion": 4017,
    "nothingToUndo": 4018,
    "nothingToRedo": 4018,
    "filesUnavailable": 4020,
    "filesConflict": 4021,
    "filesIncomplete": 4022,
    "filesTooLarge": 4023,
    "filesBusy": 4024,
    "snapshotNotFound": 4025,
    "approvalNotPending": 4026,
    "approvalTimeout": 4027,
    "notSupportedByStore": 4028,
}


RETRYABLE = {
    "parseError": False,
    "invalidRequest": False,
    "methodNotFound": False,
    "invalidParams": False,
    "internalError": False,
    "notInitialized": False,
    "cancelled": False,
    "contentModified": True,
    "sessionNotFound": False,
    "checkpointNotFound": False,
    "sessionLocked": True,
    "readOnly": False,
    "storageFailure": True,
    "compactionFailed": True,
    "dmailPending": False,
    "noPendingDMail": False,
    "timelineNotFound": False,
    "invalidSessionId": False,
    "tooLarge": False,
    "overloaded": True,
    "sessionNotOpen": False,
    "corrupted": False,
    "externallyModified": False,
    "sessionExists": False,
    "protocolVersion": False,
    "nothingToUndo": False,
    "nothingToRedo": False,
    "filesUnavailable": False,
    "filesConflict": False,
    "filesIncomplete": False,
    "filesTooLarge": False,
    "filesBusy": True,
    "snapshotNotFound": False,
    "approvalNotPending": False,
    "approvalTimeout": True,
    "notSupportedByStore": False,
}
"""Whether the same request may succeed later, by kind, unless the error at hand says otherwise."""

OF_ITS_OWN = {"ClientRequestError": True, "UnwritableError": False}
"""The classes that say otherwise than their kind."""

BY_ERRNO = {
    **dict.fromkeys(("ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EINTR"), True),
    **dict.fromkeys(("EIO", "ESTALE", "EBUSY", "ETXTBSY", "ETIMEDOUT", "EUNKNOWN"), True),
    **dict.fromkeys(("EROFS", "EACCES", "EPERM", "ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY"), False),
    **dict.fromkeys(("ELOOP", "ENAMETOOLONG", "EINVAL", "EXDEV", "ENODEV", "ENXIO"), False),
    **dict.fromkeys(("ENOSYS", "ENOTSUP", "EOPNOTSUPP"), False),
}
"""The same of what the operating system refused."""

NOT_OF_FILES = {"EADDRINUSE", "EBADF", "ECONNREFUSED", "EDITOR", "EISCONN", "EMLINK", "EPROTO", "EXIT"}
"""Names in our source that no storage failure carries."""


def refusal_of(params: object) -> ValidationError:
    with pytest.raises(ValidationError) as refusal:
        AppendMessageParams.from_wire(params)
    return refusal.value


_FIRST = {ErrorKind.NOTHING_TO_REDO: ErrorKind.NOTHING_TO_UNDO}
"""The kinds that share a code with an earlier one."""


def test_the_codes_are_those_of_version_1():
    assert {kind: code_of(kind) for kind in ErrorKind} == CONTRACT


def test_a_code_leads_back_to_its_kind():
    for spec in ERRORS.values():
        assert spec_of_code(spec.code) is ERRORS[_FIRST.get(spec.kind, spec.kind)]
    assert spec_of_code(-32099) is None


def test_an_unknown_kind_has_no_code():
    with pytest.raises(ValueError, match="noSuchKind"):
        code_of("noSuchKind")


@pytest.mark.parametrize("error", OWN_ERRORS, ids=lambda error: error.__name__)
def test_the_servers_errors_are_kinds_of_the_protocol(error: type[timeleap.errors.TimeleapError]):
    kind = ErrorKind(error.kind)
    # A fault may be of a kind that passes; the class says so, the table speaks of faults in general.
    assert kind == ErrorKind.INTERNAL_ERROR or ERRORS[kind].retryable == error.retryable


def test_of_every_kind_it_is_known_whether_it_may_pass():
    assert {kind: spec.retryable for kind, spec in ERRORS.items()} == RETRYABLE


def below(error: type[TimeleapError]) -> list[type[TimeleapError]]:
    return [error, *(deeper for one in error.__subclasses__() for deeper in below(one))]


def test_of_every_error_of_the_server_it_is_known_whether_it_may_pass():
    left_out = (
        "timeleap.adapters",
        "timeleap.client",
        "timeleap.cli",
        "timeleap_agents.adapters",
        "timeleap_agents.mcp",
    )
    for package in (timeleap, timeleap_agents):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(left_out) and "__main__" not in module.name:
                importlib.import_module(module.name)
    ours = [one for one in below(TimeleapError) if one.__module__.startswith(("timeleap.", "timeleap_agents."))]
    ours.remove(OwnersRefusalError)  # as the owner said it
    told = {one.__name__: to_wire(one("what was wrong"))["data"]["retryable"] for one in ours}
    assert told == {one.__name__: OF_ITS_OWN.get(one.__name__, RETRYABLE[one.kind]) for one in ours}


@pytest.mark.parametrize(("name", "retryable"), BY_ERRNO.items())
def test_what_the_operating_system_refuses_is_retryable_where_time_may_help(name: str, retryable: bool):
    assert to_wire(StorageFailureError("no", errno=name))["data"]["retryable"] is retryable
    if (number := getattr(errno, name, None)) is not None:
        said = to_wire(OSError(number, "no", "file"))["data"]
        assert (said["kind"], said["retryable"]) == ("storageFailure", retryable)


def test_every_refusal_that_the_source_names_is_in_the_table():
    source = Path(timeleap.errors.__file__).parent
    found = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r"\berrno\.(E[A-Z]+)|\"(E[A-Z]{3,})\"", path.read_text("utf-8"))
        for name in name
        if name
    }
    assert found - NOT_OF_FILES <= BY_ERRNO.keys()
    assert {name for name, retryable in BY_ERRNO.items() if not retryable} == LASTING


def test_an_error_may_say_otherwise_than_its_kind():
    assert to_wire(CompactionFailedError("no key", retryable=False))["data"]["retryable"] is False
    assert "retryable" not in to_wire(CompactionFailedError("no", retryable=False))


def test_values_are_never_repeated():
    secret = "sk-do-not-log"
    params = {"sessionId": {"key": secret}, "messages": [secret, {"role": "user"}], "requestId": secret * 9}
    assert secret not in json.dumps(validation_errors(refusal_of(params)))


def test_messages_speak_of_json():
    found = validation_errors(refusal_of({"sessionId": "s", "messages": [1]}))
    assert found == [{"loc": ["messages", 0], "msg": "Input should be an object", "type": "dict_type"}]
    found = validation_errors(refusal_of({"sessionId": "s", "messages": {}}))
    assert found == [{"loc": ["messages"], "msg": "Input should be an array", "type": "list_type"}]
    assert validation_errors(refusal_of([]))[0]["msg"] == "Input should be an object"


def test_a_field_name_of_the_caller_is_bounded():
    (found,) = validation_errors(refusal_of({"sessionId": "s", "message": {}, "x" * 5000: 1}))
    assert found == {"loc": ["x" * 100], "msg": f"Unknown field '{'x' * 100}'", "type": "extra_forbidden"}


def test_a_field_name_that_is_no_text_can_still_be_answered():
    found = validation_errors(refusal_of({"sessionId": "s", "message": {}, "\ud800": 1}))
    json.dumps(found, ensure_ascii=False).encode("utf-8")


def test_a_thousand_errors_are_not_all_listed():
    assert len(validation_errors(refusal_of({"sessionId": "s", "messages": [0] * 1000}))) == MAX_REPORTED
