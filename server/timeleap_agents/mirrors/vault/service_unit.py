"""`timeleap agents keep` as a service of the user: a unit of systemd, or an agent of launchd.

Its file is written, shown before, and taken away again: where there was another one, that is back byte for byte.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import plistlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from timeleap.errors import StorageFailureError
from timeleap.storage.durable import OpenFile, atomic_write, is_regular, make_directory, remove_file
from timeleap_agents.mirrors.folders import FOLDERS

UNIT: Final = "timeleap-keep.service"
LABEL: Final = "timeleap.keep"
MAX_FILE: Final = 1 << 20
SECONDS: Final = 20.0
"""How long the system's manager of services may take to answer."""


class NoServicesError(Exception):
    """This system has no manager of a user's services that is known here."""


class ServiceFile(Struct, frozen=True):
    """The file of the service.

    Attributes:
        path: Where the system looks for it.
        content: What it says.
        start, stop, ask: Commands that have the system run it, end it, and say whether it runs.
    """

    path: Path
    content: bytes
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]
    ask: tuple[str, ...]


class Told(Struct, frozen=True):
    """Answer of the system to a command; `problem`: why there is none, in words."""

    ok: bool
    problem: str | None = None


def service_file(words: Sequence[str], user_home: Path, environ: Mapping[str, str], platform: str) -> ServiceFile:
    """The file by which a system runs a command for as long as the user is there, and starts it again.

    Raises:
        NoServicesError: Of no such system.
    """
    variables = {place.variable: environ[place.variable] for place in FOLDERS.values() if environ.get(place.variable)}
    if platform == "darwin":
        path = user_home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        facts = {"Label": LABEL, "ProgramArguments": list(words), "RunAtLoad": True, "KeepAlive": True}
        content = plistlib.dumps({**facts, **({"EnvironmentVariables": variables} if variables else {})})
        load, unload = ("launchctl", "load", "-w", str(path)), ("launchctl", "unload", "-w", str(path))
        return ServiceFile(path, content, (load,), (unload,), ("launchctl", "list", LABEL))
    if platform != "linux":
        raise NoServicesError("services are installed with systemd (Linux) and launchd (macOS) only")
    configured = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(configured) if Path(configured).is_absolute() else user_home / ".config"
    lines = [
        "[Unit]",
        "Description=Timeleap: keep the sessions of coding agents",
        "",
        "[Service]",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in variables.items()),
        f"ExecStart={' '.join(_quoted(word).replace('$', '$$') for word in words)}",
        "Restart=on-failure",
        "RestartSec=10",
        "Nice=10",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    control = ("systemctl", "--user")
    return ServiceFile(
        folder / "systemd" / "user" / UNIT,
        "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"),
        ((*control, "daemon-reload"), (*control, "enable", "--now", UNIT)),
        ((*control, "disable", "--now", UNIT),),
        (*control, "is-active", UNIT),
    )


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


class InstalledService:
    """The service on this machine. All methods block.

    Args:
        file: Its file.
        home: The store, which notes what was there before.
    """

    def __init__(self, file: ServiceFile, home: Path) -> None:
        self.file = file
        self._record = home / "hooks" / "keep-service.json"

    def present(self) -> bytes | None:
        """The content of the file; None where there is none.

        Raises:
            StorageFailureError: What has its name is no ordinary file, or too large.
        """
        path = self.file.path
        if not os.path.lexists(path):
            return None
        if not is_regular(path) or path.stat().st_size > MAX_FILE:
            raise StorageFailureError(
                f"{path} is no file of a service: it is left alone", path=str(path), errno="EINVAL"
            )
        with closing(OpenFile(path)) as file:
            return file.pread(0, MAX_FILE)

    @property
    def installed(self) -> bool:
        """The file is there as it was written."""
        record = self._read_record()
        return record is not None and self.present() == record["after"]

    def after_uninstall(self) -> bytes | None:
        """The content of the file when the service is taken away; None: there is none then.

        Raises:
            StorageFailureError: It was changed since it was written.
        """
        record = self._read_record()
        now = self.present()
        if record is None or now is None:
            return now
        if now != record["after"]:
            path = self.file.path
            raise StorageFailureError(
                f"{path} was changed since it was installed, and is left alone: remove it yourself",
                path=str(path),
                errno="EEXIST",
            )
        before: bytes | None = record["before"]
        return before

    def install(self) -> None:
        """Write the file, and note what was there. Raises OSError."""
        before, record = self.present(), self._read_record()
        if record is not None and record["after"] == before:
            before, made = record["before"], record["made"]
        else:
            made = [str(folder) for folder in self.file.path.parents if not folder.exists()]
        make_directory(self._record.parent)
        note: dict[str, Any] = {"path": str(self.file.path), "made": made}
        note |= {"before": None if before is None else _text(before), "after": _text(self.file.content)}
        atomic_write(self._record, json.dumps(note).encode())
        self.file.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.file.path, self.file.content)

    def uninstall(self) -> None:
        """Put back what was there. Raises OSError; StorageFailureError as `after_uninstall`."""
        record, after = self._read_record(), self.after_uninstall()
        if after is None:
            remove_file(self.file.path)
        else:
            atomic_write(self.file.path, after)
        for folder in record["made"] if record is not None else ():
            with suppress(OSError):  # something else is in it
                Path(folder).rmdir()
        remove_file(self._record)

    def _read_record(self) -> dict[str, Any] | None:
        try:
            with closing(OpenFile(self._record)) as file:
                record = json.loads(file.pread(0, 4 * MAX_FILE))
            if record["path"] != str(self.file.path):
                return None
            before = record["before"]
            return {
                "before": None if before is None else base64.b64decode(before, validate=True),
                "after": base64.b64decode(record["after"], validate=True),
                "made": [str(each) for each in record["made"]],
            }
        except (OSError, ValueError, TypeError, KeyError, binascii.Error, RecursionError):
            return None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def tell(commands: Sequence[Sequence[str]]) -> Told:
    """Run commands of the system's manager of services, up to the first that fails."""
    for words in commands:
        try:
            ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        except FileNotFoundError:
            return Told(False, f"there is no program {words[0]}")
        except (OSError, subprocess.TimeoutExpired) as error:
            return Told(False, f"{words[0]} did not answer: {error}")
        if ran.returncode != 0:
            said = (ran.stderr or ran.stdout).decode(errors="replace").strip()
            return Told(False, f"{' '.join(words)} said: {said or ran.returncode}")
    return Told(True)


PLATFORM: Final = sys.platform
