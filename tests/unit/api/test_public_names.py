"""`import timeleap` costs nothing, and offers what it says."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import timeleap


def modules_after(code: str) -> set[str]:
    """The modules loaded once `code` has run in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(' '.join(sys.modules))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_importing_it_loads_nothing_else() -> None:
    ours = {name for name in modules_after("import timeleap") if name.startswith(("timeleap", "pydantic", "msgspec"))}
    assert ours == {"timeleap"}


def test_what_the_server_needs_of_it_loads_no_models() -> None:
    code = "import timeleap.features.compaction.prepare, timeleap.features.compaction.summary, timeleap.sessions.kernel.append_records, timeleap.message_text"
    assert "pydantic" not in modules_after(code)


def test_every_name_can_be_imported_at_once() -> None:
    namespace: dict[str, object] = {}
    exec("from timeleap import *", namespace)
    assert set(timeleap.__all__) <= set(namespace)
    assert set(timeleap.__all__) <= set(dir(timeleap))


def test_a_name_that_does_not_exist() -> None:
    name = "Thread"
    with pytest.raises(AttributeError, match="no attribute 'Thread'"):
        getattr(timeleap, name)


def test_type_checkers_are_told_of_the_same_names() -> None:
    stub = ast.parse(Path(timeleap.__file__).with_suffix(".pyi").read_text("utf-8"))
    imported = {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    listed = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    assert imported == set(timeleap.__all__)
    assert [sorted(names) for names in listed] == [sorted(timeleap.__all__)]


def test_the_version_is_that_of_the_distribution() -> None:
    assert timeleap.__version__ == importlib.metadata.version("timeleap")
