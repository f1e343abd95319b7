"""What every file of the project keeps to: size, and nothing of the machine it was written on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT, project_files

LONGEST = 600  # lines of one module; beyond that a second noun has crept in
STILL_LONGER = {
    "server/timeleap/features/files/snapshot.py": 617,
    "server/timeleap/storage/durable.py": 707,
    "server/timeleap/storage/jsonl.py": 607,
}
"""Modules that have a second noun, and how long they are at most until it gets a module of its own."""
LONGEST_TEST = 800  # a table of cases has no second noun, but nobody reads on for ever

# Put together from pieces, so that this file does not hold what it looks for.
HOSTS = "|".join(re.escape(".".join(parts)) for parts in (
    ("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs", "org"), ("deb", "debian", "org"), ("npmmirror", "com"),
))  # fmt: skip
OF_ONE_MACHINE = re.compile(rf"(?<![\w.])/(?:work|root)/|{HOSTS}")


def generated(file: Path) -> bool:
    with file.open(encoding="utf-8") as lines:
        return "Generated from" in lines.readline()


def test_no_module_is_longer_than_one_noun_needs() -> None:
    sources = [file for file in project_files() if file.suffix in {".py", ".ts", ".mjs"} and not generated(file)]
    assert sources
    long = {
        name: count
        for file in sources
        if (count := len(file.read_text("utf-8").splitlines())) > allowed(name := file.relative_to(ROOT).as_posix())
    }
    assert not long


def allowed(name: str) -> int:
    return LONGEST_TEST if name.startswith("tests/") else STILL_LONGER.get(name, LONGEST)


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    here = re.compile("|".join(map(re.escape, {f"{ROOT}/", f"{Path.home()}/"})))
    found: list[str] = []
    for file in project_files():
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if hit := OF_ONE_MACHINE.search(line) or here.search(line):
                found.append(f"{file.relative_to(ROOT)}:{number}: {hit[0]}")
    assert not found, found


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("open('/" + "work/main/x')", True),
        ('"resolved": "https://registry.' + 'npmjs.org/ws"', True),
        ("/home/ada/project", False),
        ("../shared/data", False),
        ("network/ro" + "ot/x", False),
    ],
)
def test_the_search_finds_what_it_should(line: str, caught: bool) -> None:
    assert bool(OF_ONE_MACHINE.search(line)) is caught


def test_the_sample_session_is_the_one_the_package_brings() -> None:
    packaged = ROOT / "server" / "timeleap" / "cli" / "data" / "sample-session.jsonl"
    assert packaged.read_bytes() == (ROOT / "examples" / "sample-session.jsonl").read_bytes()
