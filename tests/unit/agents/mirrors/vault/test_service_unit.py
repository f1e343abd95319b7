"""The file of the service, of each system."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest

from timeleap_agents.mirrors.vault.service_unit import InstalledService, NoServicesError, service_file

WORDS = ["/opt/my tools/timeleap", "--home", '/data/50% "of" $HOME', "agents", "keep"]


def test_what_systemd_would_read_otherwise_is_escaped() -> None:
    content = service_file(WORDS, Path("/home/ada"), {"CODEX_HOME": "/a b"}, "linux").content.decode()
    assert 'ExecStart="/opt/my tools/timeleap" "--home" "/data/50%% \\"of\\" $$HOME" "agents" "keep"\n' in content
    assert 'Environment="CODEX_HOME=/a b"\n' in content


def test_launchd_gets_an_agent_that_is_undone(tmp_path: Path) -> None:
    file = service_file(WORDS, tmp_path, {"CODEX_HOME": "/a b"}, "darwin")
    assert file.path == tmp_path / "Library" / "LaunchAgents" / "timeleap.keep.plist"
    facts = plistlib.loads(file.content)
    assert facts["ProgramArguments"] == WORDS
    assert facts["EnvironmentVariables"] == {"CODEX_HOME": "/a b"}
    service = InstalledService(file, tmp_path / "store")
    service.install()
    assert service.installed
    service.uninstall()
    assert not (tmp_path / "Library").exists()


def test_other_systems_have_no_service() -> None:
    with pytest.raises(NoServicesError):
        service_file(WORDS, Path("/"), {}, "win32")
