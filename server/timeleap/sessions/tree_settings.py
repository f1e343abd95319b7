"""What a session keeps about the files it works on: the settings of their snapshots (member `files` of `timeleap.json`), and
what the record of a checkpoint says of them (member `w` of `_tl`). Both are checked, since anybody may have written them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from msgspec import Struct, convert, to_builtins

from timeleap.sessions.files import BAD, Problems, choice, items, model, text, whole

Json = dict[str, Any]
FilesMode = Literal["off", "checkpoint", "turn"]

MEMBER: Final = "files"
"""Of `timeleap.json`."""
MARK: Final = "w"
"""Of `_tl` of a checkpoint's record."""
MAX_ROOTS: Final = 16
MAX_PATTERNS: Final = 1000

CHECK: Final = model(
    {
        "mode": choice(*get_args(FilesMode)),
        "roots": items(text(most=4096, empty=False), MAX_ROOTS),
        "exclude": items(text(most=4096, empty=False), MAX_PATTERNS),
        "includeIgnored": items(text(most=4096, empty=False), MAX_PATTERNS),
        "maxFileBytes": whole(1),
        "maxFiles": whole(1),
    },
    required=("mode",),
)
"""What the member has to be."""

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

    @classmethod
    def of_member(cls, member: Json) -> TreeSettings:
        """The settings that `timeleap.json` has."""
        return convert(member, cls)

    def with_changes(self, changes: Json) -> TreeSettings:
        """The settings after `files` of `session/open`: what is absent there stays as it was."""
        return convert({**to_builtins(self), "mode": self.mode, **changes}, TreeSettings)

    def member(self) -> Json:
        """The member of `timeleap.json`."""
        return {"mode": self.mode, **to_builtins(self)}


def checkpoint_files(mark: Any) -> Json | None:
    """`CheckpointFiles` of the contract as a record has it; None where it cannot be used."""
    found = _CHECK_CHECKPOINT(mark, MARK, Problems())
    if found is BAD:
        return None
    known = {name: value for name, value in found.items() if name in _CHECKPOINT}
    return known if "snapshot" in known or "error" in known else None
