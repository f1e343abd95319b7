"""The commands that put files back: their options, what they would do and what they did, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import unquote, urlsplit

from timeleap.cli.backend import refusal
from timeleap.cli.command import advice
from timeleap.cli.formatting import count, one_line, size
from timeleap.cli.parameters import Option
from timeleap.cli.terminal import Terminal
from timeleap.json_value import Json

Restore = Annotated[
    Literal["conversation", "files", "both"] | None,
    Option("--restore", metavar="[conversation|files|both]", help="What goes back (default: conversation)."),
]
OnConflict = Annotated[
    Literal["refuse", "keep", "overwrite"] | None,
    Option(
        "--on-conflict",
        metavar="[refuse|keep|overwrite]",
        help="Files that somebody else changed since: refuse (default), keep them as they are, or overwrite them.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    Option("--exclude", metavar="PATTERN", help="Leave out, as a line of .gitignore says it; may be repeated."),
]

_MOST_CHANGES = 12
"""Files that are named one by one before the rest is only counted."""
_DIFFERS: Final = {"type": "type", "mode": "permissions"}
_PUT_BACK: Final = {
    "added": "put back",
    "modified": "changed back",
    "deleted": "removed",
    "type": "changed back",
    "mode": "permissions",
}


def change_line(change: Json, words: Mapping[str, str] = _DIFFERS) -> str:
    """Line for an entry of a comparison: `modified  src/a.py  12 B → 14 B`."""
    sizes = [size(change[name]) if name in change else None for name in ("bytesFrom", "bytesTo")]
    told = " → ".join(filter(None, sizes)) if sizes[0] != sizes[1] else str(sizes[0] or "")
    binary = ", binary" if change.get("binary") else ""
    what = words.get(change["kind"], change["kind"])
    return f"{what:<12} {file_name(change)}{f'  ({told}{binary})' if told else ''}"


def file_name(entry: Json) -> str:
    """The path of an entry on one line, behind its root where there are several."""
    return one_line(f"{path_of(entry['root'])}/{entry['path']}" if "root" in entry else entry["path"])


def path_of(root: str) -> str:
    """The path of a root, which is a URI."""
    return unquote(urlsplit(root).path) if root.startswith("file:") else root


def counts(files: Json) -> str:
    """`1 put back, 2 changed back, 1 removed`, or that nothing differs."""
    tallies = (("added", "put back"), ("modified", "changed back"), ("deleted", "removed"), ("kept", "kept as changed"))
    return ", ".join(f"{files[name]:,} {words}" for name, words in tallies if files.get(name)) or "nothing differs"


def plan_lines(plan: Json) -> Iterator[str]:
    """Lines about the files in a dry run; none where it is about the conversation alone."""
    if (files := plan.get("files")) is None:
        return
    changes = plan.get("changes", [])
    yield f"Files, back to {files['after']}: {counts(files)}."
    yield from (f"  {change_line(change, _PUT_BACK)}" for change in changes[:_MOST_CHANGES])
    differing = sum(files[name] for name in ("added", "modified", "deleted"))
    if (more := differing - len(changes[:_MOST_CHANGES])) > 0:
        yield f"  ... and {more:,} more"
    if files["conflicts"]:
        yield f"{count(files['conflicts'], 'file')} of these changed after the last change of the session:"
        yield from conflict_lines([file_name(entry) for entry in files.get("conflictPaths", [])], files["conflicts"])


def conflict_lines(paths: Iterable[str], number: int) -> Iterator[str]:
    shown = list(paths)[:_MOST_CHANGES]
    yield from (f"  {one_line(path)}" for path in shown)
    if number > len(shown):
        yield f"  ... and {number - len(shown):,} more"


def refuse_conflicts(plan: Json, on_conflict: str | None) -> None:
    """Refuse what the server would refuse, before anybody is asked for consent.

    Raises:
        TimeleapRpcError: `filesConflict`, as the server says it.
    """
    files: Json = plan.get("files") or {"conflicts": 0}
    if not files["conflicts"] or on_conflict in ("keep", "overwrite"):
        return
    paths = [file_name(entry) for entry in files.get("conflictPaths", [])]
    number = files["conflicts"]
    message = f"{count(number, 'file')} changed after the last change of the session; nothing was changed"
    raise refusal(4021, "filesConflict", message, paths=paths, more=number - len(paths))


def restored_line(result: Json) -> str:
    """Line about the files of a restore; empty where only the conversation went back."""
    if (files := result.get("files")) is None:
        return ""
    before = f"; as they were: {files['before']}" if files.get("before") else ""
    return f"files: {counts(files)}{before}"


def mark(checkpoint: Mapping[str, Any]) -> str:
    """The snapshot of a checkpoint in a word or two; empty where it has none."""
    files = checkpoint.get("files")
    if not files:
        return ""
    if "error" in files:
        return "no snapshot"
    return count(files["changed"], "file") if files["changed"] else "files saved"


def say_advice(terminal: Terminal, problem: Json, session: str) -> None:
    """Say what to do about a problem with the files of a session."""
    for line in advice(problem["kind"], problem, session):
        terminal.hint(line)


def snapshot_words(files: Json) -> str:
    """Words about the snapshot of a new checkpoint."""
    if "error" in files:
        return f"its files were not saved: {one_line(files['error']['message'])}"
    skipped = f", {files['skipped']:,} skipped" if files.get("skipped") else ""
    return f"files: {files['snapshot']}, {files['changed']:,} changed{skipped}"
