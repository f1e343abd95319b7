"""JSON Schema (2020-12) of every model: one bundle, whose `$defs` are the shapes and whose index names them by method.

One bundle rather than a file per method: most shapes are shared, and one document needs no resolver that reads files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from timeleap_protocol.base import Choice, Model
from timeleap_protocol.generate.docs import field_docs
from timeleap_protocol.limits import PROTOCOL_VERSION
from timeleap_protocol.methods import METHODS, Method
from timeleap_protocol.shapes import ErrorObject

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


class _Generator(GenerateJsonSchema):
    """Leaves out the default of fields that are absent when unset: absent is not null."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


@cache
def definitions(ref_template: str = "#/$defs/{model}") -> dict[str, Schema]:
    """The schemas of all shapes, by class name, sorted; they refer to each other by `ref_template`. Not to be changed."""
    models = _models()
    _, bundle = models_json_schema(
        [(model, "validation") for model in models],
        by_alias=True,
        ref_template=ref_template,
        schema_generator=_Generator,
    )
    found: dict[str, Schema] = bundle["$defs"]
    known = _classes()
    return {name: _finish(schema, known[name]) for name, schema in sorted(found.items())}


def bundle(rows: Iterable[Method] | None = None) -> Schema:
    """The document that is published as `timeleap.schema.json`: its root describes any message of the protocol.

    Args:
        rows: Only the messages of these methods, and errors; else of all.
    """
    chosen = list(METHODS.values() if rows is None else rows)
    messages = {name: schema for row in chosen for name, schema in _messages(row).items()} | _errors()
    shapes = definitions()
    kept = shapes if rows is None else {name: shapes[name] for name in sorted(_reachable(messages, shapes))}
    return {
        "$schema": DIALECT,
        "$comment": "Generated from timeleap_protocol.methods by timeleap_protocol.generate. Do not edit.",
        "$id": f"urn:timeleap:protocol:{PROTOCOL_VERSION}",
        "title": "Timeleap wire protocol",
        "description": "Any message. `methods` says which of the `$defs` are the params and the result of each method.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in messages],
        "methods": {row.name: _index(row) for row in chosen},
        "$defs": {**messages, **kept},
    }


def _messages(row: Method) -> dict[str, Schema]:
    """The messages of a method, by name. Each is an object of its own, so that generators make a class of it."""
    name = row.flat_name[0].upper() + row.flat_name[1:]
    params = {"$ref": f"#/$defs/{row.params_model.__name__}"}
    needed = ["params"] if definitions()[row.params_model.__name__].get("required") else []
    if row.kind in ("notification", "serverNotification"):
        members = {"method": {"const": row.name}, "params": params}
        return {f"{name}Notification": _message(row.summary, members, ["method", *needed])}
    members = {"id": _ID, "method": {"const": row.name}, "params": params}
    asked = _message(row.summary, members, ["id", "method", *needed])
    if row.result_model is not None:
        result = {"$ref": f"#/$defs/{row.result_model.__name__}"}
        answer = _message(f"The answer to `{row.name}`.", {"id": _ID, "result": result}, ["id", "result"])
    else:
        answer = _message(f"The answer to `{row.name}`: null.", {"id": _ID}, ["id"], {"result": {"type": "null"}})
    with_records = {f"{name}WithRecordsResponse": _with_records()} if row.name == "context/getHistory" else {}
    return {f"{name}Request": asked, f"{name}Response": answer, **with_records}


def _with_records() -> Schema:
    """The answer to `context/getHistory` with `include`. A pattern, as null is: clients that do not ask for records are
    generated as if there were none."""
    entries = {
        "type": "array",
        "items": {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in ("HistoryMessage", "LogRecord")]},
    }
    members = {"messages": entries, "nextCursor": {"type": "string"}}
    result = {"type": "object", "properties": members, "additionalProperties": False, "required": ["messages"]}
    summary = "The answer to `context/getHistory` with `include`: records stand among the messages."
    return _message(summary, {"id": _ID}, ["id"], {"result": result})


def _errors() -> dict[str, Schema]:
    error = {"error": {"$ref": f"#/$defs/{ErrorObject.__name__}"}}
    return {
        "ErrorResponse": _message("A request failed.", {"id": _ID, **error}, ["id", "error"]),
        "UnreadableResponse": _message(
            "What was sent cannot be read, so `id` is null.", error, ["error"], {"id": {"type": "null"}}
        ),
    }


_ID: Schema = {"type": ["string", "integer"]}


def _message(
    description: str, members: dict[str, Schema], required: list[str], nulls: dict[str, Schema] | None = None
) -> Schema:
    """An envelope.

    Args:
        description: What it is.
        members: What it has beside `jsonrpc`.
        required: Which of them have to be there.
        nulls: Members that are always there, mostly null. They are patterns, since generators make one class of all
            messages: a member that may be null there would be sent as null with every message.
    """
    schema: Schema = {
        "description": description,
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}, **members},
        "additionalProperties": False,
        "required": ["jsonrpc", *required],
    }
    if nulls:
        schema["patternProperties"] = {f"^{name}$": member for name, member in nulls.items()}
        schema["minProperties"] = len(required) + 1 + len(nulls)
    return schema


def _reachable(messages: Schema, shapes: dict[str, Schema]) -> set[str]:
    """The names of the shapes that `messages` refer to, and those these refer to."""
    found: set[str] = set()
    waiting = list(_references(messages))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(shapes[name])
    return found


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "$ref":
                yield value.rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _index(row: Method) -> Schema:
    entry: Schema = {"kind": row.kind, "params": {"$ref": f"#/$defs/{row.params_model.__name__}"}}
    if row.result_model is not None:
        entry["result"] = {"$ref": f"#/$defs/{row.result_model.__name__}"}
    return entry


def _models() -> list[type[Model]]:
    """The models the table names and those of errors, without repeats, built."""
    named = chain([ErrorObject], *((row.params_model, row.result_model) for row in METHODS.values()))
    found = list(dict.fromkeys(model for model in named if model is not None))
    for model in found:
        model.model_rebuild()
    return found


def _classes() -> dict[str, type[BaseModel]]:
    """All our model classes by name; a name used twice would be two shapes under one name in every language."""
    found: dict[str, type[BaseModel]] = {}
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            ours = model.__module__.startswith("timeleap_protocol.") and "[" not in model.__name__
            if ours and found.setdefault(model.__name__, model) is not model:
                raise ValueError(f"two models are called {model.__name__}")
    return found


def _finish(schema: Schema, model: type[BaseModel]) -> Schema:
    """Put in what pydantic does not know (field docs, choices) and take out what says nothing (derived titles)."""
    docs = field_docs(model)
    for name, field in model.model_fields.items():
        described = schema.get("properties", {}).get(field.alias or name)
        if described is not None:
            described.pop("title", None)
            if name in docs:
                described["description"] = docs[name]
    if issubclass(model, Choice):
        schema["oneOf"] = _alternatives(model)
    return schema


def _alternatives(model: type[Choice]) -> list[Schema]:
    groups = [[{"required": [name]} for name in group] for group in model.wire_alternatives()]
    branches: list[Schema] = [group[0] if len(group) == 1 else {"anyOf": group} for group in groups]
    if not model.must_choose:
        branches.append({"not": {"anyOf": list(chain.from_iterable(groups))}})
    return branches
