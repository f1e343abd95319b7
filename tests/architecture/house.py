"""Figures of the server's source that say how plain it is: sizes, imports, closures, words of features in the core, prose.

Each figure is a list of places (``path:line  detail``) and a number: the count of the places, or a share that they make up.
``ceilings.toml`` holds the number that each may have at most; ``ARCHITECTURE.md`` says why these figures were chosen.

The core is every package of ``timeleap`` but those in `OUTSIDE_THE_CORE`: what the server cannot do without.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.architecture.sources import ROOT, SERVER, modules, tree
from tests.architecture.structure import strongly_connected

OUTSIDE_THE_CORE = frozenset({"adapters", "api", "cli", "client", "features"})
OPTIONAL = OUTSIDE_THE_CORE - {"cli", "client"}

STORE_WORDS = ("shared", "standby", "working_copy", "staleness", "announce")
"""Words of a store that several machines share: the core is to know of one store, whichever it is."""
FILES_WORDS = (
    "snapshot", "keeps_files", "keep_files", "with_files", "append_files", "checkpoint_files", "make_files",
    "store_files", "max_files", "files_step", "files_token", "files_mode", "files_from", "files_of", "files_taken",
    "files_followed", "files_restored", "files_remain", "files_result", "files_unavailable", "files_conflict",
    "files_incomplete", "files_too_large", "files_busy", "restore_request", "working_tree", "tree_settings",
    "tree_of", "tree_control", "tree_target", "no_tree",
)  # fmt: skip
"""Words of the files that go back with a conversation, which is a feature."""
OF_OTHER_MATTERS = ("state_snapshot", "announced", "files_of_call")

SPEED_NAME = re.compile(r".*[a-z0-9]_(now|then|at_once|direct)\Z")
CAMEL_CASE = re.compile(r"[a-z]+[a-z0-9]*([A-Z][a-z0-9]*)+\Z")
LEANING = re.compile(r"(What|Who|Whose|Whether|That|Those|As|Of|Likewise|One|The same)\b")
NEIGHBOUR = re.compile(r"(likewise|the same)\b", re.IGNORECASE)
EXEMPTION = re.compile(r"#\s*(type:\s*ignore|noqa|pragma|pyright:\s*ignore)")
FOR_A_TOOL = re.compile(r"#\s*(type:|noqa|pragma|pyright:|fmt:|ruff:|mypy:|isort:|!/)|#[\W_]*\Z")

Function = ast.FunctionDef | ast.AsyncFunctionDef
LONG_MODULE, LONG_FUNCTION, LONG_CLASS, COMPLEX = 500, 40, 400, 15


@dataclass
class Figure:
    """One number, and the places that make it up."""

    value: float
    places: list[str] = field(default_factory=list)


class SourceFile:
    """One module, its nodes, and its lines sorted into code, docstrings and comments."""

    def __init__(self, path: Path, source: Path) -> None:
        inner = path.relative_to(source)
        self.path = path
        self.relative = inner.as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.tree = tree(path)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.is_package = path.name == "__init__.py"
        parts = inner.with_suffix("").parts
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.package, self.folders = parts[0], inner.parts[1:-1]
        self.functions = [node for node in self.nodes if isinstance(node, Function)]
        self.classes = [node for node in self.nodes if isinstance(node, ast.ClassDef)]
        self.docstrings = list(self._docstrings())
        self.code_lines, self.comment_lines = self._sorted_lines()

    @property
    def in_core(self) -> bool:
        outside = OUTSIDE_THE_CORE & set(self.folders[:1])
        return self.package == "timeleap" and not outside

    @property
    def optional(self) -> bool:
        """Whether the core has to do without it."""
        beside = self.package != "timeleap" and self.package != self.name  # a package, not a single module
        return beside or bool(OPTIONAL & set(self.folders[:1]))

    def _docstrings(self) -> Iterator[ast.Constant]:
        """Docstrings of modules, classes, functions, and those below an assignment."""
        for node in self.nodes:
            body = getattr(node, "body", None)
            if not isinstance(body, list):
                continue
            owner = isinstance(node, Function | ast.ClassDef | ast.Module)
            for at, statement in enumerate(body):
                described = owner if at == 0 else isinstance(body[at - 1], ast.Assign | ast.AnnAssign)
                match statement:
                    case ast.Expr(value=ast.Constant(value=str()) as text) if described:
                        yield text
                    case _:
                        pass

    def _sorted_lines(self) -> tuple[set[int], set[int]]:
        of_docstrings = {line for node in self.docstrings for line in _lines_of(node)}
        inside_text = {
            line
            for node in self.nodes
            if isinstance(node, ast.Constant | ast.JoinedStr)
            for line in list(_lines_of(node))[1:]
        }
        numbered = list(enumerate(self.lines, 1))
        comments = {at for at, line in numbered if line.lstrip().startswith("#")} - inside_text - of_docstrings
        blank = {at for at, line in numbered if not line.strip()}
        code = {at for at, _ in numbered} - of_docstrings - comments - blank
        return code, comments

    @cached_property
    def explaining_comments(self) -> list[int]:
        """Lines of the comments that are for a reader, and have a line of their own."""
        return sorted(at for at in self.comment_lines if not FOR_A_TOOL.match(self.lines[at - 1].strip()))

    def place(self, node: ast.AST | int, detail: str = "") -> str:
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.relative}:{line}  {detail}".rstrip()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def length(self, node: ast.stmt) -> int:
        """Lines of code of a statement."""
        return len(self.code_lines.intersection(_lines_of(node)))

    def identifiers(self) -> Iterator[tuple[str, int]]:
        """Each name in the code, as often as it is written, and its line."""
        line = 1
        for node in self.nodes:
            line = getattr(node, "lineno", line)
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    yield name, line
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name, line
                case ast.keyword(arg=str(name)):
                    yield name, line
                case ast.alias(name=name, asname=alias):
                    yield from ((part, line) for part in [*name.split("."), *([alias] if alias else [])])
                case ast.ImportFrom(module=str(name)):
                    yield from ((part, line) for part in name.split("."))
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    yield from ((name, line) for name in names)
                case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    yield name, line
                case _:
                    pass


class House:
    """All modules of the server, and the figures taken from them.

    Args:
        source: The folder that holds the packages ``timeleap`` and ``timeleap_*``.
    """

    def __init__(self, source: Path = SERVER.parent) -> None:
        packages = sorted(path.parent for path in source.glob("timeleap*/__init__.py"))
        self.files = [SourceFile(path, source) for package in packages for path in modules(package)]
        self.files += [SourceFile(path, source) for path in sorted(source.glob("timeleap*.py"))]
        self.by_name = {file.name: file for file in self.files}
        self.core = [file for file in self.files if file.in_core]
        self.edges = {file.name: dict(self._imported(file)) for file in self.files}
        self.core_code = sum(len(file.code_lines) for file in self.core) or 1
        self.classes_by_name: dict[str, list[tuple[SourceFile, ast.ClassDef]]] = defaultdict(list)
        for file in self.files:
            for node in file.classes:
                self.classes_by_name[node.name].append((file, node))

    def room(self, name: str) -> list[SourceFile]:
        return [file for file in self.core if name in file.folders]

    def _imported(self, file: SourceFile) -> Iterator[tuple[str, int]]:
        """Modules of ours that it imports. A name that a package hands on counts for the module that defines it."""
        for node in file.nodes:
            if isinstance(node, ast.Import):
                names = [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "", alias.name) for alias in node.names]
            else:
                continue
            for base, name in names:
                found = self._defining(base, name)
                if found in self.by_name and found != file.name:
                    yield found, node.lineno

    def _defining(self, base: str, name: str) -> str:
        for _ in range(5):
            if name and f"{base}.{name}" in self.by_name:
                return f"{base}.{name}"
            file = self.by_name.get(base)
            if file is None or not file.is_package or not name:
                return base
            handed_on = [
                (node.module or "", alias.name)
                for node in file.nodes
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
                if (alias.asname or alias.name) == name
            ]
            if not handed_on:
                return base
            base, name = handed_on[0]
        return base

    def core_lines(self) -> Figure:
        return Figure(
            sum(len(file.lines) for file in self.core), [f"{file.relative}  {len(file.lines)}" for file in self.core]
        )

    def imports_a_module_in_sessions(self) -> Figure:
        """Modules of its own room that a module of `sessions` imports, on average."""
        mean, _, places = self._density(self.room("sessions"))
        return Figure(mean, places)

    def pairs_in_storage(self) -> Figure:
        """Per cent of all pairs of modules in `storage` of which one imports the other."""
        _, share, places = self._density(self.room("storage"))
        return Figure(share, places)

    def _density(self, files: list[SourceFile]) -> tuple[float, float, list[str]]:
        files = [file for file in files if file.code_lines]  # an empty __init__ would only thin the figure out
        names = {file.name for file in files}
        places, pairs = [], set()
        for file in files:
            for other, line in self.edges[file.name].items():
                if other in names:
                    places.append(file.place(line, f"-> {other}"))
                    pairs.add(frozenset((file.name, other)))
        count = len(files)
        if count < 2:
            return 0, 0, places
        return len(places) / count, 200 * len(pairs) / (count * (count - 1)), places

    def closures_in_sessions(self) -> Figure:
        """Lambdas and nested functions per 1 000 lines of code."""
        scopes = Function | ast.Lambda
        places = []
        for file in [*self.room("sessions"), *self.room("store")]:
            for node in file.nodes:
                if isinstance(node, ast.Lambda):
                    places.append(file.place(node, "lambda"))
                elif isinstance(node, Function):
                    around = next((up for up in file.ancestors(node) if isinstance(up, scopes | ast.ClassDef)), None)
                    if isinstance(around, scopes):
                        places.append(file.place(node, node.name))
        return Figure(
            1000
            * len(places)
            / sum(len(file.code_lines) for room in ("sessions", "store") for file in self.room(room)),
            places,
        )

    def nonlocals(self) -> Figure:
        return _counted(file.place(node) for file in self.core for node in file.nodes if isinstance(node, ast.Nonlocal))

    def engine_methods(self) -> Figure:
        """Methods and properties of the interfaces in `storage/engine.py`."""
        ignored = {"setter", "deleter", "overload"}
        return _counted(
            file.place(method, f"{node.name}.{method.name}")
            for file in self.room("storage")
            if file.path.name == "engine.py"
            for node in file.classes
            if self._is_interface(file, node)
            for method in node.body
            if isinstance(method, Function) and not method.name.startswith("__")
            if not ignored & {_last_name(decorator) for decorator in method.decorator_list}
        )

    def _is_interface(self, file: SourceFile, node: ast.ClassDef) -> bool:
        if any(_last_name(base) in ("ABC", "Protocol") for base in node.bases):
            return True
        for method in node.body:
            if isinstance(method, Function):
                if any(_last_name(decorator) == "abstractmethod" for decorator in method.decorator_list):
                    return True
                if _only_raises_not_implemented(method):
                    return True
        return any(self._is_interface(*base) for base in self._bases(file, node))

    def _bases(self, file: SourceFile, node: ast.ClassDef) -> list[tuple[SourceFile, ast.ClassDef]]:
        found = []
        for base in node.bases:
            options = self.classes_by_name.get(_last_name(base), [])
            near = [pair for pair in options if pair[0] is file or pair[0].name in self.edges[file.name]]
            found += [pair for pair in (near or options)[:1] if pair[1] is not node]
        return found

    def speed_names(self) -> Figure:
        """Names that say that they are a second, quicker entrance."""
        found: dict[str, list[str]] = defaultdict(list)
        for file in self.core:
            for node in file.nodes:
                match node:
                    case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                        pass
                    case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                        pass
                    case ast.Attribute(attr=name, ctx=ast.Store()):
                        pass
                    case _:
                        continue
                if SPEED_NAME.match(name):
                    found[name].append(file.place(node, name))
        return Figure(len(found), [place for places in found.values() for place in places])

    def names_put_together(self) -> Figure:
        """Attributes that are looked for by a name put together from pieces."""
        lookups = {"getattr": 1, "hasattr": 1, "setattr": 1, "delattr": 1, "attrgetter": 0, "methodcaller": 0}
        places = []
        for file in self.files:
            for node in file.nodes:
                if not isinstance(node, ast.Call) or _last_name(node.func) not in lookups:
                    continue
                position = lookups[_last_name(node.func)]
                if len(node.args) > position and _is_put_together(file, node.args[position]):
                    places.append(file.place(node, ast.unparse(node)))
        return _counted(places)

    def words_of_a_store(self) -> Figure:
        return _counted(self._words(STORE_WORDS))

    def words_of_files(self) -> Figure:
        return _counted(self._words(FILES_WORDS))

    def _words(self, words: tuple[str, ...]) -> Iterator[str]:
        for file in self.core:
            # A module's own class `_Shared`, of what a process shares inside, or a plain number of that name is another matter.
            own = {
                word
                for word in ("shared", "announce")
                for node in file.classes
                if word in _snake_case(node.name) and not self._is_interface(file, node)
            } | {
                node.target.id
                for node in file.nodes
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                if node.target.id in words and _last_name(node.annotation) in ("int", "bool", "bytes")
            }
            sought = [word for word in words if word not in own]
            for name, line in file.identifiers():
                text = _snake_case(name)
                if any(word in text for word in sought) and not any(word in text for word in OF_OTHER_MATTERS):
                    yield file.place(line, name)

    def wire_names_in_sessions(self) -> Figure:
        """Texts in camelCase: names of the wire."""
        return _counted(
            file.place(node, node.value)
            for file in self.room("sessions")
            for node in file.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CAMEL_CASE.match(node.value)
        )

    def long_modules(self) -> Figure:
        return _counted(f"{file.relative}  {len(file.lines)}" for file in self.files if len(file.lines) > LONG_MODULE)

    def long_functions(self) -> Figure:
        return _counted(
            file.place(node, f"{node.name} {file.length(node)}")
            for file in self.files
            for node in file.functions
            if file.length(node) > LONG_FUNCTION
        )

    def complex_functions(self) -> Figure:
        """Functions of a cyclomatic complexity over 15 (McCabe; nested functions included)."""
        return _counted(
            file.place(node, f"{node.name} {_complexity(node)}")
            for file in self.files
            for node in file.functions
            if _complexity(node) > COMPLEX
        )

    def long_classes(self) -> Figure:
        """Classes of over 400 lines. A base that only one class has counts with it, or mixins would hide its size."""
        heirs = Counter(id(base) for file in self.files for node in file.classes for _, base in self._bases(file, node))

        def counted_bases(file: SourceFile, node: ast.ClassDef) -> list[tuple[SourceFile, ast.ClassDef]]:
            return [
                pair
                for pair in self._bases(file, node)
                if heirs[id(pair[1])] == 1
                and not any(_last_name(base) in ("ABC", "Protocol") for base in pair[1].bases)
            ]

        def size(file: SourceFile, node: ast.ClassDef) -> int:
            return len(_lines_of(node)) + sum(size(*pair) for pair in counted_bases(file, node))

        inside = {id(base) for file in self.files for node in file.classes for _, base in counted_bases(file, node)}
        return _counted(
            file.place(node, f"{node.name} {size(file, node)}")
            for file in self.files
            for node in file.classes
            if id(node) not in inside and size(file, node) > LONG_CLASS
        )

    def modules_of_several_subjects(self) -> Figure:
        """Modules whose first sentence joins subjects by semicolons."""
        places = []
        for file in self.files:
            paragraph = re.sub(r"\s+", " ", (ast.get_docstring(file.tree) or "").split("\n\n")[0]).strip()
            sentence = re.split(r"(?<=[.!?])\s", paragraph)[0]
            if sentence.count(";") > 1 or "; and" in sentence:
                places.append(f"{file.relative}  {sentence}")
        return _counted(places)

    def comments(self) -> Figure:
        """Per cent of comments with a line of their own among lines of code and comments. More is better."""
        places = [file.place(line) for file in self.core for line in file.explaining_comments]
        return Figure(100 * len(places) / (len(places) + self.core_code), places)

    def leaning_docstrings(self) -> Figure:
        """Docstrings that begin with neither a noun nor a verb."""
        return _counted(
            file.place(node, str(node.value)[:70])
            for file in self.files
            for node in file.docstrings
            if LEANING.match(str(node.value).strip())
        )

    def docstrings_that_lean_on_a_neighbour(self) -> Figure:
        return _counted(
            file.place(node, str(node.value)[:70])
            for file in self.files
            for node in file.docstrings
            if any(NEIGHBOUR.match(sentence) for sentence in _sentences(str(node.value)))
        )

    def conditional_expressions(self) -> Figure:
        return self._per_thousand(ast.IfExp)

    def walruses(self) -> Figure:
        return self._per_thousand(ast.NamedExpr)

    def _per_thousand(self, kind: type[ast.expr]) -> Figure:
        places = [file.place(node) for file in self.core for node in file.nodes if isinstance(node, kind)]
        return Figure(1000 * len(places) / self.core_code, places)

    def aliases_of_json(self) -> Figure:
        """Names for ``dict[str, Any]``: each called Json, or defined more than once."""
        found = [
            (file, node, _last_name(target))
            for file in self.files
            for node in file.nodes
            for target in _targets_of_json_alias(node)
        ]
        often = Counter(name for _, _, name in found)
        return _counted(
            file.place(node, name) for file, node, name in found if "json" in name.lower() or often[name] > 1
        )

    def circles(self) -> Figure:
        graph = {name: set(found) for name, found in self.edges.items()}
        return _counted(" <-> ".join(circle) for circle in strongly_connected(graph))

    def classes_defined_twice(self) -> Figure:
        return _counted(
            f"{name}: " + ", ".join(file.place(node) for file, node in found)
            for name, found in self.classes_by_name.items()
            if len(found) > 1
        )

    def upward_imports(self) -> Figure:
        """Imports of a feature or of an optional package by the core, also by a module's name as a text."""
        places = []
        for file in self.core:
            for other, line in self.edges[file.name].items():
                if self.by_name[other].optional:
                    places.append(file.place(line, f"-> {other}"))
            docstrings = {id(node) for node in file.docstrings}
            for node in file.nodes:
                if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
                    continue
                if node.value in self.by_name and self.by_name[node.value].optional:
                    places.append(file.place(node, f"-> {node.value!r}"))
        return _counted(places)

    def exemptions(self) -> Figure:
        """Comments that exempt a line from a check."""
        places = []
        for file in self.files:
            if EXEMPTION.search(file.text):
                with file.path.open("rb") as source:
                    for token in tokenize.tokenize(source.readline):
                        if token.type == tokenize.COMMENT:
                            places += [file.place(token.start[0])] * len(EXEMPTION.findall(token.string))
        return _counted(places)


FIGURES: dict[str, Callable[[House], Figure]] = {
    name: method
    for name, method in vars(House).items()
    if not name.startswith("_") and name != "room" and callable(method)
}


def _counted(places: Iterable[str]) -> Figure:
    found = list(places)
    return Figure(len(found), found)


def _lines_of(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _last_name(node: ast.AST) -> str:
    """``c`` of ``a.b.c``, ``a.b.c[d]`` and ``a.b.c(d)``; empty for any other expression."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _only_raises_not_implemented(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = method.body[1:] if ast.get_docstring(method) is not None else method.body
    if len(body) != 1 or not isinstance(body[0], ast.Raise) or body[0].exc is None:
        return False
    return _last_name(body[0].exc) == "NotImplementedError"


def _is_put_together(file: SourceFile, name: ast.expr) -> bool:
    """Whether a text is made of pieces, here or where the name was given to it in the same function."""
    if isinstance(name, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in name.values)
    if isinstance(name, ast.BinOp):
        return any(
            isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
            for part in ast.walk(name)
        )
    if isinstance(name, ast.Call):
        return isinstance(name.func, ast.Attribute) and name.func.attr in ("format", "join")
    if isinstance(name, ast.Name):
        around = next((up for up in file.ancestors(name) if isinstance(up, Function)), file.tree)
        given = [
            node.value
            for node in ast.walk(around)
            if isinstance(node, ast.Assign) and any(_last_name(target) == name.id for target in node.targets)
        ]
        return any(not isinstance(value, ast.Name) and _is_put_together(file, value) for value in given)
    return False


def _complexity(function: ast.AST) -> int:
    branches = (
        ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.IfExp | ast.comprehension | ast.match_case
    )
    total = 1
    for node in ast.walk(function):
        if isinstance(node, branches):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def _sentences(text: str) -> list[str]:
    plain = re.sub(r"\s+", " ", text).strip()
    return [sentence.lstrip("\"'`(") for sentence in re.split(r"(?<=[.!?])\s+", plain)]


def _targets_of_json_alias(node: ast.AST) -> list[ast.expr]:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Subscript):
        return []
    if _last_name(node.value) not in ("dict", "Dict") or not isinstance(node.value.slice, ast.Tuple):
        return []
    if [_last_name(part) for part in node.value.slice.elts] != ["str", "Any"]:
        return []
    return node.targets if isinstance(node, ast.Assign) else [node.target]


if __name__ == "__main__":
    house = House(ROOT / "server")
    for name, figure in FIGURES.items():
        print(f"{name:40} {figure(house).value:10.2f}")
