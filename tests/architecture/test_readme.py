"""Examples of the README and of the pages for newcomers, in both languages: all are run, and all print what the page says."""

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
from tests.support.claude_file import ClaudeFile

TYPESCRIPT = ROOT / "protocol" / "typescript"
READMES = ("README.md", "README.zh-CN.md")
PAGES = (
    *READMES,
    "docs/start.md",
    "docs/zh/start.md",
    "docs/command-line.md",
    "docs/sharing.md",
    "docs/files.md",
    "docs/zh/files.md",
    "docs/kimi-cli.md",
    "docs/build-an-agent.md",
)
"""Pages whose examples are run here; the tests of the others are named as the page is."""
TRANSLATED = {
    "README.md": "README.zh-CN.md",
    "client-vscode/README.md": "docs/zh/vscode.md",
    **{
        f"docs/{page.name}": f"docs/zh/{page.name}"
        for page in (ROOT / "docs" / "zh").glob("*.md")
        if page.name != "vscode.md"
    },
}
LONGEST_README = 220  # lines


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


README = text_of("README.md")


@dataclass(frozen=True)
class Block:
    """A fenced block, the heading above it, and what it is said to print."""

    page: str
    heading: str
    language: str
    text: str
    output: str


def blocks(page: str) -> Iterator[Block]:
    """The blocks that are run; a `text` block is the output of the one before it."""
    heading = ""
    for match in re.finditer(
        r"^#+ (?P<heading>[^\n]+)$"
        r"|^```(?P<language>\S*)\n(?P<text>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?",
        text_of(page),
        re.MULTILINE | re.DOTALL,
    ):
        if match["heading"]:
            heading = match["heading"]
        else:
            yield Block(page, heading, match["language"], match["text"], match["output"] or "")


BLOCKS = [block for page in PAGES for block in blocks(page)]
INSTALLATION = "npm install"
"""What tells the commands of another project, which are not run in the checkout."""


def of(language: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language == language and INSTALLATION not in block.text]
    return pytest.mark.parametrize("block", chosen, ids=[f"{block.page}-{block.heading}" for block in chosen])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home with a conversation of Claude Code in it, a store of its own, and the programs of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = tmp_path / "person"
    (home / "shop").mkdir(parents=True)
    ClaudeFile(home / "claude" / "projects", str(home / "shop")).asks("Why does the login fail?")
    own = {"HOME": str(home), "TIMELEAP_HOME": str(tmp_path / "store"), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    return os.environ | own | {"PATH": path, "COLUMNS": "120"}


def run(command: list[str], environment: dict[str, str], folder: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def assert_printed(expected: str, printed: str) -> None:
    """The page's text is what was printed, columns set apart by any space; `...` stands for anything."""
    pattern = ".*?".join(re.escape(piece) for piece in re.split(r"(?:(?<=\n)|\A)\.\.\.\n|\.\.\.", expected))
    pattern = re.sub(r"(?:\\ ){2,}", r"\\s+", pattern)
    assert re.fullmatch(pattern, printed, re.DOTALL), f"the README says:\n{expected}\nprinted was:\n{printed}"


def test_every_block_is_of_a_language_that_is_run() -> None:
    assert {block.language for block in BLOCKS} == {"bash", "python", "typescript"}


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


PIPELINE = "--fail-on-error"


def test_the_pipeline_is_the_same_in_every_shell(environment: dict[str, str]) -> None:
    [block] = [block for block in BLOCKS if PIPELINE in block.text]
    assert_printed(block.output, run(["sh", "-c", block.text], environment))


def test_two_requests_with_one_id_are_not_both_done(environment: dict[str, str]) -> None:
    """The pipeline fails in the way that its page warns of."""
    [block] = [block for block in BLOCKS if PIPELINE in block.text]
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
    for block in blocks("README.md") if block.language == "bash" and INSTALLATION in block.text
    for line in block.text.splitlines()
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("installation", INSTALLATIONS)
@pytest.mark.long
def test_typescript(installation: str, environment: dict[str, str], neighbour: Path, tmp_path_factory: Any) -> None:
    """Installed in an empty project in each way the README names; compiled as strictly as our own, then run."""
    examples = [block for block in BLOCKS if block.language == "typescript"]
    assert [block.page for block in examples] == list(READMES)
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
    compiler = str(TYPESCRIPT / "node_modules" / "typescript" / "bin" / "tsc")
    flags = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    for number, block in enumerate(examples):
        (project / f"example{number}.ts").write_text(block.text, encoding="utf-8")
    run([node, compiler, *flags, *(f"example{number}.ts" for number, _ in enumerate(examples))], environment, project)
    for number, block in enumerate(examples):
        assert_printed(block.output, run([node, f"example{number}.js"], environment, project))


def test_settings_of_an_lsp_client(environment: dict[str, str]) -> None:
    """The command starts, and every initialization option is known."""
    [block] = [block for block in blocks("docs/clients.md") if block.language == "json"]
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


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted({*PAGES, *TRANSLATED, *TRANSLATED.values()}))
def test_links_lead_to_headings(page: str) -> None:
    named = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text_of(page))
    folder = (ROOT / page).parent
    missing = []
    for file, anchor in named:
        target = (folder / file).resolve().relative_to(ROOT).as_posix() if file else page
        if anchor not in anchors(target):
            missing.append(f"{file}#{anchor}")
    assert not missing


@pytest.mark.parametrize("page", READMES)
def test_the_readme_is_read_in_a_few_minutes(page: str) -> None:
    assert len(text_of(page).splitlines()) <= LONGEST_README


def skeleton(code: str) -> str:
    """Code without comments and without the words of its strings, which a translation may change."""
    code = re.sub(r"(?:^|(?<=\s))(?:#|//) .*", "", code, flags=re.MULTILINE)
    code = re.sub(r"\"[^\"\n]*\"|`[^`\n]*`", '""', code)
    return "\n".join(line.rstrip() for line in code.splitlines())


@pytest.mark.parametrize("page", sorted(TRANSLATED))
def test_both_languages_have_the_same_examples(page: str) -> None:
    """Neither has an example, or a command that is set apart, which the other one lacks."""

    def examples(text: str) -> list[str]:
        fenced = [
            f"{language}\n{skeleton(code)}"
            for language, code in re.findall(r"^```(\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        ]
        return [code for code in fenced if not code.startswith("text\n")] + [
            skeleton(line)
            for line in re.findall(
                r"^    \S.*$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
            )
        ]

    assert examples(text_of(TRANSLATED[page])) == examples(text_of(page))


@pytest.mark.parametrize("page", sorted(TRANSLATED))
def test_both_languages_lead_to_each_other(page: str) -> None:
    chinese = TRANSLATED[page]
    for here, there in ((page, chinese), (chinese, page)):
        link = os.path.relpath(ROOT / there, (ROOT / here).parent)
        assert f"]({Path(link).as_posix()})" in text_of(here), f"{here} does not lead to {there}"


def test_the_configuration_table_names_every_option() -> None:
    from timeleap_protocol.lifecycle import InitializationOptions

    named = set(re.findall(r"^\| `(\w+)`", text_of("docs/configuration.md"), re.MULTILINE))
    known = {field.alias or name for name, field in InitializationOptions.model_fields.items()} - {"token"}
    assert named == known


def test_the_picture_is_there() -> None:
    picture = re.search(r"!\[.*?\]\((docs/.*?\.svg)\)", README)
    assert picture
    assert "timeleap" in (ROOT / picture[1]).read_text(encoding="utf-8")
