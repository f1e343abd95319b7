"""Names for files that are set aside: `context.jsonl` becomes `context_1.jsonl`, `context_2.jsonl` ..."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path


async def next_available_rotation(path: Path | str) -> Path | None:
    """Reserve the next free name for a file that is to be set aside.

    The name is reserved by an empty file (mode 0600) that the caller is to overwrite, so that two callers never get the
    same one. Numbers start above the highest one present: a gap is not filled, because a lower number means older.

    Args:
        path: The file that is to be set aside; it need not exist.

    Returns:
        The reserved path, or None if the directory does not exist.
    """
    return await asyncio.to_thread(_reserve, Path(path))


def _reserve(path: Path) -> Path | None:
    if not path.parent.is_dir():
        return None
    name = re.compile(rf"{re.escape(path.stem)}_([0-9]+){re.escape(path.suffix)}")
    numbers = [int(match[1]) for entry in path.parent.iterdir() if (match := name.fullmatch(entry.name))]
    number = max(numbers, default=0) + 1
    while True:
        candidate = path.with_name(f"{path.stem}_{number}{path.suffix}")
        try:
            os.close(os.open(candidate, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            number += 1
        else:
            return candidate
