"""Descriptions of fields, read from the docstrings under them.

Done here, from the source, and not by pydantic's `use_attribute_docstrings`: that would parse the source of every model
at every start of every process.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from importlib.abc import InspectLoader

from pydantic import BaseModel


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of a model's fields, inherited ones included, by Python name."""
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base.__module__.startswith("timeleap_protocol."):
            docs |= _module_docs(base.__module__).get(base.__name__, {})
    return docs


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(_source(module))
    return {node.name: _class_docs(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _source(module: str) -> str:
    """The source of a module by its loader: a server has kept it, where another version's may be there by now."""
    loader = getattr(sys.modules[module].__spec__, "loader", None)
    found: str | None = loader.get_source(module) if isinstance(loader, InspectLoader) else None
    return inspect.getsource(sys.modules[module]) if found is None else found


def _class_docs(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, follower in zip(node.body, node.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _string(follower)
            if text is not None:
                docs[statement.target.id] = inspect.cleandoc(text)
    return docs


def _string(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None
