"""What people and CI rely on before any test has run: clear words when something is missing, and no silent skips."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from tests.architecture.sources import ROOT

SKIPPING = """
import pytest

def test_skipped_inside():
    pytest.skip("no time")

@pytest.mark.skip(reason="no idea")
def test_skipped_outside(): ...

@pytest.mark.xfail(reason="known to be broken")
def test_expected_to_fail():
    assert False

def test_fine(): ...
"""


def require(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / ".ci" / "require"), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("kind", "package"), [("python", "python3-venv"), ("node", "nodejs")])
def test_what_is_missing_is_said_in_words_with_the_command_that_installs_it(kind: str, package: str) -> None:
    done = require(kind, "99.9" if kind == "python" else "99")
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"Timeleap needs {kind} 99" in done.stderr
    assert "apt-get install" in done.stderr
    assert package in done.stderr


def test_the_demo_needs_no_node_and_says_what_to_do_in_a_checkout_that_cannot_be_written_to(tmp_path: Path) -> None:
    steps = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not re.search(r"\b(node|npm)\b", steps)
    (tmp_path / "file").write_text("no folder can be made below it")
    venv = f"VENV={tmp_path}/file/venv"
    done = subprocess.run(["make", "demo", venv], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Set up elsewhere: make demo VENV=" in done.stderr


def test_a_python_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 127\n")
    broken.chmod(0o755)
    done = require("python", "3.11", PATH=os.pathsep.join([str(tmp_path), os.environ["PATH"]]), PYTHON=sys.executable)
    assert done.stdout.strip() == sys.executable
    assert require("python", "3.11", PYTHON=str(broken)).returncode == 0


def outcome_in(ci: str, folder: Path) -> str:
    (folder / "test_skipping.py").write_text(SKIPPING)
    (folder / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.conftest",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--continue-on-collection-errors",
            ".",
        ],
        cwd=folder,
        env=os.environ | {"CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_what_is_long_says_so_in_its_own_file() -> None:
    """`make test-long` collects the files that name the mark, or `mostly_long`, and all of tests/wire."""
    marking = re.compile(r"mark\.(long|in_pairs|alone)|add_marker|pytest\.mark,")
    others = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        if not file.name.startswith("test_") and marking.search(file.read_text("utf-8"))
    ]
    assert sorted(others) == ["tests/support/mostly_long.py", "tests/wire/conftest.py"]


@pytest.mark.long
def test_in_ci_nothing_is_skipped(tmp_path: Path) -> None:
    output = outcome_in("true", tmp_path)
    assert "2 failed, 1 passed, 2 errors" in output
    for reason in (
        "Skipped: no time",
        "Skipped: no idea",
        "expected to fail: known to be broken",
        "Skipped: could not",
    ):
        assert f"nothing is skipped in CI: {reason}" in output


def test_elsewhere_tests_may_skip(tmp_path: Path) -> None:
    output = outcome_in("", tmp_path)
    assert "1 passed, 3 skipped, 1 xfailed" in output


def test_the_wheel_has_our_packages_at_its_top() -> None:
    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {name.partition("/")[0] for name in files} == {
        "timeleap",
        "timeleap_agents",
        "timeleap_client",
        "timeleap_command.py",
        "timeleap_lsp",
        "timeleap_postgresql",
        "timeleap_protocol",
    }
    assert {"timeleap_client/py.typed", "timeleap_client/_methods_async.py", "timeleap/client/__init__.py"} <= files
