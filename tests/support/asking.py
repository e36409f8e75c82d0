"""The tests that speak of what may not be installed: a run of these alone, where nothing is, shows that each skips."""

import inspect
import os
import re
from functools import cache

WORDS = re.compile(
    r"(?<![\w.-])((jvm|java|clojure|leiningen|lein|tools\.nrepl|bb|babashka|nbb|squint|node|npm|npx|ipykernel|xpython|"
    r"deno|ir|chromium|curl|faketime|mount|uv|uvx|gunicorn|uvicorn|flask|jupyter|VENV|browser|real_kernels|real_repls|"
    r"jupyter_servers)(?![\w-])|kernel\(|--kernel|needs\.|program\(\")"
)
"""Programs and kinds of REPLs, and the helpers by which tests need them."""
PROJECTS = ("deps.edn", "project.clj")
"""Files whose REPL needs such a program; tests that are about reading them name them too."""
INSTALLED = ("python", "lisp", "basilisp", "hy", "memory")
"""The kinds of REPLs that come with what Codriver's developers install."""


def are_wanted():
    """Whether this run is of those alone, as `.ci/run` asks for where nothing is installed."""
    return os.environ.get("CODRIVER_TESTS") == "needs"


def asks(item):
    """Whether a test, one of its parameters, or a fixture of the tests that it uses, says one of the words.

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
