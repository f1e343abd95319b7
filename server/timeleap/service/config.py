"""Settings of the server: `initializationOptions` over the environment over `config.toml` in the store's home.

The keys are those of the contract's `initializationOptions`, in all three places; as an environment variable
`maxContextSize` is `TIMELEAP_MAX_CONTEXT_SIZE`, `retention.maxTimelines` is `TIMELEAP_RETENTION_MAX_TIMELINES`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from timeleap import user_folders
from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.message_text import reserve_fits
from timeleap.sessions.documents.json_files import read_bytes
from timeleap.sessions.shapes import Budget, Retention
from timeleap.storage.log_values import Durability
from timeleap_protocol.limits import (
    DEFAULT_PRESERVED_MESSAGES,
    DEFAULT_RESERVED_CONTEXT,
    DEFAULT_SUMMARIZER_TIMEOUT,
    DEFAULT_TRIGGER_RATIO,
)

FILE_NAME: Final = "config.toml"
MAX_FILE: Final = 1 << 20
KEY_VARIABLE: Final = "TIMELEAP_SUMMARIZER_API_KEY"
"""The environment variable that holds the key of the summarising endpoint."""

_KNOWN_HOME: Final = "a path that begins with no ~, or with the ~ of a user who has a home directory"
_LONGEST_KEY: Final = 100  # characters of an unknown one that are repeated
_MOST_WARNINGS: Final = 20


class Config(Struct, frozen=True):
    """All settings, resolved."""

    home: Path
    database: str | None  # the URL of the one that sessions are in; None: they are in the home
    key_file: Path | None  # that seals the approvals of a database
    durability: Durability
    budget: Budget
    max_preserved_messages: int  # of user and assistant, that a compaction keeps as they are
    retention: Retention
    kept_bytes: int | None  # of agents' files, that may be kept; None: as many as there are
    kept_exclude: tuple[str, ...]  # patterns of files and folders of which nothing is kept
    trash_max_age: int | None  # seconds after which a deleted session is removed for good; None: never
    summarizer: Mapping[str, Any]  # by the last part of their names; never the key itself
    flags: Mapping[str, Any]  # merged again when a client's options arrive
    warnings: tuple[str, ...]


NOWHERE: Final = Path(os.devnull, "timeleap")
"""The home where none was named and the user has no home directory for one: whoever uses it calls `require_home`."""


def default_home() -> Path:
    """The platform's directory for a user's application data; `NOWHERE` where this user has none."""
    return user_folders.folder("data") or NOWHERE


def require_home(home: Path) -> None:
    """Raise StorageFailureError if there is no place for a store."""
    if home == NOWHERE:
        raise StorageFailureError(
            "there is no place for a store, since this user has no home directory: name a directory with TIMELEAP_HOME "
            "(or HOME)",
            path=str(home),
            errno="ENOENT",
        )


def load(
    home: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Resolve the settings.

    Args:
        home: `--home` of the command line.
        environ: The environment; `os.environ` where None.
        options: `initializationOptions`; they win over everything.
        flags: Other settings of the command line; they win over environment and file.

    Raises:
        InvalidInputError: A known setting has an unusable value; the message names it and where it stands.
        StorageFailureError: `config.toml` exists but cannot be read.
    """
    environ = os.environ if environ is None else environ
    options, flags = dict(options or {}), dict(flags or {})
    root = _home(options.get("home") or home or environ.get("TIMELEAP_HOME") or default_home())
    sources = {str(root / FILE_NAME): _read_file(root / FILE_NAME), "environment": _from_environment(environ)}
    if environ.get(KEY_VARIABLE):
        # The key itself goes before a file that holds one, unless a flag or an option names it.
        for values in sources.values():
            group = values.get("summarizer")
            if isinstance(group, dict):
                group.pop("apiKeyFile", None)
    sources |= {"command line": flags, "initializationOptions": options}
    warnings: list[str] = []
    settings: dict[str, Any] = {}
    for source, values in sources.items():
        warnings += _merge(settings, values, source)
    resolved = {name: settings.get(name, setting.default) for name, setting in SETTINGS.items()}
    budget = Budget(resolved["maxContextSize"], resolved["reservedContextSize"], resolved["triggerRatio"])
    size, reserved = budget.max_context_size, budget.reserved_context_size
    if size is not None and not reserve_fits(size, reserved):
        warnings.append(
            f"reservedContextSize {reserved} is half of maxContextSize {size} "
            "or more, so it is not counted: only triggerRatio decides when to compact"
        )
    group = "summarizer."
    summarizer = {name.removeprefix(group): value for name, value in settings.items() if name.startswith(group)}
    if _is_insecure(summarizer.get("baseUrl", "")):
        warnings.append(
            "summarizer.baseUrl begins with http: conversations and key would cross the network unencrypted"
        )
    root, database = place_of(root, resolved["store"])
    return Config(
        home=root,
        database=database,
        key_file=_key_file(resolved["keyFile"]) if resolved["keyFile"] else None,
        durability=resolved["durability"],
        budget=budget,
        max_preserved_messages=resolved["maxPreservedMessages"],
        retention=Retention(resolved["retention.maxTimelines"], resolved["retention.maxTimelineBytes"]),
        kept_bytes=resolved["agents.keep.maxBytes"],
        kept_exclude=tuple(resolved["agents.keep.exclude"]),
        trash_max_age=resolved["trash.maxAge"],
        summarizer=summarizer,
        flags=flags,
        warnings=tuple(warnings),
    )


def _home(chosen: Any) -> Path:
    if not isinstance(chosen, (str, os.PathLike)) or not os.fspath(chosen) or "\0" in str(chosen):
        raise _refused("home", "a path", "initializationOptions")
    found = user_folders.expanded(chosen)
    if found is None:
        raise _refused("home", _KNOWN_HOME, "initializationOptions")
    return found


def _key_file(chosen: str) -> Path:
    found = user_folders.expanded(chosen)
    if found is None:
        raise _refused("keyFile", _KNOWN_HOME, "the settings")
    return found


def place_of(home: Path, store: str | None) -> tuple[Path, str | None]:
    """The home, and the URL of the database that sessions are in, if `store` is one; else it is a home itself."""
    if store is None or store.startswith(("postgresql://", "postgres://")):
        return home, store
    if not store.startswith("file:"):
        return _home(store), None
    from urllib.parse import unquote, urlsplit

    return _home(unquote(urlsplit(store).path)), None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(Path(os.path.realpath(path)), MAX_FILE).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise StorageFailureError.of(error, f"read the settings in {path}", path) from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"{path} holds no settings: it is {error}") from error
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise InvalidInputError(f"{path} is nested too deeply") from error
    except ValueError as error:  # of TOML, or a number of thousands of digits
        raise InvalidInputError(f"{path} is not TOML: {error}") from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        text = environ.get(setting.variable)
        if text:
            group, _, key = name.rpartition(".")
            (found.setdefault(group, {}) if group else found)[key] = text
    return found


def _merge(settings: dict[str, Any], values: Mapping[str, Any], source: str) -> list[str]:
    """Put `values` over `settings`, by dotted name and checked; returns warnings about unknown keys."""
    warnings = []
    for group, key, value in _flat(values, source):
        name = f"{group}.{key}" if group else key
        setting = _BY_PLACE.get((group, key))
        if setting is not None:
            if value is not None or name in _NULL_IS_A_VALUE:
                settings[name] = setting.checked(value, source)
        elif (group, key, source) != ("", "token", "initializationOptions"):
            warnings.append(f"unknown setting {name[: len(name) - len(key) + _LONGEST_KEY]} in {source}")
    if len(warnings) > _MOST_WARNINGS:
        more = len(warnings) - _MOST_WARNINGS
        warnings[_MOST_WARNINGS:] = [f"{more} more unknown settings in {source}"]
    return warnings


def _flat(values: Mapping[str, Any], source: str, group: str = "") -> Iterator[tuple[str, str, Any]]:
    """Group, key and value of each; the group is empty for a setting that stands by itself."""
    for key, value in values.items():
        name = f"{group}.{key}" if group else key
        if name not in _GROUPS:
            yield group, key, value
        elif isinstance(value, Mapping):
            yield from _flat(value, source, name)
        elif value is not None:
            raise _refused(name, "an object", source)


def _is_insecure(url: str) -> bool:
    if not url.startswith("http:"):
        return False
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    return not (host in ("localhost", "::1") or host.startswith("127."))


def _refused(name: str, expected: str, source: str) -> InvalidInputError:
    problem = {"loc": ["initializationOptions", *name.split(".")], "msg": f"must be {expected}", "type": "setting"}
    return InvalidInputError(f"{name} must be {expected} (set in {source})", errors=[problem])


class Setting(NamedTuple):
    """A setting that the file, the environment and `initializationOptions` may have.

    Attributes:
        name: Its key, dotted where it is in a group.
        type: What it may be, for `msgspec.convert`.
        expected: The same in words, after "must be".
        default: Its value where it is not set.
        numeric: True if text that stands for a number means the number.
    """

    name: str
    type: Any
    expected: str
    default: Any = None
    numeric: bool = True

    @property
    def variable(self) -> str:
        """Its environment variable."""
        words = (re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper() for word in self.name.split("."))
        return "TIMELEAP_" + "_".join(words)

    def checked(self, value: Any, source: str) -> Any:
        """The value that counts.

        Raises:
            InvalidInputError: It is unusable; the message names where it stands.
        """
        if isinstance(value, str) and self.numeric:
            value = _number(value)
        elif isinstance(value, float) and value.is_integer():
            value = int(value)  # TOML and JSON may write 3 as 3.0
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError:
            raise _refused(self.name, self.expected, source) from None


def _number(text: str) -> float | str | None:
    if text == "null":
        return None
    try:
        return int(text) if re.fullmatch(r"\d{1,18}", text) else float(text)
    except ValueError:
        return text


def _whole(name: str, least: int, default: int | None = None) -> Setting:
    return Setting(name, Annotated[int, msgspec.Meta(ge=least)], f"a whole number, {least} or more", default)


def _text(name: str, pattern: str, expected: str) -> Setting:
    return Setting(name, Annotated[str, msgspec.Meta(pattern=pattern)], expected, numeric=False)


_SIZE = Annotated[int, msgspec.Meta(ge=1)] | None
_RATIO = Annotated[float, msgspec.Meta(gt=0, le=1)]
_PATH = (r"\A[^\0]+\Z", "a path: a non-empty string without NUL characters")

SETTINGS = {
    setting.name: setting
    for setting in (
        _text("store", *_PATH),
        _text("keyFile", *_PATH),
        Setting("durability", Literal["disk", "os"], '"disk" or "os"', "disk", numeric=False),
        Setting("maxContextSize", _SIZE, "null or a whole number, 1 or more"),
        _whole("reservedContextSize", 0, DEFAULT_RESERVED_CONTEXT),
        Setting("triggerRatio", _RATIO, "a number over 0 and at most 1", DEFAULT_TRIGGER_RATIO),
        _whole("maxPreservedMessages", 1, DEFAULT_PRESERVED_MESSAGES),
        _whole("retention.maxTimelines", 1, Retention().max_timelines),
        _whole("retention.maxTimelineBytes", 0, Retention().max_timeline_bytes),
        _whole("agents.keep.maxBytes", 0),
        Setting("agents.keep.exclude", list[str], "a list of paths and patterns", (), numeric=False),
        _whole("trash.maxAge", 0),
        _text("summarizer.baseUrl", r"\Ahttps?://[^/\s]", "an address that begins with http:// or https://"),
        _text("summarizer.model", ".|\n", "a non-empty string"),
        _text("summarizer.apiKeyFile", *_PATH),
        _whole("summarizer.contextSize", 1),
        _whole("summarizer.timeout", 1, DEFAULT_SUMMARIZER_TIMEOUT),
    )
}
"""All settings but the home, in the order in which they are shown."""
_NULL_IS_A_VALUE = frozenset({"maxContextSize"})
"""Settings that null switches off; for all others null means not set."""
_GROUPS = {name[:at] for name in SETTINGS for at, character in enumerate(name) if character == "."}
_BY_PLACE = {
    ("", "home"): _text("home", *_PATH),
    **{(name.rpartition(".")[0], name.rpartition(".")[2]): setting for name, setting in SETTINGS.items()},
}
