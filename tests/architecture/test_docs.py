"""What the documents name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT, project_files

DOCUMENTS = [file for file in project_files() if file.suffix == ".md"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))


@by_name
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@by_name
def test_make_targets_exist(document: Path) -> None:
    named = set(re.findall(r"`make ([a-z-]+)", document.read_text("utf-8")))
    assert named - TARGETS == set()


def test_contributing_names_files_that_exist() -> None:
    named = re.findall(
        r"`((?:server|protocol|tests|examples|benchmarks|docs)/[\w./-]*)", (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    )
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_make_target_for_people_is_in_the_help() -> None:
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    helped = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert phony - helped == {"clean-coverage"}
