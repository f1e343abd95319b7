"""Commands that show and set what a session is and what runs unasked in it: `yolo`, `title`, `usage` ..."""

from __future__ import annotations

import operator
from typing import Annotated

from timeleap.cli.backend import change_session, read_state, reading
from timeleap.cli.command import Session, Switch, command, subcommands, text_or_file
from timeleap.cli.formatting import Exact, ExactLines, ago, one_line
from timeleap.cli.parameters import Argument, Commands, Option
from timeleap.cli.terminal import Terminal, UsageError
from timeleap.json_value import Json

app = Commands()
subagents = subcommands(app, "subagents", "List, define and remove sub-agents.")

Text = Annotated[list[str] | None, Argument(metavar="[TEXT]", help="Without it: print the present one.")]
Name = Annotated[str, Argument(help="What it is called.")]


@command(app)
def yolo(terminal: Terminal, session: Session, switch: Switch = None) -> None:
    """Switch the approval of everything on or off. Each change is recorded in the session's audit.

    Examples:
        timeleap yolo fix-dates
        timeleap yolo fix-dates off
        timeleap yolo on
    """
    if switch is None:
        result = read_state(terminal, session, "approval")
    else:
        result = change_session(terminal, session, "session/setYolo", yolo=switch == "on")
    approval = result["approval"]
    changed = f", {ago(approval['changedAt'])}" if "changedAt" in approval else ""
    by = f" by {one_line(approval['changedBy'])}" if "changedBy" in approval else ""
    lines = [f"yolo is {'ON: everything runs unasked' if approval['yolo'] else 'off'}{changed}{by}"]
    if not approval["yolo"] and approval["autoApproveActions"]:
        lines.append("unasked: " + ", ".join(one_line(action) for action in approval["autoApproveActions"]))
    terminal.answer(result, *lines)


@command(app)
def title(terminal: Terminal, session: Session, text: Text = None) -> None:
    """Print or set the title of a session.

    Examples:
        timeleap title fix-dates
        timeleap title fix-dates "Dates before 1970"
    """
    if text is None:
        show(terminal, read_state(terminal, session, "title"))
    else:
        words = " ".join(text)
        terminal.answer(change_session(terminal, session, "session/setTitle", title=words), f"title: {one_line(words)}")


def show(terminal: Terminal, result: Json) -> None:
    """Print one member of a session's state exactly."""
    *_, value = result.values()
    terminal.answer(
        result,
        *([] if value is None else [value if isinstance(value, ExactLines) else Exact(value)]),
        hint="none" if value is None else "",
    )


@command(app, "system-prompt")
def system_prompt(terminal: Terminal, session: Session, text: Text = None) -> None:
    """Print or set the system prompt; @FILE takes the text from a file, - from the standard input.

    Examples:
        timeleap system-prompt fix-dates
        timeleap system-prompt fix-dates @prompt.md
    """
    if text is None:
        state = read_state(terminal, session, "context")
        prompt = state["context"]["systemPrompt"]
        shown = {"head": state["head"], "systemPrompt": None if prompt is None else ExactLines(prompt)}
        show(terminal, shown)
        return
    prompt = text_or_file(" ".join(text))
    result = change_session(terminal, session, "context/setSystemPrompt", systemPrompt=prompt)
    terminal.answer(result, "the system prompt is set")


@command(app)
def tokens(
    terminal: Terminal,
    session: Session,
    count: Annotated[int | None, Option("--set", metavar="COUNT", min=0, help="Record what the model counted.")] = None,
) -> None:
    """Print the token count of a session, or record the one that the model reported for the messages so far.

    Examples:
        timeleap tokens fix-dates
        timeleap tokens fix-dates --set 12000
    """
    if count is not None:
        result = change_session(terminal, session, "context/updateTokenCount", tokenCount=count)
        terminal.answer(result, f"{count:,} tokens")
        return
    state = read_state(terminal, session, "context")
    counted, pending = (state["context"][name] for name in ("tokenCount", "tokenCountWithPending"))
    result = {"head": state["head"], "tokenCount": counted, "tokenCountWithPending": pending}
    terminal.answer(result, f"{counted:,} tokens; {pending:,} with an estimate of what came since")


@command(app)
def usage(
    terminal: Terminal,
    session: Session,
    everything: Annotated[bool, Option("--all", "-a", help="The tokens of all sessions, by program.")] = False,
) -> None:
    """List the token counts that were recorded, oldest first, each with the number of messages before it.

    With --all: what all sessions took together. A call of a model counts once, in however many mirrors, forks and resumed
    sessions it stands; where a program's file names no calls, the counts that were recorded are added.

    Examples:
        timeleap usage fix-dates
        timeleap usage --all
    """
    if everything:
        from timeleap.cli.usage_totals import say_usage_of_all

        say_usage_of_all(terminal)
        return
    with reading(terminal, session) as opened:
        entries = list(opened.pages("context/listUsage", "usage", limit=1000))
    columns = ("MESSAGES", "TOKENS")
    row = operator.itemgetter("index", "tokenCount")
    terminal.records(entries, columns, row, right=columns, none="no token count was recorded")


@command(app, "auto-approve")
def auto_approve(
    terminal: Terminal,
    session: Session,
    action: Annotated[str | None, Argument(metavar="[ACTION]", help="Without it: list the actions.")] = None,
    off: Annotated[bool, Option("--off", help="Ask again before ACTION.")] = False,
) -> None:
    """List the actions that are approved without asking, or add or remove one. Each change is recorded in the audit.

    Examples:
        timeleap auto-approve fix-dates
        timeleap auto-approve fix-dates run_tests
        timeleap auto-approve fix-dates run_tests --off
    """
    if action is None and off:
        raise UsageError("name the ACTION that is to be asked for again")
    if action is None:
        result = read_state(terminal, session, "approval")
    else:
        result = change_session(terminal, session, "session/setAutoApprove", action=action, enabled=not off)
    words = ", ".join(one_line(name) for name in result["approval"]["autoApproveActions"])
    terminal.answer(result, f"approved without asking: {words or 'nothing'}")


@command(subagents, "list")
def list_subagents(terminal: Terminal, session: Session) -> None:
    """List the sub-agents of a session.

    Example:
        timeleap subagents list fix-dates
    """
    result = read_state(terminal, session, "dynamicSubagents")
    agents = result["dynamicSubagents"]
    if terminal.machine or not agents:
        terminal.answer(result, hint="none")
    else:
        rows = [(agent["name"], one_line(agent["systemPrompt"])) for agent in agents]
        terminal.table(("NAME", "SYSTEM PROMPT"), rows)


@command(subagents)
def put(
    terminal: Terminal,
    session: Session,
    name: Name,
    *,
    prompt: Annotated[str, Option(help="Its system prompt; @FILE or - takes it from there.")],
) -> None:
    """Define a sub-agent, or replace the one of that name.

    Example:
        timeleap subagents put fix-dates reviewer --prompt @reviewer.md
    """
    text = text_or_file(prompt)
    result = change_session(terminal, session, "session/putSubagent", name=name, systemPrompt=text)
    terminal.answer(result, f"{name} is defined")


@command(subagents)
def remove(terminal: Terminal, session: Session, name: Name) -> None:
    """Remove a sub-agent.

    Example:
        timeleap subagents remove fix-dates reviewer
    """
    terminal.answer(change_session(terminal, session, "session/removeSubagent", name=name), f"{name} is removed")
