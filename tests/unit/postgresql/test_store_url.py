"""URLs of stores in databases: what is ours in them, and what is not said again."""

from __future__ import annotations

import contextlib
from urllib.parse import quote

import pytest

from timeleap.errors import InvalidInputError
from timeleap_postgresql.store_url import StoreUrl

DIRECT = {
    "h": ("h", "5432"),
    "h:5433": ("h", "5433"),
    "10.0.0.1:5433": ("10.0.0.1", "5433"),
    "[::1]:5433": ("::1", "5433"),
    "[fe80::1%eth0]": ("fe80::1%eth0", "5432"),
    "/run/postgresql": ("/run/postgresql", "5432"),
    "/run/my sql:5433": ("/run/my sql", "5433"),
    "@abstract:5433": ("@abstract", "5433"),
    "a:1,[::1]:2,/run,c": ("a,::1,/run,c", "1,2,5432,5432"),
}
WRONG = [
    "", "a:b", "a:0", "a:70000", "a,", ",a", "postgresql://a", "u@a:1", "::1", "::1:5433", "[::1", "[::1]5433", "a:1:2", "a b",
    "a:1&timeleap_direct=b:1",
]  # fmt: skip
SECRET = "s3cret"
HOSTILE = ["@", "/", "@/", "/@", "@:", ":/", "?@", "#/@", "%@", "@%", "[/@", "@/x@"]


@pytest.mark.parametrize("value", DIRECT)
@pytest.mark.parametrize("encoded", [False, True])
def test_the_way_past_a_pool_is_a_host_or_a_socket(value: str, encoded: bool) -> None:
    text = quote(value, safe="") if encoded else value.replace("%", "%25")
    url = StoreUrl(f"postgresql://u@pool:6432/db?timeleap_direct={text}&connect_timeout=7")
    assert url.direct is not None
    assert (url.direct["host"], url.direct["port"]) == DIRECT[value]
    assert url.direct == {**url.options, "host": DIRECT[value][0], "port": DIRECT[value][1]}
    assert (url.label, url.options["connect_timeout"]) == ("postgresql://pool:6432/db", "7")


@pytest.mark.parametrize("value", WRONG)
def test_any_other_way_past_a_pool_is_refused_in_one_sentence(value: str) -> None:
    with pytest.raises(InvalidInputError, match="timeleap_direct of the URL") as refused:
        StoreUrl(f"postgresql://u:{SECRET}@pool/db?timeleap_direct={value}")
    assert SECRET not in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("sign", HOSTILE)
def test_a_password_is_encoded_or_refused_and_never_shown(sign: str) -> None:
    password = f"p{SECRET}{sign}{SECRET}"
    url = StoreUrl(f"postgresql://u:{quote(password, safe='')}@host/db")
    assert (url.options["password"], url.label) == (password, "postgresql://host/db")
    shown = ""
    with contextlib.suppress(InvalidInputError):  # libpq reads some as they are meant
        shown = StoreUrl(f"postgresql://u:{password}@host/db").label
    if not shown:
        with pytest.raises(InvalidInputError, match="%40") as refused:
            StoreUrl(f"postgresql://u:{password}@host/db")
        shown = refused.value.message
    assert SECRET not in shown


@pytest.mark.parametrize("name", ["my-data", "MyData", "a.b", "дані", "a b"])
def test_a_database_of_any_name_is_named(name: str) -> None:
    assert StoreUrl(f"postgresql://u@h/{quote(name)}").label == f"postgresql://h/{name}"
