"""The least a Python process can do for a request: read a frame, decode it, do its one step, reply. Run as a script.

Nothing of what a server is for is in it: no index, no checksum, no lock, no request ids, no order of sessions, no checks
of params, no notification, no other request while it works. It says what ratio to a peer cannot be passed over a pipe.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import msgspec

HEADER: Final = b"Content-Length: "
HEAD: Final = "1.0.123456789-0123abcd"


class Params(msgspec.Struct):
    """What the three methods take."""

    message: dict[str, Any] | None = None
    limit: int = 0


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


def serve(log: str, *, synced: bool) -> None:
    """Answer until the input ends.

    Args:
        log: The file that is appended to, and that pages are read from: of `limit` lines at its beginning.
        synced: Reply to what one read brought after one `fdatasync`.
    """
    file = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    sync = getattr(os, "fdatasync", os.fsync)
    decode, encode = msgspec.json.Decoder(Request).decode, msgspec.json.Encoder().encode
    rest = b""
    bytes(4 << 20)  # glibc keeps twice the largest block that was freed: else each page costs a thousand page faults
    while data := os.read(0, 1 << 20):
        data, at, replies, written = rest + data, 0, [], []
        while (end := data.find(b"\r\n\r\n", at)) >= 0:
            stop = end + 4 + int(data[at + len(HEADER) : end])
            if stop > len(data):
                break
            request = decode(data[end + 4 : stop])
            at = stop
            params = request.params
            if params.message is not None:
                written.append(encode(params.message))
                body = encode({"jsonrpc": "2.0", "id": request.id, "result": Result(HEAD, 1, 2)})
            elif params.limit:
                page = b",".join(os.pread(file, 64 << 20, 0).split(b"\n", params.limit)[: params.limit])
                body = b'{"jsonrpc":"2.0","id":%d,"result":{"messages":[%b]}}' % (request.id, page)
            else:
                body = encode({"jsonrpc": "2.0", "id": request.id, "result": {"approved": False}})
            replies.append(HEADER + b"%d\r\n\r\n" % len(body) + body)
        rest = data[at:]
        if written:
            os.write(file, b"\n".join([*written, b""]))
            if synced:
                sync(file)
        out = b"".join(replies)
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    serve(sys.argv[1], synced="--synced" in sys.argv)
