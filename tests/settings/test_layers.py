"""Settings: layers, origins, and the messages about invalid ones."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from codriver.app.workspace_settings import load_workspace_settings, settings_model
from codriver.errors import StartError
from codriver.settings import model
from codriver.settings.layers import NON_SETTING_VARIABLES, SettingsError, setting_rows
from codriver.settings.model import Settings, environment_variable, name_in_files, settings_table

ADDRESSES = "a list of strings like [KEY=][HOST:]PORT, with ports from 1 to 65535"


@pytest.fixture
def user_file(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "codriver").mkdir(parents=True)
    return tmp_path / "config" / "codriver" / "codriver.toml"


@pytest.fixture
def workspace(user_file, tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_without_any_layer_the_default_settings_apply(workspace):
    loaded = load_workspace_settings(workspace, environ={})
    assert loaded.settings == settings_model()()
    assert loaded.warnings == ()
    assert {origin.layer for origin in loaded.origins.values()} == {"default"}


def test_the_port_is_chosen_only_if_a_layer_sets_it(workspace):
    assert not load_workspace_settings(workspace, environ={}).settings.has_chosen_port
    assert load_workspace_settings(
        workspace, environ={}, overrides={"mcp_socket_server_port": 1664}
    ).settings.has_chosen_port
    (workspace / "codriver.toml").write_text("mcpSocketServerPort = 1664\n")
    assert load_workspace_settings(workspace, environ={}).settings.has_chosen_port


def test_each_layer_overrides_those_before_it(workspace, user_file):
    steps = [("default", 1664)]

    def check():
        loaded = load_workspace_settings(workspace, environ=environ, overrides=overrides)
        assert (loaded.origins["mcp_socket_server_port"].layer, loaded.settings.mcp_socket_server_port) == steps[-1]
        return loaded.origins["mcp_socket_server_port"].source

    environ, overrides = {}, {}
    check()
    user_file.write_text("mcpSocketServerPort = 1\n")
    steps.append(("user", 1))
    assert check() == str(user_file)
    (workspace / "pyproject.toml").write_text("[tool.codriver]\nmcpSocketServerPort = 2\n")
    steps.append(("workspace", 2))
    assert check() == str(workspace / "pyproject.toml")
    (workspace / "codriver.toml").write_text("mcpSocketServerPort = 3\n")
    steps.append(("workspace", 3))
    assert check() == str(workspace / "codriver.toml")
    environ["CODRIVER_MCP_SOCKET_SERVER_PORT"] = "4"
    steps.append(("environment", 4))
    assert check() == "CODRIVER_MCP_SOCKET_SERVER_PORT"
    overrides["mcp_socket_server_port"] = 5
    steps.append(("command line", 5))
    check()


def test_an_omitted_option_overrides_nothing(workspace):
    loaded = load_workspace_settings(workspace, environ={"CODRIVER_MAX_DEPTH": "9"}, overrides={"max_depth": None})
    assert loaded.settings.max_depth == 9


def test_settings_from_several_layers_are_combined(workspace, user_file):
    user_file.write_text('watch = true\nrepl = ["python"]\n')
    (workspace / "codriver.toml").write_text('nrepl = ["clj=localhost:7888", "1234", "[::1]:5555"]\n')
    settings = load_workspace_settings(workspace, environ={"CODRIVER_HOST": "::1"}).settings
    assert (settings.watch, settings.repl, settings.host) == (True, ("python",), "::1")
    assert settings.nrepl == ("clj=localhost:7888", "1234", "[::1]:5555")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("python", ("python",)),
        ("python, lisp", ("python", "lisp")),
        ('["bb nrepl-server 0", "x a,b"]', ("bb nrepl-server 0", "x a,b")),
        ("", ()),
    ],
)
def test_a_list_is_read_from_the_environment(workspace, user_file, text, value):
    user_file.write_text('repl = ["hy"]\n')
    assert load_workspace_settings(workspace, environ={"CODRIVER_REPL": text}).settings.repl == value


def test_an_ipv6_address_in_the_environment_is_not_parsed_as_json(workspace):
    assert load_workspace_settings(workspace, environ={"CODRIVER_NREPL": "[::1]:7888"}).settings.nrepl == (
        "[::1]:7888",
    )


def test_an_empty_variable_counts_as_unset(workspace):
    assert load_workspace_settings(workspace, environ={"CODRIVER_MAX_DEPTH": ""}).settings.max_depth == 7


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("off", False), ("0", False)])
def test_a_boolean_is_read_from_the_environment(workspace, text, value):
    assert load_workspace_settings(workspace, environ={"CODRIVER_WATCH": text}).settings.watch is value


@pytest.mark.parametrize("name", sorted(NON_SETTING_VARIABLES))
def test_other_variables_of_codriver_are_not_settings(workspace, name):
    assert load_workspace_settings(workspace, environ={name: "x", "PATH": "y"}).warnings == ()


@pytest.mark.parametrize(
    ("line", "value", "allowed"),
    [
        ("mcpSocketServerPort = 70000", "70000", "a whole number from 0 to 65535"),
        ("mcpSocketServerPort = -1", "-1", "a whole number from 0 to 65535"),
        ('mcpSocketServerPort = "1664"', '"1664"', "a whole number from 0 to 65535"),
        ("maxDepth = true", "true", "a whole number from 1 to 1000"),
        ("maxDepth = 1.5", "1.5", "a whole number from 1 to 1000"),
        ("watch = 1", "1", "true or false"),
        ('watch = "yes"', '"yes"', "true or false"),
        ("host = 1", "1", "a non-empty string"),
        ('host = ""', '""', "a non-empty string"),
        ("repl = [2020-01-01]", '["2020-01-01"]', "a list of non-empty strings"),
        ("host = 2020-01-01", '"2020-01-01"', "a non-empty string"),
        ('repl = "python"', '"python"', "a list of non-empty strings"),
        ("repl = [1]", "[1]", "a list of non-empty strings"),
        ('nrepl = ["localhost"]', '["localhost"]', ADDRESSES),
        ('nrepl = ["xyz:1:2"]', '["xyz:1:2"]', ADDRESSES),
        ('nrepl = ["::1:7888"]', '["::1:7888"]', ADDRESSES),
        ('nrepl = ["localhost:99999"]', '["localhost:99999"]', ADDRESSES),
        ('nrepl = ["clj=0"]', '["clj=0"]', ADDRESSES),
    ],
)
def test_the_error_for_an_invalid_value_names_the_file_key_value_and_alternatives(workspace, line, value, allowed):
    (workspace / "codriver.toml").write_text(line + "\n")
    with pytest.raises(SettingsError) as caught:
        load_workspace_settings(workspace, environ={})
    key = line.split(" ")[0]
    assert str(caught.value) == f"{workspace / 'codriver.toml'}: {key} = {value} is invalid. Use {allowed}"
    assert isinstance(caught.value, StartError)


def test_the_error_names_an_invalid_environment_variable(workspace):
    with pytest.raises(SettingsError, match=r"CODRIVER_MAX_DEPTH: maxDepth = \"deep\" is invalid\. Use"):
        load_workspace_settings(workspace, environ={"CODRIVER_MAX_DEPTH": "deep"})


def test_the_error_names_an_invalid_option(workspace):
    with pytest.raises(SettingsError, match="command line: mcpSocketServerPort = 99999 is invalid"):
        load_workspace_settings(workspace, environ={}, overrides={"mcp_socket_server_port": 99999})


def test_an_unknown_key_causes_a_warning_that_suggests_the_most_similar_name(workspace, user_file):
    user_file.write_text("mcpSocketServerPrt = 1\nmax-depth = 3\nzzzzz = 1\n")
    (workspace / "pyproject.toml").write_text("[tool.codriver]\nautoStartMcpServer = true\n")
    loaded = load_workspace_settings(workspace, environ={"CODRIVER_MAXDEPTH": "1"})
    assert loaded.settings == settings_model()()
    assert loaded.warnings == (
        f"{user_file}: there is no setting mcpSocketServerPrt; did you mean mcpSocketServerPort?",
        f"{user_file}: there is no setting max-depth; did you mean maxDepth?",
        f"{user_file}: there is no setting zzzzz",
        f"{workspace / 'pyproject.toml'}: there is no setting autoStartMcpServer; did you mean autoStartMCPServer?",
        "CODRIVER_MAXDEPTH: there is no setting CODRIVER_MAXDEPTH; did you mean CODRIVER_MAX_DEPTH?",
    )


@pytest.mark.parametrize("content", [b"maxDepth = \n", b"\xff\xfe", b"[a\n"])
def test_the_error_names_an_unreadable_settings_file(workspace, content):
    (workspace / "codriver.toml").write_bytes(content)
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        load_workspace_settings(workspace, environ={})
    assert caught.value.source == str(workspace / "codriver.toml")


def test_a_byte_order_mark_in_a_settings_file_is_accepted(workspace):
    (workspace / "codriver.toml").write_bytes(b"\xef\xbb\xbfmaxDepth = 3\n")
    assert load_workspace_settings(workspace, environ={}).settings.max_depth == 3


@pytest.mark.parametrize("text", ["tool = 1\n", "[tool]\ncodriver = 3\n"])
def test_a_value_other_than_a_table_in_pyproject_is_an_error(workspace, text):
    (workspace / "pyproject.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"Write \[tool.codriver\]"):
        load_workspace_settings(workspace, environ={})


def test_a_pyproject_without_a_table_for_codriver_is_valid(workspace):
    (workspace / "pyproject.toml").write_text('[tool.black]\nline-length = 1\n[project]\nname = "x"\n')
    assert load_workspace_settings(workspace, environ={}).warnings == ()


def test_settings_are_immutable():
    with pytest.raises(ValidationError):
        Settings().max_depth = 3  # type: ignore[misc]  # it cannot, and is to say so


def test_setting_names_inherited_from_calva_are_unchanged():
    names = {name_in_files(name) for name in Settings.model_fields}
    assert names >= {
        "enableMcpReplEvaluation", "mcpSocketServerPort", "autoStartMCPServer", "provideBdSkill", "provideEditSkill",
        "fuzzyLineTargetingPadding", "lineContextResponsePadding", "maxLength", "maxDepth",
    }  # fmt: skip


def test_every_setting_has_a_description_a_default_and_its_allowed_values():
    table = settings_table(settings_model())
    for name, info in settings_model().model_fields.items():
        assert info.description
        assert info.description.endswith(".")
        assert info.default is not None
        assert f"| `{name_in_files(name)}` |" in table
        assert environment_variable(name).isupper()
    assert "None" not in table
    assert len({line.count(" | ") for line in table.splitlines()}) == 1


def test_every_value_is_listed_with_its_origin(workspace, user_file):
    user_file.write_text("maxDepth = 3\n")
    rows = {
        name: (value, whence)
        for name, value, whence in setting_rows(load_workspace_settings(workspace, environ={"CODRIVER_REPL": "hy"}))
    }
    assert rows["maxDepth"] == ("3", f"user ({user_file})")
    assert rows["repl"] == ('["hy"]', "environment (CODRIVER_REPL)")
    assert rows["watch"] == ("false", "default")
    assert len(rows) == len(settings_model().model_fields)


def test_listed_values_can_be_pasted_into_a_settings_file(workspace):
    (workspace / "codriver.toml").write_text(r'host = "\u007f\u0001\"é\\"' + "\nnrepl = ['clj=localhost:7888']\n")
    found = load_workspace_settings(workspace, environ={})
    (workspace / "codriver.toml").write_text("".join(f"{name} = {value}\n" for name, value, _ in setting_rows(found)))
    assert load_workspace_settings(workspace, environ={}).settings == found.settings


def test_every_setting_is_used_somewhere():
    server = Path(model.__file__).parents[1]
    code = "".join(file.read_text() for file in server.rglob("*.py") if file != Path(model.__file__))
    read = [name for name in Settings.model_fields if f"settings.{name}" in code or f'from_settings("{name}")' in code]
    assert read == list(Settings.model_fields)
