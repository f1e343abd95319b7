"""The layers of ARCHITECTURE.md hold: who may import what, and who may call the operating system for durability."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.sources import (
    CLIENT,
    PROTOCOL,
    ROOT,
    SERVER,
    calls,
    dotted,
    imports,
    modules,
    nodes,
    server_modules,
    where,
)

STORAGE = SERVER / "storage"
DURABLE, LOCK = STORAGE / "durable.py", STORAGE / "lock.py"
DURABILITY_CALLS = {
    f"{module}.{name}"
    for module in ("os", "aiofiles.os", "shutil")
    for name in ("fsync", "fdatasync", "replace", "rename", "renames", "link", "move", "truncate", "ftruncate")
}
PATH_METHODS = {"rename", "hardlink_to", "link_to"}
LOCKING_CALLS = {"fcntl.flock", "fcntl.lockf", "msvcrt.locking"}
OWNERS = {**dict.fromkeys(DURABILITY_CALLS, DURABLE), **dict.fromkeys(LOCKING_CALLS, LOCK)}


def test_imports_go_downwards_only() -> None:
    command = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def moves_a_path(call: ast.Call, awaited: bool) -> bool:
    """Whether a call looks like `Path.rename(target)` or `Path.replace(target)` (`str.replace` takes two arguments,
    `dataclasses.replace` keywords, and an engine's `replace` is awaited)."""
    if not isinstance(call.func, ast.Attribute) or awaited:
        return False
    alone = len(call.args) == 1 and not call.keywords
    return call.func.attr in PATH_METHODS or (call.func.attr == "replace" and alone)


def taken(module: Path) -> set[str]:
    """The names a module imports out of the operating system's modules, which would hide where they come from."""
    return {
        alias.name
        for node in nodes(module)
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "fcntl", "msvcrt", "shutil", "aiofiles.os"}
        for alias in node.names
    }


@pytest.mark.parametrize(
    "module", server_modules() + modules(CLIENT) + modules(PROTOCOL), ids=lambda module: str(module.relative_to(ROOT))
)
def test_only_durable_makes_things_durable_and_only_the_lock_locks(module: Path) -> None:
    found = [
        f"{where(module, call)} calls {ast.unparse(call.func)}, which belongs in {owner.relative_to(ROOT)}"
        for call, awaited in calls(module)
        if (owner := OWNERS.get(dotted(call.func)) or (DURABLE if moves_a_path(call, awaited) else module)) != module
    ]
    hidden = {name.rpartition(".")[2] for name in OWNERS}
    found += [f"{module.relative_to(ROOT)} takes {name} out of its module" for name in taken(module) & hidden]
    assert not found


def test_durable_has_the_primitives() -> None:
    used = {dotted(call.func) for owner in (DURABLE, LOCK) for call, _ in calls(owner)}
    assert {"os.fsync", "os.replace", "os.link", "fcntl.flock"} <= used, "the rule above would guard an empty house"


def test_nobody_gets_at_descriptors_but_durable_and_the_lock() -> None:
    """`durable` hands its functions on bare descriptors to the lock alone."""
    of_descriptors = {"open_regular", "pread", "pwrite", "copy_bytes"}
    users = {
        module
        for module in server_modules()
        for node in nodes(module)
        if (isinstance(node, ast.Attribute) and dotted(node) in {f"durable.{name}" for name in of_descriptors})
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "timeleap.storage.durable"
            and any(alias.name in of_descriptors for alias in node.names)
        )
    }
    assert users == {LOCK}


def test_only_the_edges_import_pygls_and_lsprotocol() -> None:
    importers = {
        module.relative_to(ROOT / "server").parts[1]
        for module in server_modules()
        if any(name.split(".")[0] in {"pygls", "lsprotocol"} for name in imports(module))
    }
    assert importers == {
        "rpc",
        *(module.name for module in (ROOT / "server/timeleap_lsp").glob("*.py")),
    } & importers | {"rpc"}


def test_decisions_do_no_io_and_ask_no_clock() -> None:
    """A decision can be made again on another state, and foretold: so it depends on nothing but its arguments."""
    forbidden = {"asyncio", "io", "logging", "os", "pathlib", "random", "threading", "time", "uuid"}
    ours = {"timeleap.clock", "timeleap.storage.durable"}
    found = {
        f"{module.relative_to(SERVER)} imports {name}"
        for module in modules(SERVER / "sessions" / "kernel")
        for name in imports(module)
        if name.split(".")[0] in forbidden or ".".join(name.split(".")[:3]) in ours or name in ours
    }
    assert not found


def test_the_protocol_needs_pydantic_and_msgspec_only() -> None:
    allowed = {
        *sys.stdlib_module_names,
        "msgspec",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
        "timeleap_protocol",
    }
    foreign = {name for module in modules(PROTOCOL) for name in imports(module) if name.split(".")[0] not in allowed}
    assert not foreign


def test_the_client_needs_no_package_but_that_of_the_protocol_for_large_frames() -> None:
    allowed = {*sys.stdlib_module_names, "msgspec", "timeleap_client", "timeleap_protocol"}
    foreign = {name for module in modules(CLIENT) for name in imports(module) if name.split(".")[0] not in allowed}
    assert not foreign


def test_only_the_command_line_prints() -> None:
    found = [
        where(module, call)
        for module in server_modules() + modules(CLIENT) + modules(PROTOCOL)
        for call, _ in calls(module)
        if dotted(call.func) in {"print", "sys.stdout.write"}
        and SERVER / "cli" not in module.parents
        and module.name not in {"generate.py", "__main__.py"}
    ]
    assert not found, f"standard output carries protocol bytes only: {found}"
