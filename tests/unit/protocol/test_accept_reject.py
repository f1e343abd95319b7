"""For every field of every params model: values at its edges are taken, wrong ones are refused by name.

The cases are made from the published JSON Schema, the verdicts come from the models: so the two cannot drift apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from tests.unit.protocol.goldens import goldens

from timeleap_protocol.base import Choice, Params, WireModel
from timeleap_protocol.errors import validation_errors
from timeleap_protocol.generate.schema import bundle
from timeleap_protocol.limits import SESSION_ID_PATTERN
from timeleap_protocol.methods import METHODS, REQUESTS

Case = tuple[str, str, Any]

STRICT = [row for row in REQUESTS.values() if issubclass(row.params_model, Params)]


@cache
def shapes() -> dict[str, Any]:
    return bundle()["$defs"]


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": shapes()})


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return shapes()[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


@cache
def shown_params() -> dict[str, list[dict[str, Any]]]:
    """By method: the params of the goldens that are no refusals."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for golden in goldens():
        if "error" not in golden.body:
            found[golden.method].append(golden.body["params"])
    return found


def base_params(method: str, field: str) -> dict[str, Any]:
    """Params from a golden that has the field, or into which it can be put; general params left out."""
    found = shown_params()[method]
    model = METHODS[method].params_model
    with_field = [params for params in found if field in params]
    if with_field:
        return dict(with_field[0])
    params = dict(found[0])
    if issubclass(model, Choice):
        grouped = [group for group in model.wire_alternatives() if field in group]
        others = [name for group in model.wire_alternatives() if group not in grouped for name in group]
        params = {name: value for name, value in params.items() if not grouped or name not in others}
    return params


def good_values(schema: dict[str, Any]) -> Iterator[Any]:
    schema = resolved(schema)
    if "anyOf" in schema:
        for branch in schema["anyOf"]:
            yield from good_values(branch)
    elif "const" in schema:
        yield schema["const"]
    elif "enum" in schema:
        yield from schema["enum"]
    elif schema["type"] == "integer":
        yield from (schema["minimum"], schema["maximum"], float(schema["minimum"]))
        if schema["maximum"] > 1e15:
            yield 1e15
    elif schema["type"] == "number":
        yield from (1, 0.5, 1e15)
    elif schema["type"] == "string":
        yield from ("a" * max(1, schema.get("minLength", 1)), "ü\u2028" if "pattern" not in schema else "a.b")
        if "maxLength" in schema:
            yield "x" * schema["maxLength"]
    elif schema["type"] == "boolean":
        yield from (True, False)


def bad_values(schema: dict[str, Any]) -> Iterator[Any]:
    schema = resolved(schema)
    if {"type": "null"} in schema.get("anyOf", ()):
        (schema,) = (branch for branch in schema["anyOf"] if branch != {"type": "null"})
    if "anyOf" in schema:
        yield from (True, 1.5, [], {})
        return
    kind = schema["type"]
    if kind == "number":
        yield from ("3", True, [], {}, schema["exclusiveMinimum"])
        return
    yield from (value for value in ("3", "true", 1.5, [], ["a"], {"a": 1}) if not _is_of(value, kind, schema))
    if kind in ("string", "object", "array"):
        yield from (0, 7, True, False)
    if kind == "boolean":
        yield from (0, 1, 1.0)
    if kind == "integer":
        yield from (True, False, schema["minimum"] - 1, schema["maximum"] + 1, float("inf"), 10**400)
    if kind == "string" and schema.get("minLength"):
        yield ""
    if "maxLength" in schema:
        yield "x" * (schema["maxLength"] + 1)
    if "enum" in schema or "const" in schema:
        yield (schema.get("enum") or [schema["const"]])[0].upper()


def _is_of(value: Any, kind: str, schema: dict[str, Any]) -> bool:
    python = {"string": str, "object": dict, "array": list}
    if kind not in python or {"enum", "const"} & schema.keys() or schema.get("additionalProperties") is False:
        return False
    if kind == "array" and resolved(schema["items"]).get("type") != "string":
        return False
    return isinstance(value, python[kind])


def cases(values: Any) -> Any:
    found: list[Case] = [
        (row.name, field, value)
        for row in STRICT
        for field, schema in shapes()[row.params_model.__name__]["properties"].items()
        for value in values(schema)
    ]
    return pytest.mark.parametrize(
        ("method", "field", "value"), found, ids=[f"{m}-{f}-{str(v)[:20]!r}" for m, f, v in found]
    )


@cases(good_values)
def test_good_values_are_taken(method: str, field: str, value: Any):
    params = {**base_params(method, field), field: value}
    model = METHODS[method].params_model
    assert model.from_wire(params).to_wire()[field] == value
    validator(model.__name__).validate(params)


@cases(bad_values)
def test_bad_values_are_refused_by_the_name_of_their_field(method: str, field: str, value: Any):
    params = {**base_params(method, field), field: value}
    model = METHODS[method].params_model
    with pytest.raises(ValidationError) as refusal:
        model.from_wire(params)
    assert field in [error["loc"][0] for error in validation_errors(refusal.value) if error["loc"]]
    if value != float("inf"):  # not JSON: it cannot arrive
        assert not validator(model.__name__).is_valid(params)


@pytest.mark.parametrize("row", STRICT, ids=lambda row: row.name)
def test_null_is_absent_for_every_optional_param_and_a_value_for_no_required_one(row: Any):
    model: type[WireModel] = row.params_model
    params = base_params(row.name, "")
    schema = shapes()[model.__name__]
    optional = {name: None for name in schema["properties"] if name not in schema.get("required", [])}
    assert model.from_wire({**optional, **params}) == model.from_wire(params)
    for name in optional:
        assert not validator(model.__name__).is_valid({**params, name: None})
    for name in schema.get("required", []):
        if {"type": "null"} not in schema["properties"][name].get("anyOf", ()):
            with pytest.raises(ValidationError):
                model.from_wire({**base_params(row.name, name), name: None})


def test_an_unknown_field_is_refused_even_if_it_is_null():
    with pytest.raises(ValidationError, match="mysterious"):
        METHODS["session/list"].params_model.from_wire({"mysterious": None})


def sent_shapes() -> set[str]:
    """The shapes that stand in what a client sends."""
    found: set[str] = set()
    waiting = [row.params_model.__name__ for row in METHODS.values() if row.kind in ("request", "notification")]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(shapes()[name])
    return found


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            yield from [value.rpartition("/")[2]] if name == "$ref" else references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def test_nothing_that_is_sent_is_declared_optional_and_nullable():
    def takes_null(schema: dict[str, Any]) -> bool:
        return schema.get("type") == "null" or any(map(takes_null, schema.get("anyOf", ())))

    found = [
        f"{name}.{member}"
        for name in sorted(sent_shapes())
        for member, schema in shapes()[name].get("properties", {}).items()
        if takes_null(schema) and member not in shapes()[name].get("required", ())
    ]
    assert found == []


@pytest.mark.parametrize("row", STRICT, ids=lambda row: row.name)
def test_unknown_fields_are_refused_by_name(row: Any):
    params = {**base_params(row.name, ""), "mysterious": 1}
    with pytest.raises(ValidationError) as refusal:
        row.params_model.from_wire(params)
    assert validation_errors(refusal.value) == [
        {"loc": ["mysterious"], "msg": "Unknown field 'mysterious'", "type": "extra_forbidden"}
    ]
    assert not validator(row.params_model.__name__).is_valid(params)


@pytest.mark.parametrize("row", STRICT, ids=lambda row: row.name)
def test_the_general_params_are_taken_by_every_method(row: Any):
    params = {**base_params(row.name, ""), "_meta": {"trace": "x"}, "workDoneToken": "t", "partialResultToken": 4}
    assert row.params_model.from_wire(params).to_wire().items() >= params.items()


@pytest.mark.parametrize("row", STRICT, ids=lambda row: row.name)
def test_python_names_are_unknown_on_the_wire(row: Any):
    model: type[WireModel] = row.params_model
    for name, field in model.model_fields.items():
        if field.alias != name:
            with pytest.raises(ValidationError):
                model.from_wire({**base_params(row.name, ""), name: "x"})


REQUIRED = [(row.name, field) for row in STRICT for field in shapes()[row.params_model.__name__].get("required", [])]


@pytest.mark.parametrize(("method", "field"), REQUIRED)
def test_a_missing_field_is_named(method: str, field: str):
    params = base_params(method, field)
    del params[field]
    with pytest.raises(ValidationError) as refusal:
        METHODS[method].params_model.from_wire(params)
    entry = {"loc": [field], "msg": f"Field '{field}' is required", "type": "missing"}
    assert entry in validation_errors(refusal.value)


CHOICES = [row for row in STRICT if issubclass(row.params_model, Choice)]


@pytest.mark.parametrize("row", CHOICES, ids=lambda row: row.name)
def test_fields_that_exclude_each_other(row: Any):
    model: type[Choice] = row.params_model  # type: ignore[assignment]
    groups = model.wire_alternatives()
    samples = {name: next(sample(name, row.name)) for group in groups for name in group}
    rest = {name: value for name, value in base_params(row.name, "").items() if name not in samples}
    schema = validator(model.__name__)
    for group in groups:
        for name in group:
            params = {**rest, name: samples[name]}
            model.from_wire(params)
            schema.validate(params)
            for other in (other for group_ in groups if group_ is not group for other in group_):
                both = {**params, other: samples[other]}
                with pytest.raises(ValidationError, match="one of"):
                    model.from_wire(both)
                assert not schema.is_valid(both)
    assert schema.is_valid(rest) is not model.must_choose
    if model.must_choose:
        with pytest.raises(ValidationError, match="exactly one of"):
            model.from_wire(rest)
    else:
        model.from_wire(rest)


def sample(field: str, method: str) -> Iterator[Any]:
    """A value of the field from a golden, or one of its schema."""
    found = shown_params()[method]
    yield from (params[field] for params in found if field in params)
    yield from good_values(shapes()[METHODS[method].params_model.__name__]["properties"][field])


@pytest.mark.parametrize("field", ["checkpointUid", "timelineId"])
def test_a_side_of_a_diff_is_judged_like_params(field: str):
    model = METHODS["context/diff"].params_model
    good = {"sessionId": "a", "from": {field: "x"}, "to": {}}
    assert model.from_wire(good).to_wire() == good
    sides: tuple[Any, ...] = (
        {field: 1},
        {"strange": 1},
        {"checkpointUid": "x", "timelineId": "y"},
        None,
        "x",
        [],
    )
    nulls = {"checkpointUid": None, "timelineId": None}
    assert model.from_wire({**good, "from": {**nulls, field: "x"}, "to": nulls}).to_wire() == good
    for side in sides:
        with pytest.raises(ValidationError):
            model.from_wire({**good, "from": side})


@pytest.mark.parametrize("good", ["a", "0", "A-b_c.d", "a" * 64, "a_", "a-"])
def test_the_published_pattern_takes_session_ids(good: str):
    assert Draft202012Validator({"pattern": SESSION_ID_PATTERN}).is_valid(good)


@pytest.mark.parametrize("bad", ["", "-a", ".a", "_a", "a.", "a/b", "../x", "a" * 65, "ü", "a b"])
def test_the_published_pattern_refuses_other_session_ids(bad: str):
    assert not Draft202012Validator({"pattern": SESSION_ID_PATTERN}).is_valid(bad)
    # Refused by the server as `invalidSessionId`, so the models let it pass.
    assert METHODS["session/getState"].params_model.from_wire({"sessionId": bad}).to_wire() == {"sessionId": bad}
