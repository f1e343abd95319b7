"""The OpenRPC document: what `rpc.discover` answers and `timeleap schema` prints."""

from __future__ import annotations

from typing import Any

from timeleap_protocol.base import GENERAL_PARAMS
from timeleap_protocol.errors import ERRORS, ErrorSpec
from timeleap_protocol.generate.schema import Schema, definitions
from timeleap_protocol.limits import PROTOCOL_VERSION
from timeleap_protocol.methods import METHODS, Method

_REF = "#/components/schemas/{model}"


def openrpc_document(*, flat_names: bool = False) -> dict[str, Any]:
    """The protocol as an OpenRPC 1.3 document.

    OpenRPC knows only what a client sends; what the server sends stands under `x-serverToClient`, in the same form.

    Args:
        flat_names: Name methods by identifiers, for generators that make functions of them; `x-method` is the wire name.
    """
    schemas = definitions(_REF)
    sent = [row for row in METHODS.values() if row.kind in ("request", "notification")]
    received = [row for row in METHODS.values() if row.kind in ("clientRequest", "serverNotification")]
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "Timeleap",
            "version": f"{PROTOCOL_VERSION}.0.0",
            "description": "The context of an AI agent, kept durably: history, checkpoints, time travel and its undo.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
            "x-generated": "Generated from timeleap_protocol.methods by timeleap_protocol.generate. Do not edit.",
        },
        "methods": [_method(row, schemas, flat_names) for row in sent],
        "components": {"schemas": schemas, "errors": {spec.kind: _error(spec) for spec in ERRORS.values()}},
        "x-serverToClient": [_method(row, schemas, flat_names) for row in received],
    }


def _method(row: Method, schemas: dict[str, Schema], flat_names: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": row.flat_name if flat_names else row.name,
        "summary": row.summary,
        "paramStructure": "by-name",
        "params": _params(schemas[row.params_model.__name__]),
    }
    if row.kind in ("request", "clientRequest"):
        entry["result"] = _result(row)
    if row.all_errors:
        entry["errors"] = [{"$ref": f"#/components/errors/{kind}"} for kind in row.all_errors]
    entry["x-params"] = {"$ref": _REF.format(model=row.params_model.__name__)}
    if flat_names:
        entry["x-method"] = row.name
    entry["x-kind"] = row.kind
    entry["x-mutates"] = row.mutates
    entry["x-worksUnopened"] = row.works_unopened
    entry["x-progress"] = row.progress
    entry["x-since"] = row.since
    return entry


def _params(schema: Schema) -> list[dict[str, Any]]:
    """Content descriptors of an object's members. A union (a notification by kind) has none; `x-params` has it."""
    required = schema.get("required", [])
    members = schema.get("properties", {})
    names = sorted(members, key=lambda name: (name not in required, name in GENERAL_PARAMS))
    return [_descriptor(name, members[name], name in required) for name in names]


def _descriptor(name: str, schema: Schema, required: bool) -> dict[str, Any]:
    descriptor: dict[str, Any] = {"name": name}
    if "description" in schema:
        descriptor["description"] = schema["description"]
        schema = {key: value for key, value in schema.items() if key != "description"}
    return {**descriptor, "required": required, "schema": schema}


def _result(row: Method) -> dict[str, Any]:
    if row.result_model is None:
        return {"name": "nothing", "schema": {"type": "null"}}
    name = row.result_model.__name__
    return {"name": name, "schema": {"$ref": _REF.format(model=name)}}


def _error(spec: ErrorSpec) -> dict[str, Any]:
    return {"code": spec.code, "message": spec.summary, "data": {"kind": spec.kind, "retryable": spec.retryable}}
