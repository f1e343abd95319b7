"""Why a database refuses, and what may pass by itself."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from timeleap_postgresql.refusals import of_connection, of_statement

STATEMENTS = {
    "08006": ("lost", True),
    "22021": ("refused", False),
    "22P05": ("refused", False),
    "23505": ("refused", False),
    "25006": ("readOnly", False),
    "25P03": ("lost", True),
    "28000": ("authentication", False),
    "28P01": ("authentication", False),
    "3D000": ("authentication", False),
    "40001": ("busy", True),
    "40P01": ("busy", True),
    "42501": ("rights", False),
    "42703": ("refused", False),
    "42P01": ("rights", False),
    "53000": ("busy", True),
    "53100": ("full", False),
    "53200": ("busy", True),
    "53300": ("busy", True),
    "54000": ("refused", False),
    "55P03": ("busy", True),
    "57014": ("timeout", True),
    "57P01": ("lost", True),
    "57P02": ("lost", True),
    "57P03": ("lost", True),
    "57P04": ("authentication", False),
    "57P05": ("lost", True),
    "58030": ("refused", False),
    "XX000": ("refused", False),
    "XX001": ("refused", False),
}
CONNECTIONS = {
    'FATAL:  password authentication failed for user "u"': ("authentication", False),
    "fe_sendauth: no password supplied": ("authentication", False),
    'FATAL:  database "x" does not exist': ("authentication", False),
    'FATAL:  role "x" does not exist': ("authentication", False),
    'FATAL:  role "x" is not permitted to log in': ("authentication", False),
    'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "u", database "d", no encryption': (
        "authentication",
        False,
    ),
    'FATAL:  permission denied for database "d"\nDETAIL:  User does not have CONNECT privilege.': ("rights", False),
    'FATAL:  database "d" is not currently accepting connections': ("rights", False),
    "FATAL:  sorry, too many clients already": ("busy", True),
    'FATAL:  too many connections for role "u"': ("busy", True),
    "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute": ("busy", True),
    "FATAL:  the database system is starting up": ("unreachable", True),
    "FATAL:  the database system is shutting down": ("unreachable", True),
    "FATAL:  the database system is not yet accepting connections": ("unreachable", True),
    "session is read-only": ("readOnly", False),
    "server does not support SSL, but SSL was required": ("authentication", False),
    "SSL error: certificate verify failed": ("authentication", False),
    'root certificate file "/nowhere" does not exist': ("authentication", False),
    "failed to resolve host 'x': [Errno -2] Name or service not known": ("unreachable", False),
    "failed to resolve host 'x': [Errno -3] Temporary failure in name resolution": ("unreachable", True),
    'connection to server at "10.0.0.1", port 1 failed: Connection refused\n\tIs the server running?': (
        "unreachable",
        True,
    ),
    'connection is bad: definition of service "x" not found': ("unreachable", False),
    'connection is bad: service file "/x" not found': ("unreachable", False),
    'connection is bad: syntax error in service file "/x", line 2': ("unreachable", False),
    'connection is bad: invalid sslmode value: "x"': ("unreachable", False),
    'connection is bad: invalid channel_binding value: "x"': ("unreachable", False),
    'connection is bad: invalid port number: "99999"': ("unreachable", False),
    'connection is bad: invalid integer value "x" for connection option "port"': ("unreachable", False),
    "connection is bad: could not match 2 port numbers to 3 hosts": ("unreachable", False),
    "server closed the connection unexpectedly": ("unreachable", True),
    "connection timeout expired": ("unreachable", True),
}


@pytest.mark.parametrize("state", STATEMENTS)
def test_a_refused_statement_is_retryable_where_it_can_pass(state: str) -> None:
    assert of_statement(errors.lookup(state)("refused")) == STATEMENTS[state]


def test_a_connection_that_breaks_is_lost() -> None:
    assert of_statement(psycopg.OperationalError("server closed the connection unexpectedly")) == ("lost", True)
    assert of_statement(psycopg.DataError("cannot adapt")) == ("refused", False)


@pytest.mark.parametrize("text", CONNECTIONS)
def test_a_refused_connection_is_retryable_where_it_can_pass(text: str) -> None:
    assert of_connection(psycopg.OperationalError(text)) == CONNECTIONS[text]
