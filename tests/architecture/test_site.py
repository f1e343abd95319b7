"""The site is built from all documents: every link leads to a page, every anchor to a heading, and nothing is fetched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT

from timeleap.cli.command_table import TABLE

pytestmark = pytest.mark.long
INSTALL = "make .tools/site/.installed"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built; mkdocs refuses one with a link or an anchor that leads nowhere."""
    if not (ROOT / ".tools" / "site" / "bin" / "mkdocs").exists():
        pytest.skip(f"mkdocs is not installed: {INSTALL}")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "docs" / "site.py"), os.path.relpath(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_each_method_has_an_exchange(site: Path) -> None:
    page = (site / "reference" / "methods.html").read_text("utf-8")
    methods = {
        json.loads(next(folder.glob("*.json")).read_text("utf-8"))["method"]
        for folder in (ROOT / "protocol" / "golden").iterdir()
    }
    shown = set(re.findall(r"<h2[^>]*>([^<]+)<", page))
    assert len(methods) > 80
    assert shown == methods


def test_each_command_is_explained(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text("utf-8")
    assert set(TABLE) <= set(re.findall(r"<h3[^>]*>timeleap ([\w-]+)<", page))
    assert page.count("Usage: timeleap") > len(TABLE)


def test_the_typescript_client_is_described(site: Path) -> None:
    page = (site / "reference" / "typescript.html").read_text("utf-8")
    assert "TimeleapClient" in re.findall(r"<h2[^>]*>(\w+)<", page)
    assert "private" not in page


def test_the_pages_in_chinese_are_there(site: Path) -> None:
    for page in (ROOT / "docs" / "zh").glob("*.md"):
        heading = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        assert heading in (site / "docs" / "zh" / f"{page.stem}.html").read_text("utf-8")


def test_a_session_is_there_as_a_page(site: Path) -> None:
    assert "session.html" in (site / "live" / "index.html").read_text("utf-8")
    assert "to_cents" in (site / "live" / "session.html").read_text("utf-8")


def test_no_page_fetches_anything(site: Path) -> None:
    fetched = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    allowed = re.compile(r"""rel=["']?(?:canonical|alternate)""")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    found = [
        (page.name, tag)
        for page in pages
        for tag in fetched.findall(page.read_text("utf-8"))
        if not allowed.search(tag)
    ]
    assert found == []
