"""The least a Python process can do for a request: read a frame, decode it, do its one step, reply. Run as a script.

Nothing of what a server is for is in it: no index, no checksum, no lock, no request ids, no order of sessions, no checks
of params, no notification, no other request while it works. It says what ratio to a peer cannot be passed over a pipe.

With `--guarded` an append keeps the guarantees of ours, in straight Python for one session that is open, whose messages are
texts: request ids are known, the expected head is compared, nobody else may have written, each line has its checksum and
its index entry, which is written, too, and there is a notification before the reply, which has head and token count. It
says how far this interpreter gets with them.

With `--store=URL` what one read brought is appended to a log in a PostgreSQL database: by the statement that ours sends, which
changes and notifies the same, in one round trip; it is waited for, and committed, before the replies.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any, Final

import msgspec

try:
    from deflate import crc32  # pyright: ignore[reportMissingImports]
except ImportError:
    from zlib import crc32

HEADER: Final = b"Content-Length: "
PIECE: Final = 128 * 1024
"""Bytes of a page that are made at once."""
HEAD: Final = "1.0.123456789-0123abcd"


class Params(msgspec.Struct):
    """What the three methods take."""

    message: dict[str, Any] | None = None
    limit: int = 0
    requestId: str | None = None  # noqa: N815 - as on the wire
    expectedHead: str | None = None  # noqa: N815 - as on the wire


class Request(msgspec.Struct):
    """A request."""

    id: int
    method: str
    params: Params


class Result(msgspec.Struct):
    """What an append's reply tells."""

    head: str
    messageCount: int = 0  # noqa: N815 - as on the wire
    tokenCountWithPending: int = 0  # noqa: N815


class Guarded:
    """The end of a log, with what an append has to know and to leave behind."""

    def __init__(self, log: str, file: int) -> None:
        self.log, self.file = log, file
        self.index = os.open(f"{log}.idx", os.O_RDWR | os.O_CREAT)
        there = os.fstat(file)
        self.identity = there.st_dev, there.st_ino
        self.length, self.lines, self.characters, self.chain = there.st_size, 0, 0, 0
        self.first = 0  # of the lines whose entries are not written yet
        self.entries: list[bytes] = []
        self.known: dict[str, dict[str, Any]] = {}
        self.head = f"tp0kpc.0.{self.length}-00000000"

    def append(
        self, message: dict[str, Any], line: bytes, request_id: str | None, expected_head: str | None
    ) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Take a message in, whose line is given; returns what is told of it, None of a repeat, and its result."""
        if request_id in self.known:
            return None, self.known[request_id]
        if expected_head is not None and expected_head != self.head:
            raise ValueError("another head")
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role.startswith("_") or "_tl" in message:
            raise ValueError("no message")
        crc, length = crc32(line), len(line)
        self.characters += len(content) if isinstance(content, str) else 0
        self.chain = (self.chain * 0x9E3779B97F4A7C15 + crc * 0xC2B2AE3D27D4EB4F + length) & 0xFFFFFFFFFFFFFFFF
        entry = _ENTRY(
            self.length, length, crc, 1, 32, 17, length, self.lines + 1, 0, 0, 0, 0, self.characters, -1, self.chain
        )
        self.entries.append(entry + _CRC(crc32(entry)))
        self.length += length
        self.lines += 1
        self.head = head = f"tp0kpc.0.{self.length}-{self.chain & 0xFFFFFFFF:08x}"
        told: dict[str, Any] = {"sessionId": "s", "head": head, "kind": "messagesAppended", "cause": {}}
        told |= {"firstIndex": self.lines - 1, "count": 1}
        result: dict[str, Any] = {"head": head, "firstIndex": self.lines - 1, "messageCount": self.lines}
        result |= {"tokenCountWithPending": self.characters // 4, "shouldCompact": False}
        if request_id is not None:
            self.known[request_id] = result
        return told, result

    def write(self, lines: bytes, *, synced: bool) -> None:
        """Write what was taken in, if the log is as it was left; then its index entries."""
        there = os.lstat(self.log)
        if (there.st_dev, there.st_ino) != self.identity or there.st_size != self.length - len(lines):
            raise OSError("somebody else has written")
        os.write(self.file, lines)
        if os.lseek(self.file, 0, os.SEEK_CUR) != self.length:
            raise OSError("somebody else has written")
        if synced:
            getattr(os, "fdatasync", os.fsync)(self.file)
        os.pwrite(self.index, b"".join(self.entries), 64 + 80 * self.first)
        self.first = self.lines
        self.entries.clear()


class Stored:
    """The end of a log in a database that is a store."""

    def __init__(self, url: str) -> None:
        from timeleap_postgresql.database import CHANNEL, Database
        from timeleap_postgresql.migrations import VERSION
        from timeleap_postgresql.working_copy import APPEND

        self._connection, self._statement = Database(url).take(), APPEND
        self._connection.prepare(APPEND)
        self._connection.execute("INSERT INTO timeleap_session (id, folded, version) VALUES ('least', 'least', 0)")
        made = self._connection.execute(
            "INSERT INTO timeleap_log (session, name, length) VALUES ('least', 'context.jsonl', 0) RETURNING id"
        ).fetchall()
        self._connection.execute("UPDATE timeleap_session SET live = %s", [made[0][0]])
        self._schema, self._channel = b"%d" % VERSION, CHANNEL.encode()
        self._version = self._lines = self._length = 0

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def write(self, lines: bytes, count: int) -> None:
        """Append and commit so many lines, and what is told of them."""
        length = self._length + len(lines)
        numbers = self._version, self._lines + count, 0, length // 4, self._length, length
        told = [
            {"kind": "messagesAppended", "head": HEAD, "members": {"firstIndex": n, "count": 1}} for n in range(count)
        ]
        announced = _encode({"session": "least", "version": self._version + 1, "by": "0123abcd"})
        values = [self._schema, b"least", *(b"%d" % number for number in numbers), lines]
        self._connection.ask(
            self._statement, [*values, os.urandom(12).hex().encode(), _encode(told), self._channel, announced]
        )
        if not self._connection.answer().ntuples:
            raise OSError("somebody else has written")
        self._version, self._lines, self._length = self._version + 1, self._lines + count, length


def send_page(file: int, message_id: int) -> None:
    """Reply with all lines of a file, some of them at a time: they stay in the processor's cache, and are read while the
    next ones are made."""
    size = os.fstat(file).st_size
    begin, end = b'{"jsonrpc":"2.0","id":%d,"result":{"messages":[' % message_id, b"]}}"
    out, at = HEADER + b"%d\r\n\r\n%b" % (len(begin) + size - 1 + len(end), begin), 0
    while at < size:
        page = os.pread(file, PIECE, at)
        at += len(page)
        out += page.replace(b"\n", b",") if at < size else page[:-1].replace(b"\n", b",") + end
        while out:
            out = out[os.write(1, out) :]


_ENTRY: Final = struct.Struct("<QIIBHBqIIIqqqiQ").pack
_CRC: Final = struct.Struct("<I").pack
_encode: Final = msgspec.json.Encoder().encode


def serve(log: str, *, synced: bool, guarded: bool = False, store: str = "") -> None:
    """Answer until the input ends.

    Args:
        log: The file that is appended to; it is the page that is replied with where there is a `limit`.
        synced: Reply to what one read brought after one `fdatasync`.
        guarded: With the guarantees of an append.
        store: The URL of a database that is appended to in the file's place.
    """
    file = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    end = Guarded(log, file) if guarded else None
    stored = Stored(store) if store else None
    sync = getattr(os, "fdatasync", os.fsync)
    decode, encode = msgspec.json.Decoder(Request).decode, msgspec.json.Encoder().encode
    rest = b""
    bytes(4 << 20)  # glibc keeps twice the largest block that was freed: else each page costs a thousand page faults
    while data := os.read(0, 1 << 20):
        data, at, replies, written = rest + data, 0, [], []
        while (body_at := data.find(b"\r\n\r\n", at)) >= 0:
            stop = body_at + 4 + int(data[at + len(HEADER) : body_at])
            if stop > len(data):
                break
            request = decode(data[body_at + 4 : stop])
            at = stop
            params = request.params
            if params.message is not None and end is not None:
                line = encode(params.message)
                told, result = end.append(params.message, line + b"\n", params.requestId, params.expectedHead)
                body = encode({"jsonrpc": "2.0", "id": request.id, "result": result})
                if told is not None:
                    written.append(line)
                    notification = encode({"jsonrpc": "2.0", "method": "context/didChange", "params": told})
                    replies.append(HEADER + b"%d\r\n\r\n" % len(notification) + notification)
            elif params.message is not None:
                written.append(encode(params.message))
                body = encode({"jsonrpc": "2.0", "id": request.id, "result": Result(HEAD, 1, 2)})
            elif params.limit:
                send_page(file, request.id)
                continue
            else:
                body = encode({"jsonrpc": "2.0", "id": request.id, "result": {"approved": False}})
            replies.append(HEADER + b"%d\r\n\r\n" % len(body) + body)
        rest = data[at:]
        if written and end is not None:
            end.write(b"\n".join([*written, b""]), synced=synced)
        elif written and stored is not None:
            stored.write(b"\n".join([*written, b""]), len(written))
        elif written:
            os.write(file, b"\n".join([*written, b""]))
            if synced:
                sync(file)
        out = b"".join(replies)
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    urls = [argument.partition("=")[2] for argument in sys.argv if argument.startswith("--store=")]
    serve(sys.argv[1], synced="--synced" in sys.argv, guarded="--guarded" in sys.argv, store="".join(urls))
