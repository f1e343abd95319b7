#!/usr/bin/env python3
"""A Timeleap client with nothing but Python's standard library: one JSON object per line in, one per line out.

    python examples/stdlib_client.py                  a session in a temporary store
    python examples/stdlib_client.py FOLDER           in a store that stays

It opens a session, batches a turn, shows that a stale head is refused and that a repeated request is not done twice.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from typing import Any


class TimeleapError(Exception):
    """An error reply; `kind` names it, `data` has what a program needs."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.kind: str = error["data"]["kind"]
        self.data: dict[str, Any] = error["data"]


class Client:
    """One server, one request at a time; notifications are kept in `notifications` as they come."""

    def __init__(self, home: str) -> None:
        self._server = subprocess.Popen(
            ["timeleap", "serve", "--home", home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._ids = itertools.count(1)
        self.notifications: list[dict[str, Any]] = []

    def request(self, method: str, **params: Any) -> Any:
        """Send one request, wait for its reply, return its result."""
        number = next(self._ids)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self._server.stdout is not None
        for line in self._server.stdout:
            message = json.loads(line)
            if message.get("id") != number:
                self.notifications.append(message)
            elif "error" in message:
                raise TimeleapError(message["error"])
            else:
                return message["result"]
        raise ConnectionError("the server went away")

    def notify(self, method: str) -> None:
        """Send a notification; there is no reply."""
        self._send({"jsonrpc": "2.0", "method": method})

    def close(self) -> int:
        """Say goodbye and return the server's exit code."""
        self.request("shutdown")
        self.notify("exit")
        self._server.communicate()
        return self._server.returncode

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message, ensure_ascii=False) + "\n")
        self._server.stdin.flush()


def main(home: str) -> int:
    """Walk through a session and print each step."""
    client = Client(home)
    server = client.request("initialize", clientInfo={"name": "stdlib-client"})["serverInfo"]
    client.notify("initialized")
    print(f"Speaking to {server['name']} {server['version']}")

    session = client.request("session/open", title="From the standard library")
    session_id, first_head = session["sessionId"], session["head"]

    turn = [
        {"role": "user", "content": "What is in data.csv? 数据"},
        {"role": "assistant", "content": [{"type": "text", "text": "Three columns and 120 rows."}]},
    ]
    appended = client.request("context/appendMessage", sessionId=session_id, messages=turn, requestId="turn-1")
    print(f"Appended {appended['messageCount']} messages; nothing is lost even if the power fails now")

    again = client.request("context/appendMessage", sessionId=session_id, messages=turn, requestId="turn-1")
    print(
        f"Sent once more with the same request id: duplicate={again['duplicate']}, still {again['messageCount']} messages"
    )

    try:
        client.request("context/clear", sessionId=session_id, expectedHead=first_head)
    except TimeleapError as error:
        print(f"A clear that expects the old head is refused: {error.kind}")

    approval = client.request("session/setAutoApprove", sessionId=session_id, action="run shell command", enabled=True)
    print(f"Approved without asking from now on: {', '.join(approval['approval']['autoApproveActions'])}")
    print(f"Told meanwhile: {', '.join(each['params']['kind'] for each in client.notifications)}")
    return client.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(folder))
