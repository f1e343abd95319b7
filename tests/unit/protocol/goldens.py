"""The golden wire fixtures, read once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3] / "protocol" / "golden"


@dataclass(frozen=True)
class Golden:
    """One exchange (or one message) as it looks on the wire."""

    path: Path
    body: dict[str, Any]

    @property
    def id(self) -> str:
        return self.path.relative_to(ROOT).with_suffix("").as_posix()

    @property
    def method(self) -> str:
        return self.body["method"]

    @property
    def error_kind(self) -> str | None:
        return self.body["error"]["data"]["kind"] if "error" in self.body else None


@cache
def goldens() -> tuple[Golden, ...]:
    return tuple(Golden(path, json.loads(path.read_text(encoding="utf-8"))) for path in sorted(ROOT.glob("*/*.json")))


def messages() -> list[tuple[str, str, Any]]:
    """Every message without a reply of its own: `(where it stands, method, params)`."""
    found = [(golden.id, golden.method, golden.body["params"]) for golden in goldens()]
    for golden in goldens():
        found += [(golden.id, sent["method"], sent["params"]) for sent in golden.body.get("notifications", [])]
    return found
