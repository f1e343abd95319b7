"""The goals of performance, as data: each row asks one question, and a benchmark answers it with `judge(key, ...)`.

Numbers and limits live here alone: the benchmarks, CI and `docs/performance.md` take them from this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Sense = Literal["at least", "at most"]
Unit = Literal["times", "ms", "s", "MB", "KiB", "bytes"]
Possible = Literal["edge", "limit"]


@dataclass(frozen=True)
class Row:
    """One goal.

    Attributes:
        key: The row's number, and the part of it where it has several ("5-langgraph").
        question: What is measured.
        peer: What it is measured against, in the same run; empty for a row in seconds or bytes.
        must: The limit that a measurement may not miss by more than its own noise.
        aim: The value that is wanted.
        share_of: Of a row whose must depends on what a Python process can reach on the machine: `must` and `aim` are shares
            of the speed of that process in the same run, between 0 and 1. The ratio to the peer is shown for comparison.
        sense: `at least` so many times as fast as the peer, or `at most` so many times its time (or so much, with a unit).
        unit: `times` for a ratio.
        profile: Where the time goes, of a row that misses its must, in words; the numbers are measured (`parts.py`).
        ci: Whether CI judges it too. Only rows that hold, take seconds and need no more than `make setup` has installed.
    """

    key: str
    question: str
    peer: str
    must: float
    aim: float
    sense: Sense = "at least"
    unit: Unit = "times"
    profile: str = ""
    ci: bool = False
    share_of: Possible | None = None

    @property
    def number(self) -> int:
        """The row's number, without its part."""
        return int(self.key.partition("-")[0])

    def met_by(self, value: float) -> bool:
        """True if a value, in the row's unit or a share, is as good as the must."""
        return value >= self.must if self.sense == "at least" else value <= self.must


KIMI: Final = "kimi-cli in process, not synced"
SHADOW: Final = "`git add -A` and commit in a shadow repository"
INSERT: Final = "bare psycopg INSERT with COMMIT"
MOST: Final[Sense] = "at most"
OF_EDGE: Final = 0.80
OF_LIMIT: Final = 0.60
"""Shares of what is possible in the same run: behind our protocol edge, or for the least that a process can do."""

APPEND: Final = (
    "the message is decoded once and encoded once, looked at by the structs that scanning uses, and goes to the disk in plain"
    " calls, without a task or a future; what is left is Python's own steps, each of which the table gives its purpose, and"
    " the objects that grow with a message. The guarantees themselves are cheap in one straight function for one session"
    " (`least.py --guarded`); what ours does beyond it is for many sessions, clients, processes and failures at a time"
)
APPEND_SHORT: Final = "append, session of up to 200 messages"
FRAMEWORKS: Final = (
    "as in row 1, on a machine that the peers' commits keep busy: the least takes longer there, too; what these take is for"
    " their file system to say"
)
REQUEST: Final = (
    "the frame, its params, order, the reply, the log; the pipe, two switches between processes, the client"
)
REVERT: Final = (
    "copying the half that stays and syncing the copy is most of it, and the limit; it is compared with its checksums"
    " meanwhile. The timeline of before is the old file itself, under a second name"
)
PAGE: Final = (
    "the models are dumped within one process, by a library in Rust; a page goes through a pipe, as the least process's does:"
    " that reads and sends pieces of the log as they are, and cuts nothing out"
)

ROWS: Final[tuple[Row, ...]] = (
    Row("1", "append, written before the reply, one at a time", KIMI, OF_EDGE, 0.9, profile=APPEND, share_of="edge"),
    Row(
        "2",
        "append, written before the reply, 64 in flight",
        KIMI,
        OF_EDGE,
        0.9,
        share_of="edge",
        profile="what arrives in one read, about 30, is one look, one write and one write of the index, and is answered from the"
        " step that wrote it; of the rest as row 1",
    ),
    Row(
        "3",
        "append, synced before the reply, 64 in flight",
        KIMI,
        OF_EDGE,
        0.9,
        share_of="edge",
        profile="as row 2, with a sync for all that wait, in a thread, so that the loop reads on meanwhile",
    ),
    Row(
        "4",
        "append, synced before the reply, one at a time",
        "bare write + fdatasync",
        2.5,
        1.5,
        MOST,
        profile="as row 1, with a sync, and a turn of the loop in which others may join it; the way to a thread and back only"
        " where the disk has been slow",
    ),
    Row(
        "5-openai-agents",
        APPEND_SHORT,
        "openai-agents SQLiteSession",
        OF_EDGE,
        0.9,
        share_of="edge",
        profile=FRAMEWORKS,
    ),
    Row(
        "5-google-adk",
        APPEND_SHORT,
        "google-adk SqliteSessionService",
        OF_EDGE,
        0.9,
        share_of="edge",
        profile=FRAMEWORKS,
    ),
    Row(
        "5-langgraph",
        APPEND_SHORT,
        "langgraph SqliteSaver",
        OF_EDGE,
        0.9,
        share_of="edge",
        profile=FRAMEWORKS,
    ),
    Row(
        "6",
        "open 100 000 messages by their index",
        "kimi-cli's restore",
        1_000,
        10_000,
        profile="it takes as long with 1 000 messages: it is the first open of a server, whose reply tells of the newest 50"
        " checkpoints and of what happened after each, which is half of it: their messages, 0.8 MB, are read, compared with"
        " their checksums and decoded once; lock, index, journal and small files are looked at, and each step runs for the"
        " first time, when it takes longer than later (row 7 is a session with nothing in it, row 8 a server that has opened"
        " one)",
    ),
    Row("7", "first `session/open` of a small session in a fresh server", "", 15, 5, MOST, "ms"),
    Row("8", "open 1 000 000 messages", "open 1 000 messages", 2, 1.2, MOST),
    Row(
        "9",
        "revert 10 000 messages to the middle, synced, the old log kept",
        "kimi-cli's, not synced",
        OF_LIMIT,
        0.8,
        share_of="limit",
        profile=REVERT,
    ),
    Row("10", "a 1 KB request, one at a time", "bare pygls echo", 10, 16, profile=REQUEST),
    Row(
        "10-64",
        "a 1 KB request, 64 in flight",
        "bare pygls echo",
        20,
        35,
        profile="as one at a time; the pipe is shared by those in flight",
    ),
    Row("11", "a page of 1 000 messages (1 MB)", "dumping 1 000 models", OF_LIMIT, 0.8, profile=PAGE, share_of="limit"),
    Row("12", "open 50 000 messages whose index is lost", "reading the file", 1.5, 0.6, MOST),
    Row("13", "cold start, to the reply to `initialize`", "bare pygls server", 0.6, 0.4, MOST, ci=True),
    Row("13-memory", "memory of a message that nobody looks at", "", 1, 1, MOST, "bytes"),
    # Where a bare pygls server takes 0.4 s these are less than 0.25 and 0.10 s.
    Row("14", "one command: `timeleap append ID text`", "cold start of a bare pygls server", 0.5, 0.3, MOST),
    Row("15", "`from timeleap.client import SyncTimeleap`", "cold start of a bare pygls server", 0.25, 0.15, MOST),
    Row("15-version", "`timeleap --version`", "`python -c pass`", 2, 1.2, MOST, ci=True),
    Row("16", "writer's processor time of an append, 20 windows, one at a time", "no windows", 2, 1.3, MOST, ci=True),
    Row("16-64", "writer's processor time of an append, 20 windows, 64 in flight", "no windows", 2, 1.3, MOST, ci=True),
    Row("17", "reply in one process to notification in another, 95th percentile", "", 5, 2, MOST, "ms", ci=True),
    Row("18", "undo a revert of 100 000 messages", "copy + sync of the file", 1.5, 1.1, MOST),
    Row(
        "19",
        "revert 100 000 messages to the middle",
        "copy + sync of the half kept",
        1.3,
        1.1,
        MOST,
        profile="of 130 ms for 227 MB the copy takes 54; its sync 60, in which it is compared with its checksums (48); the"
        " requests that go and the checkpoints of the reply 6; the index, the journal, the renames and their syncs 8",
    ),
    Row("20", "search a word in 100 000 messages", "`grep -c` of the file", 3, 1.5, MOST),
    Row("21", "memory of a fresh server", "bare pygls server", 1.1, 0.8, MOST, ci=True),
    Row("21-session", "memory of each further open session", "", 0.2, 0.2, MOST, "MB", ci=True),
    Row("22", "first snapshot of 50 000 files in a packed repository", "", 1.5, 0.9, MOST, "s"),
    Row("22-shadow", "first snapshot of 50 000 files in a packed repository", SHADOW, 10, 20),
    Row("22-disk", "disk that the first snapshot of 50 000 files takes", SHADOW, 0.125, 0.1, MOST),
    Row("23", "snapshot of 50 000 files none of which changed", "", 0.5, 0.4, MOST, "s"),
    Row("23-status", "snapshot of 50 000 files none of which changed", "`git status`", 1.3, 1, MOST),
    Row("24", "snapshot of 50 000 files ten of which changed", "", 0.7, 0.4, MOST, "s"),
    Row("25", "dry run of going back ten of 50 000 files", "", 0.6, 0.4, MOST, "s"),
    Row("26", "append to another session while snapshots of 50 000 files are taken", "no snapshots", 1.5, 1.1, MOST),
    Row("26-most", "append while snapshots of 50 000 files are taken, 95th percentile", "", 10, 2, MOST, "ms"),
    # Git itself needs longer for 500 000 files than the seconds wanted of 50 000: what those are of its `status`, 0.23 s.
    Row("27-shadow", "first snapshot of 500 000 files in a packed repository", SHADOW, 10, 20),
    Row("27-disk", "disk that the first snapshot of 500 000 files takes", SHADOW, 0.125, 0.1, MOST),
    Row("27-none", "snapshot of 500 000 files none of which changed", "`git status`", 1.3, 1, MOST),
    Row("27-ten", "snapshot of 500 000 files ten of which changed", "`git status`", 3, 1.7, MOST),
    Row("27-dry", "dry run of going back ten of 500 000 files", "`git status`", 2.6, 1.7, MOST),
    Row(
        "27-append",
        "append to another session while snapshots of 500 000 files are taken",
        "no snapshots",
        1.5,
        1.1,
        MOST,
    ),
    Row("27-append-most", "append while snapshots of 500 000 files are taken, 95th percentile", "", 10, 2, MOST, "ms"),
    Row("28", "first look at 1 000 sessions of Claude Code, for each gigabyte", "", 70, 60, MOST, "s"),
    Row("28-lists", "`bridge/list` and `session/list` meanwhile, 95th percentile", "", 2, 0.5, MOST, "s"),
    Row("29", "a later look at 1 000 sessions none of which changed", "", 1, 0.5, MOST, "s"),
    Row("30", "line written by an agent to notification of its mirror, 95th percentile", "", 300, 100, MOST, "ms"),
    Row("31", "`timeleap hook` after a tool", "", 80, 60, MOST, "ms"),
    Row(
        "32",
        "start of `timeleap mcp` to its list of tools",
        "",
        1,
        0.8,
        MOST,
        "s",
        profile="nearly all of it the imports of the SDK: pydantic, starlette, httpx, 0.95 s of the processor",
    ),
    Row(
        "33",
        "a model's search in a workspace of 100 000 messages, 95th percentile",
        "",
        1,
        0.5,
        MOST,
        "s",
        profile="the sessions are not open: the log of each of the twenty, 400 MB in all, is opened and looked through",
    ),
    Row("34", "load of a Claude session of 50 MB by its SDK's store", "`json.loads` of its lines", 2, 1.5, MOST),
    Row("35", "append of a batch of 20 Claude entries, synced, over the SDK's store in memory", "", 5, 3, MOST, "ms"),
    Row("36", "resume of Claude Code", "with the SDK's store in memory", 1.1, 1.05, MOST),
    Row(
        "37",
        "turn of Claude Code with two shell calls, hooks on, of a model that takes 2 s for an answer",
        "hooks off",
        1.03,
        1.01,
        MOST,
    ),
    Row(
        "38",
        "append to a store in PostgreSQL, committed before the reply, one at a time",
        INSERT,
        3,
        2,
        MOST,
        profile="one statement in one round trip, which is a transaction; where the disk commits fast, it takes as long as the"
        " bare one, and the rest is the server's, whose code is cold after each wait",
    ),
    Row(
        "39",
        "append to a store in PostgreSQL, committed before the reply, 64 in flight",
        INSERT,
        5,
        10,
        profile="what waits goes together, in one statement, while the event loop reads what the next one is for; where the"
        " disk commits fast, most of it is what an append to files takes, too",
    ),
    Row("40", "reply of one process to notification in another by PostgreSQL, 95th percentile", "", 10, 5, MOST, "ms"),
    Row("41", "a page of 1 000 messages from a store in PostgreSQL", "from a store of files", 3, 1.5, MOST),
    Row("42", "revert 100 000 short messages in PostgreSQL to the middle", "1 000 messages", 2, 1.5, MOST),
    Row("42-growth", "growth of the database by a revert of 100 000 messages", "", 64, 16, MOST, "KiB"),
    Row(
        "43",
        "memory of a server with 100 000 messages of PostgreSQL open",
        "with a store of files",
        1.5,
        1.2,
        MOST,
        profile="psycopg, libpq and its connections take 13 MB, and what the fetch of the log has used 2 MB",
    ),
    Row("44", "promotion of a standby until all of four processes at work have written again", "", 5, 1, MOST, "s"),
    Row("45", "steps of an agent's turns (checkpoints, messages, token counts), one at a time", KIMI, 1, 2),
    Row("45-64", "the same, 64 in flight", KIMI, 1.5, 3),
    Row("46", "disk that keeping agents' sessions takes", "the sessions' own files", 1.15, 1.01, MOST),
    Row("46-ended", "disk that sessions take which the agent has deleted", "the files, as they were", 0.25, 0.2, MOST),
    Row(
        "47",
        "a watcher of 1 000 sessions in which nothing changes, of the processor for each second",
        "",
        1,
        0.3,
        MOST,
        "ms",
    ),
    Row("47-memory", "memory of a watcher of 1 000 sessions in which nothing changes", "", 60, 55, MOST, "MB"),
    Row("48", "memory that reading a session of Claude Code of a gigabyte takes", "", 64, 32, MOST, "MB"),
    Row("48-lines", "memory that reading a session of 500 000 short lines takes", "", 64, 48, MOST, "MB"),
)

BY_KEY: Final = {row.key: row for row in ROWS}
