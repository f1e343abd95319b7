"""TypeScript types of every shape, and the maps that type a client's requests and notifications."""

from __future__ import annotations

import json
from typing import Any

from timeleap_protocol.errors import ERRORS
from timeleap_protocol.generate.header import typescript_header
from timeleap_protocol.generate.schema import Schema, definitions
from timeleap_protocol.limits import LIMITS, PROTOCOL_VERSION
from timeleap_protocol.methods import CLIENT_REQUESTS, METHODS, NOTIFICATIONS, REQUESTS, SERVER_NOTIFICATIONS, Method

_PREFIX = "#/$defs/"
_LSP = ("InitializeParams", "ClientCapabilities", "ClientExperimental", "ServerCapabilities")
_OPEN = ("Message", "NewMessage", "OtherPart", "StateWarning", "ErrorData", "InitializationOptions", *_LSP)
"""Shapes whose unknown members a program has to read or write; the others stay closed, so that typos are found."""


def types_module() -> str:
    """The text of `generated/types.ts`."""
    lines = typescript_header("The shapes of the wire protocol.")
    for name, schema in definitions().items():
        lines += [*_comment(schema.get("description"), ""), *_declaration(name, schema), ""]
    return "\n".join(lines)


def methods_module() -> str:
    """The text of `generated/methods.ts`."""
    used = sorted({model for row in METHODS.values() for model in _models(row)})
    return "\n".join(
        [
            *typescript_header("Which params and results belong to which method."),
            "import type {",
            *(f"  {name}," for name in used),
            '} from "./types.js";',
            "",
            f"export const PROTOCOL_VERSION = {PROTOCOL_VERSION};",
            "",
            "/** What a server takes at most, unless it announces something else. */",
            f"export const LIMITS = {json.dumps(LIMITS, indent=2)} as const;",
            "",
            *_calls("Requests of the client.", "Methods", REQUESTS.values()),
            *_mutating(),
            *_params_map("Notifications of the client.", "ClientNotifications", NOTIFICATIONS.values()),
            *_calls("Requests of the server.", "ClientRequests", CLIENT_REQUESTS.values()),
            *_params_map("Notifications of the server.", "Notifications", SERVER_NOTIFICATIONS.values()),
            *_errors(),
        ]
    )


def _models(row: Method) -> list[str]:
    return [model.__name__ for model in (row.params_model, row.result_model) if model is not None]


def _calls(summary: str, name: str, rows: Any) -> list[str]:
    lines = [f"/** {summary} */", f"export interface {name} {{"]
    for row in rows:
        result = "null" if row.result_model is None else row.result_model.__name__
        lines += [f"  /** {row.summary} */"]
        lines += [f'  "{row.name}": {{ params: {row.params_model.__name__}; result: {result} }};']
    return [*lines, "}", ""]


def _params_map(summary: str, name: str, rows: Any) -> list[str]:
    lines = [f"/** {summary} */", f"export interface {name} {{"]
    for row in rows:
        lines += [f"  /** {row.summary} */", f'  "{row.name}": {row.params_model.__name__};']
    return [*lines, "}", ""]


def _mutating() -> list[str]:
    return [
        "/** Requests that change something: they take a `requestId`, and are safe to repeat under it. */",
        "export const MUTATING: ReadonlySet<string> = new Set<keyof Methods>([",
        *(f'  "{row.name}",' for row in REQUESTS.values() if row.mutates),
        "]);",
        "",
        "/** Requests that are answered when a person has decided: they take a `requestId` and a `timeout` in seconds. */",
        "export const WAITING: ReadonlySet<string> = new Set<keyof Methods>([",
        *(f'  "{row.name}",' for row in REQUESTS.values() if row.waits),
        "]);",
        "",
    ]


def _errors() -> list[str]:
    lines = ["/** The code of every kind of error. */", "export const ERROR_CODES = {"]
    for spec in ERRORS.values():
        lines += [f"  /** {spec.summary} */", f"  {spec.kind}: {spec.code},"]
    return [*lines, "} as const;", "", "export type ErrorKind = keyof typeof ERROR_CODES;", ""]


def _comment(text: str | None, indent: str) -> list[str]:
    if not text:
        return []
    return [f"{indent}/** {' '.join(text.split()).replace('*/', '* /')} */"]


def _declaration(name: str, schema: Schema) -> list[str]:
    if "properties" not in schema:
        return [f"export type {name} = {_type(schema)};"]
    required = schema.get("required", [])
    lines = [f"export interface {name} {{"]
    for member, described in schema["properties"].items():
        mark = "" if member in required else "?"
        lines += [*_comment(described.get("description"), "  "), f"  {member}{mark}: {_type(described)};"]
    if name in _OPEN:
        lines += ["  [member: string]: unknown;"]
    return [*lines, "}"]


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_PREFIX)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema and "properties" not in schema:
            return " | ".join(dict.fromkeys(_type(branch) for branch in schema[union]))
    return _plain(schema)


def _plain(schema: Schema) -> str:
    match schema.get("type"):
        case "array":
            return _array(schema)
        case "object":
            values = schema.get("additionalProperties")
            return f"{{ [member: string]: {_type(values) if isinstance(values, dict) else 'unknown'} }}"
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as name:
            return str(name)
        case other:
            if schema.keys() <= {"description"}:
                return "unknown"
            raise ValueError(f"no TypeScript for {other!r}: {schema}")


def _array(schema: Schema) -> str:
    element = _type(schema["items"])
    if schema.get("minItems") == schema.get("maxItems") == 2:
        return f"[{element}, {element}]"
    return f"({element})[]" if " " in element else f"{element}[]"
