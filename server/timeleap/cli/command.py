"""What all commands have in common: `--home`, `--json`, and errors in words with a sensible exit code."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, get_type_hints

import typer

from timeleap import interrupt
from timeleap.cli.advice import explain
from timeleap.cli.terminal import Terminal, UsageError, forget_output
from timeleap.client.errors import ConnectionLostError, TimeleapClientError, TimeleapRpcError
from timeleap.errors import TimeleapError

P = ParamSpec("P")

FAILED = 1
MISUSED = 2

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="The store's directory (default: $TIMELEAP_HOME, else the platform's).",
        show_default=False,
        rich_help_panel="Everywhere",
        file_okay=False,
    ),
]
Machine = Annotated[
    bool,
    typer.Option(
        "--json",
        help="For machines: one JSON document, or JSON lines.",
        show_default=False,
        rich_help_panel="Everywhere",
    ),
]


def command(
    app: typer.Typer, name: str | None = None, **settings: Any
) -> Callable[[Callable[Concatenate[Terminal, P], None]], Callable[Concatenate[Terminal, P], None]]:
    """Register a function as a command: its first parameter is the `Terminal`, the others are the user's.

    The shared options stand before and after the command's name, whatever comes easier: `timeleap --home X state s`
    and `timeleap state s --home X` are the same.
    """

    def register(function: Callable[Concatenate[Terminal, P], None]) -> Callable[Concatenate[Terminal, P], None]:
        text, examples = _taught(function)
        app.command(name, help=text, epilog=examples, **settings)(_with_shared_options(function))
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


def _with_shared_options(function: Callable[..., None]) -> Callable[..., None]:
    hints = get_type_hints(function, include_extras=True)
    first, *own = inspect.signature(function).parameters.values()
    del hints[first.name]
    hints.pop("return", None)
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
        guarded(terminal, kwargs.get("session"), lambda: function(terminal, *args, **kwargs))

    run.__signature__ = inspect.Signature([*kept, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*kept, *shared]}
    return run


def guarded(terminal: Terminal, session: object, work: Callable[[], None]) -> None:
    """Do `work`; what goes wrong is said in words, never as a traceback.

    Raises:
        typer.Exit: With 1 for an error, 2 for a misuse, 130 for Ctrl-C.
    """
    try:
        with interrupt.Raising():
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
        terminal.hint("interrupted")
        raise typer.Exit(interrupt.EXIT_CODE) from None
