"""What came out of the cases: one small file for each under `.cache`, until the page is written of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.torture.agent import Agent
from tests.torture.cases import Case
from tests.torture.scene import Scene

FOLDER: Final = Path(__file__).resolve().parents[2] / ".cache" / "undo-torture"


@dataclass(frozen=True)
class Played:
    """One case with one agent.

    Attributes:
        agent: As the table calls it.
        version: Of the agent.
        case: The case's key.
        problems: Nothing: it was right.
        notes: Figures.
    """

    agent: str
    version: str
    case: str
    problems: list[str]
    notes: list[str]


def keep(key: str, agent: type[Agent], case: Case, scene: Scene) -> None:
    """Keep the outcome, in the place of an earlier one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    place = str(scene.place)
    problems = [problem.replace(place, "...") for problem in scene.problems]
    played = Played(agent.name, agent.version(), case.key, problems, scene.notes)
    (FOLDER / f"{key}-{case.key}.json").write_text(json.dumps(asdict(played), indent=1), "utf-8")


def kept() -> list[Played]:
    """All that is kept."""
    return [Played(**json.loads(file.read_text("utf-8"))) for file in sorted(FOLDER.glob("*.json"))]
