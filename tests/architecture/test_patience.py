"""No test sleeps for something to have happened: it waits for it, in a loop with a bound, or holds the other side up.

A sleep that is not in a `while` loop is luck on a busy machine: in a `for` loop, it is as much of it. `LEFT` has those
that no event can stand in for, with their number and why.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tests.architecture.sources import ROOT

LEFT = {
    "tests/agents/model.py": (1, "plays a model that takes its time over an answer"),
    "tests/crash/wire/test_owner_killed.py": (1, "the moment of each kill is chance"),
    "tests/crash/wire/test_windows_at_random.py": (
        2,
        "the moment of each end, and how long a process stands still, are chance",
    ),
    "tests/support/chat_endpoint.py": (1, "plays a model that writes slowly"),
    "tests/support/broken_database.py": (1, "the moment of each end of a connection is chance"),
    "tests/unit/service/test_slices.py": (1, "work that takes a while, so that two of it would meet"),
    "tests/wire/test_failover.py": (1, "the standby takes over after a while, not at once"),
    "tests/wire/test_ordering.py": (1, "memory is looked at while a client does not read"),
}


def bare_sleeps(source: str) -> Iterator[ast.Call]:
    """Calls of `sleep` that stand in no `while` loop; giving other tasks a turn (`sleep(0)`) is none."""

    def walk(node: ast.AST, looping: bool) -> Iterator[ast.Call]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and not looping and _sleeps(child):
                yield child
            inside = not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            loop = isinstance(child, ast.While)
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
        if "sleep" in (source := file.read_text(encoding="utf-8"))
        for _ in bare_sleeps(source)
    )
    left = {name: number for name, (number, _) in LEFT.items()}
    assert found == left, "wait for it instead (tests/support/holding.py, turns.py), or stop the server at a failpoint"


def test_a_sleep_in_a_while_loop_is_polling_and_any_other_is_luck() -> None:
    assert not list(bare_sleeps("while not done():\n    time.sleep(0.01)\nawait asyncio.sleep(0)"))
    assert len(list(bare_sleeps("while x:\n    def f():\n        sleep(1)\ntime.sleep(2)"))) == 2
    assert len(list(bare_sleeps("for x in range(100):\n    if y:\n        break\n    sleep(1)"))) == 1
