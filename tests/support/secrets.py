"""The cases of the table of what looks like a secret; the extension's tests read the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

TABLE: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "protocol" / "timeleap_protocol" / "secret_masks.json").read_text("utf-8")
)
_SIGNS: Final = {"a": "aB3", "A": "ABCD2345", "d": "1234567890", "h": "0123456789abcdef"}


def written(text: str) -> str:
    """Spell out a case of the table: `«a36»` stands for 36 characters, so that no file holds what looks like a key."""
    return re.sub(r"«([aAdh])(\d+)»", lambda found: (_SIGNS[found[1]] * int(found[2]))[: int(found[2])], text)
