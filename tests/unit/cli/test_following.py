from __future__ import annotations

from typing import Any, cast, get_args

import pytest

from timeleap.cli.backend import OpenSession
from timeleap.cli.following import TerminalFollower, describe
from timeleap_client import RECONNECTED, Notification, TimeleapRpcError
from timeleap_protocol.methods import SERVER_NOTIFICATIONS
from timeleap_protocol.notifications import ContextDidChange, SessionDidChange

REMOVED = {"messages": 2, "checkpoints": 1, "tokens": 5}
CONTEXT = {"messageCount": 3, "timelines": 1}
GONE = {"removed": REMOVED, "context": CONTEXT, "timelineId": "context_1"}
CHECKPOINT = {"id": 4, "label": "a plan"}

CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "messagesAppended": ({"firstIndex": 0, "count": 2}, "2 messages appended"),
    "checkpointCreated": ({"checkpoint": CHECKPOINT}, "checkpoint #4  a plan"),
    "reverted": (
        {"checkpointId": 4, **GONE},
        "reverted to before #4: 2 messages and 1 checkpoint went, 3 messages stay; the log before it is context_1",
    ),
    "cleared": (GONE, "cleared: 2 messages and 1 checkpoint went, 3 messages stay; the log before it is context_1"),
    "compacted": (GONE, "compacted: 3 messages now; the log before it is context_1"),
    "folded": (GONE, "folded: 3 messages now; the log before it is context_1"),
    "merged": ({"from": {"sessionId": "side"}}, "a summary of session side was appended"),
    "timelineRestored": (GONE, "restored: 3 messages now; the log before it is context_1"),
    "undone": (GONE, "undone: 3 messages now; the log before it is context_1"),
    "redone": (GONE, "redone: 3 messages now; the log before it is context_1"),
    "dmailDelivered": (GONE, "a D-Mail was delivered: 2 messages and 1 checkpoint went, 3 messages stay"),
    "redacted": ({"records": 3, "occurrences": 5}, "a secret was taken out of 3 records"),
    "tokenCountUpdated": ({"tokenCount": 1234}, "1,234 tokens used"),
    "systemPromptSet": ({}, "the system prompt was set"),
    "external": ({}, "changed by a program that is not attached"),
    "approvalChanged": ({"approval": {"yolo": True, "autoApproveActions": ["read"]}}, "yolo ON; unasked: read"),
    "subagentsChanged": ({}, "sub-agents changed"),
    "titleChanged": ({"title": "new\x1b[2J"}, "title: new\\x1b[2J"),
    "workspaceChanged": ({"workspace": "file:///w"}, "folder: file:///w"),
    "archived": ({}, "archived"),
    "unarchived": ({}, "taken out of the archive"),
    "deleted": ({}, "in the trash"),
    "dmailChanged": ({"pendingDMail": {"checkpointId": 4}}, "waits for checkpoint #4"),
    "pinsChanged": ({}, "pins changed"),
    "accessChanged": ({"access": "attached"}, "live in another process"),
}
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "approval/didRequest": ({"approval": {"action": "run", "description": "ls"}}, "an approval is asked for: run (ls)"),
    "approval/didResolve": ({"decision": "approve"}, "an approval is given"),
    "session/didRecover": ({"cutBytes": 7}, "damage was mended: 7 bytes set aside"),
    "context/compactionSuggested": ({"tokenCountWithPending": 9}, "compaction is due: 9 tokens"),
    "session/warning": ({"kind": "notReachable", "message": "beware"}, "warning: beware"),
    "files/didSnapshot": ({"snapshot": "f1-0123456789ab", "changed": 2}, "f1-0123456789ab"),
    "files/didRestore": ({"paths": ["a"], "more": 0, "before": "f1-0123456789ab"}, "f1-0123456789ab"),
    RECONNECTED: ({"sessions": []}, "the connection was lost and is back"),
}


class Log:
    """A session of so many messages, as far as a follower looks."""

    def __init__(self, messages: int, timelines: int = 0) -> None:
        self.state = {"context": {"messageCount": messages, "timelines": timelines}}

    def call(self, method: str, **params: Any) -> Any:
        if method == "session/getState":
            return self.state
        if params["to"] > self.state["context"]["messageCount"]:
            raise TimeleapRpcError(-32602, "invalidParams", "there is no such message", {}, retryable=False)
        indexes = range(params["from"], params["to"])
        return {
            "messages": [{"index": index, "message": {"role": "user", "content": f"m{index}"}} for index in indexes]
        }


def told(log: Log, *notifications: Notification) -> list[str]:
    follower = TerminalFollower(cast("OpenSession", log))
    return [line.plain for notification in notifications for line in follower.tell(notification)]


def change(kind: str, **params: Any) -> Notification:
    return Notification("context/didChange", {"kind": kind, "cause": {"client": "agent"}, **params})


@pytest.mark.parametrize("kind", CHANGES)
def test_every_change_has_words(kind):
    params, words = CHANGES[kind]
    assert words in describe(Notification("context/didChange", {"kind": kind, **params}))


@pytest.mark.parametrize("method", OTHERS)
def test_every_notification_has_words(method):
    params, words = OTHERS[method]
    assert words in describe(Notification(method, params))


def test_a_revert_to_a_message_and_one_of_an_empty_log_have_words():
    gone = {name: value for name, value in GONE.items() if name != "timelineId"}
    told = describe(change("reverted", messageIndex=3, **gone))
    assert told == "reverted to before message 3: 2 messages and 1 checkpoint went, 3 messages stay"


def test_nothing_that_can_be_notified_is_left_out():
    kinds: set[str] = set()
    for union in (ContextDidChange, SessionDidChange):
        for model in get_args(union.model_fields["root"].annotation):
            kinds.add(*get_args(model.model_fields["kind"].annotation))
    assert kinds <= set(CHANGES)
    silent = {"context/didChange", "session/didChange", "bridge/didChange", "$/progress", "$/logTrace"}
    assert set(SERVER_NOTIFICATIONS) - silent == set(OTHERS) - {RECONNECTED}


def test_something_new_is_told_by_its_name():
    assert describe(change("somethingNew")) == "changed (somethingNew)"


def test_what_is_appended_is_shown_with_who_did_it():
    lines = told(Log(2), change("messagesAppended", firstIndex=0, count=2))
    assert lines[0].endswith("2 messages appended  by agent")
    assert lines[1:] == ["[0] user", "    m0", "[1] user", "    m1"]


def test_of_very_many_messages_the_last_are_shown():
    lines = told(Log(100), change("messagesAppended", firstIndex=0, count=100))
    assert lines[1] == "    ... 80 messages before these"
    assert lines[2] == "[80] user"


def test_messages_that_have_gone_again_are_no_error():
    assert len(told(Log(0), change("messagesAppended", firstIndex=0, count=1))) == 1


def test_what_nobody_told_of_is_caught_up_with():
    log = Log(1)
    follower = TerminalFollower(cast("OpenSession", log))
    log.state = Log(3).state
    for notification in (change("external"), Notification(RECONNECTED, {})):
        lines = [line.plain for line in follower.tell(notification)]
        assert lines[0].split("  ")[1].endswith(": 3 messages")
        assert lines[1:] == (["[1] user", "    m1", "[2] user", "    m2"] if notification.kind else [])


def test_another_log_is_not_taken_for_more_of_the_same():
    log = Log(1)
    follower = TerminalFollower(cast("OpenSession", log))
    log.state = Log(3, timelines=1).state
    assert len(list(follower.tell(change("external")))) == 1


def test_after_a_revert_only_what_comes_then_is_new():
    log = Log(4, timelines=1)
    follower = TerminalFollower(cast("OpenSession", log))
    list(follower.tell(change("reverted", checkpointId=1, **GONE)))
    assert [line.plain for line in follower.tell(change("external"))][1:] == ["[3] user", "    m3"]
