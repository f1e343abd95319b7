from __future__ import annotations

from timeleap.cli.graph import PLAIN, Graph, Kin, draw, glyphs_for, rows


def checkpoint(number, **more):
    return {"id": number, "uid": f"u{number}", "messageCount": number * 2, "tokenCount": number * 100, **more}


def timeline(number, reason="revert"):
    return {
        "timelineId": f"context_{number}",
        "file": f"context_{number}.jsonl",
        "reason": reason,
        "bytes": 1234,
        "messageCount": 9,
        "checkpointCount": 1,
    }


def branching(timeline, checkpoints):
    return {**timeline, "leavesAfter": None, "checkpoints": checkpoints}


STATE = {
    "sessionId": "s",
    "head": "h",
    "context": {"messageCount": 5, "tokenCount": 200, "tokenCountWithPending": 210, "logBytes": 4321},
}


def lines(graph, width=100, **more):
    return [line.plain.rstrip() for line in draw(graph, width, **more)]


def test_the_newest_is_at_the_top_and_timelines_hang_where_they_leave():
    graph = Graph(
        STATE,
        [checkpoint(0, label="begin"), checkpoint(1, preview="and\nthen")],
        branches={
            "u0": [branching(timeline(2), [checkpoint(1, uid="other", label="old one")])],
            "": [branching(timeline(1, "compact"), [])],
        },
    )
    drawn = lines(graph)
    names = [
        "now",
        "#1  and then",
        "context_2  set aside by a revert",
        "#1  old one",
        "#0  begin",
        "context_1  as it was before a compaction",
        "start",
    ]
    places = [next(place for place, line in enumerate(drawn) if name in line) for name in names]
    assert places == sorted(places)
    assert "5 messages" in drawn[0]
    assert "210 tokens" in drawn[0]
    assert "4.3 KB" in drawn[0]
    assert drawn[places[2]].startswith("├─◇")
    assert drawn[places[3]].startswith("│")


def test_a_timeline_that_leaves_at_a_checkpoint_that_is_not_drawn_hangs_below_the_others():
    graph = Graph(STATE, [checkpoint(9)], omitted=9, branches={"u3": [branching(timeline(3), [])]})
    drawn = lines(graph)
    assert [line.split()[1] for line in drawn] == ["now", "#9", "...", "context_3", "start"]


def test_forks_hang_where_they_were_made_and_a_fork_says_of_what():
    def fork(name, **parent):
        return {"sessionId": name, "messageCount": 3, "createdAt": None, "parent": {"sessionId": "s", **parent}}

    forks = [fork("whole"), fork("early", checkpointUid="u0"), fork("elsewhere", checkpointUid="gone")]
    graph = Graph(STATE, [checkpoint(0), checkpoint(1)], kin=Kin({"sessionId": "origin"}, forks))
    drawn = lines(graph)
    assert [line.split()[1] for line in drawn] == ["now", "whole", "#1", "early", "#0", "elsewhere", "start"]
    assert drawn[-1].endswith("start of a fork of origin")
    assert graph.as_json()["forks"] == forks


def test_a_dmail_waits_at_its_checkpoint():
    mail = {"checkpointId": 0, "checkpointUid": "u0", "message": "do\nnot"}
    graph = Graph({**STATE, "pendingDMail": mail}, [checkpoint(0), checkpoint(1)])
    drawn = lines(graph)
    assert "a D-Mail waits: do not" in drawn[2]
    assert "#0" in drawn[3]


def test_what_is_not_drawn_is_counted():
    branch = branching(timeline(3), [checkpoint(n) for n in range(10)])
    graph = Graph(STATE, [checkpoint(9)], omitted=9, branches={"u9": [branch]}, timelines_omitted=4)
    text = "\n".join(lines(graph))
    assert "... 9 older checkpoints" in text
    assert "... 4 older checkpoints of its own" in text
    assert "... 4 older timelines not drawn" in text


def test_no_line_is_wider_than_asked_and_nothing_foreign_reaches_the_terminal():
    graph = Graph(STATE, [checkpoint(0, label="\x1b[2J" + "x" * 500)])
    drawn = lines(graph, width=60)
    assert all(len(line) <= 60 for line in drawn)
    assert "\x1b" not in "".join(drawn)


def test_terminals_that_know_ascii_only_get_ascii():
    assert glyphs_for("ascii") is glyphs_for(None) is PLAIN
    assert glyphs_for("utf-8") is not PLAIN
    graph = Graph(STATE, [checkpoint(0)], branches={"u0": [branching(timeline(1), [checkpoint(1)])]})
    assert all(row.signs.isascii() for row in rows(graph, PLAIN))


def test_checkpoints_say_how_many_files_changed_where_files_are_saved():
    saved = [
        checkpoint(0, files={"snapshot": "f1-0123456789ab", "changed": 1, "skipped": 0, "ms": 5}),
        checkpoint(1, files={"error": {"kind": "filesTooLarge", "message": "too many"}}),
        checkpoint(2),
    ]
    drawn = lines(Graph(STATE, saved))
    ends = {line.split()[1]: line for line in drawn if "#" in line}
    assert ends["#0"].endswith("1 file")
    assert ends["#1"].endswith("no snapshot")
    assert ends["#2"].endswith("tokens")
    assert max(map(len, drawn)) <= 100


def test_without_saved_files_their_column_takes_no_room():
    label = "a label that is as long as a line has room for it, and then some more"
    files = {"snapshot": "f1-0123456789ab", "changed": 1, "skipped": 0, "ms": 5}
    without, saved = (lines(Graph(STATE, [checkpoint(0, label=label, **more)]))[1] for more in ({}, {"files": files}))
    assert without.index("0 messages") > saved.index("0 messages")


def test_an_empty_session_has_a_picture():
    assert [line.split()[1] for line in lines(Graph(STATE, [])) if len(line) > 1] == ["now", "start"]


def summary(**members):
    return {"kind": "calls", "text": "edit bill.py; bash pytest", "messages": 4, **members}


def test_a_row_tells_what_happened_and_what_it_took():
    calls = [
        {"name": "edit", "argument": "tally/bill.py"},
        {"name": "bash", "argument": "cd x && pytest", "failed": True},
    ]
    failed = summary(calls=calls, tokens=1400, errors=1)
    graph = Graph(STATE, [checkpoint(0, summary=summary(calls=calls[:1])), checkpoint(1, summary=failed, label="mine")])
    _, second, first, _ = lines(graph)
    assert "#1  mine · pytest " in second and second.endswith("+1.4K 1 failed")
    assert "#0  Edit tally/bill.py " in first and first.endswith("+4 messages")
    styles = {row.name: row.style for row in rows(graph)}
    assert (styles["#1  mine · pytest"], styles["#0  Edit tally/bill.py"]) == ("red", "")


def test_a_label_that_is_the_beginning_of_what_happened_is_said_once():
    said = {"kind": "prompt", "text": "Fix the login page, please", "messages": 1}
    for label in ("Fix the login…", "Fix the login page, please"):
        drawn = lines(Graph(STATE, [checkpoint(0, label=label, summary=said)]))
        assert f"#0  {label} " in drawn[1]


def test_without_summaries_the_preview_is_the_name_and_there_is_no_column_for_them():
    drawn = lines(Graph(STATE, [checkpoint(0, preview="hello", createdAt="2020-01-01T00:00:00Z")]))
    assert "#0  hello" in drawn[1] and drawn[1].endswith(":00") and not drawn[1].endswith(" ")
