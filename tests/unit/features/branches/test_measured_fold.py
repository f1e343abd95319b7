"""The cases of `tests/wire/test_fold.py` that need one window, with a server in this process: its lines are measured."""

from tests.wire.test_fold import *  # noqa: F403

del test_in_the_attached_window_as_in_the_owners  # noqa: F821
