"""The module that lets the server answer `initialize` without loading a model."""

from __future__ import annotations

from timeleap_protocol.base import GENERAL_PARAMS, WireModel
from timeleap_protocol.generate.header import LINE_LENGTH, python_header
from timeleap_protocol.methods import ANSWERED, CLIENT_REQUESTS, SERVER_NOTIFICATIONS, Method

_LIFECYCLE = ("initialize", "shutdown")
"""Every LSP server has these; they are not advertised."""


def advertised_module() -> str:
    """The text of `timeleap_protocol/_advertised.py`."""
    return "\n".join(
        [
            *python_header("What `initialize` advertises; see `timeleap_protocol.capabilities`."),
            "from typing import Final",
            "",
            "METHODS: Final[dict[str, tuple[str, ...]]] = {",
            *(line for row in ANSWERED.values() if row.name not in _LIFECYCLE for line in _entry(row)),
            "}",
            "",
            "PARTS: Final[dict[str, tuple[str, ...]]] = {",
            *(line for part, names in _parts().items() for line in _part(part, names)),
            "}",
            '"""Methods by the package outside the core that answers them."""',
            "",
            *_tuple("NOTIFICATIONS: Final[tuple[str, ...]] = ", list(SERVER_NOTIFICATIONS)),
            "",
            *_tuple("CLIENT_REQUESTS: Final[tuple[str, ...]] = ", list(CLIENT_REQUESTS)),
            "",
        ]
    )


def _entry(row: Method) -> list[str]:
    *lines, last = _tuple(f'    "{row.name}": ', _params(row))
    return [*lines, f"{last},"]


def _parts() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in ANSWERED.values():
        names = (row.handler or "").split(".")
        if names[0].startswith("timeleap_"):
            found.setdefault(names[0], []).append(row.name)
        elif names[:2] == ["timeleap", "features"]:
            found.setdefault(".".join(names[:3]), []).append(row.name)
    return found


def _part(part: str, names: list[str]) -> list[str]:
    *lines, last = _tuple(f'    "{part}": ', names)
    return [*lines, f"{last},"]


def _params(row: Method) -> list[str]:
    """Wire names of the params, without those that every method takes."""
    model = row.params_model
    assert issubclass(model, WireModel)
    names = (field.alias or name for name, field in model.model_fields.items())
    return [name for name in names if name not in GENERAL_PARAMS]


def _tuple(start: str, names: list[str]) -> list[str]:
    """`start` and a tuple of strings, laid out as the formatter would."""
    indent = start[: len(start) - len(start.lstrip())]
    line = f"{start}({', '.join(map(_quoted, names))}{',' if len(names) == 1 else ''})"
    if len(line) < LINE_LENGTH:
        return [line]
    return [f"{start}(", *(f"{indent}    {_quoted(name)}," for name in names), f"{indent})"]


def _quoted(name: str) -> str:
    return f'"{name}"'
