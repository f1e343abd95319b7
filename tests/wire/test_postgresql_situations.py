"""Databases as people have them, and what happens to them under a running server: it works, or says in one true sentence why
not; and it works again once that has passed."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.support.machines import Serve
from tests.support.postgresql import Cluster, private_cluster, shared_cluster
from tests.support.server import PATIENCE, Refused
from tests.support.session import Session, user
from tests.support.swallowing import way_to
from tests.wire.test_postgresql_settings import store_error, work

pytestmark = pytest.mark.long
ROLE_SETTINGS = {
    "statement_timeout": "'1ms'",
    "lock_timeout": "'1ms'",
    "idle_in_transaction_session_timeout": "'1ms'",
    "client_encoding": "'SQL_ASCII'",
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "'iso_8601'",
    "timezone": "'Pacific/Chatham'",
    "bytea_output": "'escape'",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "'serializable'",
    "search_path": "nowhere, public",
    "lc_numeric": "'C'",
    "plan_cache_mode": "'force_generic_plan'",
    "enable_seqscan": "off",
    "default_tablespace": "''",
    "check_function_bodies": "off",
}
NAMES = ["My-Data", "UPPER", "with blank", "ä-ö", 'quo"te', "a.b/c@d%e"]
PASSWORD = "p@ss/w%rd:?#&= \\'\"ü"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """A server that asks for passwords of all but its owner."""
    with private_cluster() as cluster:
        rules = cluster.directory / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"host all barred 127.0.0.1/32 reject\nhost all guarded 127.0.0.1/32 scram-sha-256\n{before}")
        cluster.execute("SELECT pg_reload_conf()")
        cluster.execute("CREATE ROLE guarded LOGIN SUPERUSER; CREATE ROLE barred LOGIN SUPERUSER")
        yield cluster


def set_password(cluster: Cluster, password: str) -> None:
    """Give the guarded role a password."""
    quoted = password.replace("'", "''")
    cluster.execute(f"ALTER ROLE guarded PASSWORD '{quoted}'")


def guarded_url(cluster: Cluster, name: str, password: str) -> str:
    return cluster.url(name, "guarded", quote(password, safe=""))


def end_all(cluster: Cluster, name: str) -> None:
    """End all connections to a database."""
    cluster.execute(f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'")


def refused(session: Session, reason: str, retryable: bool) -> str:
    """See that a read and a change are refused for a reason, and return the words."""
    read, append = session.refuse("context/getHistory"), session.refuse("context/appendMessage", message=user("x"))
    for error in (read, append):
        assert error["code"] == 4005, error
        assert (error["data"]["reason"], error["data"]["retryable"]) == (reason, retryable), error
        assert "\n" not in error["message"]
    return str(read["message"])


def again(session: Session, text: str) -> None:
    """Append a text once what was wrong has passed."""
    give_up = time.monotonic() + PATIENCE
    while "error" in session.start("context/appendMessage", message=user(text), requestId=text).reply():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def hears(session: Session, other: Session) -> None:
    """See that one hears of a change of the other."""
    head = other.append(user("do you hear?"))["head"]
    session.server.wait_for(lambda message: message.get("params", {}).get("head") == head)


@pytest.mark.no_tables
def test_the_settings_of_a_role_do_not_matter(serve: Serve, url: str) -> None:
    cluster, database = shared_cluster(), url.rpartition("/")[2]
    role = f"r{database}"
    cluster.execute(f"CREATE ROLE {role} LOGIN")
    try:
        cluster.execute(f"ALTER DATABASE {database} OWNER TO {role}")
        for name, value in ROLE_SETTINGS.items():
            cluster.execute(f"ALTER ROLE {role} IN DATABASE {database} SET {name} = {value}")
        work(serve, cluster.url(database, role))
    finally:
        cluster.execute(f"ALTER DATABASE {database} OWNER TO timeleap")
        cluster.execute(f"DROP OWNED BY {role} CASCADE", database)
        cluster.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("name", NAMES)
def test_a_database_may_have_any_name(serve: Serve, name: str) -> None:
    cluster, quoted = shared_cluster(), name.replace('"', '""')
    cluster.execute(f'CREATE DATABASE "{quoted}"')
    try:
        session = Session.open(serve(cluster.url(quote(name, safe=""))), "s")
        session.say("one")
        assert session.texts() == ["one"]
        assert session.state["path"].endswith(f"/{name}#s")
        session.server.dispose()
    finally:
        cluster.execute(f'DROP DATABASE "{quoted}" WITH (FORCE)')


def test_a_password_may_have_any_letters(serve: Serve, guarded: Cluster) -> None:
    name = guarded.new_database().rpartition("/")[2]
    set_password(guarded, PASSWORD)
    work(serve, guarded_url(guarded, name, PASSWORD))


def test_a_password_that_is_changed_under_a_running_server(serve: Serve, guarded: Cluster) -> None:
    name = guarded.new_database().rpartition("/")[2]
    set_password(guarded, "first")
    session, other = (
        Session.open(serve(guarded_url(guarded, name, "first")), "s"),
        Session.open(serve(guarded.url(name)), "s"),
    )
    session.say("one")
    set_password(guarded, "second")
    end_all(guarded, name)
    refused(session, "authentication", False)
    set_password(guarded, "first")
    again(session, "two")
    other.say("three")
    assert session.texts() == ["one", "two", "three"]
    hears(session, other)


def test_a_rule_that_rejects_is_told_as_one(serve: Serve, guarded: Cluster) -> None:
    error = store_error(guarded.url(user="barred"))
    assert (error.data["reason"], error.retryable) == ("authentication", False)
    assert "pg_hba.conf rejects connection" in error.message


def test_a_server_without_tls_is_told_as_one(url: str) -> None:
    for mode in ("require", "verify-ca", "verify-full"):
        error = store_error(f"{url}?sslmode={mode}")
        assert (error.data["reason"], error.retryable) == ("authentication", False), error.message


def test_a_database_that_is_renamed_and_dropped_under_a_running_server(serve: Serve) -> None:
    cluster = shared_cluster()
    url = cluster.new_database()
    name = url.rpartition("/")[2]
    session = Session.open(serve(url), "s")
    session.say("one")
    cluster.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    end_all(cluster, name)
    refused(session, "rights", False)
    cluster.execute(f"ALTER DATABASE {name} RENAME TO {name}away")
    assert f'"{name}" does not exist' in refused(session, "authentication", False)
    cluster.execute(f"ALTER DATABASE {name}away RENAME TO {name}")
    cluster.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    again(session, "two")
    assert session.texts() == ["one", "two"]
    cluster.execute(f"DROP DATABASE {name} WITH (FORCE)")
    refused(session, "authentication", False)
    cluster.execute(f"CREATE DATABASE {name}")
    assert "is no store yet" in refused(session, "rights", False)  # another one, and empty
    assert Session.open(serve(url), "s").texts() == []


def test_a_role_that_has_no_connections_left(serve: Serve, url: str) -> None:
    cluster, database = shared_cluster(), url.rpartition("/")[2]
    role = f"r{database}"
    Session.open(serve(url), "s").say("one")
    cluster.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    try:
        cluster.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}", database)
        server, other = serve(cluster.url(database, role)), Session.open(serve(url), "s")
        session = Session.open(server, "s")  # with the one connection; none is left to listen
        again(session, "two")
        hears(session, other)  # it looks, and says why
        assert "too many connections for role" in server.stderr()
        cluster.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        end_all(cluster, database)
        refused(session, "busy", True)
        cluster.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")
        again(session, "three")
        hears(session, other)
    finally:
        end_all(cluster, database)
        cluster.execute(f"DROP OWNED BY {role}", database)
        cluster.execute(f"DROP ROLE {role}")


@pytest.mark.no_tables
def test_a_schema_of_another_role_that_may_be_used(serve: Serve, url: str) -> None:
    cluster, database = shared_cluster(), url.rpartition("/")[2]
    role = f"r{database}"
    cluster.execute(f"CREATE ROLE {role} LOGIN")
    try:
        cluster.execute("CREATE SCHEMA app", database)
        theirs = f"{cluster.url(database, role)}?options=-csearch_path%3Dapp"
        with pytest.raises(Refused) as error:
            Session.open(serve(theirs), "s")
        assert error.value.error["data"]["reason"] == "rights"
        cluster.execute(f"GRANT USAGE, CREATE ON SCHEMA app TO {role}", database)
        work(serve, theirs)
    finally:
        end_all(cluster, database)
        cluster.execute(f"DROP OWNED BY {role}", database)
        cluster.execute(f"DROP ROLE {role}")


@pytest.mark.no_tables
def test_an_encoding_that_is_not_converted_is_refused_in_one_sentence(url: str) -> None:
    cluster, name = shared_cluster(), f"{url.rpartition('/')[2]}m"
    cluster.execute(f"CREATE DATABASE {name} ENCODING 'MULE_INTERNAL' LOCALE 'C' TEMPLATE template0")
    try:
        error = store_error(cluster.url(name))
        assert (error.data["reason"], error.retryable) == ("refused", False)
        assert "MULE_INTERNAL" in error.message
    finally:
        cluster.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.no_tables
def test_a_database_that_is_woken_by_the_first_connection(serve: Serve, url: str) -> None:
    port = int(url.rpartition(":")[2].partition("/")[0])
    with way_to(port) as way:
        way.delay = 5.0
        session = Session.open(serve(url.replace(f":{port}/", f":{way.port}/")), "s")
        way.delay = 0.0
        session.say("one")
        assert session.texts() == ["one"]


def test_a_place_where_something_else_listens_is_said_to_be_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = other.accept()
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        error = store_error(f"postgresql://u@127.0.0.1:{other.getsockname()[1]}/db")
        assert error.data["reason"] == "unreachable"
        assert "\n" not in error.message
        other.shutdown(socket.SHUT_RDWR)
