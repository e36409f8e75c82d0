"""Files that no edit may change, under any name that a file system resolves to them."""

from pathlib import Path

import pytest

from codriver.editing.file_changes import MISSING, Change, Snapshot
from codriver.settings.model import Settings
from codriver.setup.clients import known_clients
from codriver.tools.edit_refusals import find_general_refusal_reason

WORKSPACE = Path("/workspace")


def refusal(name, settings=None):
    return find_general_refusal_reason(WORKSPACE, settings or Settings(), Change(WORKSPACE / name, MISSING, b"{}"))


@pytest.mark.parametrize("name", sorted({name for client in known_clients().values() for name in client.workspace}))
def test_config_files_of_clients_cannot_be_edited(name):
    assert refusal(name)


@pytest.mark.parametrize(
    "name",
    [
        "CODRIVER.TOML", "Codriver.toml", "codriver.toml.", "codriver.toml ", "codriver.toml::$DATA",
        "co\u200bdriver.toml", "sub/CODRIVER.toml",
        "OpenCode.json", "opencode.jsonc. ", ".MCP.json", "\u200b.mcp.json", "\uff0emcp.json",
        "\u200d.github/hooks/edit.json", ".mcp.json:x.py", ".envrc", ".ENVRC",
    ],
)  # fmt: skip
def test_other_spellings_of_a_protected_file_cannot_be_edited(name):
    assert refusal(name)


@pytest.mark.parametrize(
    "name",
    [
        ".lsp/config.edn",  # clojure-lsp runs the commands that find the classpath when the project is opened
        ".clj-kondo/hooks/macros.clj",  # the linter runs it in every editor
        ".joyride/scripts/workspace_activate.cljs",  # VS Code, when the folder is opened
        ".nrepl.edn",  # the middleware of each REPL
        ".claude/hooks/check.py", ".github/hooks/edit.py", ".cursor/hooks/after.py",  # clients' hooks run them
        ".husky/check.py", ".githooks/pre_commit.py",  # at each commit
        ".vscode/task.py", ".idea/run.py", ".github/scripts/release.py", ".venv/sitecustomize.py",
        "sub/.LSP/config.edn", "sub/\u200b.lsp/config.edn", ".clj-kondo/.lsp/config.edn",
    ],
)  # fmt: skip
def test_files_executed_on_opening_or_committing_a_project_cannot_be_edited(name):
    assert refusal(name)
    assert not refusal(name, Settings(allow_edits_of_client_files=True))


@pytest.mark.parametrize(
    "name",
    [
        "prek.toml",
        "lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", "lefthook-local.yml", "Lefthook.YML",
        "simple-git-hooks.json", "simple-git-hooks.js", "simple-git-hooks.cjs", "captainhook.json", "grumphp.yml.dist",
        "shop.code-workspace", "sub/shop.CODE-WORKSPACE", "shop.sublime-project",
        "venv/bin/activate", "venv/Scripts/activate.bat", "sub/venv/lib/python3.12/site-packages/x.pth",
        "env/pyvenv.cfg",
        "eslint.config.js", "sub/eslint.config.mjs", "prettier.config.cjs", "vite.config.ts", "jest.config.mts",
        "build.rs", "build.gradle", "settings.gradle.kts", "build.sbt",
        "flake.nix", "shell.nix", "mise.toml", "devbox.json",
        "Jenkinsfile", "Jenkinsfile.release", "azure-pipelines.yml", "bitbucket-pipelines.yml", "action.yml",
        ".gitlab-ci.yml", ".github/workflows/ci.yml", ".circleci/config.yml", ".pre-commit-config.yaml",
    ],
)  # fmt: skip
def test_files_run_automatically_by_git_editors_shells_or_ci_cannot_be_edited(name):
    assert refusal(name)
    assert not refusal(name, Settings(allow_edits_of_client_files=True))


def test_files_of_a_python_environment_cannot_be_edited(tmp_path):
    (tmp_path / "tools" / "py312" / "bin").mkdir(parents=True)
    change = Change(tmp_path / "tools" / "py312" / "bin" / "activate", MISSING, b"x")
    assert not find_general_refusal_reason(tmp_path, Settings(), change)
    (tmp_path / "tools" / "py312" / "pyvenv.cfg").touch()
    assert "in a Python environment" in find_general_refusal_reason(tmp_path, Settings(), change)
    (tmp_path / "pyvenv.cfg").touch()
    assert not find_general_refusal_reason(tmp_path, Settings(), Change(tmp_path / "app.py", MISSING, b"x"))


def existing_file(folder, name, text):
    """Return an existing file as an edit finds it."""
    (folder / name).write_text(text)
    return Snapshot(text.encode())


@pytest.mark.parametrize(
    ("before", "after", "is_guarded"),
    [
        ('{"scripts": {"a": "b"}}', '{"scripts": {"a": "c"}, "dependencies": {"x": "1"}}', False),
        ('{"simple-git-hooks": {"pre-commit": "a"}}', '{"simple-git-hooks": {"pre-commit": "a"}, "name": "x"}', False),
        ('{"simple-git-hooks": {"pre-commit": "a"}}', '{"simple-git-hooks": {"pre-commit": "b"}}', True),
        ("{}", '{"husky": {"hooks": {}}}', True),
        ('{"lint-staged": {"*.js": "x"}}', "{}", True),
        ("{", '{"name": "x"}', True),
    ],
)
def test_only_the_scripts_of_a_package_json_are_protected(tmp_path, before, after, is_guarded):
    change = Change(tmp_path / "package.json", existing_file(tmp_path, "package.json", before), after.encode())
    assert bool(find_general_refusal_reason(tmp_path, Settings(), change)) == is_guarded


def test_the_codriver_table_is_protected_in_every_spelling_of_pyproject():
    change = Change(WORKSPACE / "PyProject.TOML", MISSING, b"[tool.codriver]\nrepl = ['python']\n")
    assert find_general_refusal_reason(WORKSPACE, Settings(), change)


@pytest.mark.parametrize(
    "name",
    [
        "README.md", "src/main.js", "a.PY", ".gitignore", "sub/.EditorConfig", "codriver.toml.md",
        ".clj-kondo/config.edn", ".clj-kondo/imports/lib/config.edn", ".cljfmt.edn",
        "conftest.py", "project.clj", "deps.edn", "setup.py", "Makefile", "package.json", "tsconfig.json", "config.js",
        "src/build.py", "lefthook.md", "venv.py", "docs/venv/index.md", "shop/config.ts", "Cargo.toml",
    ],
)  # fmt: skip
def test_unprotected_files_can_be_edited(name):
    assert not refusal(name)


def test_alternate_data_streams_do_not_count_as_code_if_evaluation_is_disabled():
    off = Settings(enable_mcp_repl_evaluation=False)
    assert refusal("notes.md:x.py", off)
    assert not refusal("x.PY", off)
