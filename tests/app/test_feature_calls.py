"""A feature that an evaluation does not use costs it at most two calls, whatever the speed of the machine."""

import ast
import inspect
from collections import Counter

import needs
from counted_calls import ROUNDS, count_calls_of_features

from codriver.tools import evaluate_code
from codriver.tools.calls import hooks

MAX_CALLS = 2
"""Of functions of a feature, by the base, for one evaluation. They find out that there is nothing to do."""
CALLED = {"handoff": 2, "jupyter": 1, "run": 2}
"""`handoff` stores the code for notes on conflicts, `jupyter` checks for a cell, and `run` twice for programs."""
CALLED_WITHIN = {"handoff": 2, "run": 1}
"""Calls of the features' own functions by those."""


def test_an_idle_feature_adds_at_most_two_calls_to_an_evaluation(tmp_path):
    needs.every_feature()
    from_base, within = count_calls_of_features(tmp_path)
    assert {name: count / ROUNDS for name, count in from_base.items()} == CALLED
    assert {name: count / ROUNDS for name, count in within.items()} == CALLED_WITHIN
    assert max(CALLED.values()) <= MAX_CALLS


def test_evaluate_code_calls_the_hooks_of_features_at_most_three_times():
    names = {name for name, value in vars(hooks).items() if getattr(value, "__module__", "") == hooks.__name__}
    calls = Counter(
        function.name
        for function in ast.parse(inspect.getsource(evaluate_code)).body
        if isinstance(function, ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr == "hooks")
    )
    assert calls["evaluate_code"] == 2
    assert max(calls.values()) <= 3
