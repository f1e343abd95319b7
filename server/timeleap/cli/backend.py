"""The server behind a command: in its own process or a child, asked over the wire, gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Coroutine, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from timeleap import user_folders
from timeleap.cli.command import LATEST
from timeleap.cli.formatting import count, one_line
from timeleap.cli.terminal import Progress, Terminal, UsageError
from timeleap.json_value import Json
from timeleap_client.connection import Trace
from timeleap_client.errors import TimeleapRpcError
from timeleap_client.loop import LoopThread
from timeleap_client.notifications import RECONNECTED, Notification, Subscription
from timeleap_client.raw import RawTimeleap
from timeleap_protocol.limits import SESSION_ID_PATTERN
from timeleap_protocol.methods import REQUESTS, SERVER_NOTIFICATIONS

if TYPE_CHECKING:
    from timeleap.cli.local_server import LocalServer
    from timeleap_client.process import Launch

T = TypeVar("T")

LOSSES = ("linesLost", "logMissing", "otherLog")
"""Kinds of problems that are no damage of what is there."""
LOG_NAME = "context.jsonl"
_NO_LIMIT_WITHIN = 3600.0
"""Seconds without a sign of work after which even a long command gives up."""
_LONGEST_BURST = 1.0
_STALE = "No primary of the store answers: this is what a standby has, and it may lack the newest changes."
_FIRST_ONLY = frozenset({"from", "to", "checkpointUid"})
"""Params of lists that say where the first page begins and ends; a cursor says it for the others."""


def session_identity(name: str) -> Json:
    """A session as `session/open` takes it, from its id, or from a path to its directory or its `context.jsonl`.

    Empty for the newest session of this folder.
    """
    if name == LATEST and not Path(LOG_NAME).is_file():
        return {}
    if re.fullmatch(SESSION_ID_PATTERN, name) and not (name == LOG_NAME and Path(name).exists()):
        return {"sessionId": name}
    path = user_folders.absolute(name)
    if path.is_dir():
        return {"path": str(path.absolute())}
    if path.name == LOG_NAME and path.is_file():
        return {"path": str(path.absolute().parent)}
    if path.is_file():
        raise UsageError(f"{name} is no session: give its directory, or the {LOG_NAME} in it")
    if "/" in name or "\\" in name:
        raise UsageError(f"there is no session at {name}")
    # Not a valid id: the server says what an id looks like, in the same words everywhere.
    return {"sessionId": name}


async def _start_local(launch: Launch) -> LocalServer:
    from timeleap.cli.local_server import LocalServer

    return await LocalServer.start(launch)


class _LocalTimeleap(RawTimeleap):
    _start_server = staticmethod(_start_local)


class Backend:
    """A running server, for callers that block. Shows a progress bar where work takes over a second.

    Args:
        terminal: Where to show it.
        trace: Sees every message.
        name: What we are called.
        patience: Seconds to go on where the owner of a session does not answer: a person would rather be told.
        process: Whether the server gets a process of its own, which can be started again: it serves for long. One that
            is to write a log gets one, too.
        store: Where the sessions are; None leaves it to the server.
    """

    def __init__(
        self,
        terminal: Terminal,
        trace: Trace | None = None,
        name: str = "timeleap-cli",
        patience: float = 0.0,
        *,
        process: bool = False,
        store: str | None = None,
    ) -> None:
        self._terminal = terminal
        self._loop = LoopThread()
        process = process or not os.environ.keys().isdisjoint(("TIMELEAP_LOG_FILE", "TIMELEAP_LOG_LEVEL"))
        make = RawTimeleap if process else _LocalTimeleap
        self.client = make(home=terminal.home, store=store, name=name, trace=trace, patience=patience)

    def __enter__(self) -> Self:
        try:
            self._loop.run(self.client.start())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int | None:
        """End the server in good order; returns its exit code."""
        try:
            return self._loop.run(self.client.aclose())
        finally:
            self._loop.close()

    def call(self, method: str, params: Json | None = None, *, saying: str = "Working") -> Any:
        progress = Progress()
        row = REQUESTS.get(method)
        reports = row is not None and row.progress
        work = self.client.call(method, params, within=_NO_LIMIT_WITHIN, on_progress=progress.take if reports else None)
        result = self._terminal.wait(self._loop.submit(work), progress, saying)
        if isinstance(result, dict) and result.get("stale") is True:
            self._terminal.notice_once(_STALE, {"stale": True})  # a list in JSON lines has no place for it
        return result

    def open(self, session: str | Json, *, write: bool = False, tell_losses: bool = True) -> OpenSession:
        """Open a session that exists, by its name or its `session_identity`, and say what its log has lost.

        To read takes no lock: reading never stands in an agent's way, and works while one runs.
        """
        identity = session_identity(session) if isinstance(session, str) else session
        params = {**(identity or self._latest()), "create": False, "access": "write" if write else "readOnly"}
        opened = OpenSession(self, self.call("session/open", params, saying="Opening"))
        if tell_losses:
            for warning in opened.state["warnings"]:
                if warning["kind"] in LOSSES:
                    text = f"{opened.id}: {one_line(warning['message'], 2000)}. {accept_hint(opened.id)}"
                    self._terminal.notice_once(text, {"sessionId": opened.id, "kind": warning["kind"]})
        return opened

    def pages(self, method: str, params: Json, member: str) -> Iterator[Json]:
        """The entries of a list, page by page."""
        for page in self.whole_pages(method, params, first_only=_FIRST_ONLY):
            yield from page[member]

    def whole_pages(
        self, method: str, params: Json, *, first_only: frozenset[str] = frozenset(), saying: str = "Working"
    ) -> Iterator[Json]:
        """The pages of a list as they are; those after the first are asked for without the params of `first_only`."""
        page: Json = self.call(method, params, saying=saying)
        yield page
        params = {name: value for name, value in params.items() if name not in first_only}
        while "nextCursor" in page:
            page = self.call(method, {**params, "cursor": page["nextCursor"]}, saying=saying)
            yield page

    def wait(self, work: Coroutine[Any, Any, T], progress: Progress, saying: str) -> T:
        """The result of work of several requests."""
        return self._terminal.wait(self._loop.submit(work), progress, saying)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` without showing its progress."""
        return self._loop.run(work)

    def changes(self, session_id: str, pause: float = 0.0) -> Iterator[Notification]:
        """Notifications about a session from now on, `$/reconnected` as well.

        With a `pause` only the last of each burst: of those with less seconds between them, a second at most.
        """
        names = (*SERVER_NOTIFICATIONS, RECONNECTED)
        subscription = self.client.notifications(*names, session_id=session_id)
        return iter(lambda: self._loop.run(_last(subscription, pause)), None)

    def _latest(self) -> Json:
        """The newest session of this folder; where there is none, the newest one that belongs to no folder."""
        folder = Path.cwd()
        info = self.call("session/latest", {"workspace": folder.as_uri()})["session"]
        which = f"the newest session of {folder}"
        if info is None:
            sessions = self.pages("session/list", {"limit": 200}, "sessions")
            info = next((session for session in sessions if "workspace" not in session), None)
            which = "the newest session without a folder"
        if info is None:
            raise UsageError(
                f"no session was named, and {folder} has none. Usage: name a SESSION; timeleap sessions lists all"
            )
        self._terminal.notice(f"{info['sessionId']}: {which}", {"sessionId": info["sessionId"]})
        return {"sessionId": info["sessionId"]}


def accept_hint(session_id: str) -> str:
    """The command by which a person decides to go on with a log that has lost something."""
    return f"To go on with what is there: timeleap repair {shlex.quote(session_id)}"


def reading(
    terminal: Terminal, session: str, *, follow: bool = False, tell_losses: bool = True
) -> contextlib.AbstractContextManager[OpenSession]:
    return writing(terminal, session, dry_run=True, follow=follow, tell_losses=tell_losses)


@contextlib.contextmanager
def writing(
    terminal: Terminal, session: str, *, dry_run: bool = False, follow: bool = False, tell_losses: bool = True
) -> Generator[OpenSession]:
    """A session, open to be changed; or only to say what a change would do, or to `follow` its changes until Ctrl-C.
    A command that lists the losses itself has them not told at opening."""
    with Backend(terminal, process=follow) as backend:
        yield backend.open(session, write=not dry_run, tell_losses=tell_losses)


def read_state(terminal: Terminal, session: str, member: str) -> Json:
    """Read a member of a session's state, with the head."""
    with reading(terminal, session) as opened:
        state = opened.call("session/getState")
    return {"head": state["head"], member: state.get(member)}


def change_session(terminal: Terminal, session: str, method: str, **params: Any) -> Json:
    """The result of a method that changes a session; params that are None are sent, too."""
    with writing(terminal, session) as opened:
        result: Json = opened.backend.call(method, {"sessionId": opened.id, **params})
    return result


class OpenSession:
    def __init__(self, backend: Backend, state: Json) -> None:
        self.backend = backend
        self.state = state
        self.id: str = state["sessionId"]

    def call(self, method: str, *, saying: str = "Working", **params: Any) -> Json:
        """The result of a request on this session; params that are None are not sent."""
        result: Json = self.backend.call(method, {"sessionId": self.id, **given(**params)}, saying=saying)
        return result

    def pages(self, method: str, member: str, **params: Any) -> Iterator[Json]:
        """The entries of a list of this session; params that are None are not sent."""
        return self.backend.pages(method, {"sessionId": self.id, **given(**params)}, member)

    def newest(self, method: str, member: str, most: int, **params: Any) -> list[Json]:
        """The newest entries of a list of this session, oldest first."""
        entries = self.pages(method, member, **{**params, "order": "desc", "limit": min(most, 1000)})
        return list(itertools.islice(entries, most))[::-1]

    def timelines(self) -> Iterator[Json]:
        return self.pages("context/listTimelines", "timelines", limit=1000)

    def checkpoint(self, name: str, timeline: str | None = None) -> Json | None:
        """The checkpoint of that number, uid or label; None where it can only be the uid of another log."""
        number = name.removeprefix("#")
        number = number if number.isascii() and number.isdigit() else ""
        every = list(self.pages("context/listCheckpoints", "checkpoints", order="asc", limit=1000, timelineId=timeline))
        if number and (numbered := next((each for each in every if each["id"] == int(number)), None)):
            return numbered
        labelled = [checkpoint for checkpoint in every if name in {checkpoint["uid"], checkpoint.get("label")}]
        if len(labelled) > 1:
            numbers = ", ".join(f"#{checkpoint['id']}" for checkpoint in labelled)
            what = f"{count(len(labelled), 'checkpoint')} are called {one_line(name, 40)}"
            raise UsageError(f"{what}: name one of {numbers}")
        if number and not labelled:
            raise refusal(4002, "checkpointNotFound", f"there is no checkpoint #{number}")
        return labelled[0] if labelled else None

    def uid(self, checkpoint: str, timeline: str | None = None) -> str:
        """The uid of a `checkpoint`; where there is none it is taken for the uid of another log."""
        found = self.checkpoint(checkpoint, timeline)
        return checkpoint if found is None else str(found["uid"])


def given(**params: Any) -> Json:
    """Params without those that are None."""
    return {name: value for name, value in params.items() if value is not None}


def refusal(code: int, kind: str, message: str, **data: object) -> TimeleapRpcError:
    """An error that we find ourselves, as the server would say it."""
    return TimeleapRpcError(code, kind, message, {"kind": kind, "retryable": False, **data}, retryable=False)


async def _last(notifications: Subscription, pause: float) -> Notification | None:
    latest = await anext(notifications, None)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_BURST):
            while pause and latest is not None:
                following = await asyncio.wait_for(anext(notifications, None), pause)
                if following is None:
                    break
                latest = following
    return latest
