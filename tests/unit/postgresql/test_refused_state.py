"""A server that refuses a connection in another language than English is understood by its SQLSTATE."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from timeleap.errors import StorageFailureError
from timeleap_postgresql import refused_state
from timeleap_postgresql.database import Database
from timeleap_postgresql.refusals import first_line, of_connection

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
REFUSED = {
    ("28P01", "Passwort-Authentifizierung für Benutzer »u« fehlgeschlagen"): ("authentication", False),
    ("28000", "aucune entrée dans pg_hba.conf pour l'hôte"): ("authentication", False),
    ("3D000", "Datenbank »db« existiert nicht"): ("authentication", False),
    ("42501", "keine Berechtigung für Datenbank »db«"): ("rights", False),
    ("55000", "Datenbank »db« akzeptiert gegenwärtig keine Verbindungen"): ("rights", False),
    ("53300", "lo siento, ya tenemos demasiados clientes"): ("busy", True),
    ("57P03", "データベースシステムは起動しています"): ("unreachable", True),
    ("22023", "Umwandlung zwischen UTF8 und MULE_INTERNAL wird nicht unterstützt"): ("refused", False),
    ("XX000", "ошибка"): ("refused", False),
}


@contextmanager
def refusing(state: str, words: str, severity: str = "ВАЖНО") -> Iterator[str]:
    """The URL of a server that refuses every connection like that."""
    fields = {"S": severity, "V": "FATAL", "C": state, "M": words, "R": "ProcessStartupPacket"}
    body = b"".join(name.encode() + value.encode() + b"\0" for name, value in fields.items()) + b"\0"
    answer = b"E" + struct.pack("!i", len(body) + 4) + body
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    with client:
                        while struct.unpack("!ii", client.recv(4096)[:8])[1] in (SSL_REQUEST, GSS_REQUEST):
                            client.sendall(b"N")
                        client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"postgresql://u:secret@127.0.0.1:{listening.getsockname()[1]}/db"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def refusal(url: str) -> StorageFailureError:
    with pytest.raises(StorageFailureError) as refused:
        Database(url).connect()
    return refused.value


@pytest.mark.parametrize(("state", "words"), REFUSED, ids=[state for state, _ in REFUSED])
def test_a_refusal_in_another_language_is_understood(state: str, words: str) -> None:
    with refusing(state, words) as url:
        error = refusal(url)
    assert (error.data["reason"], error.retryable) == REFUSED[state, words]
    assert error.message.endswith(f": {words}")


def test_names_of_databases_are_no_words_of_a_server() -> None:
    with refusing("3D000", 'database "too many clients" does not exist', "FATAL") as url:
        error = refusal(url)
    assert (error.data["reason"], error.retryable) == ("authentication", False)


def test_without_the_state_a_refusal_in_another_language_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_state, "_set_verbosity", lambda: None)
    with refusing("XX000", "ошибка") as url:
        error = refusal(url)
    assert (error.data["reason"], error.retryable) == ("unreachable", True)


@pytest.mark.parametrize("severity", ["FATAL", "ВАЖНО", "致命错误", "ÖLÜMCÜL (FATAL)", "치명적오류"])
def test_the_words_of_a_refusal_are_told_without_who_says_them(severity: str) -> None:
    text = f'connection failed: connection to server at "127.0.0.1", port 1 failed: {severity}:  no: more\nDETAIL:  x'
    assert first_line(psycopg.OperationalError(text)) == "no: more"


def test_a_server_that_is_away_is_not_asked_why() -> None:
    assert of_connection(psycopg.OperationalError("connection refused")) == ("unreachable", True)
