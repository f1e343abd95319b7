"""Folders of a user who may have no home directory."""

from __future__ import annotations

import pwd
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from timeleap import user_folders
from timeleap.errors import InvalidInputError, StorageFailureError
from timeleap.features.approvals.seal import KeyRing
from timeleap.service import config
from timeleap.storage import index_cache
from timeleap_agents.mirrors.folders import usual_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TIMELEAP_HOME", "TIMELEAP_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)


def in_user_database(monkeypatch: pytest.MonkeyPatch, folder: str | None) -> None:
    def look(_: int) -> SimpleNamespace:
        if folder is None:
            raise KeyError
        return SimpleNamespace(pw_dir=folder)

    monkeypatch.setattr(pwd, "getpwuid", look)


@pytest.mark.parametrize("variable", [None, "", "relative", "./x"])
@pytest.mark.parametrize("listed", [None, "", "relative", "/listed"])
def test_the_home_is_an_absolute_path_or_none(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, listed: str | None
) -> None:
    in_user_database(monkeypatch, listed)
    if variable is not None:
        monkeypatch.setenv("HOME", variable)
    assert user_folders.home() == (Path("/listed") if listed == "/listed" else None)
    monkeypatch.setenv("HOME", "/named")
    assert user_folders.home() == Path("/named")


def test_a_relative_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/named")
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert user_folders.folder("cache") == Path("/named/.cache/timeleap")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert user_folders.folder("cache") == Path("/caches/timeleap")


def test_without_a_home_directory_each_does_without_or_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_user_database(monkeypatch, None)
    assert index_cache.directory() is None
    assert KeyRing(None, tmp_path).key() is None
    assert KeyRing(None, tmp_path).register().sessions == {}
    with pytest.raises(StorageFailureError, match="TIMELEAP_KEY_FILE"):
        KeyRing(None, tmp_path).require()
    with pytest.raises(StorageFailureError, match="TIMELEAP_HOME"):
        config.require_home(config.load(environ={}).home)
    assert config.load(tmp_path, environ={}).home == tmp_path
    with pytest.raises(InvalidInputError, match="home directory"):
        config.load(Path("~/store"), environ={})
    with pytest.raises(InvalidInputError, match="home directory"):
        config.load(tmp_path, environ={"TIMELEAP_KEY_FILE": "~/key"})
    with pytest.raises(InvalidInputError, match="home directory"):
        user_folders.absolute("~/file")
    with pytest.raises(InvalidInputError, match="home directory"):
        user_folders.absolute("~nobody-of-this-name/file")
    with pytest.raises(StorageFailureError, match="CODEX_HOME"):
        usual_folder("codex")
