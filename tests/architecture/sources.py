"""The project's own files, as the architecture tests look at them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "server" / "timeleap"
BESIDE = tuple(sorted(folder for folder in SERVER.parent.glob("timeleap_*") if folder.is_dir()))
"""Packages of the server that it can do without."""
PROTOCOL = ROOT / "protocol" / "timeleap_protocol"
CLIENT = ROOT / "protocol" / "python" / "timeleap_client"


@cache
def project_files() -> tuple[Path, ...]:
    """Every file git knows or would know: tracked ones, and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    files = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(file for file in files if file.is_file())


def modules(folder: Path) -> list[Path]:
    """The Python modules below `folder`."""
    return sorted(folder.rglob("*.py"))


def server_modules() -> list[Path]:
    """The Python modules of the server and of the packages beside it."""
    return [module for package in (SERVER, *BESIDE) for module in modules(package)]


@cache
def tree(module: Path) -> ast.Module:
    """The syntax tree of one module."""
    return ast.parse(module.read_text(encoding="utf-8"), str(module))


@cache
def nodes(module: Path) -> tuple[ast.AST, ...]:
    """All nodes of that tree."""
    return tuple(ast.walk(tree(module)))


def calls(module: Path) -> Iterator[tuple[ast.Call, bool]]:
    """Every call in a module, and whether it is awaited on the spot."""
    awaited = {id(node.value) for node in nodes(module) if isinstance(node, ast.Await)}
    for node in nodes(module):
        if isinstance(node, ast.Call):
            yield node, id(node) in awaited


def imports(module: Path) -> Iterator[str]:
    """The dotted names of the modules that a module imports, wherever in it."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def dotted(node: ast.expr) -> str:
    """`os.fsync` for the expression of that shape; an empty name in the place of anything that is not a plain name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def where(module: Path, node: ast.expr | ast.stmt) -> str:
    """`server/timeleap/x.py:12`, for messages."""
    return f"{module.relative_to(ROOT)}:{node.lineno}"
