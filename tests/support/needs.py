"""Requirements of tests that may be missing: each says what to install; the test is skipped without it, or fails on
CI.
"""

import inspect
import os
import re
import shlex
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

NODE_MODULES = Path(__file__).parents[1] / "node" / "node_modules"
WORDS = re.compile(
    r"(?<![\w.-])((jvm|java|clojure|leiningen|lein|tools\.nrepl|bb|babashka|nbb|squint|npm|npx|ipykernel|xpython|"
    r"deno|ir|chromium|curl|faketime|mount|uv|uvx|gunicorn|uvicorn|flask|jupyter|VENV|browser|real_kernels|real_repls|"
    r"jupyter_servers)(?![\w-])|kernel\(|node\(|\"node\"|--kernel|needs\.|program\(\")"
)
"""Programs and kinds of REPLs, and the helpers by which tests need them."""
PROJECTS = ("deps.edn", "project.clj")
"""Files whose REPL needs such a program; tests that are about reading them name them too."""
REMOVED_FEATURES = Path(__file__).parents[1] / "removed_features.txt"
"""The features that `without_features.py` took out of a copy of the product."""
INSTALLED = ("python", "lisp", "basilisp", "hy", "memory")
"""The kinds of REPLs that come with what Codriver's developers install."""


def do_without(words, *, is_expected=True):
    """Fail if everything must be installed, and skip if a developer may lack something; `words` say what to install.

    What is not expected to be installed anywhere (`is_expected`), such as every version of Python, is skipped on CI
    too.
    """
    is_on_ci = os.environ.get("CI") and is_expected
    pytest.fail(words) if is_on_ci else pytest.skip(words, allow_module_level=True)


def features(*names):
    """Skip if a feature was removed from the product: see `without_features.py`."""
    missing = [name for name in names if find_spec(f"codriver.features.{name}") is None]
    if missing:
        pytest.skip(f"the feature {missing[0]} was removed", allow_module_level=True)


def every_feature():
    """Skip in a copy of the product from which features were removed: the test needs all of them."""
    if REMOVED_FEATURES.exists():
        pytest.skip(f"features were removed: {REMOVED_FEATURES.read_text(encoding='utf-8')}")


def program(*names, install, is_expected=True):
    """Return the path of a program that has one of these names."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or do_without(f"{names[0]} is not installed: {install}", is_expected=is_expected)


def modules(*names):
    """Continue if all these modules can be imported, which are installed for Codriver's developers."""
    for name in names:
        if find_spec(name) is None:
            do_without(f"{name} is not installed: pip install 'codriver[dev]'")


def missing_node(package=None, file="package.json"):
    """Return what to install before Node can run this file of a package of `tests/node`; empty if nothing is
    missing.
    """
    if shutil.which("node") and (package is None or (NODE_MODULES / package / file).exists()):
        return ""
    return "install node" if package is None else f"install node, and run `npm install` in tests/node (for {package})"


def node(package=None, file="package.json"):
    """Return the path of Node, if that package of `tests/node` is installed."""
    if words := missing_node(package, file):
        do_without(words)
    return shutil.which("node")


def candidates(name):
    """Return the paths, of PATH and of pyenv, where the interpreter `name` or a shim for it may be."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [*filter(None, [shutil.which(name)]), *map(str, pyenv.glob(f"versions/*/bin/{name}"))]


def working(name):
    """Return the interpreter `name` of PATH or of pyenv; None if there is none, or only a shim that cannot run it."""
    for path in candidates(name):
        if subprocess.run([path, "-c", "pass"], capture_output=True, check=False, timeout=60).returncode == 0:
            return path
    return None


def interpreter(name):
    """Return the path of an interpreter. No machine is expected to have all of them."""
    return working(name) or do_without(f"{name} is not installed: pyenv install it", is_expected=False)


def expect_clients(words):
    """Skip if third-party clients are missing, which `.ci/run` may have been unable to install."""
    do_without(words, is_expected="CODRIVER_TESTS_WITHOUT_CLIENTS" not in os.environ)


def windows_python():
    """Return the command of a Python for Windows that has Codriver's dependencies; on Linux it runs under Wine."""
    command = os.environ.get("CODRIVER_WINDOWS_PYTHON")
    words = "CODRIVER_WINDOWS_PYTHON names no Python for Windows: tests/windows/setup.sh makes one that runs under Wine"
    return shlex.split(command) if command else do_without(words, is_expected=False)


def runs_only_tests_with_requirements():
    """Return whether only tests with requirements run, as `.ci/run` requests where nothing is installed."""
    return os.environ.get("CODRIVER_TESTS") == "needs"


def may_lack_something(item):
    """Return whether a test, one of its parameters or one of its fixtures mentions something that may be missing.

    A test that is parametrized over kinds of REPL depends only on those that may be missing.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    given = [value for value in params.values() if isinstance(value, str)]
    mark = item.get_closest_marker("served")
    if any(value in PROJECTS or WORDS.fullmatch(value) for value in (*given, *(mark.args if mark else ()))):
        return True
    if any(value in INSTALLED for value in given):
        return False
    fixtures = [element.func for found in item._fixtureinfo.name2fixturedefs.values() for element in found]
    return any(map(_mentions, (item.function, *fixtures)))


@cache
def _mentions(function):
    """Return whether the source of a test's function contains one of the words. Functions of pytest are ignored."""
    code = inspect.unwrap(function).__code__
    return "site-packages" not in code.co_filename and WORDS.search(inspect.getsource(code)) is not None
