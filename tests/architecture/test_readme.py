"""Everything the README shows is run: shell, Python, TypeScript and JSON alike."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.sources import ROOT

TYPESCRIPT = ROOT / "protocol" / "typescript"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block and the heading above it."""

    heading: str
    language: str
    text: str


def blocks(document: str) -> Iterator[Block]:
    heading = ""
    for match in re.finditer(
        r"^#+ (?P<heading>[^\n]+)$|^```(?P<language>\S*)\n(?P<text>.*?)^```$", document, re.MULTILINE | re.DOTALL
    ):
        if match["heading"]:
            heading = match["heading"]
        else:
            yield Block(heading, match["language"], match["text"])


BLOCKS = list(blocks(README))


def of(language: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language == language]
    return pytest.mark.parametrize("block", chosen, ids=[block.heading for block in chosen])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A store of its own, and the programs of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": path, "TIMELEAP_HOME": str(tmp_path / "store")}


def run(command: list[str], environment: dict[str, str], folder: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_block_is_of_a_language_that_is_run() -> None:
    assert {block.language for block in BLOCKS} == {"bash", "python", "typescript", "json"}


@of("bash")
def test_shell(block: Block, environment: dict[str, str]) -> None:
    # What make would do is not done from within a test that make runs; that it could be done is checked.
    preamble = 'set -euo pipefail; make() { command make --dry-run "$@" >/dev/null; }\n'
    run(["bash", "-c", preamble + block.text], environment)


@of("python")
def test_python(block: Block, environment: dict[str, str], tmp_path: Path) -> None:
    run([sys.executable, "-c", block.text], environment, tmp_path)


@of("typescript")
def test_typescript(block: Block, environment: dict[str, str], tmp_path: Path) -> None:
    """Compiled as strictly as our own, then run."""
    modules = tmp_path / "node_modules"
    modules.mkdir()
    for name in ("timeleap-client", "@types"):
        target = TYPESCRIPT if name == "timeleap-client" else TYPESCRIPT / "node_modules" / name
        (modules / name).symlink_to(target, target_is_directory=True)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "example.ts").write_text(block.text)
    node = shutil.which("node") or "node"
    compiler = str(TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc")
    flags = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    run([node, compiler, *flags, "example.ts"], environment, tmp_path)
    run([node, "example.js"], environment, tmp_path)


@of("json")
def test_settings_of_an_lsp_client(block: Block, environment: dict[str, str]) -> None:
    """The command starts, and every initialization option is known."""
    settings = json.loads(block.text)
    options = {"initializationOptions": settings["initializationOptions"]}
    replies = converse([settings["command"], *settings["args"]], environment, [("initialize", options)])
    assert replies[0]["result"]["serverInfo"]["name"] == "timeleap"
    assert "warnings" not in json.dumps(replies[0])


def converse(command: list[str], environment: dict[str, str], calls: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    requests = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls)
    ]
    done = subprocess.run(
        command, env=environment, input="\n".join(requests), capture_output=True, text=True, timeout=60, check=True
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [message for message in messages if message.get("method") == "window/showMessage"]
    return [message for message in messages if "id" in message]


def test_the_configuration_table_names_every_option() -> None:
    from timeleap_protocol.lifecycle import InitializationOptions

    section = README.partition("## Configuration")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    known = {field.alias or name for name, field in InitializationOptions.model_fields.items()} - {"token"}
    assert named == known


def test_the_picture_is_there() -> None:
    picture = re.search(r"!\[.*?\]\((docs/.*?\.svg)\)", README)
    assert picture
    assert "timeleap" in (ROOT / picture[1]).read_text(encoding="utf-8")
