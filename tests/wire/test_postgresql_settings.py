"""Databases and roles whose defaults, encodings and rights are not those of a new cluster: nothing of it matters, or it is
refused in one sentence; and settings of the user's own, which are added to ours."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support.cli import Cli
from tests.support.machines import Serve
from tests.support.mostly_long import mostly_long
from tests.support.pgbouncer import pooler
from tests.support.postgresql import shared_cluster
from tests.support.server import Refused
from tests.support.session import Session

from timeleap.errors import StorageFailureError
from timeleap_postgresql import poolers
from timeleap_postgresql.database import Database
from timeleap_postgresql.poolers import process_of
from timeleap_postgresql.servers import WatchedConnection
from timeleap_postgresql.session_settings import given_settings

DEFAULTS = [
    ("datestyle", "German"),
    ("default_transaction_isolation", "serializable"),
    ("statement_timeout", "1ms"),
    ("datestyle", "SQL, DMY"),
    ("client_encoding", "LATIN1"),
    ("client_encoding", "SQL_ASCII"),
    ("intervalstyle", "iso_8601"),
    ("timezone", "Pacific/Chatham"),
    ("bytea_output", "escape"),
    ("extra_float_digits", "-15"),
    ("standard_conforming_strings", "off"),
    ("lock_timeout", "1ms"),
    ("idle_in_transaction_session_timeout", "1ms"),
    ("default_transaction_deferrable", "on"),
    ("row_security", "off"),
    ("search_path", "app, public"),
]


def work(serve: Serve, url: str) -> None:
    """Two windows change a session, and see what the other one did, with letters of other languages."""
    a, b = (Session.open(serve(url), "s") for _ in range(2))
    texts = ["naïve Zoë", "日本語 \\ ' \"", "🙂"]
    for text in texts:
        a.say(text)
    a.call("session/setTitle", title="Größe")
    a.checkpoint()
    b.call("context/revertTo", checkpointId=0)
    b.call("context/undo")
    assert a.texts() == b.texts() == texts
    (listed,) = b.server.call("session/list")["sessions"]
    assert (listed["title"], listed["updatedAt"][:2]) == ("Größe", "20")


@pytest.mark.no_tables
@pytest.mark.parametrize(("name", "value"), mostly_long(DEFAULTS, every=8))
def test_the_defaults_of_a_database_do_not_matter(serve: Serve, url: str, name: str, value: str) -> None:
    database = url.rpartition("/")[2]
    quoted = value if name == "search_path" else f"'{value}'"
    shared_cluster().execute("CREATE SCHEMA app", database)
    shared_cluster().execute(f"ALTER DATABASE {database} SET {name} = {quoted}")
    try:
        work(serve, url)
    finally:
        shared_cluster().execute(f"ALTER DATABASE {database} RESET ALL")


@pytest.mark.long
@pytest.mark.no_tables
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_the_encoding_of_a_database_does_not_matter(serve: Serve, url: str, encoding: str) -> None:
    name = f"{url.rpartition('/')[2]}e"
    options = f"ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    shared_cluster().execute(f"CREATE DATABASE {name} {options}")
    try:
        work(serve, shared_cluster().url(name))
    finally:
        shared_cluster().execute(f"DROP DATABASE {name} WITH (FORCE)")


REFUSALS = {
    "no rights": (["REVOKE INSERT ON timeleap_log FROM {role}"], "GRANT INSERT ON timeleap_log TO {role}"),
    "row level security": (["ALTER TABLE timeleap_piece ENABLE ROW LEVEL SECURITY"], "row level security hides rows"),
    "another schema": (
        ["CREATE SCHEMA app", "ALTER TABLE timeleap_schema SET SCHEMA app"],
        "there is a store in the schema app, which is not in the search_path of {role}",
    ),
    "no schema": (["ALTER DATABASE {database} SET search_path = nowhere"], "which is not in the search_path"),
    "only read": (
        ["ALTER DATABASE {database} SET default_transaction_read_only = on"],
        "default_transaction_read_only is on",
    ),
}


@pytest.mark.parametrize(
    ("statements", "part"), mostly_long([pytest.param(*case, id=name) for name, case in REFUSALS.items()], every=2)
)
@pytest.mark.no_tables
def test_what_a_role_cannot_use_is_refused_in_one_sentence(
    serve: Serve, url: str, statements: list[str], part: str, tmp_path: Path
) -> None:
    cluster, database = shared_cluster(), url.rpartition("/")[2]
    role = f"r{database}"
    store_of = Database(url)
    with store_of.connection():
        pass
    store_of.close()
    cluster.execute(f"CREATE ROLE {role} LOGIN")
    try:
        cluster.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}", database)
        theirs = cluster.url(database, role)
        names = {"role": role, "database": database}
        for statement in statements:
            cluster.execute(statement.format(**names), database)
        found = store_error(theirs)
        assert part.format(**names) in found.message
        assert found.data["reason"] in ("rights", "readOnly")
        assert not found.retryable
        assert "\n" not in found.message
        with pytest.raises(Refused) as refused:
            Session.open(serve(theirs), "s").say("one")
        assert refused.value.error["data"]["reason"] in ("rights", "readOnly")
        assert not refused.value.error["data"]["retryable"]
        said = Cli(tmp_path / "home").run("store", "init", theirs, "--json", code=1).err
        assert json.loads(said.splitlines()[-1])["error"]["data"]["reason"] == found.data["reason"]
        assert part.format(**names) in said
    finally:
        cluster.execute(f"ALTER DATABASE {database} RESET ALL")
        cluster.execute(f"DROP OWNED BY {role}", database)
        cluster.execute(f"DROP ROLE {role}")


@pytest.mark.no_tables
def test_init_says_that_there_is_another_store_in_a_schema_that_the_role_does_not_see(url: str, tmp_path: Path) -> None:
    cli, database = Cli(tmp_path / "home"), url.rpartition("/")[2]
    shared_cluster().execute("CREATE SCHEMA app", database)
    assert cli.run("store", "init", f"{url}?options=-csearch_path%3Dapp").err == ""
    made = cli.run("store", "init", url, "--json")
    assert made.json()["before"] == 0
    assert "there is a store in the schema app" in json.loads(made.err)["notice"]["message"]
    assert cli.run("store", "init", url, "--json").err == ""


def store_error(url: str) -> StorageFailureError:
    """Why `store check` refuses a database."""
    database = Database(url)
    with contextlib.closing(database), pytest.raises(StorageFailureError) as refused:
        database.check()
    return refused.value


def settings(url: str) -> dict[str, str]:
    """What a connection to a store has set, as far as it is asked here."""
    database = Database(url)
    with database.connection() as connection:
        names = "search_path", "lock_timeout", "statement_timeout", "datestyle", "work_mem", "application_name"
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS n (name)", [list(names)]
        )
        found = {str(name): str(value) for name, value in rows}
    database.close()
    return found


OURS = {"lock_timeout": "10s", "statement_timeout": "2min", "datestyle": "ISO, YMD", "application_name": "timeleap"}


@pytest.mark.no_tables
@pytest.mark.parametrize("way", ["url", "environment", "service", "pool"])
def test_options_of_the_user_add_to_ours(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str) -> None:
    options = "-csearch_path=app -c work_mem=5MB --lock-timeout=7s -c datestyle=German"
    shared_cluster().execute("CREATE SCHEMA app", url.rpartition("/")[2])
    with contextlib.ExitStack() as stack:
        if way == "url":
            url = f"{url}?options={quote(options)}&connect_timeout=7&sslmode=prefer"
        elif way == "environment":
            monkeypatch.setenv("PGOPTIONS", options)
        elif way == "service":
            service = tmp_path / "services"
            service.write_text(f"[s]\noptions={options}\n")
            monkeypatch.setenv("PGSERVICEFILE", str(service))
            url += "?service=s"
        else:
            url = f"{stack.enter_context(pooler(url, 'session')).url}?options={quote(options)}"
        assert settings(url) == {**OURS, "search_path": "app", "work_mem": "5MB", "lock_timeout": "7s"}


def test_options_are_taken_apart_as_the_server_does() -> None:
    given = given_settings(r"-c a=1 -cb=x\ y --c-d=2\\3 -B 7 -c nothing")
    assert given == ({"a": "1", "b": "x y", "c_d": "2\\3"}, ["-B", "7", "-c"])


@pytest.mark.no_tables
def test_a_statement_timeout_that_is_over_before_it_is_set_is_tried_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def late(connection: WatchedConnection) -> int:
        asked.append(connection)
        if len(asked) < 5:
            connection.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(60)")
        return process_of(connection)

    monkeypatch.setattr(poolers, "process_of", late)
    assert settings(url)["statement_timeout"] == "2min"
    assert len(asked) == 5
