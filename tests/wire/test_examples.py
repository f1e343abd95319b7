"""Every example runs, against the real server, and prints what it is there to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.server import DATABASES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(home: Path, *command: str) -> list[str]:
    """The lines that an example prints, in a store of its own, with the `timeleap` of this environment."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TIMELEAP_HOME": str(home),
        "TIMELEAP_KEY_FILE": str(home.with_name("key")),
        **({"TIMELEAP_STORE": DATABASES[home]} if home in DATABASES else {}),
    }
    done = subprocess.run(
        command, cwd=home.parent, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.long
def test_the_shell_pipeline(home: Path) -> None:
    lines = run(home, "bash", str(EXAMPLES / "pipeline.sh"))
    assert lines[0].startswith("Speaking to timeleap ")
    conversation = [line.strip() for line in lines if line.startswith("   ") and not line.strip().startswith("(")]
    assert conversation == [
        "0 user: How many files are there in each folder?",
        "1 assistant: I will count them one by one.",
        "2 tool: src: 21 files",
        "3 tool: tests: 35 files",
        "4 tool: docs: 28 files",
        "0 user: How many files are there in each folder?",
        "1 assistant: I will count them one by one.",
    ]
    told = [line.strip() for line in lines if line.strip().startswith("(")]
    assert told == [
        *["(context/didChange: messagesAppended)"] * 2,
        "(context/didChange: checkpointCreated)",
        *["(context/didChange: messagesAppended)"] * 3,
        "(context/didChange: reverted)",
        "(context/didChange: timelineRestored)",
    ]
    assert any(line.startswith("Reverted: 3 messages were set aside in timeline ") for line in lines)
    assert lines[-1] == "Restored: 5 messages again"


@pytest.mark.long
def test_two_windows(home: Path) -> None:
    assert run(home, "bash", str(EXAMPLES / "two_windows.sh")) == [
        "What the watcher saw:",
        "   checkpointCreated",
        "   messagesAppended",
        "   reverted: 1 message went to context_1",
        "   messagesAppended",
        "What is left:",
        "   I count the files in src.",
        "   There are 21 files in src.",
    ]


def test_the_client_in_node(home: Path) -> None:
    lines = run(home, "node", str(EXAMPLES / "node-client.mjs"))
    said = [line for line in lines if not line.startswith("   ")]
    assert said[0].startswith("Speaking to timeleap ")
    assert said[1:4] == [
        "Checkpoint 0: Rename the module, please. 改名",
        "Reverted: 3 messages were set aside, 0 are left",
        "Restored: 3 messages again",
    ]
    assert said[4].startswith("As it should be: checkpointNotFound: ")
    told = [line.strip() for line in lines if line.startswith("   ")]
    assert told[0] == "(context/didChange: checkpointCreated)", "the turn's checkpoint is told before its message"


@pytest.mark.parametrize("store", ["temporary", "named"])
def test_the_client_in_pythons_standard_library(home: Path, store: str) -> None:
    folder = [str(home.with_name("named"))] if store == "named" else []
    lines = run(home, sys.executable, "-I", str(EXAMPLES / "stdlib_client.py"), *folder)
    assert lines[1:] == [
        "Appended 2 messages; nothing is lost even if the power fails now",
        "Sent once more with the same request id: duplicate=True, still 2 messages",
        "A clear that expects the old head is refused: contentModified",
        "Approved without asking from now on: run shell command",
        "Told meanwhile: messagesAppended, approvalChanged",
    ]
    assert home.with_name("named").exists() is (store == "named")


def test_the_agent_loop(home: Path) -> None:
    lines = run(home, sys.executable, str(EXAMPLES / "agent_loop.py"))
    turns = [line.removeprefix("person: ") for line in lines if line.startswith("person: ")]
    assert turns == [
        *("The disk is nearly full. Why?", "Delete the logs, please.", "Now write me a poem about it."),
        "And who writes so many logs?",
    ]
    asked = [line for line in lines if "approval asked" in line]
    assert len(asked) == 1
    compacted = [line for line in lines if "compacted:" in line]
    assert len(compacted) == 1, "the window is full once, in the second turn"
    assert lines.index(compacted[0]) < lines.index(f"person: {turns[2]}")
    assert lines[lines.index(compacted[0]) + 4 :] == [
        f"checkpoints: compacted | {turns[2]} | before the answer",
        "The last turn is taken back: 2 messages are in timeline context_2",
        f"person: {turns[3]}",
        "tool:   run_command -> many lines of no use",
        "tool:   send_dmail -> sent",
        "        (back at checkpoint 2, where the note is)",
        "tool:   run_command -> backup 4711",
        "model:  The backup does, at every file it copies.",
        "A sub-agent's note is message 11",
        "approved without asking: delete files",
        "timelines: dmail, revert, compact",
    ]
