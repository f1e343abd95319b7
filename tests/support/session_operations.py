"""What may happen to a session, as strategies: an operation is its name and what it is asked with."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Op = tuple[str, Json]

TEXT = st.one_of(
    st.sampled_from(["", "hi", "Where is it?", "In the drawer", "x" * 30]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
CALLS = st.lists(st.sampled_from(["c1", "c2", "c3"]), min_size=1, max_size=2, unique=True)
RUN = {"function": {"name": "run", "arguments": "{}"}}
MESSAGES = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant", "system"]), TEXT
    ),
    st.builds(
        lambda ids: {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "id": one, **RUN} for one in ids],
        },
        CALLS,
    ),
    st.builds(
        lambda one, text: {"role": "tool", "content": text, "tool_call_id": one},
        st.sampled_from(["c1", "c2", "c3"]),
        TEXT,
    ),
    st.builds(
        lambda text, more: {
            "role": "user",
            "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "u"}}, *more],
            "ours": {"kept": [1, None, 2.5]},
        },
        TEXT,
        st.lists(st.just({"type": "text", "text": "more"}), max_size=1),
    ),
)
TAIL = [
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "c1", **RUN}]},
    {"role": "tool", "content": "done", "tool_call_id": "c1"},
    {"role": "user", "content": "wait"},
]
NAMES = st.sampled_from(["coder", "tester", "writer"])
ACTIONS = st.sampled_from(["run", "read", "open the drawer"])
SECRETS = st.sampled_from(["drawer", "wait", "CHECKPOINT"])
"""What is taken out for good."""
PICK = st.integers(-1, 12)
"""Which of several things; -1: one that is not there."""


def op(name: str, /, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    return st.tuples(st.just(name), st.fixed_dictionaries(args))


APPENDS = st.one_of(
    op("append", messages=st.lists(MESSAGES, min_size=1, max_size=3)),
    op("append", messages=st.lists(MESSAGES, min_size=1, max_size=1)),
    op("update_token_count", token_count=st.integers(0, 300)),
    op("set_system_prompt", system_prompt=TEXT),
    op("checkpoint", label=st.none() | st.sampled_from(["here", "é"]), add_user_message=st.booleans()),
)
STATES = st.one_of(
    op("cancel_dmail"),
    op("set_pins", pins=st.lists(st.sampled_from(["drawer", "/etc/x"]), max_size=3)),
    op("set_title", title=TEXT),
    op("set_workspace", workspace=st.none() | st.builds("file:///{}".format, NAMES)),
    op("archive"),
    op("unarchive"),
    op("put_subagent", name=NAMES, system_prompt=TEXT),
    op("remove_subagent", name=NAMES),
    op("set_yolo", yolo=st.booleans()),
    op("set_auto_approve", action=ACTIONS, enabled=st.booleans()),
    op("set_auto_checkpoint", setting=st.sampled_from(["turn", "step", "off"])),
)
CHANGES = st.one_of(
    op("revert", pick=PICK, by_uid=st.booleans(), heal=st.booleans()),
    op("revert", pick=PICK, by_uid=st.booleans(), heal=st.booleans()),
    op("revert", pick=PICK, to_message=st.just(True), heal=st.booleans()),
    op("undo", steps=st.integers(1, 3)),
    op("undo", steps=st.just(1)),
    op("redo", steps=st.integers(1, 2)),
    op("clear", keep_system_prompt=st.booleans()),
    op(
        "compact",
        words=st.sampled_from(["", "s", "All of it was about a drawer. " * 3]),
        max_preserved=st.integers(1, 3),
    ),
    op("restore_timeline", pick=PICK),
    op("restore_timeline", pick=st.just(0)),
    op("deliver_dmail"),
    op("send_dmail", pick=PICK, by_uid=st.booleans(), message=TEXT),
    op("take_note", message=TEXT, sender=NAMES),
    op("prune", pick=PICK),
    op("prune", keep=st.integers(1, 3)),
)
OPS = st.one_of(APPENDS, APPENDS, STATES, CHANGES, CHANGES)
EXPECTATION = st.sampled_from(["none", "none", "present", "stale"])
