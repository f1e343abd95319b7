"""Writes `docs/python-client.md`, the reference of the Python client, from its docstrings.

.venv/bin/python docs/reference.py [--check]      (`make generate` runs it)
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import timeleap_client as library

PAGE = Path(__file__).resolve().parent / "python-client.md"
HEAD = """\
<!-- Generated from the docstrings by docs/reference.py; `make generate` rewrites it. -->

# The Python client

`pip install` of Timeleap brings it: `from timeleap.client import AsyncTimeleap`, or `SyncTimeleap` for programs that block.

{overview}

[A connection](#asynctimeleap) · [A session](#asyncsession) · [For programs that block](#for-programs-that-block) ·
[Notifications](#notifications) · [Errors](#errors) · [Restarts](#restarts) · [All requests](#all-requests)
"""

CONSTRUCTED = ["AsyncTimeleap", "Restarts"]
"""Classes that are made by their users."""
CLASSES = ["AsyncTimeleap", "AsyncSession"]
BLOCKING = {"SyncTimeleap": "AsyncTimeleap", "SyncSession": "AsyncSession", "SyncNotifications": "Subscription"}
HEARING = ["Notification", "Subscription"]
ERRORS = [name for name in library.__all__ if name.endswith("Error")]
INTERNAL = {"offer", "begin"}


def page() -> str:
    """The whole page."""
    parts = [HEAD.format(overview=markdown(inspect.getdoc(library) or ""))]
    for name in CLASSES:
        parts += described(name, own_members(name))
    parts.append("## For programs that block\n")
    for name, other in BLOCKING.items():
        extra = [each for each in own_members(name) if each not in own_members(other)]
        parts.append(f"### {name}\n\n{markdown(inspect.getdoc(getattr(library, name)) or '')}\n")
        parts += described_members(name, extra)
    parts.append("## Notifications\n")
    for name in HEARING:
        parts += described(name, own_members(name), level=3)
    parts.append("## Errors\n")
    for name in ERRORS:
        parts += described(name, [], level=3)
    parts.append("## Restarts\n")
    parts += described("Restarts", [], level=3)
    parts.append(requests())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def described(name: str, members: list[str], level: int = 2) -> Iterator[str]:
    """A class: what it is, how it is made, what it has."""
    kind: Any = getattr(library, name)
    yield f"{'#' * level} {name}\n"
    if issubclass(kind, Exception):
        yield f"Is a kind of `{kind.__mro__[1].__name__}`.\n"
    elif name in CONSTRUCTED:
        yield f"```text\n{signature(name, kind)}\n```\n"
    yield markdown(inspect.getdoc(kind) or "")
    for base in kind.__mro__[1:]:
        # What `AsyncTimeleap` says of its arguments stands at the class it extends.
        if base.__module__.startswith("timeleap_client") and "Args:" in (base.__doc__ or ""):
            yield markdown(inspect.getdoc(base) or "")
    yield from described_members(name, members)


def described_members(name: str, members: list[str]) -> Iterator[str]:
    """The methods and properties of a class."""
    kind: Any = getattr(library, name)
    for member in members:
        value = inspect.getattr_static(kind, member)
        document = inspect.getdoc(value if not isinstance(value, property) else value.fget) or ""
        if isinstance(value, property):
            yield f"**`{member}`** {markdown(document)}\n"
        else:
            function = getattr(value, "__func__", value)
            yield f"**`{signature(member, function)}`** {markdown(document)}\n"


def own_members(name: str) -> list[str]:
    """Public members of a class and of the hand-written classes it extends, in the order of the source."""
    found: list[str] = []
    kind: Any = getattr(library, name)
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("timeleap_client") and not base.__module__.rpartition(".")[2].startswith("_"):
            public = (
                member
                for member, value in vars(base).items()
                if not member.startswith("_") and member not in INTERNAL and _told(value)
            )
            found += [member for member in public if member not in found]
    return found


def _told(value: object) -> bool:
    return isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value)


def signature(name: str, function: Callable[..., Any]) -> str:
    """How something is called, in a line."""
    parameters = []
    star = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parameters.append("*")
            star = True
        shown = str(parameter.replace(annotation=inspect.Parameter.empty))
        if parameter.default is not inspect.Parameter.empty and not isinstance(
            parameter.default, (str, int, float, type(None))
        ):
            shown = f"{parameter.name}=..."
        parameters.append(shown)
    awaited = "await " if inspect.iscoroutinefunction(function) else ""
    return f"{awaited}{name}({', '.join(parameters)})"


_SECTIONS = {"Args:": "Arguments", "Attributes:": "Attributes", "Returns:": "Returns", "Raises:": "Raises"}


def markdown(document: str) -> str:
    """A docstring in Google's style, without its indentation, as Markdown."""
    lines: list[str] = []
    section = ""
    for line in document.splitlines():
        if line in _SECTIONS:
            section = line
            lines += ["", f"{_SECTIONS[line]}:", ""] if section != "Returns:" else [""]
        elif section and line.startswith("        "):
            lines[-1] += " " + line.strip()
        elif section and line.startswith("    "):
            entry = re.match(r"    ([\w*, .]+): (.*)", line)
            if section == "Returns:":
                lines.append(f"Returns: {line.strip()}" if lines[-1] == "" else line.strip())
            elif entry:
                lines.append(f"- `{entry[1]}`: {entry[2]}")
            else:
                lines.append(f"- {line.strip()}")
        else:
            section = "" if line.strip() else section
            lines.append(line)
    return "\n".join(lines) + "\n"


def requests() -> str:
    """Every request as a method, with what it is for."""
    from timeleap_client._methods_async import AsyncMethods

    rows = [
        "## All requests\n",
        "Methods of `AsyncTimeleap` (and, blocking, of `SyncTimeleap`): typed, named as on the wire, all arguments",
    ]
    rows += [
        "by keyword. What each argument means is in [the protocol](../protocol/spec/README.md).\n",
        "| method | request |",
        "|---|---|",
    ]
    for name, function in vars(AsyncMethods).items():
        if name.startswith("_") or name == "call" or not inspect.isfunction(function):
            continue
        wire, _, summary = (inspect.getdoc(function) or "").splitlines()[0].partition(": ")
        names = ", ".join(
            each
            for each in inspect.signature(function).parameters
            if each not in ("self", "request_id", "work_done_token")
        )
        rows.append(f"| `{name}({names})` | {wire}: {summary} |")
    return "\n".join(rows)


def main() -> int:
    """Write the page, or with `--check` say whether it is what would be written."""
    text = page()
    if "--check" in sys.argv[1:]:
        fresh = PAGE.exists() and PAGE.read_text("utf-8") == text
        if not fresh:
            sys.stderr.write("docs/python-client.md is stale: make generate\n")
        return 0 if fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
