"""Base of all commands: `--home`, `--json`, a SESSION that may be left out, and errors in words with an exit code."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, Literal, ParamSpec, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from timeleap import interrupt
from timeleap.cli.error_hints import explain
from timeleap.cli.options import LATEST, Home, Machine, Session, looks_like_checkpoint
from timeleap.cli.terminal import Terminal, UsageError, forget_output
from timeleap.errors import TimeleapError
from timeleap_client.errors import ConnectionLostError, TimeleapClientError, TimeleapRpcError

P = ParamSpec("P")

SESSION: Final = "session"
FAILED = 1
MISUSED = 2


_MEANT = {
    **dict.fromkeys(("delete", "remove", "rm"), "trash delete"),
    **dict.fromkeys(("list", "ls"), "sessions"),
    **dict.fromkeys(("create", "init"), "new"),
    **dict.fromkeys(("history", "messages", "cat"), "show"),
    **dict.fromkeys(("status", "info"), "state"),
    **dict.fromkeys(("rollback", "reset"), "revert"),
    **dict.fromkeys(("checkpoints", "timelines"), "log"),
    **dict.fromkeys(("undelete", "purge"), "trash"),
    "branch": "fork",
    "rename": "title",
    "help": "--help",
}
"""What other programs call what we have under another name."""


class Group(TyperGroup):
    """Commands under one name: helps with a wrong one, and for machines says in JSON that one is missing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        terminal = ctx.find_root().obj
        if not args and isinstance(terminal, Terminal) and terminal.machine:
            ctx.fail(f"Missing command: one of {', '.join(self.commands)}.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command."""
        meant = _MEANT.get(args[0]) if ctx.parent is None and args[0] not in self.commands else None
        if meant is not None:
            ctx.fail(f"No such command {args[0]!r}. Did you mean 'timeleap {meant}'?")
        return super().resolve_command(ctx, args)


def command(
    app: typer.Typer, name: str | None = None, *, unless: str | None = None, panel: str | None = None
) -> Callable[[Callable[Concatenate[Terminal, P], None]], Callable[Concatenate[Terminal, P], None]]:
    """Register a function as a command: its first parameter is the `Terminal`, the others are the user's.

    The shared options stand before and after the command's name, whatever comes easier: `timeleap --home X state s`
    and `timeleap state s --home X` are the same. SESSION may be left out (see `SessionDefault`).

    Args:
        app: Where.
        name: Its name, where that is not the function's.
        unless: An option that takes the place of the argument after SESSION, which is required without it.
        panel: Its panel in the overview, where that is not the one of `app`.
    """

    def register(function: Callable[Concatenate[Terminal, P], None]) -> Callable[Concatenate[Terminal, P], None]:
        text, examples = _help(function)
        where = panel or app.rich_help_panel
        app.command(name, help=text, epilog=examples, rich_help_panel=where)(_with_shared_options(function, unless))
        return function

    return register


def _help(function: Callable[..., None]) -> tuple[str, str | None]:
    """The help text and the examples of a docstring: what stands under `Example:` is shown as typed."""
    document = inspect.cleandoc(function.__doc__ or "")
    text, *blocks = re.split(r"^Examples?:$", document, maxsplit=1, flags=re.MULTILINE)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # a paragraph is as wide as the terminal, not as our source
    if not blocks:
        return text, None
    # Rich's markup leaves `\[` alone (its own `escape` would cost every command the import).
    typed = [line.strip().replace("[", r"\[") for line in blocks[0].splitlines() if line.strip()]
    # A paragraph each: typer joins the lines of one.
    return text, "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]{line}[/cyan]" for line in typed)])


class SessionDefault:
    """Lets SESSION be left out of a command that takes it.

    The parser fills arguments from the left, so what it took for the session may have been meant for the next one: it
    was where a required argument is missing, where it is a switch's word, or where it has spaces in it and is no path.
    Then all move by one.

    Args:
        following: The positional parameters after the session.
        unless: An option that makes up for the first of them.
    """

    def __init__(self, following: Sequence[inspect.Parameter], unless: str | None) -> None:
        self._following = {parameter.name: _bare(parameter.annotation) for parameter in following}
        self._required = [parameter.name for parameter in following if parameter.default is parameter.empty]
        self._unless = unless

    def fill(self, values: dict[str, Any]) -> None:
        """Put every value where it was meant.

        Raises:
            UsageError: A required one is missing.
        """
        first = next(iter(self._following), None)
        required = [*self._required, *([first] if first and self._unless and values.get(self._unless) is None else [])]
        given = values.get(SESSION)
        missing = any(values[name] in (None, []) for name in required)
        if first == "checkpoint" and given is not None and not looks_like_checkpoint(given):
            missing = False  # a session without its checkpoint: to be said, not to be looked for in another session
        if given is not None and first is not None:
            meant_for_it = values[first] in (None, []) and (_is_text(given) or given in self._switch(first))
            if missing or meant_for_it:
                self._move(given, values)
        values[SESSION] = values[SESSION] or LATEST
        for name in self._required:
            if values[name] in (None, []):
                raise UsageError(f"missing argument {name.upper().replace('_', '-')}")

    def _switch(self, name: str) -> tuple[str, ...]:
        """The words an argument is one of."""
        kind = self._following[name]
        return get_args(kind) if get_origin(kind) is Literal else ()

    def _move(self, given: str, values: dict[str, Any]) -> None:
        values[SESSION] = None
        carried: Any = given
        for name, kind in self._following.items():
            if carried in (None, []):
                break
            if isinstance(values[name], list) or get_origin(kind) is list:
                values[name] = [carried, *(values[name] or [])]
                break
            values[name], carried = (Path(carried) if kind is Path else carried), values[name]


def _is_text(given: str) -> bool:
    return any(character.isspace() for character in given) and not os.path.exists(given)  # noqa: PTH110  (which raises for names that are too long)


def _bare(hint: Any) -> Any:
    """A parameter's type without typer's annotations, and without None."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    members = get_args(kind)
    return next(member for member in members if member is not type(None)) if type(None) in members else kind


def _with_shared_options(function: Callable[..., None], unless: str | None) -> Callable[..., None]:
    hints = get_type_hints(function, include_extras=True)
    _, *own = inspect.signature(function).parameters.values()
    own = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    default = None
    if hints.get(SESSION) == Session:
        _, *following = filter(_is_argument, own)
        default = SessionDefault(following, unless)
        own = [_optional(parameter) if _is_argument(parameter) else parameter for parameter in own]
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        inspect.Parameter("home", keyword, default=None, annotation=Home),
        inspect.Parameter("machine", keyword, default=False, annotation=Machine),
    ]

    @functools.wraps(function)
    def run(*args: Any, ctx: typer.Context, home: Path | None, machine: bool, **kwargs: Any) -> None:
        before: Terminal = ctx.find_root().obj or Terminal(None, machine=False)
        terminal = Terminal(home or before.home, machine or before.machine)
        if default is not None:
            guarded(terminal, None, functools.partial(default.fill, kwargs))
        named = kwargs.get(SESSION)
        guarded(terminal, None if named == LATEST else named, lambda: function(terminal, *args, **kwargs))

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return run


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(told, typer.models.ArgumentInfo) for told in parameter.annotation.__metadata__)


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.default is not parameter.empty:
        return parameter
    kind, *told = get_args(parameter.annotation)
    return parameter.replace(default=None, annotation=Annotated[kind | None, *told])


def guarded(terminal: Terminal, session: object, work: Callable[[], None]) -> None:
    """Do `work`; errors are printed as messages, never as a traceback.

    Raises:
        typer.Exit: With 1 for an error, 2 for a misuse, 130 for Ctrl-C.
    """
    raising = interrupt.Raising()
    try:
        with raising:
            work()
    except TimeleapRpcError as error:
        members = {"code": error.code, "kind": error.kind, "message": error.message, "data": dict(error.data)}
        terminal.fail(explain(error, session if isinstance(session, str) else None), members)
        raise typer.Exit(FAILED) from None
    except UsageError as error:
        terminal.fail([str(error)], {"kind": "usage", "message": str(error)})
        raise typer.Exit(MISUSED) from None
    except (TimeleapClientError, TimeleapError) as error:
        kind = "connectionLost" if isinstance(error, ConnectionLostError) else getattr(error, "kind", "client")
        terminal.fail(str(error).splitlines() or ["the server went away"], {"kind": kind, "message": str(error)})
        raise typer.Exit(FAILED) from None
    except BrokenPipeError:
        forget_output()  # `timeleap show s | head`: the reader has seen enough, which is no error
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        terminal.fail([text], {"kind": "os", "message": text})
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raising.over()
        terminal.hint("interrupted")
        raise typer.Exit(interrupt.EXIT_CODE) from None
