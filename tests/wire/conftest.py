from __future__ import annotations

from tests.support.fixtures import *  # noqa: F403
