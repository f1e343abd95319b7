"""Files of a repository of snapshots whose content is elsewhere, or gone: placeholders of sync programs, empty files.

Git takes a ref without content for none, and a ref's placeholder for no ref at all. The next snapshot would then get the
number of an earlier one, and its ref the place of a file that may come back. So all is refused while there are such files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap.errors import CorruptedError
from timeleap.placeholders import placeholders
from timeleap.storage.durable import list_directory

_PACK_ENDINGS: Final = (".pack", ".idx")
_OBJECT_FOLDER: Final = 2
"""Characters in the name of a folder of loose objects."""
_FIRST_BYTES: Final = 64


def refuse_lost_content(repository: Path, session_uid: str, *, thorough: bool = False) -> None:
    """Refuse to work with a repository while a sync program has some of it elsewhere. Blocking.

    Args:
        repository: Its folder, which need not exist.
        session_uid: The session whose refs are looked at.
        thorough: Look at each object, too: git tells of these by itself, but not why they are missing.

    Raises:
        CorruptedError: It names the first such file.
    """
    for file, stands in _placeholders(repository):
        raise CorruptedError(
            f"a sync program has put {stands} in the place of {file} in the snapshots at {repository}: let it bring the "
            "file back, then try again; until then no snapshot is taken or restored",
            path=str(repository / file),
        )
    for file in _empty_files(repository, session_uid, thorough):
        raise CorruptedError(
            f"{file} in the snapshots at {repository} has lost its content, to a sync program or a failing disk: put it "
            "back from a backup or the program's history of versions; until then no snapshot is taken or restored",
            path=str(repository / file),
        )


def _placeholders(repository: Path) -> Iterator[tuple[str, str]]:
    """Files that are not there, by their paths in the repository, each with the name of its placeholder."""
    refs = [f"refs/timeleap/{uid}" for uid in list_directory(repository / "refs" / "timeleap")]
    for folder in ("", *refs, *_object_folders(repository)):
        with suppress(NotADirectoryError):
            found = placeholders(list_directory(repository / folder))
            yield from ((str(Path(folder, file)), name) for file, name in found.items())


def _object_folders(repository: Path) -> list[str]:
    names = list_directory(repository / "objects")
    return [f"objects/{name}" for name in names if name == "pack" or len(name) == _OBJECT_FOLDER]


def _empty_files(repository: Path, session_uid: str, thorough: bool) -> Iterator[str]:
    """Files without their content, by their paths in the repository."""
    refs = f"refs/timeleap/{session_uid}"
    names = [f"{refs}/{name}" for name in list_directory(repository / refs) if name.isdecimal()]
    for folder in _object_folders(repository):
        if thorough or folder.endswith("pack"):
            packs = folder.endswith("pack")
            found = [name for name in list_directory(repository / folder) if packs is name.endswith(_PACK_ENDINGS)]
            names += [f"{folder}/{name}" for name in found]
    for name in names:
        if _is_empty(repository / name):
            yield name


def _is_empty(path: Path) -> bool:
    """True for a file of no bytes, or of zeros: it has the size of another then."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    if facts.st_size and getattr(facts, "st_blocks", 1) and facts.st_size > _FIRST_BYTES:
        return False
    with suppress(OSError), path.open("rb") as file:
        return not file.read(_FIRST_BYTES).strip(b"\0")
    return False
