"""No text a client sends breaks the server, and no error repeats a long one: every string of every golden's params is
put to the test, with a NUL in it and far too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import Engine, with_store
from tests.support.framing import dumps
from tests.support.matching import at_least
from tests.support.mostly_long import mostly_long
from tests.support.server import Launch, Message, Server
from tests.support.session import Session, user

GOLDEN = Path(__file__).resolve().parents[2] / "protocol" / "golden"
METHODS = sorted(
    path.name for path in GOLDEN.iterdir() if path.name.startswith(("session.", "context.", "files.", "approval."))
)
STRANGE = {"a NUL": "a\0b", "a NUL in a path": "/tmp/a\0b", "far too long": "/" + "x" * 100_000}
LONGEST_ERROR = 5_000


@pytest.fixture(scope="module")
def store(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(Launch(with_store(tmp_path_factory.mktemp("echo") / "home", engine), "lsp"))
    running.initialize()
    yield running
    running.dispose()


def strings(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all strings in a JSON value, names of members included."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from strings(inner, (*place, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from strings(inner, (*place, at))


def put(value: Any, place: tuple[Any, ...], text: str) -> Any:
    if not place:
        return text
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[place[0]] = put(value[place[0]], place[1:], text)
    return changed


def requests(method: str) -> Iterator[tuple[str, Message]]:
    for path in sorted((GOLDEN / method).glob("*.json")):
        golden = json.loads(path.read_bytes())
        if isinstance(golden.get("params"), dict) and ("result" in golden or "error" in golden):
            yield golden["method"], golden["params"]


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("method", mostly_long(METHODS))
def test_a_strange_text_is_refused_in_few_words_or_kept(store: Server, method: str, strange: str) -> None:
    seen = set()
    session = None
    for name, params in requests(method):
        for place in strings(params):
            if (kind := tuple(part for part in place if isinstance(part, str))) in seen:
                continue
            seen.add(kind)
            session = session or with_history(store)  # what was refused has changed nothing
            if name == "approval/request":
                session.call("session/setAfk", afk=True)  # else it waits for a person
            real = {**params, "sessionId": session.id} if "sessionId" in params else params
            reply = store.start_with(name, put(real, place, STRANGE[strange])).reply()
            if "error" in reply:
                assert reply["error"]["code"] != -32603, (place, reply)
                assert len(dumps(reply)) < LONGEST_ERROR, (place, dumps(reply)[:1000])
                assert len(reply["error"]["message"]) <= 500
            else:
                session = None


def with_history(store: Server) -> Session:
    session = Session.open(store)
    session.append(user("one"), user("two"))
    session.checkpoint()
    return session


@pytest.mark.parametrize("name", ["session/open", "session/export", "session/import"])
@pytest.mark.parametrize("path", ["/tmp/a\0b", "\0", "/\0", "a\0"])
def test_a_path_with_a_nul_is_an_invalid_param(store: Server, name: str, path: str) -> None:
    session = Session.open(store)
    params = {"sessionId": session.id, "format": "markdown"} if name == "session/export" else {}
    error = store.refuse(name, path=path, **params)
    assert error == at_least({"code": -32602, "data": at_least({"kind": "invalidParams"})})
    assert [one["loc"] for one in error["data"]["errors"]] == [["path"]]


@pytest.mark.parametrize("option", ["home", "apiKeyFile", "~"])
def test_a_strange_path_among_the_options_is_an_invalid_param(tmp_path: Path, option: str) -> None:
    server = Server(Launch(tmp_path / "home", "ndjson", home_argument=False))
    loc = ["initializationOptions", "summarizer", "apiKeyFile"]
    options: Message = {"summarizer": {"apiKeyFile": "/k\0"}}
    if option != "apiKeyFile":
        loc, options = [*loc[:1], "home"], {"home": "/h\0" if option == "home" else "~nobody-of-that-name/x"}
    error = server.refuse("initialize", initializationOptions=options)
    assert error["code"] == -32602
    assert [one["loc"] for one in error["data"]["errors"]] == [loc]
    server.dispose()


def test_what_is_odd_about_the_options_is_said_in_few_words(tmp_path: Path) -> None:
    server = Server(Launch(tmp_path / "home", "ndjson"))
    odd = {f"{number}" + "x" * 10_000: 1 for number in range(100)}
    assert len(dumps(server.initialize(initializationOptions={**odd, "summarizer": odd}))) < 20_000
    server.dispose()


def test_a_home_with_a_name_that_is_far_too_long_is_refused_in_few_words(tmp_path: Path) -> None:
    server = Server(Launch(tmp_path / "home", "ndjson", home_argument=False))
    error = server.refuse("initialize", initializationOptions={"home": "/" + "x" * 100_000})
    assert error == at_least({"code": 4005, "data": at_least({"errno": "ENAMETOOLONG", "retryable": False})})
    assert len(dumps(error)) < LONGEST_ERROR
    server.dispose()
