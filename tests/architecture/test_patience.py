"""No test sleeps for something to have happened: it waits for it, in a loop with a bound, or holds the other side up.

A sleep outside of a loop is luck on a busy machine. Those that are left are listed with their number, which may only go
down: most prove that something does not happen, or play a program that hangs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tests.architecture.sources import ROOT

LEFT = {
    "tests/crash/wire/test_windows_at_random.py": 1,
    "tests/support/chat_endpoint.py": 1,
    "tests/wire/test_at.py": 2,
    "tests/wire/test_attach_bad_owner.py": 2,
    "tests/wire/test_client_live.py": 1,
    "tests/wire/test_compact_summarizers.py": 1,
    "tests/wire/test_storage_use.py": 2,
}


def bare_sleeps(source: str) -> Iterator[ast.Call]:
    """Calls of `sleep` that stand in no loop; giving other tasks a turn (`sleep(0)`) is none."""

    def walk(node: ast.AST, looping: bool) -> Iterator[ast.Call]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and not looping and _sleeps(child):
                yield child
            inside = not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            loop = isinstance(child, ast.While | ast.For | ast.AsyncFor)
            yield from walk(child, inside and (looping or loop))

    yield from walk(ast.parse(source), False)


def _sleeps(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    turn = call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return name == "sleep" and not turn


def test_no_test_sleeps_for_something_to_have_happened() -> None:
    found = Counter(
        file.relative_to(ROOT).as_posix()
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for _ in bare_sleeps(file.read_text(encoding="utf-8"))
    )
    grown = {name: number for name, number in found.items() if number > LEFT.get(name, 0)}
    assert not grown, "wait for it instead (tests/support/holding.py), or hold the server up at a failpoint"


def test_a_sleep_in_a_loop_is_polling_and_one_outside_is_luck() -> None:
    assert not list(bare_sleeps("while not done():\n    time.sleep(0.01)\nawait asyncio.sleep(0)"))
    assert len(list(bare_sleeps("for x in y:\n    def f():\n        sleep(1)\ntime.sleep(2)"))) == 2
