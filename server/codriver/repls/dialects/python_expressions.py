"""Expressions that have a REPL of Python or Hy run a program of ours: its tests, names, and mends of hy-nrepl."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Final

from codriver.repls.programs import Programs, Written, python_text

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def program_of_tests() -> str:
    """The program that runs tests, as a text whose `answer` gives the report of a run."""
    return python_text(
        "python/interrupts.py", "python/run_values.py", "python/unittest_runs.py", "python/executed_tests.py",
        "python/pytest_runs.py", "python/run_answers.py",
    )  # fmt: skip


@cache
def _fresh() -> str:
    return python_text("python/interrupts.py", "python/runs_anew.py")


@cache
def _process() -> str:
    return python_text("python/new_process.py")


def _test() -> str:
    """The expression that runs tests.

    `$ns`, `$name` and `$match` are string literals, empty for all; `$only` lists namespaces with tests; `$root` is the
    folder to run in, empty for the one that the REPL is in; `$words` is `$match` as alternatives of words that all must
    hold, an exclamation mark before what must not.

    The program stands on a line of its own, on which no call begins, as tracebacks and stacks show the line of what
    calls.
    """
    return (
        '[space["answer"]($ns, $name, $match, $words, $only, root=$root)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for _ in [exec(\n{program_of_tests()!r}\n, space)]][0]"
    )


def _test_hy() -> str:
    """The expression in Hy, which runs the same program; its modules are imported and collected as Python's are.

    `$session` is the id of the session whose definitions count too, a string literal.
    """
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(program_of_tests())} space)]\n"
        ' (.loads (__import__ "json") ((get space "answer") $ns $name $match $words $only $session :root $root))) 0)'
    )


def _test_fresh() -> str:
    """The expression that runs the tests in a process of their own: the same program, and nothing of what is loaded."""
    return (
        '[space["run_anew"](process, program, $root, $ns, $name, $match, $words, $only)\n'
        ' for space in [{"__name__": "tests"}]\n'
        f" for process, program in [({_process()!r}, {program_of_tests()!r})]\n"
        f" for _ in [exec(\n{_fresh()!r}\n, space)]][0]"
    )


def _test_fresh_hy() -> str:
    """The expression in Hy. What a session defines is not in a new process."""
    return (
        '(get (lfor\n space [{"__name__" "tests"}]\n'
        f" _ [(exec {json.dumps(_fresh())} space)]\n"
        ' (.loads (__import__ "json") ((get space "run_anew")\n'
        f" {json.dumps(_process())} {json.dumps(program_of_tests())} $root $ns $name $match $words $only))) 0)"
    )


def _hy_names(call: str) -> Callable[[], str]:
    """The expression in Hy that runs a function of the program about names in a namespace of its own.

    `$session` is the id of the session whose definitions count too.
    """

    def expression() -> str:
        code = json.dumps(python_text("hy/hy_names.py"))
        return f'((fn [space] (exec {code} space) {call}) {{"__name__" "names"}})'

    return expression


ASK: Final = Programs({"test": Written(_test), "test-fresh": Written(_test_fresh)})
ASK_HY: Final = Programs(
    {
        "test": Written(_test_hy),
        "test-fresh": Written(_test_fresh_hy),
        "names": Written(_hy_names('((get space "answer") $name $pattern $session)')),
        "glimpse": Written(_hy_names('((get space "glimpse") $name $session)')),
    }
)
"""By capability, as `Dialect.ask` has it."""


def _mend(path: str) -> Written:
    return Written(lambda: f"(exec {json.dumps(python_text(path))} {{}})")


MENDS_HY: Final = (
    _mend("hy/quiet_server.py"), _mend("hy/request_reader.py"), _mend("hy/output_by_context.py"),
)  # fmt: skip
"""To be evaluated one after the other: the first makes room for longer ones."""
