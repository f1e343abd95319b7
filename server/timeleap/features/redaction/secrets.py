"""Detection of secrets, by the rules of a library that experts maintain.

Kingfisher knows some hundred kinds of keys and tokens, looks for all of them at once in linear time, and reads no file
and asks no network for it. It is an extra, and takes seconds to load: its compiled rules are kept in a directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from timeleap.errors import InvalidInputError

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

SHORTEST: Final = 8
"""Characters of what is taken for a secret: what is shorter would be found all over the place."""

_scanners: list[Scanner] = []


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Probable secrets in a text, each with the name of the rule that matched. Call `load_rules` first."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) < SHORTEST:
        return
    for found in _scanners[0].scan(encoded):
        place = found.location
        value = encoded[place["start_offset"] : place["end_offset"]].decode("utf-8", "replace")
        if len(value) >= SHORTEST:
            yield found.rule_id.rpartition(".")[2].rpartition("/")[2], value


def load_rules(cache: Path | None = None) -> None:
    """Load the rules, once a process. Blocking, for seconds.

    Args:
        cache: Where the compiled rules are kept, so that the next process has them at once; nowhere if None.

    Raises:
        InvalidInputError: The library is not installed.
    """
    if _scanners:
        return
    try:
        from kingfisher_sdk import Rules, Scanner
    except ImportError:
        text = "looking for secrets needs the extra timeleap[redact]: pip install 'timeleap[redact]'"
        problem = {"loc": ["secrets"], "msg": text, "type": "extra"}
        raise InvalidInputError(text, errors=[problem]) from None
    rules = Rules(cache=cache is not None, cache_dir=str(cache) if cache is not None else None)
    _scanners.append(Scanner(rules))
