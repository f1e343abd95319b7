"""The cases of `tests/wire/test_replace_message.py` that need one window, with a server in this process: its lines are measured."""

from tests.wire.test_replace_message import *  # noqa: F403
