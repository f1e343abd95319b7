"""The page on agents: every example on it runs, and the versions it names are those that are tested."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agents.conftest import PACKAGES
from tests.agents.model import Model

pytestmark = pytest.mark.long  # with the SDKs, in a stage of their own: `make test-agents`
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
EXAMPLES = {
    heading: found[1]
    for heading, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    if (found := re.search(r"```python\n(.*?)```", section, re.DOTALL))
}


@pytest.mark.parametrize(
    ("heading", "kind", "said"),
    [
        ("Claude Agent SDK", "claude-code", "Done."),
        ("OpenAI Agents SDK", "openai-agents", "Because."),
        ("pydantic-ai", "pydantic-ai", "success (no tool calls)"),
    ],
)
def test_the_example_runs_and_its_session_is_there(
    heading: str, kind: str, said: str, model: Model, tmp_path: Path
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TIMELEAP_HOME": str(tmp_path / "store"),
        "PYTHONPATH": str(PACKAGES),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    command = [sys.executable, "-c", EXAMPLES[heading]]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    (session,) = (tmp_path / "store" / "sessions").iterdir()
    assert f'"kind":"{kind}"' in (session / "timeleap.json").read_text().replace(" ", "")
    assert "Why does the login fail?" in (session / "context.jsonl").read_text()


def test_there_is_an_example_for_each_adapter() -> None:
    adapters = {path.stem for path in (ROOT / "server" / "timeleap" / "adapters").glob("*.py")}
    shown = set(re.findall(r"^from timeleap\.adapters\.(\w+) import", PAGE, re.MULTILINE))
    assert shown == {"claude", "openai_agents", "pydantic_ai"} <= adapters
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("package", ["claude-agent-sdk", "mcp", "openai-agents", "pydantic-ai-slim"])
def test_the_versions_of_the_page_are_those_that_are_tested(package: str) -> None:
    version = importlib.metadata.version(package)
    assert f"| {package} | {version}" in PAGE
    assert f"{package}=={version}" in (ROOT / "tests" / "agents" / "requirements.txt").read_text("utf-8")
