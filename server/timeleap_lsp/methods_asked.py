"""Rows of the method table that are asked on behalf of an editor."""

from __future__ import annotations

from typing import Final

from timeleap_protocol.methods import REQUESTS

OPEN: Final = REQUESTS["session/open"]
CLOSE: Final = REQUESTS["session/close"]
LIST: Final = REQUESTS["session/list"]
FORK: Final = REQUESTS["session/fork"]
EXPORT: Final = REQUESTS["session/export"]
REPAIR: Final = REQUESTS["session/repair"]
DIFF: Final = REQUESTS["context/diff"]
REVERT: Final = REQUESTS["context/revertTo"]
UNDO: Final = REQUESTS["context/undo"]
REDO: Final = REQUESTS["context/redo"]
