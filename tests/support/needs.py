"""What a test needs and may not find: each need says what to install, and is skipped without, or fails on CI."""

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
TAKEN_OUT = Path(__file__).parents[1] / "taken_out.txt"
"""The features that `without_features.py` took out of a copy of the product."""
INSTALLED = ("python", "lisp", "basilisp", "hy", "memory")
"""The kinds of REPLs that come with what Codriver's developers install."""


def do_without(words, *, is_expected=True):
    """Fail where everything must be there, skip where a developer may lack something; `words` say what to install.

    What nobody `is_expected` to have, as every Python that there is, is skipped on CI too.
    """
    is_on_ci = os.environ.get("CI") and is_expected
    pytest.fail(words) if is_on_ci else pytest.skip(words, allow_module_level=True)


def features(*names):
    """Skip where a feature was taken out of the product: see `without_features.py`."""
    missing = [name for name in names if find_spec(f"codriver.features.{name}") is None]
    if missing:
        pytest.skip(f"the feature {missing[0]} is taken out", allow_module_level=True)


def every_feature():
    """Skip in a copy of the product from which features were taken out: the test is about all of them."""
    if TAKEN_OUT.exists():
        pytest.skip(f"features are taken out: {TAKEN_OUT.read_text(encoding='utf-8')}")


def program(*names, install, is_expected=True):
    """The path of a program that has one of these names."""
    found = next(filter(None, map(shutil.which, names)), None)
    return found or do_without(f"{names[0]} is not installed: {install}", is_expected=is_expected)


def modules(*names):
    """Go on where all these modules can be imported, which come with what Codriver's developers install."""
    for name in names:
        if find_spec(name) is None:
            do_without(f"{name} is not installed: pip install 'codriver[dev]'")


def missing_node(package=None, file="package.json"):
    """What to install before Node can run this file of a package of `tests/node`; empty where it can."""
    if shutil.which("node") and (package is None or (NODE_MODULES / package / file).exists()):
        return ""
    return "install node" if package is None else f"install node, and run `npm install` in tests/node (for {package})"


def node(package=None, file="package.json"):
    """The path of Node, which has that package of `tests/node`."""
    if words := missing_node(package, file):
        do_without(words)
    return shutil.which("node")


def candidates(name):
    """The paths of PATH and of pyenv at which the interpreter `name` may be, or something that stands for it."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [*filter(None, [shutil.which(name)]), *map(str, pyenv.glob(f"versions/*/bin/{name}"))]


def working(name):
    """The interpreter `name`, of PATH or of pyenv; None where there is none, or only something that stands for one."""
    for path in candidates(name):
        if subprocess.run([path, "-c", "pass"], capture_output=True, check=False, timeout=60).returncode == 0:
            return path
    return None


def interpreter(name):
    """The path of an interpreter; nobody has all."""
    return working(name) or do_without(f"{name} is not installed: pyenv install it", is_expected=False)


def expect_clients(words):
    """Do without other people's clients, which `.ci/run` may have been unable to install."""
    do_without(words, is_expected="CODRIVER_TESTS_WITHOUT_CLIENTS" not in os.environ)


def windows_python():
    """The command of a Python for Windows that has Codriver's dependencies; on Linux one that runs under Wine."""
    command = os.environ.get("CODRIVER_WINDOWS_PYTHON")
    words = "CODRIVER_WINDOWS_PYTHON names no Python for Windows: tests/windows/setup.sh makes one that runs under Wine"
    return shlex.split(command) if command else do_without(words, is_expected=False)


def are_all_that_run():
    """Whether this run is of tests with needs alone, as `.ci/run` asks for where nothing is installed."""
    return os.environ.get("CODRIVER_TESTS") == "needs"


def may_lack_something(item):
    """Whether a test, one of its parameters, or a fixture of the tests that it uses, speaks of what may not be there.

    What is given one kind of REPL after the other asks for those alone that may not be there.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    given = [value for value in params.values() if isinstance(value, str)]
    mark = item.get_closest_marker("served")
    if any(value in PROJECTS or WORDS.fullmatch(value) for value in (*given, *(mark.args if mark else ()))):
        return True
    if any(value in INSTALLED for value in given):
        return False
    fixtures = [one.func for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    return any(map(_says, (item.function, *fixtures)))


@cache
def _says(function):
    """Whether the source of a function of the tests has one of the words; others' are not looked at, as pytest's."""
    code = inspect.unwrap(function).__code__
    return "site-packages" not in code.co_filename and WORDS.search(inspect.getsource(code)) is not None
