"""Which program wrote a file, by what is in it: one whose sessions are imported, or another, which is then named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from timeleap.errors import CorruptedError, InvalidInputError
from timeleap.features.transfer.exhibit import IMPORTED
from timeleap.features.transfer.export_file import refused
from timeleap.features.transfer_losses import LossTally
from timeleap.sessions.documents.session_files import LOG_NAME, META_NAME
from timeleap.storage.durable import storage_errors
from timeleap_agents.mirrors import opencode_database
from timeleap_agents.mirrors.formats.claude_code import IN_TREE, STATE, TITLES
from timeleap_agents.mirrors.formats.conversion import BLOCK, JsonLines, begins_document, document, opened

OPENCODE: Final = "opencode"
SQLITE: Final = b"SQLite format 3\0"
LINES_LOOKED_AT: Final = 100_000
PACKED: Final = {
    b"\x28\xb5\x2f\xfd": "is packed with zstd: give it a name that ends in .zst, as Codex does, or unpack it first (zstd -d)",
    b"\x1f\x8b": "is packed with gzip: unpack it first (gunzip)",
    b"\xff\xfe": "is UTF-16, as a redirection of PowerShell writes it: make it UTF-8 first (iconv -f UTF-16 -t UTF-8)",
    b"\xfe\xff": "is UTF-16: make it UTF-8 first (iconv -f UTF-16 -t UTF-8)",
}
"""Beginnings of files that are in another form first, and what to do with them."""
SAVED_BY_GEMINI: Final = "Gemini CLI as its /chat save keeps it (the session itself is in the folder `chats`)"
LARGEST_DOCUMENT: Final = 64 << 20  # bytes

_NO_SESSIONS: Final = {
    "the list of what was typed into Claude Code": "its sessions are in the folder `projects`",
    "the list of what was typed into Codex": "its sessions are in the folder `sessions`",
    "the list of Codex's sessions": "they are in the folder `sessions`",
    "the list of what was typed into Gemini CLI": "its sessions are in the folder `chats`",
    "the journal that kimi-cli keeps for its web page": "the session itself is context.jsonl beside it",
    "the output of `codex exec --json`": "the session itself is in the folder `sessions`",
}
"""Files that programs keep beside their sessions, and where those are."""
_MEMBERS_OF_LISTS: Final = {
    "the list of what was typed into Claude Code": {"display", "pastedContents", "timestamp"},
    "the list of what was typed into Codex": {"session_id", "ts", "text"},
    "the list of Codex's sessions": {"id", "thread_name", "updated_at"},
}
"""Members by which their lines are known."""

_OF_CODEX: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_OF_OLD_CODEX: Final = frozenset({"message", "function_call", "function_call_output", "reasoning", "local_shell_call"})
_OF_PI: Final = frozenset({"compaction", "branch_summary", "custom_message", "model_change"})
_OF_SESSIONS: Final = frozenset({"uuid", "leafUuid", "sessionId"})
_OLDEST_CODEX: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"session"\s*:\s*\{')
_MARKDOWN: Final = re.compile(rb"\s*# aider chat started at ")
_LLM_HISTORY: Final = re.compile(rb"(?:TO LLM|LLM RESPONSE) \d{4}-")


def recognised(path: Path) -> str:
    """The format of what is in `path`, by the first record that tells it, whatever stands before that.

    Raises:
        InvalidInputError: It is none of those that can be imported.
        StorageFailureError: It cannot be read, or is neither a file nor a directory.
    """
    if path.is_dir():
        return _form_of_directory(path)
    if is_of_opencode(path):
        return "opencode"
    start = _beginning(path)
    if start.startswith(b"PK"):
        return "native"
    if _OLDEST_CODEX.match(start):
        return "codex"
    if begins_document(start):
        return _form_of_document(path, start)
    if (writer := _foreign_file(path, start)) is not None:
        raise _foreign(writer, path)
    maybe: str | None = None
    for record in _objects(path):
        if (writer := _foreign_record(record)) is not None:
            raise _foreign(writer, path)
        form, is_sure = _form_of(record)
        if form is not None and is_sure:
            return form
        maybe = maybe or form
    if maybe is not None:
        return maybe
    if (writer := _foreign_document(path, start)) is not None:
        raise _foreign(writer, path)
    raise _of_none()


def _form_of_directory(path: Path) -> str:
    if opencode_database.is_kept_in_files(path):
        raise _kept_in_files()
    return "kimi" if journal_in(path) is None else "kimi-code"


def _form_of_document(path: Path, start: bytes) -> str:
    """The form of a file that is one JSON document."""
    file = opened(path)
    try:
        with storage_errors(f"read {path.name}", path):
            found = document(file)
    finally:
        file.close()
    if found is not None and "sessionId" in found and isinstance(found.get("messages"), list):
        return "gemini"
    raise _of_none() if (writer := _foreign_document(path, start)) is None else _foreign(writer, path)


def _of_none() -> InvalidInputError:
    return refused(f"is of none of the forms that can be imported: {', '.join(IMPORTED)}; if it is, say which")


def journal_in(path: Path) -> Path | None:
    """The journal of the session of kimi-code whose directory is at `path`; None where it is no such directory."""
    journal = path / "agents" / "main" / "wire.jsonl"
    return journal if path.is_dir() and journal.is_file() else None


def log_of_kimi(path: Path) -> Path | None:
    """The log of the session of kimi-cli whose directory, or log, is at `path`; None where it is none, or one of ours.
    That program keeps a journal of events beside it, which begins with the version of its protocol."""
    log = path / LOG_NAME if path.is_dir() else path
    journal = log.with_name("wire.jsonl")
    if log.name != LOG_NAME or not log.is_file() or not journal.is_file() or log.with_name(META_NAME).exists():
        return None
    return log if any("protocol_version" in record for record in islice(_objects(journal), 1)) else None


def is_of_opencode(path: Path) -> bool:
    """True of a path that names a session of opencode, and of a database with its tables. Damage is told by who reads it."""
    if opencode_database.split(path) is not None and not path.exists():
        return True
    if not _beginning(path).startswith(SQLITE):
        return False
    try:
        return opencode_database.reading(path, opencode_database.tables) >= {"session", "message", "part"}
    except CorruptedError:
        return opencode_database.is_database(path.name)


def may_be_a_log(path: Path) -> bool:
    """True of an empty file, and of one with records that have a role."""
    return not _beginning(path).strip() or any(
        isinstance(role := record.get("role"), str) and _says_something(record, role) for record in _objects(path)
    )


def _kept_in_files() -> InvalidInputError:
    return refused(f"is a part of {opencode_database.KEPT_IN_FILES}; then import the session from that database")


def _foreign(writer: str, path: Path) -> InvalidInputError:
    if writer == OPENCODE:
        if opencode_database.is_kept_in_files(path):
            return _kept_in_files()
        return refused(
            "is a part of a session of opencode, or an export of one: import the session from its database, with the name "
            "~/.local/share/opencode/opencode.db/ses_..."
        )
    if writer in _NO_SESSIONS:
        return refused(f"is {writer}, which has no answers; {_NO_SESSIONS[writer]}")
    return refused(f"is a session of {writer}, which cannot be imported; of none of the forms that can")


def _beginning(path: Path) -> bytes:
    file = opened(path)
    try:
        with storage_errors(f"read {path.name}", path):
            return file.pread(0, BLOCK)
    finally:
        file.close()


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The records of the first lines."""
    file = opened(path)
    try:
        with storage_errors(f"read {path.name}", path):
            for number, line in enumerate(JsonLines(file, LossTally())):
                if number >= LINES_LOOKED_AT:
                    return
                if line.record is not None:
                    yield line.record
    finally:
        file.close()


def _form_of(record: dict[str, Any]) -> tuple[str | None, bool]:
    """The form that a record is of, and whether other programs write no such record."""
    kind, role = record.get("type"), record.get("role")
    kind = kind if isinstance(kind, str) else ""
    if "$set" in record or "$rewindTo" in record or {"sessionId", "projectHash"} <= record.keys():
        return "gemini", True
    if _is_of_gemini(record):
        return "gemini", False
    if _is_of_kimi_code(record, kind):
        return "kimi-code", kind != "metadata"
    if _is_of_codex(record, kind):
        return "codex", True
    if _is_of_pi(record, kind):
        return "pi", kind != "session"
    if kind == "file-history-snapshot":
        return "claude-code", True
    if _is_of_claude_code(record, kind):
        return "claude-code", kind in ("user", "assistant")
    if _is_of_old_codex(record, kind):
        return "codex", True
    return ("kimi" if isinstance(role, str) and not kind and _says_something(record, role) else None), True


def _says_something(record: dict[str, Any], role: str) -> bool:
    """True of a message that has words or calls where we look for them, and of a note of the program's."""
    return role.startswith("_") or not {"content", "tool_calls"}.isdisjoint(record)


def _is_of_kimi_code(record: dict[str, Any], kind: str) -> bool:
    if kind == "metadata":
        return "protocol_version" in record
    return kind.startswith("context.") and not {"agentId", "message", "event"}.isdisjoint(record)


def _is_of_claude_code(record: dict[str, Any], kind: str) -> bool:
    return (kind in IN_TREE or kind in STATE or kind in TITLES) and not _OF_SESSIONS.isdisjoint(record)


def _is_of_codex(record: dict[str, Any], kind: str) -> bool:
    return kind in _OF_CODEX and "payload" in record


def _is_of_old_codex(record: dict[str, Any], kind: str) -> bool:
    return (
        kind in _OF_OLD_CODEX
        or record.get("record_type") == "state"
        or {"id", "timestamp", "instructions"} <= set(record)
    )


def _is_of_pi(record: dict[str, Any], kind: str) -> bool:
    """True of the first line of a session of pi, and of an entry of it."""
    if kind == "session":
        return "cwd" in record and "timestamp" in record
    message = record.get("message")
    if kind == "message" and isinstance(message, dict):
        return {"role", "timestamp"} <= message.keys()
    return kind in _OF_PI and "id" in record and "parentId" in record


def _is_of_gemini(record: dict[str, Any]) -> bool:
    """True of a message of Gemini CLI."""
    said = record.get("type") in ("user", "gemini", "info", "error", "warning") and "content" in record
    return said and isinstance(record.get("id"), str) and "timestamp" in record and "parentId" not in record


def _foreign_file(path: Path, start: bytes) -> str | None:
    """The program that writes files that begin like this. Raises InvalidInputError for one that is packed, or empty."""
    for beginning, what_to_do in PACKED.items():
        if start.startswith(beginning):
            raise refused(what_to_do)
    if not start.strip(b"\0 \t\r\n"):
        raise refused("is empty: no session is in it")
    if start.startswith(SQLITE):
        return "a program that keeps its sessions in a database, as Cursor, goose and crush do"
    if _MARKDOWN.match(start) or _LLM_HISTORY.match(start):
        return "aider"
    return _foreign_document(path, start) if start.lstrip()[:1] == b"[" else None


def _foreign_record(record: dict[str, Any]) -> str | None:
    """The program whose record it is, where it is one whose sessions cannot be imported."""
    kind, message, content = record.get("type"), record.get("message"), record.get("content")
    names = record.keys()
    if (list_of := _of_list(record)) is not None:
        return list_of
    if kind in ("user", "assistant") and isinstance(message, dict) and "parts" in message and "content" not in message:
        return "qwen-code"
    if {"working_dir", "message_count"} <= names or (
        "created" in names and "role" in names and isinstance(content, list)
    ):
        return "goose"
    if str(record.get("id")).startswith(("msg_", "ses_", "prt_")) and not {
        "sessionID",
        "messageID",
        "projectID",
    }.isdisjoint(names):
        return OPENCODE
    if kind == "message" and isinstance(message, dict) and "parentId" in names and "timestamp" not in message:
        return "factory, or of a program like pi that times no message"
    if kind == "session_start":
        return "factory"
    if isinstance(kind, str) and kind.startswith(("session.", "user.", "assistant.")) and "data" in names:
        return "GitHub Copilot CLI"
    if (
        kind in ("system", "user", "assistant")
        and "content" in names
        and "message" not in names
        and "uuid" not in names
        and not _is_of_gemini(record)
    ):
        return "grok"
    if isinstance(record.get("role"), str) and isinstance(message, dict) and "content" in message:
        return "Cursor"
    return _foreign_object(record)


def _of_list(record: dict[str, Any]) -> str | None:
    """Recognise a line of a file that a program keeps beside its sessions."""
    kind, message = record.get("type"), record.get("message")
    if kind == "thread.started":
        return "the output of `codex exec --json`"
    if isinstance(message, dict) and {"type", "payload"} <= message.keys() and kind is None:
        return "the journal that kimi-cli keeps for its web page"
    return next((writer for writer, members in _MEMBERS_OF_LISTS.items() if members <= record.keys()), None)


def _foreign_object(found: dict[str, Any]) -> str | None:
    """The program whose whole session is one such object."""
    names = found.keys()
    if {"title", "mapping"} <= names:
        return "ChatGPT (an export)"
    if "chat_messages" in names:
        return "claude.ai (an export)"
    if {"sessionId", "history"} <= names and isinstance(found.get("history"), list):
        return "Continue"
    if str(found.get("id")).startswith("T-") and "messages" in names:
        return "Amp"
    if isinstance(found.get("history"), list) and "sessionId" not in names:
        return SAVED_BY_GEMINI
    if {"requests", "responderUsername"} <= names:
        return "GitHub Copilot Chat"
    if {"conversation", "messages"} <= names and "working_dir" in names:
        return "goose"
    return None


def _foreign_document(path: Path, start: bytes) -> str | None:
    """Recognise a file that is one JSON document on many lines, or a list."""
    if start.lstrip()[:1] not in (b"{", b"["):
        return None
    file = opened(path)
    try:
        size = file.status().size
        found = json.loads(file.pread(0, size)) if size <= LARGEST_DOCUMENT else None
    except (ValueError, RecursionError):
        return None
    finally:
        file.close()
    if isinstance(found, dict):
        return _foreign_record(found)
    first = found[0] if isinstance(found, list) and found else None
    if not isinstance(first, dict):
        return None
    if {"role", "parts"} <= first.keys():
        return SAVED_BY_GEMINI
    if {"sessionId", "messageId", "message"} <= first.keys():
        return "the list of what was typed into Gemini CLI"
    if {"role", "content"} <= first.keys():
        return "Cline, Roo Code or another program that keeps a list of messages"
    return _foreign_record(first)
