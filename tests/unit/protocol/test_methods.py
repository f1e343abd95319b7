"""The table: complete, consistent, and cheap to load."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import BaseModel

from timeleap_protocol.base import GENERAL_PARAMS, MutationParams, Params, SessionParams
from timeleap_protocol.capabilities import advertised
from timeleap_protocol.errors import ErrorKind
from timeleap_protocol.limits import LIMITS, PROTOCOL_VERSION
from timeleap_protocol.method import change, read
from timeleap_protocol.methods import (
    ANSWERED,
    CLIENT_REQUESTS,
    METHODS,
    NOTIFICATIONS,
    REQUESTS,
    SERVER_NOTIFICATIONS,
    Method,
)

SESSION = "open close list latest getState setYolo setAutoApprove setAfk isApproved putSubagent removeSubagent setTitle setWorkspace fork archive unarchive delete undelete listTrash purge listAudit reload verify repair search storage prune redact export import merge"
CONTEXT = "appendMessage updateTokenCount listUsage setSystemPrompt checkpoint listCheckpoints revertTo clear getHistory getRecords listTimelines restoreTimeline undo redo compact setPins fold replaceMessage prepareCompaction sendDMail deliverDMail cancelDMail search diff at"

APPROVAL = "request respond list"
FILES = "snapshot list diff read restore"
BRIDGE = "list watch unwatch adopt catchUp listKept restoreFile"

OURS = [row for row in REQUESTS.values() if row.name.startswith(("session/", "context/", "approval/", "files/"))]
ours = pytest.mark.parametrize("row", OURS, ids=lambda row: row.name)

TAKING_FILES_ALONG = {
    "context/checkpoint", "context/revertTo", "context/replaceMessage", "context/restoreTimeline", "context/undo", "context/redo", "context/deliverDMail",
}  # fmt: skip
UNOPENED = {
    "session/open", "session/list", "session/latest", "session/getState", "session/fork", "session/archive", "session/unarchive",
    "session/delete", "session/undelete", "session/listTrash", "session/purge", "session/listAudit", "session/search", "session/export", "session/import", "session/verify", "session/repair",
    "session/storage", "session/prune", "session/redact",
}  # fmt: skip

FINISHED = {"session/close", "session/reload", "approval/respond"}


def test_the_contracts_methods_are_all_here():
    named = {f"session/{name}" for name in SESSION.split()} | {f"context/{name}" for name in CONTEXT.split()}
    named |= {f"approval/{name}" for name in APPROVAL.split()} | {f"files/{name}" for name in FILES.split()}
    assert {row.name for row in OURS} == named
    mirrors = {f"bridge/{name}" for name in BRIDGE.split()}
    assert REQUESTS.keys() - named == {"initialize", "shutdown", "rpc.discover", *mirrors}
    assert NOTIFICATIONS.keys() == {"initialized", "exit", "$/cancelRequest", "$/setTrace"}
    assert CLIENT_REQUESTS.keys() == {"context/summarize"}
    assert SERVER_NOTIFICATIONS.keys() == {
        "context/didChange",
        "session/didChange",
        "session/didRecover",
        "context/compactionSuggested",
        "session/warning",
        "files/didSnapshot",
        "files/didRestore",
        "bridge/didChange",
        "approval/didRequest",
        "approval/didResolve",
        "$/progress",
        "$/logTrace",
    }


def test_a_name_stands_in_one_row():
    assert len(METHODS) == sum(map(len, (REQUESTS, NOTIFICATIONS, CLIENT_REQUESTS, SERVER_NOTIFICATIONS)))
    assert [row.name for row in METHODS.values()] == list(METHODS)


@pytest.mark.parametrize("row", METHODS.values(), ids=lambda row: row.name)
def test_the_models_of_a_row_exist(row: Method):
    assert issubclass(row.params_model, BaseModel)
    assert row.result_model is None or issubclass(row.result_model, BaseModel)
    assert row.summary.endswith(".")
    assert row.since == PROTOCOL_VERSION


@ours
def test_params_are_strict_and_named_after_their_method(row: Method):
    assert issubclass(row.params_model, Params)
    area, _, verb = row.name.partition("/")
    prefix = "" if area == "context" else area.capitalize()
    assert row.params_model.__name__ == f"{prefix}{verb[0].upper()}{verb[1:]}Params"


@ours
def test_a_row_that_changes_something_takes_a_request_id_and_no_other_does(row: Method):
    assert ("request_id" in row.params_model.model_fields) == (row.mutates or row.waits)
    assert ("expected_head" in row.params_model.model_fields) == issubclass(row.params_model, MutationParams)
    assert row.mutates or "dry_run" not in row.params_model.model_fields


@ours
def test_a_method_on_an_open_session_names_it_and_keeps_its_order(row: Method):
    if row.scope == "open":
        assert issubclass(row.params_model, SessionParams)
        assert (row.order, row.access) != ("free", "none")
        assert {ErrorKind.SESSION_NOT_OPEN, ErrorKind.SESSION_NOT_FOUND} <= set(row.all_errors)
    assert row.works_unopened == (row.name in UNOPENED)


@ours
def test_a_row_says_who_answers_and_in_which_order(row: Method):
    assert row.handler
    names_a_session = "session_id" in row.params_model.model_fields
    assert (row.order == "free") is not names_a_session
    assert row.forward in ("never", "handler") or names_a_session
    assert (row.cancel == "anytime") is not (row.mutates or row.name in FINISHED)
    assert row.access != "none" or row.name in UNOPENED | {"session/close"}
    assert row.access != "write" or row.mutates or row.waits or row.cancel != "anytime"


def test_a_row_without_its_columns_is_refused():
    with pytest.raises(TypeError, match="handler"):
        read("session/probe", "base.SessionParams", "session.EmptyResult", "Probes.")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="handler"):
        change("session/probe", "base.SessionParams", "session.EmptyResult", "Probes.")  # type: ignore[call-arg]


@ours
def test_what_changes_a_log_can_meet_a_changed_head(row: Method):
    assert not row.mutates or {ErrorKind.CONTENT_MODIFIED, ErrorKind.READ_ONLY} <= set(row.all_errors)
    assert len(set(row.all_errors)) == len(row.all_errors)


@ours
def test_every_result_of_a_change_carries_the_head(row: Method):
    if row.mutates and row.name not in ("session/delete", "session/undelete", "session/purge"):
        assert row.result_model is not None
        assert {"head", "duplicate"} <= row.result_model.model_fields.keys()


def test_long_methods_report_progress():
    assert {row.name for row in OURS if row.progress} == {
        "session/open",
        "session/search",
        "session/export",
        "session/import",
        "context/compact",
        "context/fold",
        "session/merge",
        "context/search",
        "context/diff",
        "session/verify",
        "session/repair",
        "session/redact",
        "files/snapshot",
        "files/diff",
        "files/restore",
        *TAKING_FILES_ALONG,
    }


def test_python_names():
    names = [METHODS[name].python_name for name in ("context/sendDMail", "rpc.discover", "$/cancelRequest")]
    assert names == ["context_send_dmail", "rpc_discover", "cancel_request"]
    assert len({row.python_name for row in METHODS.values()}) == len(METHODS)


def test_what_initialize_announces_is_the_table():
    announced = advertised()
    assert announced["methods"].keys() == ANSWERED.keys() - {"initialize", "shutdown"}
    for name, method in announced["methods"].items():
        fields = REQUESTS[name].params_model.model_fields
        assert set(method["params"]) == {field.alias for field in fields.values()} - GENERAL_PARAMS
    assert announced["notifications"] == list(SERVER_NOTIFICATIONS)
    assert announced["clientRequests"] == ["context/summarize"]
    assert announced["limits"] == LIMITS
    assert announced["approvals"] is True
    assert announced["protocolVersion"] == PROTOCOL_VERSION


def test_what_is_announced_cannot_be_changed_through_the_answer():
    advertised()["limits"]["maxPage"] = 1
    advertised()["methods"].clear()
    assert advertised()["limits"] == LIMITS
    assert advertised()["methods"]


def test_the_table_is_loaded_without_a_model():
    code = (
        "import sys, timeleap_protocol.methods, timeleap_protocol.errors, timeleap_protocol.capabilities;"
        "sys.exit('pydantic' in sys.modules or 'timeleap_protocol.base' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_params_that_are_right_are_read_without_a_model():
    code = (
        "import sys; from timeleap_protocol.methods import REQUESTS;"
        "REQUESTS['initialize'].read_params({'processId': None, 'clientInfo': {'name': 'a'}, 'capabilities': {}});"
        "REQUESTS['session/open'].read_params({'sessionId': 'a', 'title': None});"
        "REQUESTS['context/appendMessage'].read_params({'sessionId': 'a', 'message': {'role': 'user'}});"
        "sys.exit('pydantic' in sys.modules or 'timeleap_protocol.base' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_models_builds_no_validator():
    code = (
        "import timeleap_protocol.context, timeleap_protocol.session, timeleap_protocol.lifecycle;"
        "import timeleap_protocol.notifications;"
        "from timeleap_protocol.base import WireModel, WireRoot;"
        "def below(c):\n"
        "    return [s for d in c.__subclasses__() for s in (d, *below(d))]\n"
        "assert [m for m in below(WireModel) + below(WireRoot) if m.__pydantic_complete__] == []"
    )
    code = code.replace("def below", "\ndef below")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_may_be_stale_says_so_in_its_result() -> None:
    for row in REQUESTS.values():
        if row.stale:
            assert "stale" in getattr(row.result_model, "model_fields", {}), row.name
    for row in REQUESTS.values():
        assert not (row.stale and (row.needs_directory or row.planned)), row.name
        assert not row.stale or not row.mutates or row.opens, row.name
