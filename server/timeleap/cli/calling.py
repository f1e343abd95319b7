"""Commands close to the protocol: `call`, `schema`, `serve`."""

from __future__ import annotations

import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from timeleap.cli.backend import Backend
from timeleap.cli.command import command, text_or_file
from timeleap.cli.installed_parts import PROGRAMS, program
from timeleap.cli.parameters import Argument, Commands, Option, Registered
from timeleap.cli.terminal import Exit, Terminal, UsageError
from timeleap_protocol.methods import METHODS, REQUESTS, Method

app = Commands()


def complete_method(incomplete: str, _home: Path | None) -> list[tuple[str, str]]:
    """Methods of the protocol that begin with what was typed."""
    return [(name, row.summary) for name, row in REQUESTS.items() if name.startswith(incomplete)]


@command(app)
def call(
    terminal: Terminal,
    method: Annotated[str, Argument(metavar="METHOD", help="Such as context/getHistory.", complete=complete_method)],
    params: Annotated[
        str | None, Argument(metavar="[PARAMS]", help="A JSON object; @FILE or - takes it from there.")
    ] = None,
    no_open: Annotated[bool, Option("--no-open", help="Do not open the session first.")] = False,
) -> None:
    """Send one request and print its result, always as JSON.

    The session named by `sessionId` is opened first where the method needs it: to read if the method only reads.

    Examples:
        timeleap call session/list '{"limit": 3}'
        timeleap call context/getRecords '{"sessionId": "fix-dates", "limit": 5}'
    """
    text = text_or_file(params)
    try:
        given = json.loads(text) if text and text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"PARAMS is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError('PARAMS has to be a JSON object, such as {"sessionId": "fix-dates"}')
    row = REQUESTS.get(method)
    with Backend(terminal) as backend:
        session_id = given.get("sessionId")
        if row is not None and row.scope == "open" and isinstance(session_id, str) and not no_open:
            write = row.access == "write" and given.get("dryRun") is not True
            given["sessionId"] = backend.open({"sessionId": session_id}, write=write).id
        terminal.document(backend.call(method, given))


@command(app)
def schema(
    terminal: Terminal,
    form: Annotated[
        Literal["openrpc", "json-schema", "typescript"], Argument(metavar="[openrpc|json-schema|typescript]")
    ] = "openrpc",
    *,
    only: Annotated[
        str | None,
        Option(metavar="METHOD,...", help="json-schema: only the messages of these methods; globs are allowed."),
    ] = None,
    flat_names: Annotated[
        bool, Option("--flat-names", help="openrpc: contextAppendMessage, not context/appendMessage.")
    ] = False,
) -> None:
    """Print the protocol: OpenRPC, JSON Schema, or types for TypeScript.

    The root of the JSON Schema describes any message, so that generators of types find all of them.

    Examples:
        timeleap schema typescript > timeleap.d.ts
        timeleap schema json-schema --only 'initialize,session/open,context/*' > timeleap.schema.json
    """
    if only is not None and form != "json-schema":
        raise UsageError("--only goes with json-schema")
    if flat_names and form != "openrpc":
        raise UsageError("--flat-names goes with openrpc")
    if form == "typescript":
        from timeleap_protocol.generate.typescript import types_module

        sys.stdout.write(types_module())
    elif form == "json-schema":
        from timeleap_protocol.generate.schema import bundle

        terminal.document(bundle(None if only is None else _rows(only)))
    else:
        from timeleap_protocol.generate.openrpc import openrpc_document

        terminal.document(openrpc_document(flat_names=flat_names))


def _rows(only: str) -> list[Method]:
    wanted = [name for name in map(str.strip, only.split(",")) if name]
    for name in wanted:
        if not fnmatch.filter(METHODS, name):
            raise UsageError(f"there is no method {name}: timeleap schema lists them")
    if not wanted:
        raise UsageError("--only wants names of methods, such as session/open,context/*")
    return [row for row in METHODS.values() if any(fnmatch.fnmatchcase(row.name, name) for name in wanted)]


def _for_programs(name: str, text: str) -> None:
    """Register a command that programs start: `timeleap.__main__` goes past this to it."""

    def run(terminal: Terminal, arguments: Sequence[str]) -> None:
        raise Exit(program(PROGRAMS[name]).main([*terminal.home_words(), *arguments]))

    run.__doc__ = text
    app.members.append(Registered(name, run, raw=True))


_for_programs("serve", "Run the server: JSON-RPC 2.0 on the standard input and output, until their end.")
_for_programs("mcp", "Offer a model its earlier conversations: the Model Context Protocol on the same streams.")
