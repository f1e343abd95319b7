"""Commands that look into the past, and that carry it on: search, diff, at, compact, pins, dmail, storage, prune."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cli import Cli, Typed

FIRST = ["Why is 1969 wrong?", "I look at the parser.", "The parser 🎉 drops the sign of 1969.\nSee dates.py line 12."]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "home")


@pytest.fixture
def session(cli: Cli) -> str:
    """Session `s`: a checkpoint before each of three messages, the last one labelled; `context_1` has all of them, the
    log has the first, and one that came after the revert."""
    roles = ["user", "assistant", "assistant"]
    cli.run("new", "s", "--system-prompt", "Be exact.")
    records = [
        record
        for number, (role, text) in enumerate(zip(roles, FIRST, strict=True))
        for record in ({"role": "_checkpoint", "id": number}, {"role": role, "content": text})
    ]
    cli.run("append", "s", input="".join(json.dumps(record) + "\n" for record in records))
    cli.run("checkpoint", "s", "found it")
    cli.run("revert", "s", "1", "--yes")
    cli.run("append", "s", "--role", "assistant", "It is the time zone.")
    return "s"


def test_search_says_where_a_message_is_and_what_the_match_stands_in(cli, session):
    found = cli.run("search", "1969", session).out.splitlines()
    assert found == ["s:0: Why is 1969 wrong?", "s@context_1:2: The parser 🎉 drops the sign of 1969."]
    assert cli.run("search", "1969", session, "--live").out.splitlines() == found[:1]
    assert len(cli.run("search", "1969", session, "--repeats").out.splitlines()) == 3
    assert cli.run("search", "-i", "-E", "p[a]RSER", session).out.count("s@context_1") == 2
    assert cli.run("search", "PARSER", session).err == "nothing found\n"


def test_search_marks_what_it_found(cli, session):
    seen = cli.terminal("search", "19[0-9]+|sign", session, "-E").out
    assert "\x1b[1;31m1969\x1b[0m" in seen
    assert "drops the \x1b[1;31msign\x1b[0m of \x1b[1;31m1969\x1b[0m." in seen
    assert "(2 matches)" in seen


def test_search_over_the_store_and_its_limit(cli, session):
    cli.run("new", "other")
    cli.run("append", "other", "x" * 300 + " 1969 " + "y" * 300)
    found = cli.run("search", "1969")
    assert [line.split(":")[0] for line in sorted(found.out.splitlines())] == ["other", "s", "s@context_1"]
    (cut,) = [line for line in found.out.splitlines() if line.startswith("other")]
    assert cut.startswith("other:0: …x")
    assert cut.endswith("y…")
    assert " 1969 " in cut
    limited = cli.run("search", "1969", "--limit", "1")
    assert len(limited.out.splitlines()) == 1
    assert "there may be more" in limited.err
    matches = cli.run("search", "1969", session, "--json").lines()
    assert [(match["sessionId"], match["index"]) for match in matches] == [("s", 0), ("s", 2)]
    assert "timeleap sessions --all" in cli.run("search", "x", "nobody", code=1).err
    assert cli.run("search", session, "1969").out == cli.run("search", "1969", session).out
    assert cli.run("search", "(", session, "-E", code=1).err.startswith("error: ")


def test_diff_shows_what_only_one_side_has(cli, session):
    lines = cli.run("diff", session, "context_1").out.splitlines()
    assert lines[0].startswith("--- context_1  (3 messages, ")
    assert lines[1].startswith("+++ present  (2 messages, ")
    assert lines[2:] == [
        "@@ 1 message in common, then -2 +1 @@",
        "- [1] assistant",
        "-     I look at the parser.",
        "- [2] assistant",
        "-     The parser 🎉 drops the sign of 1969.",
        "-     See dates.py line 12.",
        "+ [1] assistant",
        "+     It is the time zone.",
    ]
    assert cli.run("diff", session, "context_1", "--stat").out.splitlines() == lines[:3]
    assert "the same 2 messages" in cli.run("diff", session, "now", "present").out


@pytest.mark.parametrize(
    ("name", "said", "common"),
    [
        ("0", "--- #0  (0 messages", 0),
        ("#0", "--- #0  (0 messages", 0),
        ("context_1:2", "--- context_1:#2  (2 messages", 1),
        ("context_1:found it", "--- context_1:#3 found it  (3 messages", 1),
    ],
)
def test_diff_takes_checkpoints_by_many_names(cli, session, name, said, common):
    assert said in cli.run("diff", session, name).out
    found = cli.json("diff", session, name)
    assert found["common"] == common
    assert found["addedCount"] == len(found["added"]) == 2 - common


def test_diff_knows_a_checkpoint_of_a_timeline_by_its_uid_and_says_what_it_does_not_know(cli, session):
    (timeline,) = cli.json("log", session)["timelines"]
    uid = timeline["checkpoints"][0]["uid"]
    assert cli.json("diff", session, uid)["common"] == 1
    assert "there is no checkpoint #7" in cli.run("diff", session, "7", code=1).err
    assert "timeleap log s shows the checkpoints" in cli.run("diff", session, "nonsense", code=1).err
    for _ in range(2):
        cli.run("checkpoint", session, "twice")
    assert "2 checkpoints are called twice: name one of #1, #2" in cli.run("diff", session, "twice", code=2).err


def test_diff_reads_all_pages(cli):
    cli.run("new", "s")
    records = [{"role": "user", "content": f"{number}"} for number in range(2500)]
    cli.run("append", "s", input="".join(json.dumps(record) + "\n" for record in records))
    done = cli.json("compact", "s", "--summary", "numbers", "--keep", "1")
    found = cli.json("diff", "s", done["timelineId"])
    assert [entry["index"] for entry in found["removed"]] == list(range(found["common"], 2500))
    assert found["removedCount"] == len(found["removed"])


def test_diff_says_that_the_prompts_differ(cli, session):
    assert "system prompt" not in cli.run("diff", session, "0").out
    cli.run("append", session, input='{"role": "_system_prompt", "content": "Be quick."}\n')
    assert "the system prompt is another one" in cli.run("diff", session, "0").out


def test_at_says_what_led_to_a_moment(cli, session):
    told = cli.run("at", session, "1", "-t", "context_1").out
    assert "in           context_1" in told
    assert "after        #1 (" in told
    assert "before       #2 (" in told
    assert "messages     2" in told
    assert cli.json("at", session, "0")["state"]["messageCount"] == 1
    state = cli.run("at", session, "2200-01-01T00:00").out
    assert "in           the present log" in state
    assert "neither a message's number nor a time" in cli.run("at", session, "yesterday", code=2).err


def test_compact_keeps_score_and_pins(cli, session):
    cli.run("append", session, "Never touch the main branch. " + "word " * 300)
    cli.run("append", session, "--role", "assistant", "I edit server/dates.py and fail with ValueError: bad sign.")
    cli.run("append", session, "go on")
    plan = cli.run(
        "compact", session, "--summary", "All about dates.", "--keep", "1", "--pin", "port 8042", "--dry-run"
    )
    assert "    All about dates.\n" in plan.out
    assert "would become a summary" in plan.out
    assert "files           0 of " in plan.out
    assert "; lost: server/dates.py" in plan.out
    assert "pins            0 in the summary, 1 added to it word for word" in plan.out
    assert "    + port 8042" in plan.out
    done = cli.json("compact", session, "--summary", "In server/dates.py.", "--keep", "1", "--pin", "port 8042")
    assert done["scorecard"]["paths"]["kept"] == 1
    assert "port 8042" in cli.run("show", session).out


def test_pins_are_shown_added_and_removed(cli, session):
    assert cli.run("pins", session).err == "nothing is pinned\n"
    assert cli.run("pins", session, "--add", "main", "--add", "port 8042", "--add", "main").out == "main\nport 8042\n"
    assert cli.json("pins", session)["pins"] == ["main", "port 8042"]
    assert "not pinned: nothing of it" in cli.run("pins", session, "--remove", "nothing of it", code=2).err
    assert cli.run("pins", session, "--remove", "main").out == "port 8042\n"
    assert cli.json("pins", session, "--clear", "--add", "last")["pins"] == ["last"]


def test_a_dmail_waits_is_delivered_and_taken_back(cli, session):
    assert "say whose self gets it" in cli.run("dmail", "send", session, "x", code=2).err
    sent = cli.run("dmail", "send", session, "--at", "0", "Look at", "the time zone.")
    assert sent.out == "the note waits in s for checkpoint #0\n"
    assert cli.run("dmail", "show", session).out == "for checkpoint #0:\nLook at the time zone.\n"
    assert "D-Mail waits: Look at the time zone." in cli.run("log", session).out
    dry = cli.run("dmail", "deliver", session, "--dry-run")
    assert dry.out.startswith("This takes 2 messages, 1 checkpoint and 0 tokens out of s; 0 messages stay.")
    assert "At checkpoint #0 it puts: Look at the time zone." in dry.out
    assert "nobody is there to be asked" in cli.run("dmail", "deliver", session, code=2).err
    assert "undo with" in cli.run("dmail", "deliver", session, input=Typed("y\n")).err
    (message,) = cli.run("show", session, "--json").lines()
    assert "Look at the time zone." in json.dumps(message)
    assert "set aside by a D-Mail" in cli.run("log", session).out
    assert "(dmail, set aside " in cli.run("undo", session).out
    assert len(cli.run("show", session, "--json").lines()) == 2
    cli.json("dmail", "send", session, "--at", "0", "again")
    assert cli.run("dmail", "cancel", session).out == "dropped\n"
    assert cli.run("dmail", "show", session).err == "none is waiting\n"


def test_a_dmail_goes_to_another_session(cli, session):
    cli.run("new", "parent")
    cli.run("checkpoint", "parent", "plan")
    assert cli.run("dmail", "send", session, "--to", "parent", "Done.").out == "the note stands at the end of parent\n"
    assert "Done." in cli.run("show", "parent").out
    sent = cli.run("dmail", "send", session, "--to", "parent", "--at", "plan", "Think again.")
    assert sent.out == "the note waits in parent for checkpoint #0\n"
    assert cli.run("dmail", "show", "parent").out.startswith("for checkpoint #0, from s:\n")


def test_storage_says_what_takes_space(cli, session):
    cli.run("new", "other")
    cli.run("trash", "delete", "other")
    rows = [line.split("\t") for line in cli.run("storage").out.splitlines()]
    assert rows[0] == ["session", "size", "log", "timelines", "index", "quarantine", "other", "state"]
    assert [(row[0], row[-1]) for row in rows[1:]] == [("s", ""), ("other", "in the trash")]
    found = cli.json("storage")
    assert found["totalBytes"] == sum(each["bytes"] for each in found["sessions"])
    files = cli.run("storage", session)
    assert "context_1.jsonl\ttimeline\t" in files.out
    assert "timeleap prune s --dry-run" in files.err
    assert len(cli.json("storage", "--limit", "1")["sessions"]) == 1


def test_prune_says_what_goes_and_asks(cli, session):
    cli.run("undo", session)
    before = cli.json("state", session)["head"]
    dry = cli.run("prune", session, "--keep", "1", "--dry-run")
    assert dry.out.startswith("This removes 1 timeline for good: ")
    assert "nobody is there to be asked" in cli.run("prune", session, "--keep", "1", code=2).err
    assert cli.json("state", session)["head"] == before
    refused = cli.run("prune", session, "--keep", "1", input=Typed("n\n"), code=1)
    assert "nothing was changed" in refused.err
    assert "freed" in cli.run("prune", session, "--keep", "1", "--yes").out
    (left,) = cli.json("log", session)["timelines"]
    gone = cli.json("prune", session, left["timelineId"], "--yes")
    assert [each["timelineId"] for each in gone["removed"]] == [left["timelineId"]]
    assert cli.run("prune", session, "--older-than", "30d").out == "There is nothing to remove.\n"
    assert "is no size" in cli.run("prune", session, "--keep-bytes", "many", code=2).err
    assert "time span" in cli.run("prune", session, "--older-than", "soon", code=2).err


@pytest.mark.parametrize(
    "command",
    [
        ["revert", "s", "0"],
        ["prune", "s", "context_1"],
        ["redact", "s", "--pattern", "1969"],
        ["dmail", "deliver", "s"],
    ],
    ids=lambda command: command[0],
)
def test_what_was_changed_while_somebody_thought_is_not_taken_away(cli, session, monkeypatch, command):
    cli.run("dmail", "send", session, "--at", "0", "a note")

    def think(*_, **__):
        cli.run("append", session, "one more")
        return True

    monkeypatch.setattr("timeleap.cli.terminal.Terminal.confirm", think)
    refused = cli.run(*command, input=Typed(""), code=1)
    assert "The session was changed meanwhile" in refused.err
    kept = cli.run("show", session, "--json").lines()
    assert [entry["message"]["content"] for entry in kept] == [FIRST[0], "It is the time zone.", "one more"]
    (timeline,) = cli.json("log", session)["timelines"]
    assert timeline["timelineId"] == "context_1"


def test_the_graph_has_forks_and_where_a_session_comes_from(cli, session):
    cli.run("checkpoint", session, "here")
    cli.run("fork", session, "elsewhere", "--at", "1")
    drawn = cli.run("log", session, "--graph").out
    assert drawn.index("elsewhere  a fork") < drawn.index("#1  here") < drawn.index("#0")
    assert "start of a fork of s" in cli.run("log", "elsewhere").out
    assert cli.json("log", "elsewhere")["parent"]["sessionId"] == session
    (fork,) = cli.json("log", session)["forks"]
    assert fork["sessionId"] == "elsewhere"
