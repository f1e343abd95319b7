"""Settings files of agents: read with suspicion, edited in place, and put back as they were.

What an installation changed is kept in `<home>/hooks/`, so that its undoing gives the very bytes back.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from timeleap.errors import StorageFailureError
from timeleap.storage import durable
from timeleap_agents.hooks import json_settings, json_text, plugin_file, toml_settings
from timeleap_agents.hooks.agents import Agent, SettingsPlace
from timeleap_agents.hooks.unsafe import UnsafeSettingsError

MAX_BYTES: Final = 1024 * 1024
"""The largest settings file that is edited."""
_MOST_RECORD: Final = 8 * MAX_BYTES
_HOOKS: Final = "hooks"


class SettingsForm(Protocol):
    """How hooks stand in a settings file."""

    def value(self, text: str) -> Any:
        """The value of a file; nothing of one that need not be there. Raises ValueError."""
        ...

    def problem(self, text: str) -> str | None:
        """Why a file is left alone; None where it is fit to be edited."""
        ...

    def installed(self, agent: Agent, text: str) -> dict[str, list[str]]:
        """The commands of ours, by their events."""
        ...

    def with_hooks(self, agent: Agent, command: str, text: str | None) -> str:
        """The text with our hooks. Raises UnsafeSettingsError."""
        ...

    def members_made(self, agent: Agent, text: str | None) -> frozenset[str]:
        """The members that `with_hooks` adds besides the hooks themselves."""
        ...

    def without_hooks(self, agent: Agent, text: str, made: frozenset[str]) -> str:
        """The text without our hooks, and without members that are empty now and that we had `made`. Raises
        UnsafeSettingsError."""
        ...


FORMS: Final[Mapping[str, SettingsForm]] = {"JSON": json_settings, "TOML": toml_settings, "plugin": plugin_file}


class Content(NamedTuple):
    """A settings file as it was read."""

    data: bytes
    mode: int

    @property
    def text(self) -> str:
        return self.data.decode()


class InstallRecord(NamedTuple):
    """Record of an installation.

    Attributes:
        before: The text that the file had; None if there was none.
        after: The digest of the text that was written.
        made: The members of the file that were not there before: `hooks`, and events of it.
        made_folder: Whether there was no folder for it.
    """

    before: str | None
    after: str
    made: frozenset[str]
    made_folder: bool


def read(place: SettingsPlace) -> Content | None:
    """The settings file, judged fit to be edited; None if there is none.

    Raises:
        UnsafeSettingsError: It is a link, no file, too large, not ours, not to be written, or no plain JSON.
    """
    folder = place.base
    for name in place.parts[:-1]:
        folder = folder / name
        if (there := _look(folder)) is None:
            return None
        if stat.S_ISLNK(there.st_mode):
            raise UnsafeSettingsError(f"{folder} is a link, which is not followed")
        if not stat.S_ISDIR(there.st_mode):
            raise UnsafeSettingsError(f"{folder} is no folder")
    if (there := _look(place.path)) is None:
        return None
    _judge(place.path, there)
    try:
        data = durable.OpenFile(place.path).pread(0, MAX_BYTES + 1)
    except (OSError, StorageFailureError) as error:
        raise UnsafeSettingsError(f"{place.path} cannot be read: {error}") from None
    if len(data) > MAX_BYTES:
        raise UnsafeSettingsError(f"{place.path} is larger than {MAX_BYTES:,} bytes")
    _judge_text(place, data)
    return Content(data, stat.S_IMODE(there.st_mode))


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UnsafeSettingsError(f"{path} cannot be looked at: {error}") from None


def _judge(path: Path, there: os.stat_result) -> None:
    problem = None
    if stat.S_ISLNK(there.st_mode):
        problem = "is a link, which is not followed"
    elif not stat.S_ISREG(there.st_mode):
        problem = "is no regular file"
    elif there.st_nlink > 1:
        problem = "has another name, too (a hard link), which would keep the old text"
    elif sys.platform != "win32" and there.st_uid != os.geteuid():
        problem = "belongs to another user"
    elif not there.st_mode & stat.S_IWUSR:
        problem = "is read-only"
    elif there.st_size > MAX_BYTES:
        problem = f"is larger than {MAX_BYTES:,} bytes"
    if problem is not None:
        raise UnsafeSettingsError(f"{path} {problem}")


def _judge_text(place: SettingsPlace, data: bytes) -> None:
    if data.startswith(b"\xef\xbb\xbf"):
        raise UnsafeSettingsError(f"{place.path} begins with a byte order mark, which is no {place.form}")
    try:
        problem = FORMS[place.form].problem(data.decode())
    except UnicodeDecodeError:
        raise UnsafeSettingsError(f"{place.path} is no UTF-8 text") from None
    if problem is not None:
        raise UnsafeSettingsError(f"{place.path} {problem}")


def installed(agent: Agent, text: str) -> dict[str, list[str]]:
    """The commands of ours in a settings file, by their events."""
    return FORMS[agent.form].installed(agent, text)


def with_hooks(agent: Agent, command: str, text: str | None) -> str:
    """The text of a settings file with our hooks at the end of those that are there."""
    return FORMS[agent.form].with_hooks(agent, command, text)


class SettingsChange(NamedTuple):
    """A change of a settings file; `after` None: it is removed."""

    before: Content | None
    after: bytes | None

    @property
    def changes(self) -> bool:
        return self.after != (None if self.before is None else self.before.data)


class HookSettings:
    """The settings file of an agent, and the record of what was done to it."""

    def __init__(self, agent: Agent, place: SettingsPlace, home: Path) -> None:
        self.agent = agent
        self.place = place
        digest = hashlib.blake2b(os.fsencode(place.path), digest_size=12).hexdigest()
        self._record = home / "hooks" / f"{agent.name}-{digest}.json"

    def plan_install(self, command: str) -> SettingsChange:
        """The change that adds our hooks; those that were added with another command are replaced.

        Raises:
            UnsafeSettingsError: As `read`.
        """
        before = read(self.place)
        return SettingsChange(before, with_hooks(self.agent, command, self._stripped(before)).encode())

    def plan_uninstall(self) -> SettingsChange:
        """The change that takes our hooks out, and nothing else.

        Raises:
            UnsafeSettingsError: As `read`.
        """
        before = read(self.place)
        stripped = self._stripped(before)
        return SettingsChange(before, None if stripped is None else stripped.encode())

    def _stripped(self, content: Content | None) -> str | None:
        """The text without our hooks; that from before them, if nothing else has changed since. None: no file."""
        if content is None:
            return None
        if not installed(self.agent, content.text):
            return content.text
        record = self._read_record()
        form = FORMS[self.agent.form]
        stripped = form.without_hooks(self.agent, content.text, record.made if record else frozenset())
        value = form.value(stripped)
        if record is None:
            return None if value is None else stripped
        if record.before is None:
            return None if not value else stripped
        # The record could be anybody's: it may say how the text was laid out, never what it says.
        same = record.after == _digest(content.data) and self._says(record.before, value)
        return record.before if same else stripped

    def _says(self, text: str, value: object) -> bool:
        try:
            return bool(FORMS[self.agent.form].value(text) == value)
        except ValueError:
            return False

    def carry_out(self, change: SettingsChange, *, install: bool) -> None:
        """Make a change in one step; the file stays as it is if that fails.

        Raises:
            UnsafeSettingsError: The file was changed meanwhile, or became unfit.
            OSError, StorageFailureError: It cannot be written.
        """
        folder = self.place.path.parent
        makes_folder = _look(folder) is None
        if not install:
            self._write_settings(change)
            record = self._read_record()
            if change.after is None and record is not None and record.made_folder:
                with suppress(OSError):  # somebody else has put something there
                    folder.rmdir()
            durable.remove_file(self._record)
            return
        previous = self._record_data()
        self._write_record(change, made_folder=makes_folder)
        try:
            self._write_settings(change)
        except BaseException:
            if previous is None:
                durable.remove_file(self._record)
            else:
                durable.atomic_write(self._record, previous)
            if makes_folder:
                with suppress(OSError):
                    folder.rmdir()
            raise

    def _write_settings(self, change: SettingsChange) -> None:
        if change.after is not None:
            self.place.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if read(self.place) != change.before:
            raise UnsafeSettingsError(f"{self.place.path} was changed meanwhile: look again")
        if change.after is None:
            durable.remove_file(self.place.path)
        else:
            _replace(self.place.path, change.after, 0o600 if change.before is None else change.before.mode)

    def _write_record(self, change: SettingsChange, *, made_folder: bool) -> None:
        assert change.after is not None
        previous = self._read_record()
        text = self._stripped(change.before)
        members = {
            "path": os.fsdecode(self.place.path),
            "before": text,
            "after": _digest(change.after),
            "made": sorted(FORMS[self.agent.form].members_made(self.agent, text)),
            "madeFolder": made_folder or (previous is not None and previous.made_folder),
        }
        durable.make_directory(self._record.parent)
        durable.atomic_write(self._record, json.dumps(members).encode())

    def _record_data(self) -> bytes | None:
        try:
            return durable.OpenFile(self._record).pread(0, _MOST_RECORD)
        except (OSError, StorageFailureError):
            return None

    def _read_record(self) -> InstallRecord | None:
        try:
            members = json_text.document((self._record_data() or b"").decode())
        except ValueError:
            return None
        if not isinstance(members, dict) or members.get("path") != os.fsdecode(self.place.path):
            return None
        before, after, made = members.get("before"), members.get("after"), members.get("made")
        if not (before is None or isinstance(before, str)) or not isinstance(after, str) or not isinstance(made, list):
            return None
        known = frozenset({_HOOKS, *self.agent.events})
        return InstallRecord(
            before, after, known & {name for name in made if isinstance(name, str)}, members.get("madeFolder") is True
        )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Put `data` at `path` in one step, with permissions from the first moment on."""
    temporary = durable.open_temporary(path.parent, path.name)
    try:
        temporary.pwrite(data, 0)
        temporary.path.chmod(mode)
        temporary.sync()
        temporary.close()
        durable.replace_file(temporary.path, path)
    except BaseException:
        durable.remove_file(temporary.path)
        raise
    durable.sync_directory(path.parent)
