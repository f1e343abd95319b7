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
    """A fenced block, the heading above it, and what it is said to print."""

    heading: str
    language: str
    text: str
    output: str


def blocks(document: str) -> Iterator[Block]:
    """The blocks that are run; a `text` block is the output of the one before it."""
    heading = ""
    for match in re.finditer(
        r"^#+ (?P<heading>[^\n]+)$"
        r"|^```(?P<language>\S*)\n(?P<text>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?",
        document,
        re.MULTILINE | re.DOTALL,
    ):
        if match["heading"]:
            heading = match["heading"]
        else:
            yield Block(heading, match["language"], match["text"], match["output"] or "")


BLOCKS = list(blocks(README))
INSTALLATION = "npm install"
"""What tells the commands of another project, which are not run in the checkout."""


def of(language: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language == language and INSTALLATION not in block.text]
    return pytest.mark.parametrize("block", chosen, ids=[block.heading for block in chosen])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A store and settings of agents of its own, and the programs of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"TIMELEAP_HOME": str(tmp_path / "store"), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    return os.environ | own | {"PATH": path, "COLUMNS": "120"}


def run(command: list[str], environment: dict[str, str], folder: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_printed(expected: str, printed: str) -> None:
    """The README's text is what was printed; `...` stands for anything."""
    pattern = ".*?".join(re.escape(piece) for piece in re.split(r"(?:(?<=\n)|\A)\.\.\.\n|\.\.\.", expected))
    assert re.fullmatch(pattern, printed, re.DOTALL), f"the README says:\n{expected}\nprinted was:\n{printed}"


def test_every_block_is_of_a_language_that_is_run() -> None:
    assert {block.language for block in BLOCKS} == {"bash", "python", "typescript", "json"}


# What make and pip would do is not done from within a test that make runs; that it could be done is checked.
PREAMBLE = """
set -euo pipefail
make() { command make --dry-run "$@" | grep "$BINARIES/\\(timeleap $1\\|python -m pytest\\)" >/dev/null; }
pip() { python -m pip "$1" --quiet --dry-run --no-index --no-deps --no-build-isolation "${@:2}"; }
"""


@of("bash")
def test_shell(block: Block, environment: dict[str, str]) -> None:
    printed = run(["bash", "-c", PREAMBLE + block.text], environment | {"BINARIES": ".venv/bin"})
    assert_printed(block.output, printed)


def test_the_pipeline_is_the_same_in_every_shell(environment: dict[str, str]) -> None:
    [block] = [block for block in BLOCKS if "--fail-on-error" in block.text]
    assert_printed(block.output, run(["sh", "-c", block.text], environment))


def test_two_requests_with_one_id_are_not_both_done(environment: dict[str, str]) -> None:
    """What the README warns of is seen by whoever follows it."""
    [block] = [block for block in BLOCKS if "--fail-on-error" in block.text]
    same = block.text.replace("id=$((id + 1))", "id=1")
    assert same != block.text
    done = subprocess.run(
        ["bash", "-c", PREAMBLE + same], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )  # fmt: skip
    assert done.returncode == 5
    assert "1: done" in done.stdout
    assert done.stdout.count("done") < len(re.findall("done", block.output))


@of("python")
def test_python(block: Block, environment: dict[str, str], tmp_path: Path) -> None:
    assert_printed(block.output, run([sys.executable, "-c", block.text], environment, tmp_path))


@pytest.fixture(scope="session")
def neighbour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkout `timeleap` in it, as far as its TypeScript client goes, and the package made of it."""
    folder = tmp_path_factory.mktemp("neighbour")
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "protocol/typescript"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in files:
        copy = folder / "timeleap" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
    checkout = folder / "timeleap" / "protocol" / "typescript"
    (checkout / "node_modules").symlink_to(TYPESCRIPT / "node_modules", target_is_directory=True)
    (folder / "timeleap" / "client-vscode").mkdir()
    npm("pack", "--silent", "--offline", "--pack-destination", "../../client-vscode", folder=checkout)
    shutil.rmtree(checkout / "dist")
    return folder


def npm(*arguments: str, folder: Path) -> None:
    # A file of its own for the user's settings: what they say is not what is tested.
    environment = os.environ | {"NPM_CONFIG_USERCONFIG": str(folder / "none"), "NPM_CONFIG_OFFLINE": "true"}
    run([shutil.which("npm") or "npm", *arguments], environment, folder)


INSTALLATIONS = [
    line.partition("#")[0].strip()
    for block in BLOCKS if block.language == "bash" and INSTALLATION in block.text
    for line in block.text.splitlines()
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("installation", INSTALLATIONS)
@pytest.mark.long
def test_typescript(installation: str, environment: dict[str, str], neighbour: Path, tmp_path_factory: Any) -> None:
    """Installed in an empty project in each way the README names; compiled as strictly as our own, then run."""
    [block] = [block for block in BLOCKS if block.language == "typescript"]
    project = neighbour / f"project-{INSTALLATIONS.index(installation)}"
    project.mkdir()
    (project / "package.json").write_text('{"type": "module"}')
    command, *arguments = installation.split()
    assert command == "npm"
    npm(*arguments, "--no-audit", "--no-fund", folder=project)
    node = shutil.which("node") or "node"
    for name, text in (
        ("module.mjs", 'import * as names from "timeleap-client"; import { TimeleapClient, TimeleapError } from "timeleap-client";'),
        ("common.cjs", 'const names = require("timeleap-client"); const { TimeleapClient, TimeleapError } = names;'),
    ):  # fmt: skip
        (project / name).write_text(
            f"{text} console.log(typeof TimeleapClient.start, typeof TimeleapError, typeof names)"
        )
        assert run([node, name], environment, project) == "function function object\n"

    (project / "node_modules" / "@types").symlink_to(TYPESCRIPT / "node_modules" / "@types", target_is_directory=True)
    (project / "example.ts").write_text(block.text)
    compiler = str(TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc")
    flags = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    run([node, compiler, *flags, "example.ts"], environment, project)
    assert_printed(block.output, run([node, "example.js"], environment, project))


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
        command, env=environment, input="\n".join(requests), capture_output=True, text=True, timeout=180, check=True
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [message for message in messages if message.get("method") == "window/showMessage"]
    return [message for message in messages if "id" in message]


def test_the_contents_lead_to_headings() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    }
    named = re.findall(r"\]\(#([a-z0-9-]+)\)", README)
    assert len(named) > 10
    assert set(named) - headings == set()


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
