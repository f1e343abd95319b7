"""The parts of a release: one version, workflows and a container file that their checkers accept, wheels for all platforms.

`make release-check VERSION=...` builds one and uses each artefact; it takes minutes, and is run before a tag.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT

from timeleap.version import __version__

RELEASE = runpy.run_path(str(ROOT / ".ci" / "release_check.py"))
TOOLS = ROOT / ".tools" / "release" / "bin"
INSTALL = "make .tools/release/.installed"
WORKFLOWS = sorted(str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("version", "expected"), [("1.2.3", "1.2.3"), ("1.0.0rc1", "1.0.0-rc.1"), ("2.0.0a3", "2.0.0-alpha.3")]
)
def test_a_version_is_written_as_npm_writes_it(version: str, expected: str) -> None:
    assert RELEASE["npm_version"](version) == expected


def test_all_packages_have_one_version() -> None:
    expected = RELEASE["npm_version"](__version__)
    for module in RELEASE["MODULES"]:
        for file in ("package.json", "package-lock.json"):
            assert json.loads((ROOT / module / file).read_text("utf-8"))["version"] == expected, f"{module}/{file}"
    for page in ("README.md", "README.zh-CN.md"):
        assert set(re.findall(r"timeleap-client-(\S+?)\.tgz", (ROOT / page).read_text("utf-8"))) == {expected}


def test_the_version_of_a_release_is_set_everywhere(tmp_path: Path) -> None:
    for name in ("server/timeleap/version.py", *(f"{module}/package.json" for module in RELEASE["MODULES"])):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True)
        copy.write_bytes((ROOT / name).read_bytes())
    RELEASE["set_version"](tmp_path, "9.8.7rc6")
    assert runpy.run_path(str(tmp_path / "server/timeleap/version.py"))["__version__"] == "9.8.7rc6"
    for module in RELEASE["MODULES"]:
        before = json.loads((ROOT / module / "package.json").read_text("utf-8"))
        after = json.loads((tmp_path / module / "package.json").read_text("utf-8"))
        assert after == before | {"version": "9.8.7-rc.6"}


def checker(name: str) -> str:
    if not (TOOLS / name).exists():
        pytest.skip(f"{name} is not installed: {INSTALL}")
    return str(TOOLS / name)


def accepted(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_workflows_have_the_shape_that_their_forge_asks_for() -> None:
    accepted([checker("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *WORKFLOWS])


@pytest.mark.long
def test_workflows_give_nothing_away() -> None:
    """Pinned actions, no more rights than a job needs, no credentials that stay, no text of others in a shell."""
    accepted([checker("zizmor"), "--offline", "--no-progress", *WORKFLOWS])


@pytest.mark.long
def test_the_container_file_is_written_as_its_linter_asks_for() -> None:
    accepted([checker("hadolint"), "Containerfile"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("platforms", "python"),
    [
        (["musllinux_1_2_x86_64", "musllinux_1_1_x86_64"], "3.11"),
        (["musllinux_1_2_aarch64", "musllinux_1_1_aarch64"], "3.13"),
        (["macosx_14_0_arm64", "macosx_11_0_arm64", "macosx_10_9_universal2"], "3.12"),
        (["win_amd64"], "3.13"),
    ],
    ids=["Alpine", "Alpine on ARM", "macOS", "Windows"],
)
def test_all_that_is_needed_has_a_wheel(platforms: list[str], python: str, tmp_path: Path) -> None:
    """An installation compiles nothing there: pip resolves our dependencies from wheels alone."""
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    # Markers are about the platform that pip runs on: what is for that alone is left out by hand.
    needed = [name.partition(";")[0].strip() for name in declared if "win_amd64" not in platforms or ";" not in name]
    accepted(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
            *("--target", str(tmp_path), "--only-binary", ":all:", "--python-version", python),
            *(option for platform in platforms for option in ("--platform", platform)),
            *needed,
        ]
    )
