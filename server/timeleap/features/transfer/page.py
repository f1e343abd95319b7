"""An HTML page of a session for people: a slider through its checkpoints, its timelines as branches, what differs.

The page is whole in itself, and the page of the VS Code extension: script and style in the folder `assets` beside this
module are made of client-vscode/webview (`npm run exported`), with the words of every language. The session is data in
`<script type="application/json">` elements, which no browser runs, and the script turns texts into text nodes and
Markdown into elements, and parses nothing as HTML. The policy in the page's head allows exactly this script and this
style (by their hashes), images that are in the page itself, and nothing else: whatever a message holds, nothing of it
runs and nothing is fetched.

A message stands in the page once, however many logs have it: it has a number, and a log is runs of numbers behind what
it shares with the log it branches off. So messages are the same exactly if their numbers are. They come in blocks of
`BLOCK`, each an element of its own, which the script parses when it needs one of them.

The same session gives the same bytes. What no browser would show is not written: a page has at most `MOST_CHARACTERS`.
"""

from __future__ import annotations

import html
import json
import pkgutil
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b, sha256
from typing import Any, Final

from msgspec import Struct

from timeleap.errors import TooLargeError
from timeleap.features.transfer.exhibit import Exhibit, Strand
from timeleap.features.transfer_losses import ExportLoss
from timeleap.message_text import span_name
from timeleap.sessions.logs import state_after_lines
from timeleap.sessions.shapes import Checkpoint, set_members
from timeleap.storage.log_values import LogState
from timeleap.storage.reader import LogReader
from timeleap.storage.record import encode_quickly

MOST_FILES: Final = 100  # that are named for one checkpoint
BLOCK: Final = 64  # messages
MANY_CHARACTERS: Final = 100 << 20
MOST_CHARACTERS: Final = 512 << 20
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_UNSAFE = re.compile("[<>&\u2028\u2029]")
_CLOSING: Final = "</script>\n"
_BLOCK_END: Final = f"]{_CLOSING}"


def write_page(exhibit: Exhibit) -> Iterator[str]:
    """The page, piece by piece; what is read of the session is read on the way, and nothing of it is kept. What could
    not be read is told in the page, too; that the page is hard to open, in `exhibit.losses`.

    Raises:
        TooLargeError: No browser would open it.
    """
    size = 0
    for piece in _pieces(exhibit):
        size += len(piece)
        if size > MOST_CHARACTERS:
            message = f"the page would have more than {MOST_CHARACTERS >> 20} MiB, which browsers do not open"
            raise TooLargeError(f"{message}; write native or markdown", limit="bytes", maximum=MOST_CHARACTERS)
        yield piece
    if size > MANY_CHARACTERS:
        message = f"the page has {size >> 20} MiB: browsers need long to open it, or cannot"
        exhibit.losses.append(ExportLoss("size", message))


def _pieces(exhibit: Exhibit) -> Iterator[str]:
    style, script = asset("page.min.css"), asset("page.min.js")
    title = html.escape(exhibit.title or exhibit.session_id)
    yield filled(asset("page.html"), {"policy": _policy(style, script), "title": title, "style": style})
    pool = _Pool(single=not exhibit.timelines)
    branches = _branches(exhibit)
    runs: list[list[list[int]]] = []
    for branch in branches:
        runs.append([])
        yield from pool.take(branch.strand, branch.shared.messages, runs[-1])
    yield pool.end()
    yield f"{_opening('session')}{safe_json(_facts(exhibit, branches, runs))}{_CLOSING}"
    yield f'<script type="module">{script}</script>\n</body>\n</html>\n'


@cache
def asset(name: str) -> str:
    # By the module's loader, which may have kept it: another version's files can be there by now.
    found = pkgutil.get_data("timeleap.features.transfer", f"assets/{name}")
    assert found is not None
    return found.decode()


def _policy(style: str, script: str) -> str:
    """The Content-Security-Policy of a page with exactly this style and script."""
    return (
        f"default-src 'none'; script-src '{_fingerprint(script)}'; style-src '{_fingerprint(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its `{{names}}` replaced; values are not looked at for names in turn."""
    return _PLACE.sub(lambda place: values[place[1]], template)


def safe_json(value: object) -> str:
    """JSON that means the same inside a `<script>` element: none of its characters can end one, or begin a comment."""
    try:
        text = encode_quickly(value).decode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, which no file in UTF-8 can hold
        text = json.dumps(value, separators=(",", ":"))
    # Outside of strings JSON has none of these, so they can be written as escapes wherever they are.
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _opening(name: str) -> str:
    return f'<script type="application/json" id="{name}">'


def _fingerprint(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"


class _Branch(Struct, frozen=True):
    """A log, and what it shares with the one it branches off, which is the `parent`-th of all."""

    strand: Strand
    parent: int | None = None
    shared: LogState = LogState()


def _branches(exhibit: Exhibit) -> list[_Branch]:
    """The present, then the timelines, newest first; each branches off the one before it with which it shares most."""
    found = [_Branch(exhibit.live)]
    for strand in reversed(exhibit.timelines):
        parent, lines = 0, strand.common_lines(exhibit.live)
        for place, branch in enumerate(found):
            # Of the logs that branch off a second log, only those that leave it where this log does can share more with
            # this log than the second log does: so it is compared with few of them.
            leaves_there = branch.parent == parent and branch.shared.lines == lines
            if leaves_there and (more := strand.common_lines(branch.strand)) > lines:
                parent, lines = place, more
        found.append(_Branch(strand, parent, state_after_lines(strand.log, lines)))
    return found


class _Pool:
    """The messages of all logs, each once.

    Args:
        single: There is only one log: no message is looked up among the earlier ones.
    """

    def __init__(self, *, single: bool) -> None:
        self._count = 0
        self._known: dict[bytes, int] | None = None if single else {}

    def take(self, strand: Strand, start: int, runs: list[list[int]]) -> Iterator[str]:
        """The messages of a log from `start` on, as far as they are not in the page; their numbers go to `runs`, as
        pairs of a first number and how many follow each other. In the place of a damaged message stands null."""
        expected = start
        for said in strand.messages(start):
            for _ in range(expected, said.index):
                yield self._put("null", runs)
            yield self._put(safe_json(said.record), runs)
            expected = said.index + 1
        for _ in range(expected, strand.log.state.messages):
            yield self._put("null", runs)

    def end(self) -> str:
        """The closing of the last block, if it is still open."""
        return _BLOCK_END if self._count % BLOCK else ""

    def _put(self, text: str, runs: list[list[int]]) -> str:
        number = new = self._count
        if self._known is not None:
            number = self._known.setdefault(blake2b(text.encode("utf-8"), digest_size=16).digest(), new)
        if runs and sum(runs[-1]) == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
        if number != new:
            return ""
        self._count += 1
        before = f"{_opening(f'messages-{number // BLOCK}')}[" if number % BLOCK == 0 else ","
        return f"{before}{text}{'' if self._count % BLOCK else _BLOCK_END}"


def _facts(exhibit: Exhibit, branches: Sequence[_Branch], runs: Sequence[list[list[int]]]) -> dict[str, Any]:
    prompts: dict[str, int] = {}
    logs = [_log(exhibit, branch, own, prompts) for branch, own in zip(branches, runs, strict=True)]
    session = {
        "id": exhibit.session_id,
        "title": exhibit.title,
        "createdAt": exhibit.created_at,
        "updatedAt": exhibit.updated_at,
        "parent": exhibit.parent.session_id if exhibit.parent else None,
    }
    lost = [*exhibit.lost, *(loss for branch in branches for loss in branch.strand.lost)]
    return {"session": session, "block": BLOCK, "prompts": list(prompts), "logs": logs, "losses": lost}


def _log(exhibit: Exhibit, branch: _Branch, runs: list[list[int]], prompts: dict[str, int]) -> dict[str, Any]:
    strand = branch.strand
    prompt = strand.system_prompt
    begun = branch.shared
    shared = {"messages": begun.messages, "checkpoints": begun.checkpoints, "usages": begun.usages}
    return {
        "id": strand.timeline_id,
        "reason": strand.reason,
        "createdAt": strand.created_at,
        "from": None if branch.parent is None else {"log": branch.parent, **shared},
        "runs": runs,
        "checkpoints": [_checkpoint(*marked) for marked in exhibit.with_files(strand, begun.checkpoints)],
        "usages": _usages(strand.log, begun.usages),
        "tokens": strand.log.state.token_count_with_pending,
        "systemPrompt": None if prompt is None else prompts.setdefault(prompt, len(prompts)),
    }


def _checkpoint(checkpoint: Checkpoint, files: Sequence[tuple[str, str]]) -> dict[str, Any]:
    summary = checkpoint.summary
    said, failed = span_name(summary) or None, summary and summary.get("errors")
    more = set_members(label=checkpoint.label, createdAt=checkpoint.created_at, happened=said, failed=failed)
    if files:
        more |= {"files": [f"{kind}: {path}" for kind, path in files[:MOST_FILES]], "changed": len(files)}
    return {"id": checkpoint.id, **more, "messages": checkpoint.message_count, "tokens": checkpoint.token_count}


def _usages(log: LogReader, start: int) -> list[list[int]]:
    lines = (log.line_of_usage(ordinal) for ordinal in range(start, log.state.usages))
    entries = (log.entries(line, line + 1)[0] for line in lines)
    return [[entry.state.messages, entry.value] for entry in entries]
