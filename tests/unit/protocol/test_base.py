"""What all models have in common: absent is not null, numbers are exact, nothing is coerced."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from timeleap_client.connection import given
from timeleap_protocol.base import Count, Int, Limit, Opt, Shape, WireModel
from timeleap_protocol.context import AppendMessageParams, GetHistoryParams, RewriteResult
from timeleap_protocol.generate.docs import field_docs
from timeleap_protocol.lifecycle import InitializeParams
from timeleap_protocol.past import DiffPoint
from timeleap_protocol.shapes import Checkpoint, Parent, PendingDMail, SessionInfo


class Sample(Shape):
    may_be_absent: Opt[int] = None
    may_be_null: int | None
    inner: Opt[Parent] = None


def test_an_unset_field_is_left_out_and_a_null_one_stays():
    assert Sample(may_be_null=None).to_wire() == {"mayBeNull": None}
    assert Sample(may_be_absent=1, may_be_null=2).to_wire() == {"mayBeAbsent": 1, "mayBeNull": 2}


def test_fields_of_nested_models_follow_the_same_rule():
    assert Sample(may_be_null=None, inner=Parent(session_id="a")).to_wire() == {
        "mayBeNull": None,
        "inner": {"sessionId": "a"},
    }


def test_null_is_refused_for_a_field_that_may_be_absent():
    with pytest.raises(ValidationError, match="mayBeAbsent"):
        Sample.from_wire({"mayBeAbsent": None, "mayBeNull": None})


def test_a_field_that_may_be_null_must_be_there():
    with pytest.raises(ValidationError, match="mayBeNull"):
        Sample.from_wire({})


def test_python_names_build_and_wire_names_arrive():
    built = PendingDMail(checkpoint_id=1, checkpoint_uid="c1-0", message="note")
    assert built.to_wire() == {"checkpointId": 1, "checkpointUid": "c1-0", "message": "note"}
    assert PendingDMail.from_wire(built.to_wire()) == built


def test_a_shape_keeps_members_of_a_newer_server():
    wire = {"sessionId": "a", "checkpointUid": "c0-1", "newerMember": {"x": [1]}}
    assert Parent.from_wire(wire).to_wire() == wire


@pytest.mark.parametrize(("value", "whole"), [(3, 3), (3.0, 3), (1e15, 10**15), (-0.0, 0), (2**53 - 1, 2**53 - 1)])
def test_whole_numbers_are_integers_however_they_are_written(value: Any, whole: int):
    taken = TypeAdapter(Int).validate_python(value)
    assert (taken, type(taken)) == (whole, int)


@pytest.mark.parametrize("value", [True, False, "3", 3.5, None, [], float("nan"), float("inf"), 2**53, -(2**53), 1e300])
def test_what_is_no_safe_integer_is_refused(value: Any):
    with pytest.raises(ValidationError):
        TypeAdapter(Int).validate_python(value, strict=True)


@pytest.mark.parametrize(("kind", "value"), [(Count, -1), (Limit, 0), (Limit, 1001)])
def test_bounds_hold(kind: Any, value: int):
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(value)


def test_messages_keep_values_keys_and_their_order():
    message = {"z": 10**40, "role": "user", "content": "\u2028", "a": {"y": None, "x": [1.50, {}]}}
    params = AppendMessageParams.from_wire({"sessionId": "s", "message": message})
    assert params.message == message
    assert list(params.to_wire()["message"]) == list(message)


def test_params_that_are_not_an_object_are_refused():
    for value in ([], [1], "x", 3, None, True):
        with pytest.raises(ValidationError):
            AppendMessageParams.from_wire(value)


def test_range_fields_keep_their_wire_names():
    params = GetHistoryParams.from_wire({"sessionId": "s", "from": 3, "to": 9})
    assert (params.from_, params.to) == (3, 9)


def test_given_leaves_out_what_is_unset_and_writes_models():
    assert given({"from": DiffPoint(checkpoint_uid="c0-1"), "to": DiffPoint(), "limit": None, "yes": False}) == {
        "from": {"checkpointUid": "c0-1"},
        "to": {},
        "yes": False,
    }


@pytest.mark.parametrize("model", [Checkpoint, SessionInfo, RewriteResult])
def test_results_are_strict_about_types(model: type[WireModel]):
    with pytest.raises(ValidationError):
        model.from_wire({"id": "1", "uid": 1, "messageCount": "0", "sessionId": 1, "head": None})


LENIENT: list[Any] = [
    {},
    {"processId": None, "rootUri": None, "workspaceFolders": None, "initializationOptions": None, "trace": None},
    {"clientInfo": 5, "capabilities": "none", "trace": "loud", "locale": 7},
    {"clientInfo": {"version": 2}, "capabilities": {"experimental": {"timeleap": {"protocolVersion": "x"}}}},
    {"capabilities": {"experimental": {"timeleap": [], "other": 1}, "textDocument": {}}},
]


@pytest.mark.parametrize("params", LENIENT)
def test_initialize_takes_what_any_lsp_client_sends(params: Any):
    taken = InitializeParams.from_wire(params)
    assert taken.to_wire().get("clientInfo") is None
    assert (taken.timeleap.protocol_version, taken.timeleap.summarize) == (None, None)


def test_initialize_finds_what_a_client_says_about_us():
    capabilities = {"experimental": {"timeleap": {"protocolVersion": 2.0, "summarize": True}}}
    taken = InitializeParams.from_wire({"capabilities": capabilities}).timeleap
    assert (taken.protocol_version, taken.summarize) == (2, True)


def test_unknown_initialization_options_are_kept_to_be_warned_of():
    options = InitializeParams.from_wire({"initializationOptions": {"colour": 1}}).initialization_options
    assert options is not None
    assert options.model_extra == {"colour": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "tape"},
        {"maxContextSize": 0},
        {"triggerRatio": 0},
        {"triggerRatio": 1.01},
        {"triggerRatio": True},
        {"maxPreservedMessages": 0},
        {"retention": {"maxTimelines": 0}},
        {"retention": {"unknown": 1}},
        {"summarizer": {"apiKey": "secret"}},
    ],
)
def test_ill_typed_initialization_options_are_refused(options: Any):
    with pytest.raises(ValidationError):
        InitializeParams.from_wire({"initializationOptions": options})


def test_field_docs_are_read_from_the_source_with_those_of_bases():
    docs = field_docs(SessionInfo)
    assert docs["workspace"] == "URI."
    assert field_docs(GetHistoryParams)["cursor"] == "`nextCursor` of the page before."
    assert field_docs(BaseModel) == {}
