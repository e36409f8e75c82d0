"""Files that no edit may change, by any name for which a file system takes theirs."""

from pathlib import Path

import pytest

from codriver.editing.file_changes import MISSING, Change
from codriver.settings.model import Settings
from codriver.setup.clients import known_clients
from codriver.tools.edit_files import why_not

WORKSPACE = Path("/workspace")


def refusal(name, settings=None):
    return why_not(WORKSPACE, settings or Settings(), Change(WORKSPACE / name, MISSING, b"{}"))


@pytest.mark.parametrize("name", sorted({name for client in known_clients().values() for name in client.workspace}))
def test_the_file_of_no_client_is_edited(name):
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
def test_no_other_spelling_of_a_granting_file_is_edited(name):
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
def test_no_code_that_runs_when_a_person_opens_the_project_or_commits_is_edited(name):
    assert refusal(name)
    assert not refusal(name, Settings(allow_edits_of_client_files=True))


def test_the_table_of_codriver_is_guarded_in_every_spelling_of_the_projects_file():
    change = Change(WORKSPACE / "PyProject.TOML", MISSING, b"[tool.codriver]\nrepl = ['python']\n")
    assert why_not(WORKSPACE, Settings(), change)


@pytest.mark.parametrize(
    "name",
    [
        "README.md", "src/main.js", "a.PY", ".gitignore", "sub/.EditorConfig", "codriver.toml.md",
        ".clj-kondo/config.edn", ".clj-kondo/imports/lib/config.edn", ".cljfmt.edn",
    ],
)  # fmt: skip
def test_other_files_are_edited(name):
    assert not refusal(name)


def test_where_evaluation_is_off_no_stream_of_a_file_is_taken_for_code():
    off = Settings(enable_mcp_repl_evaluation=False)
    assert refusal("notes.md:x.py", off)
    assert not refusal("x.PY", off)
