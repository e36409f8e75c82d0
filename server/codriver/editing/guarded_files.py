"""Detect files that other programs run or obey automatically, such as git hooks and build scripts.

These are the files named in the tables of this module, hidden files, and everything in a Python environment. The list
is fixed, so that it can be documented exactly. Python and Lisp files are guarded only if they are hidden or in an
environment, because the tools are made for editing them.
"""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import normalize_file_name

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.editing.file_changes import Change

SETTINGS_FILE: Final = "codriver.toml"
PYPROJECT_FILE: Final = "pyproject.toml"
PACKAGE_JSON_FILE: Final = "package.json"
NODE_HOOK_KEYS: Final = ("simple-git-hooks", "husky", "lint-staged", "gitHooks", "pre-commit", "pre-push", "yorkie")
"""Keys of package.json that specify programs for git hooks."""
VENV_MARKER_FILE: Final = "pyvenv.cfg"
"""The file that marks a directory as a Python environment."""

CLIENT_FILES: Final = frozenset(
    {"opencode.json", "opencode.jsonc", "crush.json", "kilo.json", "kilo.jsonc", "gemini-extension.json"}
)
"""Names of visible files that specify servers and hooks for clients to run."""
HOOK_FILES: Final = ("prek", "lefthook", "lefthook-local", "simple-git-hooks", "captainhook", "grumphp")
"""Names of git hook managers' files, without suffixes."""
DATA_SUFFIXES: Final = frozenset({".json", ".jsonc", ".toml", ".yml", ".yaml", ".js", ".cjs", ".mjs", ".ts", ".dist"})
"""Suffixes that git hook managers' files may have."""
CI_FILES: Final = frozenset(
    {
        "jenkinsfile", "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", "appveyor.yml",
        "appveyor.yaml", "cloudbuild.yml", "cloudbuild.yaml", "buildspec.yml", "buildspec.yaml", "codefresh.yml",
        "codemagic.yaml", "bitrise.yml", "wercker.yml", "screwdriver.yaml", "action.yml", "action.yaml", "netlify.toml",
        "vercel.json", "render.yaml",
    }
)  # fmt: skip
"""Files of CI and deployment services, in lower case. Most others are hidden."""
SHELL_SETUP_FILES: Final = frozenset(
    {
        "flake.nix", "shell.nix", "default.nix", "devenv.nix", "devenv.yaml", "devbox.json", "mise.toml",
        "mise.local.toml",
    }
)  # fmt: skip
"""Files of tools that set up a shell or an editor when somebody enters the project."""
BUILD_FILES: Final = frozenset(
    {
        "build.rs", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "build.sbt",
        "build.zig",
    }
)  # fmt: skip
"""Names of build scripts that a language server runs to load a project."""
EDITOR_PROJECT_SUFFIXES: Final = frozenset({".code-workspace", ".sublime-project", ".sublime-workspace"})
"""Suffixes of editors' project files, which can contain commands."""
CONFIG_SUFFIXES: Final = frozenset({".js", ".cjs", ".mjs", ".ts", ".cts", ".mts"})
"""Suffixes of `NAME.config.SUFFIX` files, which linters, formatters and build tools run, also in editors."""

HARMLESS_FILES: Final = frozenset(
    {".gitignore", ".gitattributes", ".editorconfig", ".dockerignore", ".npmignore", ".cljfmt.edn"}
)
"""Names of hidden files that cannot make a program run."""
LINTER_DIRECTORY: Final = ".clj-kondo"
"""Directory of clj-kondo's settings, which are EDN data, and of its hooks, which are code that editors run."""


def guard_reason(workspace: Path, change: Change) -> str:
    """Return the reason why a change to a file in the workspace needs permission, or "" if it does not.

    Blocks on disk I/O.
    """
    name = normalize_file_name(change.path.name)
    parts = tuple(map(normalize_file_name, change.path.relative_to(workspace).parts))
    if name == SETTINGS_FILE:
        return "the settings in this file control what Codriver may do"
    if name == PYPROJECT_FILE and _codriver_table(change.before.data) != _codriver_table(change.after):
        return "the table tool.codriver in this file controls what Codriver may do"
    if name == PACKAGE_JSON_FILE and _node_hooks(change.before.data) != _node_hooks(change.after):
        return f"this file configures programs that git runs for a commit ({', '.join(NODE_HOOK_KEYS[:3])}, …)"
    hidden = [part for part in parts if part.startswith(".") and part not in HARMLESS_FILES]
    if hidden and not (hidden == [LINTER_DIRECTORY] and PurePath(name).suffix == ".edn"):
        return f"{hidden[0]} is hidden, and hidden files may configure which programs clients and tools run"
    if name in CLIENT_FILES:
        return "this file configures servers and hooks that a client runs"
    if _is_in_environment(workspace, change.path, parts):
        return "this file is in a Python environment, whose programs are run by shells and editors"
    return _reason_by_name(name)


def _reason_by_name(name: str) -> str:
    path = PurePath(name)
    if path.suffix in DATA_SUFFIXES and name.partition(".")[0] in HOOK_FILES:
        return "this file configures programs that git runs for a commit"
    if name in CI_FILES or name.startswith("jenkinsfile."):
        return "CI runs the commands in this file"
    if name in SHELL_SETUP_FILES:
        return "a shell or an editor runs the commands in this file when a person enters the project"
    if path.suffix in EDITOR_PROJECT_SUFFIXES:
        return "an editor runs the commands in this file when a person opens the project"
    if name in BUILD_FILES or (path.suffix in CONFIG_SUFFIXES and path.stem.endswith(".config")):
        return "editors and language servers run this file when a person opens the project"
    return ""


def _is_in_environment(workspace: Path, path: Path, parts: tuple[str, ...]) -> bool:
    """Return whether a file is in a virtual environment, judging by its marker file or its usual name."""
    if path.name == VENV_MARKER_FILE:
        return True
    if any(part == "venv" and parts[index + 1] in {"bin", "scripts", "lib"} for index, part in enumerate(parts[:-1])):
        return True
    above = path.relative_to(workspace).parents[:-1]  # files in a workspace that is itself an environment can be edited
    return any((workspace / directory / VENV_MARKER_FILE).exists() for directory in above)


def _codriver_table(data: bytes | None) -> object:
    """Return the table `tool.codriver` from a pyproject.toml, or the whole text if it cannot be parsed."""
    import tomllib  # noqa: PLC0415  # half a megabyte, which a workspace without such a file spares

    try:
        document = tomllib.loads((data or b"").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return data
    tool = document.get("tool")
    return tool.get("codriver") if isinstance(tool, dict) else tool


def _node_hooks(data: bytes | None) -> object:
    """Return the git hooks in a package.json, or the whole text if it cannot be parsed."""
    try:
        document = json.loads((data or b"{}").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return data
    return {key: document[key] for key in NODE_HOOK_KEYS if key in document} if isinstance(document, dict) else document
