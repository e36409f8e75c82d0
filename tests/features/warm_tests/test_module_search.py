"""The search for top-level modules finds what importlib finds."""

import importlib
import random
import sys
from importlib.machinery import PathFinder

import pytest

from codriver.features.warm_tests.child.module_search import ModuleSearch

SUFFIXES = [".py", ".pyc", ".abi3.so", ".txt", "", "/__init__.py", "/__init__.pyc", "/other.py"]
NAMES = ["a", "b", "c"]


def reference(name):
    """Return the file that importlib would load, or None."""
    spec = PathFinder.find_spec(name)
    return spec.origin if spec is not None and spec.loader is not None else None


@pytest.mark.parametrize("seed", range(200))
def test_random_directories_are_searched_as_importlib_does(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    directories = [tmp_path / str(number) for number in range(3)]
    for directory in directories:
        directory.mkdir()
        for _ in range(draw.randrange(4)):
            path = directory / f"{draw.choice(NAMES)}{draw.choice(SUFFIXES)}"
            if not path.exists() and not path.parent.is_file():
                path.parent.mkdir(exist_ok=True)
                path.touch()
    paths = [str(tmp_path / "missing"), *map(str, directories), f"{tmp_path}/0/", str(tmp_path / "0" / "a.py")]
    draw.shuffle(paths)
    monkeypatch.setattr(sys, "path", paths)
    importlib.invalidate_caches()
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".py", ".pyc", ".so")]
    origins = [str(path) for path in files]
    known = {}
    for _ in range(2):
        search = ModuleSearch(known, None)
        for name in NAMES:
            assert [origin for origin in origins if search.finds(name, origin)] == [
                origin for origin in origins if origin == reference(name)
            ]
            assert search.finds_any(name) == (PathFinder.find_spec(name) is not None)
        (directories[0] / f"{draw.choice(NAMES)}.py").touch()
        importlib.invalidate_caches()


def test_every_module_of_this_environment_is_found():
    search = ModuleSearch({}, None)
    files = {name: reference(name) for name in [*sys.stdlib_module_names, "pytest", "anyio", "mcp", "codriver"]}
    found = {name: file for name, file in files.items() if file}
    assert len(found) > 150
    assert [name for name, file in found.items() if not search.finds(name, file)] == []


def test_only_finders_that_importlib_asks_first_are_listed(monkeypatch):
    class Finder:
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            return None

    first, hook, last = type("First", (Finder,), {}), type("Hook", (Finder,), {}), type("Last", (Finder,), {})
    monkeypatch.setattr(sys, "meta_path", [first, hook, object(), PathFinder, last])
    assert ModuleSearch({}, hook).earlier_finders == [first]
