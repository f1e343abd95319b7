"""Ctrl-C at a command: exit code 130 and not one line of a traceback, wherever it arrives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.cli import Cli

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys

module, *arguments = sys.argv[1:]

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["timeleap", *arguments]
from timeleap_command import main
sys.exit(main())
"""
"""Sends itself Ctrl-C when a module is about to be imported."""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("timeleap", ["sessions"]),
        ("timeleap.__main__", ["sessions"]),
        ("typing", ["sessions"]),
        ("timeleap.cli.help", ["sessions", "--help"]),
        ("timeleap.cli.app", ["sessions"]),
        ("timeleap.cli.command", ["sessions"]),
        ("timeleap.cli.command_table", ["--help"]),
        ("timeleap_client.raw", ["sessions"]),
        ("msgspec", ["sessions", "--limit=5"]),
        ("timeleap.cli.formatting", ["log", "s", "--watch"]),
        ("argparse", ["serve"]),
        ("timeleap.cli.serve", ["serve"]),
        ("timeleap.rpc.connection", ["serve"]),
        ("timeleap.service.service", ["serve"]),
    ],
)
def test_while_a_module_is_imported(module: str, arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, module, *arguments],
        env=Cli(tmp_path / "store").environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("", "interrupted\n")


EACH = """
import json, os, signal, sys

entry, *sys.argv[1:] = sys.argv[1:]
seen, wrong = [], []

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == entry:
            return  # the first of ours: until it is there, Ctrl-C is Python's
        seen.append(name)
        if child := os.fork():
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 130:
                wrong.append(name)
            return
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        except BaseException:
            os._exit(1)

sys.meta_path.insert(0, Interrupting())
sys.argv[0] = "timeleap"
__import__(entry)
code = sys.modules[entry].main()
print(json.dumps([code, seen, wrong]), file=sys.stderr)
"""
"""Runs a command, and at every import a copy of it that gets Ctrl-C there."""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize(
    ("argument", "loaded"), [("--version", set()), ("--help", {"timeleap.cli.help", "timeleap.cli.app"})]
)
def test_at_every_import_of_the_console_script(argument: str, loaded: set[str], tmp_path: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = scripts["timeleap"].split(":")
    assert function == "main"
    done = subprocess.run(
        [sys.executable, "-c", EACH, module, argument],
        env=Cli(tmp_path / "store").environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    code, seen, wrong = json.loads(done.stderr)
    assert code == 0
    assert {"timeleap", "timeleap.__main__", "timeleap.cli.interrupt", *loaded} <= set(seen)
    assert wrong == []


def test_as_a_library_leaves_ctrl_c_alone() -> None:
    modules = "timeleap, timeleap.__main__, timeleap.cli.app, timeleap.client, timeleap.cli.interrupt, timeleap_command"
    code = f"import signal, {modules}; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_asked_to_end_a_command_ends_by_the_signal_with_what_it_accepted_written(number: int, tmp_path: Path) -> None:
    cli = Cli(tmp_path / "store")
    cli.run("new", "s")
    process = cli.start("append", "s", stdin=subprocess.PIPE)
    assert process.stdin is not None
    for number_of_message in range(1, 6):
        process.stdin.write(json.dumps({"role": "user", "content": str(number_of_message)}) + "\n")
        process.stdin.flush()
        while len(cli.run("show", "s", "--json").lines()) < number_of_message:
            assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-number, "")
    assert cli.run("verify", "s").code == 0
    cli.run("append", "s", "and the lock is free")


SLOW = """
import os, signal, sys, time

from timeleap.storage import durable

sync = durable.sync_data

def slow(*args):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)
    return sync(*args)

import timeleap.storage.appending as appending
for name, value in list(vars(appending).items()):
    if value is sync:
        setattr(appending, name, slow)
durable.sync_data = slow
sys.argv = ["timeleap", *sys.argv[1:]]
from timeleap_command import main
sys.exit(main())
"""
"""Sends itself SIGTERM when a record is about to be synced."""


def test_asked_to_end_while_nothing_can_be_left_half(tmp_path: Path) -> None:
    """While a change waits for its disk: it is finished, for it was accepted."""
    cli = Cli(tmp_path / "store")
    cli.run("new", "s")
    done = subprocess.run(
        [sys.executable, "-c", SLOW, "append", "s", "once"],
        env=cli.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    assert [each["message"]["content"] for each in cli.run("show", "s", "--json").lines()] == ["once"]


ENDING = """
import atexit, sys, threading, time
from timeleap.cli.interrupt import at_end

def command():
    atexit.register(lambda: print("an exit handler", flush=True))
    threading.Thread(target=lambda: (time.sleep(0.2), print("a thread", flush=True))).start()
    sys.stdout.write("not flushed yet, ")
    return 7

before = sys.argv[1] == "before"
if before:
    atexit.register(lambda: print("one that was there before", flush=True))
sys.exit(at_end(command))
"""


@pytest.mark.parametrize(("case", "last"), [("alone", ""), ("before", "one that was there before\n")])
def test_the_end_skips_the_teardown_and_nothing_else(case: str, last: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING, case], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        7,
        f"not flushed yet, a thread\nan exit handler\n{last}",
        "",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("arguments", [["--version"], ["sessions", "--help"], ["sessions"], ["sessions", "--json"]])
def test_an_output_that_takes_nothing_is_an_error_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    cli = Cli(tmp_path / "store")
    cli.run("new", "s")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            cli.argv(arguments), env=cli.environment(), stdout=full, stderr=subprocess.PIPE, timeout=180, check=False
        )
    assert done.returncode == 1
    assert "the output cannot be written: No space left on device" in done.stderr.decode().splitlines()[0]
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a directory that is used cannot be removed there")
@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", "--home", "rel"],
        ["export", "s", "x.zip"],
        ["workspace", "s", "rel"],
        ["mcp"],
        ["serve", "--home", "rel"],
    ],
    ids=" ".join,
)
def test_a_directory_that_is_gone_is_said_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    cli = Cli(tmp_path / "store")
    cli.run("new", "s")
    (tmp_path / "gone").mkdir()
    command = ["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", str(tmp_path / "gone")]
    done = subprocess.run(
        [*command, *cli.argv(arguments)], env=cli.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode not in (0, 130)
    assert "Traceback" not in done.stdout
    assert "gone" in done.stdout.splitlines()[-1] or arguments[0] == "serve", done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_an_output_that_takes_nothing_at_the_end_is_said_by_the_interpreter(tmp_path: Path) -> None:
    code = "import sys, timeleap.cli.interrupt as end; sys.exit(end.at_end(lambda: bool(sys.stdout.write('x')) and 0))"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, timeout=180, check=False)
    assert done.returncode == 120
    assert b"No space left" in done.stderr
