"""`session/redact` takes a secret out of everything a session keeps, for good, and says nothing of what it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.leftovers import holders, parsed, strings
from tests.support.server import Message
from tests.support.session import Session, assistant, user

SECRET = 'hun"ter2/\\ä😀-7f3a'
PLAIN = "Tr0ub4dor-and-3"


def call(name: str, **arguments: Any) -> Message:
    function = {"name": "run", "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "id": name, "function": function}],
    }


def tell_everywhere(session: Session, value: str) -> None:
    """Put a value wherever a session keeps something."""
    session.call("context/setSystemPrompt", systemPrompt=f"the key is {value}.")
    session.checkpoint(label=f"with {value}")
    session.append(user(f"use {value}, and {value}"), assistant("no secrets here"), requestId="batch")
    session.append(call("c1", command=f"login {value}", nested=json.dumps({value: [value]})))
    session.append(
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": f"ok {value}"}],
            "extra": {value: value},
        }
    )
    session.call("context/updateTokenCount", tokenCount=50)
    session.checkpoint()
    session.append(user(f"again {value}"))
    session.call("context/revertTo", checkpointId=1, requestId=f"r {value[:20]}")
    session.say("and on")
    session.call("context/compact", summary=f"they said {value}", maxPreservedMessages=1, requestId="compacted")
    session.call("session/setTitle", title=f"about {value}", requestId="titled")
    session.call("session/putSubagent", name="helper", systemPrompt=f"use {value}", requestId="put")
    session.call("session/setAutoApprove", action=f"login {value}", enabled=True)
    session.call("session/setAutoApprove", action="read", enabled=True)
    session.call("context/setPins", pins=[value, "a pin"])
    session.call("context/sendDMail", checkpointId=0, message=f"do not use {value}")
    (session.path / "context.jsonl.quarantine-9-x").write_bytes(
        b'{"role":"user","content":"%s","_tl":{"r":"x","h":"0123456789abcdef"}' % json.dumps(value)[1:-1].encode()
    )
    (session.path / "subagents").mkdir()
    (session.path / "subagents" / "one.jsonl").write_text(json.dumps({"role": "user", "content": value}) + "\n")
    (session.path / "notes.txt").write_text(f"line\n{value}\n" + json.dumps({"deep": json.dumps([value])}) + "\n")


def total(result: Message, name: str) -> int:
    return sum(one[name] for one in result["files"])


@pytest.mark.parametrize("value", [SECRET, PLAIN])
def test_nothing_is_left_anywhere(start_at: StartServer, tmp_path: Path, value: str) -> None:
    home, private = tmp_path / "home", tmp_path / "private"
    private.mkdir(mode=0o700)
    server = start_at(home, private=private)
    server.initialize(clientInfo={"name": "tests"})
    old = Session.open(server, "told", title=value)
    old.say(f"an earlier one {value}")
    old.call("session/delete")
    session = Session.open(server, "told")
    tell_everywhere(session, value)
    assert len(holders(home, value=value)) >= 9
    before: dict[str, Any] = {
        "history": session.history(),
        "lines": session.log.read_bytes().count(b"\n"),
        "state": session.get_state(),
    }
    planned = session.call("session/redact", value=value, dryRun=True, store=True)
    assert planned["redacted"] and planned["alsoIn"] == [] and planned["kept"] == 0
    assert session.head == planned["head"] and all(one["places"] for one in planned["files"])
    pending = session.start("session/redact", value=value, store=True)
    done = pending.reply()["result"]
    assert (done["records"], done["occurrences"]) == (planned["records"], planned["occurrences"])
    assert total(done, "occurrences") == done["occurrences"] >= 20
    assert not any(value in text for text in strings([planned, done, pending.heard()]))
    assert {one["kind"] for one in done["files"]} == {"log", "timeline", "quarantine", "other"}
    assert {one.get("trash", "")[:5] for one in done["files"]} == {"", "told~"}
    assert holders(home, private, value=value) == []
    state = session.get_state()
    assert state["head"] == done["head"] != before["state"]["head"]
    assert (state["title"], state["pins"]) == ("about [redacted]", ["[redacted]", "a pin"])
    assert state["dynamicSubagents"] == [{"name": "helper", "systemPrompt": "use [redacted]"}]
    assert state["pendingDMail"]["message"] == "do not use [redacted]"
    assert (state["approval"]["autoApproveActions"], state["approval"]["sealed"]) == (["read"], True)
    assert session.log.read_bytes().count(b"\n") == before["lines"]
    assert len(session.history()) == len(before["history"])
    assert state["warnings"] == before["state"]["warnings"]
    for one in session.timelines():
        assert session.history(timelineId=one["timelineId"])
    again = session.call("session/redact", value=value)
    assert not again["redacted"] and again["files"] == []
    session.say("goes on")
    server.finish()
    later = start_at(home, private=private)
    later.initialize(clientInfo={"name": "tests"})
    back = session.reopen(later)
    assert back.texts()[-1] == "goes on" and back.get_state()["warnings"] == before["state"]["warnings"]
    assert later.call("session/verify", sessionId=back.id)["ok"]
    back.call("context/restoreTimeline", timelineId=back.timelines()[-1]["timelineId"])
    assert holders(home, private, value=value) == []
    later.call("session/delete", sessionId="told")
    assert holders(home, value=value) == []


def test_it_is_told_and_old_cursors_are_void(session: Session) -> None:
    session.say("one PLAIN", "two", "three PLAIN")
    cursor = session.call("context/getHistory", limit=1)["nextCursor"]
    head = session.head
    pending = session.start("session/redact", value="PLAIN", replacement="…", requestId="r-1")
    result = pending.reply()["result"]
    (told,) = [one["params"] for one in pending.heard() if one["method"] == "context/didChange"]
    assert told == {
        "sessionId": session.id,
        "head": result["head"],
        "kind": "redacted",
        "cause": {"requestId": "r-1", "client": "tests"},
        "records": 2,
        "occurrences": 2,
        "context": result["context"],
    }
    assert session.texts() == ["one …", "two", "three …"]
    assert session.refuse("context/getHistory", cursor=cursor)["code"] == -32801
    assert session.refuse("context/appendMessage", message=user("x"), expectedHead=head)["code"] == -32801
    again = session.call("session/redact", value="PLAIN", replacement="…", requestId="r-1")
    assert again == {**result, "duplicate": True}
    assert session.refuse("session/redact", value="two", requestId="r-1")["code"] == -32602
    assert session.refuse("session/redact", value="two", expectedHead=head)["code"] == -32801
    assert session.texts()[1] == "two"


def test_lines_that_do_not_hold_it_keep_their_bytes(session: Session) -> None:
    session.call("session/close")
    lines = [
        b'{"role": "user",  "content": "caf\\u00e9 \\/"}',
        b'{"role": "_checkpoint", "id": 0}',
        b'{"role":"user","content":"the secret \\u00e9 \\/","x":1.50,"x":[ ]}',
        b"",
        b"{broken secret",
        b'{"role": "_checkpoint", "id": 1}',
        b'{"role": "_usage", "token_count": 7}',
        b'{"role":"assistant","content":"bye"}',
    ]
    session.log.write_bytes(b"\n".join(lines) + b"\n")
    server = session.server
    again = session.reopen(server)
    before = again.get_state()["context"]["checkpoints"]
    assert before[0]["preview"] == "the secret é /"
    again.call("session/redact", value="secret")
    after = again.log.read_bytes().split(b"\n")
    assert after[2] == lines[2].replace(b"secret", b"[redacted]")
    assert after[4] == b"{broken [redacted]"
    assert json.loads(after[5]) == {"role": "_checkpoint", "id": 1, "_tl": {"u": before[1]["uid"]}}
    for number in (0, 1, 3, 6, 7):
        assert after[number] == lines[number]
    checkpoints = again.get_state()["context"]["checkpoints"]
    said = {**before[0]["summary"], "text": "the [redacted] é /"}
    renamed = dict.fromkeys(("preview", "name"), "the [redacted] é /")
    assert checkpoints == [{**before[0], **renamed, "summary": said}, before[1]]
    uid = before[1]["uid"]
    assert again.call("context/revertTo", checkpointUid=uid, dryRun=True)["removed"]["messages"] == 1


def test_a_dry_run_meets_a_stale_head_like_the_request_itself(session: Session) -> None:
    stale = session.head
    session.say("k-1")
    for dry_run in (True, False):
        error = session.refuse("session/redact", value="k-1", dryRun=dry_run, expectedHead=stale)
        assert (error["code"], error["data"]["head"]) == (-32801, session.head)
    assert session.call("session/redact", value="k-1", dryRun=True, expectedHead=session.head)["redacted"]


def test_a_dry_run_says_where(session: Session) -> None:
    session.checkpoint()
    session.append(user("a k-12 and k-3"), assistant("none"))
    session.call("context/clear")
    session.append(user("k-9"))
    result = session.call("session/redact", pattern="k-[0-9]+", dryRun=True)
    (log, timeline) = result["files"]
    assert log == {
        "file": "context.jsonl",
        "kind": "log",
        "records": 1,
        "occurrences": 1,
        "places": [{"line": 0, "index": 0, "occurrences": 1}],
    }
    assert (timeline["file"], timeline["places"]) == ("context_1.jsonl", [{"line": 1, "index": 0, "occurrences": 2}])
    assert session.texts() == ["k-9"]
    session.call("session/redact", pattern="k-[0-9]+", replacement="k")
    assert (session.texts(), session.texts(timelineId="context_1")) == (["k"], ["a k and k", "none"])


def test_a_fork_has_its_own_copy_and_is_named(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "parent")
    session.say("SECRET-1")
    server.call("session/fork", sessionId="parent", newSessionId="child")
    Session.open(server, "other").say("nothing")
    gone = Session.open(server, "gone")
    gone.say("SECRET-1")
    gone.call("session/delete")
    result = session.call("session/redact", value="SECRET-1", store=True)
    assert sorted(result["alsoIn"]) == ["child", "gone"]
    assert server.call("session/redact", sessionId="child", value="SECRET-1", store=True)["alsoIn"] == ["gone"]


def test_answers_to_requests_are_still_given(session: Session) -> None:
    sent = {"messages": [user("SECRET-2"), user("more")], "requestId": "a"}
    first = session.call("context/appendMessage", **sent)
    session.call("session/putSubagent", name="s", systemPrompt="SECRET-2", requestId="b")
    session.call("session/redact", value="SECRET-2")
    again = session.call("context/appendMessage", **sent)
    assert again["duplicate"] and again["firstIndex"] == first["firstIndex"]
    assert session.texts() == ["[redacted]", "more"]
    put = session.call("session/putSubagent", name="s", systemPrompt="SECRET-2", requestId="b")
    assert put["duplicate"] and put["dynamicSubagents"][0]["systemPrompt"] == "[redacted]"
    assert holders(session.path, value="SECRET-2") == []


def test_no_fingerprint_is_left_of_what_went(session: Session) -> None:
    session.call("context/appendMessage", message=user("PIN 4711"), requestId="a")
    session.call("session/setTitle", title="PIN 4711", requestId="b")
    session.call("context/clear", requestId="c")
    session.call("session/redact", value="4711", requestId="d")
    for path in session.path.glob("[!.]*.json*"):
        assert b"4711" not in path.read_bytes()
        for line in path.read_text().splitlines():
            found = parsed(line.encode())
            marks = found.get("_tl", found) if isinstance(found, dict) else {}
            assert not marks.get("h"), (path, line)
            assert not (isinstance(marks.get("v"), dict) and marks["v"].get("head")), (path, line)


def test_what_gives_a_record_its_form_stays(session: Session) -> None:
    session.append({"role": "user", "content": [{"type": "text", "text": "a text of a user"}]})
    result = session.call("session/redact", value="text")
    assert session.history() == [{"role": "user", "content": [{"type": "text", "text": "a [redacted] of a user"}]}]
    assert (result["occurrences"], result["kept"]) == (1, 2)


def test_what_is_split_over_parts_goes_from_each_of_them(session: Session) -> None:
    texts = ["a SEC", "", "RET, a S", "E", "CRE", "T", " and SECRET"]
    parts = [{"text": text, "type": "text"} for text in texts]
    parts.insert(2, {"type": "think", "think": "SEC"})
    session.append({"role": "user", "content": parts})
    result = session.call("session/redact", value="SECRET")
    assert (result["occurrences"], result["split"]) == (3, 2)
    (message,) = session.history()
    left = [part.get("text") for part in message["content"]]
    assert left == ["a [redacted]", "", None, ", a [redacted]", "", "", "", " and [redacted]"]
    assert not session.call("session/redact", value="SECRET", dryRun=True)["redacted"]


def test_what_fails_half_way_is_told_and_finished_by_asking_again(start_at: StartServer, tmp_path: Path) -> None:
    server = start_at(tmp_path / "home", env={"TIMELEAP_FAILPOINTS": "revise.built@1=raise:ENOSPC"})
    server.initialize()
    session = Session.open(server)
    session.say(PLAIN)
    session.call("context/clear")
    session.say(PLAIN)
    session.call("session/setTitle", title=PLAIN)
    failed = session.start("session/redact", value=PLAIN)
    assert failed.reply()["error"]["code"] == 4005
    assert [one["params"]["kind"] for one in failed.heard()] == ["external", "titleChanged"]
    assert session.texts() == [PLAIN] and session.texts(timelineId="context_1") == ["[redacted]"]
    assert failed.heard()[0]["params"]["head"] == session.head
    assert session.call("session/redact", value=PLAIN)["occurrences"] == 1
    assert holders(tmp_path / "home", value=PLAIN) == []


@pytest.mark.parametrize(
    ("params", "loc"),
    [
        ({"pattern": "(SECRET-3"}, "pattern"),
        ({"pattern": "(?=SECRET-3)"}, "pattern"),
        ({"value": "SECRET-3", "replacement": "xSECRET-3x"}, "replacement"),
        ({"value": "SECRET-3", "replacement": "a\nb"}, "replacement"),
        ({"pattern": "[a-z]+-[0-9]", "replacement": "no-3"}, "replacement"),
        ({"secrets": False}, "secrets"),
        ({"value": ""}, "value"),
    ],
)
def test_bad_wishes_are_refused_without_repeating_them(session: Session, params: Message, loc: str) -> None:
    session.say("SECRET-3")
    error = session.refuse("session/redact", **params)
    assert (error["code"], error["data"]["errors"][0]["loc"]) == (-32602, [loc])
    assert "SECRET-3" not in json.dumps(error)
    assert session.texts() == ["SECRET-3"]
    assert session.refuse("session/redact")["code"] == -32602


@pytest.mark.parametrize(
    ("params", "left"),
    [({"value": "red"}, "in *** ink"), ({"pattern": "[a-z]+|\\*"}, "  "), ({"pattern": ".*"}, "")],
)
def test_what_is_put_in_never_holds_what_is_taken_out(session: Session, params: Message, left: str) -> None:
    session.say("in red ink")
    assert session.call("session/redact", **params)["redacted"] is True
    assert session.texts() == [left]


def test_the_audits_own_words_are_nothing_to_be_taken_out(session: Session) -> None:
    session.call("session/setYolo", yolo=True)
    session.say("yolo redaction")
    assert session.call("session/redact", pattern="yolo|redaction")["occurrences"] == 2
    assert session.call("session/redact", pattern="yolo|redaction")["redacted"] is False
    fields = [json.loads(line)["field"] for line in (session.path / "audit.jsonl").read_text().splitlines()]
    assert fields == ["yolo", "redaction", "redaction"]


def test_a_reader_may_look_but_not_touch(start: StartServer) -> None:
    server = start()
    Session.open(server, "one").say("SECRET-4")
    server.call("session/close", sessionId="one")
    session = Session.open(server, "one", access="readOnly")
    assert session.call("session/redact", value="SECRET-4", dryRun=True)["occurrences"] == 1
    assert session.refuse("session/redact", value="SECRET-4")["code"] == 4004
    session.call("session/close")
    assert server.call("session/redact", sessionId="one", value="SECRET-4")["occurrences"] == 1
    assert server.refuse("session/redact", sessionId="none", value="x")["code"] == 4001
    assert holders(session.path, value="SECRET-4") == []


def test_through_another_process(start: StartServer) -> None:
    owner = start()
    session = Session.open(owner, "one")
    session.say("SECRET-5", "x")
    other = start(at=owner.home)
    attached = Session.open(other, "one")
    result = attached.call("session/redact", value="SECRET-5", requestId="q")
    assert result["occurrences"] == 1
    assert attached.texts() == session.texts() == ["[redacted]", "x"]
    assert attached.call("session/redact", value="SECRET-5", requestId="q") == {**result, "duplicate": True}
    reader = Session.open(start(at=owner.home), "one", access="readOnly")
    assert reader.texts() == ["[redacted]", "x"]


@pytest.mark.skipif(os.name == "nt", reason="kills with a signal")
@pytest.mark.parametrize("point", ["revise.closed_built", "revise.built", "revise.prepared", "revise.renamed"])
def test_what_was_cut_short_is_finished_by_asking_again(start_at: StartServer, tmp_path: Path, point: str) -> None:
    home = tmp_path / "home"
    server = start_at(home, env={"TIMELEAP_FAILPOINTS": f"{point}=kill"})
    server.initialize()
    session = Session.open(server, "one")
    session.say(PLAIN)
    session.call("context/clear")
    session.say(f"more {PLAIN}")
    session.start("session/redact", value=PLAIN, requestId="again")
    server.process.wait(30)
    later = start_at(home)
    later.initialize()
    back = Session.open(later, "one")
    assert back.get_state()["warnings"] == []
    assert len(back.texts()) == len(back.texts(timelineId="context_1")) == 1
    back.call("session/redact", value=PLAIN, requestId="again")
    assert back.texts() == ["more [redacted]"] and back.texts(timelineId="context_1") == ["[redacted]"]
    assert holders(home, value=PLAIN) == []


def test_who_did_it_and_how_often_is_in_the_audit(session: Session) -> None:
    session.say("SECRET-6 and SECRET-6")
    session.call("session/redact", value="SECRET-6", requestId="by SECRET-6")
    entry = json.loads((session.path / "audit.jsonl").read_text().splitlines()[-1])
    assert entry.pop("time")
    assert entry == {
        "who": "tests",
        "requestId": "by [redacted]",
        "field": "redaction",
        "from": None,
        "to": {"files": 1, "records": 1, "occurrences": 2},
    }


def test_a_file_with_another_name_is_pointed_out(session: Session, tmp_path: Path) -> None:
    session.say("SECRET-7")
    try:
        os.link(session.log, tmp_path / "copy")
    except OSError:
        pytest.fail("no hard links here")
    (file,) = session.call("session/redact", value="SECRET-7")["files"]
    assert file["linked"] and b"SECRET-7" in (tmp_path / "copy").read_bytes()


def test_nothing_of_it_reaches_the_log_file(start_at: StartServer, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    server = start_at(tmp_path / "home", args=("--log-level", "debug", "--log-file", str(log)))
    server.initialize()
    session = Session.open(server)
    session.say(PLAIN)
    session.call("session/redact", value=PLAIN)
    session.refuse("session/redact", pattern=f"({PLAIN}")
    assert log.exists() and PLAIN not in log.read_text()


KEYS = {
    "github-pat": "ghp_" + "x7Kd93mQpL2vB8nR4tYwZ6cF1hJ5gS0aE9uI",
    "stripe-access-token": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
}


@pytest.mark.long
def test_secrets_are_found_by_the_rules_of_the_library(start: StartServer) -> None:
    server = start()
    session = Session.open(server, "one")

    def redact(**params: Any) -> Message:
        # Compiling the rules takes seconds, once a home, and more on a busy machine.
        return dict(session.start("session/redact", secrets=True, **params).reply(timeout=280)["result"])

    session.checkpoint(label="C:\\temp\\new")
    session.append(user("the sha is da39a3ee5e6b4b0d3255bfef95601890afd80709, in src/timeleap/app.py"))
    before = session.log.read_bytes(), session.head
    result = redact()
    assert (result["redacted"], result["rules"], result["files"]) == (False, [], [])
    assert (session.log.read_bytes(), session.head) == before
    assert result["context"]["checkpoints"][0]["label"] == "C:\\temp\\new"
    session.append(user(f"TOKEN={KEYS['github-pat']}"), call("c", key=KEYS["stripe-access-token"], path="/usr/lib"))
    session.call("context/clear")
    planned = redact(dryRun=True)
    assert sorted(planned["rules"], key=lambda one: one["rule"]) == [
        {"rule": rule, "values": 1} for rule in sorted(KEYS)
    ]
    assert redact()["occurrences"] == planned["occurrences"] == 2
    history = session.history(timelineId="context_1")
    assert history[0]["content"].endswith("src/timeleap/app.py") and history[1]["content"] == "TOKEN=[redacted]"
    assert json.loads(history[2]["tool_calls"][0]["function"]["arguments"]) == {"key": "[redacted]", "path": "/usr/lib"}
    assert not any(holders(server.home, value=one) for one in KEYS.values())


def test_without_the_library_secrets_are_refused_in_words() -> None:
    code = """
import sys
sys.modules["kingfisher_sdk"] = None
from timeleap.features.redaction.matchers import load_rules
from timeleap.errors import InvalidInputError
try:
    load_rules()
except InvalidInputError as error:
    print(error, error.data["errors"][0]["loc"])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'timeleap[redact]'" in said and "['secrets']" in said


def test_what_is_sent_behind_a_redaction_takes_effect_behind_it(session: Session) -> None:
    session.start("context/appendMessage", message=user("before: hunter2"))
    redacting = session.start("session/redact", value="hunter2")
    session.start("context/appendMessage", message=user("after: hunter2"))
    page = session.start("context/getHistory")
    said = [one["message"]["content"] for one in page.result()["messages"]]
    assert said == ["before: [redacted]", "after: hunter2"]
    assert redacting.result()["occurrences"] == 1


def test_names_of_clients_and_request_ids_are_redacted_in_the_whole_store(start_at: StartServer, home: Path) -> None:
    """A client's name is in audit and seals, a request id in the session's files and in the store's."""
    value = "hunter2-Tq9"
    server = start_at(home)
    server.initialize(clientInfo={"name": f"agent --password {value}"})
    session = Session.open(server, "a", requestId=f"open {value}")
    session.call("session/setYolo", yolo=True, requestId=f"yolo {value}")
    session.say("x")
    server.call("session/close", sessionId="a")
    server.call("session/delete", sessionId="a", requestId=f"delete {value}")
    server.call("session/undelete", sessionId="a", requestId=f"undelete {value}")
    session = Session.open(server, "a")
    session.call("session/redact", value=value)
    assert holders(home, value=value) == []
    approval = session.get_state()["approval"]
    assert (approval["yolo"], approval["changedBy"]) == (True, "agent --password [redacted]")


def test_what_a_killed_server_left_of_the_stores_requests_goes_too(start_at: StartServer, home: Path) -> None:
    server = start_at(home)
    server.initialize()
    session = Session.open(server, "a", requestId=f"open {PLAIN}")
    session.say("x")
    (home / ".requests.jsonl.0123456789abcdef.tmp").write_bytes((home / "requests.jsonl").read_bytes())
    session.call("session/redact", value=PLAIN)
    assert holders(home, value=PLAIN) == []
