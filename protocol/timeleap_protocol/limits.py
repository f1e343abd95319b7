"""The numbers of the protocol, announced by `initialize` as `limits` where a client needs them.

Plain constants and nothing else: the edge reads them before any model exists.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_VERSION: Final = 1

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
MAX_DEPTH: Final = 128
"""Nesting of a message, counted from its own braces."""
MAX_IN_FLIGHT: Final = 1024
MAX_PAGE: Final = 1000
"""The largest `limit`, and the most entries a page has."""

LIMITS: Final[dict[str, int]] = {
    "maxFrameBytes": MAX_FRAME_BYTES,
    "maxMessageBytes": MAX_MESSAGE_BYTES,
    "maxDepth": MAX_DEPTH,
    "maxInFlight": MAX_IN_FLIGHT,
    "maxPage": MAX_PAGE,
}
"""What `initialize` announces."""

SESSION_ID_PATTERN: Final = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"
"""1 to 64 characters; the last one is not a dot."""

MAX_REQUEST_ID: Final = 64
MAX_QUERY: Final = 1000
"""Characters of what a search looks for."""
MAX_REDACTED_CHARACTERS: Final = 16_384
"""Of a value that is to be taken out: a private key is a few thousand."""
MAX_REPLACEMENT: Final = 200
MAX_REMEMBERED_REQUESTS: Final = 1000
"""Request ids a session remembers over a restart."""

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer every JSON implementation keeps exactly; larger ones are refused outside messages."""

MAX_SOURCE_KIND: Final = 64
MAX_SOURCE_KEY: Final = 4096
"""Characters of a session's `source`."""

MAX_PINS: Final = 100
MAX_PIN_CHARACTERS: Final = 2000

MAX_APPROVAL_ACTION: Final = 256
MAX_APPROVAL_TEXT: Final = 4096
"""Characters of a description, of a reason."""
MAX_TOOL_CALL_ID: Final = 1024
MAX_APPROVAL_DETAIL_BYTES: Final = 64 * 1024
"""Of `detail` as compact JSON in UTF-8."""
MAX_PENDING_APPROVALS: Final = 100
"""Of a session."""
DEFAULT_APPROVAL_TIMEOUT: Final = 600
"""Seconds."""

DEFAULT_MAX_FILE_BYTES: Final = 10 * 1024 * 1024
DEFAULT_MAX_FILES: Final = 200_000
MAX_FILE_ROOTS: Final = 16
"""Folders whose files a session keeps snapshots of."""
MAX_FILE_PATTERNS: Final = 1000
MAX_FILE_PART: Final = 16 * 1024 * 1024
"""Bytes of a file that one reply has."""
MAX_LISTED_PATHS: Final = 200
"""Paths of a conflict, a restore or a dry run."""
MAX_SKIPPED_FILES: Final = 1000
"""Of one snapshot, that are listed."""

PREVIEW_CHARACTERS: Final = 120
SUMMARY_CHECKPOINTS: Final = 50
"""The checkpoints a `ContextSummary` lists."""

DEFAULT_PAGE: Final = 100
DEFAULT_SESSION_PAGE: Final = 50
DEFAULT_PAGE_BYTES: Final = 4 * 1024 * 1024
DEFAULT_RESERVED_CONTEXT: Final = 50_000
DEFAULT_TRIGGER_RATIO: Final = 0.85
DEFAULT_PRESERVED_MESSAGES: Final = 2
DEFAULT_SUMMARIZER_TIMEOUT: Final = 300
DEFAULT_MAX_TIMELINES: Final = 50
DEFAULT_MAX_TIMELINE_BYTES: Final = 2 * 1024 * 1024 * 1024
