"""The page about clients in other languages: its types are generated, its program is compiled and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text("utf-8")
TOOLS = ROOT / ".tools" / "clients"
QUICKTYPE = TOOLS / "node_modules" / ".bin" / "quicktype"
INSTALL = "make .tools/clients/.installed"


def block(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def run(command: list[str], folder: Path, **variables: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "TIMELEAP_HOME": str(folder / "store"), **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's commands were run."""
    if not QUICKTYPE.exists():
        pytest.skip(f"quicktype is not installed: {INSTALL}")
    folder = tmp_path_factory.mktemp("client")
    run(
        ["bash", "-euo", "pipefail", "-c", 'npx() { "$QUICKTYPE" "${@:2}"; }\n' + block("bash")],
        folder,
        QUICKTYPE=str(QUICKTYPE),
    )
    return folder


@pytest.mark.slow
@pytest.mark.long
def test_each_message_has_a_type_of_its_own(folder: Path) -> None:
    types = set(re.findall(r"^type (\w+) struct", (folder / "timeleap.go").read_text("utf-8"), re.MULTILINE))
    for method in ("SessionOpen", "ContextAppendMessage", "ContextGetHistory"):
        assert {f"{method}Request", f"{method}Response"} <= types
    assert {"AppendMessageParams", "AppendMessageResult", "SessionState", "ErrorResponse"} <= types


@pytest.mark.slow
@pytest.mark.long
def test_the_program_runs(folder: Path) -> None:
    go = shutil.which("go") or shutil.which("go", path=str(TOOLS / "go" / "go" / "bin"))
    if go is None:
        pytest.skip(f"Go is not installed: {INSTALL}, or apt-get install golang-go")
    (folder / "main.go").write_text(block("go"))
    variables = {
        "GOCACHE": str(folder / "cache"),
        "GOPATH": str(folder / "path"),
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
    }
    run([go, "mod", "init", "example"], folder, **variables)
    run([go, "build", "-o", "client", "."], folder, **variables)
    assert run([str(folder / "client")], folder) == block("text")
