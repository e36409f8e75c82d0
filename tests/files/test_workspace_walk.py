"""The walk through a workspace: what it passes over, in which order, and where it ends."""

import os
from pathlib import Path

import pytest

from codriver.files.working_trees import SKIPPED, markers_in, walk


def make(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def seen(root, **limits):
    return [
        (Path(os.path.relpath(path, root)).as_posix(), depth, sorted(entry.name for entry in files))
        for path, depth, files in walk(root, **limits)
    ]


def test_folders_near_the_top_come_first_and_in_order(tmp_path):
    make(tmp_path, "b/deep/x.py", "a/y.py", "top.py")
    assert seen(tmp_path) == [(".", 0, ["top.py"]), ("a", 1, ["y.py"]), ("b", 1, []), ("b/deep", 2, ["x.py"])]


@pytest.mark.parametrize("name", [*sorted(SKIPPED), ".git", ".venv"])
def test_a_folder_that_holds_nothing_of_the_users_own_is_passed_over(tmp_path, name):
    make(tmp_path, f"{name}/x.py", "src/.hidden", "src/y.py")
    assert seen(tmp_path) == [(".", 0, []), ("src", 1, ["y.py"])]


def test_a_file_may_be_called_as_such_a_folder(tmp_path):
    make(tmp_path, "build")
    assert seen(tmp_path) == [(".", 0, ["build"])]


def test_a_link_to_a_folder_is_not_followed(tmp_path):
    make(tmp_path, "src/y.py")
    (tmp_path / "src" / "again").symlink_to(tmp_path)
    assert seen(tmp_path) == [(".", 0, []), ("src", 1, ["again", "y.py"])]


def test_it_goes_no_deeper_and_no_further_than_it_may(tmp_path):
    make(tmp_path, "a/b/c/x.py", "d/y.py")
    assert [path for path, *_ in seen(tmp_path, max_depth=1)] == [".", "a", "d"]
    assert [path for path, *_ in seen(tmp_path, max_entries=2)] == ["."]


def test_a_folder_that_is_gone_has_nothing_in_it(tmp_path):
    assert seen(tmp_path / "gone") == [(".", 0, [])]


def test_the_kinds_of_files_that_are_there_are_told_by_how_their_names_end(tmp_path):
    kinds = {"lisp": (".clj", ".lpy"), "notebook": (".ipynb",)}
    assert markers_in(tmp_path, kinds) == set()
    make(tmp_path, "a/b/x.lpy", ".ipynb_checkpoints/x-checkpoint.ipynb", "a/.hidden.ipynb", "x.ipynb/y")
    assert markers_in(tmp_path, kinds) == {"lisp"}
    make(tmp_path, "a/x.ipynb")
    assert markers_in(tmp_path, kinds) == {"lisp", "notebook"}
    assert markers_in(tmp_path, kinds, max_entries=1) == set()
