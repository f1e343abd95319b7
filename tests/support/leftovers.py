"""What is left of a value in files, however it is spelled there; told by other means than those that take it out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def spellings(value: str) -> Iterator[bytes]:
    """A value as JSON spells it, within strings of JSON however deep."""
    for ascii_only in (True, False):
        text = value
        for _ in range(5):
            yield text.encode()
            yield text.replace("/", "\\/").encode()
            text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value.lstrip()[:1] in ("{", "[", '"'):
            try:
                yield from strings(json.loads(value, strict=False))
            except ValueError:
                return
    elif isinstance(value, dict):
        for pair in value.items():
            for one in pair:
                yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def holders(*roots: Path, value: str, raw: bool = True) -> list[str]:
    """The files below some directories that hold a value in any form; with `raw` also where only their bytes look so: a
    backslash before a quote is one character of a text, or two."""
    found = []
    for path in (path for root in roots for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        texts = list(strings(parsed(data)))
        for line in data.split(b"\n"):
            texts += strings(parsed(line))
        if (raw and any(one in data for one in spellings(value))) or any(value in text for text in texts):
            found.append(str(path))
    return sorted(found)


def parsed(data: bytes) -> Any:
    try:
        return json.loads(data, strict=False)
    except ValueError:
        return None
