"""Seeded faults, as `faults.toml` lists them: applied in a copy of the checkout, in which their tests must fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = Path(__file__).with_name("faults.toml")
APART: Final = Path(__file__).with_name("apart.sh")
SOURCE: Final = Path("server", "timeleap")
COPIED: Final = ("server", "protocol", "tests", "examples", "pyproject.toml", "README.md", "docs", "benchmarks")
PYTHON_PATH: Final = ("server", "protocol", "protocol/python")
LONGEST: Final = 400
"""Seconds that the tests of one fault may take: a fault that makes them wait for ever is found all the same."""
FAILED: Final = 1
"""What pytest ends with where tests failed, and nothing else went wrong."""


@dataclass(frozen=True)
class Fault:
    """A change of the source.

    Attributes:
        guarantee: What it breaks, as docs/reliability.md names it.
        breaks: The same in words.
        file: Below `server/timeleap`.
        text: What is replaced; it stands there once.
        becomes: What takes its place.
        tests: Of which at least one must fail, below `tests`.
    """

    guarantee: str
    breaks: str
    file: str
    text: str
    becomes: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """Tells it from all others, in an id of a test."""
        return re.sub(r"\W+", "-", self.breaks)[:60].strip("-")


@cache
def all_faults() -> tuple[Fault, ...]:
    """The faults of the list, in its order."""
    listed = tomllib.loads(LIST.read_text("utf-8"))["fault"]
    return tuple(Fault(**{**each, "tests": tuple(each["tests"])}) for each in listed)


@contextmanager
def own_folder() -> Iterator[Path]:
    """An empty folder within the checkout, for the time of a block: /tmp is another one for what is run apart."""
    (ROOT / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache", prefix="with-faults-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def copied_checkout() -> Iterator[Path]:
    """A copy of what the tests need of this checkout, with its environment and tools, for the time of a block."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *COPIED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    with own_folder() as folder:
        for file in listed.stdout.splitlines():
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        for tools in (".venv", ".tools"):
            if (ROOT / tools).exists():
                (folder / tools).symlink_to((ROOT / tools).resolve())
        (folder / ".home").mkdir()
        yield folder


def apart(folder: Path) -> list[str]:
    """The beginning of a command that can change nothing but a folder: a fault may have it remove whatever a test names."""
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    alone = ["unshare", *own_user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*alone, "sh", str(APART), str(folder)]


@cache
def can_be_apart() -> bool:
    """True if this machine has namespaces, and lets us make them."""
    with own_folder() as folder:
        return subprocess.run([*apart(folder), "true"], capture_output=True, check=False).returncode == 0


def tests_that_fail(fault: Fault, checkout: Path) -> list[str]:
    """Run the tests of a fault with the fault in a copied checkout; the ids of those that fail, up to the first."""
    source = checkout / SOURCE / fault.file
    sound = source.read_text("utf-8")
    assert sound.count(fault.text) == 1
    source.write_text(sound.replace(fault.text, fault.becomes), "utf-8")
    try:
        return failing(fault.tests, checkout)
    finally:
        source.write_text(sound, "utf-8")


def failing(tests: Sequence[str], checkout: Path) -> list[str]:
    """Run some tests in a copied checkout, apart; the ids of those that fail, up to the first, or of all if they hang."""
    options = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "",
        "-rfE",
        "--timeout=120",
        f"--basetemp={checkout}/.pytest",
    ]
    command = [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)]
    # Python tells by times of whole seconds whether a module was compiled since it changed.
    own = {"PYTHONDONTWRITEBYTECODE": "1", "HOME": f"{checkout}/.home", "COLUMNS": "1000"}
    own["PYTHONPATH"] = os.pathsep.join(str(checkout / name) for name in PYTHON_PATH)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TIMELEAP_"))}
    try:
        done = subprocess.run(
            [*apart(checkout), *command],
            env=environment | own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return _named((late.stdout or b"").decode()) or list(tests)
    failed = _named(done.stdout)
    if done.returncode not in (0, FAILED) or (done.returncode == FAILED and not failed):
        raise AssertionError(f"the tests did not run:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    return failed


def _named(printed: str) -> list[str]:
    """The ids of tests that failed, by what pytest printed."""
    return re.findall(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", printed, re.MULTILINE)
