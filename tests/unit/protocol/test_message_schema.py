"""The root of the published JSON Schema describes every message of the protocol, and parts of it can be had."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from tests.support.mostly_long import mostly_long
from tests.unit.protocol.goldens import Golden, goldens

from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.generate import openrpc_document
from timeleap_protocol.generate.schema import bundle
from timeleap_protocol.methods import METHODS, Method


def any_of(validator: Any, branches: list[Any], instance: Any, _: Any) -> Iterator[ValidationError]:
    """What the library does, but for its message: it gathers all that is wrong with each of more than a hundred."""
    if not any(validator.evolve(schema=branch).is_valid(instance) for branch in branches):
        yield ValidationError(f"{instance!r} is none of them")


Validator = extend(Draft202012Validator, {"anyOf": any_of})


@cache
def whole() -> dict[str, Any]:
    return bundle()


@cache
def root() -> Any:
    Validator.check_schema(whole())
    return Validator(whole())


def messages_of(golden: Golden) -> list[dict[str, Any]]:
    """The messages a golden shows, in their envelopes."""
    row, body = METHODS[golden.method], golden.body
    asks = row.kind in ("request", "clientRequest")
    sent = {"jsonrpc": "2.0", "method": golden.method, "params": body["params"], **({"id": 7} if asks else {})}
    wrong = golden.error_kind in (ErrorKind.INVALID_PARAMS, ErrorKind.INVALID_SESSION_ID)
    replies = [{"jsonrpc": "2.0", "id": "a", name: body[name]} for name in ("result", "error") if name in body]
    told = [{"jsonrpc": "2.0", **one} for one in body.get("notifications", ())]
    return ([] if wrong else [sent]) + replies + told


@pytest.mark.parametrize("golden", mostly_long(goldens(), every=3), ids=[golden.id for golden in goldens()])
def test_the_root_describes_every_message(golden: Golden):
    for message in messages_of(golden):
        root().validate(message)


@pytest.mark.parametrize(
    "message",
    [
        None,
        1,
        [],
        {},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "1.0", "id": 1, "method": "session/open", "params": {}},
        {"id": 1, "method": "session/open", "params": {}},
        {"jsonrpc": "2.0", "method": "session/open", "params": {}},
        {"jsonrpc": "2.0", "id": None, "method": "session/open", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/open", "params": {"sesionId": "a"}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/open", "params": [1]},
        {"jsonrpc": "2.0", "id": 1, "method": "session/open", "extra": 1},
        {"jsonrpc": "2.0", "id": 1, "method": "session/setTitle"},
        {"jsonrpc": "2.0", "id": 1, "method": "initialized"},
        {"jsonrpc": "2.0", "id": 1, "result": {"head": "x"}, "error": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1}},
        {"jsonrpc": "2.0", "result": {}},
    ],
)
def test_the_root_describes_nothing_else(message: Any):
    assert not root().is_valid(message)


def test_answers_without_a_body_and_without_an_id():
    error = {"code": -32700, "message": "no JSON", "data": {"kind": "parseError", "retryable": False}}
    root().validate({"jsonrpc": "2.0", "id": 1, "result": None})
    root().validate({"jsonrpc": "2.0", "id": None, "error": error})
    assert not root().is_valid({"jsonrpc": "2.0", "error": error})


def test_of_some_methods_there_are_their_messages_and_what_these_need():
    part = bundle([METHODS["context/checkpoint"], METHODS["session/warning"]])
    Draft202012Validator.check_schema(part)
    assert part["methods"].keys() == {"context/checkpoint", "session/warning"}
    assert part["$defs"].keys() == {
        *("ContextCheckpointRequest", "ContextCheckpointResponse", "SessionWarningNotification"),
        *("ErrorResponse", "UnreadableResponse", "ErrorObject", "ErrorData", "FieldError", "Owner"),
        *("CheckpointParams", "CheckpointResult", "Checkpoint", "CheckpointFiles", "FilesProblem", "SessionWarning"),
        *("SpanSummary", "SummaryCall"),
    }
    validator = Draft202012Validator(part)
    good = {"jsonrpc": "2.0", "id": 1, "method": "context/checkpoint", "params": {"sessionId": "a"}}
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "method": "context/clear"})


@pytest.mark.parametrize("row", METHODS.values(), ids=lambda row: row.name)
def test_a_part_of_every_method_stands_by_itself(row: Method):
    part = bundle([row])
    same = {
        name for name, shape in part["$defs"].items() if shape == root().schema["$defs"].get(name)
    }  # looked at there
    Validator.check_schema({**part, "$defs": {name: part["$defs"][name] for name in part["$defs"].keys() - same}})
    validator = Validator(part)
    for golden in goldens():
        if golden.method == row.name:
            for message in messages_of(golden):
                if message.get("method", row.name) == row.name:
                    validator.validate(message)


def test_flat_names_are_identifiers_and_tell_the_method():
    document = openrpc_document(flat_names=True)
    entries = [*document["methods"], *document["x-serverToClient"]]
    names = [entry["name"] for entry in entries]
    assert len({name.casefold() for name in names}) == len(names) == len(METHODS)
    assert all(name.isidentifier() for name in names)
    assert {entry["x-method"] for entry in entries} == METHODS.keys()
    assert {"contextAppendMessage", "rpcDiscover", "cancelRequest", "progress", "initialize"} < set(names)
    for entry in entries:
        assert all(param["name"].isidentifier() for param in entry["params"])
        assert entry.get("result", {"name": "x"})["name"].isidentifier()
    assert all(name.isidentifier() for group in document["components"].values() for name in group)
    assert [entry["name"] for entry in openrpc_document()["methods"]] == [
        entry["x-method"] for entry in document["methods"]
    ]
