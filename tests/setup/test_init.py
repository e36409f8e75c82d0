"""`codriver init`: what it detects, prints and writes."""

import json
import sys
import tomllib
from pathlib import Path

import forked
import needs
import pytest
from live_server import environ

from codriver.app import features
from codriver.app.workspace_settings import load_workspace_settings
from codriver.files.codriver_paths import workspace_state_directory
from codriver.repls.launch.projects import find_projects, port_files_with_port
from codriver.setup.clients import NoSuchScopeError, UnknownClientError
from codriver.setup.environment import Environment
from codriver.setup.init import InitOptions, run_init
from codriver.setup.relay_launch import Launch


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


@pytest.fixture
def init(tmp_path, workspace):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bb", "clojure"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    machine = Environment(tmp_path / "home", "linux", {"PATH": str(programs)})
    launch = Launch(Path("/opt/python"), Path("/opt/codriver_relay.py"), workspace)
    return lambda **options: run_init(launch, InitOptions(**options), machine, features.project_finders())


def write(workspace, files):
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)


NBB = '{"dependencies": {"nbb": "1"}}'
GROUPS = '[dependency-groups]\ndev = ["basilisp", {include-group = "x"}]'


@pytest.mark.parametrize(
    ("files", "repl", "evidence"),
    [
        ({"deps.edn": "{}"}, "clojure", "deps.edn"),
        ({"project.clj": ""}, "lein", "project.clj"),
        ({"bb.edn": "{}"}, "bb", "bb.edn"),
        ({"shadow-cljs.edn": "{}", "deps.edn": "{}"}, "shadow-cljs", "shadow-cljs.edn"),
        ({"nbb.edn": "{}"}, "nbb", "nbb.edn"),
        ({"package.json": '{"devDependencies": {"nbb": "1"}}'}, "nbb", "package.json requires nbb"),
        ({"pyproject.toml": '[project]\ndependencies = ["Basilisp>=0.5"]'}, "lisp", "pyproject.toml requires basilisp"),
        ({"pyproject.toml": '[project.optional-dependencies]\nx = ["hy"]'}, "python", "pyproject.toml"),
        ({"pyproject.toml": '[tool.poetry.dependencies]\nhy = "1"'}, "hy", "pyproject.toml requires hy"),
        ({"pyproject.toml": GROUPS}, "python", "pyproject.toml"),
        ({"src/app/core.lpy": ""}, "lisp", "src/app/core.lpy"),
        ({"main.hy": ""}, "hy", "main.hy"),
        ({"pyproject.toml": "[project]\nname = 'hyper'\ndependencies = ['hypothesis']"}, "python", "pyproject.toml"),
        ({"tool.py": ""}, "python", "tool.py"),
    ],
)  # fmt: skip
def test_a_project_is_recognized_by_its_files(workspace, files, repl, evidence):
    write(workspace, files)
    first = find_projects(workspace)[0]
    assert (first.repl, first.evidence) == (repl, evidence)
    assert first.command


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"package.json": "{"},
        {"package.json": "[]"},
        {"README.md": ""},
        {"node_modules/x/a.lpy": "", ".venv/lib/b.py": ""},
    ],
)
def test_a_directory_without_project_files_is_not_recognized_as_a_project(workspace, files):
    write(workspace, files)
    assert find_projects(workspace) == ()


def test_a_project_of_several_kinds_is_listed_with_all_its_kinds(workspace):
    write(workspace, {"deps.edn": "{}", "bb.edn": "{}", "scripts/x.py": ""})
    assert [project.repl for project in find_projects(workspace)] == ["clojure", "bb", "python"]


def test_an_unreadable_pyproject_does_not_stop_the_search(workspace):
    write(workspace, {"pyproject.toml": "[", "a.lpy": ""})
    assert [project.repl for project in find_projects(workspace)] == ["python", "lisp"]


def test_a_valid_port_file_means_a_running_repl(workspace):
    write(workspace, {".nrepl-port": "1234\n", ".shadow-cljs/nrepl.port": "x"})
    assert port_files_with_port(workspace) == (".nrepl-port",)


def test_init_writes_entries_of_detected_clients(init, workspace):
    write(workspace, {".vscode/settings.json": "{}", "a.py": ""})
    report = init()
    assert report.exit_status == 0
    assert [change.title for change in report.changes] == ["codriver", "VS Code"]
    assert "codriver" in json.loads((workspace / ".vscode" / "mcp.json").read_text())["servers"]
    assert f"VS Code         added to {workspace / '.vscode' / 'mcp.json'}" in report.text
    assert "project    Python (a.py)" in report.text
    assert "codriver doctor" in report.text


def test_opencode_may_read_the_image_directory_of_this_workspace_only(init, workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    write(workspace, {"opencode.json": "{}"})
    text = init().text
    pictures = workspace_state_directory(workspace) / "pictures"
    assert pictures.is_relative_to(tmp_path / "elsewhere")
    assert f'"external_directory": {{"{pictures.as_posix()}/**": "allow"}}' in text
    assert "~/.local/state" not in text
    assert "permission" not in json.loads((workspace / "opencode.json").read_text())


def test_a_second_init_reports_that_everything_exists(init, workspace):
    write(workspace, {".vscode/settings.json": "{}"})
    init()
    report = init()
    assert "VS Code         already in" in report.text
    assert "next" not in report.text


def test_a_dry_run_shows_the_diff_and_writes_nothing(init, workspace):
    write(workspace, {"deps.edn": "{}"})
    report = init(clients=["claude-code"], dry_run=True)
    assert '+    "codriver": {' in report.text
    assert '+repl = ["clojure"]' in report.text
    assert "this was a dry run" in report.text
    assert {file.name for file in workspace.iterdir()} == {"deps.edn"}


def test_the_repl_to_start_is_written_to_settings_if_the_project_needs_a_repl(init, workspace):
    write(workspace, {"deps.edn": "{}"})
    init(clients=["zed"])
    assert load_workspace_settings(workspace, environ={}).settings.repl == ("clojure",)


def test_projects_in_subdirectories_are_listed_with_a_way_to_serve_them(init, workspace):
    files = {"backend/deps.edn": "{}", "a/b/c/bb.edn": "{}", "tools/pyproject.toml": "", "node_modules/x/nbb.edn": ""}
    write(workspace, files)
    reported = init(clients=["zed"]).text
    assert "project    none recognized" in reported
    assert "(backend/deps.edn): codriver init in that folder gives it its own server" in reported
    assert "Python (tools/pyproject.toml)" in reported
    assert "bb.edn" not in reported
    assert "nbb.edn" not in reported
    write(workspace, {"deps.edn": "{}"})
    reported = init(clients=["zed"]).text
    assert " (deps.edn)" in reported
    assert "backend" not in reported


def test_existing_settings_are_kept_and_the_repl_is_inserted_before_them(init, workspace):
    write(workspace, {"bb.edn": "{}", "codriver.toml": "# mine\nwatch = true\n"})
    init(clients=["zed"])
    assert (workspace / "codriver.toml").read_text() == 'repl = ["bb"]\n# mine\nwatch = true\n'


def test_settings_with_a_byte_order_mark_and_crlf_accept_the_repl(init, workspace):
    (workspace / "bb.edn").write_text("{}")
    (workspace / "codriver.toml").write_bytes(b"\xef\xbb\xbfwatch = true\r\n")
    assert init(clients=["zed"]).exit_status == 0
    assert (workspace / "codriver.toml").read_bytes() == b'repl = ["bb"]\nwatch = true\r\n'


@pytest.mark.parametrize(
    "files",
    [
        {"codriver.toml": 'nrepl = ["7888"]\n'},
        {"codriver.toml": "broken ="},
        {"codriver.toml/x": "a folder"},
        {"pyproject.toml": '[tool.codriver]\nrepl = ["bb"]\n'},
        {".nrepl-port": "7888"},
    ],
)
def test_no_repl_is_written_to_settings_if_one_is_configured_or_running(init, workspace, files):
    write(workspace, {"deps.edn": "{}", **files})
    assert "codriver" not in [change.title for change in init(clients=["zed"]).changes]


def test_no_repl_is_written_to_settings_if_its_program_is_missing_or_the_user_declines(init, workspace):
    write(workspace, {"project.clj": ""})
    report = init(clients=["zed"])
    assert "lein is not installed" in report.text
    assert not (workspace / "codriver.toml").exists()
    write(workspace, {"deps.edn": "{}"})
    init(clients=["zed"], start_repl=False)
    assert not (workspace / "codriver.toml").exists()


def test_a_program_in_node_modules_counts_as_installed(init, workspace):
    write(workspace, {"package.json": NBB, "node_modules/.bin/nbb": ""})
    init(clients=["zed"])
    assert tomllib.loads((workspace / "codriver.toml").read_text()) == {"repl": ["nbb"]}


@pytest.mark.parametrize("before", ["", "# mine\nwatch = true\n", 'toolset = "default"\nwatch = true\n', "[other]\n"])
def test_a_requested_toolset_is_written_once_and_other_settings_are_kept(init, workspace, before):
    write(workspace, {"AGENTS.md": "", "codriver.toml": before})
    init(clients=["claude-code"], toolset="full")
    text = (workspace / "codriver.toml").read_text()
    assert text == 'toolset = "full"\n' + before.replace('toolset = "default"\n', "")
    assert load_workspace_settings(workspace, environ={}).settings.toolset == "full"
    init(clients=["claude-code"], toolset="full")
    assert (workspace / "codriver.toml").read_text() == text


def test_the_toolset_is_written_next_to_the_repl(init, workspace):
    write(workspace, {"bb.edn": "{}"})
    init(clients=["claude-code"], toolset="full")
    assert tomllib.loads((workspace / "codriver.toml").read_text()) == {"repl": ["bb"], "toolset": "full"}


@pytest.mark.parametrize("files", [{"pyproject.toml": ""}, {"tool.py": ""}, {"Makefile": "", "src/shop.py": ""}])
def test_the_repl_of_a_python_project_is_also_written_to_settings(init, workspace, files):
    write(workspace, files)
    assert "to use another REPL, change `repl` in codriver.toml" in init(clients=["zed"]).text
    assert load_workspace_settings(workspace, environ={}).settings.repl == ("python",)
    assert "codriver" not in [change.title for change in init(clients=["zed"]).changes]


@pytest.mark.parametrize("options", [{}, {"agents_md": True}], ids=["plain", "agents_md"])
def test_settings_written_without_any_client_are_removed(init, workspace, options):
    write(workspace, {"app.py": ""})
    init(**options)
    assert (workspace / "codriver.toml").exists()
    init(remove=True, scope="user")
    init(remove=True, clients=["zed"])
    assert (workspace / "codriver.toml").exists()
    init(remove=True)
    assert [file.name for file in workspace.iterdir()] == ["app.py"]


def test_a_directory_without_a_project_gets_no_settings(init, workspace):
    write(workspace, {"AGENTS.md": ""})
    init(clients=["zed"])
    assert not (workspace / "codriver.toml").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"AGENTS.md": ""}, "Codriver starts its embedded Python REPL"),
        ({"Cargo.toml": ""}, "none is started. Start one, or set"),
        ({"Cargo.toml": "", ".nrepl-port": "7888"}, "running, according to .nrepl-port"),
        (
            {"Cargo.toml": "", "codriver.toml": 'repl = ["bb"]\n'},
            "codriver starts bb, according to the workspace's settings",
        ),
    ],
)
def test_the_repl_of_an_unrecognized_workspace_is_described(init, workspace, files, message):
    write(workspace, files)
    lines = init(clients=["zed"], dry_run=True).text.splitlines()
    assert "project    none recognized" in lines
    (line,) = [line for line in lines if line.startswith("REPL ")]
    assert message in line


def test_one_refusal_fails_the_command_but_does_not_stop_other_clients(init, workspace):
    write(workspace, {".mcp.json": "{", ".cursor/mcp.json": "{}"})
    report = init(clients=["claude-code", "cursor"])
    assert report.exit_status == 1
    assert "line 1, column 2" in report.text
    assert "codriver" in (workspace / ".cursor" / "mcp.json").read_text()


def test_without_a_detected_client_the_names_of_supported_clients_are_listed(init):
    report = init()
    assert "none found. Choose one with --client: claude-code, vscode," in report.text


def test_removal_undoes_what_init_did(init, workspace):
    before = {"AGENTS.md": "x"}
    write(workspace, before)
    init(clients=["all"])
    report = init(clients=["all"], remove=True)
    assert report.exit_status == 0
    files = {str(file.relative_to(workspace)) for file in workspace.rglob("*") if file.is_file()}
    assert files == set(before)


def test_removal_deletes_only_directories_that_init_created(init, workspace, tmp_path):
    (workspace / ".cursor").mkdir()
    (tmp_path / "home").mkdir()
    init(clients=["all"])
    init(clients=["all"], scope="user")
    write(workspace, {".zed/tasks.json": "[]"})
    for scope in ("workspace", "user"):
        assert init(clients=["all"], scope=scope, remove=True).exit_status == 0
    assert {str(path.relative_to(workspace)) for path in workspace.rglob("*")} == {".cursor", ".zed", ".zed/tasks.json"}
    assert list((tmp_path / "home").iterdir()) == []


def test_a_directory_recreated_by_the_user_is_kept(init, workspace):
    init(clients=["vscode"])
    init(clients=["vscode"], remove=True)
    write(workspace, {".vscode/mcp.json": "{}"})
    init(clients=["vscode"])
    init(clients=["vscode"], remove=True)
    assert (workspace / ".vscode").is_dir()


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize(("scope", "lacking"), [("user", ["Claude Code", "VS Code"]), ("workspace", ["Windsurf"])])
def test_all_clients_that_support_a_scope_are_set_up_and_the_others_are_listed(init, scope, lacking, remove):
    report = init(clients=["all"], scope=scope, remove=remove)
    assert report.exit_status == 0
    for title in lacking:
        assert f"{title:<15} skipped: the client has no file for the scope {scope}" in report.text
    assert not {change.title for change in report.changes} & set(lacking)
    with pytest.raises(NoSuchScopeError):
        init(clients=["all", "claude-code" if scope == "user" else "windsurf"], scope=scope)


def test_removal_from_one_scope_reports_what_remains_in_the_other_scope(init, workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(workspace)
    for scope in ("workspace", "user"):
        init(clients=["zed", "codex", "claude-code"] if scope == "workspace" else ["zed", "codex"], scope=scope)
    user = tmp_path / "home" / ".codex" / "config.toml"
    reported = "codriver init --remove --scope user --client zed --client codex also removes them"
    for options in ({"dry_run": True}, {}):
        report = init(clients=["zed", "codex", "claude-code"], remove=True, **options)
        assert f"Codex           an entry remains in {user}\n" in report.text
        assert report.text.endswith(f"  {reported}\n")
    report = init(clients=["zed"], remove=True, scope="user")
    assert "stays" not in report.text
    report = init(clients=["zed", "codex"], remove=True)
    assert report.text.endswith("  codriver init --remove --scope user --client codex also removes it\n")
    monkeypatch.chdir(tmp_path)
    report = init(clients=["codex"], remove=True)
    assert f"--client codex --workspace {workspace} also removes it" in report.text
    init(clients=["codex"], remove=True, scope="user")
    assert not user.exists()
    init(clients=["codex"])
    assert "--scope workspace --client codex --workspace" in init(clients=["codex"], remove=True, scope="user").text


def test_a_scope_applies_to_the_clients_that_support_it(init, workspace, tmp_path):
    write(workspace, {".vscode/x": "", ".codex/x": ""})
    report = init(scope="user")
    assert [change.title for change in report.changes] == ["Codex"]
    config = tomllib.loads((tmp_path / "home" / ".codex" / "config.toml").read_text())
    assert list(config["mcp_servers"]) == ["codriver-app"]


def test_an_unknown_client_is_refused_before_anything_is_written(init, workspace):
    with pytest.raises(UnknownClientError):
        init(clients=["zed", "nano"])
    assert list(workspace.iterdir()) == []


def test_local_paths_in_files_that_may_be_committed_are_reported(init, workspace):
    assert "git:" not in init(clients=["vscode"]).text
    (workspace / ".git").mkdir()
    assert "git: .mcp.json contains paths from this machine" in init(clients=["claude-code"]).text
    assert "git:" not in init(clients=["claude-code"]).text
    assert "git:" not in init(clients=["windsurf"]).text
    assert "git:" not in init(clients=["claude-code"], remove=True).text


def test_a_dry_run_reports_that_no_client_was_detected(init, workspace):
    write(workspace, {"deps.edn": "{}"})
    report = init(dry_run=True)
    assert "none found" in report.text
    assert report.text.endswith("Nothing was written: this was a dry run.\n")
    assert not (workspace / "codriver.toml").exists()


def test_programs_started_by_workspace_settings_are_listed(init, workspace):
    write(workspace, {"deps.edn": "{}", "codriver.toml": 'repl = ["make repl"]\nnrepl = ["7888"]\n'})
    text = init(clients=["vscode"], dry_run=True).text
    assert "codriver starts make repl, according to the workspace's settings" in text
    assert "codriver connects to 7888" in text
    assert "by hand" not in text


@pytest.mark.parametrize(
    "text",
    [
        "tool = 3\n", "[tool]\ncodriver = 3\n", "[tool\n", "project = 1\n", "[project]\ndependencies = 'x'\n",
        "[project]\noptional-dependencies = []\n", "[tool.poetry]\ndependencies = [1]\n", "build-system = []\n",
        "[build-system]\nrequires = 1\n", "dependency-groups = 1\n", "[dependency-groups]\na = 1\n",
    ],
)  # fmt: skip
def test_an_unexpected_project_file_does_not_stop_init(init, workspace, text):
    write(workspace, {"pyproject.toml": text})
    assert "VS Code" in init(clients=["vscode"], dry_run=True).text


def test_a_client_that_cannot_share_a_file_is_skipped_and_causes_a_failure_only_if_named(init, workspace):
    write(workspace, {".mcp.json": '{"mcpServers": {}}', ".vs/x": ""})
    report = init()
    assert "Visual Studio   skipped:" in report.text
    assert "codriver init --client visual-studio --scope user writes another file" in report.text
    assert report.exit_status == 0
    assert init(clients=["visual-studio"]).exit_status == 1
    assert "servers" not in json.loads((workspace / ".mcp.json").read_text())


def test_copilot_uses_the_entry_of_claude_code(init, workspace):
    report = init(clients=["claude-code", "copilot"])
    assert f"Claude Code     added to {workspace / '.mcp.json'}" in report.text
    assert f"Copilot CLI     already in {workspace / '.mcp.json'}" in report.text
    assert "Copilot CLI: start copilot in the workspace and trust the folder" in report.text


def test_approving_tools_explains_the_permissions_it_grants(init, workspace):
    report = init(clients=["codex", "zed"], approve=True, dry_run=True)
    reported = (
        'Codex: default_tools_approval_mode = "approve" lets its agent run every Codriver tool, and thus any code'
    )
    assert f"approve    {reported}, without asking you" in report.text
    assert "approve    Zed: its entry has no such setting" in report.text
    assert "approve" not in init(clients=["codex"], dry_run=True).text


def test_a_directory_of_notebooks_gets_a_kernel(init, workspace):
    needs.every_feature()
    write(workspace, {"look.ipynb": "", "x.csv": "", "requirements.txt": "pandas\n"})
    (workspace / ".venv" / "bin").mkdir(parents=True)
    (workspace / ".venv" / "bin" / "python").symlink_to(sys.executable)
    assert 'repl = ["python"]' in init(clients=["vscode"], dry_run=True).text
    write(workspace, {".venv/lib/python3.12/site-packages/ipykernel_launcher.py": ""})
    report = init(clients=["vscode"])
    assert "project    Jupyter kernel (look.ipynb)" in report.text
    assert (workspace / "codriver.toml").read_text() == 'repl = ["jupyter"]\n'


@pytest.mark.parametrize("where", ["home", "above home", "root"])
def test_the_home_and_root_directories_are_set_up_only_if_forced(tmp_path, where):
    home = tmp_path / "home"
    home.mkdir()
    env = {**environ(tmp_path), "HOME": str(home), "USERPROFILE": str(home)}
    workspace = {"home": home, "above home": tmp_path, "root": Path(tmp_path.anchor)}[where]
    before = set(workspace.iterdir())
    for option in ((), ("--dry-run",), ("--client", "claude-code")):
        done = forked.run(("init", "--workspace", str(workspace), *option), env=env, cwd=tmp_path)
        assert (done.returncode, "--force" in done.stderr) == (1, True)
    assert set(workspace.iterdir()) == before
    forced = ("init", "--workspace", str(workspace), "--force", "--dry-run", "--client", "claude-code")
    assert forked.run(forced, env=env, cwd=tmp_path).returncode == 0
    project = home / "project"
    project.mkdir()
    assert forked.run(("init", "--client", "claude-code"), env=env, cwd=project).returncode == 0
