"""The cases of `tests/wire/test_merge.py` that need one window, with a server in this process: its lines are measured."""

from tests.wire.test_merge import *  # noqa: F403

del test_in_the_attached_window  # noqa: F821
