"""What a model is shown holds no secret, nor a part of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from timeleap.mcp.secret_masks import MASK, SecretMask, placed, without_cut_word

SECRET = "glpat-Xk3Pq9rT2vLm8NzYw4Bd"


@pytest.fixture(scope="module")
def mask(tmp_path_factory: pytest.TempPathFactory) -> SecretMask:
    return SecretMask(tmp_path_factory.mktemp("rules"))


@pytest.mark.parametrize("cut", range(4, len(SECRET)))
def test_a_piece_that_begins_or_ends_within_a_secret_holds_nothing_of_it(cut: int) -> None:
    mask = SecretMask(Path())
    assert mask.masked_excerpt(f"{SECRET[-cut:]} was the key", [SECRET]) == f"{MASK} was the key"
    assert mask.masked_excerpt(f"the key is {SECRET[:cut]}", [SECRET]) == f"the key is {MASK}"
    assert mask.masked_excerpt(SECRET[1:cut], [SECRET]) == MASK


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        f"use {SECRET} then",
        {"content": [{"type": "text", "text": f"use {SECRET}"}]},
        {"arguments": json.dumps({"command": f"login {SECRET}"})},
        {f"{SECRET}": f"{SECRET}"},
        [f"half \ud800 {SECRET}"],
    ],
)
def test_secrets_are_masked_wherever_they_stand(mask: SecretMask, value: Any) -> None:
    masked = json.dumps(mask.masked(value))
    assert SECRET not in masked
    assert MASK in masked


@pytest.mark.slow
def test_what_is_no_secret_stays(mask: SecretMask) -> None:
    value = {"text": "The cause is in names.py, line 12.", "count": 3, "more": [None, True]}
    assert mask.masked(value) == value


def test_the_last_word_of_a_text_that_was_cut_is_left_out() -> None:
    assert without_cut_word("short text", 120) == "short text"
    assert without_cut_word(f"the key is {SECRET[:9]}", 20) == "the key is ..."
    assert without_cut_word(SECRET[:20], 20) == " ..."


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('{"password": "hunter2"}', "hunter2"),
        ('{"db_password":"correct horse battery"}', "correct horse battery"),
        (json.dumps({"arguments": json.dumps({"password": "hunter2"})}), "hunter2"),
        ("{'password': 'hunter2', 'user': 1}", "hunter2"),
        ('password = "hunter2"', "hunter2"),
        ("DB_PASSWORD=hunter2", "hunter2"),
        ("export PGPASSWORD=hunter2\n", "hunter2"),
        ("host=db user=me password=hunter2 dbname=x", "hunter2"),
        ("Server=db;Password=hunter2;Encrypt=1", "hunter2"),
        ("https://example.com/?user=me&password=hunter2&x=1", "hunter2"),
        ("https://example.com/?access_token=abcDEF123", "abcDEF123"),
        ("database:\n  password: hunter2\n", "hunter2"),
        ("curl -H 'Authorization: Bearer abcdef123456ghij'", "abcdef123456ghij"),
        ("Bearer abcdef123456ghij", "abcdef123456ghij"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("postgresql://me:hunter2@db/x", "hunter2"),
        ("redis://:hunter2@cache:6379", "hunter2"),
        ("client_secret=Zm9vYmFy", "Zm9vYmFy"),
    ],
)
def test_what_stands_in_the_place_of_a_password_is_a_secret(text: str, secret: str) -> None:
    assert secret in set(placed(text))
    assert set(placed(text)) <= {secret}


@pytest.mark.parametrize(
    "text",
    [
        "the password is wrong",
        "password: str",
        "def login(user: str, password: str) -> None:",
        "password: Optional[str] = None",
        "password=None",
        "token=token, password=password",
        "password=get_password()",
        "password=os.environ['X']",
        "password=$PASSWORD",
        "passwordField=first",
        "Bearer of news",
        "the bearer announcement",
        "Password: required",
        "tokens: 12345 of 200000",
        "max_tokens=4096",
        "a commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "id 123e4567-e89b-12d3-a456-426614174000",
        "https://example.com:8080/a@b",
        '{"passwordHint": "the usual one"}',
        '{"token_count": 1200}',
        '{"password": null}',
        '{"password": "[secret]"}',
        '{"password": "********"}',
    ],
)
def test_what_is_said_about_passwords_is_no_secret(text: str) -> None:
    assert list(placed(text)) == []


def test_short_passwords_are_masked_where_they_stand(mask: SecretMask) -> None:
    assert mask.masked({"text": "password=hunter2 and more"}) == {"text": f"password={MASK} and more"}
