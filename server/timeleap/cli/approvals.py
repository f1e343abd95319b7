"""The command that says what may run unasked: `yolo`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from timeleap.cli.arguments import Session
from timeleap.cli.backend import change_session, read_state
from timeleap.cli.command import command
from timeleap.cli.formatting import ago, one_line
from timeleap.cli.terminal import Terminal

app = typer.Typer()


@command(app, rich_help_panel="Write")
def yolo(
    terminal: Terminal,
    session: Session,
    switch: Annotated[
        Literal["on", "off"] | None, typer.Argument(metavar="[on|off]", help="Without it: say what it is.")
    ] = None,
) -> None:
    """Switch the approval of everything on or off. Each change is recorded in the session's audit.

    Examples:
        timeleap yolo fix-dates
        timeleap yolo fix-dates off
    """
    if switch is None:
        result = read_state(terminal, session, "approval")
    else:
        result = change_session(terminal, session, "session/setYolo", yolo=switch == "on")
    if terminal.machine:
        terminal.document(result)
        return
    approval = result["approval"]
    changed = f", {ago(approval['changedAt'])}" if "changedAt" in approval else ""
    by = f" by {one_line(approval['changedBy'])}" if "changedBy" in approval else ""
    terminal.say(f"yolo is {'ON: everything runs unasked' if approval['yolo'] else 'off'}{changed}{by}")
    if not approval["yolo"] and approval["autoApproveActions"]:
        terminal.say("unasked: " + ", ".join(one_line(action) for action in approval["autoApproveActions"]))
