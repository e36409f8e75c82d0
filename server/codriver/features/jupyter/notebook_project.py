"""Recognize directories with notebooks, for which `codriver init` suggests a kernel instead of a plain Python REPL."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.features.jupyter.kernel_kind import KERNEL_KIND
from codriver.files import FileRules, Links
from codriver.files.tree_walk import walk_files
from codriver.repls import kinds
from codriver.repls.launch.projects import MAX_CHECKED_SOURCES, find_python, new_project
from codriver.wire.untrusted import mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.launch.projects import Project

NOTEBOOK_RULES: Final = FileRules(Links.WITHIN, 4 * files.MEBIBYTE)


def notebook_project(workspace: Path, environ: Mapping[str, str]) -> Project | None:
    """Return the project for a directory of Python notebooks whose interpreter has ipykernel.

    Return None if there is no such interpreter, or if the directory contains source files or notebooks in other
    languages.
    """
    if (
        next(walk_files(workspace, (".py", *kinds.non_python_suffixes()), max_entries=MAX_CHECKED_SOURCES), None)
        is not None
    ):
        return None
    notebook = next(walk_files(workspace, (".ipynb",), max_entries=MAX_CHECKED_SOURCES), None)
    if notebook is None or _notebook_language(notebook, workspace) not in {"", "python"}:
        return None
    python = find_python(workspace, environ).path
    if find_spec("jupyter_client") is None or not _has_module("ipykernel_launcher", python):
        return None
    return new_project(KERNEL_KIND, notebook.relative_to(workspace).as_posix())


def _notebook_language(notebook: Path, workspace: Path) -> str:
    """Return a notebook's language in lower case, or an empty string if it is unknown."""
    try:
        found = json.loads(files.read_text(notebook, NOTEBOOK_RULES, root=workspace) or "{}")
    except (OSError, ValueError, RecursionError):
        return ""
    metadata = mapping_at(found, "metadata")
    named = text_at(mapping_at(metadata, "language_info"), "name")
    return (named or text_at(mapping_at(metadata, "kernelspec"), "language")).lower()


def _has_module(name: str, python: str) -> bool:
    """Return whether a module is installed for an interpreter.

    The interpreter is not run, because it may be part of an untrusted checkout.
    """
    if python == sys.executable:
        return find_spec(name) is not None
    homes = {Path(python).parent.parent, Path(os.path.realpath(python)).parent.parent, Path.home() / ".local"}
    patterns = ("lib/python3*/*-packages", "local/lib/python3*/*-packages", "Lib/site-packages")
    directories = (directory for home in homes for pattern in patterns for directory in home.glob(pattern))
    return any((directory / f"{name}.py").is_file() for directory in directories)
