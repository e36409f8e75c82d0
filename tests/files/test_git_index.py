"""What git tracks is read from its index, whatever the index's version and shape; git itself is never run for it."""

import subprocess

import pytest
from linked_tree import git

from codriver.files.git_index import is_tracked

SHAPES = {
    "version 2": ["update-index", "--index-version", "2"],
    "version 4": ["update-index", "--index-version", "4"],
    "split": ["update-index", "--split-index"],
}
NAMES = ["a.py", ".vscode/settings.json", ".venx/y", "sub/.venv/bin/python", "z/z.py"]


@pytest.fixture(params=["sha1", "sha256"])
def repository(tmp_path, request):
    """Create a repository with some tracked files, and an environment that git does not track."""
    folder = tmp_path / "repository"
    git("init", f"--object-format={request.param}", str(folder))
    for name in (*NAMES, ".venv/bin/python"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    git("-C", str(folder), "add", *NAMES)
    return folder


@pytest.mark.parametrize("shape", SHAPES)
def test_tracked_paths_are_found_in_every_index_format(repository, shape):
    git("-C", str(repository), *SHAPES[shape])
    tracked = [
        name for name in (".venv", ".ven", "sub", "sub/.venv", "z", "a.py", "a") if is_tracked(repository / name)
    ]
    assert tracked == ["sub", "sub/.venv", "z", "a.py"]
    git("-C", str(repository), "add", "--force", ".venv")
    assert is_tracked(repository / ".venv")


def test_a_directory_collapsed_by_a_sparse_index_counts_as_tracked(repository):
    git("-C", str(repository), "add", "--force", ".venv")
    git("-C", str(repository), "commit", "-m", "first")
    git("-C", str(repository), "sparse-checkout", "set", "--cone", "--sparse-index", "sub")
    assert is_tracked(repository / ".venv")
    assert not is_tracked(repository / "venv")


def test_a_linked_working_tree_has_its_own_index(repository, tmp_path):
    git("-C", str(repository), "commit", "-m", "first")
    linked = tmp_path / "linked"
    git("-C", str(repository), "worktree", "add", str(linked))
    git("-C", str(repository), "add", "--force", ".venv")
    assert (is_tracked(repository / ".venv"), is_tracked(linked / ".venv")) == (True, False)
    assert is_tracked(linked / "sub" / ".venv")


def test_a_tracked_symlink_is_found_even_if_its_name_differs_in_case(repository):
    (repository / "env").symlink_to("z")
    git("-C", str(repository), "add", "env")
    assert is_tracked(repository / "env")
    assert is_tracked(repository / "ENV")


def test_nothing_is_tracked_outside_a_repository(tmp_path):
    assert not is_tracked(tmp_path / ".venv")
    git("init", str(tmp_path))
    assert not is_tracked(tmp_path / ".venv")


@pytest.mark.parametrize(
    "damage", [b"", b"DIRC", b"DIRC\0\0\0\x09\0\0\0\x01", None], ids=["empty", "short", "new", "cut"]
)
def test_an_unreadable_index_counts_as_tracking_the_path(repository, damage):
    index = repository / ".git" / "index"
    index.write_bytes(index.read_bytes()[:150] if damage is None else damage)
    assert is_tracked(repository / ".venv")


def test_reading_the_index_runs_no_program_configured_by_the_repository(repository, tmp_path):
    trace = tmp_path / "trace"
    git("-C", str(repository), "config", "core.fsmonitor", f"touch {trace}; false")
    assert not is_tracked(repository / ".venv")
    assert not trace.exists()
    subprocess.run(["git", "-C", str(repository), "status"], check=False, capture_output=True)
    assert trace.exists()
