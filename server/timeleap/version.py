"""The version of this distribution; the build takes it from here."""

from __future__ import annotations

__version__ = "0.1.0"
