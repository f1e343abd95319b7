"""The `timeleap mcp` process: its command line, and what it runs until the standard input ends."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from timeleap.log_output import take_standard_error
from timeleap_agents.mcp import methods
from timeleap_agents.mcp.opened_sessions import OpenedSessions
from timeleap_agents.mcp.resources import Resources
from timeleap_agents.mcp.secret_masks import SecretMask
from timeleap_agents.mcp.toolbox import Toolbox
from timeleap_client import RawTimeleap

_MISUSED: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the input ends; returns the exit code.

    `argv`: the arguments after `mcp`; those of the process where None.
    """
    options = _parse(sys.argv[1:] if argv is None else argv)
    if find_spec("mcp") is None or find_spec("kingfisher_sdk") is None:
        sys.stderr.write("timeleap mcp needs the extra timeleap[mcp]: pip install 'timeleap[mcp]'\n")
        return _MISUSED
    take_standard_error()
    from timeleap_agents.mcp.sdk_server import SdkServer

    sessions = OpenedSessions(
        lambda: RawTimeleap(home=options.home, options={"approvals": "ask"}, name="timeleap-mcp"),
        methods.callable_with(options.allow),
        options.session,
        options.workspace,
        SecretMask(),
    )

    async def serve() -> None:
        try:
            await SdkServer(Toolbox(sessions, options.allow), Resources(sessions)).run()
        finally:
            await sessions.close()

    asyncio.run(serve())
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the arguments; a wrong one ends the process with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="timeleap mcp",
        description="Offer the conversations of a store to a model, over the Model Context Protocol on standard input and "
        "output. Reads only, unless --allow names tools that change something.",
    )
    parser.add_argument("--home", type=Path, metavar="DIR", help="directory of the store")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="the session that is meant where a tool names none")
    which.add_argument(
        "--workspace",
        type=Path,
        metavar="DIR",
        default=Path(),
        help="its newest session is meant (default: this folder)",
    )
    parser.add_argument(
        "--allow",
        metavar="NAME,...",
        action="append",
        default=[],
        help=f"tools that change something: {', '.join(methods.CHANGING)}. With rewind you declare that the agent's loop "
        "delivers pending D-Mails",
    )
    options = parser.parse_args(argv)
    names = [name for given in options.allow for name in map(str.strip, given.split(",")) if name]
    for name in names:
        if name not in methods.CHANGING:
            parser.error(f"--allow: there is no tool {name}: {', '.join(methods.CHANGING)}")
    options.allow = frozenset(names)
    try:
        options.workspace = Path(os.path.realpath(options.workspace.expanduser()))
    except RuntimeError:
        parser.error(f"--workspace: there is no such home directory: {options.workspace}")
    except FileNotFoundError:
        parser.error("the directory that this was started in is gone: name another with --workspace")
    return options
