"""What is said of a wrong value names wire fields and list positions, in JSON's words; for every model that a client sends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.protocol.goldens import goldens

from timeleap_protocol.errors import ErrorKind, validation_errors
from timeleap_protocol.generate.schema import definitions
from timeleap_protocol.methods import METHODS

SENT = [row for row in METHODS.values() if row.kind in ("request", "notification")]
WRONG: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    1.5,
    2**60,
    1e400,
    "",
    "x" * 2000,
    [],
    [1],
    [None],
    {},
    {"a": 1},
    {"type": 1},
)
PYTHON = re.compile(
    r"dict|list|tuple|\bstr\b|\bint\b|\bbool\b|float|None|Params|instance|python|function|_[a-z]|[a-z]_"
)
"""Words of Python, names of our classes, and names that are not the wire's."""


@cache
def wire_names() -> set[str]:
    """Every name that a member can have in what a client sends."""
    return {name for schema in definitions().values() for name in schema.get("properties", {})}


def wrong(value: Any, depth: int = 3) -> Iterator[Any]:
    """`value` with something wrong in one place; and with each member gone or renamed."""
    if depth == 0:
        return
    if isinstance(value, dict):
        for name, member in value.items():
            rest = {other: one for other, one in value.items() if other != name}
            yield rest
            yield {**rest, f"{name}_": member}
            yield from ({**value, name: changed} for changed in wrong(member, depth - 1))
            yield from ({**value, name: bad} for bad in WRONG)
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield from ([*value[:position], changed, *value[position + 1 :]] for changed in wrong(member, depth - 1))
            yield from ([*value[:position], bad, *value[position + 1 :]] for bad in WRONG)


def samples(row: Any) -> list[Any]:
    """Params that the method's goldens show, and one with every member at once."""
    found = [g.body["params"] for g in goldens() if g.method == row.name and g.error_kind != ErrorKind.INVALID_PARAMS]
    every = dict.fromkeys(definitions()[row.params_model.__name__].get("properties", {}), 7)
    return [*found[:2], {**every, **(found[0] if found else {})}]


@pytest.mark.parametrize("row", SENT, ids=lambda row: row.name)
def test_places_are_wire_names_and_words_are_jsons(row: Any):
    known = wire_names()
    refusals = 0
    for params in samples(row):
        for bad in [*WRONG, *wrong(params)]:
            try:
                row.params_model.from_wire(bad)
            except ValidationError as error:
                refusals += 1
                for entry in validation_errors(error):
                    walked: Any = bad
                    for step in entry["loc"][:-1]:
                        walked = walked[step]  # every step but the last is really there
                    last = entry["loc"][-1:]
                    assert not last or isinstance(walked, dict | list), entry
                    if last and entry["type"] != "extra_forbidden":
                        assert isinstance(last[0], int) or last[0] in known, entry
                        assert isinstance(walked, list) is isinstance(last[0], int), entry
                    if entry["type"] != "extra_forbidden":
                        quoted = re.sub(r"'[^']*'", "", entry["msg"])
                        assert not PYTHON.search(quoted), entry
                        assert set(re.findall(r"'([^']*)'", entry["msg"])) <= known | literals(), entry
    assert refusals or row.name in ("initialized", "shutdown", "exit", "rpc.discover")


@cache
def literals() -> set[str]:
    """Every word that the protocol fixes."""
    found: set[str] = set()
    waiting: list[Any] = [definitions()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found.update(str(one) for one in value.get("enum", ()) if isinstance(value.get("enum"), list))
            found.add(str(value.get("const")))
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def test_what_was_sent_is_never_repeated():
    secret = "sk-" + "s" * 40
    for row in SENT:
        for params in samples(row):
            for name in params if isinstance(params, dict) else ():
                for value in (secret, [secret], {"x": secret}, {secret: 1}):
                    try:
                        row.params_model.from_wire({**params, name: value})
                    except ValidationError as error:
                        texts = [
                            entry["msg"] for entry in validation_errors(error) if entry["type"] != "extra_forbidden"
                        ]
                        assert not any(secret in text for text in texts)
