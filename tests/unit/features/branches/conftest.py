"""A server in this process, for cases over the wire whose lines are to be measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from unittest import mock

import pytest
from tests.support.measured import MeasuredLaunch, in_environment
from tests.support.server import Server

from timeleap.cli import serve


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    launch = MeasuredLaunch(tmp_path_factory.mktemp("measured") / "home", "lsp")
    # Signals are the process's; only its main thread may ask for them.
    with in_environment(launch), mock.patch.object(serve, "_signals", return_value=nullcontext()):
        server = Server(launch)
        server.initialize()
        try:
            yield server
            assert server.finish() == 0
        finally:
            server.dispose()
