"""Commands about approvals that programs ask for: `approvals`, `approve`, `reject`, `afk`."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from timeleap.cli.arguments import Session
from timeleap.cli.backend import Backend, OpenSession, Target, change_session, read_state
from timeleap.cli.command import command
from timeleap.cli.formatting import ago, one_line, safe
from timeleap.cli.terminal import Terminal, UsageError
from timeleap_client.errors import TimeleapRpcError
from timeleap_client.notifications import RECONNECTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from timeleap.cli.backend import Changes

app = typer.Typer()
PANEL = "Write"
Json = dict[str, Any]

REQUESTED, RESOLVED = "approval/didRequest", "approval/didResolve"
_DECIDED = {"approve": "approved", "approveForSession": "approved for the session", "reject": "rejected"}
_AN_ID = re.compile(r"a[0-9a-f]{16}")

ApprovalId = Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id; needed where several requests wait.")]
Reason = Annotated[str | None, typer.Option("--reason", "-r", metavar="TEXT", help="For the program that asks.")]


@command(app, rich_help_panel=PANEL)
def approvals(
    terminal: Terminal,
    session: Session,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with every new request, until Ctrl-C.")] = False,
) -> None:
    """List the requests for approvals that wait for a decision; with --watch decide them as they come.

    On a terminal --watch asks about each: yes, always (for the session), no with a reason, or skip, which leaves it to
    other windows. For a pipe, and with --json, it prints JSON lines and decides nothing.

    Examples:
        timeleap approvals fix-dates
        timeleap approvals fix-dates --watch
        timeleap approvals fix-dates --watch --json | jq .params.approval.action
    """
    decide = watch and not terminal.machine and terminal.interactive and terminal.out.is_terminal
    with Backend(terminal) as backend:
        target = Target.of(session)
        opened = backend.open_to_write(target) if decide else backend.open_to_read(target)
        changes = backend.changes(opened.id) if watch else None
        waiting = opened.call("approval/list")["approvals"]
        if changes is None:
            _show(terminal, opened, waiting)
            return
        terminal.hint(f"waiting for requests in {opened.id}; Ctrl-C ends")
        if decide:
            _ask(terminal, opened, changes, waiting)
        else:
            for approval in waiting:
                terminal.line({"method": REQUESTED, "params": {"sessionId": opened.id, "approval": approval}})
            for notification in changes:
                if notification.method in (REQUESTED, RESOLVED):
                    terminal.line({"method": notification.method, "params": notification.params})


@command(app, rich_help_panel=PANEL)
def approve(
    terminal: Terminal,
    session: Session,
    approval_id: ApprovalId = None,
    *,
    for_session: Annotated[
        bool, typer.Option("--for-session", help="Approve this action from now on without asking.")
    ] = False,
    reason: Reason = None,
) -> None:
    """Approve what a program asks for.

    Examples:
        timeleap approve fix-dates
        timeleap approve fix-dates a3f20d37edd06eb25 --for-session
    """
    _respond(terminal, session, approval_id, "approveForSession" if for_session else "approve", reason)


@command(app, rich_help_panel=PANEL)
def reject(terminal: Terminal, session: Session, approval_id: ApprovalId = None, *, reason: Reason = None) -> None:
    """Reject what a program asks for.

    Example:
        timeleap reject fix-dates --reason "Not while the tests are red"
    """
    _respond(terminal, session, approval_id, "reject", reason)


@command(app, rich_help_panel=PANEL)
def afk(
    terminal: Terminal,
    session: Session,
    switch: Annotated[
        Literal["on", "off"] | None, typer.Argument(metavar="[on|off]", help="Without it: say what it is.")
    ] = None,
) -> None:
    """Say that nobody is there to approve anything: requests are then rejected at once. Each change is recorded in the audit.

    Examples:
        timeleap afk fix-dates on
        timeleap afk fix-dates off
    """
    if switch is None:
        result = read_state(terminal, session, "approval")
    else:
        result = change_session(terminal, session, "session/setAfk", afk=switch == "on")
    if terminal.machine:
        terminal.document(result)
    else:
        on = result["approval"]["afk"]
        terminal.say(f"afk is {'ON: what needs a person is rejected at once' if on else 'off'}")


def _respond(terminal: Terminal, session: str, approval_id: str | None, decision: str, reason: str | None) -> None:
    if approval_id is None and _AN_ID.fullmatch(session):
        session, approval_id = ".", session
    with Backend(terminal) as backend:
        opened = backend.open_to_write(Target.of(session))
        if approval_id is None:
            waiting = opened.call("approval/list")["approvals"]
            if len(waiting) != 1:
                problem = "no request waits" if not waiting else f"{len(waiting)} requests wait: give the ID of one"
                raise UsageError(f"{problem}; timeleap approvals {opened.id} lists them")
            approval_id = str(waiting[0]["approvalId"])
        opened.call("approval/respond", approvalId=approval_id, decision=decision, reason=reason)
    if terminal.machine:
        terminal.document({"approvalId": approval_id, "decision": decision})
    else:
        terminal.say(_DECIDED[decision])


def _show(terminal: Terminal, opened: OpenSession, waiting: list[Json]) -> None:
    if terminal.machine:
        terminal.document({"approvals": waiting})
        return
    if not waiting:
        terminal.hint("no request waits")
        return
    rows = [
        (
            request["approvalId"],
            request["action"],
            request.get("description", ""),
            request.get("client", ""),
            ago(request["requestedAt"]),
        )
        for request in waiting
    ]
    terminal.table(("id", "action", "description", "client", "asked"), rows)
    terminal.hint(f"timeleap approve {opened.id} ID, or timeleap reject {opened.id} ID --reason TEXT")


# Deciding as they come


def _ask(terminal: Terminal, opened: OpenSession, changes: Changes, waiting: list[Json]) -> None:
    """Ask the user about each request; another client may decide it meanwhile."""
    news: queue.Queue[Json | None] = queue.Queue()
    ended: dict[str, Json] = {}
    asking: list[str] = []  # the request that the user is asked about
    turn = threading.Lock()
    known = {str(request["approvalId"]) for request in waiting}
    for request in waiting:
        news.put(request)

    def gather() -> None:
        for notification in changes:
            params = notification.params
            if notification.method == RESOLVED:
                known.discard(params["approvalId"])
                with turn:
                    ended[params["approvalId"]] = params
                    if params["approvalId"] in asking:
                        # The next one is asked after Enter only: what is being typed just now is not meant for it.
                        terminal.err.print(f"\n  {_outcome(params)}; Enter goes on ", end="")
            for request in _new(notification.method, params, opened):
                if request["approvalId"] not in known:
                    known.add(request["approvalId"])
                    ended.pop(request["approvalId"], None)
                    news.put(request)

    def listen() -> None:
        # The command ends while this thread waits for the next one: nobody is to be told of that.
        with contextlib.suppress(BaseException):
            gather()
        news.put(None)

    threading.Thread(target=listen, name="timeleap-approvals", daemon=True).start()
    while (asked := news.get()) is not None:
        current = str(asked["approvalId"])
        with turn:
            if current in ended:
                continue
            _print(terminal, asked)
            asking[:] = [current]
        verdict = _verdict(terminal, current, ended)
        asking.clear()
        if verdict is not None:
            _decide(terminal, opened, asked, verdict)


def _new(method: str, params: Json, opened: OpenSession) -> Iterator[Json]:
    if method == REQUESTED:
        yield params["approval"]
    elif method == RECONNECTED:
        yield from opened.call("approval/list")["approvals"]


def _print(terminal: Terminal, request: Json) -> None:
    from rich.text import Text

    who = f" by {one_line(request['client'])}" if "client" in request else ""
    terminal.say(Text(f"\n{one_line(request['action'])}", style="bold"), f"  asked{who}, {ago(request['requestedAt'])}")
    # All of it: what is cut off could be what matters.
    for line in str(request.get("description", "")).splitlines():
        terminal.say(f"  {safe(line)}")
    if "detail" in request:
        for line in json.dumps(request["detail"], ensure_ascii=False, indent=2).splitlines():
            terminal.say(f"  {safe(line)}")


def _verdict(terminal: Terminal, request: str, ended: Mapping[str, Json]) -> tuple[str, str | None] | None:
    """The user's decision; None leaves it to others, or comes too late."""
    choices = {"y": "approve", "yes": "approve", "a": "approveForSession", "always": "approveForSession"}
    while True:
        said = _typed(terminal, "approve? [y]es, [a]lways, [n]o, [s]kip: ").lower()
        if request in ended:
            return None
        if said in choices:
            return choices[said], None
        if said in ("n", "no"):
            return "reject", _typed(terminal, "reason (may be empty): ") or None
        if said in ("s", "skip"):
            return None


def _typed(terminal: Terminal, question: str) -> str:
    terminal.err.print(question, end="")
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt  # the end of input ends it as Ctrl-C does
    return line.strip()


def _decide(terminal: Terminal, opened: OpenSession, request: Json, verdict: tuple[str, str | None]) -> None:
    decision, reason = verdict
    try:
        opened.call("approval/respond", approvalId=request["approvalId"], decision=decision, reason=reason)
    except TimeleapRpcError as error:
        if error.kind != "approvalNotPending":
            raise
        terminal.say("  it was decided meanwhile")


def _outcome(params: Json) -> str:
    if params["decision"] == "cancelled":
        return "the program asks for it no longer"
    if params["decision"] == "timedOut":
        return "nobody decided in time"
    client = params["cause"].get("client")
    said = _DECIDED.get(params["decision"], str(params["decision"]))
    return f"it was {said} meanwhile{f' by {one_line(str(client))}' if client else ''}"
