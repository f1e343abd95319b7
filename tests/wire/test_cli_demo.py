"""The demo on every session there is: each of its promises is compared, and it is quick."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.postgresql import INSTALL, programs

from timeleap.cli import private_cluster


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.mark.long
def test_every_promise_is_kept_on_every_session(cli, session_file):
    told = cli.execute("demo", str(session_file), "--json").json()
    assert _broken(told) == []
    assert not cli.home.exists()


def _broken(told):
    """The promises that were not kept."""
    broken = [check["promise"] for check in told["checks"] if not check["kept"]]
    assert told["ok"] is (broken == [])
    assert len(told["checks"]) >= 25
    return broken


@pytest.mark.long
def test_the_story_shows_what_crosses_the_wire_and_draws_the_graph_without_a_home_directory(cli, monkeypatch):
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.delenv("TIMELEAP_KEY_FILE", raising=False)
    told = cli.execute("demo").out
    for part in (
        '"method": "initialize"',
        '"method": "context/revertTo"',
        "timeleap log",
        "◇ context_1",
        "What was proven",
    ):
        assert part in told
    assert "FAILED" not in told
    assert "✗" not in told


@pytest.mark.long
def test_two_machines_share_a_session_in_a_database_that_loses_its_primary(cli):
    if programs() is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    told = cli.execute("demo", "--store", "postgresql").out
    for part in (
        '{"requestId": "demo-',
        "agent, process",
        "-- (killed)",
        "◇ context_1",
        "A third machine, later",
        "18 of 18 promises kept",
    ):
        assert part in told
    assert "✗" not in told
    assert not cli.home.exists()


@pytest.mark.long
def test_a_machine_that_hears_nothing_fails_the_demo_of_two(cli, tmp_path):
    if programs() is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    (tmp_path / "sitecustomize.py").write_text(
        "import timeleap.cli.demo_database as demo\n"
        "demo._PATIENCE = 0.5\n"
        "demo._Machine._hear = lambda self, notification: None\n"
    )
    liar = Cli(cli.home, {"PYTHONPATH": str(tmp_path)})
    told = liar.execute("demo", "--store", "postgresql", "--json", code=1).json()
    broken = [check["promise"] for check in told["checks"] if not check["kept"]]
    assert broken == [
        "the editor hears of it, and by whom",
        "the agent hears what was reverted, by whom, under which request",
        "the agent undoes the editor's revert, which the editor hears",
    ]


def test_the_demo_of_two_machines_says_what_it_lacks(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(private_cluster, "programs", lambda: None)
    assert f"PostgreSQL is not installed: {INSTALL}" in cli.run("demo", "--store", "postgresql", code=2).err
    for more in (["x.jsonl"], ["--keep"], ["--home", str(tmp_path)]):
        assert "session of its own" in cli.run("demo", "--store", "postgresql", *more, code=2).err


@pytest.mark.long
def test_a_promise_that_is_not_kept_fails_the_demo(cli, tmp_path):
    """A server whose histories lack their last message is found out, and the exit code says so."""
    (tmp_path / "sitecustomize.py").write_text(
        "import timeleap_client.connection as wire\n"
        "take = wire.ServerConnection._take_reply\n"
        "def lie(self, message):\n"
        "    result = message.get('result')\n"
        "    if isinstance(result, dict) and result.get('messages'):\n"
        "        result['messages'].pop()\n"
        "    take(self, message)\n"
        "wire.ServerConnection._take_reply = lie\n"
    )
    liar = Cli(cli.home, {"PYTHONPATH": str(tmp_path)})
    told = liar.execute("demo", "--json", code=1).json()
    assert _broken(told)


@pytest.mark.long
def test_with_a_home_the_session_stays(cli):
    told = cli.execute("demo", "--home", str(cli.home), "--json").json()
    assert _broken(told) == []
    state = cli.json("state", told["sessionId"])
    assert state["context"]["messageCount"] > 10


@pytest.mark.parametrize(
    ("content", "said"), [("", "no message"), ("{}\n", "line 1 is no message"), ('{"role": "_usage"}\n', "no message")]
)
def test_a_file_that_is_no_session_is_said(cli, tmp_path, content, said):
    file = tmp_path / "x.jsonl"
    file.write_text(content)
    assert said in cli.run("demo", str(file), code=2).err
    assert "no session file" in cli.run("demo", str(tmp_path / "nowhere"), code=2).err


def test_the_packaged_sample_is_the_example_of_the_repository():
    root = Path(__file__).resolve().parents[2]
    packaged = root / "server" / "timeleap" / "cli" / "data" / "sample-session.jsonl"
    assert packaged.read_bytes() == (root / "examples" / "sample-session.jsonl").read_bytes()
