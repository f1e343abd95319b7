"""Base of all commands: `--home`, `--json`, and errors in words with a sensible exit code."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, ParamSpec, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from timeleap import interrupt
from timeleap.cli.arguments import LATEST, Session, looks_like_checkpoint
from timeleap.cli.error_hints import explain
from timeleap.cli.terminal import Terminal, UsageError, forget_output
from timeleap.errors import TimeleapError
from timeleap_client.errors import ConnectionLostError, TimeleapClientError, TimeleapRpcError

P = ParamSpec("P")

SESSION: Final = "session"
FAILED = 1
MISUSED = 2

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="The store's directory (default: $TIMELEAP_HOME, else the platform's).",
        rich_help_panel="Everywhere",
        file_okay=False,
    ),
]
Machine = Annotated[
    bool, typer.Option("--json", help="For machines: one JSON document, or JSON lines.", rich_help_panel="Everywhere")
]


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
    app: typer.Typer, name: str | None = None, *, unless: str | None = None, **settings: Any
) -> Callable[[Callable[Concatenate[Terminal, P], None]], Callable[Concatenate[Terminal, P], None]]:
    """Register a function as a command: its first parameter is the `Terminal`, the others are the user's.

    The shared options stand before and after the command's name, whatever comes easier: `timeleap --home X state s`
    and `timeleap state s --home X` are the same. SESSION may be left out (see `SessionDefault`).

    Args:
        app: Where.
        name: Its name, where that is not the function's.
        unless: An option that takes the place of the argument after SESSION, which is required without it.
        **settings: As typer takes them.
    """

    def register(function: Callable[Concatenate[Terminal, P], None]) -> Callable[Concatenate[Terminal, P], None]:
        text, examples = _taught(function)
        app.command(name, help=text, epilog=examples, **settings)(_with_shared_options(function, unless))
        return function

    return register


def _taught(function: Callable[..., None]) -> tuple[str, str | None]:
    """The help text and the examples of a docstring: what stands under `Example:` is shown as typed."""
    document = inspect.cleandoc(function.__doc__ or "")
    text, *blocks = re.split(r"^Examples?:$", document, maxsplit=1, flags=re.MULTILINE)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)  # a paragraph is as wide as the terminal, not as our source
    if not blocks:
        return text, None
    typed = [line.strip() for line in blocks[0].splitlines() if line.strip()]
    # A paragraph each: typer joins the lines of one.
    return text, "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]{_literal(line)}[/cyan]" for line in typed)])


def _literal(line: str) -> str:
    """Text that rich's markup leaves alone (its own `escape` would cost every command the import)."""
    return line.replace("[", r"\[")


class SessionDefault:
    """Lets SESSION be left out of a command that takes it.

    The parser fills arguments from the left, so what it took for the session may have been meant for the next one: it
    was where a required argument is missing, or where it has spaces in it and is no path. Then all move by one.

    Args:
        arguments: The command's positional parameters, with their types; the session first.
        required: Those that must be given.
        unless: An option that makes up for the first one after the session.
    """

    def __init__(self, arguments: Mapping[str, Any], required: Sequence[str], unless: str | None) -> None:
        self._following = {name: _bare(hint) for name, hint in arguments.items() if name != SESSION}
        self._required = tuple(required)
        self._unless = unless

    def fill(self, values: dict[str, Any]) -> str | None:
        """Put every value where it was meant; returns what is missing, in words."""
        first = next(iter(self._following), None)
        required = [*self._required, *([first] if first and self._unless and values.get(self._unless) is None else [])]
        given = values.get(SESSION)
        missing = any(values[name] in (None, []) for name in required)
        if first == "checkpoint" and given is not None and not looks_like_checkpoint(given):
            missing = False  # a session without its checkpoint: to be said, not to be looked for in another session
        meant = missing or (first is not None and values[first] in (None, []) and _is_text(given))
        if given is not None and first is not None and meant:
            self._move(given, values)
        values[SESSION] = values[SESSION] or LATEST
        for name in self._required:
            if values[name] in (None, []):
                return f"missing argument {name.upper().replace('_', '-')}"
        return None

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


def _is_text(given: str | None) -> bool:
    return given is not None and any(character.isspace() for character in given) and not os.path.exists(given)  # noqa: PTH110  (which raises for names that are too long)


def _bare(hint: Any) -> Any:
    """A parameter's type without typer's annotations, and without None."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    members = (
        [member for member in get_args(kind) if member is not type(None)] if type(None) in get_args(kind) else [kind]
    )
    return members[0]


def _is_argument(hint: Any) -> bool:
    return any(isinstance(each, typer.models.ArgumentInfo) for each in getattr(hint, "__metadata__", ()))


def _optional(hint: Any) -> Any:
    kind, *told = get_args(hint)
    return Annotated[kind | None, *told]


def _with_shared_options(function: Callable[..., None], unless: str | None) -> Callable[..., None]:
    hints = get_type_hints(function, include_extras=True)
    first, *own = inspect.signature(function).parameters.values()
    del hints[first.name]
    hints.pop("return", None)
    default = None
    if hints.get(SESSION) == Session:
        arguments = {name: hint for name, hint in hints.items() if _is_argument(hint)}
        empty = inspect.Parameter.empty
        required = [each.name for each in own if each.name in arguments and each.default is empty]
        required.remove(SESSION)
        default = SessionDefault(arguments, required, unless)
        for name in (SESSION, *required):
            hints[name] = _optional(hints[name])
        own = [each.replace(default=None) if each.name in (SESSION, *required) else each for each in own]
    kept = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        inspect.Parameter("home", keyword, default=None, annotation=Home),
        inspect.Parameter("machine", keyword, default=False, annotation=Machine),
    ]

    @functools.wraps(function)
    def run(*args: Any, ctx: typer.Context, home: Path | None, machine: bool, **kwargs: Any) -> None:
        before: Terminal | None = ctx.find_root().obj
        terminal = Terminal(home or (before.home if before else None), machine or (before.machine if before else False))

        misuse = default.fill(kwargs) if default is not None else None

        def work() -> None:
            if misuse is not None:
                raise UsageError(misuse)
            function(terminal, *args, **kwargs)

        named = kwargs.get(SESSION)
        guarded(terminal, None if named == LATEST else named, work)

    run.__signature__ = inspect.Signature([*kept, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*kept, *shared]}
    return run


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
