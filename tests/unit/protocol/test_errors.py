"""Kinds, codes, and how a failed validation is told."""

from __future__ import annotations

import inspect
import json

import pytest
from pydantic import ValidationError

import timeleap.errors
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
    "approvalNotPending": 4026,
    "approvalTimeout": 4027,
}


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
