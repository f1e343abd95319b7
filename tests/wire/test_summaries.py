"""What happened in the span of a checkpoint: listed, summed up in the context, told with every change of it."""

from __future__ import annotations

from typing import Any

from tests.support.scene import Two
from tests.support.server import Message
from tests.support.session import Session, assistant, user

EMPTY = {"kind": "empty", "text": "", "messages": 0}


def calls(*many: tuple[str, str, str]) -> Message:
    """An assistant's message that makes calls: id, name and arguments of each."""
    made = [
        {"type": "function", "id": call, "function": {"name": name, "arguments": given}} for call, name, given in many
    ]
    return {"role": "assistant", "content": "**Let me** look.", "tool_calls": made}


def result(call: str, text: str) -> Message:
    return {"role": "tool", "content": text, "tool_call_id": call}


EDIT = calls(("1", "edit", '{"path": "login/names.py", "text": "x"}'), ("2", "bash", '{"command": "pytest -q"}'))
FAILED = result("2", "<system>ERROR: Command failed with exit code: 1.</system>\n1 failed")


def summaries(session: Session, **params: Any) -> list[Message]:
    listed = session.call("context/listCheckpoints", order="asc", **params)["checkpoints"]
    return [checkpoint["summary"] for checkpoint in listed]


def names(session: Session) -> list[str | None]:
    listed = session.call("context/listCheckpoints", order="asc")["checkpoints"]
    return [checkpoint.get("name") for checkpoint in listed]


def span(session: Session, *messages: Message) -> Message:
    """What is told of the newest span when messages are appended."""
    pending = session.start("context/appendMessage", messages=list(messages))
    pending.result()
    told: Message = pending.heard()[-1]["params"]["span"]
    return told


def test_a_span_is_what_the_person_said_else_the_calls_else_the_text(session: Session) -> None:
    session.checkpoint()
    session.append(user("Please **fix** the `login`\n\n- and add a test"), EDIT, result("1", "ok"), FAILED)
    session.checkpoint()
    session.append(EDIT, result("1", "ok"), FAILED)
    session.call("context/updateTokenCount", tokenCount=1400)
    session.checkpoint()
    session.append(assistant("# Done\n\nIt *works* [now](http://x)."))
    session.checkpoint()
    made = {
        "calls": [
            {"name": "edit", "argument": "login/names.py"},
            {"name": "bash", "argument": "pytest -q", "failed": True},
        ],
        "files": ["login/names.py"],
        "errors": 1,
    }
    assert summaries(session) == [
        {"kind": "prompt", "text": "Please fix the login and add a test", **made, "messages": 4},
        {"kind": "calls", "text": "edit login/names.py; bash pytest -q", **made, "messages": 3, "tokens": 1400},
        {"kind": "text", "text": "Done It works now.", "messages": 1},
        EMPTY,
    ]


def test_newest_first_and_page_by_page_each_checkpoint_has_its_own(session: Session) -> None:
    for number in range(5):
        session.checkpoint()
        session.append(user(f"prompt {number}"))
    pages = []
    cursor: dict[str, str] = {}
    while True:
        page = session.call("context/listCheckpoints", limit=2, **cursor)
        pages += [(checkpoint["id"], checkpoint["summary"]["text"]) for checkpoint in page["checkpoints"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert pages == [(number, f"prompt {number}") for number in range(4, -1, -1)]


def test_the_newest_span_is_told_with_every_change_of_it(session: Session) -> None:
    uid = session.checkpoint()["uid"]
    told = span(session, EDIT)
    assert told["checkpointUid"] == uid
    assert [call.get("failed") for call in told["summary"]["calls"]] == [None, None]
    told = span(session, result("1", "ok"), FAILED)
    assert [call.get("failed") for call in told["summary"]["calls"]] == [None, True]
    assert told["summary"] == summaries(session)[-1]
    pending = session.start("context/updateTokenCount", tokenCount=70)
    pending.result()
    assert pending.heard()[-1]["params"]["span"]["summary"] == summaries(session)[-1]
    assert summaries(session)[-1]["tokens"] == 70


def test_a_checkpoint_is_named_by_its_label_else_by_what_happened_after_it(session: Session) -> None:
    session.checkpoint()
    assert names(session) == [None]
    assert "name" not in span(session, {"role": "assistant", "content": ""})
    assert span(session, EDIT)["name"] == "Edit login/names.py"
    assert span(session, result("1", "ok"), FAILED)["name"] == "pytest -q"
    session.call("context/checkpoint", label="mine")
    span(session, user("a prompt"))
    assert names(session) == ["pytest -q", "mine"]
    assert [one["name"] for one in session.get_state()["context"]["checkpoints"]] == ["pytest -q", "mine"]


def test_without_a_checkpoint_there_is_no_span(session: Session) -> None:
    pending = session.start("context/appendMessage", message=user("a"))
    pending.result()
    assert "span" not in pending.heard()[-1]["params"]


def test_the_context_says_it_too_also_after_each_rewrite(session: Session) -> None:
    for number in range(3):
        session.checkpoint()
        session.append(user(f"prompt {number} " + "x" * 4000), EDIT)

    def agrees(context: Message) -> list[Message]:
        told = [checkpoint["summary"] for checkpoint in context["checkpoints"]]
        assert told == summaries(session)
        assert [checkpoint.get("name") for checkpoint in context["checkpoints"]] == names(session)
        return told

    assert len(agrees(session.get_state()["context"])) == 3
    foretold = session.call("context/revertTo", messageIndex=3, dryRun=True)["context"]
    reverted = session.call("context/revertTo", messageIndex=3)["context"]
    assert [one["messages"] for one in agrees(reverted)] == [2, 1]
    assert [one["summary"] for one in foretold["checkpoints"]] == summaries(session)
    assert (
        span(session, result("1", "Traceback (most recent call last):\nValueError: x"))["summary"]
        == summaries(session)[-1]
    )
    assert [one["messages"] for one in agrees(session.call("context/undo")["context"])] == [2, 2, 2]
    agrees(session.call("context/redo")["context"])
    assert agrees(session.call("context/compact", summary="**All** is said.", maxPreservedMessages=1)["context"]) == [
        {"kind": "compacted", "text": "All is said.", "calls": summaries(session)[0]["calls"], "files": ["login/names.py"],
         "errors": 1, "messages": 4, "tokens": summaries(session)[0]["tokens"]}
    ]  # fmt: skip
    assert span(session, user("on we go"))["summary"] == summaries(session)[-1]
    session.checkpoint()
    session.call("context/sendDMail", checkpointId=1, message="Try the *other* file.")
    foretold = session.call("context/deliverDMail", dryRun=True)["context"]
    delivered = agrees(session.call("context/deliverDMail")["context"])
    assert (delivered[-1]["kind"], delivered[-1]["text"]) == ("dmail", "Try the other file.")
    assert [one["summary"] for one in foretold["checkpoints"]] == delivered
    assert agrees(session.call("context/clear")["context"]) == []


def test_a_window_in_another_process_hears_the_same(two: Two) -> None:
    uid = two.owner.checkpoint()["uid"]
    told = span(two.attached, user("from the other window"), EDIT)
    assert told["checkpointUid"] == uid
    assert told["summary"] == summaries(two.owner)[-1] == summaries(two.attached)[-1]
    assert told["name"] == names(two.owner)[-1] == names(two.attached)[-1] == "from the other window"


def test_what_a_redaction_takes_out_is_in_no_summary(session: Session) -> None:
    session.checkpoint()
    session.append(user("the key is se**cr**et_word"), calls(("1", "bash", '{"command": "echo se**cr**et_word"}')))
    session.checkpoint()
    session.call("context/revertTo", checkpointId=1, requestId="r-1")
    session.call("session/redact", value="se**cr**et_word")
    again = session.call("context/revertTo", checkpointId=1, requestId="r-1")
    assert "secret_word" not in str((again, summaries(session), names(session), session.get_state()))
    assert not any(b"secret_word" in file.read_bytes() for file in session.path.iterdir() if file.is_file())
