"""Ctrl-C at a command: exit code 130 and not one line of a traceback, wherever it arrives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cli import Cli

SCRIPT = """
import os, signal, sys

module, *arguments = sys.argv[1:]

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["timeleap", *arguments]
from timeleap.__main__ import main
sys.exit(main())
"""
"""Sends itself Ctrl-C when a module is about to be imported."""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("typing", ["sessions"]),
        ("typer", ["sessions"]),
        ("timeleap.cli.app", ["sessions"]),
        ("timeleap.cli.command", ["sessions"]),
        ("timeleap.cli.inspect", ["--help"]),
        ("timeleap.client.raw", ["sessions"]),
        ("pydantic", ["sessions"]),
        ("timeleap.cli.formatting", ["log", "s", "--watch"]),
        ("argparse", ["serve"]),
        ("timeleap.rpc.serve", ["serve"]),
        ("timeleap.rpc.connection", ["serve"]),
        ("timeleap.service.service", ["serve"]),
    ],
)
def test_while_a_module_is_imported(module: str, arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, module, *arguments],
        env=Cli(tmp_path / "store").environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("", "interrupted\n")
