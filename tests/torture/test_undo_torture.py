"""Undo of files, tortured: every case is played with Timeleap, two agents and the usual recipe; docs/undo-torture.md shows it.

The agents are released programs, and the model they talk to is ours (`fake_model.py`). What theirs get wrong is noted, not
asserted; ours has to be right in all. `make torture` installs them; without them their half is left out.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.torture import some
from tests.torture import cases_faults, cases_files, cases_repositories, cases_turns, hooked, results
from tests.torture.agent import TOOLS, Agent, TurnFailedError
from tests.torture.cases import CASES, Case
from tests.torture.claude_code import ClaudeCode
from tests.torture.fake_model import FakeModel
from tests.torture.opencode import Opencode
from tests.torture.scene import Scene
from tests.torture.shadow_git import ShadowGit
from tests.torture.sidecar import Sidecar

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1800)]

assert all((cases_faults, cases_files, cases_repositories, cases_turns))  # they have entered their cases

AGENTS: dict[str, type[Agent]] = {
    "timeleap": Sidecar,
    "opencode": Opencode,
    "hooked-opencode": hooked.Opencode,
    "hooked-kimi-code": hooked.KimiCode,
    "claude-code": ClaudeCode,
    "shadow-git": ShadowGit,
}
UNPRIVILEGED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--")


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    """What the agents talk to."""
    model = FakeModel()
    yield model
    model.stop()


@contextlib.contextmanager
def _small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own there, for the time of a block; needs the right to mount."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("case", some([*CASES.values()]), ids=lambda case: case.key)
@pytest.mark.parametrize("name", AGENTS)
def test_undo(name: str, case: Case, model: FakeModel, tmp_path: Path) -> None:
    if name not in {"timeleap", "shadow-git"} and not TOOLS.exists():
        pytest.skip("the agents are not installed: `make torture` does it")
    prefix = UNPRIVILEGED if case.unprivileged and os.geteuid() == 0 else ()
    with contextlib.ExitStack() as stack:
        if case.small_disk:
            stack.enter_context(_small_disk(tmp_path / case.home, case.small_disk))
        scene = Scene(tmp_path, lambda home, user: AGENTS[name](home, user, model, prefix), home=case.home)
        stack.callback(scene.agent.close)
        try:
            case.play(scene)
        except TurnFailedError as error:
            scene.problems.append(f"the turn itself failed: {error}")
    results.keep(name, AGENTS[name], case, scene)
    if name == "timeleap":
        assert not scene.problems, "\n".join(scene.problems)
