"""Find or make the environment that holds the original program: kimi-cli, as released, in a Python that it can run on.

The environment is `.tools/original` in the repository (git ignores it), the same one `make` sets up. Run this file
to make it beforehand: `python tests/interop/prepare.py`. What cannot be found is an error that says how to get it: an
interop test is never left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".tools" / "original"
VERSION = "1.52.0"
OLDEST = (3, 12)
PATIENCE = 900.0
"""Seconds to wait for another process that is making the environment."""

CHOICES = [os.environ.get(name, "") for name in ("TIMELEAP_INTEROP_PYTHON", "TIMELEAP_ORIGINAL_PYTHON")]
"""Read when the tests are collected: they run without the user's settings."""

_HAS_ORIGINAL = f"import importlib.metadata as m; assert m.version('kimi-cli') == '{VERSION}'"
_ADVICE = f"""\
The interop tests run the original program (kimi-cli {VERSION}), which needs Python {OLDEST[0]}.{OLDEST[1]} or newer. Install one with
  pyenv install 3.13            (or: uv python install 3.13)
  apt-get install python3.13 python3.13-venv   |   brew install python@3.13   |   winget install Python.Python.3.13
or name one: TIMELEAP_INTEROP_PYTHON=/path/to/python3.13"""


class NotPreparedError(Exception):
    """The original program cannot be run; the message says what to do."""


def original_python() -> Path:
    """A Python that can import the original program; its environment is made if need be.

    Raises:
        NotPreparedError: There is no such Python, or the program cannot be installed.
    """
    ready = _interpreter(ENVIRONMENT)
    if _runs(ready, _HAS_ORIGINAL):
        return ready
    with _alone():
        if not _runs(ready, _HAS_ORIGINAL):  # another process may have made it meanwhile
            _install(_find_python(), ready)
    return ready


def candidates() -> Iterator[str]:
    """Where a Python may be, the likeliest first."""
    yield from filter(None, CHOICES)
    names = [f"python3.{minor}" for minor in (14, 13, 12)]
    yield from filter(None, map(shutil.which, [*names, "python3", "python"]))
    yield sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for pattern in ("3.*/bin/python3", "3.*/python.exe"):
        yield from sorted(map(str, pyenv.glob(pattern)), key=_by_version, reverse=True)


def _find_python() -> Path:
    for candidate in candidates():
        # A name found on the PATH may be a shim that runs nothing: it is believed once it has answered.
        if _runs(Path(candidate), f"import ensurepip, sys, venv; sys.exit(sys.version_info[:2] < {OLDEST})"):
            return Path(candidate)
    raise NotPreparedError(_ADVICE)


def _install(python: Path, ready: Path) -> None:
    print(f"Installing kimi-cli {VERSION} into {ENVIRONMENT} with {python} ...", file=sys.stderr)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    for command in (
        [str(python), "-m", "venv", str(ENVIRONMENT)],
        [
            str(ready),
            "-m",
            "pip",
            "install",
            "-qq",
            "--no-compile",
            "--disable-pip-version-check",
            f"kimi-cli=={VERSION}",
        ],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotPreparedError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")


def _runs(python: Path, code: str) -> bool:
    try:
        return subprocess.run([str(python), "-c", code], capture_output=True, timeout=180, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _interpreter(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _by_version(path: str) -> list[int]:
    version = next((part for part in Path(path).parts if part.startswith("3.")), "3.0")
    return [int(number) for number in version.split(".") if number.isdigit()]


@contextmanager
def _alone() -> Iterator[None]:
    """Keep the test processes of one run from installing at the same time."""
    mark = ENVIRONMENT.with_suffix(".installing")
    mark.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            mark.mkdir()
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise NotPreparedError(f"{mark} stands in the way: remove it if nothing is being installed") from None
            time.sleep(0.5)
    try:
        yield
    finally:
        mark.rmdir()


if __name__ == "__main__":
    try:
        print(original_python())
    except NotPreparedError as error:
        sys.exit(str(error))
