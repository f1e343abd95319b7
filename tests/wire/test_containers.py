"""Servers where containers put them: other users, no home directory, volumes of others, a file system without modes.

Where the machine lets nobody make namespaces (`unshare`), what they change is simulated: the environment without a home,
a directory for sockets for each server.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.fixtures import StartServer
from tests.support.server import Launch, Message, Server, runtime_directory
from tests.support.session import Session
from tests.support.waits import with_waits

from timeleap.attach import attachment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are a matter of Linux")

UID: Final = "54321"
OTHER_USER: Final = ("unshare", "--user", f"--map-user={UID}", f"--map-group={UID}")
ROOT_APART: Final = ("unshare", "--user", "--map-root-user", "--mount", "--uts", "--propagation", "private")
HOME_VARIABLES: Final = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "TIMELEAP_KEY_FILE")


@functools.cache
def possible(wrapper: tuple[str, ...]) -> bool:
    """True if this machine makes such namespaces."""
    return shutil.which("unshare") is not None and subprocess.run([*wrapper, "true"], check=False).returncode == 0


def without_home(*given: str) -> tuple[str, ...]:
    """A wrapper for a process whose user is in no database and has no home, but for the variables in `given`."""
    unset = [part for name in HOME_VARIABLES for part in ("-u", name)]
    if possible(OTHER_USER):
        return (*OTHER_USER, "env", *unset, *given)
    # Python looks for the home in the user database, which it cannot open with this.
    return ("env", *unset, *given, "PYTHONPATH=" + str(Path(__file__).parent.parent / "support" / "nobody"))


Serve = Callable[..., Server]


@pytest.fixture
def serve(start_at: StartServer) -> Serve:
    """Start a server in a wrapper, handshake done: `serve(home, wrapper=..., VARIABLE=...)`."""

    def start(
        home: Path, *, wrapper: tuple[str, ...] = (), home_argument: bool = True, fresh: bool = True, **env: str
    ) -> Server:
        server = start_at(home, "ndjson", wrapper=wrapper, home_argument=home_argument, env=env, fresh=fresh)
        server.initialize()
        return server

    return start


def run(home: Path, wrapper: tuple[str, ...], *args: str) -> subprocess.CompletedProcess[str]:
    launch = Launch(home, "ndjson", wrapper=wrapper)
    command = [*wrapper, sys.executable, "-m", "timeleap", *args]
    return subprocess.run(command, env=launch.environment(), capture_output=True, text=True, check=False, timeout=120)


def works(server: Server, name: str = "s") -> None:
    """Most of what changes a session, and its deletion."""
    session = Session.open(server, name)
    session.say("one")
    session.checkpoint()
    session.say("two")
    session.call("context/revertTo", checkpointId=0)
    session.call("context/undo")
    session.call("session/setTitle", title="t")
    server.call("session/fork", sessionId=name, newSessionId=f"{name}-2")
    server.call("session/list")
    assert session.texts() == ["one", "two"]
    session.call("session/close")
    server.call("session/delete", sessionId=name)
    server.call("session/undelete", sessionId=name)
    server.call("session/delete", sessionId=name)
    server.call("session/purge", olderThan=0)


# no home directory


HOMES: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "empty": ("HOME=",),
    "root": ("HOME=/",),
    "relative": ("HOME=here", "XDG_CONFIG_HOME=here", "XDG_CACHE_HOME=../there"),
    "absent": ("HOME=/nonexistent/home",),
    "of another": ("HOME=/proc/1",),
    "unwritable": ("HOME=/nonexistent", "XDG_CONFIG_HOME=/proc", "XDG_CACHE_HOME=/proc/sys"),
    "no temporaries": ("TMPDIR=/nonexistent", "XDG_RUNTIME_DIR=/nonexistent"),
}


@pytest.mark.parametrize(
    "given",
    [pytest.param(HOMES[name], id=name, marks=() if name in ("none", "root") else pytest.mark.long) for name in HOMES],
)
def test_a_store_that_was_named_needs_no_home_directory(serve: Serve, home: Path, given: tuple[str, ...]) -> None:
    before = {path for path in Path.cwd().iterdir() if path.name in ("~", "here")}
    server = serve(home, wrapper=without_home(*given))
    works(server)
    session = Session.open(server, "approved")
    if given == ():
        error = server.refuse("session/setYolo", sessionId="approved", yolo=True)
        assert "TIMELEAP_KEY_FILE" in error["message"], error
        assert error["data"]["kind"] == "storageFailure"
    session.say("goes on")
    assert server.finish() == 0
    assert {path for path in Path.cwd().iterdir() if path.name in ("~", "here")} == before


def test_what_needs_a_home_directory_says_so_in_a_sentence(start_at: StartServer, home: Path) -> None:
    wrapper = (*without_home(), "env", "-u", "TIMELEAP_HOME")
    server = start_at(home, "ndjson", wrapper=wrapper, home_argument=False, fresh=True)
    error = server.refuse("initialize")
    assert "TIMELEAP_HOME" in error["message"] and error["data"]["kind"] == "storageFailure", error
    for command in (["sessions"], ["config", "show"], ["config", "set", "durability", "os"], ["log", "~/session"]):
        done = run(home, wrapper, *command)
        assert done.returncode != 0, done
        assert "home directory" in done.stderr and "Traceback" not in done.stderr, done
    assert run(home, (*wrapper, "env", f"TIMELEAP_HOME={home}"), "sessions").returncode == 0
    assert run(home, (*wrapper, "env", f"TIMELEAP_HOME={home}"), "agents").returncode in (0, 1, 2)


def test_a_client_may_name_the_store_where_there_is_no_home_directory(start_at: StartServer, home: Path) -> None:
    server = start_at(home, "ndjson", wrapper=without_home(), home_argument=False, fresh=True)
    server.initialize(initializationOptions={"home": str(home)})
    Session.open(server, "s").say("kept")
    assert (home / "sessions" / "s").is_dir()


def test_the_variables_that_the_page_about_containers_names_are_enough(
    serve: Serve, home: Path, tmp_path: Path
) -> None:
    """docs/containers.md: with these three, approvals and attaching work as well."""
    settings = tmp_path / "settings"
    settings.mkdir(mode=0o700)
    given = (
        f"TIMELEAP_KEY_FILE={settings}/key",
        f"TIMELEAP_HOME={home}",
        f"TIMELEAP_RUNTIME_DIR={runtime_directory()}/c",
    )
    one = serve(home, wrapper=without_home(*given), home_argument=False)
    session = Session.open(one, "s")
    session.call("session/setYolo", yolo=True)
    assert (settings / "key").is_file()
    other = serve(home, wrapper=without_home(*given), home_argument=False)
    Session.open(other, "s").say("from the other")
    assert session.texts() == ["from the other"]


# volumes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("names", [(), ("lost+found",)])
def test_a_volume_of_another_user_will_do_if_we_may_write_there(
    serve: Serve, start_at: StartServer, tmp_path: Path, names: tuple[str, ...]
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    for name in names:
        (volume / name).mkdir(mode=0o700)
    as_other = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    for each in (volume, *volume.iterdir()):
        os.chown(each, 0, int(UID))
    volume.chmod(0o2775)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    user_directory = tmp_path / "user"
    user_directory.mkdir()
    os.chown(user_directory, int(UID), int(UID))
    runtime = {"XDG_RUNTIME_DIR": "", "TMPDIR": str(user_directory)}
    server = serve(volume, wrapper=as_other, **runtime)
    works(server)
    assert server.finish() == 0
    shutil.rmtree(volume)
    volume.mkdir(mode=0o755)
    for name in names:
        (volume / name).mkdir(mode=0o700)
    refused = start_at(volume, "ndjson", wrapper=as_other, env=runtime, fresh=True).refuse("initialize")
    assert f"chown {UID} {volume}" in refused["message"], refused
    assert "belongs to user 0" in refused["message"]
    below = start_at(volume / "store", "ndjson", wrapper=as_other, env=runtime, fresh=True).refuse("initialize")
    assert f"install -d -o {UID} {volume / 'store'}`" in below["message"], below
    assert "chown" not in below["message"], "what is above may be the home of others, or of all"


def refusing(*calls: str, errno: str) -> tuple[str, ...]:
    injected = [part for call in calls for part in ("-e", f"inject={call}:error={errno}")]
    return ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "signal=none", *injected)


@pytest.mark.long
@pytest.mark.parametrize("errno", ["EPERM", "EOPNOTSUPP", "EROFS"])
def test_a_mount_that_takes_no_modes_and_no_links(serve: Serve, home: Path, errno: str) -> None:
    home.mkdir()
    (home / "lost+found").mkdir()
    calls = ["chmod", "fchmod", "fchmodat", "chown", "fchown", "utimensat"]
    if errno != "EROFS":  # which says nothing of links
        calls += ["link", "linkat"]
    server = serve(home, wrapper=refusing(*calls, errno=errno))
    works(server)
    assert server.finish() == 0


@pytest.mark.long
def test_a_mount_that_lets_no_file_be_removed_fails_no_end(serve: Serve, home: Path) -> None:
    server = serve(home, wrapper=refusing("unlink", "unlinkat", errno="EBUSY"))
    Session.open(server).say("one")
    assert server.finish() == 0


# two containers


def refusal_of(server: Server) -> Message:
    return server.refuse("session/open", sessionId="s")


@pytest.mark.parametrize("renamed", [False, True])
def test_two_containers_on_one_volume(serve: Serve, home: Path, renamed: bool) -> None:
    """Each has a /tmp of its own: the second is told what to do; with a directory for sockets that both see it attaches."""
    # Not below `tmp_path`, where the name of a socket would be too long.
    private, shared = (runtime_directory() / f"{name}-{int(renamed)}" for name in ("private", "shared"))
    private.mkdir(mode=0o700)
    shared.mkdir(mode=0o700)

    def contained(name: str) -> tuple[str, ...]:
        if not possible(ROOT_APART):
            (own := runtime_directory() / f"{name}-{int(renamed)}").mkdir(mode=0o700, exist_ok=True)
            return ("env", f"TMPDIR={own}")
        rename = f"hostname {name} && " if renamed else ""
        script = f'{rename}mount -t tmpfs tmpfs {private} && TMPDIR={private} exec "$@"'
        return (*ROOT_APART, "sh", "-c", script, "sh")

    def window(name: str, **env: str) -> Server:
        return serve(home, wrapper=contained(name), XDG_RUNTIME_DIR="", **env)

    one = window("one")
    Session.open(one, "s").say("first")
    message = refusal_of(window("other"))["message"]
    assert "TIMELEAP_RUNTIME_DIR" in message and "Error" not in message, message
    assert one.finish() == 0
    one = window("one", TIMELEAP_RUNTIME_DIR=str(shared))
    Session.open(one, "s").say("second")
    other = Session.open(window("other", TIMELEAP_RUNTIME_DIR=str(shared)), "s")
    other.say("third")
    assert other.texts() == ["first", "second", "third"]


def test_a_lock_is_not_taken_because_its_owner_is_nobody_here(serve: Serve, home: Path) -> None:
    """In another container the process id of the owner is that of nobody."""
    soon = with_waits({(attachment, "PATIENCE"): 0.5})
    one = serve(home, fresh=False)
    session = Session.open(one, "s")
    session.say("kept")
    lock = Path(session.path) / ".context.jsonl.lock"
    record = json.loads(lock.read_bytes())
    lock.write_bytes(json.dumps({**record, "pid": 2**22 - 1}).encode())
    other = Session.open(serve(home, fresh=False), "s")
    other.say("through its owner")
    session.say("still ours")
    assert session.texts() == ["kept", "through its owner", "still ours"]
    lock.write_bytes(b'{"mode":"hold"}')
    error = serve(home, fresh=False, **soon).refuse("session/open", sessionId="s")
    assert error["data"]["kind"] == "sessionLocked"


# standard streams


CLOSED: Final = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"]


@pytest.mark.parametrize(
    "streams", [pytest.param(one, marks=() if one == "2>&-" else pytest.mark.long) for one in CLOSED]
)
def test_nothing_is_printed_into_a_store_where_a_standard_stream_is_closed(home: Path, streams: str) -> None:
    environment: dict[str, Any] = {**Launch(home, "ndjson").environment(), "TIMELEAP_LOG_LEVEL": "debug"}
    requests = b"".join(
        b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' % (number, method, params)
        for number, (method, params) in enumerate(
            [
                (b"initialize", b"{}"),
                (b"session/open", b'{"sessionId":"s"}'),
                (b"context/appendMessage", b'{"sessionId":"s","message":{"role":"user","content":"x"}}'),
                (b"context/checkpoint", b'{"sessionId":"s"}'),
                (b"context/clear", b'{"sessionId":"s"}'),
            ]
        )
    )
    commands = [["serve"], ["sessions"], ["log", "s"], ["title", "s", "t"], ["export", "s", str(home.parent / "s.md")]]
    for command in commands:
        program = [sys.executable, "-m", "timeleap", command[0], "--home", str(home), *command[1:]]
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {streams}', "sh", *program],
            input=requests,
            capture_output=True,
            env=environment,
            check=False,
            timeout=120,
        )
        assert b"Traceback" not in done.stderr, (command, done.stderr)
    for path in home.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"timeleap." not in data or path.name.startswith("."), (path, data)
            assert b"Traceback" not in data
