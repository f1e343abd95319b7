"""The one list of every file a session has: in its directory, and elsewhere in its store.

A new kind of file is one more row in `RULES`. Redaction, deletion, export, `session/storage` and `session/verify` all
go by that list; a file that no row names is `foreign`: it belongs to the original program or to the user, its text is
redacted, and it is never removed.

Outside of the directory: `home.in_trash` gives the session's directories in the trash (earlier ones of its id, copies
with its uid); `Home.sweep` removes half built sessions that a killed process left in the staging area, which may have
its text; and the store's own `requests.jsonl` names the session in the requests that made, moved or forked it (see
`store_requests.Ledger.forget_fingerprints`). Beside the user's key stands the session's highest seal revision (see
`seal.KeyRing`), which has no text of the session.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, Literal

from msgspec import Struct

from timeleap.storage import durable
from timeleap.storage.durable import list_directory, remove_file, storage_errors, sync_directory

LOG_NAME: Final = "context.jsonl"
META_NAME: Final = "timeleap.json"
STATE_NAME: Final = "state.json"
LEGACY_STATE_NAME: Final = "metadata.json"
REQUESTS_NAME: Final = "requests.jsonl"
AUDIT_NAME: Final = "audit.jsonl"

Kind = Literal[
    "log", "timeline", "index", "lock", "intent", "quarantine", "meta", "state", "requests", "audit", "snapshots",
    "damaged", "temporary", "kept", "foreign",
]  # fmt: skip
Redaction = Literal["records", "meta", "state", "lines", "text", "kept", "remove", "none"]
"""How a file is redacted: record by record, by its model, line by line, as text, as what is kept of another program's file;
removed; or not at all."""

IN_FLIGHT_SECONDS: Final = 60.0
"""A temporary file younger than this may be another process's that is still being written."""


class FileRule(Struct, frozen=True):
    """A kind of file: the pattern of its name (a group `of` is the file it belongs to), how it is redacted, and whether
    it goes into a native archive."""

    kind: Kind
    pattern: str
    redaction: Redaction
    exported: bool = False


_TIMELINE = r"context_[0-9]{1,18}\.jsonl|context\.jsonl\.[0-9]{1,18}"

RULES: Final = (
    FileRule("log", r"context\.jsonl", "records", exported=True),
    FileRule("timeline", _TIMELINE, "records", exported=True),
    FileRule("index", rf"\.(?P<of>context\.jsonl|{_TIMELINE})\.idx", "none"),  # rebuilt with its log
    # Names the process that holds the lock, and nothing of the conversation.
    FileRule("lock", r"\.context\.jsonl\.lock", "none"),
    FileRule("intent", r"\.context\.jsonl\.intent", "none"),
    FileRule("quarantine", r"context\.jsonl\.quarantine-[0-9]+-.+", "text"),
    FileRule("meta", r"timeleap\.json", "meta", exported=True),
    FileRule("state", r"state\.json", "state", exported=True),
    FileRule("state", r"metadata\.json", "text"),
    FileRule("snapshots", r"snapshots(\.json|_[0-9]{1,2}\.pack)", "remove", exported=True),  # of an import, for a while
    FileRule("requests", r"requests\.jsonl", "lines"),
    FileRule("kept", r"kept_[0-9]{1,9}\.(?:bytes|xz)", "kept"),
    FileRule("audit", r"audit\.jsonl", "lines"),
    # A damaged file of ours that a save has kept under another name.
    FileRule("damaged", r"(?:state|timeleap|requests|audit)\.damaged-[0-9a-f-]+\.jsonl?", "text"),
    FileRule("temporary", r"\.(?P<of>.+)\.[0-9a-f]{16}\.tmp", "remove"),
)  # fmt: skip
_FOREIGN: Final = FileRule("foreign", r".*", "text")


class SessionFile(Struct, frozen=True):
    """A file of a session's directory.

    Attributes:
        name: Relative to the directory, with slashes.
        modified: Seconds since 1970.
        of: The file an index or a temporary belongs to.
    """

    name: str
    rule: FileRule
    bytes: int
    modified: float
    of: str | None = None

    @property
    def kind(self) -> Kind:
        return self.rule.kind


class Leftover(Struct, frozen=True):
    """A file that a killed process left; `why` says in words what it is."""

    name: str
    why: str


def classify(name: str) -> tuple[FileRule, str | None]:
    """The rule for a file of that name, and the file it belongs to. What lies in a folder is foreign."""
    if "/" not in name:
        for rule in RULES:
            match = re.fullmatch(rule.pattern, name)
            if match:
                return rule, match.groupdict().get("of")
    return _FOREIGN, None


def list_files(directory: Path) -> list[SessionFile]:
    """Every regular file of a session's directory, by name; raises StorageFailureError. Links are not followed, what
    vanishes meanwhile is left out."""
    with storage_errors("look at the session's files", directory):
        return sorted(_files(directory), key=attrgetter("name"))


def quarantine_files(directory: Path) -> list[tuple[str, int]]:
    """Names and sizes of what recovery kept beside a log, largest first. Raises StorageFailureError."""
    found = [(file.name, file.bytes) for file in list_files(directory) if file.kind == "quarantine"]
    return sorted(found, key=lambda file: (-file[1], file[0]))


def leftovers(directory: Path, *, older_than: float = 0.0) -> list[Leftover]:
    """Files that a killed process left in a session's directory: nobody reads these, yet they may hold text, or a
    checksum of every line. Without the session's lock leave out temporaries that are not `older_than` so many seconds:
    a live process may be writing them.

    Raises:
        StorageFailureError: The directory cannot be read.
    """
    files = list_files(directory)
    present = {file.name for file in files}
    found: list[Leftover] = []
    for file in files:
        if file.kind == "temporary" and time.time() - file.modified >= older_than:
            found.append(Leftover(file.name, f"a temporary file of {file.of} that an interrupted step left"))
        # Without its log the live log's own index stays: it is what tells that lines are missing.
        elif file.kind == "index" and file.of != LOG_NAME and file.of not in present:
            found.append(Leftover(file.name, f"the index of {file.of}, which is gone"))
    return found


def may_hold_leftovers(directory: Path) -> bool:
    """True if a file there may be a leftover, by a look at the names alone. Raises StorageFailureError."""
    with storage_errors("look at the session's files", directory):
        return durable.any_left_over({LOG_NAME, *list_directory(directory)})


def remove_leftovers(directory: Path) -> list[Leftover]:
    """Remove what a killed process left. Hold the session's lock. Raises StorageFailureError where some is still
    there."""
    found = leftovers(directory)
    with storage_errors("remove leftover files", directory):
        for leftover in found:
            remove_file(directory / leftover.name)
        if found:
            sync_directory(directory)
    return found


def _files(path: Path, within: str = "") -> Iterator[SessionFile]:
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if S_ISDIR(facts.st_mode):
                yield from _files(Path(entry.path), f"{within}{entry.name}/")
            elif S_ISREG(facts.st_mode):
                name = f"{within}{entry.name}"
                rule, of = classify(name)
                yield SessionFile(name, rule, facts.st_size, facts.st_mtime, of)


def conflict_copies(log: Path) -> list[str]:
    """The names beside a log that sync programs give to a version of it which they could not merge, or that file
    managers give to a copy."""
    stem, suffix = re.escape(log.stem), re.escape(log.suffix)
    # `context (X's conflicted copy 2026-01-01).jsonl`, `context (1).jsonl`, `context 2.jsonl`, `context - Copy.jsonl`,
    # `context.sync-conflict-20260101-120000-ABCDEFG.jsonl`, `context-HOSTNAME.jsonl`, `context_conflict-20260101.jsonl`
    middle = (
        r" ?\([^()]+(\([^()]*\)[^()]*)?\)| [0-9]{1,3}| - .+| copy( [0-9]+)?|[.]sync-conflict-.+|[-~].+|[_.]conflict.*"
    )
    before = re.compile(rf"{stem}(?:{middle}){suffix}", re.IGNORECASE)
    behind = re.compile(rf"{re.escape(log.name)}[.](?:sync-conflict|conflict|orig|bak|backup|old).*", re.IGNORECASE)
    return sorted(
        name
        for name in durable.list_directory(log.parent)
        if (before.fullmatch(name) or behind.fullmatch(name)) and durable.is_regular(log.parent / name)
    )
