"""The walk through a workspace: what it skips, in which order it goes, and where it ends."""

import os
from pathlib import Path

import pytest

from codriver.files.tree_walk import SKIPPED_DIRECTORIES, find_file_kinds, walk


def make(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def seen(root, **limits):
    return [
        (Path(os.path.relpath(path, root)).as_posix(), depth, sorted(entry.name for entry in files))
        for path, depth, files in walk(root, **limits)
    ]


def test_shallow_directories_are_visited_first_in_sorted_order(tmp_path):
    make(tmp_path, "b/deep/x.py", "a/y.py", "top.py")
    assert seen(tmp_path) == [(".", 0, ["top.py"]), ("a", 1, ["y.py"]), ("b", 1, []), ("b/deep", 2, ["x.py"])]


@pytest.mark.parametrize("name", [*sorted(SKIPPED_DIRECTORIES), ".git", ".venv"])
def test_ignored_directories_are_skipped(tmp_path, name):
    make(tmp_path, f"{name}/x.py", "src/.hidden", "src/y.py")
    assert seen(tmp_path) == [(".", 0, []), ("src", 1, ["y.py"])]


def test_a_file_may_have_the_name_of_an_ignored_directory(tmp_path):
    make(tmp_path, "build")
    assert seen(tmp_path) == [(".", 0, ["build"])]


def test_a_link_to_a_directory_is_not_followed(tmp_path):
    make(tmp_path, "src/y.py")
    (tmp_path / "src" / "again").symlink_to(tmp_path)
    assert seen(tmp_path) == [(".", 0, []), ("src", 1, ["again", "y.py"])]


def test_the_walk_stops_at_its_depth_and_entry_limits(tmp_path):
    make(tmp_path, "a/b/c/x.py", "d/y.py")
    assert [path for path, *_ in seen(tmp_path, max_depth=1)] == [".", "a", "d"]
    assert [path for path, *_ in seen(tmp_path, max_entries=2)] == ["."]


def test_walking_a_missing_directory_yields_nothing(tmp_path):
    assert seen(tmp_path / "gone") == [(".", 0, [])]


def test_file_kinds_are_recognized_by_suffix(tmp_path):
    kinds = {"lisp": (".clj", ".lpy"), "notebook": (".ipynb",)}
    assert find_file_kinds(tmp_path, kinds) == set()
    make(tmp_path, "a/b/x.lpy", ".ipynb_checkpoints/x-checkpoint.ipynb", "a/.hidden.ipynb", "x.ipynb/y")
    assert find_file_kinds(tmp_path, kinds) == {"lisp"}
    make(tmp_path, "a/x.ipynb")
    assert find_file_kinds(tmp_path, kinds) == {"lisp", "notebook"}
    assert find_file_kinds(tmp_path, kinds, max_entries=1) == set()
