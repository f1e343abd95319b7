"""Changing one key of a TOML file as an editor would: the rest, comments included, stays byte for byte.

Only what `config.toml` can hold: keys at the top and in `[table]`s one deep, on one line each.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from timeleap.errors import InvalidInputError

_TABLE = re.compile(r"^\s*\[\s*([A-Za-z0-9_-]+)\s*\]\s*(#.*)?$")


def read(file: Path) -> dict[str, Any]:
    """The values of a file by dotted key; empty if there is none.

    Raises:
        InvalidInputError: It is no TOML.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file} is not TOML: {error}") from error
    values: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            values |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            values[key] = value
    return values


def with_key(text: str, key: str, value: str | int | float) -> str:
    """`text` with `key` (dotted: in that table) set to `value`."""
    table, _, name = key.rpartition(".")
    line = f"{name} = {_literal(value)}"
    lines = text.splitlines()
    start, end = _section(lines, table)
    for number in range(start, end):
        if _is_key(lines[number], name):
            comment = re.search(r"\s+#[^\"']*$", lines[number])
            lines[number] = line + (comment[0] if comment else "")
            return _joined(lines)
    if table and start == 0:
        return _joined([*lines, *([""] if lines else []), f"[{table}]", line])
    while end > start and not lines[end - 1].strip():
        end -= 1
    lines.insert(end, line)
    return _joined(lines)


def without_key(text: str, key: str) -> str:
    """`text` without `key`."""
    table, _, name = key.rpartition(".")
    lines = text.splitlines()
    start, end = _section(lines, table)
    return _joined([line for number, line in enumerate(lines) if not (start <= number < end and _is_key(line, name))])


def _section(lines: list[str], table: str) -> tuple[int, int]:
    """The lines of a table's keys; of those before the first table if it has no name; (0, 0) if there is no such table."""
    current, start = "", 0
    for number, line in enumerate(lines):
        if match := _TABLE.match(line):
            if current == table:
                return start, number
            current, start = match[1], number + 1
    return (start, len(lines)) if current == table else (0, 0)


def _is_key(line: str, name: str) -> bool:
    return re.match(rf"\s*(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')\s*=", line) is not None


def _literal(value: str | float) -> str:
    # A JSON string is a TOML basic string once DEL is escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n" if lines else ""
