"""The form in which a session has its files: the settings of their snapshots (member `files` of `timeleap.json`), and the mark
of a checkpoint's record (member `w` of `_tl`). Both are checked, since anybody may have written them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn, get_args

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from timeleap.errors import InvalidInputError
from timeleap.json_value import Json
from timeleap.sessions.documents.companion_forms import FORMS, CompanionForm
from timeleap.sessions.documents.json_files import BAD, Problems, choice, is_encodable, items, model, text, whole
from timeleap.sessions.documents.meta import Meta
from timeleap_protocol.folder_uri import canonical_folder_uri, folder_of
from timeleap_protocol.limits import MAX_FILE_PATTERNS, MAX_FILE_ROOTS

FilesMode = Literal["off", "checkpoint", "turn"]

MEMBER: Final = "files"
"""Member of `timeleap.json` with the settings; of a checkpoint; and of a timeline's facts, where it names the snapshot of
the files that were there when it was set aside."""
FROM: Final = "filesFrom"
"""Member of a fork's `timeleap.json`: the uid of the session that it has its first snapshots of."""
FOLLOWED: Final = "filesFollowed"
"""Member of `timeleap.json`: the token of the last restore of files that the log has followed; with the proof of a rewrite
it counts only if that was done."""
MARK: Final = "w"
"""Member of `_tl` in a checkpoint's record."""
_LONGEST: Final = 4096

CHECK: Final = model(
    {
        "mode": choice(*get_args(FilesMode)),
        "roots": items(text(most=_LONGEST, empty=False), MAX_FILE_ROOTS),
        "exclude": items(text(most=_LONGEST, empty=False), MAX_FILE_PATTERNS),
        "includeIgnored": items(text(most=_LONGEST, empty=False), MAX_FILE_PATTERNS),
        "maxFileBytes": whole(1),
        "maxFiles": whole(1),
    },
    required=("mode",),
)
"""The type of the member."""

_CHECKPOINT: Final = {
    "snapshot": text(r"f[1-9]\d{0,14}-[0-9a-f]{12}"),
    "changed": whole(),
    "skipped": whole(),
    "ms": whole(),
    "error": model({"kind": text(most=200), "message": text(), "reason": text(most=200)}, required=("kind", "message")),
}
_CHECK_CHECKPOINT: Final = model(_CHECKPOINT)


class TreeSettings(Struct, frozen=True, rename="camel", omit_defaults=True):
    """When snapshots are taken, and of which files; None stands for the default.

    Attributes:
        mode: With each checkpoint, at each end of a turn too, or never.
        roots: URIs of the folders; none: the workspace.
        exclude: What is left out, in the syntax of `.gitignore`.
        include_ignored: What is taken in though it is ignored, in the same syntax.
        max_file_bytes: Larger files are skipped.
        max_files: With more files there is no snapshot.
    """

    mode: FilesMode = "off"
    roots: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    include_ignored: tuple[str, ...] = ()
    max_file_bytes: int | None = None
    max_files: int | None = None

    def with_changes(self, changes: Mapping[str, Any]) -> TreeSettings:
        """The settings after `files` of `session/open`: what is absent there stays as it was."""
        return read_settings({**to_builtins(self), "mode": self.mode, **changes})

    def member(self) -> Json:
        """The member of `timeleap.json`."""
        return {"mode": self.mode, **to_builtins(self)}


def read_settings(member: Any) -> TreeSettings:
    """The settings that the member of `timeleap.json` has, which is as it has to be."""
    settings = convert(member, TreeSettings)
    return replace(settings, roots=tuple(map(canonical_folder_uri, settings.roots)))


def settings_of(meta: Meta) -> TreeSettings | None:
    """The settings of a session; None: never set."""
    member = meta.get(MEMBER)
    return None if member is None else read_settings(member)


def snapshot_of(kept: Any) -> str | None:
    """The snapshot that a checkpoint's `CheckpointFiles`, or the facts of a timeline, have; None: none."""
    found = kept.get("snapshot") if isinstance(kept, dict) else kept
    return found if isinstance(found, str) else None


def checkpoint_files(mark: Any) -> Json | None:
    """`CheckpointFiles` of the contract as a record has it; None where it cannot be used."""
    found = _CHECK_CHECKPOINT(mark, MARK, Problems())
    if found is BAD:
        return None
    known = {name: value for name, value in found.items() if name in _CHECKPOINT}
    return known if "snapshot" in known or "error" in known else None


def refuse_bad(settings: Mapping[str, Any]) -> None:
    """Refuse `files` of `session/open` where a root or a pattern cannot be one.

    Raises:
        InvalidInputError: Says which.
    """
    for at, uri in enumerate(settings.get("roots", ())):
        if len(uri) > _LONGEST or folder_of(uri) is None:
            _refuse("roots", at, "must be the file: URI of a folder on this machine, such as file:///home/me/project")
    for name in ("exclude", "includeIgnored"):
        for at, pattern in enumerate(settings.get(name, ())):
            if len(pattern) > _LONGEST or not is_encodable(pattern) or any(char in pattern for char in "\0\n\r"):
                _refuse(name, at, f"must be one line of a .gitignore file, of at most {_LONGEST} characters")


def _refuse(name: str, at: int, why: str) -> NoReturn:
    place = ["files", name, at]
    raise InvalidInputError(f"files.{name}[{at}] {why}", errors=[{"loc": place, "msg": why, "type": name}])


FORMS[MEMBER] = CompanionForm(
    key=MEMBER,
    mark=MARK,
    followed=FOLLOWED,
    checks={
        MEMBER: CHECK,
        FROM: text(r"[A-Za-z0-9._-]{1,64}"),
        FOLLOWED: model(
            {"token": text(empty=False), "timelineId": text(), "length": whole(), "chain": text("[0-9a-f]{16}")},
            required=("token",),
        ),
    },
    read_mark=checkpoint_files,
    refuse_bad=refuse_bad,
    of_fork=lambda member, uid: {MEMBER: read_settings(member).member(), FROM: uid},
)
