"""What reads params says of each what its model says: takes the same, and makes the same of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.protocol.goldens import goldens
from tests.unit.protocol.test_accept_reject import bad_values, base_params, good_values, shapes

from timeleap_protocol.base import WireModel
from timeleap_protocol.errors import InvalidParamsError, validation_errors
from timeleap_protocol.generate.structs import READ
from timeleap_protocol.method import IGNORED, Method
from timeleap_protocol.methods import METHODS, REQUESTS
from timeleap_protocol.params import LenientStruct

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3.0,
    0.5,
    2**53,
    10**30,
    "",
    "x",
    "ü\u2028",
    "a\0b",
    [],
    ["a"],
    [7],
    {},
    {"a": None},
)
"""A value of each kind, and at the edges of what fields take."""
OPTIONS = "initializationOptions"


def read_as_model(row: Method, params: Any) -> Any:
    """The params as the model has them, by the names of the fields that a struct has; or what is wrong with them."""
    model = row.params_model
    assert issubclass(model, WireModel)
    try:
        found = model.from_wire(params)
    except ValidationError as error:
        return validation_errors(error)
    return fields_of(found)


def fields_of(value: Any) -> Any:
    if isinstance(value, WireModel):
        return {name: fields_of(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, LenientStruct):
        return {name: fields_of(getattr(value, name)) for name in value.__struct_fields__}
    return value


def read_as_struct(row: Method, params: Any) -> Any:
    try:
        return fields_of(row.read_params(params))
    except InvalidParamsError as error:
        return error.errors


def assert_same(row: Method, params: Any) -> None:
    expected = read_as_model(row, params)
    if isinstance(expected, dict):
        expected.pop("initialization_options", None)  # the server's settings judge it
    found = read_as_struct(row, params)
    assert found == expected
    assert repr(found) == repr(expected)  # 1 is no 1.0, and the order of members counts


def test_every_model_that_a_server_reads_has_a_struct_with_its_fields() -> None:
    for row in READ:
        model, struct = row.params_model, row.params_struct
        assert issubclass(model, WireModel)
        names = {name: field.alias for name, field in model.model_fields.items() if field.alias != OPTIONS}
        assert dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)) == names
        optional = {name for name, field in model.model_fields.items() if not field.is_required() and name in names}
        assert struct.optional_fields() == optional


@pytest.mark.parametrize("golden", [golden for golden in goldens() if golden.method in REQUESTS], ids=str)
def test_goldens_are_read_as_by_the_model(golden: Any) -> None:
    row, params = REQUESTS[golden.method], golden.body.get("params", {})
    if row in READ:
        assert_same(row, {name: value for name, value in params.items() if name != OPTIONS})


@pytest.mark.parametrize("row", READ, ids=lambda row: row.name)
def test_a_value_of_any_kind_is_judged_as_by_the_model(row: Method) -> None:
    good = (
        base_params(row.name, "") if row in REQUESTS.values() else {"sessionId": "s", "systemPrompt": "", "prompt": {}}
    )
    good.pop(OPTIONS, None)
    for name, schema in shapes()[row.params_model.__name__]["properties"].items():
        if name != OPTIONS:
            edges = [*good_values(schema), *bad_values(schema)] if row.name != "initialize" and "type" in schema else []
            for value in (*VALUES, *edges):
                assert_same(row, {**good, name: value})
    for name in good:
        assert_same(row, {other: value for other, value in good.items() if other != name})
    assert_same(row, {**good, "mysterious": 1})
    assert_same(row, {**good, "mysterious": None})


JSON = st.recursive(
    st.sampled_from(VALUES) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_any_params_are_judged_as_by_the_model(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(READ))
    properties = {
        name: schema for name, schema in shapes()[row.params_model.__name__]["properties"].items() if name != OPTIONS
    }
    required = shapes()[row.params_model.__name__].get("required", [])
    likely = {
        name: st.sampled_from([*good_values(schema)])
        if _has_samples(schema)
        else st.sampled_from([{}, {"role": "user"}])
        for name, schema in properties.items()
    }
    params = data.draw(
        st.fixed_dictionaries(
            {name: likely[name] for name in required},
            optional={name: strategy | JSON for name, strategy in likely.items() if name not in required},
        )
    )
    assert_same(row, params)


def _has_samples(schema: dict[str, Any]) -> bool:
    return "enum" in schema or schema.get("type") in ("integer", "number", "string", "boolean")


@pytest.mark.parametrize("capabilities", [None, 7, {}, {"experimental": 1}, {"experimental": {"timeleap": []}, "textDocument": {}}, {"experimental": {"timeleap": {"protocolVersion": 1.0, "summarize": "yes", "approvals": True, "x": 1}}}])  # fmt: skip
@pytest.mark.parametrize("trace", [None, "off", "loud", 3])
@pytest.mark.parametrize("client", [None, {}, {"name": "a"}, {"name": "a", "version": 3, "x": {}}, {"name": 1}])
def test_what_a_client_says_of_itself_is_read_as_leniently(capabilities: Any, trace: Any, client: Any) -> None:
    params = {"capabilities": capabilities, "trace": trace, "clientInfo": client, "processId": None, "rootUri": None}
    assert_same(METHODS["initialize"], params)


@given(JSON, st.booleans())
@example({"b": 1.0, "a": [None, {"é\u2028": 10**30}]}, True)
@example("\x7f", False)
@example({"": 1e16, "a": [1e-05, -0.0]}, False)
@example({"z": '\x1f/\\"', "Z": {"a": -1, "A": True}}, False)
def test_a_request_has_the_fingerprint_of_earlier_releases_that_its_model_gives_it(value: Any, null: bool) -> None:
    """It is kept in sessions: a repeat may come to a later release."""
    for method, params in (
        ("context/appendMessage", {"message": {"role": "user", "content": value}, "requestId": "1", "_meta": {"a": 1}}),
        ("session/setWorkspace", {"workspace": None if null else "w", "expectedHead": "h"}),
        ("context/revertTo", {"checkpointId": 3, "heal": null, "dryRun": None}),
    ):
        row = METHODS[method]
        model = row.params_model.from_wire({"sessionId": "s", **params})
        fields = model.model_dump(mode="json", by_alias=True, exclude={*IGNORED, "session_id"}, exclude_none=True)
        text = json.dumps([method, fields], sort_keys=True, separators=(",", ":"))
        expected = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        assert row.earlier_fingerprints(row.read_params({"sessionId": "s", **params})) == (expected,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "5d7877d97455f107"),
        ({"b": 1.5, "a": [None, {"é\u2028": 10**15}]}, "63d5415653954a92"),
        ("\ud800", "4043472642bf08fe"),
        (10**30, "6db74bf812a028c9"),
    ],
)
def test_a_request_has_the_same_fingerprint_in_every_process_and_release(value: Any, expected: str) -> None:
    row = METHODS["context/appendMessage"]
    message = {"role": "user", "content": value}
    params = {"sessionId": "s", "requestId": "1", "expectedHead": "h", "_meta": {"a": 1}, "message": message}
    assert row.fingerprint(row.read_params(params)) == expected
    turned = {"message": {"content": value, "role": "user"}, "sessionId": "another"}
    assert row.fingerprint(row.read_params(turned)) == expected
