"""The command line as the library sees it, which parses whatever is typed, helps, and completes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from timeleap.cli.arguments import with_values
from timeleap.cli.command import Home, Machine, Signature, run_command, signature_of
from timeleap.cli.parameters import Argument, Commands, Parameter, Registered
from timeleap.cli.terminal import Exit, Terminal
from timeleap.version import __version__

_EPILOG = """[bold]First steps[/bold]

[cyan]timeleap demo[/cyan]  a guided tour with a real server, in a store of its own

[cyan]timeleap new fix-dates && timeleap append fix-dates "Why is 1969 wrong?"[/cyan]

[cyan]timeleap checkpoint fix-dates && timeleap log fix-dates[/cyan]

Exit codes: 0 done, 1 an error (in words on the standard error output), 2 a misuse, 130 Ctrl-C."""

_MEANT = {
    **dict.fromkeys(("delete", "remove", "rm"), "trash delete"),
    **dict.fromkeys(("list", "ls"), "sessions"),
    **dict.fromkeys(("create", "init"), "new"),
    **dict.fromkeys(("history", "messages", "cat"), "show"),
    **dict.fromkeys(("status", "info"), "state"),
    **dict.fromkeys(("rollback", "reset"), "revert"),
    **dict.fromkeys(("checkpoints", "timelines"), "log"),
    **dict.fromkeys(("undelete", "purge"), "trash"),
    **dict.fromkeys(("snapshot", "snapshots"), "files"),
    "branch": "fork",
    "rename": "title",
    "help": "--help",
}
"""Names that other programs give to commands of ours."""


class Group(TyperGroup):
    """Commands under one name: helps with a wrong one, and for machines says in JSON that one is missing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        terminal = ctx.find_root().obj
        if not args and isinstance(terminal, Terminal) and terminal.machine:
            ctx.fail(f"Missing command: one of {', '.join(self.commands)}.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        meant = _MEANT.get(args[0]) if ctx.parent is None and args[0] not in self.commands else None
        if meant is not None:
            ctx.fail(f"No such command {args[0]!r}. Did you mean 'timeleap {meant}'?")
        return super().resolve_command(ctx, args)


def application(modules: Sequence[Commands]) -> typer.Typer:
    """The command line with the commands of some modules."""
    app = typer.Typer(
        name="timeleap",
        cls=Group,
        help="Durable conversations for AI agents: history, checkpoints, time travel and its undo.",
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(timeleap)
    for commands in modules:
        app.add_typer(_library_app(commands))
    return app


def _library_app(commands: Commands) -> typer.Typer:
    app = typer.Typer() if commands.name is None else typer.Typer(cls=Group, no_args_is_help=True)
    for member in commands.members:
        if isinstance(member, Registered):
            _register(app, member)
        elif member.name is None:
            app.add_typer(_library_app(member))
        else:
            app.add_typer(_library_app(member), name=member.name, help=member.help, rich_help_panel=member.panel)
    return app


def _register(app: typer.Typer, command: Registered) -> None:
    if command.raw:
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        register_at = app.command(
            command.name, rich_help_panel=command.panel, add_help_option=False, context_settings=settings
        )
        register_at(_raw(command.function))
        return
    # A paragraph is as wide as the terminal, not as our source; what stands under `Example:` is shown as typed.
    text, *examples = re.split(
        r"^Examples?:$", inspect.cleandoc(command.function.__doc__ or ""), maxsplit=1, flags=re.MULTILINE
    )
    typed = [line.strip().replace("[", r"\[") for block in examples for line in block.splitlines() if line.strip()]
    # A paragraph each: typer joins the lines of one.
    epilog = "\n\n".join(["[bold]Examples[/bold]", *(f"[cyan]{line}[/cyan]" for line in typed)]) if typed else None
    taken = signature_of(command.function)
    register_at = app.command(
        command.name,
        cls=_with_values(taken),
        help=re.sub(r"(?<!\n)\n(?!\n)", " ", text),
        epilog=epilog,
        rich_help_panel=command.panel,
    )
    register_at(_with_shared_options(command, taken))


def _with_values(taken: Signature) -> type[TyperCommand]:
    class Filling(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, with_values(args, taken))

    return Filling


def _with_shared_options(command: Registered, taken: Signature) -> Callable[..., None]:
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, default, annotation in (
            ("ctx", inspect.Parameter.empty, typer.Context),
            ("home", None, _annotation(Home)),
            ("machine", False, _annotation(Machine)),
        )
    ]

    @functools.wraps(command.function)
    def run(ctx: typer.Context, home: Path | None, machine: bool, **values: Any) -> None:
        before: Terminal = ctx.find_root().obj or Terminal(None, machine=False)
        with _ending():
            run_command(command, taken, Terminal(home or before.home, machine or before.machine), values)

    own = [each.replace(annotation=_annotation(each.annotation)) for each in taken.parameters]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return run


def _raw(function: Callable[..., None]) -> Callable[[typer.Context], None]:
    @functools.wraps(function)
    def run(ctx: typer.Context) -> None:
        with _ending():
            function(ctx.find_root().obj, ctx.args)

    run.__signature__ = inspect.signature(run, follow_wrapped=False)  # type: ignore[attr-defined]
    run.__annotations__ = {"ctx": typer.Context}
    return run


@contextlib.contextmanager
def _ending() -> Generator[None]:
    """The end of a command as the library has it."""
    try:
        yield
    except Exit as end:
        raise typer.Exit(end.exit_code) from None


def _annotation(hint: Any) -> Any:
    """The annotation of a parameter as the library has it."""
    kind, declared = get_args(hint)
    return Annotated[kind, _declared(declared)]


def _declared(parameter: Parameter) -> Any:
    settings: dict[str, Any] = {
        "help": parameter.help,
        "metavar": parameter.metavar,
        "min": parameter.min,
        "file_okay": parameter.file_okay,
        "dir_okay": parameter.dir_okay,
        "autocompletion": parameter.autocompletion,
        "rich_help_panel": parameter.panel,
    }
    if isinstance(parameter, Argument):
        return typer.Argument(**settings)
    return typer.Option(*parameter.names, **settings)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"timeleap {__version__}")
        raise typer.Exit


def timeleap(
    ctx: typer.Context,
    home: Path | None = None,
    machine: bool = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """The options that may stand before every command."""
    del version
    ctx.obj = Terminal(home, machine)


timeleap.__annotations__ |= {"home": _annotation(Home), "machine": _annotation(Machine)}
