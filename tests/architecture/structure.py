"""Measures of the server's source: names, imports, and method names outside the method table.

Each function returns the findings themselves, so that a test that fails can say where they are.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.architecture.sources import BESIDE, CLIENT, ROOT, SERVER, modules, tree

CEILINGS: dict[str, Any] = tomllib.loads(
    (ROOT / "tests" / "architecture" / "ceilings.toml").read_text(encoding="utf-8")
)
OLD: dict[str, Any] = CEILINGS["old"]
OLD_WORDS = set(OLD["words"])

METHOD_NAME = re.compile(r"(session|context|files|approval)/[A-Za-z]+\Z")
NOTIFICATION = re.compile(r"/(did[A-Z]\w*|compactionSuggested|warning|summarize)\Z")
METHOD_PREFIX = re.compile(r"(session|context|files|approval)/\Z")
HANDLERS = re.compile(r"(^|/)(handlers|methods)(/|\w*\.py$)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Import:
    """One name that a module imports: the module it comes from, and in which kind of place."""

    module: str
    name: str | None
    alias: str | None
    line: int
    in_function: bool


class Module:
    """One module of the server or of the client library."""

    def __init__(self, path: Path, folder: Path, package: str) -> None:
        self.path = path
        relative = path.relative_to(folder)
        self.rel = relative.as_posix()
        self.source = path.read_text(encoding="utf-8")
        self.tree = tree(path)
        self.lines = len(self.source.splitlines())
        self.is_package = path.name == "__init__.py"
        parts = [package, *relative.with_suffix("").parts]
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.room = relative.parts[0] if len(relative.parts) > 1 else ""
        self.generated = "_methods_" in self.rel
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @property
    def of_client(self) -> bool:
        """The Python client library, which is no part of the server; its names count where doubles and circles are sought."""
        return self.name.startswith(("timeleap_client", "timeleap.client"))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    def imports(self, known: Iterable[str]) -> Iterator[Import]:
        """What it imports of the modules `known`, type-checking imports included."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names: list[tuple[str, str | None, str | None]] = [
                    (alias.name, None, alias.asname) for alias in node.names
                ]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{self.rel}:{node.lineno}: imports are absolute"
                names = [(node.module or "", alias.name, alias.asname) for alias in node.names]
            else:
                continue
            in_function = any(isinstance(parent, Function | ast.Lambda) for parent in self.ancestors(node))
            for base, name, alias in names:
                full = f"{base}.{name}" if name and f"{base}.{name}" in known else base
                if full in known:
                    yield Import(full, name, alias, node.lineno, in_function)


class Structure:
    """The measures of all modules below a folder together, and of the client library's."""

    def __init__(self, folder: Path = SERVER, client: Path | None = CLIENT) -> None:
        self.all = [Module(path, folder, "timeleap") for path in modules(folder)]
        if folder == SERVER:
            self.all += [Module(path, package, package.name) for package in BESIDE for path in modules(package)]
        if client is not None:
            self.all += [Module(path, client, "timeleap_client") for path in modules(client)]
        self.modules = [module for module in self.all if not module.of_client]
        self.by_name = {module.name: module for module in self.all}

    def modules_named_twice(self) -> list[str]:
        plain = [
            module
            for module in self.all
            if not (module.is_package or module.generated or module.path.name == "__main__.py" or _is_alias(module))
        ]
        return _more_than_once((module.path.name, module.rel) for module in plain)

    def old_module_names(self) -> list[str]:
        return [
            module.rel
            for module in self.modules
            if not module.is_package
            and (
                module.path.stem in OLD["modules"].get(module.path.parent.name, [])
                or module.path.stem in OLD["modules_anywhere"]
            )
        ]

    def old_definitions(self) -> list[str]:
        return [
            f"{module.rel}:{node.lineno} {node.name}"
            for module in self.modules
            for node in module.nodes
            if (isinstance(node, ast.ClassDef) and node.name in OLD["classes"])
            or (isinstance(node, Function) and node.name in OLD["functions"])
        ]

    def old_words_in_names(self) -> list[str]:
        old = OLD_WORDS | set(OLD["words_in_names"])
        found = {(module.rel, name) for module in self.modules for name in _defined(module) if _words(name) & old}
        return [f"{rel} {name}" for rel, name in sorted(found)]

    def old_words_in_docstrings(self) -> list[str]:
        """Those whose first line has one."""
        found = []
        for module in self.modules:
            for node in module.nodes:
                if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
                    first = text.splitlines()[0]
                    if set(re.findall(r"[a-z]+", first.lower())) & OLD_WORDS:
                        found.append(f"{module.rel}:{getattr(node, 'lineno', 1)} {first}")
        return found

    def loops_over_one(self) -> list[str]:
        return [
            f"{module.rel}:{node.target.lineno}"
            for module in self.modules
            for node in module.nodes
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
            and isinstance(node.target, ast.Name)
            and node.target.id == "one"
        ]

    def method_literals(self) -> list[str]:
        """Names of methods as text, outside the handlers' decorators and the command line, which calls by name."""
        return [
            f"{module.rel}:{node.lineno} {node.value}"
            for module in self.modules
            if module.room != "cli" and not HANDLERS.search(module.rel)
            for node in module.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if _names_method(module, node, node.value) and not _in_decorator(module, node)
        ]

    def imports_in_functions(self) -> list[str]:
        found = {
            (module.rel, imported.line)
            for module in self.all
            for imported in module.imports(self.by_name)
            if imported.in_function
        }
        return [f"{rel}:{line}" for rel, line in sorted(found)]

    def storage_seen_by_sessions(self) -> list[str]:
        """The modules of `storage` that `sessions` imports."""
        found = {
            imported.module
            for module in self.modules
            if module.room == "sessions"
            for imported in module.imports(self.by_name)
            if self.by_name[imported.module].room == "storage"
        }
        return sorted(found)


def documents_with_old_words() -> list[str]:
    """Lines of the documents that have one."""
    texts = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    texts += sorted((ROOT / "docs").rglob("*.md"))
    texts += sorted(path for path in (ROOT / "protocol").rglob("*.md") if "node_modules" not in path.parts)
    return [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if set(re.findall(r"[a-z]+", line.lower())) & OLD_WORDS
    ]


def strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected sets of more than one node (Kosaraju: two depth-first walks)."""
    backwards: dict[str, set[str]] = defaultdict(set)
    for node, following in graph.items():
        for other in following:
            backwards[other].add(node)
    order: list[str] = []
    seen: set[str] = set()
    for node in graph:
        _visit(node, graph, seen, order)
    found, seen = [], set()
    for node in reversed(order):
        members: list[str] = []
        _visit(node, backwards, seen, members)
        if len(members) > 1:
            found.append(sorted(members))
    return sorted(found)


def _visit(node: str, graph: dict[str, set[str]], seen: set[str], order: list[str]) -> None:
    """Append what can be reached from `node` and was not `seen`, each after all that follows it."""
    if node in seen:
        return
    seen.add(node)
    for other in sorted(graph.get(node, ())):
        _visit(other, graph, seen, order)
    order.append(node)


def _is_alias(module: Module) -> bool:
    """True of a module that only hands on the names of another, which it is called after."""
    _, *statements = module.tree.body
    return bool(statements) and all(
        isinstance(each, ast.ImportFrom) or (isinstance(each, ast.Assign) and ast.unparse(each).startswith("__all__"))
        for each in statements
    )


def _more_than_once(pairs: Iterable[tuple[str, str]]) -> list[str]:
    places = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


def _defined(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.alias(asname=str(name)):
                yield name
            case _:
                pass


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def _names_method(module: Module, node: ast.Constant, value: str) -> bool:
    if METHOD_NAME.match(value):
        return not NOTIFICATION.search(value)
    return bool(METHOD_PREFIX.match(value)) and isinstance(module.parents.get(node), ast.JoinedStr)


def _in_decorator(module: Module, node: ast.AST) -> bool:
    for parent in module.ancestors(node):
        if isinstance(parent, Function | ast.ClassDef) and node in parent.decorator_list:
            return True
        node = parent
    return False
