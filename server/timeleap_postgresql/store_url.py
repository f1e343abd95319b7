"""The URL of a store in a database: one of libpq, which may also have parameters of ours."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from timeleap.errors import InvalidInputError

READ: Final = "timeleap_read"
"""The parameter that says where reads may go."""
DIRECT: Final = "timeleap_direct"
"""The parameter that says where the server is reached past a pooler."""
WAKING_SECONDS: Final = 15
"""How long a lone server is waited for: a hosted database that sleeps is woken by the first connection."""
DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": 3,
    "target_session_attrs": "read-write",
    "application_name": "timeleap",
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
_PLACE: Final = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[/@][^,]+?|[^\[\]:/@?\s]+)(?::(\d{1,5}))?")
"""A host or a socket's directory, and a port."""
_USER: Final = re.compile(r"\w+://(?:[^@/]*@)?")
"""The beginning of a URL up to the hosts, as libpq reads it."""


_ENCODED: Final = "in a user, a password or a name write @ as %40, / as %2F and % as %25"


class StoreUrl:
    """A URL, taken apart.

    Attributes:
        options: Parameters of libpq.
        direct: Those of connections that listen and hold locks, where they go past a pooler; None: the same.
        label: The URL without user, password and options.
        reads_standby: Reads may be answered by a standby.
    """

    def __init__(self, url: str) -> None:
        """Raises InvalidInputError where it is none."""
        url, own = _taken_apart(url)
        if own.get(READ, "standby") != "standby":
            raise InvalidInputError(f"store: {READ} of the URL can only be standby, or be left out")
        self.reads_standby = READ in own
        _check_encoding(url)
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise InvalidInputError(
                f"store: not a PostgreSQL URL, such as postgresql://host/database; {_ENCODED}"
            ) from None
        # A password stays with libpq: it stands in no message of ours.
        self.options: dict[str, Any] = {**DEFAULTS, **given}
        hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
        if len(hosts) == 1 and "connect_timeout" not in given:
            self.options["connect_timeout"] = WAKING_SECONDS
        ports = str(given.get("port") or "").split(",")
        named = [f"{host}:{ports[min(at, len(ports) - 1)]}" if ports[0] else host for at, host in enumerate(hosts)]
        self.label = f"postgresql://{','.join(named)}/{given.get('dbname') or ''}"
        self.direct: dict[str, Any] | None = None
        if DIRECT in own:
            self.direct = {name: value for name, value in self.options.items() if name != "hostaddr"}
            self.direct |= _places(own[DIRECT])


def _taken_apart(url: str) -> tuple[str, dict[str, str]]:
    """A URL without our parameters, and these. Raises InvalidInputError: one is there with two values."""
    user = _USER.match(url)  # a password may have a question mark
    at = url.find("?", user.end() if user else 0)
    rest, query = (url[:at], url[at + 1 :]) if at >= 0 else (url, "")
    kept: list[str] = []
    own: dict[str, str] = {}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if unquote(name) not in (READ, DIRECT):
            kept.append(part)
        elif own.setdefault(unquote(name), unquote(value)) != unquote(value):
            allowed = "be standby, or be left out" if unquote(name) == READ else "have one value"
            raise InvalidInputError(f"store: {unquote(name)} of the URL can only {allowed}")
    if not own:
        return url, own
    left = "&".join(kept)
    return (f"{rest}?{left}" if left else rest), own


def _check_encoding(url: str) -> None:
    """Raise InvalidInputError where libpq would take a part of the password for a host or a database, which are shown."""
    user = _USER.match(url)
    if "@" in url[user.end() if user else 0 :].partition("?")[0]:
        raise InvalidInputError(f"store: not a PostgreSQL URL: it has an @ that ends no user and password; {_ENCODED}")


def _places(value: str) -> dict[str, str]:
    """`host` and `port` of a list of servers. Raises InvalidInputError."""
    found = [_PLACE.fullmatch(each) for each in value.split(",")]
    places = [(each[1].strip("[]"), each[2] or "5432") for each in found if each is not None]
    if len(places) < len(found) or any(not 0 < int(port) < 65536 for _, port in places):
        raise InvalidInputError(
            f"store: {DIRECT} of the URL is HOST:PORT (an IPv6 address in brackets), a socket's directory with or without"
            " :PORT, or several of these with commas between them"
        )
    return {"host": ",".join(host for host, _ in places), "port": ",".join(port for _, port in places)}
