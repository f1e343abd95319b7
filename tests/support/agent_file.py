"""A session file of another agent's program, as the tests write it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

CREATED = "2026-11-20T10:00:00.000Z"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One point, as PNG in base64."""
PICTURE_URL = f"data:image/png;base64,{PICTURE}"


class AgentFile:
    """Attributes:
    folder: Where the program keeps its sessions.
    workspace: The path of the folder that the session is about.
    path: The file; its directory is there.
    """

    def __init__(self, folder: Path, workspace: str, name: str | None = None) -> None:
        self.session_id = name or str(uuid.uuid4())
        self.folder, self.workspace = folder, workspace
        self.path = self.place()
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def place(self) -> Path:
        """Where the program keeps the session."""
        raise NotImplementedError

    def write_bytes(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def write(self, *records: Any) -> Any:
        self.write_bytes(b"".join(map(self.line, records)))

    def line(self, record: Any) -> bytes:
        return json.dumps(record).encode() + b"\n"

    def whole_records(self) -> list[dict[str, Any]]:
        """The records, without lines that are none."""
        found = []
        for line in self.path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
        return found
