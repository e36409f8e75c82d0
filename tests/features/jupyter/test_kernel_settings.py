import json

import pytest
from accepted import accept

from codriver.app.workspace_settings import load_workspace_settings
from codriver.features.jupyter.configured_kernels import configured_kernels
from codriver.features.jupyter.kernel_entries import UnencryptedError, check_encrypted
from codriver.features.jupyter.kernels.named_kernels import KernelUrl, TokenSource
from codriver.features.jupyter.settings import KERNELS_SETTING
from codriver.settings.layers import SettingsError, setting_rows

SECRET = "0123456789abcdef-secret"


@pytest.fixture
def user_settings(tmp_path, monkeypatch):
    """Return the user's own settings file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "ws").mkdir()
    path = tmp_path / "config" / "codriver" / "codriver.toml"
    path.parent.mkdir(parents=True)
    return path


def kernels(user_settings, text="", *, command_line=(), environ=None):
    user_settings.write_text(text)
    loaded = load_workspace_settings(
        user_settings.parents[2] / "ws", environ=environ or {}, overrides={"kernels": tuple(command_line) or None}
    )
    return configured_kernels(loaded.settings, environ or {})


def test_a_settings_table_defines_a_kernel_with_its_token_and_variables(user_settings):
    (kernel,) = kernels(
        user_settings,
        '[[kernels]]\nurl = "https://hub/user/me/"\nkernel = "python3"\nkey = "gpu"\ntokenFile = "~/.hub-token"\n'
        'env = {KERNEL_MEMORY = "8G"}\n',
    )
    assert kernel.location == KernelUrl("https://hub/user/me", spec="python3", name="gpu")
    assert (kernel.key, kernel.token, kernel.env) == ("gpu", TokenSource(file="~/.hub-token"), {"KERNEL_MEMORY": "8G"})


def test_a_kernel_given_on_the_command_line_is_added_and_uses_its_servers_token(user_settings):
    kernels_in_file = '[[kernels]]\nurl = "http://box:8888/?kernel=ir"\ntokenEnv = "BOX"\nplainHttp = true\n'
    first, second, third = kernels(
        user_settings, kernels_in_file, command_line=["http://box:8888/api/kernels/a-1", "x=https://c/?kernel="]
    )
    assert first.token == second.token == TokenSource(variable="BOX")
    assert second.location == KernelUrl("http://box:8888", kernel="a-1")
    assert second.is_plain_allowed
    assert (third.key, third.token, third.is_plain_allowed) == ("x", TokenSource(), False)


def test_a_server_without_a_named_token_gets_the_default_token_variable(user_settings):
    (kernel,) = kernels(user_settings, command_line=["https://c/?kernel="], environ={"CODRIVER_KERNEL_TOKEN": SECRET})
    assert kernel.token == TokenSource(variable="CODRIVER_KERNEL_TOKEN")


def test_the_kernel_token_variable_is_not_an_unknown_setting(user_settings):
    assert not load_workspace_settings(
        user_settings.parents[2] / "ws", environ={"CODRIVER_KERNEL_TOKEN": SECRET}
    ).warnings


@pytest.mark.parametrize("is_accepted", [False, True])
def test_kernels_in_a_workspace_file_are_ignored(user_settings, is_accepted):
    workspace = user_settings.parents[2] / "ws"
    (workspace / "codriver.toml").write_text('kernels = ["https://thief/?kernel=python3"]\n')
    if is_accepted:
        accept(workspace)
    loaded = load_workspace_settings(workspace, environ={})
    assert loaded.settings.value_of(KERNELS_SETTING) == ()
    (warning,) = loaded.warnings
    assert "kernels is ignored in a workspace's file" in warning
    assert "thief" not in warning


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f'[[kernels]]\nurl = "https://h/?kernel=a&token={SECRET}"', "tokenFile or tokenEnv"),
        (f'[[kernels]]\nurl = "https://me:{SECRET}@h/?kernel=a"', "tokenFile or tokenEnv"),
        (f'[[kernels]]\nurl = "https://h/?kernel=a"\ntoken = "{SECRET}"', "tokenFile or tokenEnv"),
        (f'[[kernels]]\nurl = "https://h/?kernel=a"\nsecret = "{SECRET}"', "secret"),
        (f'[[kernels]]\nurl = "https://h/{SECRET}"', "but no kernel"),
        (f'[[kernels]]\nfile = "{SECRET}.json"', "has to be absolute"),
        (f'[[kernels]]\nkey = "a"\ntokenFile = "{SECRET}"', "either a file or a url"),
        (f'[[kernels]]\nurl = "https://h/?kernel=a"\nkey = "{SECRET} x"', "a key may only contain"),
        (f'[[kernels]]\nurl = "https://h/?kernel=a"\nenv = {{AWS_SECRET = "{SECRET}"}}', "KERNEL_"),
        (f'kernels = "{SECRET}"', "kernels"),
    ],
)
def test_an_invalid_kernel_is_refused_without_showing_a_token(user_settings, text, cause):
    with pytest.raises(SettingsError, match=cause) as raised:
        kernels(user_settings, text)
    assert SECRET not in f"{raised.value} {raised.value.errors} {raised.value.__cause__}"


def test_the_list_of_settings_shows_kernels_without_secrets(user_settings):
    user_settings.write_text('[[kernels]]\nurl = "https://h/"\nkernel = "ir"\nkey = "r"\ntokenEnv = "HUB"\n')
    rows = {
        name: value
        for name, value, _ in setting_rows(
            load_workspace_settings(user_settings.parents[2] / "ws", environ={"HUB": SECRET})
        )
    }
    assert json.loads(rows["kernels"]) == ["r=https://h/?kernel=ir"]


def test_plain_http_to_another_machine_needs_the_users_explicit_setting(user_settings):
    with pytest.raises(UnencryptedError, match="plainHttp = true"):
        check_encrypted(kernels(user_settings, command_line=["http://box/?kernel="]))
    check_encrypted(
        kernels(user_settings, command_line=["http://127.0.0.1:8888/?kernel=", "https://box/?kernel=", "/tmp/k.json"])
    )
    check_encrypted(kernels(user_settings, '[[kernels]]\nurl = "http://box/?kernel="\nplainHttp = true\n'))
