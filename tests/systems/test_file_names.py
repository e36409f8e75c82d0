import os
from pathlib import Path

import pytest

from codriver.systems.file_system import with_spelling_on_disk


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "shapes.py").write_text("")
    return tmp_path


@pytest.mark.parametrize("given", ["src/shapes.py", "src/none.py", "none/shapes.py", "src"])
def test_a_name_that_matches_exactly_or_is_missing_stays_unchanged(directory, given):
    assert with_spelling_on_disk(directory / given, finds_others=True) == directory / given


def test_a_name_that_differs_in_case_is_replaced_by_the_spelling_on_disk(directory, monkeypatch):
    """As on a case-insensitive file system: here a second name that the directory listing leaves out."""
    (directory / "src" / "SHAPES.PY").hardlink_to(directory / "src" / "shapes.py")
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda place: [name for name in listed(place) if name != "SHAPES.PY"])
    assert with_spelling_on_disk(directory / "src" / "SHAPES.PY", finds_others=True) == directory / "src" / "shapes.py"


def test_the_disk_is_not_accessed_on_a_case_sensitive_system(monkeypatch):
    monkeypatch.setattr(os, "listdir", None)
    assert with_spelling_on_disk(Path("/a/B"), finds_others=False) == Path("/a/B")
