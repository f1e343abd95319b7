"""The code that a running server may still have to load, kept in memory as it was when the server began.

Much is imported when it is first asked for, so that a server starts quickly. By then another version may have been
installed in its place, whose modules do not go with those that run; or there may be no descriptor left to read them. So the
code of all modules that a server may load is read once, in a few milliseconds, and run when it is needed. What is installed
before that, while the server starts, is noticed, and the server refuses to go on.

Not kept are other packages that few requests need, since they would make every start slower: `pydantic` with its
dependencies (184 ms; words for refused params, `rpc.discover`), `kingfisher_sdk` (13 ms; redaction of secrets), `aiofiles`
(5 ms; exports). Each is loaded whole, so it is of one version; where it is gone, the answer says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import marshal
import os
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

from timeleap.errors import StorageFailureError

_LEFT_OUT: Final = frozenset(("adapters", "api", "cli", "client", "mcp", "hooks", "__pycache__"))
"""Folders of packages that no server loads anything of."""
_DATA: Final = frozenset((".css", ".html", ".js", ".LICENSE"))
_HEADER: Final = 16
"""Bytes before the code in a compiled file: magic number, flags, time and size of the source."""


class _Kept(NamedTuple):
    path: str
    package: bool
    compiled: bytes | None
    """None: there is no compiled file that can be used, and `source` is compiled."""
    source: bytes | None
    """None: nobody asks for it."""


class KeptModules:
    """A finder of the modules that were read; each is let go of when it is loaded.

    Attributes:
        waiting: They are still to be read, or must not be: another version is in their place.
    """

    def __init__(self) -> None:
        self.waiting = False
        self._packages = ["timeleap", "timeleap_protocol"]
        self._stamps = _stamps(self._packages)
        self._modules: dict[str, _Kept] = {}
        self._data: dict[str, bytes] = {}

    def enable(self, *separate: str) -> None:
        """Have `keep` do something: in a process that only serves. A command ends before anything could change.

        Args:
            separate: Further packages of this distribution, as far as they are installed.
        """
        self.waiting = True
        self._packages += separate
        self._stamps += _stamps(separate)

    def check(self) -> None:
        """Raise StorageFailureError if another version was installed since this one began to run, and before it was
        kept."""
        if self.waiting and _stamps(self._packages) != self._stamps:
            message = "Timeleap was replaced on disk, by another version, while this server started: start it again"
            error = StorageFailureError(message, path=str(Path(__file__).parent), errno="ESTALE")
            error.retryable = False
            raise error

    def require(self) -> None:
        """Keep what is still to be kept. Raises as `check`."""
        self.keep()
        self.check()

    def keep(self) -> None:
        """Read what is ours and what is the protocol's, once. Blocks for a few milliseconds."""
        if not self.waiting:
            return
        for package, folder in _places(self._packages):
            self._keep_folder(package, folder)
        if _stamps(self._packages) != self._stamps:  # some of them may be of another version
            self._modules.clear()
            self._data.clear()
            return
        self.waiting = False
        sys.meta_path.insert(0, self)
        for name in _NEEDED_BY_READS:
            with suppress(ImportError, OSError):
                importlib.import_module(name)

    def _keep_folder(self, package: str, folder: Path) -> None:
        """Keep the code of a folder's modules. A module that cannot be read is loaded from disk when it is needed."""
        with suppress(OSError):
            for entry in os.scandir(folder):
                place = Path(entry.path)
                if entry.is_dir():
                    if entry.name not in _LEFT_OUT:
                        self._keep_folder(f"{package}.{entry.name}", place)
                elif place.suffix == ".py":
                    self._keep_module(package if place.stem == "__init__" else f"{package}.{place.stem}", entry)
                elif place.suffix in _DATA:
                    with suppress(OSError):
                        self._data[entry.path] = place.read_bytes()

    def _keep_module(self, module: str, entry: os.DirEntry[str]) -> None:
        if module not in sys.modules:
            with suppress(OSError):
                self._modules[module] = _read(entry, module)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module among those that are kept, for the import system."""
        kept = self._modules.get(name)
        if kept is None:
            return None
        places = [str(Path(kept.path).parent)] if kept.package else None
        loader = _Loader(name, kept, self)
        return importlib.util.spec_from_file_location(name, kept.path, loader=loader, submodule_search_locations=places)

    def loaded(self, name: str) -> None:
        """Forget the code of a module, which runs by now."""
        self._modules.pop(name, None)

    def data(self, path: str) -> bytes | None:
        """The file at `path`, if it was kept."""
        return self._data.get(path)


class _Loader(SourceFileLoader):
    """Runs code that was kept, and reads files that were."""

    def __init__(self, name: str, kept: _Kept, all_kept: KeptModules) -> None:
        super().__init__(name, kept.path)
        self._kept = kept
        self._all_kept = all_kept

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self._all_kept.loaded(module.__name__)

    def get_code(self, fullname: str) -> CodeType:
        if self._kept.compiled is not None:
            code: CodeType = marshal.loads(memoryview(self._kept.compiled)[_HEADER:])  # noqa: S302  (as Python does)
            return code
        assert self._kept.source is not None
        return self.source_to_code(self._kept.source, self._kept.path)

    def get_source(self, fullname: str) -> str | None:
        if self._kept.source is None:
            return super().get_source(fullname)
        return importlib.util.decode_source(self._kept.source)

    def get_data(self, path: str) -> bytes:
        kept = self._all_kept.data(path)
        return super().get_data(path) if kept is None else kept


def _read(entry: os.DirEntry[str], module: str) -> _Kept:
    """Read a module, compiled if that is of its source. That of the protocol's is read too: `rpc.discover` takes words
    from it."""
    package, described = entry.name == "__init__.py", module.startswith("timeleap_protocol.")
    facts = entry.stat()
    stamp = struct.pack("<3L", 0, int(facts.st_mtime) & 0xFFFFFFFF, facts.st_size & 0xFFFFFFFF)
    with suppress(OSError, NotImplementedError):
        compiled = _contents(importlib.util.cache_from_source(entry.path))
        if compiled[:_HEADER] == importlib.util.MAGIC_NUMBER + stamp:
            return _Kept(entry.path, package, compiled, _contents(entry.path) if described else None)
    return _Kept(entry.path, package, None, _contents(entry.path))


def _contents(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
    finally:
        os.close(descriptor)


_NEEDED_BY_READS: Final = ("re2", "encodings.utf_16_be")
"""Modules of others that a question about an open session loads; all of Python's that are not loaded by then."""


def _places(packages: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The folders of those packages that are installed as files."""
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None and type(spec.loader) is SourceFileLoader and spec.origin is not None:
            yield package, Path(spec.origin).parent


def _stamps(packages: Iterable[str]) -> list[tuple[int, ...]]:
    """Which folders our packages are, and which files begin them: an installation replaces them. Each start waits for
    this: no look at all files."""
    found: list[tuple[int, ...]] = []
    for _, folder in _places(packages):
        with suppress(OSError):
            begin = os.stat(f"{folder}/__init__.py")  # noqa: PTH116
            found.append((folder.stat().st_ino, begin.st_ino, begin.st_mtime_ns, begin.st_size))
    return found


KEPT: Final = KeptModules()
"""The modules that this process keeps."""
