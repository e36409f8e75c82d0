"""Whether two directories are in two working trees of one repository: with trees made by real git, and with forged
ones.
"""

import os

import posix_only
import pytest
from linked_tree import git

from codriver.files.working_trees import main_checkout, other_working_tree


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Return a directory with the checkout `main`, and its trees `linked`, `third` and `main/trees/inner`, made by
    git.
    """
    folder = tmp_path_factory.mktemp("trees")
    git("init", str(folder / "main"))
    git("-C", str(folder / "main"), "commit", "--allow-empty", "-m", "first")
    for name in ("linked", "third", "main/trees/inner"):
        git("-C", str(folder / "main"), "worktree", "add", str(folder / name))
    (folder / "main" / "src").mkdir()
    return folder


@pytest.fixture
def main(trees):
    return trees / "main"


@pytest.fixture
def linked(trees):
    return trees / "linked"


@pytest.fixture(autouse=True)
def _no_git_is_run(trees, monkeypatch, tmp_path):
    """Put a `git` that leaves a mark first on the path."""
    program, mark = tmp_path / "bin" / "git", tmp_path / "git was run"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    yield
    assert not mark.exists()


def test_the_main_checkout_and_a_linked_tree_are_different_trees(main, linked):
    assert other_working_tree(linked, main) == main
    assert other_working_tree(linked / "no" / "such", main / "src") == main
    assert other_working_tree(main, linked) == linked


def test_a_tree_inside_the_main_checkout_is_a_different_tree(main):
    inner = main / "trees" / "inner"
    assert other_working_tree(inner, main / "src") == main
    assert other_working_tree(main, inner) == inner


def test_linked_trees_differ_from_each_other_but_subdirectories_do_not(main, linked, trees):
    assert other_working_tree(linked, trees / "third") == trees / "third"
    assert other_working_tree(main, main / "src") is None
    assert other_working_tree(linked, linked) is None


def test_another_repository_is_not_another_tree(main, linked, tmp_path):
    (tmp_path / "else" / ".git").mkdir(parents=True)
    (tmp_path / "bare").mkdir()
    for folder in ("else", "bare", "missing"):
        assert other_working_tree(linked, tmp_path / folder) is None
        assert other_working_tree(tmp_path / folder, linked) is None


def test_a_symlink_to_a_tree_is_the_same_tree(main, linked, tmp_path):
    (tmp_path / "short").symlink_to(linked)
    assert other_working_tree(tmp_path / "short", main) == main
    assert other_working_tree(main, tmp_path / "short") == linked
    assert other_working_tree(linked, tmp_path / "short") is None


def claim(folder, text):
    folder.mkdir()
    (folder / ".git").write_bytes(text)
    return folder


def test_a_forged_link_to_a_repository_does_not_make_a_working_tree(main, linked, tmp_path):
    """A forged `.git` that points into a repository of the user, such as an archive may contain."""
    own = next((main / ".git" / "worktrees").iterdir())
    for name, pointer in (("a", own), ("b", own.with_name("none")), ("c", main / ".git"), ("d", own / "..")):
        stranger = claim(tmp_path / name, b"gitdir: " + os.fsencode(pointer))
        assert other_working_tree(stranger, main) is None
        assert other_working_tree(main, stranger) is None
        assert main_checkout(stranger) is None


@pytest.mark.parametrize(
    "text",
    [
        b"", b"gitdir:", b"gitdir: ", b"gitdir: /", b"gitdir: /dev/zero", b"gitdir: worktrees/x", b"\xff\xfe",
        b"gitdir: /a\0b/worktrees/c", b"gitdir: /dev/fd/worktrees/0", b"gitdir: " + b"../" * 1300 + b"x",
        b"gitdir: x\ngitdir: y", b"x" * 9999,
    ],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_a_hostile_git_file_is_harmless(main, tmp_path, text):
    stranger = claim(tmp_path / "stranger", text)
    assert other_working_tree(stranger, main) is None
    assert other_working_tree(main, stranger) is None
    assert main_checkout(stranger) is None


@pytest.mark.parametrize("shape", ["pipe", "link to a file", "link to a repository", "link to itself"])
def test_a_git_path_that_is_not_a_regular_file_is_not_opened(main, linked, tmp_path, shape):
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    if shape == "pipe":
        posix_only.make_pipe(stranger / ".git")
    else:
        targets = {"link to a file": linked / ".git", "link to a repository": main / ".git"}
        (stranger / ".git").symlink_to(targets.get(shape, stranger / ".git"))
    assert other_working_tree(stranger, main) is None
    assert other_working_tree(main, stranger) is None
    assert main_checkout(stranger) is None
