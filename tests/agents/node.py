"""Node.js 24, which the agents of the tests run on, with what it has compiled of them kept: they are programs of many MB."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

NODE: Final = Path(__file__).resolve().parents[2] / ".tools" / "node" / "node_modules" / "node" / "bin" / "node"
KEEPING: Final = {"NODE_COMPILE_CACHE": str(Path(tempfile.gettempdir(), "timeleap-tests-node"))}
