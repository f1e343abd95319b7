"""One folder, one URI: the table that the TypeScript client is tested with, too."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from tests.architecture.sources import ROOT

import timeleap_client
from timeleap_protocol.folder_uri import canonical_folder_uri

TABLE: list[Any] = json.loads((ROOT / "protocol" / "folder-uris.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["canonical"])
def test_all_spellings_of_a_folder_have_one_form(row: Any) -> None:
    for spelling in [row["canonical"], *row["spellings"]]:
        assert canonical_folder_uri(spelling) == row["canonical"], spelling


def test_different_folders_stay_different() -> None:
    forms = [row["canonical"] for row in TABLE]
    assert len(set(forms)) == len(forms)


@pytest.mark.parametrize(
    "name", ["a b", "@x", "c++", "(2)", "a=b&c", "~", "100%", "é", "#1", "what?", "[x]", "a;b,c", "'"]
)
def test_python_s_own_uris_are_their_folder_s(name: str) -> None:
    posix = PurePosixPath("/home/me", name)
    uri = canonical_folder_uri(posix.as_uri())
    assert canonical_folder_uri(uri) == uri
    windows = PureWindowsPath("c:/Users", name)
    assert canonical_folder_uri(windows.as_uri()) == "file:///C:/Users/" + uri.rpartition("/")[2]
    share = PureWindowsPath("//Server/share")
    assert canonical_folder_uri(share.as_uri()) == "file://server/share"


@pytest.mark.skipif(os.name != "posix", reason="names that are bytes")
def test_a_name_that_is_no_text() -> None:
    path = Path(os.fsdecode(b"/home/\xff"))
    assert canonical_folder_uri(path.as_uri()) == "file:///home/%FF"


def test_it_is_a_part_of_the_client() -> None:
    assert timeleap_client.canonical_folder_uri("file:///a/") == "file:///a"


def test_it_is_linear() -> None:
    long = "file:///" + "%2e/%41é/" * 100_000
    assert canonical_folder_uri(long).startswith("file:///A%C3%A9/A")
