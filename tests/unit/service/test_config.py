"""Settings: who wins over whom, what is refused, what is only odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeleap.errors import InvalidInputError
from timeleap.service import config
from timeleap.sessions.shapes import Budget


def test_options_win_over_command_line_over_environment_over_file(tmp_path: Path):
    (tmp_path / "config.toml").write_text('durability = "os"\nmaxContextSize = 1\ntriggerRatio = 0.1\n')
    environ = {"TIMELEAP_DURABILITY": "disk", "TIMELEAP_MAX_CONTEXT_SIZE": "200000"}
    assert config.load(tmp_path, environ={}).durability == "os"
    assert config.load(tmp_path, environ=environ).durability == "disk"
    assert config.load(tmp_path, environ=environ, flags={"durability": "os"}).durability == "os"
    merged = config.load(tmp_path, environ=environ, flags={"durability": "os"}, options={"durability": "disk"})
    assert merged.durability == "disk"
    assert merged.budget == Budget(200_000, 50_000, 0.1)


def test_the_home_is_found_in_the_same_order(tmp_path: Path):
    one, two, three = (str(tmp_path / name) for name in "abc")
    assert config.load(environ={"TIMELEAP_HOME": one}).home == Path(one)
    assert config.load(Path(two), environ={"TIMELEAP_HOME": one}).home == Path(two)
    assert config.load(Path(two), environ={"TIMELEAP_HOME": one}, options={"home": three}).home == Path(three)


def test_groups_have_variables_of_their_own(tmp_path: Path):
    environ = {"TIMELEAP_RETENTION_MAX_TIMELINES": "7", "TIMELEAP_SUMMARIZER_BASE_URL": "http://localhost/v1"}
    loaded = config.load(tmp_path, environ=environ)
    assert loaded.retention.max_timelines == 7
    assert loaded.summarizer == {"baseUrl": "http://localhost/v1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durability", "maybe"),
        ("durability", 1),
        ("maxContextSize", 0),
        ("maxContextSize", True),
        ("maxContextSize", 1.5),
        ("reservedContextSize", -1),
        ("triggerRatio", 0),
        ("triggerRatio", 1.01),
        ("triggerRatio", "much"),
        ("maxPreservedMessages", 0),
        ("home", 3),
        ("retention", 3),
        ("summarizer", []),
    ],
)
def test_an_unusable_value_is_refused_by_name(tmp_path: Path, name: str, value: object):
    with pytest.raises(InvalidInputError, match=name) as caught:
        config.load(tmp_path, environ={}, options={name: value})
    assert caught.value.data["errors"][0]["loc"] == ["initializationOptions", name]


@pytest.mark.parametrize(
    ("name", "value"), [("maxContextSize", 5e5), ("maxPreservedMessages", 3.0), ("triggerRatio", 1)]
)
def test_a_number_counts_however_it_is_written(tmp_path: Path, name: str, value: float):
    (tmp_path / "config.toml").write_text(f"{name} = {value!r}\n")
    of_file = config.load(tmp_path, environ={})
    of_options = config.load(tmp_path, environ={}, options={name: value})
    assert config.load(tmp_path, environ={}, options={name: int(value)}) == of_file == of_options
    assert type(of_file.budget.max_context_size) is not float
    assert type(of_file.max_preserved_messages) is int
    assert type(of_file.budget.trigger_ratio) is float


@pytest.mark.parametrize("text", ["3.0", "1e3", " 3", "+3", "3_0", "-3", "nan", "inf", "three", "9" * 19])
def test_text_is_a_whole_number_only_if_it_is_digits(tmp_path: Path, text: str):
    with pytest.raises(InvalidInputError, match="maxPreservedMessages must be a whole number, 1 or more"):
        config.load(tmp_path, environ={"TIMELEAP_MAX_PRESERVED_MESSAGES": text})


def test_unknown_settings_are_only_odd(tmp_path: Path):
    loaded = config.load(tmp_path, environ={}, options={"colour": "red", "retention": {"years": 7}})
    assert loaded.warnings == (
        "unknown setting colour in initializationOptions",
        "unknown setting retention.years in initializationOptions",
    )


def test_a_file_that_is_no_toml_is_refused_and_named(tmp_path: Path):
    (tmp_path / "config.toml").write_text("= nothing")
    with pytest.raises(InvalidInputError, match=r"config\.toml is not TOML"):
        config.load(tmp_path, environ={})


@pytest.mark.parametrize(
    ("size", "tokens", "due"),
    [
        (None, 10**9, False),
        (200_000, 149_999, False),
        (200_000, 150_000, True),
        (1_000, 849, False),  # the reserve would have it compacted for ever, so it does not count
        (1_000, 850, True),
    ],
)
def test_when_compaction_is_due(tmp_path: Path, size: int | None, tokens: int, due: bool):
    loaded = config.load(tmp_path, environ={}, options={"maxContextSize": size})
    assert loaded.budget.should_compact(tokens) is due


def test_a_reserve_that_does_not_count_is_said(tmp_path: Path):
    loaded = config.load(tmp_path, environ={}, options={"maxContextSize": 1000})
    assert "only triggerRatio decides" in loaded.warnings[0]
    assert config.load(tmp_path, environ={}, options={"maxContextSize": 200_000}).warnings == ()


def test_the_key_itself_goes_before_a_file_unless_an_option_names_one(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[summarizer]\napiKeyFile = "/a"\n')
    environ = {"TIMELEAP_SUMMARIZER_API_KEY": "canary", "TIMELEAP_SUMMARIZER_API_KEY_FILE": "/b"}
    assert config.load(tmp_path, environ={}).summarizer == {"apiKeyFile": "/a"}
    assert config.load(tmp_path, environ=environ).summarizer == {}
    options = {"summarizer": {"apiKeyFile": "/c"}}
    loaded = config.load(tmp_path, environ=environ, options=options)
    assert loaded.summarizer == {"apiKeyFile": "/c"}
    assert "canary" not in repr(loaded)


@pytest.mark.parametrize(
    ("url", "odd"),
    [
        ("https://models.example.com/v1", False),
        ("http://localhost:11434/v1", False),
        ("http://127.0.0.1:1/v1", False),
        ("http://[::1]:1/v1", False),
        ("http://models.example.com/v1", True),
    ],
)
def test_an_endpoint_in_the_clear_is_warned_of(tmp_path: Path, url: str, odd: bool):
    loaded = config.load(tmp_path, environ={}, options={"summarizer": {"baseUrl": url}})
    assert any("unencrypted" in warning for warning in loaded.warnings) is odd


@pytest.mark.parametrize(
    "settings", [{"baseUrl": "models.example.com"}, {"baseUrl": "file:///x"}, {"contextSize": 0}, {"timeout": "soon"}]
)
def test_an_unusable_endpoint_is_refused(tmp_path: Path, settings: dict[str, object]):
    with pytest.raises(InvalidInputError, match="summarizer"):
        config.load(tmp_path, environ={}, options={"summarizer": settings})
