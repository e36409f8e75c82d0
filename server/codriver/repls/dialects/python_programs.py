"""Codriver's Python programs for Python and Hy REPLs: tests, lists of names, and fixes for hy-nrepl."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Final

from codriver.repls.programs import GeneratedCode, Programs, join_python_modules

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def test_program_source() -> str:
    """Return the source of the program that runs tests. Its function `answer` returns the report."""
    return join_python_modules("python/run_values.py", "python/pytest_runs.py", "python/run_answers.py")


@cache
def _process_starter() -> str:
    return join_python_modules("python/run_values.py", "python/new_process_launch.py")


@cache
def _process() -> str:
    return join_python_modules("python/new_process.py")


def _test() -> str:
    """Return the expression that runs tests in a new process, which does not have the code loaded in the REPL.

    `$ns`, `$name` and `$match` are string literals, empty for no restriction. `$only` lists namespaces with tests.
    `$root` is the directory to run in, or empty for the REPL's own. `$words` is `$match` split into alternatives, each
    a list of words that must all match. Words that must not match start with an exclamation mark.

    The program is on its own line, because tracebacks and stacks display the line of a call.
    """
    return (
        '[space["run_in_new_process"](process, program, $root, $ns, $name, $match, $words, $only)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for process, program in [({_process()!r}, {test_program_source()!r})]\n"
        f" for _ in [exec(\n{_process_starter()!r}\n, space)]][0]"
    )


def _test_hy() -> str:
    """Return the Hy expression that runs tests in the REPL itself, with the same program.

    `$session` is the id of the session whose definitions are included.
    """
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(test_program_source())} space)]\n"
        ' (.loads (__import__ "json") ((get space "answer") $ns $name $match $words $only $session :root $root))) 0)'
    )


def _hy_names_expression(call: str) -> Callable[[], str]:
    """Return a function that creates the Hy expression for a call to the program that lists names.

    `$session` is the id of the session whose definitions are included.
    """

    def expression() -> str:
        code = json.dumps(join_python_modules("hy/hy_names.py"))
        return f'((fn [space] (exec {code} space) {call}) {{"__name__" "names"}})'

    return expression


PYTHON_EXPRESSIONS: Final = Programs({"test": GeneratedCode(_test)})


HY_EXPRESSIONS: Final = Programs(
    {
        "test": GeneratedCode(_test_hy),
        "names": GeneratedCode(_hy_names_expression('((get space "answer") $name $pattern $session)')),
        "glimpse": GeneratedCode(_hy_names_expression('((get space "describe_value") $name $session)')),
    }
)
"""The programs for each capability. See `Dialect.expressions`."""


def _fix(path: str) -> GeneratedCode:
    return GeneratedCode(lambda: f"(exec {json.dumps(join_python_modules(path))} {{}})")


HY_FIXES: Final = (_fix("hy/request_reader.py"), _fix("hy/output_by_context.py"))
"""Fixes for hy-nrepl, in order."""
