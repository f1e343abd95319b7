"""The tables inside the spec pages: what stands between a `generated` marker and its end is replaced, the rest is prose.

::

    <!-- generated: methods context/ -->
    ...
    <!-- end generated -->
"""

from __future__ import annotations

import re

from timeleap_protocol import limits
from timeleap_protocol.errors import ERRORS
from timeleap_protocol.generate.schema import Schema, definitions
from timeleap_protocol.methods import METHODS, Kind, Method

_BLOCK = re.compile(r"(<!-- generated: (?P<what>[^>]*?) -->\n).*?(<!-- end generated -->)", re.DOTALL)
_GENERAL = ("_meta", "workDoneToken", "partialResultToken", "expectedHead", "requestId")


def fill(page: str) -> str:
    """A spec page with its generated parts brought up to date.

    Raises:
        ValueError: A marker asks for something that does not exist.
    """
    return _BLOCK.sub(lambda match: f"{match[1]}\n{_block(match['what'])}\n\n{match[3]}", page)


def _block(what: str) -> str:
    kind, _, argument = what.partition(" ")
    match kind:
        case "methods":
            return _methods([row for row in METHODS.values() if row.kind == "request" and _under(row, argument)])
        case "messages":
            return _messages([row for row in METHODS.values() if row.kind in argument.split()])
        case "changes":
            return _changes(argument)
        case "shapes":
            return "\n\n".join(_shape(name, definitions()[name]) for name in argument.split())
        case "errors":
            return _errors()
        case "limits":
            return "\n".join(
                ["| limit | value |", "|---|---|", *(f"| `{k}` | {v} |" for k, v in limits.LIMITS.items())]
            )
        case _:
            raise ValueError(f"nothing called {kind!r} can be generated")


def _under(row: Method, prefix: str) -> bool:
    if prefix == "lifecycle":
        return "/" not in row.name
    return row.name.startswith(prefix)


def _methods(rows: list[Method]) -> str:
    """A table of all, then the params of each."""
    shapes = definitions()
    lines = ["| method | result | changes | unopened | progress | |", "|---|---|---|---|---|---|"]
    for row in rows:
        marks = " | ".join("yes" if fact else "" for fact in (row.mutates, row.scope == "any", row.progress))
        lines.append(f"| [`{row.name}`](#{_anchor(row.name)}) | {_result(row)} | {marks} | {row.summary} |")
    for row in rows:
        lines += ["", f"### `{row.name}`", "", row.summary, "", *_params(row, shapes)]
        specific = ", ".join(f"`{kind}`" for kind in row.all_errors if kind in row.errors)
        if specific:
            lines += ["", f"Errors of its own: {specific}."]
    return "\n".join(lines)


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", name.lower())


def _result(row: Method) -> str:
    return "`null`" if row.result_model is None else f"`{row.result_model.__name__}`"


def _params(row: Method, shapes: dict[str, Schema]) -> list[str]:
    schema = shapes[row.params_model.__name__]
    guards = [name for name in ("expectedHead", "requestId") if name in schema.get("properties", {})]
    lines = _members(schema, without=_GENERAL)
    if guards:
        lines.append(f"- and {', '.join(f'`{name}?`' for name in guards)}")
    return lines or ["No params."]


def _messages(rows: list[Method]) -> str:
    kinds: dict[Kind, str] = {"serverNotification": "notification", "clientRequest": "request"}
    lines = ["| message | kind | params | result | |", "|---|---|---|---|---|"]
    for row in rows:
        result = _result(row) if row.result_model else ""
        kind = kinds.get(row.kind, row.kind)
        lines.append(f"| `{row.name}` | {kind} | `{row.params_model.__name__}` | {result} | {row.summary} |")
    return "\n".join(lines)


def _changes(union: str) -> str:
    """The kinds of a notification, each with the members it has beyond those that all have."""
    shapes = definitions()
    lines = ["| kind | members | |", "|---|---|---|"]
    for branch in shapes[union]["oneOf"]:
        schema = shapes[branch["$ref"].rpartition("/")[2]]
        members = schema["properties"]
        own = [name for name in members if name not in ("sessionId", "head", "kind", "cause")]
        named = ", ".join(f"`{name}`" if name in schema["required"] else f"`{name}?`" for name in own)
        lines.append(f"| `{members['kind']['const']}` | {named} | {schema['description']} |")
    return "\n".join(lines)


def _shape(name: str, schema: Schema) -> str:
    return "\n".join([f"### `{name}`", "", schema.get("description", ""), "", *_members(schema)])


def _members(schema: Schema, without: tuple[str, ...] = ()) -> list[str]:
    required = schema.get("required", [])
    lines = []
    for name, member in schema.get("properties", {}).items():
        if name in without:
            continue
        mark = "" if name in required else "?"
        text = " ".join(member.get("description", "").split())
        lines.append(f"- `{name}{mark}` {_type(member)}" + (f": {text}" if text else ""))
    return lines


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "const" in schema:
        return f"`{schema['const']!r}`".replace("True", "true").replace("'", '"')
    if "enum" in schema:
        return " \\| ".join(f'`"{value}"`' for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(branch) for branch in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any")) + _bounds(schema)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high == limits.MAX_SAFE_INTEGER:
        return f" >= {low}" if low in (0, 1) else ""
    if low is not None and high is not None:
        return f" {low} to {high}"
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    return " (not empty)" if schema.get("minLength") == 1 else ""


def _errors() -> str:
    lines = ["| code | kind | retryable | meaning | members of `data` |", "|---|---|---|---|---|"]
    for spec in ERRORS.values():
        members = "; ".join(f"`{name}`: {what}" for name, what in spec.members.items())
        lines.append(
            f"| {spec.code} | `{spec.kind}` | {'yes' if spec.retryable else ''} | {spec.summary} | {members} |"
        )
    return "\n".join(lines)
