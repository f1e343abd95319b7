"""The demo on every session there is: each of its promises is compared, and it is quick."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli


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
def test_the_story_shows_what_crosses_the_wire_and_draws_the_graph(cli):
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
