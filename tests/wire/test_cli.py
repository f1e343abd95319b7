"""The command line against the real server, as scripts and people use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.cli import Cli, Typed
from tests.support.server import PATIENCE

NEWS = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def session(cli: Cli) -> str:
    """A session `s`: a checkpoint before each of three messages, and a token count."""
    records = [
        record for number, message in enumerate(NEWS) for record in ({"role": "_checkpoint", "id": number}, message)
    ]
    cli.run("new", "s", "--title", "Three words")
    cli.run("append", "s", input=lines([*records, {"role": "_usage", "token_count": 30}]))
    return "s"


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def shown(cli, *args, session="s"):
    return [entry["message"] for entry in cli.run("show", session, *args, "--json").lines()]


def contents(cli, *args, session="s"):
    return [message["content"] for message in shown(cli, *args, session=session)]


def test_new_prints_the_id_alone_and_refuses_a_taken_one(cli):
    assert cli.run("new", "mine").out == "mine\n"
    generated = cli.run("new", "--system-prompt", "Be kind.").out.strip()
    assert cli.json("state", generated)["context"]["systemPrompt"] == "Be kind."
    refused = cli.run("new", "mine", code=1)
    assert refused.out == ""
    assert "there is a session mine already" in refused.err


def test_new_takes_all_that_a_session_can_begin_with(cli, tmp_path):
    (tmp_path / "prompt.md").write_text("From a file.\n")
    prompt = f"@{tmp_path / 'prompt.md'}"
    state = cli.json("new", "s", "--title", "T", "--system-prompt", prompt, "--workspace", str(tmp_path))
    assert state["title"] == "T"
    assert state["workspace"] == tmp_path.as_uri()
    assert state["context"]["systemPrompt"] == "From a file.\n"
    cli.run("new", "turns", "--auto-checkpoint", "turn")
    cli.run("append", "turns", "a turn")


def test_append_takes_text_and_input_as_one_message_and_json_lines(cli):
    cli.run("new", "s")
    assert cli.run("append", "s", "hello", "there").out == "appended 1 message to s\n"
    cli.run("append", "s", "--role", "tool", input="output\nof a tool\n")
    answer = cli.json("append", "s", input=lines(NEWS))
    assert answer["messages"] == 3
    assert [(message["role"], message["content"]) for message in shown(cli)] == [
        ("user", "hello there"),
        ("tool", "output\nof a tool\n"),
        *((message["role"], message["content"]) for message in NEWS),
    ]


def test_a_log_can_be_poured_into_another_session(cli, session):
    state = cli.json("state", session)
    assert state["context"]["messageCount"] == 3
    assert state["context"]["nCheckpoints"] == 3
    assert state["context"]["tokenCount"] == 30
    log = Path(state["path"]) / "context.jsonl"
    cli.run("new", "copy")
    cli.run("append", "copy", input=log.read_text(encoding="utf-8"))
    assert cli.json("state", "copy")["context"]["nCheckpoints"] == 3


def test_a_bad_line_keeps_what_came_before_it_unless_all_or_nothing_was_asked_for(cli):
    cli.run("new", "s")
    text = lines(NEWS[:2]) + "nonsense\n" + lines(NEWS[2:])
    assert "line 3 is no JSON" in cli.run("append", "s", input=text, code=2).err
    assert contents(cli) == ["one", "two"]
    cli.run("append", "s", "--atomic", input=text, code=2)
    assert contents(cli) == ["one", "two"]
    cli.run("append", "s", "--atomic", input=lines(NEWS))
    assert len(contents(cli)) == 5


def test_appending_from_a_pipe_does_not_wait_for_its_end(cli):
    cli.run("new", "s")
    process = cli.start("append", "s", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(lines(NEWS[:1]))
    process.stdin.flush()
    deadline = time.monotonic() + PATIENCE
    while contents(cli) != ["one"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    out, _ = process.communicate(lines(NEWS[1:]), PATIENCE)
    assert out == "appended 3 messages to s\n"


def test_messages_can_be_shown_in_parts(cli, session):
    assert contents(cli, "--last", "2") == ["two", "three"]
    assert contents(cli, "--from", "1", "--to", "2") == ["two"]
    assert contents(cli, "--to", "1") == ["one"]
    assert contents(cli, "--checkpoint", "1") == ["two"]
    text = cli.run("show", session).out
    assert "[1] assistant\n    two\n" in text
    assert "do not go together" in cli.run("show", session, "--last", "1", "--from", "0", code=2).err


def test_a_message_cannot_command_the_terminal(cli):
    cli.run("new", "s", "--title", "\x1b[2J")
    cli.run("append", "s", "\x1b]0;owned\x07")
    for command in (["show", "s"], ["sessions"], ["state", "s"], ["log", "s"], ["tail", "s"]):
        out = cli.run(*command).out
        assert "\x1b" not in out
        assert "\\x1b" in out or command[0] == "log"


def test_revert_says_exactly_what_goes_and_asks_nobody_who_is_not_there(cli, session):
    before = cli.json("state", session)["head"]
    dry = cli.run("revert", session, "1", "--dry-run")
    assert "takes 2 messages, 2 checkpoints" in dry.out
    assert "[1] assistant  two" in dry.out
    assert "[2] user       three" in dry.out
    assert "nobody is there to be asked" in cli.run("revert", session, "1", code=2).err
    assert cli.json("state", session)["head"] == before
    cli.run("revert", session, "1", "--yes")
    assert contents(cli) == ["one"]


def test_revert_asks_who_is_there_and_takes_no_for_an_answer(cli, session):
    refused = cli.run("revert", session, "1", input=Typed("n\n"), code=1)
    assert "Revert?" in refused.err
    assert "nothing was changed" in refused.err
    assert contents(cli) == ["one", "two", "three"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_revert_on_a_terminal_does_what_it_is_told(cli, session):
    import pty

    main, side = pty.openpty()
    process = subprocess.Popen(
        cli.argv(["revert", session, "1"]), stdin=side, stdout=side, stderr=side, env=cli.environment()
    )
    os.close(side)
    os.write(main, b"y\n")
    said = b""
    while b"Revert?" not in said or process.poll() is None:
        try:
            said += os.read(main, 10_000)
        except OSError:  # how a pseudo terminal says that nobody is left on the other side
            break
    os.close(main)
    assert process.wait(PATIENCE) == 0
    assert b"undo with: timeleap undo s" in said
    assert contents(cli) == ["one"]


def test_revert_undo_restore_and_what_the_log_draws(cli, session):
    done = cli.json("revert", session, "1", "--yes")
    drawn = cli.run("log", session).out
    assert f"{done['timelineId']}  set aside by a revert" in drawn
    assert drawn.index("now") < drawn.index(done["timelineId"]) < drawn.index("#0")
    graph = cli.json("log", session)
    assert [checkpoint["id"] for checkpoint in graph["checkpoints"]] == [0]
    (timeline,) = graph["timelines"]
    assert timeline["leavesAfter"] == graph["checkpoints"][0]["uid"]
    assert [checkpoint["id"] for checkpoint in timeline["checkpoints"]] == [1, 2]
    assert contents(cli, "--timeline", done["timelineId"]) == ["one", "two", "three"]

    assert "would become the log again: 3 messages" in cli.run("undo", session, "--dry-run").out
    assert contents(cli) == ["one"]
    cli.run("undo", session)
    assert contents(cli) == ["one", "two", "three"]
    newest = cli.json("log", session)["timelines"][0]["timelineId"]
    assert cli.json("restore", session, newest)["context"]["messageCount"] == 1


def test_nothing_to_undo_is_said(cli):
    cli.run("new", "s")
    assert "nothing to undo" in cli.run("undo", "s", code=2).err
    assert "nothing to redo" in cli.run("redo", "s", code=2).err
    error = json.loads(cli.run("undo", "s", "--json", code=2).err)["error"]
    assert (error["code"], error["kind"], error["data"]["canUndo"]) == (4018, "nothingToUndo", 0)
    assert cli.run("undo", "s", "-n", "0", code=2)


def test_undo_redo_and_restore_take_yes_though_they_do_not_ask(cli, session):
    cli.run("revert", session, "1", "--yes")
    assert "3 messages" in cli.run("undo", session, "--yes").out
    assert "1 message," in cli.run("redo", session, "-y").out
    assert "3 messages" in cli.run("restore", session, "context_1", "--yes").out


def test_undo_and_redo_of_several_steps_and_a_revert_to_a_message(cli, session):
    assert "--message" in cli.run("revert", session, code=2).err
    assert "--message" in cli.run("revert", session, "1", "--message", "1", code=2).err
    assert "takes 1 message" in cli.run("revert", session, "--message", "2", "--dry-run").out
    assert contents(cli) == ["one", "two", "three"]
    assert "undo with" in cli.run("revert", session, "--message", "2", "--yes").err
    cli.run("revert", session, "--message", "1", "--yes")
    assert contents(cli) == ["one"]
    dry = cli.run("undo", session, "-n", "2", "--dry-run")
    assert "context_1 (revert, set aside " in dry.out
    assert "would become the log again: 3 messages" in dry.out
    assert "0 to undo, 2 to redo" in dry.err
    assert contents(cli) == ["one"]
    done = cli.json("undo", session, "-n", "2")
    assert [step["kind"] for step in done["steps"]] == ["revert", "revert"]
    assert (done["canUndo"], done["canRedo"]) == (0, 2)
    assert contents(cli) == ["one", "two", "three"]
    assert "1 to undo, 1 to redo" in cli.run("redo", session).err
    assert contents(cli) == ["one", "two"]
    assert "1 can be redone" in cli.run("redo", session, "-n", "2", code=2).err
    cli.run("append", session, "elsewhere")
    assert "nothing to redo" in cli.run("redo", session, code=2).err
    assert "past context_2 (revert)" not in cli.run("undo", session).out


def test_compact_and_its_undo(cli):
    cli.run("new", "s")
    cli.run("append", "s", input=lines([{"role": "user", "content": f"{n} " + "word " * 300} for n in range(8)]))
    dry = cli.json("compact", "s", "--summarizer", "builtin", "--dry-run")
    assert dry["compacted"] is True
    assert len(contents(cli)) == 8
    assert "became a summary" in cli.run("compact", "s", "--summary", "In short: words.", "--keep", "1").out
    assert "In short: words." in json.dumps(shown(cli)[0])
    cli.run("undo", "s")
    assert len(contents(cli)) == 8


def test_checkpoint_and_fork(cli, session):
    assert cli.run("checkpoint", session, "good", "place").out.startswith("checkpoint #3 (")
    assert cli.run("fork", session, "other", "--at", "1", "--title", "Elsewhere").out == "other\n"
    other = cli.json("state", "other")
    assert other["title"] == "Elsewhere"
    assert other["context"]["messageCount"] == 1


def test_a_timeline_is_forked_as_it_was(cli, session):
    cli.run("revert", session, "1", "--yes")
    cli.run("append", session, "another way")
    assert cli.run("fork", session, "whole", "--timeline", "context_1").out == "whole\n"
    assert cli.run("fork", session, "part", "--timeline", "context_1", "--at", "2").out == "part\n"
    assert contents(cli, session="whole") == ["one", "two", "three"]
    assert contents(cli, session="part") == ["one", "two"]
    assert "context_9" in cli.run("fork", session, "none", "--timeline", "context_9", code=1).err


def test_a_revert_between_a_call_and_its_result_says_so_and_heals_if_asked(cli):
    cli.run("new", "s")
    cli.run("append", "s", "What is there?")
    calling = {"id": "c1", "type": "function", "function": {"name": "list", "arguments": "{}"}}
    cli.run("append", "s", input=lines([{"role": "assistant", "content": "", "tool_calls": [calling]}]))
    cli.run("checkpoint", "s")
    cli.run("append", "s", input=lines([{"role": "tool", "tool_call_id": "c1", "content": "a.py"}]))
    assert "leaves 1 tool call without a result" in cli.run("revert", "s", "0", "--dry-run").out
    healing = cli.run("revert", "s", "0", "--heal", "--dry-run").out
    assert "takes 2 messages" in healing
    assert "goes back to before 1 tool call" in healing
    cli.run("dmail", "send", "s", "a.py is there", "--at", "0")
    cli.run("dmail", "deliver", "s", "--heal", "--yes")
    assert [message["role"] for message in shown(cli)] == ["user", "user"]
    cli.run("undo", "s")
    cli.run("revert", "s", "0", "--heal", "--yes")
    assert contents(cli) == ["What is there?"]


def test_yolo_is_shown_switched_and_its_author_told(cli, session):
    assert cli.run("yolo", session).out.startswith("yolo is off")
    assert "ON" in cli.run("yolo", session, "on").out
    answer = cli.json("yolo", session)["approval"]
    assert (answer["yolo"], answer["changedBy"]) == (True, "timeleap-cli")
    cli.run("yolo", session, "off")
    assert cli.json("state", session)["approval"]["yolo"] is False


def test_sessions_are_listed_archived_and_thrown_away(cli, session):
    cli.run("new", "=SUM(A1)", code=1)
    cli.run("new", "empty")
    table = cli.run("sessions").out.splitlines()
    assert table[0].split("\t")[:6] == ["session", "messages", "tokens", "changed", "state", "title"]
    assert {row.split("\t")[0] for row in table[1:]} == {"empty", "s"}
    cli.run("archive", "empty")
    assert [info["sessionId"] for info in cli.run("sessions", "--json").lines()] == ["s"]
    assert len(cli.run("sessions", "--all", "--json").lines()) == 2
    cli.run("unarchive", "empty")
    assert [info["sessionId"] for info in cli.run("sessions", "emp", "--json").lines()] == ["empty"]
    cli.run("trash", "delete", "empty")
    assert [info["sessionId"] for info in cli.run("trash", "list", "--json").lines()] == ["empty"]
    assert "timeleap trash list" in cli.run("state", "empty", code=1).err
    cli.run("trash", "undelete", "empty")
    assert len(cli.run("sessions", "--json").lines()) == 2


def test_the_trash_is_purged_and_emptied(cli, session):
    for name in ("a", "b", "c"):
        cli.run("new", name)
        cli.run("trash", "delete", name)
    assert "deleted" in cli.run("trash", "purge", "a", "--dry-run").out
    assert len(cli.run("trash", "list", "--json").lines()) == 3
    assert "--yes" in cli.run("trash", "purge", "a", code=2).err
    assert "1 session removed" in cli.run("trash", "purge", "a", "--yes").out
    assert "no session a in the trash" in cli.run("trash", "purge", "a", "--yes", code=1).err
    (time,) = (info["deletedAt"] for info in cli.run("trash", "list", "--json").lines() if info["sessionId"] == "b")
    purged = json.loads(cli.run("trash", "purge", "b", "--deleted-at", time, "--yes", "--json").out)
    assert [one["sessionId"] for one in purged["purged"]] == ["b"]
    assert "nothing to remove" in cli.run("trash", "empty", "--older-than", "30d", "--yes").out
    assert "30 days" in cli.run("trash", "empty", "--older-than", "30 days", code=2).err
    assert "1 session removed" in cli.run("trash", "empty", "--yes").out
    assert cli.run("trash", "list", "--json").lines() == []
    assert [info["sessionId"] for info in cli.run("sessions", "--json").lines()] == ["s"]


def test_the_audit_is_shown(cli, session):
    assert "nothing" in cli.run("audit", session).err
    cli.run("yolo", session, "on")
    cli.run("yolo", session, "off")
    assert [(one["field"], one["to"]) for one in cli.run("audit", session, "--json").lines()] == [
        ("yolo", False),
        ("yolo", True),
    ]
    assert len(cli.run("audit", session, "-n", "1", "--json").lines()) == 1
    assert cli.run("audit", session).out.splitlines()[0].split("\t")[1:] == ["client", "what", "from", "to"]


def test_verify_and_repair(cli, session):
    assert "no damage" in cli.run("verify", session).out
    assert "nothing to do" in cli.run("repair", session).out
    log = Path(cli.json("state", session)["path"]) / "context.jsonl"
    damaged = log.read_bytes().splitlines(keepends=True)
    damaged.insert(3, b'{"role": "user", "con\n')
    log.write_bytes(b"".join(damaged))
    found = cli.json("verify", session, code=1)
    assert found["ok"] is False
    assert any(problem["line"] == 3 for problem in found["problems"])
    assert "line 4" in cli.run("verify", session, code=1).out
    cli.run("repair", session, "--dry-run")
    assert log.read_bytes() == b"".join(damaged)
    assert cli.json("repair", session, "--yes")["removedLines"] == 1
    cli.run("verify", session)
    assert contents(cli) == ["one", "two", "three"]


def test_a_session_can_be_named_by_its_path(cli, session):
    path = Path(cli.json("state", session)["path"])
    elsewhere = Cli(cli.home.parent / "elsewhere", {"TIMELEAP_KEY_FILE": str(cli.home.parent / "user" / "key")})
    assert elsewhere.json("state", str(path))["context"]["messageCount"] == 3
    assert elsewhere.json("state", str(path / "context.jsonl"))["context"]["messageCount"] == 3
    elsewhere.run("append", str(path), "from outside")
    assert contents(cli)[-1] == "from outside"
    assert "is no session" in cli.run("state", __file__, code=2).err
    assert "there is no session at" in cli.run("state", "./nowhere", code=2).err


def test_call_speaks_the_protocol_and_opens_what_it_needs(cli, session):
    state = cli.run("call", "session/getState", json.dumps({"sessionId": session})).json()
    assert state["sessionId"] == session
    message = {"role": "user", "content": "four"}
    appended = cli.run(
        "call", "context/appendMessage", "-", input=json.dumps({"sessionId": session, "message": message})
    )
    assert appended.json()["messageCount"] == 4
    refused = cli.run("call", "context/getHistory", json.dumps({"sessionId": session, "limit": "x"}), code=1)
    assert "limit" in refused.err
    assert "methodNotFound" in cli.run("call", "no/method", "--json", code=1).err
    assert "no JSON" in cli.run("call", "session/list", "{", code=2).err
    assert "JSON object" in cli.run("call", "session/list", "[]", code=2).err


def test_errors_are_words_for_people_and_json_for_machines(cli):
    words = cli.run("state", "nobody", code=1)
    assert words.err.startswith("error: ")
    assert "timeleap sessions --all" in words.err
    machine = cli.run("state", "nobody", "--json", code=1)
    assert machine.out == ""
    assert json.loads(machine.err)["error"]["kind"] == "sessionNotFound"
    assert "1 to 64" in cli.run("state", "bad id", code=1).err
    assert "Usage" in cli.run("state", code=2).err


def test_a_locked_session_names_its_owner_and_can_still_be_read(cli, session):
    process = cli.start("append", session, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(lines(NEWS[:1]))
    process.stdin.flush()
    try:
        deadline = time.monotonic() + PATIENCE
        while len(contents(cli)) != 4:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for command in (["state", session], ["log", session], ["show", session], ["verify", session]):
            cli.run(*command)
        params = {"sessionId": session, "attach": False}
        refused = cli.run("call", "session/open", json.dumps(params), code=1)
        assert "It belongs to process " in refused.err
        assert "Reading still works: timeleap log" in refused.err
    finally:
        process.communicate("", PATIENCE)


def test_following_gives_json_lines_and_ends_with_ctrl_c(cli, session):
    follower = cli.start("tail", "-f", session, "-n", "1")
    assert follower.stdout is not None
    assert json.loads(follower.stdout.readline())["message"]["content"] == "three"
    cli.run("append", session, "four")
    heard = json.loads(follower.stdout.readline())
    assert heard["method"] == "context/didChange"
    assert heard["params"]["sessionId"] == session
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 130
    assert "Traceback" not in err


@pytest.mark.long
def test_the_server_does_not_outlive_a_command_that_is_killed(cli, session):
    follower = cli.start("tail", "-f", session)
    assert follower.stderr is not None
    follower.stderr.readline()
    import psutil

    (child,) = psutil.Process(follower.pid).children()
    follower.kill()
    follower.communicate(timeout=PATIENCE)
    psutil.wait_procs([child], timeout=PATIENCE)
    assert not child.is_running()


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_has_seen_enough_is_no_error(cli, session, options):
    cli.run("append", session, input=lines([{"role": "user", "content": "x" * 10_000} for _ in range(200)]))
    with cli.start("show", session, *options) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(PATIENCE) == 0


def test_options_stand_before_or_after_the_command(cli, tmp_path):
    other = tmp_path / "other"
    cli.run("--home", str(other), "new", "there")
    assert cli.run("sessions", "--home", str(other), "--json").lines()[0]["sessionId"] == "there"
    assert cli.run("--json", "sessions", "--home", str(other)).lines()[0]["sessionId"] == "there"
    assert cli.run("sessions", "--json").out == ""


def test_settings_are_kept_in_the_store_and_judged_before_they_are_written(cli, session):
    cli.run("config", "set", "maxContextSize", "200000")
    assert cli.run("config", "get", "maxContextSize").out == "200000\n"
    assert cli.json("state", session)["budget"]["maxContextSize"] == 200_000
    assert "over 0 and at most 1" in cli.run("config", "set", "triggerRatio", "7", code=2).err
    assert "there is no setting x" in cli.run("config", "get", "x", code=2).err
    shown = Cli(cli.home, {"TIMELEAP_TRIGGER_RATIO": "0.5"}).json("config", "show")
    assert shown["triggerRatio"] == {"value": 0.5, "from": "TIMELEAP_TRIGGER_RATIO"}
    assert shown["maxContextSize"]["from"] == str(cli.home / "config.toml")
    assert shown["durability"] == {"value": "disk", "from": "default"}
    cli.run("config", "set", "summarizer.timeout", "900")
    cli.run("config", "set", "summarizer.contextSize", "32000")
    settings = cli.json("config", "show")
    assert [settings[f"summarizer.{key}"]["value"] for key in ("timeout", "contextSize")] == [900, 32_000]
    assert "summarizer.timeout" in cli.run("config", "set", "summarizer.timeout", "soon", code=2).err
    cli.run("config", "unset", "maxContextSize")
    cli.run("config", "get", "maxContextSize", code=1)
    assert cli.json("config", "path") == {"path": str(cli.home / "config.toml"), "exists": True}


def test_an_unusable_store_is_said_in_words(cli, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    failed = cli.run("sessions", "--home", str(file / "below"), code=1)
    assert str(file) in failed.err


def test_completion_offers_session_ids_and_methods(cli, session):
    def offered(*words):
        env = {
            "_TIMELEAP_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["timeleap", *words]),
            "COMP_CWORD": str(len(words)),
        }
        return Cli(cli.home, env).run().out.split()

    cli.run("new", "second")
    assert offered("state", "s") == ["s", "second"]
    assert "context/revertTo" in offered("call", "context/rev")


@pytest.mark.parametrize("form", ["openrpc", "json-schema", "typescript"])
def test_the_protocol_is_printed(cli, form):
    out = cli.run("schema", form).out
    assert "SessionState" in out
    if form != "typescript":
        json.loads(out)


def test_a_schema_of_some_methods_and_flat_names(cli):
    part = json.loads(cli.run("schema", "json-schema", "--only", "initialize, session/set*").out)
    assert {"initialize", "session/setYolo", "session/setTitle"} <= part["methods"].keys()
    assert all(name == "initialize" or name.startswith("session/set") for name in part["methods"])
    assert "SessionSetTitleRequest" in part["$defs"] and "SessionOpenParams" not in part["$defs"]
    flat = json.loads(cli.run("schema", "openrpc", "--flat-names").out)
    assert "contextAppendMessage" in {method["name"] for method in flat["methods"]}


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("json-schema", "--only", "session/open,no/such"), "no/such"),
        (("json-schema", "--only", ","), "--only"),
        (("openrpc", "--only", "session/open"), "--only"),
        (("typescript", "--flat-names"), "--flat-names"),
    ],
)
def test_a_schema_that_cannot_be_had_is_a_misuse(cli, args, word):
    failed = cli.run("schema", *args, code=2)
    assert word in failed.err and failed.out == ""


def test_version_and_help(cli):
    assert cli.run("--version").out.startswith("timeleap ")
    assert "timeleap demo" in cli.run("help", "--all").out
    assert "timeleap revert fix-dates 3 --dry-run" in cli.run("revert", "--help").out
    assert cli.execute("serve", "--help").out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["new", "another"], "another\n"),
        (["sessions"], "session\t"),
        (["compact", "s", "--dry-run", "--summary", "short"], "would become a summary"),
        (["verify", "s"], "s: 7 lines"),
        (["config", "path"], "config.toml"),
        (["call", "session/list"], '{"sessions": ['),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_of_each_kind_as_the_shell_runs_it(cli, session, command, said):
    assert said in cli.execute(*command).out


def test_no_color_where_nobody_looks_or_nobody_wants_it(cli, session):
    assert "\x1b[1;3" in cli.terminal("show", session).out
    assert "\x1b[1;3" not in Cli(cli.home, {"NO_COLOR": "1"}).terminal("show", session).out
    assert "\x1b" not in cli.run("show", session).out


def test_a_server_that_is_to_write_a_log_writes_it(cli, session, tmp_path):
    log = tmp_path / "log"
    told = Cli(cli.home, {"TIMELEAP_LOG_FILE": str(log), "TIMELEAP_LOG_LEVEL": "info"}).execute("append", session, "x")
    assert told.err == ""
    assert f"context/appendMessage {session} ok" in log.read_text()


def test_a_command_loads_no_models(cli, session):
    code = (
        "import sys; from timeleap.__main__ import main; sys.argv[1:] = ['append', sys.argv[1], 'text']; code = main(); "
        "sys.exit(code or ' '.join({'pydantic'} & sys.modules.keys()) or 0)"
    )
    command = [sys.executable, "-c", code, session]
    done = subprocess.run(command, env=cli.environment(), capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"appended 1 message to {session}\n", "")
