"""A database that an earlier commit wrote, with sessions in the middle of things, and what that commit answered.

`tests/fixtures/database_2026_11.sql.gz` is its dump. `python -m tests.support.old_database FOLDER` wrote it, by the server
of the commit laid out in FOLDER (`git archive`); it is not to be written again by a later one.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from tests.support.machines import machines
from tests.support.postgresql import programs, shared_cluster
from tests.support.server import Message
from tests.support.session import Session, user

ARCHIVE = Path(__file__).resolve().parents[1] / "fixtures" / "database_2026_11.sql.gz"
_ANSWERS = "-- answers: "


def unpack(url: str) -> list[Message]:
    """Lay the tables out in an empty database; returns the requests that it was asked, each with its answer."""
    dump = gzip.decompress(ARCHIVE.read_bytes()).decode()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(dump.encode())
    (line,) = [line for line in dump.splitlines() if line.startswith(_ANSWERS)]
    found: list[Message] = json.loads(line.removeprefix(_ANSWERS))
    return found


def write(folder: Path, target: Path = ARCHIVE) -> None:
    """Write the database with the server in a folder, which is killed with all sessions open."""
    paths = os.pathsep.join(str(folder / name) for name in ("server", "protocol", "protocol/python"))
    url = shared_cluster().new_database()
    asked: list[Message] = []

    def do(session: Session, method: str, **params: Any) -> None:
        params["requestId"] = f"{method} of {session.id}"
        answer = session.call(method, **params)
        asked.append({"session": session.id, "method": method, "params": params, "answer": answer})

    with tempfile.TemporaryDirectory(prefix="timeleap-") as temporary, machines(Path(temporary)) as serve:
        server = serve(url, env={"PYTHONPATH": paths})
        undone = Session.open(server, "undone")
        for text in ("one", "two", "three"):
            undone.checkpoint()
            undone.say(text)
        do(undone, "context/revertTo", checkpointId=2)
        do(undone, "context/clear")
        do(undone, "context/undo")
        do(undone, "session/setTitle", title="in the middle")
        waiting = Session.open(server, "waiting")
        waiting.checkpoint()
        do(waiting, "context/appendMessage", message=user("kept"))
        do(waiting, "context/sendDMail", checkpointId=0, message="a note for the past")
        do(waiting, "context/setPins", pins=["never forget"])
        server.kill()
    folder_of_programs = programs()
    assert folder_of_programs is not None
    command = [str(folder_of_programs / "pg_dump"), "--inserts", "--no-owner", "--no-acl", "--schema=public", url]
    dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    left_out = ("--", "\\", "SET ", "SELECT pg_catalog.set_config", "CREATE SCHEMA", "COMMENT ON SCHEMA")
    kept = [line for line in dump.splitlines() if line and not line.startswith(left_out)]
    text = "\n".join([*kept, _ANSWERS + json.dumps(asked)]) + "\n"
    target.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    assert not ARCHIVE.exists(), "a database of earlier code cannot be written by today's"
    write(Path(sys.argv[1]))
