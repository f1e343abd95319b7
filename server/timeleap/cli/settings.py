"""`config`: the store's `config.toml`, looked at and changed."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from timeleap import user_folders
from timeleap.cli.command import command, subcommands
from timeleap.cli.parameters import Argument, Commands
from timeleap.cli.terminal import Exit, Terminal, UsageError
from timeleap.errors import InvalidInputError

if TYPE_CHECKING:
    from timeleap.service.config import Setting

_PASSWORD = re.compile(r"(?<=[?&]password=)[^&]*|(?<=:)(?!//)[^/@]*(?=@)")
"""In the URL of a database."""

app = Commands()
config = subcommands(app, "config", "Show and change the store's config.toml.")


def _reader() -> Any:
    """The server's own reader of the file. Loading it takes a while: not for a command that asks for no setting."""
    from timeleap.service import config

    return config


def _settings() -> dict[str, Setting]:
    settings: dict[str, Setting] = _reader().SETTINGS
    return settings


Key = Annotated[
    str,
    Argument(
        metavar="KEY",
        help="Such as maxContextSize or retention.maxTimelines.",
        complete=lambda incomplete, _home: [key for key in _settings() if key.startswith(incomplete)],
    ),
]


@command(config)
def path(terminal: Terminal) -> None:
    """Print where the file is (or would be).

    Example:
        $EDITOR "$(timeleap config path)"
    """
    file = _file(terminal)
    terminal.answer({"path": str(file), "exists": file.exists()}, str(file))


@command(config)
def show(terminal: Terminal) -> None:
    """Show every setting, and where its value comes from: the environment, the file, or nobody.

    A client's `initializationOptions` win over all of them. The log goes to the standard error output unless `logFile`
    names a file.
    """
    file = _file(terminal)
    stored = read(file)
    settings: dict[str, dict[str, Any]] = {}
    for key, setting in _settings().items():
        if os.environ.get(setting.variable):
            settings[key] = {"value": shown(_parsed(setting, os.environ[setting.variable])), "from": setting.variable}
        else:
            source = str(file) if key in stored else "default"
            settings[key] = {"value": shown(stored.get(key, setting.default)), "from": source}
    # Not in the file: the log begins before a store is chosen.
    for key, default, variable, option in (
        ("logLevel", "warning", "TIMELEAP_LOG_LEVEL", "--log-level"),
        ("logFile", None, "TIMELEAP_LOG_FILE", "--log-file"),
    ):
        value = os.environ.get(variable)
        source = variable if value else f"default; timeleap serve {option} wins"
        settings[key] = {"value": value or default, "from": source}
    if terminal.machine:
        terminal.document(settings)
    else:
        rows = [(key, json.dumps(entry["value"]), entry["from"]) for key, entry in settings.items()]
        terminal.table(("setting", "value", "from"), rows)


@command(config)
def get(terminal: Terminal, key: Key) -> None:
    """Print the value in the file; exit code 1 if it has none.

    Example:
        timeleap config get maxContextSize
    """
    _known(key)
    stored = read(_file(terminal))
    if key not in stored:
        terminal.hint(f"{key} is not set in {_file(terminal)}; timeleap config show has what is in force")
        raise Exit(1)
    value = shown(stored[key])
    terminal.answer(value, value) if isinstance(value, str) else terminal.document(value)


@command(config, "set")
def set_(terminal: Terminal, key: Key, value: Annotated[str, Argument(metavar="VALUE", help="Its new value.")]) -> None:
    """Set a value in the file; comments and the rest of it stay as they are.

    Examples:
        timeleap config set maxContextSize 200000
        timeleap config set summarizer.baseUrl http://localhost:11434/v1
    """
    parsed = _parsed(_known(key), value)
    file = _file(terminal)
    read(file)  # where it is no TOML: say so
    text = with_key(_text(file), key, parsed)
    try:  # the server's own reader judges the file before it is written
        _reader().load(terminal.home, environ={}, options=tomllib.loads(text))
    except InvalidInputError as error:
        raise UsageError(str(error).replace(" (set in initializationOptions)", "")) from None
    _write(file, text)
    terminal.answer({key: shown(parsed)}, hint=f"set in {file}")


@command(config)
def unset(terminal: Terminal, key: Key) -> None:
    """Take a value out of the file.

    Example:
        timeleap config unset maxContextSize
    """
    _known(key)
    file = _file(terminal)
    if key in read(file):
        _write(file, without_key(_text(file), key))
    terminal.answer({key: None}, hint=f"not set in {file}")


def shown(value: Any) -> Any:
    """A value without the password of a store: what is shown is logged, pasted and filmed."""
    return _PASSWORD.sub("***", value) if isinstance(value, str) else value


def _file(terminal: Terminal) -> Path:
    home = terminal.home or os.environ.get("TIMELEAP_HOME") or _reader().default_home()
    place = user_folders.absolute(home)
    _reader().require_home(place)
    return place / str(_reader().FILE_NAME)


def _text(file: Path) -> str:
    return _content(file) if file.exists() else ""


def _content(file: Path) -> str:
    """The text of a file of settings, never that of a pipe or of a device. Raises OSError, UnicodeDecodeError."""
    content: bytes = _reader().read_bytes(file)
    return content.decode("utf-8")


def _write(file: Path, text: str) -> None:
    from timeleap.storage.durable import atomic_write

    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic_write(file, text.encode())


def _known(key: str) -> Setting:
    if key not in (settings := _settings()):
        raise UsageError(f"there is no setting {key}; there are: {', '.join(settings)}")
    return settings[key]


def _parsed(setting: Setting, value: str) -> str | int | float:
    """Numbers as numbers; what is none is left for the server's reader to judge."""
    for kind in (int, float) if setting.numeric else ():
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def read(file: Path) -> dict[str, Any]:
    """The values of a file by dotted key; empty if there is none."""
    try:
        document = tomllib.loads(_content(file))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file} is not TOML: {error}") from error
    values: dict[str, Any] = {}
    for key, value in document.items():
        values |= {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
    return values


def with_key(text: str, key: str, value: str | int | float) -> str:
    """`text` with `key` (dotted: in that table) set to `value`; comments and layout of the rest stay as they are."""
    import tomlkit

    document: Any = tomlkit.parse(text)
    table, _, name = key.rpartition(".")
    if not table and text.startswith("["):  # tomlkit would set the table off by a blank line
        return tomlkit.dumps({name: value}) + text
    if table and not isinstance(document.get(table), dict):
        document[table] = tomlkit.table()
    (document[table] if table else document)[name] = value
    return tomlkit.dumps(document)


def without_key(text: str, key: str) -> str:
    import tomlkit

    document: Any = tomlkit.parse(text)
    table, _, name = key.rpartition(".")
    del (document[table] if table else document)[name]
    return tomlkit.dumps(document)
