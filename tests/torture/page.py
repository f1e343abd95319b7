"""Write `docs/undo-torture.md` from the outcomes that are kept: `python -m tests.torture.page`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.torture import cases_faults, cases_files, cases_repositories, cases_turns, hooked, results
from tests.torture.agent import Agent
from tests.torture.cases import CASES
from tests.torture.claude_code import ClaudeCode
from tests.torture.opencode import Opencode
from tests.torture.results import Played
from tests.torture.shadow_git import ShadowGit
from tests.torture.sidecar import Sidecar

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "undo-torture.md"
ORDER: Final[Sequence[type[Agent]]] = (Sidecar, hooked.KimiCode, hooked.Opencode, Opencode, ClaudeCode, ShadowGit)
PARTS: Final = {
    "Turns, and what the user did since": cases_turns,
    "The user's git": cases_repositories,
    "What a file system can hold": cases_files,
    "Machines": cases_faults,
}

INTRODUCTION: Final = """\
# Undo of files, tortured

`make torture` writes this page. An agent works in a folder, its turn is undone, and the whole folder is compared with what
should be there: content, links, permission bits, no file too many or too few, the times of files that did not have to
change, and of every repository in it branches, index and stash. Folders count by what is in them. One difference, and the
case is lost; a refusal that changes nothing counts where the case says so.

Every program is the released one, started with data of its own, and talks to a model on this machine that asks for the
same edits by the program's own tools (`tests/torture/fake_model.py`). "By shell" means that the agent ran a command, which
is how agents delete, rename and `chmod`. Where the user has changed something meanwhile and a program refuses for it, the
user answers: keep mine. What the others get wrong is noted here; ours has to be right, or `make torture` fails.
"""

LEFT_OUT: Final = """\
Not run: Gemini CLI 0.61.0, which follows the recipe of the last column, makes its checkpoints only in the interactive
terminal, while an edit waits for approval; its mode for editors (ACP) restores them, but makes none. cline 3.0.65 goes back
through its terminal or its SDK, and nothing here drives those yet. With Timeleap's hooks kimi-code, which undoes no files
itself, and opencode have played some of the cases so far: "not run" are those they have not.
"""


def page(played: Sequence[Played]) -> str:
    """The page."""
    by_agent = {
        agent.name: {each.case: each for each in played if each.agent == agent.name and each.case in CASES}
        for agent in ORDER
    }
    lines = [INTRODUCTION, *_programs(by_agent), "", LEFT_OUT]
    for title, module in PARTS.items():
        lines += [f"## {title}\n", f"| case | {' | '.join(by_agent)} |", f"|---|{'---|' * len(by_agent)}"]
        cases = [case for case in CASES.values() if case.play.__module__ == module.__name__]
        for case in cases:
            cells = [_cell(outcomes.get(case.key)) for outcomes in by_agent.values()]
            lines.append(f"| {_escaped(case.title)} ({case.source}) | {' | '.join(cells)} |")
        lines.append("")
        lines += [f"- **{_escaped(case.title)}** {_escaped(case.why)}" for case in cases]
        lines.append("")
    lines.append("## What went wrong\n")
    for name, outcomes in by_agent.items():
        lost = [outcome for outcome in outcomes.values() if outcome.problems]
        if lost:
            lines.append(f"### {name}\n")
            lines += [f"- {CASES[each.case].title}: {_told(each.problems)}" for each in lost]
            lines.append("")
    lines.append("One case alone: `.venv/bin/pytest -m torture tests/torture -k 'opencode and nested_without_commit'`.")
    return "\n".join(lines) + "\n"


def _programs(by_agent: Mapping[str, Mapping[str, Played]]) -> list[str]:
    lines = ["| program | version | how | right |", "|---|---|---|---|"]
    for agent in ORDER:
        outcomes = by_agent[agent.name].values()
        versions = ", ".join(sorted({each.version for each in outcomes})) or "not run"
        right = sum(not each.problems for each in outcomes)
        lines.append(f"| {agent.name} | {versions} | {agent.how} | **{right}** of {len(outcomes)} |")
    return lines


def _cell(outcome: Played | None) -> str:
    if outcome is None:
        return "not run"
    return " ".join([("**wrong**" if outcome.problems else "right"), *(f"({note})" for note in outcome.notes)])


def _told(problems: Sequence[str]) -> str:
    text = "; ".join(problems).replace("\n", " ")
    return _escaped(text if len(text) <= 300 else f"{text[:297]}...")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").replace("_", "\\_")


def main() -> None:
    """Write the page."""
    assert all((cases_faults, cases_files, cases_repositories, cases_turns))
    played = results.kept()
    if not played:
        raise SystemExit("no case was played yet: `make torture` does it")
    PAGE.write_text(page(played), "utf-8")
    wrong = [each.case for each in played if each.agent == Sidecar.name and each.problems]
    print(f"{PAGE.relative_to(PAGE.parents[1])}: {len(played)} outcomes; of ours wrong: {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main()
