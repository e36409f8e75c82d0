"""Settings that features declare are loaded, described and accepted like those of the base."""

import pytest

from codriver.files.codriver_paths import user_settings_file
from codriver.settings import layers
from codriver.settings.acceptance import accept_workspace
from codriver.settings.declared import DeclaredSetting
from codriver.settings.layers import SettingsError, SettingsReloader
from codriver.settings.model import Settings, build_settings_model, settings_table

ADDRESS = DeclaredSetting("docs_address", "https://example.org", "Where the docs are.", grants="any value")
DAYS = DeclaredSetting("docs_days", 30, "Days until the docs are old.", least=1, most=365)
SHARES = DeclaredSetting("shares_docs", default=False, description="Share the docs.", grants="true", needs_restart=True)
MODEL = build_settings_model((ADDRESS, DAYS, SHARES))


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def write(workspace, text):
    (workspace / "codriver.toml").write_text(text)


def load(workspace, environ=None, overrides=None):
    return layers.load_settings(workspace, environ=environ or {}, model=MODEL, overrides=overrides)


def test_a_declared_setting_is_read_from_every_layer(workspace):
    assert load(workspace).settings.value_of(DAYS) == 30
    write(workspace, "docsDays = 3\n")
    assert load(workspace).settings.value_of(DAYS) == 3
    assert load(workspace, {"CODRIVER_DOCS_DAYS": "4"}).settings.value_of(DAYS) == 4
    assert load(workspace, {"CODRIVER_DOCS_DAYS": "4"}, {"docs_days": 5}).settings.value_of(DAYS) == 5


def test_a_setting_does_not_exist_without_the_feature_that_declares_it(workspace):
    write(workspace, "docsDays = 3\n")
    found = layers.load_settings(workspace, environ={}, model=Settings)
    assert "there is no setting docsDays" in found.warnings[0]


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("docsDays = 0", "a whole number from 1 to 365"),
        ('docsDays = "3"', "a whole number from 1 to 365"),
        ("sharesDocs = 1", "true or false"),
        ('docsAddress = ""', "a non-empty string"),
    ],
)
def test_the_error_for_an_invalid_value_lists_the_allowed_values(workspace, line, allowed):
    write(workspace, line)
    with pytest.raises(SettingsError, match=allowed):
        load(workspace)


@pytest.mark.parametrize(
    ("setting", "line", "value"),
    [(ADDRESS, 'docsAddress = "http://192.0.2.1"', "http://192.0.2.1"), (SHARES, "sharesDocs = true", True)],
)
def test_a_setting_that_grants_access_takes_effect_only_once_accepted(workspace, setting, line, value):
    write(workspace, line)
    found = load(workspace)
    assert found.settings.value_of(setting) == setting.default
    assert [item.setting for item in found.withheld] == [line.partition(" ")[0]]
    accept_workspace(workspace, found, {})
    assert load(workspace).settings.value_of(setting) == value


def test_a_harmless_setting_takes_effect_at_once(workspace):
    write(workspace, "docsDays = 3\nsharesDocs = false\n")
    assert load(workspace).withheld == ()


def test_a_setting_that_needs_a_restart_does_not_change_in_a_running_server(workspace):
    user_settings_file().parent.mkdir(parents=True)
    user = user_settings_file()
    user.write_text("docsDays = 3\n")
    reloader = SettingsReloader(workspace, environ={}, overrides={}, loaded=load(workspace))
    user.write_text("docsDays = 4\nsharesDocs = true\n")
    news = reloader.check()
    assert (news.settings.value_of(DAYS), news.settings.value_of(SHARES)) == (4, False)
    assert [("takes effect after a restart" in line, "takes effect now" in line) for line in news.changes] == [
        (False, True),
        (True, False),
    ]


def test_the_table_has_a_row_for_each_declared_setting():
    rows = {line.split(" | ")[0].strip("| `"): line for line in settings_table(MODEL).splitlines()}
    assert rows["docsAddress"].endswith("| once accepted | at once |")
    assert rows["docsDays"].endswith("| always | at once |")
    assert rows["sharesDocs"].endswith("| true once accepted | at a restart |")
