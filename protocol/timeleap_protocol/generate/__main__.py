"""Write, or check, everything that is derived from the method table.

The files live in a checkout of the project (`protocol/`, `server/`), beside this package; an installed package has none.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from timeleap_protocol.generate.advertised import advertised_module
from timeleap_protocol.generate.openrpc import openrpc_document
from timeleap_protocol.generate.python_client import async_module, names_module, sync_module
from timeleap_protocol.generate.schema import bundle
from timeleap_protocol.generate.spec import fill
from timeleap_protocol.generate.structs import struct_modules
from timeleap_protocol.generate.typescript import methods_module, types_module

COMMAND = "python -m timeleap_protocol.generate"
ROOT = Path(__file__).resolve().parents[3]


def outputs(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file of the checkout at `root`, with the text it should have."""
    protocol = root / "protocol"
    client = protocol / "python" / "timeleap_client"
    typescript = protocol / "typescript" / "src" / "generated"
    files = {
        protocol / "timeleap_protocol" / "_advertised.py": advertised_module(),
        protocol / "schema" / "timeleap.schema.json": _json(bundle()),
        protocol / "openrpc.json": _json(openrpc_document()),
        typescript / "types.ts": types_module(),
        typescript / "methods.ts": methods_module(),
        client / "_methods_async.py": async_module(),
        client / "_methods_sync.py": sync_module(),
        client / "method_names.py": names_module(),
    }
    for name, text in struct_modules().items():
        files[protocol / "timeleap_protocol" / "structs" / f"{name}.py"] = text
    for page in sorted((protocol / "spec").glob("*.md")):
        files[page] = fill(page.read_text(encoding="utf-8"))
    return files


def stale(root: Path = ROOT) -> list[Path]:
    """The generated files that are missing or are not what they should be."""
    return [path for path, text in outputs(root).items() if not _is(path, text)]


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    checking = parser.parse_args(arguments).check
    if not (ROOT / "protocol" / "timeleap_protocol").is_dir():
        sys.stderr.write("There is no checkout of the project around this package.\n")
        return 2
    return _check() if checking else _write()


def _check() -> int:
    behind = stale()
    for path in behind:
        sys.stderr.write(f"out of date: {path.relative_to(ROOT).as_posix()}\n")
    if behind:
        sys.stderr.write(f"Run: {COMMAND}\n")
    return 1 if behind else 0


def _write() -> int:
    for path, text in outputs().items():
        if not _is(path, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            sys.stdout.write(f"wrote {path.relative_to(ROOT).as_posix()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
