"""Settings of the server: `initializationOptions` over the environment over `config.toml` in the store's home.

The keys are those of the contract's `initializationOptions`, in all three places; as an environment variable
`maxContextSize` is `TIMELEAP_MAX_CONTEXT_SIZE`, `retention.maxTimelines` is `TIMELEAP_RETENTION_MAX_TIMELINES`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.message_text import reserve_fits, should_compact
from timeleap.sessions.files import read_bytes
from timeleap.sessions.outcomes import Retention
from timeleap.storage.engine import Durability
from timeleap_protocol.limits import (
    DEFAULT_PRESERVED_MESSAGES,
    DEFAULT_RESERVED_CONTEXT,
    DEFAULT_SUMMARIZER_TIMEOUT,
    DEFAULT_TRIGGER_RATIO,
)

FILE_NAME = "config.toml"
MAX_FILE = 1 << 20
PREFIX = "TIMELEAP_"
_URL = "an address that begins with http:// or https://"
_LONGEST_KEY = 100  # characters of an unknown one that are repeated
_MOST_WARNINGS = 20
KEY_VARIABLE = "TIMELEAP_SUMMARIZER_API_KEY"
"""The environment variable that holds the key of the summarising endpoint."""


Check = Callable[[Any], Any]
"""Makes the value that counts of one that was given, or raises `_Unusable`."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The model's window, and when a context is due for compaction.

    Attributes:
        max_context_size: Tokens the model takes; None = never suggest compaction.
        reserved_context_size: Tokens to keep free for the answer. Counts only where it is less than half the window:
            a small window would otherwise be compacted for ever.
        trigger_ratio: Part of the window that may be used.
    """

    max_context_size: int | None = None
    reserved_context_size: int = DEFAULT_RESERVED_CONTEXT
    trigger_ratio: float = DEFAULT_TRIGGER_RATIO

    def should_compact(self, tokens: int) -> bool:
        """True if a context of so many tokens is due for compaction."""
        return should_compact(
            tokens,
            self.max_context_size,
            trigger_ratio=self.trigger_ratio,
            reserved_context_size=self.reserved_context_size,
        )

    def warning(self) -> str | None:
        """Warning if the reserve does not fit the context size; else None."""
        size = self.max_context_size
        if size is not None and not reserve_fits(size, self.reserved_context_size):
            return (
                f"reservedContextSize {self.reserved_context_size} is half of maxContextSize {size} "
                "or more, so it is not counted: only triggerRatio decides when to compact"
            )
        return None

    def wire(self) -> dict[str, Any]:
        """`budget` of the contract."""
        return {
            "maxContextSize": self.max_context_size,
            "reservedContextSize": self.reserved_context_size,
            "triggerRatio": self.trigger_ratio,
        }


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, resolved.

    Attributes:
        home: Directory of the store.
        durability: `disk` = a reply means it survives power loss; `os` = it survives the end of the process.
        max_preserved_messages: User and assistant messages that a compaction keeps as they are.
        trash_max_age: Seconds after which a deleted session is removed for good; None = never.
        summarizer: `baseUrl`, `model`, `apiKeyFile`, `contextSize` of a summarising endpoint (no key is ever kept
            here), and `timeout`, the seconds any summariser may take for an answer.
        flags: Settings of the command line, to be merged again when a client's options arrive.
        warnings: Texts of warnings about the settings.
    """

    home: Path
    durability: Durability = "disk"
    budget: Budget = Budget()
    max_preserved_messages: int = DEFAULT_PRESERVED_MESSAGES
    retention: Retention = Retention()
    trash_max_age: int | None = None
    summarizer: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def default_home() -> Path:
    """The platform's directory for a user's application data."""
    import platformdirs

    return Path(platformdirs.user_data_dir("timeleap", appauthor=False))


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
    options = dict(options or {})
    chosen = options.get("home") or home or environ.get("TIMELEAP_HOME") or default_home()
    try:
        root = Path(_string(chosen, "home")).expanduser().absolute()
    except RuntimeError:
        raise _refused("home", "a path below a home directory there is", "initializationOptions") from None
    file = root / FILE_NAME
    stored, from_environment = _read_file(file), _from_environment(environ)
    if environ.get(KEY_VARIABLE):
        # The key itself goes before a file that holds one, unless a flag or an option names it.
        stored, from_environment = _without_key_file(stored), _without_key_file(from_environment)
    flags = dict(flags or {})
    warnings: list[str] = []
    settings: dict[str, Any] = {}
    sources = {
        str(file): stored,
        "environment": from_environment,
        "command line": flags,
        "initializationOptions": options,
    }
    for source, values in sources.items():
        warnings += _merge(settings, values, source)
    return _resolve(root, settings, flags, warnings)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path.resolve(), MAX_FILE).decode("utf-8")
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
    """Settings among the environment's variables, as text; nested ones by their group's name."""
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        if text := environ.get(setting.variable):
            group, _, key = name.rpartition(".")
            (found.setdefault(group, {}) if group else found)[key] = text
    return found


def _without_key_file(values: dict[str, Any]) -> dict[str, Any]:
    group = values.get("summarizer")
    if not isinstance(group, Mapping):
        return values
    return {**values, "summarizer": {key: value for key, value in group.items() if key != "apiKeyFile"}}


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


def _flat(values: Mapping[str, Any], source: str) -> Iterator[tuple[str, str, Any]]:
    """Group, key and value of each; the group is empty for a setting that stands by itself."""
    for key, value in values.items():
        if key not in _GROUPS:
            yield "", key, value
        elif isinstance(value, Mapping):
            yield from ((key, inner, each) for inner, each in value.items())
        elif value is not None:
            raise _refused(key, "an object", source)


def _resolve(home: Path, settings: dict[str, Any], flags: Mapping[str, Any], warnings: list[str]) -> Config:
    resolved = {name: settings.get(name, setting.default) for name, setting in SETTINGS.items()}
    budget = Budget(resolved["maxContextSize"], resolved["reservedContextSize"], resolved["triggerRatio"])
    group = "summarizer."
    summarizer = {name.removeprefix(group): value for name, value in settings.items() if name.startswith(group)}
    warnings += [odd for odd in (budget.warning(), _insecure(summarizer.get("baseUrl", ""))) if odd]
    return Config(
        home=home,
        durability=resolved["durability"],
        budget=budget,
        max_preserved_messages=resolved["maxPreservedMessages"],
        retention=Retention(resolved["retention.maxTimelines"], resolved["retention.maxTimelineBytes"]),
        trash_max_age=resolved["trash.maxAge"],
        summarizer=summarizer,
        flags=flags,
        warnings=tuple(warnings),
    )


def _insecure(url: str) -> str | None:
    """Warning about an endpoint that would get conversations unencrypted."""
    if not url.startswith("http:"):
        return None
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    if host in ("localhost", "::1") or host.startswith("127."):
        return None
    return "summarizer.baseUrl begins with http: conversations and key would cross the network unencrypted"


class _Unusable(Exception):
    """A value is not what a setting asks for; the text completes "must be ..."."""


def _refused(name: str, expected: str, source: str) -> InvalidInputError:
    problem = {"loc": ["initializationOptions", *name.split(".")], "msg": f"must be {expected}", "type": "setting"}
    return InvalidInputError(f"{name} must be {expected} (set in {source})", errors=[problem])


def _string(value: Any, name: str) -> str:
    if isinstance(value, (str, os.PathLike)) and os.fspath(value) and "\0" not in str(value):
        return str(value)
    raise _refused(name, "a path", "initializationOptions")


def _matching(pattern: str, expected: str) -> Check:
    def check(value: Any) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL):
            return value
        raise _Unusable(expected)

    return check


def _whole(least: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        raise _Unusable(f"a whole number, {least} or more")

    return check


def _whole_or_null(value: Any) -> int | None:
    if value is None or value == "null":
        return None
    try:
        return int(_whole(1)(value))
    except _Unusable:
        raise _Unusable("null or a whole number, 1 or more") from None


def _ratio(value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if 0 < number <= 1:
        return number
    raise _Unusable("a number over 0 and at most 1")


_path = _matching(r"[^\0]+", "a path: a non-empty string without NUL characters")


class Setting(NamedTuple):
    """A setting that the file, the environment and `initializationOptions` may have.

    Attributes:
        name: Its key, dotted where it is in a group.
        check: What it may be.
        default: Its value where it is not set.
        numeric: True if text that stands for a number means the number.
    """

    name: str
    check: Check
    default: Any = None
    numeric: bool = True

    @property
    def variable(self) -> str:
        """Its environment variable."""
        words = (re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper() for word in self.name.split("."))
        return PREFIX + "_".join(words)

    def checked(self, value: Any, source: str) -> Any:
        """The value that counts.

        Raises:
            InvalidInputError: It is unusable; the message names where it stands.
        """
        try:
            return self.check(value)
        except _Unusable as expected:
            raise _refused(self.name, str(expected), source) from None


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("durability", _matching("disk|os", '"disk" or "os"'), "disk", numeric=False),
        Setting("maxContextSize", _whole_or_null),
        Setting("reservedContextSize", _whole(0), DEFAULT_RESERVED_CONTEXT),
        Setting("triggerRatio", _ratio, DEFAULT_TRIGGER_RATIO),
        Setting("maxPreservedMessages", _whole(1), DEFAULT_PRESERVED_MESSAGES),
        Setting("retention.maxTimelines", _whole(1), Retention().max_timelines),
        Setting("retention.maxTimelineBytes", _whole(0), Retention().max_timeline_bytes),
        Setting("trash.maxAge", _whole(0)),
        Setting("summarizer.baseUrl", _matching(r"https?://[^/\s].*", _URL), numeric=False),
        Setting("summarizer.model", _matching(".+", "a non-empty string"), numeric=False),
        Setting("summarizer.apiKeyFile", _path, numeric=False),
        Setting("summarizer.contextSize", _whole(1)),
        Setting("summarizer.timeout", _whole(1), DEFAULT_SUMMARIZER_TIMEOUT),
    )
}
"""All settings but the home, in the order in which they are shown."""
_NULL_IS_A_VALUE = frozenset({"maxContextSize"})
"""Settings that null switches off; for all others null means not set."""
_GROUPS = {name.partition(".")[0] for name in SETTINGS if "." in name}
_BY_PLACE = {
    ("", "home"): Setting("home", _path),
    **{(name.rpartition(".")[0], name.rpartition(".")[2]): setting for name, setting in SETTINGS.items()},
}
