"""Commands about approvals that programs ask for: `approvals`, `approve`, `reject`, `afk`."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import threading
from collections.abc import Iterable
from typing import Annotated

from timeleap.cli.backend import OpenSession, change_session, read_state, writing
from timeleap.cli.command import Session, Switch, command
from timeleap.cli.formatting import ago, one_line, safe
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.styled_text import StyledText
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json
from timeleap_client.errors import TimeleapRpcError
from timeleap_client.notifications import RECONNECTED, Notification

app = Commands()

_REQUESTED = "approval/didRequest"
_RESOLVED = "approval/didResolve"
_DECIDED = {"approve": "approved", "approveForSession": "approved for the session", "reject": "rejected"}
_AN_ID = re.compile(r"a[0-9a-f]{16}")

ApprovalId = Annotated[str | None, Argument(metavar="[ID]", help="Its id; needed where several requests wait.")]
Reason = Annotated[str | None, Option("--reason", "-r", metavar="TEXT", help="For the program that asks.")]


@command(app)
def approvals(
    terminal: Terminal,
    session: Session,
    watch: Annotated[bool, Option("--watch", "-w", help="Go on with every new request, until Ctrl-C.")] = False,
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
    with writing(terminal, session, dry_run=not decide, follow=watch) as opened:
        changes = opened.backend.changes(opened.id) if watch else None
        waiting = opened.call("approval/list")["approvals"]
        if changes is None:
            _show(terminal, opened, waiting)
            return
        terminal.hint(f"waiting for requests in {opened.id}; Ctrl-C ends")
        if decide:
            _PendingRequests(terminal, opened, waiting).decide(changes)
        else:
            for approval in waiting:
                terminal.line({"method": _REQUESTED, "params": {"sessionId": opened.id, "approval": approval}})
            for notification in changes:
                if notification.method in (_REQUESTED, _RESOLVED):
                    terminal.line({"method": notification.method, "params": notification.params})


@command(app)
def approve(
    terminal: Terminal,
    session: Session,
    approval_id: ApprovalId = None,
    *,
    for_session: Annotated[
        bool, Option("--for-session", help="Approve this action from now on without asking.")
    ] = False,
    reason: Reason = None,
) -> None:
    """Approve what a program asks for.

    Examples:
        timeleap approve fix-dates
        timeleap approve fix-dates a3f20d37edd06eb25 --for-session
    """
    _respond(terminal, session, approval_id, "approveForSession" if for_session else "approve", reason)


@command(app)
def reject(terminal: Terminal, session: Session, approval_id: ApprovalId = None, *, reason: Reason = None) -> None:
    """Reject what a program asks for.

    Example:
        timeleap reject fix-dates --reason "Not while the tests are red"
    """
    _respond(terminal, session, approval_id, "reject", reason)


@command(app)
def afk(terminal: Terminal, session: Session, switch: Switch = None) -> None:
    """Say that nobody is there to approve anything: requests are then rejected at once. Each change is recorded in the audit.

    Examples:
        timeleap afk fix-dates on
        timeleap afk fix-dates off
        timeleap afk on
    """
    if switch is None:
        result = read_state(terminal, session, "approval")
    else:
        result = change_session(terminal, session, "session/setAfk", afk=switch == "on")
    on = result["approval"]["afk"]
    terminal.answer(result, f"afk is {'ON: what needs a person is rejected at once' if on else 'off'}")


def _respond(terminal: Terminal, session: str, approval_id: str | None, decision: str, reason: str | None) -> None:
    if approval_id is None and _AN_ID.fullmatch(session):
        session, approval_id = ".", session
    with writing(terminal, session) as opened:
        if approval_id is None:
            waiting = opened.call("approval/list")["approvals"]
            if len(waiting) != 1:
                problem = "no request waits" if not waiting else f"{len(waiting)} requests wait: give the ID of one"
                raise UsageError(f"{problem}; timeleap approvals {opened.id} lists them")
            approval_id = str(waiting[0]["approvalId"])
        opened.call("approval/respond", approvalId=approval_id, decision=decision, reason=reason)
    terminal.answer({"approvalId": approval_id, "decision": decision}, _DECIDED[decision])


def _show(terminal: Terminal, opened: OpenSession, waiting: list[Json]) -> None:
    if terminal.machine or not waiting:
        terminal.answer({"approvals": waiting}, hint="no request waits")
        return
    names = ("approvalId", "action", "description", "client")
    rows = [(*(request.get(name, "") for name in names), ago(request["requestedAt"])) for request in waiting]
    terminal.table(("id", "action", "description", "client", "asked"), rows)
    terminal.hint(f"timeleap approve {opened.id} ID, or timeleap reject {opened.id} ID --reason TEXT")


class _PendingRequests:
    """The requests that wait for a decision: a thread listens to how they come and end, and the user is asked about each.

    Another client may decide one meanwhile.
    """

    def __init__(self, terminal: Terminal, opened: OpenSession, requests: list[Json]) -> None:
        self._terminal = terminal
        self._opened = opened
        self._news: queue.Queue[Json | None] = queue.Queue()
        self._known: set[str] = set()
        self._ended: set[str] = set()
        self._asking = ""  # the request that the user is asked about
        self._turn = threading.Lock()
        self._take(requests)

    def decide(self, changes: Iterable[Notification]) -> None:
        threading.Thread(target=self._listen, args=(changes,), name="timeleap-approvals", daemon=True).start()
        while (asked := self._news.get()) is not None:
            with self._turn:
                if asked["approvalId"] in self._ended:
                    continue
                self._print(asked)
                self._asking = asked["approvalId"]
            verdict = self._verdict(asked["approvalId"])
            self._asking = ""
            if verdict is None:
                continue
            decision, reason = verdict
            try:
                self._opened.call("approval/respond", approvalId=asked["approvalId"], decision=decision, reason=reason)
            except TimeleapRpcError as error:
                if error.kind != "approvalNotPending":
                    raise
                self._terminal.say("  it was decided meanwhile")

    def _listen(self, changes: Iterable[Notification]) -> None:
        # The command ends while this thread waits for the next one: nobody is to be told of that.
        with contextlib.suppress(BaseException):
            for notification in changes:
                if notification.method == _REQUESTED:
                    self._take([notification.params["approval"]])
                elif notification.method == _RESOLVED:
                    self._end(notification.params)
                elif notification.method == RECONNECTED:
                    self._take(self._opened.call("approval/list")["approvals"])
        self._news.put(None)

    def _take(self, requests: list[Json]) -> None:
        for request in requests:
            if request["approvalId"] not in self._known:
                self._known.add(request["approvalId"])
                self._ended.discard(request["approvalId"])
                self._news.put(request)

    def _end(self, params: Json) -> None:
        self._known.discard(params["approvalId"])
        with self._turn:
            self._ended.add(params["approvalId"])
            if params["approvalId"] == self._asking:
                # The next one is asked after Enter only: what is being typed just now is not meant for it.
                self._terminal.err.write(f"\n  {_outcome(params)}; Enter goes on ", end="")

    def _print(self, request: Json) -> None:
        who = f" by {one_line(request['client'])}" if "client" in request else ""
        # All of the detail: what is cut off could be what matters.
        detail = json.dumps(request["detail"], ensure_ascii=False, indent=2) if "detail" in request else ""
        lines = [*str(request.get("description", "")).splitlines(), *detail.splitlines()]
        self._terminal.say(
            StyledText(f"\n{one_line(request['action'])}", style="bold"),
            f"  asked{who}, {ago(request['requestedAt'])}",
            *(f"  {safe(line)}" for line in lines),
        )

    def _verdict(self, request: str) -> tuple[str, str | None] | None:
        """The user's decision; None leaves it to others, or comes too late."""
        choices = {"y": "approve", "yes": "approve", "a": "approveForSession", "always": "approveForSession"}
        while True:
            said = self._typed("approve? [y]es, [a]lways, [n]o, [s]kip: ").lower()
            if request in self._ended:
                return None
            if said in choices:
                return choices[said], None
            if said in ("n", "no"):
                return "reject", self._typed("reason (may be empty): ") or None
            if said in ("s", "skip"):
                return None

    def _typed(self, question: str) -> str:
        try:
            return self._terminal.ask(question).strip()
        except EOFError:
            raise KeyboardInterrupt from None  # the end of input ends it as Ctrl-C does


def _outcome(params: Json) -> str:
    if params["decision"] == "cancelled":
        return "the program asks for it no longer"
    if params["decision"] == "timedOut":
        return "nobody decided in time"
    client = params["cause"].get("client")
    said = _DECIDED.get(params["decision"], str(params["decision"]))
    return f"it was {said} meanwhile{f' by {one_line(str(client))}' if client else ''}"
