"""What a session from elsewhere may bring along: looked at in its files, before anybody opens it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from timeleap.features.transfer.sanitize import Arrival, Origin, settle_in
from timeleap.features.transfer_losses import ExportLoss
from timeleap.sessions.transaction import NOBODY
from timeleap.storage.log_values import TimelineFacts
from timeleap.store.creation import Traits

Json = dict[str, Any]


def settled(directory: Path, arrival: Arrival, *present: str) -> tuple[Json, Json]:
    """The `timeleap.json` and `state.json` of the new session."""
    settle_in(directory, arrival, NOBODY, present)
    notes, state = (json.loads((directory / name).read_text()) for name in ("timeleap.json", "state.json"))
    return notes, state


def test_approvals_are_off_in_the_file_too_which_the_original_program_believes(tmp_path: Path) -> None:
    approval = {"yolo": True, "afk": True, "auto_approve_actions": ["rm"], "other": 1}
    brought = {"approval": approval, "archived": True, "archived_at": 1.5, "custom_title": "Old", "plan_mode": True}
    _, state = settled(tmp_path, Arrival(state=brought))
    assert state["approval"] == {"yolo": False, "afk": False, "auto_approve_actions": []}
    assert (state["archived"], state["archived_at"]) == (False, None)
    assert (state["custom_title"], state["plan_mode"]) == ("Old", True)


def test_only_what_means_something_here_is_kept(tmp_path: Path) -> None:
    brought = {
        "uid": "of another",
        "epoch": 1,
        "seals": [{"revision": 9, "mac": "x"}],
        "journal": {"requests": []},
        "createdBy": {"r": "r1", "h": "x", "m": "open"},
        "removing": ["context.jsonl"],
        "createdAt": "2025-01-01T00:00:00.000Z",
        "parent": {"sessionId": "p", "checkpointUid": "c0-1", "extra": 1},
        "rotation": 7,
        "timelines": {"context_1": {"reason": "revert", "createdAt": "2025-01-02"}, "context_9": {"reason": "clear"}},
    }
    notes, _ = settled(
        tmp_path, Arrival(notes=brought, lines=3, origin=Origin("native", "s", "u")), "context_1", "context_2"
    )
    assert notes["uid"] != "of another"
    assert notes["epoch"] > 1
    assert not {"seals", "journal", "createdBy", "removing"} & notes.keys()
    assert (notes["createdAt"], notes["rotation"], notes["inheritedLines"]) == ("2025-01-01T00:00:00.000Z", 7, 3)
    assert notes["parent"] == {"sessionId": "p", "checkpointUid": "c0-1"}
    assert {name: one["reason"] for name, one in notes["timelines"].items()} == {
        "context_1": "revert",
        "context_2": "import",
    }
    assert (notes["importedFrom"]["sessionId"], notes["importedFrom"]["uid"]) == ("s", "u")


def test_numbers_no_name_can_follow_are_not_believed(tmp_path: Path) -> None:
    for rotation in (10**40, -1, True, "7"):
        notes, _ = settled(tmp_path, Arrival(notes={"rotation": rotation}))
        assert "rotation" not in notes


def test_what_the_import_made_itself_counts_before_what_was_brought(tmp_path: Path) -> None:
    made = Arrival(
        traits=Traits(title=" New\n title ", workspace="file:///new"),
        notes={"workspace": "file:///old"},
        state={"custom_title": "Old"},
        timelines={"context_1": TimelineFacts("compact", "2025-01-01T00:00:00.000Z")},
        origin=Origin("codex", losses=tuple(ExportLoss("x", str(number)) for number in range(300))),
    )
    notes, state = settled(tmp_path, made, "context_1")
    assert (state["custom_title"], notes["workspace"]) == ("New title", "file:///new")
    assert notes["timelines"] == {"context_1": {"reason": "compact", "createdAt": "2025-01-01T00:00:00.000Z"}}
    assert len(notes["importedFrom"]["losses"]) == 100


@pytest.mark.parametrize(
    ("in_notes", "in_state", "counts"),
    [
        (["old"], ["new"], ["new"]),
        (["old"], [], []),
        (["kept"], None, ["kept"]),
        (None, ["only"], ["only"]),
    ],
)
def test_the_subagents_that_count_where_a_session_is_opened_are_taken_over(
    tmp_path: Path, in_notes: list[str] | None, in_state: list[str] | None, counts: list[str]
) -> None:
    """Where the original changed them, or a crash came between the two files."""
    notes = {} if in_notes is None else {"subagents": [{"name": one, "systemPrompt": ""} for one in in_notes]}
    state = {} if in_state is None else {"dynamic_subagents": [{"name": one, "system_prompt": ""} for one in in_state]}
    after, state_after = settled(tmp_path, Arrival(notes=notes, state=state))
    assert [one["name"] for one in after.get("subagents", [])] == counts
    assert [one["name"] for one in state_after.get("dynamic_subagents", [])] == counts
