"""Which test caught which seeded fault: one small file for each under `.cache`, until the page is written of them."""

from __future__ import annotations

import json
from typing import Final

from tests.faults.faults import ROOT, Fault

FOLDER: Final = ROOT / ".cache" / "faults"


def keep(fault: Fault, failed: list[str]) -> None:
    """Keep the outcome, in the place of an earlier one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{fault.name}.json").write_text(json.dumps(failed), "utf-8")


def kept(fault: Fault) -> list[str] | None:
    """The tests that failed with it; None where it was not run."""
    file = FOLDER / f"{fault.name}.json"
    if not file.exists():
        return None
    failed: list[str] = json.loads(file.read_text("utf-8"))
    return failed
