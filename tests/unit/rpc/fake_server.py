"""The protocol edge on the standard streams with a service that does what its params say; run as a script.

`python fake_server.py` serves; `FakeService` is used in-process, too.
"""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from typing import Any

import msgspec

from timeleap.errors import InvalidInputError, StorageFailureError


class FakeService:
    """Answers with what it was asked; `session/setTitle`'s title and `session/isApproved`'s action are orders."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.release = asyncio.Event()
        self.hold = False
        self.clients: list[Any] = []
        self.calls: list[Any] = []

    async def initialize(self, client: Any, options: Any) -> list[str]:
        self.clients.append(client)
        if "slow" in options:
            await self.release.wait()
        if options.get("home") == "unusable":
            raise StorageFailureError("cannot use the home", path="unusable", errno="EACCES")
        if options.get("durability", "disk") not in ("disk", "os"):
            raise InvalidInputError("durability must be disk or os", errors=[])
        return [f"unknown option {name}" for name in options if name.startswith("x")]

    def capabilities(self) -> dict[str, Any]:
        return {}

    async def handle(self, method: str, params: Any, call: Any) -> Any:
        self.calls.append(call)
        order = getattr(params, "action", None) or getattr(params, "title", None) or ""
        self.log.append(("begin", method, order))
        try:
            return await self._do(order, method, params, call)
        finally:
            self.log.append(("end", method, order))

    def begin(self, method: str, params: Any, call: Any, _: Any) -> Any:
        return self.handle(method, params, call)

    async def _do(self, order: str, method: str, params: Any, call: Any) -> Any:
        word, _, argument = order.partition(":")
        if word == "wait" or self.hold:
            await self.release.wait()
        elif word == "linger":  # at work when the input ends, and until there is such a file
            while not (call.client._closing and (not argument or os.path.exists(argument))):
                await asyncio.sleep(0.001)
        elif word == "release":
            self.release.set()
        elif word == "lose":
            call.client.connection_lost(None)
            await self.release.wait()
        elif word == "notify":
            call.client.notify("context/didChange", {"sessionId": argument})
        elif word == "ask":
            return await call.client.request("context/summarize", {"n": 1}, timeout=float(argument or 60))
        elif word == "raw":
            return {"spliced": msgspec.Raw(argument.encode())}
        elif word == "surrogate":
            return {"text": "\ud83d", "raw": msgspec.Raw(b'{"a": 1}')}
        elif word == "set":
            return {"value": {1, 2, object()}}
        elif word == "big":
            return "x" * int(argument)
        elif word == "fail":
            raise RuntimeError(argument)
        elif word == "oserror":
            raise OSError(28, "No space left on device", "somewhere")
        elif word == "odd":
            raise InvalidInputError("odd details", errors=[], detail=object())
        elif word == "stray":
            asyncio.get_running_loop().call_soon(int, argument)  # raises ValueError outside any request
        elif word == "print":
            print("stray output")
            sys.stdout.flush()
            os.write(1, b"more stray output\n")
            subprocess.run([sys.executable, "-c", "print('from a child'); print(repr(input()))"], check=False)
        elif word == "progress" and call.progress is not None:
            call.progress("half way", 50)
            await asyncio.to_thread(call.progress, "from a thread", 60)
        return params.to_wire()

    async def disconnect(self, client: Any) -> None:
        self.log.append(("disconnect",))

    async def aclose(self) -> None:
        self.log.append(("aclose",))


if __name__ == "__main__":
    from timeleap.cli import serve
    from timeleap.log_output import take_standard_error
    from timeleap.rpc import stdio

    serve.PATIENCE = float(os.environ.get("FAKE_PATIENCE", serve.PATIENCE))
    options = serve.parse(sys.argv[1:], os.environ)
    descriptors = stdio.claim()
    serve.configure_log(options.log_level, options.log_file, take_standard_error(and_output=True))
    sys.exit(serve.run(functools.cache(FakeService), descriptors))
