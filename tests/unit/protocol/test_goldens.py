"""Goldens and table are closed both ways; models and JSON Schema agree with every golden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, RootModel, ValidationError
from tests.unit.protocol.goldens import ROOT, Golden, goldens, messages

from timeleap_protocol.base import GENERAL_PARAMS, Model
from timeleap_protocol.errors import ERRORS, ErrorKind, validation_errors
from timeleap_protocol.generate.schema import bundle
from timeleap_protocol.methods import METHODS, SERVER_NOTIFICATIONS
from timeleap_protocol.notifications import ContextDidChange, ProgressParams, SessionDidChange
from timeleap_protocol.shapes import ErrorObject

SUCCESSES = [golden for golden in goldens() if "error" not in golden.body]
FAILURES = [golden for golden in goldens() if "error" in golden.body]
REFUSED = [golden for golden in FAILURES if golden.error_kind == ErrorKind.INVALID_PARAMS]

# What no golden of a method can show: the message has no method, or none of the table.
WITHOUT_METHOD = {ErrorKind.PARSE_ERROR, ErrorKind.METHOD_NOT_FOUND}
# What any request can meet, whatever its row says.
OF_THE_EDGE = {ErrorKind.NOT_INITIALIZED, ErrorKind.INVALID_REQUEST}


def cases(chosen: list[Golden]) -> Any:
    return pytest.mark.parametrize("golden", chosen, ids=[golden.id for golden in chosen])


def canonical(value: Any) -> str:
    """JSON text that tells 1 from 1.0 and from true, whatever the order of members."""
    return json.dumps(value, sort_keys=True)


@cache
def schema_of(name: str) -> Draft202012Validator:
    document = dict(bundle())
    return Draft202012Validator({"$schema": document["$schema"], "$ref": f"#/$defs/{name}", "$defs": document["$defs"]})


def assert_exact(model: type[Model], value: Any) -> None:
    """`value` is of the shape, comes out as it went in, and has no member the shape does not know."""
    parsed = model.from_wire(value)
    assert canonical(parsed.to_wire()) == canonical(value)
    schema_of(model.__name__).validate(value)


def test_every_method_has_a_golden_of_success():
    shown = {golden.method for golden in SUCCESSES}
    assert shown == METHODS.keys()


def test_every_golden_stands_in_the_folder_of_its_method():
    for golden in goldens():
        assert golden.path.parent.name == golden.method.replace("/", ".")


def test_nothing_but_goldens_stands_among_the_goldens():
    assert {path for path in ROOT.rglob("*") if path.is_file()} == {golden.path for golden in goldens()}


def test_every_error_that_a_method_can_answer_has_a_golden():
    assert {golden.error_kind for golden in FAILURES} == set(ErrorKind) - WITHOUT_METHOD


@cases(list(goldens()))
def test_a_golden_has_a_reply_exactly_where_its_method_has_one(golden: Golden):
    row = METHODS[golden.method]
    replies = [key for key in ("result", "error") if key in golden.body]
    assert len(replies) == (1 if row.kind in ("request", "clientRequest") else 0)
    assert golden.body.keys() <= {"method", "params", "result", "error", "notifications"}


@cases([golden for golden in goldens() if golden not in REFUSED])
def test_params_round_trip(golden: Golden):
    if golden.error_kind == ErrorKind.INVALID_SESSION_ID:
        # The form of ids is the server's to judge: the model takes it, the published schema does not.
        assert not schema_of("SessionOpenParams").is_valid(golden.body["params"])
        return
    assert_exact(METHODS[golden.method].params_model, golden.body["params"])


@cases(SUCCESSES)
def test_results_round_trip(golden: Golden):
    model = METHODS[golden.method].result_model
    if model is None:
        assert golden.body.get("result") is None
    elif "include" in golden.body["params"]:
        assert model.from_wire(golden.body["result"]).to_wire() == golden.body["result"]
        reply = {"jsonrpc": "2.0", "id": 1, "result": golden.body["result"]}
        schema_of("ContextGetHistoryWithRecordsResponse").validate(reply)
    else:
        assert_exact(model, golden.body["result"])


@pytest.mark.parametrize(("where", "method", "params"), messages())
def test_notifications_are_in_the_table_and_round_trip(where: str, method: str, params: Any):
    del where
    if method in SERVER_NOTIFICATIONS:
        assert_exact(SERVER_NOTIFICATIONS[method].params_model, params)


@cases(FAILURES)
def test_errors_are_those_of_the_table(golden: Golden):
    error = golden.body["error"]
    spec = ERRORS[ErrorKind(error["data"]["kind"])]
    assert_exact(ErrorObject, error)
    assert (error["code"], error["data"]["retryable"]) == (spec.code, spec.retryable)
    assert error["data"].keys() - {"kind", "retryable", "offset"} <= spec.members.keys() | {"path"}
    assert spec.kind in {*METHODS[golden.method].all_errors, *OF_THE_EDGE}


@cases(REFUSED)
def test_refused_params_are_refused_in_these_words(golden: Golden):
    model = METHODS[golden.method].params_model
    with pytest.raises(ValidationError) as refusal:
        model.from_wire(golden.body["params"])
    assert validation_errors(refusal.value) == golden.body["error"]["data"]["errors"]
    assert not schema_of(model.__name__).is_valid(golden.body["params"])


def _parts(value: Any) -> Iterator[BaseModel]:
    """A parsed value and every model within it."""
    if isinstance(value, RootModel):
        yield from _parts(value.root)
    elif isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from _parts(getattr(value, name))
    elif isinstance(value, list):
        for element in value:
            yield from _parts(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from _parts(element)


def _all_parts() -> Iterator[BaseModel]:
    for golden in goldens():
        row = METHODS[golden.method]
        for sent in golden.body.get("notifications", []):
            yield from _parts(METHODS[sent["method"]].params_model.from_wire(sent["params"]))
        if golden not in REFUSED:
            yield from _parts(row.params_model.from_wire(golden.body["params"]))
        if row.result_model and "result" in golden.body:
            yield from _parts(row.result_model.from_wire(golden.body["result"]))
        if "error" in golden.body:
            yield from _parts(ErrorObject.from_wire(golden.body["error"]))


# Shapes whose further members depend on their kind.
OPEN = {"StateWarning", "ErrorData", "InitializationOptions"}


def test_goldens_have_no_member_that_the_shapes_do_not_know():
    strangers = {(type(part).__name__, name) for part in _all_parts() for name in part.model_extra or {}}
    assert {(shape, name) for shape, name in strangers if shape not in OPEN} == set()


def test_every_field_of_every_shape_is_shown_by_a_golden():
    shown: dict[type, set[str]] = {}
    for part in _all_parts():
        for cls in type(part).__mro__:
            shown.setdefault(cls, set()).update(part.model_fields_set)
    missing = {
        f"{cls.__name__}.{name}"
        for cls, names in shown.items()
        if issubclass(cls, BaseModel)
        for name, field in cls.model_fields.items()
        if name not in names and name in cls.__annotations__ and (field.alias or name) not in GENERAL_PARAMS
    }
    assert missing == set()


@pytest.mark.parametrize("union", [ContextDidChange, SessionDidChange], ids=lambda union: union.__name__)
def test_every_kind_of_change_has_a_golden(union: type[Model]):
    name = union.__name__
    kinds = set(bundle()["$defs"][name]["discriminator"]["mapping"])
    (method,) = (row.name for row in METHODS.values() if row.params_model is union)
    assert {params["kind"] for _, sent, params in messages() if sent == method} == kinds
    assert {golden.body["params"]["kind"] for golden in goldens() if golden.method == method} == kinds


def test_progress_is_shown_from_begin_to_end():
    kinds = {params["value"]["kind"] for _, sent, params in messages() if sent == "$/progress"}
    assert kinds == {"begin", "report", "end"}
    assert METHODS["$/progress"].params_model is ProgressParams
