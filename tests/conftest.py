"""What all tests share: nothing of the user's is touched, nothing is skipped in CI, real sessions where there are some."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings

# Twenty thousand test items are made, which all stay, in each process of pytest-xdist: looking again and again for garbage
# among them is more than half of what making them costs.
gc.disable()

# How long an example takes says how busy the machine is.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a script: what tests start would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "examples" / "sample-session.jsonl"


def session_files() -> list[Path]:
    """The sample session, and the real ones of `TIMELEAP_SESSIONS_DIR` where that exists."""
    folder = Path(os.environ.get("TIMELEAP_SESSIONS_DIR") or ROOT.parent / "shared" / "data" / "sessions")
    return [SAMPLE, *sorted(folder.glob("*.jsonl"))]


class Sender(Protocol):
    """Of a process of pytest-xdist: what tells the one that prints of its tests."""

    sendevent: Callable[..., None]


@pytest.hookimpl(trylast=True)  # where tests are measured, that begins before: what modules are is measured, too
def pytest_sessionstart(session: pytest.Session) -> None:
    """Of what a process of pytest-xdist does, nothing that another one does, too, and nothing in vain."""
    config = session.config
    if (given := getattr(config, "workerinput", None)) is None:
        return
    _import_in_turn(config, int(given["workerid"].removeprefix("gw")), given["workercount"])
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent"):
            _be_brief(plugin)


def _import_in_turn(config: pytest.Config, number: int, count: int) -> None:
    """Import the test modules of the folders asked for, beginning at another part of them in each process: what one has
    compiled, which takes two thirds of what an import takes, the others find compiled."""
    ignored = config.getoption("ignore") or []
    left_out = [Path(config.invocation_params.dir, each).resolve() for each in ignored]
    folders = [Path(config.invocation_params.dir, each) for each in config.args if "::" not in each]
    modules = [
        module
        for folder in folders
        if folder.is_dir()
        for module in sorted(folder.resolve().rglob("test_*.py"))
        if module.is_relative_to(ROOT) and not any(module.is_relative_to(each) for each in left_out)
    ]
    first = len(modules) * number // count
    for module in (*modules[first:], *modules[:first]):
        with suppress(Exception, pytest.skip.Exception):  # the collection comes upon it again, and says so
            importlib.import_module(".".join(module.relative_to(ROOT).with_suffix("").parts))


def _be_brief(sender: Sender) -> None:
    """Tell only what is printed: not of each test that it begins, has been set up and is torn down, as it should."""
    send = sender.sendevent

    def send_news(name: str, **told: Any) -> None:
        report: dict[str, Any] = told["data"] if name == "testreport" else {}
        around = report.get("when") in {"setup", "teardown"} and report["outcome"] == "passed"
        if name != "logstart" and not (around and report["duration"] < 1 and not report["sections"]):
            send(name, **told)

    sender.sendevent = send_news


@pytest.hookimpl(trylast=True)  # of those that are left, in the order that the fixtures ask for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the slow tests in each process: all others would wait for one that begins last."""
    if (given := getattr(config, "workerinput", None)) is None:
        return
    slow: list[pytest.Item] = []
    quick: list[pytest.Item] = []
    for item in items:
        (quick if item.get_closest_marker("slow") is None else slow).append(item)
    left = given["workercount"]
    items.clear()
    while left:  # as `--dist worksteal` deals them out: to each process a part of what is left
        size, first = (len(slow) + len(quick)) // left, -(-len(slow) // left)
        items += [*slow[:first], *quick[: size - first]]
        del slow[:first], quick[: size - first]
        left -= 1


def pytest_collection_finish() -> None:
    """From now on garbage is looked for among what the tests make, not among the tests."""
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `session_file` runs once for each session there is."""
    if "session_file" in metafunc.fixturenames:
        files = session_files()
        metafunc.parametrize("session_file", files, ids=[file.stem for file in files])


@pytest.fixture(scope="session", autouse=True)
def _private_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's store, key and settings out of the tests, and the tests out of them."""
    home = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("TIMELEAP_") and name not in {"TIMELEAP_SESSIONS_DIR", "TIMELEAP_ORIGINAL_PYTHON"}:
                patch.delenv(name)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        # Clients of models load it for each endpoint, though ours speak no TLS: 20 ms for all that the system trusts.
        patch.setenv("SSL_CERT_FILE", str(ROOT / "tests" / "fixtures" / "nobody.pem"))
        if sys.dont_write_bytecode:  # the processes that tests start would compile all of us, each time anew
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), "timeleap-tests-bytecode")))
        yield


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped or expectedly failing test is a failure: everything it needs is there to be installed."""
    report = yield
    if report.skipped and _in_ci():
        report.outcome = "failed"
        report.longrepr = f"nothing is skipped in CI: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module (`importorskip`)."""
    report = yield
    if report.skipped and _in_ci():
        report.outcome = "failed"
        report.longrepr = f"nothing is skipped in CI: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        del report.wasxfail  # type: ignore[union-attr]
        return f"expected to fail: {expected}"
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
