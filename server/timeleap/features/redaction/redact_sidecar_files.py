"""Redaction of the sidecar files of a log.

Those with a form of their own keep it. Of the requests that were made nothing is left in which a guess could be tried:
neither fingerprints of their params, nor heads of the log as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from timeleap.errors import StorageFailureError
from timeleap.features.redaction.jsonedit import Token, is_json
from timeleap.features.redaction.redactor import RedactedText, Redactor
from timeleap.sessions import files
from timeleap.sessions.meta import REQUESTS_REDACTED
from timeleap.sessions.session_files import AUDIT_NAME, REQUESTS_NAME, STATE_NAME, classify
from timeleap.sessions.stored_response import HIGHEST

Json = dict[str, Any]

MAX_FILE: Final = 1 << 30
_FINGERPRINT: Final = re.compile(rb'("_tl":\{(?:[^{}"]|"[^"\\]*")*?"h":")[0-9a-f]{16}(?=")')
"""Of a request, in records that are damaged or in quarantine."""
_KEPT_FINGERPRINT: Final = re.compile(rb'("(?:h|head)"\s*:\s*")[^"\\]*(?=")')
"""The same in a damaged file of ours that was kept aside."""
_META_FIXED: Final = frozenset(
    (
        *("version", "uid", "createdAt", "epoch", "rotation", "autoCheckpoint", "inheritedLines", "parent", "undo"),
        "requestsOf",
    )
)
_OWN_FIELD: Final = re.compile(r'"field":"\w+"')
"""In an entry of the audit whose field has a name of ours: behind a colon stands what an action is called."""
_IDENTITY: Final = frozenset(("checkpointUid", "fromSessionId", "h", "m", "timelineId", "chain", "reason", "createdAt"))
_SEAL_FIXED: Final = frozenset(("mac", "changedAt"))
"""Of a seal: what it covers does not change when the name of the client that asked for it does."""


def redacted_meta(members: Mapping[str, Any], redactor: Redactor) -> tuple[Json, RedactedText]:
    """The members of `timeleap.json` without it, and without the fingerprints of requests."""
    done = redactor.json(files.encode_document(dict(members)).decode(), _meta_form)
    after: Json = json.loads(done.text)
    after[REQUESTS_REDACTED] = HIGHEST  # all there are: who next looks at them notes the number of the newest
    if isinstance(after.get("createdBy"), dict):
        after["createdBy"]["h"] = ""
    if isinstance(after.get("journal"), dict):
        forget = forgetting(redactor)
        after["journal"]["requests"] = [
            forget(request) if isinstance(request, dict) else request
            for request in after["journal"].get("requests", [])
        ]
    return after, done


def forgetting(redactor: Redactor) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Redaction of a stored request: nothing is left to compare a guess with, neither the fingerprint of its params nor
    the heads around it, which are the log's."""

    def change(request: Mapping[str, Any]) -> Mapping[str, Any]:
        after: Json = json.loads(redactor.json(json.dumps(dict(request)), _request_form).text)
        after["h"] = ""
        if isinstance(after.get("v"), dict) and "head" in after["v"]:
            after["v"]["head"] = ""
        after.pop("b", None)
        after.pop("n", None)  # what listeners were told is not told again
        return after

    return change


def redacted_file(path: Path, redactor: Redactor) -> tuple[bytes, RedactedText, bytes]:
    """A file redacted, the text redacted in it, and its present content."""
    before = read_whole(path)
    if classify(path.name)[0].kind == "damaged":
        after, done = redacted_bytes(redactor, before)
        return _KEPT_FINGERPRINT.sub(rb"\1", after), done, before
    if not redactor.needle.may_be_in(before):
        return before, RedactedText(""), before
    if path.name == STATE_NAME and is_json(text := before.decode("utf-8", "surrogateescape")):
        done = redactor.json(text, _state_form)
        return done.text.encode("utf-8", "surrogateescape"), done, before
    if path.name in (REQUESTS_NAME, AUDIT_NAME):
        return *_redacted_lines(before, redactor), before
    return *redacted_bytes(redactor, before), before


def _redacted_lines(data: bytes, redactor: Redactor) -> tuple[bytes, RedactedText]:
    lines, total = [], RedactedText("")
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        form = _audit_form if _OWN_FIELD.search(line) else _request_form
        done = redactor.json(line, form) if is_json(line) else redactor.text(line)
        lines.append(done.text)
        total.occurrences += done.occurrences
        total.kept += done.kept
    return "\n".join(lines).encode("utf-8", "surrogateescape"), total


def redacted_bytes(redactor: Redactor, data: bytes) -> tuple[bytes, RedactedText]:
    done = redactor.text(data.decode("utf-8", "surrogateescape"))
    after = done.text.encode("utf-8", "surrogateescape")
    return _FINGERPRINT.sub(rb"\1", after) if done.occurrences else after, done


def read_whole(path: Path) -> bytes:
    try:
        return files.read_bytes(path, MAX_FILE)
    except ValueError as error:
        what = f"cannot redact {path.name}: it is {error}"
        raise StorageFailureError(what, path=str(path), errno="EFBIG", retryable=False) from None


def _meta_form(token: Token) -> bool:
    path = token.path
    if token.key or not token.string or path[0] in _META_FIXED:
        return True
    if path[0] == "seals":
        return path[-1] in _SEAL_FIXED
    return path[-1] in _IDENTITY and "extra" not in path and "v" not in path


def _state_form(token: Token) -> bool:
    return token.key or not token.string


def _request_form(token: Token) -> bool:
    return token.key or not token.string or token.path in (("h",), ("m",), ("time",))


def _audit_form(token: Token) -> bool:
    return _request_form(token) or token.path == ("field",)
