"""Base of all commands: the options they share, a SESSION that may be left out, errors in words with an exit code."""

from __future__ import annotations

import errno
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Literal,
    NamedTuple,
    ParamSpec,
    get_args,
    get_origin,
    get_type_hints,
)

from timeleap.cli import interrupt
from timeleap.cli.formatting import ago, one_line
from timeleap.cli.parameters import Argument, Commands, Option, Registered
from timeleap.cli.terminal import Exit, Terminal, UsageError, forget_output
from timeleap.errors import TimeleapError
from timeleap.json_value import Json
from timeleap_client.errors import ConnectionLostError, TimeleapClientError, TimeleapRpcError

P = ParamSpec("P")
Data = Mapping[str, Any]

SESSION: Final = "session"
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LATEST: Final = "."
"""Default value of SESSION; it can be written, too."""
FAILED = 1
MISUSED = 2


def complete_session(incomplete: str, home: Path | None) -> list[str]:
    """Session ids of the store that begin with what was typed.

    Read from the directory, not asked of a server: a Tab has to answer at once, and must not start anything.
    """
    from timeleap.service import config

    chosen = home or os.environ.get("TIMELEAP_HOME") or config.default_home()
    try:
        names = [entry.name for entry in os.scandir(Path(chosen) / "sessions") if entry.is_dir()]
    except OSError:
        return []
    # A folder of another name is no session, and a shell would show and obey what is in the name.
    return sorted(name for name in names if name.startswith(incomplete) and _SESSION_ID.fullmatch(name))


Home = Annotated[
    Path | None,
    Option(
        help="The store's directory (default: $TIMELEAP_HOME, else the platform's).",
        metavar="DIR",
        file_okay=False,
    ),
]
Machine = Annotated[bool, Option("--json", help="For machines: one JSON document, or JSON lines.")]
Session = Annotated[
    str,
    Argument(
        metavar="SESSION",
        help="A session's id, or the path of its directory or of its context.jsonl. Left out, or a dot: the newest "
        "session of this folder.",
        complete=complete_session,
    ),
]
"""The session a command is about. `command` makes it optional: the function always gets one."""
Switch = Annotated[Literal["on", "off"] | None, Argument(metavar="[on|off]", help="Without it: say what it is.")]
TimelineOption = Annotated[str | None, Option("--timeline", "-t", help="Of this timeline, not the present log.")]
Full = Annotated[bool, Option("--full", help="Cut no long message.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
_DRY_RUN = "Say what would happen, and change nothing."
DryRun = Annotated[bool, Option("--dry-run", "-n", help=_DRY_RUN)]
OnlySay = Annotated[bool, Option("--dry-run", help=_DRY_RUN)]
"""`DryRun` where `-n` is a number."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def place(checkpoint: str | None) -> Json:
    """A checkpoint as params: a number is an id, anything else a uid."""
    if checkpoint is None:
        return {}
    text = checkpoint.removeprefix("#")
    return {"checkpointId": int(text)} if re.fullmatch(r"[0-9]{1,15}", text) else {"checkpointUid": text}


def text_or_file(value: str | None) -> str | None:
    """The value of an option that takes text: `@FILE` means what is in the file, `-` the standard input."""
    if value is None or not (value == "-" or value.startswith("@")):
        return value
    try:
        return sys.stdin.read() if value == "-" else Path(value[1:]).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{value} is no UTF-8 text: {error}") from None


def parse_size(text: str) -> int:
    """Bytes, from `20MB`, `1.5 GB` or `4096`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)(b?)", text.strip().lower())
    if match is None or (match[3] and not match[2] and "." in match[1]):
        raise UsageError(f"{text} is no size, such as 20MB")
    return int(float(match[1]) * _FACTORS[match[2]])


def parse_span(text: str) -> int:
    """Seconds, from `30d`, `12h`, `90m`, `2w` or `3600s`."""
    if text.strip() == "0":
        return 0
    if (match := re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())) is None:
        raise UsageError(f"{text} is no time span, such as 30d")
    return int(match[1]) * _SECONDS[match[2]]


def parse_age(text: str) -> str:
    """An ISO-8601 time, from one or from a time span back from now: `30d`, `12h`, `90m`, `2w`."""
    if re.fullmatch(r"\s*[0-9]{1,6}[mhdwMHDW]\s*", text):
        return (datetime.now(UTC) - timedelta(seconds=parse_span(text))).isoformat()
    return parse_time(text, f"{text} is neither a time span, such as 30d, nor a time, such as 2026-05-01")


def parse_time(text: str, refusal: str) -> str:
    """An ISO-8601 time with its offset from UTC; without one it is local, and `refusal` says that it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(refusal) from None
    return (time if time.tzinfo else time.astimezone()).isoformat()


def subcommands(app: Commands, name: str, help: str) -> Commands:
    """Make a group of commands under one name."""
    group = Commands(name, help)
    app.members.append(group)
    return group


def command(
    app: Commands, name: str | None = None, *, unless: str | None = None
) -> Callable[[Callable[Concatenate[Terminal, P], None]], Callable[Concatenate[Terminal, P], None]]:
    """Register a function as a command: its first parameter is the `Terminal`, the others are the user's.

    The shared options stand before and after the command's name, whatever comes easier: `timeleap --home X state s`
    and `timeleap state s --home X` are the same. SESSION may be left out (see `_fill_session`). The argument after
    SESSION is required where the option `unless` is not given.
    """

    def register(function: Callable[Concatenate[Terminal, P], None]) -> Callable[Concatenate[Terminal, P], None]:
        called = name or function.__name__.replace("_", "-")
        app.members.append(Registered(called, function, unless))
        return function

    return register


class Signature(NamedTuple):
    """Arguments of a command.

    Attributes:
        parameters: The user's, with their annotations; where it takes a SESSION no argument is required.
        takes_session: True if a SESSION is among them.
        kinds: The types of the arguments after the session, by their names.
        required: Names of the arguments that have to be given.
    """

    parameters: list[inspect.Parameter]
    takes_session: bool
    kinds: Mapping[str, Any]
    required: Sequence[str]


def signature_of(function: Callable[..., None]) -> Signature:
    hints = get_type_hints(function, include_extras=True)
    own = [each.replace(annotation=hints[each.name]) for each in inspect.signature(function).parameters.values()][1:]
    if hints.get(SESSION) != Session:
        return Signature(own, False, {}, ())
    arguments = [each for each in own if isinstance(each.annotation.__metadata__[0], Argument)]
    kinds = {each.name: bare(each.annotation) for each in arguments[1:]}
    required = [each.name for each in arguments[1:] if each.default is each.empty]
    return Signature([_optional(each) if each in arguments else each for each in own], True, kinds, required)


def run_command(command: Registered, taken: Signature, terminal: Terminal, values: dict[str, Any]) -> None:
    """Run a command with the values of its parameters.

    Raises:
        Exit: It has ended with another exit code than 0.
    """
    if taken.takes_session:
        guarded(terminal, None, lambda: _fill_session(values, taken.kinds, taken.required, command.unless))
    named = values.get(SESSION)
    guarded(terminal, None if named == LATEST else named, lambda: command.function(terminal, **values))


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.default is not parameter.empty:
        return parameter
    kind, *told = get_args(parameter.annotation)
    return parameter.replace(default=None, annotation=Annotated[kind | None, *told])


def bare(hint: Any) -> Any:
    """A parameter's type without its declaration, and without None."""
    kind, *_ = get_args(hint)
    members = get_args(kind)
    return next(member for member in members if member is not type(None)) if type(None) in members else kind


def _fill_session(values: Json, kinds: Mapping[str, Any], required: Sequence[str], unless: str | None) -> None:
    """Put every value where it was meant, where SESSION was left out.

    The parser fills arguments from the left, so what it took for the session may have been meant for the next one: it
    was where a required argument is missing, where it is a switch's word, or where it has spaces in it and is no path.
    Then all move by one. `kinds` are the types of the positional ones after the session.
    """
    given, first = values.get(SESSION), next(iter(kinds), None)
    if given is not None and first is not None:
        needed = [*required, first] if unless and values.get(unless) is None else required
        missing = any(values[name] in (None, []) for name in needed)
        if first == "checkpoint" and re.fullmatch(r"#?[0-9]{1,15}|[co]-?[0-9]+-[0-9a-f]+", given) is None:
            missing = False  # a session without its checkpoint: to be said, not to be looked for in another session
        if kinds[first] is int and re.fullmatch("[0-9]{1,15}", given) is None:
            missing = False  # a session without a number
        switch = get_args(kinds[first]) if get_origin(kinds[first]) is Literal else ()
        if missing or (values[first] in (None, []) and (given in switch or _is_text(given))):
            values[SESSION] = None
            carried: Any = given
            for name, kind in kinds.items():
                if carried in (None, []):
                    break
                if isinstance(values[name], list) or get_origin(kind) is list:
                    values[name] = [carried, *(values[name] or [])]
                    break
                values[name], carried = (kind(carried) if kind in (Path, int) else carried), values[name]
    values[SESSION] = values[SESSION] or LATEST
    for name in required:
        if values[name] in (None, []):
            raise UsageError(f"missing argument {name.upper().replace('_', '-')}")


def _is_text(given: str) -> bool:
    return any(character.isspace() for character in given) and not os.path.exists(given)  # noqa: PTH110


def guarded(terminal: Terminal, session: object, work: Callable[[], None]) -> None:
    """Do `work`; its errors become messages, and the exit code: 1 for an error, 2 for a misuse, 130 for Ctrl-C."""
    raising = interrupt.Raising()
    try:
        with raising:
            work()
    except BrokenPipeError:
        forget_output()  # `timeleap show s | head`: the reader has seen enough, which is no error
    except KeyboardInterrupt:
        raising.over()
        terminal.hint("interrupted")
        raise Exit(interrupt.EXIT_CODE) from None
    except EOFError:  # the input ended where a person was asked
        terminal.fail(["nobody answered, and nothing was changed"], {"kind": "usage", "message": "nobody answered"})
        raise Exit(FAILED) from None
    except interrupt.AskedToEndError as asked:
        asked.repeat()
    except (UsageError, TimeleapClientError, TimeleapError, OSError) as error:
        text = str(error)
        lines = [text]
        members: Json = {"kind": "usage", "message": text}
        refused = error.__cause__ if isinstance(error, UsageError) else error
        if isinstance(refused, TimeleapRpcError):  # a program wants to know what the server said, in any case
            members = {"code": refused.code, "kind": refused.kind, "message": refused.message, "data": {**refused.data}}
        if isinstance(error, TimeleapRpcError):
            lines = explain(error, session if isinstance(session, str) else None)
        elif isinstance(error, TimeleapClientError | TimeleapError):
            lines = text.splitlines() or ["the server went away"]
            members["kind"] = (
                "connectionLost" if isinstance(error, ConnectionLostError) else getattr(error, "kind", "client")
            )
        elif isinstance(error, OSError):
            text = _in_words(error)
            lines, members = [text], {"kind": "os", "message": text}
        terminal.fail(lines, members)
        raise Exit(MISUSED if isinstance(error, UsageError) else FAILED) from None


def _in_words(error: OSError) -> str:
    """Say what the system refused."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.ENOENT:
        return "the directory that this was started in is gone: change to another"
    return f"the output cannot be written: {error.strerror}" if error.errno == errno.ENOSPC else str(error)


def explain(error: TimeleapRpcError, session: str | None) -> list[str]:
    """Lines that say what was wrong, and then what to do with the `session`, as the user named it."""
    problems = error.data.get("errors")
    return [
        error.message,
        *(
            f"  {'.'.join(map(str, problem.get('loc', []))) or 'params'}: {problem.get('msg', '')}"
            for problem in (problems if isinstance(problems, list) else [])
            if isinstance(problem, Mapping) and str(problem.get("msg", "")) not in error.message
        ),
        *advice(error.kind, error.data, session),
    ]


def advice(kind: str, data: Data, session: str | None) -> list[str]:
    """Lines that say what to do about an error of that kind."""
    name = session or _UNNAMED
    hints = _HINTS.get(kind, ())
    return [*hints(data, name)] if callable(hints) else [line.replace(_UNNAMED, name) for line in hints]


def _locked(data: Data, name: str) -> Iterator[str]:
    if isinstance(owner := data.get("owner"), Mapping):
        since = ago(str(owner.get("since", "")))
        yield f"It belongs to process {owner.get('pid')} on {one_line(str(owner.get('host')))}, which opened it {since}."
    if "requestId" in data:
        yield f"The change was passed on and may still take effect: timeleap log {name} shows whether it did."
    yield _READING.replace(_UNNAMED, name)
    yield "To change it, use that program, or end it first."


def _read_only(data: Data, name: str) -> Iterator[str]:
    if data.get("reason") == "mirrored":
        yield f"To go back in the agent itself: timeleap agents resume {name} CHECKPOINT; to go on here: timeleap fork {name}."


def _not_found(_data: Data, name: str) -> Iterator[str]:
    makes = "" if name == _UNNAMED else f", timeleap new {name} makes it"
    yield f"timeleap sessions --all lists what there is{makes}, timeleap trash list has what was deleted."


def _corrupted(data: Data, name: str) -> Iterator[str]:
    if data.get("path"):
        yield f"Where: {data['path']}"
    yield f"timeleap verify {name} lists all damage and changes nothing; timeleap repair {name} mends it."


def _storage(data: Data, _name: str) -> Iterator[str]:
    if data.get("path"):
        yield f"Where: {data['path']} ({data.get('errno', 'unknown reason')})"
    if (errno := str(data.get("errno"))) in _BY_ERRNO:
        yield _BY_ERRNO[errno]


def _files_unavailable(data: Data, name: str) -> Iterator[str]:
    if reason := _BY_REASON.get(str(data.get("reason"))):
        yield reason.replace(_UNNAMED, name)


def _files_conflict(data: Data, _name: str) -> Iterator[str]:
    paths = data.get("paths")
    listed = [str(path) for path in paths] if isinstance(paths, list) else []
    yield from (f"  {one_line(path)}" for path in listed[:_MOST_PATHS])
    more = data.get("more")
    if (left := len(listed[_MOST_PATHS:]) + (more if isinstance(more, int) else 0)) > 0:
        yield f"  ... and {left:,} more"
    yield "--on-conflict keep leaves these as they are; --on-conflict overwrite takes them back, too."
    yield "Either way what is there now is saved first."


def _files_incomplete(data: Data, name: str) -> Iterator[str]:
    if data.get("session"):
        yield "Opening the session whose restore it was brings it to its end: timeleap sessions --all, timeleap state SESSION."
        return
    for member, meaning in (("before", "as it was"), ("target", "what was wanted")):
        if data.get(member):
            snapshot = one_line(str(data[member]))
            yield f"{meaning}: timeleap files restore {name} {snapshot} --on-conflict overwrite"
    yield f"timeleap files diff {name} SNAPSHOT --patch shows what differs before you choose."


_BY_REASON = {
    "noGit": "Files are saved with the help of git 2.36 or newer, which is not on the PATH: install it, then repeat.",
    "notConfigured": "timeleap files mode SESSION checkpoint --root . saves this folder's with each checkpoint from now on.",
    "rootMissing": "If the folder was moved: timeleap workspace OLD NEW. If it is another one now: timeleap workspace SESSION FOLDER, or timeleap files mode SESSION --root FOLDER.",
    "rootUnsafe": "Name a folder of a project: timeleap files mode SESSION --root FOLDER.",
}
_MOST_PATHS = 12
_BY_ERRNO = {
    "ENOSPC": "The disk is full: make room, then repeat the command; nothing was lost.",
    "EDQUOT": "Your quota is used up: make room, then repeat the command; nothing was lost.",
    **dict.fromkeys(("EACCES", "EPERM"), "You may not read or write there: check the permissions."),
    "EROFS": "The file system is read-only: use another --home, or mount it for writing.",
}
_UNNAMED = "SESSION"
_READING = "Reading still works: timeleap log SESSION, timeleap show SESSION, timeleap tail -f SESSION."
_TIMELINES = "timeleap log SESSION shows the timelines"

_HINTS: dict[str, Sequence[str] | Callable[[Data, str], Iterator[str]]] = {
    "sessionLocked": _locked,
    "sessionNotFound": _not_found,
    "readOnly": _read_only,
    "corrupted": _corrupted,
    "storageFailure": _storage,
    "protocolVersion": (
        "Both programs have to be of the same release: timeleap --version shows this one. Or end the other one.",
        _READING,
    ),
    "checkpointNotFound": ("timeleap log SESSION shows the checkpoints; give an id or a uid.",),
    **dict.fromkeys(
        ("nothingToUndo", "nothingToRedo"), (f"{_TIMELINES}; timeleap restore SESSION TIMELINE takes any of them.",)
    ),
    "timelineNotFound": (f"{_TIMELINES}.",),
    "sessionExists": ("Choose another id, or archive or delete the session that has it.",),
    "contentModified": ("The session was changed meanwhile: look with timeleap log SESSION, then repeat.",),
    "externallyModified": ("A program that takes no lock wrote to the log: end it, then repeat the command.",),
    "invalidSessionId": ("An id has 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit.",),
    "compactionFailed": ("Nothing was changed. --summarizer builtin needs no model; --summary takes your own text.",),
    "dmailPending": ("timeleap dmail show SESSION has it: deliver it, or drop it with timeleap dmail cancel.",),
    "noPendingDMail": ('timeleap dmail send SESSION --at CHECKPOINT "..." leaves one.',),
    "filesUnavailable": _files_unavailable,
    "filesConflict": _files_conflict,
    "filesIncomplete": _files_incomplete,
    "filesTooLarge": (
        'timeleap files mode SESSION --exclude "build/" leaves a folder out; --max-files raises the limit.',
    ),
    "filesBusy": ("Another process saves or restores files of this folder: repeat the command in a moment.",),
    "snapshotNotFound": ("timeleap files log SESSION lists the snapshots, timeleap log SESSION the checkpoints.",),
    "methodNotFound": ("This server cannot do that: timeleap --version shows its release.",),
    "internalError": ("This is a mistake in Timeleap: please report it with the incident id.",),
}
"""By the kind of an error: what to do next."""
