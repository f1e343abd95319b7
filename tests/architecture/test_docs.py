"""What the documents name exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.sources import BESIDE, CLIENT, PROTOCOL, ROOT, imports, modules, project_files, server_modules

from timeleap.cli.command_table import TABLE
from timeleap.cli.parameters import Commands

DOCUMENTS = [file for file in project_files() if file.suffix == ".md"]
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))


@by_name
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@by_name
def test_make_targets_exist(document: Path) -> None:
    named = set(re.findall(r"`make ([a-z0-9-]+)", document.read_text("utf-8")))
    assert named - TARGETS == set()


def test_contributing_names_files_that_exist() -> None:
    named = re.findall(
        r"`((?:server|protocol|tests|examples|benchmarks|docs)/[\w./-]*)", (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    )
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []


FENCED = re.compile(r"^```(?:bash|sh)\n(.*?)^```|^    (timeleap .*)$", re.MULTILINE | re.DOTALL)
GROUPS = ("agents", "config", "dmail", "files", "store", "subagents", "trash")
NAMED = re.compile(r"(?:^|[|;&(`]\s*|\bsudo )timeleap ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)", re.MULTILINE)


def test_commands_exist() -> None:
    """Each `timeleap COMMAND` in a block or between backquotes is one; of a group its second word is one, too."""
    groups = {name: entry.load() for name, entry in TABLE.items() if name in GROUPS}
    missing = []
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        code = [block or line for block, line in FENCED.findall(text)]
        code += re.findall(r"`timeleap [^`\n]+`", FENCED.sub("", text))
        for words in map(str.split, NAMED.findall("\n".join(code))):
            group = groups.get(words[0])
            known = {each.name for each in group.members} if isinstance(group, Commands) else set(words[1:])
            if words[0] not in {*TABLE, "help"} or not known.issuperset(words[1:]):
                missing.append(f"{document.relative_to(ROOT)}: timeleap {' '.join(words)}")
    assert missing == []


def test_every_make_target_for_people_is_in_the_help() -> None:
    phony = set(re.findall(r"^\.PHONY: ([a-z0-9-]+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    helped = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert phony - helped == {"clean-coverage"}


def test_the_reference_of_the_python_client_is_fresh_and_whole() -> None:
    check = [sys.executable, str(ROOT / "docs" / "reference.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "python-client.md").read_text("utf-8")
    import timeleap.client as library

    for name in ("AsyncTimeleap", "AsyncSession", "SyncTimeleap", "SyncSession", "Notification", "TimeleapRpcError"):
        assert re.search(rf"^#+ {name}$", page, re.MULTILINE)
    for member in (*vars(library.AsyncSession), *vars(library.RawTimeleap)):
        value = getattr(library.AsyncSession, member, getattr(library.RawTimeleap, member, None))
        assert member.startswith("_") or not callable(value) or f"{member}(" in page, (
            f"{member} is not in the reference"
        )


@pytest.mark.long
def test_the_picture_shows_what_the_commands_show() -> None:
    check = [sys.executable, str(ROOT / "docs" / "picture.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_stop_of_the_tour_through_the_source_exists() -> None:
    tour = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Reading the source")[2]
    stops = re.findall(r"`(server/timeleap/[\w/]+\.py)`(?:\s+`(\w+)`)?", tour)
    assert len(stops) > 20
    for file, name in stops:
        source = (ROOT / file).read_text("utf-8")
        assert not name or re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", source, re.MULTILINE), (
            f"{name} of {file}"
        )


def test_every_dependency_is_explained_and_everything_imported_is_one() -> None:
    declared = set(
        re.findall(r'^    "([\w-]+)[>=~]', PYPROJECT.partition("dependencies = [")[2].partition("]")[0], re.MULTILINE)
    )
    extras = PYPROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    declared |= set(re.findall(r'"([\w-]+)(?:\[\w+\])?[>=~]', extras))
    table = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Dependencies")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z][\w, -]+?) \|", table, re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} - {"package"} == declared
    ours = {*sys.stdlib_module_names, "timeleap", "timeleap_client", "timeleap_command", "timeleap_protocol"}
    ours |= {package.name for package in BESIDE}
    imported = {
        name.split(".")[0]
        for module in server_modules() + modules(CLIENT) + modules(PROTOCOL)
        for name in imports(module)
    }
    companions = {
        "pydantic_core",
        "re2",
        "kingfisher_sdk",
        "mcp_types",
        "claude_agent_sdk",
        "pydantic_ai",
    }  # what packages are imported as
    assert imported - ours - companions <= declared
